//! What rules over several devices or several files are handed: plain figures of each.
//!
//! Owns no judgement. A device's whole history is not kept for them: a job has many.

use crate::model::DeviceId;
use crate::rebuild::{Peaks, Usage};

use super::LineBytes;

/// One device of one file.
#[derive(Clone, Debug, Default)]
pub struct DeviceFacts {
    /// Device.
    pub device: DeviceId,
    /// Its events.
    pub events: u64,
    /// Its allocations, those from before the recording included.
    pub allocations: u64,
    /// Maxima.
    pub peaks: Peaks,
    /// Totals after the last event.
    pub end: Usage,
    /// Whether its recording reaches back to its first allocation.
    pub from_the_start: bool,
    /// What each line holds when allocated bytes peak, most first.
    pub lines_at_peak: Vec<LineBytes>,
    /// The most allocated bytes within each step, in order; empty without steps.
    pub step_peaks: Vec<u64>,
}

/// One file of a call.
#[derive(Clone, Debug, Default)]
pub struct RankFacts {
    /// Path as given.
    pub path: String,
    /// Rank, as the recording or the file's name says.
    pub rank: Option<u64>,
    /// Number of ranks of the job, where the recording says.
    pub world_size: Option<u64>,
    /// Its devices.
    pub devices: Vec<DeviceFacts>,
}
