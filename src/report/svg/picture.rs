//! What a picture shows, before it is drawn: stacked layers, curves above them, marks, words.
//!
//! Owns layout constants and the shape shared by the timeline and the fragmentation picture. Knows neither
//! plotters nor SVG.

use super::axis::Ticks;
use super::outline::Grid;
use super::palette::Ink;
use crate::report::types::{Timeline, TimelineMark};

pub(super) const WIDTH: i32 = 1000;
pub(super) const HEIGHT: i32 = 540;
/// Left edge of the plot.
pub(super) const LEFT: i32 = 72;
/// Upper edge of the plot.
pub(super) const TOP: i32 = 94;
pub(super) const COLUMNS: i32 = 656;
pub(super) const ROWS: i32 = 392;

/// A filled band.
pub(super) struct Layer {
    /// Name in the legend.
    pub(super) name: String,
    /// Second line in the legend.
    pub(super) note: String,
    /// Bytes at each sample, without the layers below.
    pub(super) values: Vec<u64>,
    pub(super) ink: Ink,
}

/// A line above the layers.
pub(super) struct Curve {
    pub(super) name: String,
    pub(super) note: String,
    pub(super) values: Vec<u64>,
    pub(super) ink: Ink,
    pub(super) width: u32,
}

/// A picture.
pub(super) struct Picture<'a> {
    pub(super) title: String,
    pub(super) subtitle: String,
    pub(super) description: String,
    pub(super) timeline: &'a Timeline,
    /// Bottom first.
    pub(super) layers: Vec<Layer>,
    pub(super) curves: Vec<Curve>,
    /// Size of the device where it is near enough to be shown.
    pub(super) device_bytes: Option<u64>,
}

impl Picture<'_> {
    /// The grid of this picture: up to the highest curve and a little more.
    pub(super) fn grid(&self) -> Grid {
        let totals = self.stacked();
        let highest = self.curves.iter().map(|curve| &curve.values).chain(totals.last());
        let highest = highest.flatten().copied().max().unwrap_or(0);
        let y_end = highest.max(self.device_bytes.unwrap_or(0)).max(1);
        let x_end = self.timeline.x.last().copied().unwrap_or(0).max(self.timeline.x_end).max(1);
        Grid {
            x_end: x_end as f64,
            y_end: y_end as f64 * 1.04,
            columns: f64::from(COLUMNS),
            rows: f64::from(ROWS),
        }
    }

    /// Upper edges of the layers, bottom first.
    pub(super) fn stacked(&self) -> Vec<Vec<u64>> {
        let mut below = vec![0u64; self.timeline.x.len()];
        let mut edges = Vec::with_capacity(self.layers.len());
        for layer in &self.layers {
            for (sum, value) in below.iter_mut().zip(&layer.values) {
                *sum = sum.saturating_add(*value);
            }
            edges.push(below.clone());
        }
        edges
    }

    pub(super) fn x_ticks(&self, grid: &Grid) -> Ticks {
        if self.timeline.x_is_time { Ticks::time(grid.x_end) } else { Ticks::events(grid.x_end) }
    }

    pub(super) fn marks(&self, kind: &str) -> Vec<&TimelineMark> {
        self.timeline.marks.iter().filter(|mark| mark.kind == kind).collect()
    }
}

/// The device's size, where the curves come near enough for a line to tell something.
pub(super) fn near_device_bytes(total: Option<u64>, timeline: &Timeline) -> Option<u64> {
    let highest = timeline.reserved.iter().copied().max().unwrap_or(0);
    total.filter(|&total| highest > 0 && total / 4 <= highest / 3)
}

/// The first sample at which allocated bytes peak.
pub(super) fn peak_sample(timeline: &Timeline) -> Option<usize> {
    let peak = timeline.allocated.iter().max()?;
    timeline.allocated.iter().position(|value| value == peak)
}
