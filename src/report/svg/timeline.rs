//! `timeline.svg`: which lines held the memory over time, and what was reserved above it.
//!
//! Owns the choice of layers, names and notes; `draw` does the drawing.

use super::palette::{BANDS, FREE, Ink, OTHER, RESERVED, UNKNOWN, WAITING};
use super::picture::{Curve, Layer, Note, Picture, near_device_bytes, peak_sample};
use crate::report::types::{DeviceReport, Timeline, TraceReport};
use crate::report::verdict;
use crate::units::percent;

/// The timeline of `device`.
pub(super) fn picture<'a>(trace: &TraceReport, device: &'a DeviceReport) -> Picture<'a> {
    let timeline = &device.timeline;
    Picture {
        title: super::title("Allocated memory by line", trace, device),
        subtitle: verdict::headline(device),
        description: describe(device),
        timeline,
        layers: layers(timeline),
        curves: vec![reserved(timeline)],
        device_bytes: near_device_bytes(device.total_bytes, timeline),
        steps: device.steps.count,
        across: None,
        counts: "event",
    }
}

fn reserved(timeline: &Timeline) -> Curve {
    Curve {
        name: "reserved".to_owned(),
        note: Note::bytes(highest(&timeline.reserved), "at most"),
        values: timeline.reserved.clone(),
        ink: RESERVED,
        width: 2,
    }
}

pub(super) fn highest(values: &[u64]) -> u64 {
    values.iter().copied().max().unwrap_or(0)
}

/// The bands of the timeline, then what is pending and what is unused. The last two bands are the named
/// remainders; lines without a colour of their own join the first of them.
fn layers(timeline: &Timeline) -> Vec<Layer> {
    let count = timeline.bands.len().min(timeline.band_names.len());
    let lines = count.saturating_sub(2);
    let mut layers = Vec::new();
    let mut surplus: Vec<u64> = Vec::new();
    for (index, (name, values)) in timeline.band_names.iter().zip(&timeline.bands).enumerate() {
        let mut values = values.clone();
        let ink = match index {
            index if index + 1 == count => UNKNOWN,
            index if index >= lines => {
                add(&mut values, &surplus);
                OTHER
            }
            index => {
                let Some(ink) = BANDS.get(timeline.rank(index)) else {
                    surplus.resize(values.len().max(surplus.len()), 0);
                    add(&mut surplus, &values);
                    continue;
                };
                *ink
            }
        };
        // The remainders always come, but a layer without a byte would only take room in the legend.
        if values.iter().any(|&bytes| bytes > 0) {
            layers.push(Layer { name: name.clone(), note: note(timeline, &values), values, ink });
        }
    }
    if timeline.active != timeline.allocated {
        layers.push(between("freed, waits for a stream", &timeline.active, &timeline.allocated, WAITING));
    }
    layers.push(between("reserved, not in use", &timeline.reserved, &timeline.active, FREE));
    layers
}

impl Timeline {
    /// Rank of the line of band `index`, by which it is coloured.
    fn rank(&self, index: usize) -> usize {
        self.band_ranks.get(index).map_or(index, |&rank| rank as usize)
    }
}

pub(super) fn add(sum: &mut [u64], values: &[u64]) {
    for (sum, value) in sum.iter_mut().zip(values) {
        *sum = sum.saturating_add(*value);
    }
}

pub(super) fn note(timeline: &Timeline, values: &[u64]) -> Note {
    let Some(sample) = peak_sample(timeline) else {
        return Note::default();
    };
    let held = values.get(sample).copied().unwrap_or(0);
    Note::bytes(held, &format!("at the peak, {}", percent(held, timeline.allocated[sample])))
}

/// What stands between two curves.
pub(super) fn between(name: &str, upper: &[u64], lower: &[u64], ink: Ink) -> Layer {
    let values: Vec<u64> = upper.iter().zip(lower).map(|(u, l)| u.saturating_sub(*l)).collect();
    Layer { name: name.to_owned(), note: Note::bytes(highest(&values), "at most"), values, ink }
}

fn describe(device: &DeviceReport) -> String {
    let timeline = &device.timeline;
    let bands = timeline.band_names.len();
    let axis = if timeline.x_is_time { "time" } else { "events" };
    format!(
        "Bytes over {axis}, stacked in {bands} bands by line of code, with reserved bytes above. {}. \
         Each pixel column shows the lowest and the highest value of its events.",
        verdict::headline(device)
    )
}
