//! What rules over several devices or several files are handed: plain figures of each.
//!
//! Owns no judgement. A device's whole history is not kept for them: a job has many.

use crate::model::{DeviceId, Warnings};
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
    /// The same when active bytes peak; `None` where that is hardly more than is allocated, and unless several
    /// files are looked at.
    pub lines_at_active_peak: Option<Vec<LineBytes>>,
    /// The most allocated bytes within each step, in order; empty without steps.
    pub step_peaks: Vec<u64>,
    /// Allocated bytes after each step.
    pub step_ends: Vec<u64>,
    /// For the first steps: what the largest lines hold at most within it, most first. Empty unless several files
    /// are looked at.
    pub step_lines: Vec<Vec<LineBytes>>,
    /// Faults met while it was rebuilt.
    pub warnings: Warnings,
}

/// One file of a call.
#[derive(Clone, Debug, Default)]
pub struct RankFacts {
    /// Path as given.
    pub path: String,
    /// The path without its rank: what the files of one job have in common.
    pub job: String,
    /// The folder that holds the ranks, files or folders; empty where the path names none.
    pub folder: String,
    /// Rank, as the recording or the file's name says.
    pub rank: Option<u64>,
    /// Number of ranks of the job, where the recording says.
    pub world_size: Option<u64>,
    /// Its devices.
    pub devices: Vec<DeviceFacts>,
}
