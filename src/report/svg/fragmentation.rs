//! `fragmentation.svg`: where the reserved bytes are over time.
//!
//! Owns the split into allocated, pending, stranded and releasable; `draw` does the drawing.

use super::palette::{ALLOCATED, Ink, PENDING, RELEASABLE, RESERVED, STRANDED};
use super::picture::{Curve, Layer, Picture, near_device_bytes};
use crate::report::types::{DeviceReport, Timeline, TraceReport};
use crate::report::verdict;
use crate::units::{Bytes, percent};

/// Where the reserved bytes of `device` are.
pub(super) fn picture<'a>(trace: &TraceReport, device: &'a DeviceReport) -> Picture<'a> {
    let timeline = &device.timeline;
    let (moment, at) = verdict::telling_fragmentation(device);
    let moment = if moment == "at the peak" { "at the peak of reserved bytes" } else { moment };
    let free = verdict::free_bytes(at);
    let subtitle = format!(
        "{moment}: {} of {} reserved is free ({}), {} of it stranded",
        Bytes(free),
        Bytes(at.reserved_bytes),
        percent(free, at.reserved_bytes),
        Bytes(at.stranded_bytes)
    );
    Picture {
        title: super::title("Reserved memory and its holes", trace, device),
        description: format!(
            "Reserved bytes over time as a stack: allocated, waiting for another stream, stranded (free in a \
             segment that a live block pins), releasable (free segments). {subtitle}."
        ),
        subtitle,
        timeline,
        layers: layers(timeline),
        curves: vec![reserved(timeline)],
        device_bytes: near_device_bytes(device.total_bytes, timeline),
    }
}

fn layers(timeline: &Timeline) -> Vec<Layer> {
    let pending: Vec<u64> =
        timeline.active.iter().zip(&timeline.allocated).map(|(a, b)| a.saturating_sub(*b)).collect();
    let mut layers = vec![layer("allocated", &timeline.allocated, ALLOCATED)];
    if pending.iter().any(|&bytes| bytes > 0) {
        layers.push(layer("freed, waits for a stream", &pending, PENDING));
    }
    layers.push(layer("stranded: free, but pinned", &timeline.stranded, STRANDED));
    layers.push(layer("releasable: free segments", &timeline.releasable, RELEASABLE));
    layers
}

fn layer(name: &str, values: &[u64], ink: Ink) -> Layer {
    let most = values.iter().copied().max().unwrap_or(0);
    let note = format!("at most {}, {} at the end", Bytes(most), Bytes(values.last().copied().unwrap_or(0)));
    Layer { name: name.to_owned(), note, values: values.to_vec(), ink }
}

fn reserved(timeline: &Timeline) -> Curve {
    let most = timeline.reserved.iter().copied().max().unwrap_or(0);
    Curve {
        name: "reserved".to_owned(),
        note: format!("at most {}", Bytes(most)),
        values: timeline.reserved.clone(),
        ink: RESERVED,
        width: 2,
    }
}
