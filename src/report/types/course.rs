//! A recording over its steps and over time. Shapes only, as all of `types`.

use serde::{Deserialize, Serialize};

use super::ByCause;
use crate::report::packed::{self, Word};

/// Steps found in the trace.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StepsRow {
    /// `marks`, `annotations`, `detected` or `none`.
    pub source: String,
    /// How many.
    pub count: u64,
    /// Each of them, in order.
    pub rows: Vec<StepRow>,
}

/// One step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepRow {
    /// As recorded, or the step's number.
    pub name: String,
    /// Its first event.
    pub begin_event: u64,
    /// The event after its last; equal to `begin_event` for a step without events.
    pub end_event: u64,
    /// Allocated before its first event.
    pub begin_allocated_bytes: u64,
    /// The most allocated within it.
    pub peak_allocated_bytes: u64,
    /// The event after which that is first reached; `null` when it holds before the first event of all.
    pub peak_event: Option<u64>,
    /// Allocated after its last event.
    pub end_allocated_bytes: u64,
    /// By how much that exceeds the end of the step before; for the first step, its own beginning.
    pub growth_bytes: i64,
}

/// What the timeline shows: at every sample, the bytes of each band and of the totals. Samples are chosen so
/// that every pixel column keeps its first, last, lowest and highest total (M4), so no peak is smoothed away.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Timeline {
    /// Whether `x` is in microseconds since the first event (true) or in events (false).
    pub x_is_time: bool,
    /// Position of each sample, ascending.
    #[serde(with = "packed::curve")]
    pub x: Vec<u64>,
    /// Names of the bands, bottom first: the top lines, then "other lines", then "no line known".
    pub band_names: Vec<String>,
    /// Ranks of the lines behind the bands, the two remainders left out: a band's colour. Empty: their order.
    pub band_ranks: Vec<u32>,
    /// `bands[b][s]`: allocated bytes of band `b` at sample `s`; all bands sum to `allocated[s]`.
    #[serde(with = "packed::curves")]
    pub bands: Vec<Vec<u64>>,
    /// Allocated bytes at each sample.
    #[serde(with = "packed::curve")]
    pub allocated: Vec<u64>,
    /// Active bytes at each sample.
    #[serde(with = "packed::curve")]
    pub active: Vec<u64>,
    /// Reserved bytes at each sample.
    #[serde(with = "packed::curve")]
    pub reserved: Vec<u64>,
    /// Largest possible extent of `x`.
    pub x_end: u64,
    /// Where `x` counts events although there are times: the one pause that would fill most of the axis, in
    /// microseconds; else 0.
    pub pause_us: u64,
    /// Events stand for this many per sample on average (1 means nothing was left out).
    pub events_per_sample: u64,
    /// Moments to mark.
    pub marks: Vec<TimelineMark>,
    /// Why reserved bytes are not requested ones, at the same samples.
    #[serde(with = "packed::causes")]
    pub by_cause: Vec<ByCause>,
}

/// A moment to mark in the timeline.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TimelineMark {
    /// Position.
    pub x: u64,
    /// `peak`, `oom` or `step`.
    #[serde(deserialize_with = "packed::word")]
    pub kind: Word,
    /// Text for people.
    pub label: String,
}
