//! `fragmentation.svg`: where the reserved bytes are over time, by cause.
//!
//! Owns the layers and their names; which byte has which cause is in the timeline's data, and `draw` does the
//! drawing.

use super::palette::{
    ALLOCATED, Ink, OTHER_STREAM, PENDING, PRIVATE_POOL, RELEASABLE, RESERVED, ROUNDING, STRANDED,
};
use super::picture::{Curve, Layer, Note, Picture, near_device_bytes};
use crate::report::types::{ByCause, DeviceReport, Fragmentation, Timeline, TraceReport};
use crate::report::verdict;
use crate::units::{Bytes, percent};

/// Where the reserved bytes of `device` are.
pub(super) fn picture<'a>(trace: &TraceReport, device: &'a DeviceReport) -> Picture<'a> {
    let timeline = &device.timeline;
    let (moment, at) = verdict::telling_fragmentation(device);
    let moment = if moment == "at the peak" { "at the peak of reserved bytes" } else { moment };
    let subtitle = format!("{moment}: {}", split(at));
    Picture {
        title: super::title("Reserved memory and its holes", trace, device),
        description: format!(
            "Reserved bytes over time as a stack: what was asked for, then the rest by cause: rounding, frees that \
             wait for another stream, split remainders that a block in use pins, free on other streams, free in \
             private pools, releasable cache (wholly free segments). {subtitle}."
        ),
        subtitle,
        timeline,
        layers: layers(timeline),
        curves: vec![reserved(timeline)],
        device_bytes: near_device_bytes(device.total_bytes, timeline),
        steps: device.steps.count,
        across: None,
        counts: "event",
    }
}

/// How much of the reserved bytes was not asked for, and the cause of most of it.
fn split(at: &Fragmentation) -> String {
    let rest = at.reserved_bytes.saturating_sub(at.requested_bytes);
    let share = percent(rest, at.reserved_bytes);
    let mut text =
        format!("{} of {} reserved was not asked for ({share})", Bytes(rest), Bytes(at.reserved_bytes));
    if let Some((cause, bytes)) = at.by_cause.named().into_iter().rev().max_by_key(|(_, bytes)| *bytes)
        && bytes > 0
    {
        text.push_str(&format!(", {} of it {cause}", Bytes(bytes)));
    }
    text
}

/// Bottom first. A cause without a byte would only take room in the legend.
fn layers(timeline: &Timeline) -> Vec<Layer> {
    let cause =
        |name, ink, of: fn(&ByCause) -> u64| layer(name, ink, timeline.by_cause.iter().map(of).collect());
    let causes = timeline.by_cause.iter().zip(&timeline.allocated);
    let requested =
        causes.map(|(causes, allocated)| allocated.saturating_sub(causes.rounding_bytes)).collect();
    let mut layers = vec![
        layer("asked for", ALLOCATED, requested),
        cause("rounding: blocks are larger", ROUNDING, |of| of.rounding_bytes),
        cause("freed, waits for a stream", PENDING, |of| of.pending_free_bytes),
        cause("remainder, pinned by a block", STRANDED, |of| of.split_remainder_bytes),
        cause("free on other streams", OTHER_STREAM, |of| of.other_stream_bytes),
        cause("free in private pools", PRIVATE_POOL, |of| of.private_pool_bytes),
        cause("cache: wholly free segments", RELEASABLE, |of| of.releasable_cache_bytes),
    ];
    layers.retain(|layer| layer.values.iter().any(|&bytes| bytes > 0));
    layers
}

fn layer(name: &str, ink: Ink, values: Vec<u64>) -> Layer {
    let most = values.iter().copied().max().unwrap_or(0);
    let at_end = Bytes(values.last().copied().unwrap_or(0));
    let note = Note::bytes(most, &format!("most, {at_end} at the end"));
    Layer { name: name.to_owned(), note, values, ink }
}

fn reserved(timeline: &Timeline) -> Curve {
    let most = timeline.reserved.iter().copied().max().unwrap_or(0);
    Curve {
        name: "reserved".to_owned(),
        note: Note::bytes(most, "at most"),
        values: timeline.reserved.clone(),
        ink: RESERVED,
        width: 2,
    }
}
