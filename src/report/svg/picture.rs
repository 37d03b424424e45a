//! What a picture shows, before it is drawn: stacked layers, curves above them, marks, words.
//!
//! Owns layout constants and the shape shared by the timeline and the fragmentation picture. Knows neither
//! plotters nor SVG.

use super::axis::Ticks;
use super::legend;
use super::outline::Grid;
use super::palette::Ink;
use super::scale::Scale;
use crate::report::types::{Timeline, TimelineMark};
use crate::units::Bytes;

pub(super) const WIDTH: i32 = 1000;
/// Left edge of title and subtitle.
pub(super) const SIDE: i32 = 16;
/// Left edge of the plot.
pub(super) const LEFT: i32 = 80;
/// Upper edge of the plot.
pub(super) const TOP: i32 = 96;
pub(super) const COLUMNS: i32 = 590;
/// Left edge of the legend.
pub(super) const LEGEND_X: i32 = LEFT + COLUMNS + 20;
/// Room for axis texts below the plot.
pub(super) const X_LABELS: i32 = 50;
/// Height of the plot, unless the legend needs more.
const FEWEST_ROWS: i32 = 392;

/// The second line of a row in the legend.
#[derive(Clone, Debug, Default)]
pub(super) struct Note {
    /// A figure with its unit.
    pub(super) figure: String,
    /// What it is.
    pub(super) text: String,
}

impl Note {
    /// A size and a word on it.
    pub(super) fn bytes(bytes: u64, text: &str) -> Self {
        Self { figure: Bytes(bytes).to_string(), text: text.to_owned() }
    }
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.figure, self.text)
    }
}

/// A filled band.
pub(super) struct Layer {
    /// Name in the legend.
    pub(super) name: String,
    /// Second line in the legend.
    pub(super) note: Note,
    /// Bytes at each sample, without the layers below.
    pub(super) values: Vec<u64>,
    pub(super) ink: Ink,
}

/// A line above the layers.
pub(super) struct Curve {
    pub(super) name: String,
    pub(super) note: Note,
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
    /// Steps in all: of very many only some are marked.
    pub(super) steps: u64,
    /// What the horizontal axis counts, where it is not what the timeline says.
    pub(super) across: Option<Across>,
    /// What the timeline counts, in the singular.
    pub(super) counts: &'static str,
}

/// A horizontal axis of its own.
pub(super) struct Across {
    pub(super) name: String,
    /// Position and text of each tick.
    pub(super) labels: Vec<(u64, String)>,
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
            rows: f64::from(self.rows()),
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

    /// Pixel rows of the plot: enough for the legend beside it.
    pub(super) fn rows(&self) -> i32 {
        FEWEST_ROWS.max(legend::height(self) - X_LABELS)
    }

    /// Height of the whole picture.
    pub(super) fn height(&self) -> i32 {
        TOP + self.rows() + X_LABELS + 6
    }

    /// The horizontal axis and its name.
    pub(super) fn x_axis(&self, grid: &Grid) -> (Scale, String) {
        if let Some(across) = &self.across {
            return (Scale::labelled(COLUMNS, grid.x_end, &across.labels), across.name.clone());
        }
        if self.timeline.x_is_time {
            let name = format!("time since the first {}", self.counts);
            return (Scale::new(COLUMNS, grid.x_end, &Ticks::time(grid.x_end)), name);
        }
        (Scale::new(COLUMNS, grid.x_end, &Ticks::events(grid.x_end)), self.counting_axis())
    }

    /// Name of an axis that counts, and why it does not count seconds.
    fn counting_axis(&self) -> String {
        match self.timeline.pause_us {
            0 => format!("{}s", self.counts),
            pause => {
                let pause = short_duration(pause);
                format!("{}s (not time: one pause of {pause} would fill most of it)", self.counts)
            }
        }
    }

    pub(super) fn marks(&self, kind: &str) -> Vec<&TimelineMark> {
        self.timeline.marks.iter().filter(|mark| mark.kind == kind).collect()
    }
}

fn short_duration(us: u64) -> String {
    match us {
        0..1_000_000 => format!("{:.0} ms", us as f64 / 1e3),
        _ => format!("{:.1} s", us as f64 / 1e6),
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
