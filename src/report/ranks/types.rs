//! The ranks of a job as plain data: one row each, what stands out, who failed first.
//!
//! Owns shapes and names only, as `report/types` does. Bytes of different ranks lie on different devices: nothing
//! here is their sum.

use serde::Serialize;

use crate::report::types::Four;

/// The files of one call as ranks of a job.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RanksReport {
    /// What the job is called, where a call has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Files that were analysed, one row each.
    pub ranks: u64,
    /// Whether they are ranks of one job: every one has a number, and no number is there twice.
    pub is_one_job: bool,
    /// Whether these files may be of different jobs: their rows are a list, and nothing is compared. Never printed.
    #[serde(skip)]
    pub is_list: bool,
    /// Number of ranks of the job, where the recordings say and agree.
    pub world_size: Option<u64>,
    /// The first ranks of the job that have no file, at most 64.
    pub missing_ranks: Vec<u64>,
    /// Files that could not be analysed.
    pub failed_files: u64,
    /// Events of all files together.
    pub events: u64,
    /// The middle rank of each counter's peak; of two the lower, of an even number the mean of the two in the middle.
    pub median_peak: Four<u64>,
    /// Half of the ranks are no farther than this from the median.
    pub median_deviation: Four<u64>,
    /// Who ran out of memory, first things first.
    pub failure: RankFailure,
    /// Ranks that stand apart, farthest first.
    pub outliers: Vec<RankOutlier>,
    /// What rules say that compare ranks or devices.
    pub findings: Vec<RankFinding>,
    /// Every rank, by number.
    pub rows: Vec<RankRow>,
    /// The first steps across the ranks, where at least two have them.
    pub steps: Vec<StepAcross>,
    /// Steps beyond those.
    pub steps_left_out: u64,
    /// What touches the comparison.
    pub notes: Vec<String>,
}

/// One rank: its main device, the one on which most is allocated.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RankRow {
    /// Its number, where it is known.
    pub rank: Option<u64>,
    /// Path as given.
    pub path: String,
    /// Main device.
    pub device: u32,
    /// Product name, when recorded.
    pub device_name: Option<String>,
    /// Memory of the device in bytes, when recorded.
    pub total_bytes: Option<u64>,
    /// Events of the file.
    pub events: u64,
    /// Whether the file is whole.
    pub complete: bool,
    /// Whether it was recorded from its first allocation.
    pub from_the_start: bool,
    /// Each counter's own maximum.
    pub peak: Four<u64>,
    /// Counters after the last event.
    pub end: Four<u64>,
    /// Reserved and neither allocated nor pending, when reserved bytes peak.
    pub unused_at_peak_bytes: u64,
    /// Its steps.
    pub steps: RankSteps,
    /// Its first failed request.
    pub oom: Option<RankOom>,
    /// What grows from step to step.
    pub growth: Option<RankGrowth>,
    /// Findings by severity, those that compare ranks included.
    pub findings: SeverityCounts,
    /// Other devices that the process holds memory on; not part of the figures above.
    pub other_devices: Vec<OtherDevice>,
    /// Its curves; only pictures use them.
    #[serde(skip)]
    pub curve: RankCurve,
    /// The most allocated within each step.
    #[serde(skip)]
    pub step_peaks: Vec<u64>,
}

/// Steps of a rank.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RankSteps {
    /// `marks`, `annotations`, `detected` or `none`.
    pub source: String,
    /// How many.
    pub count: u64,
    /// The middle of the steps' peaks of allocated bytes.
    pub peak_median_bytes: Option<u64>,
    /// The highest of them.
    pub peak_max_bytes: Option<u64>,
}

/// The first failed request of a rank.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RankOom {
    /// Failed requests of the rank's main device in all.
    pub count: u64,
    /// Event number.
    pub event: u64,
    /// The rounded request.
    pub requested_bytes: u64,
    /// See the contract: `capacity`, `fragmentation`, ...
    pub verdict: String,
    /// Line of the failing request.
    pub line: Option<String>,
    /// Unix time in microseconds, where events have one.
    pub time_us: Option<i64>,
    /// Steps that were over before it; `null` without steps.
    pub step: Option<u64>,
}

/// What grows on a rank.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RankGrowth {
    /// Bytes that it came to.
    pub bytes: u64,
    /// By how much the end of a step exceeds the one before, on average.
    pub bytes_per_step: Option<i64>,
    /// The line that most of it is from.
    pub line: Option<String>,
}

/// Findings of each severity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SeverityCounts {
    /// Failures and certain leaks.
    pub error: u64,
    /// Waste or danger.
    pub warning: u64,
    /// Worth knowing.
    pub info: u64,
}

/// A device beside the main one.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OtherDevice {
    /// Index.
    pub device: u32,
    /// Most allocated.
    pub peak_allocated_bytes: u64,
    /// Most reserved.
    pub peak_reserved_bytes: u64,
}

/// Allocated and reserved bytes of a rank's main device, thinned out; extremes are kept.
#[derive(Clone, Debug, Default)]
pub struct RankCurve {
    /// Whether `x` is in microseconds since the first event (true) or in events (false).
    pub is_time: bool,
    /// Unix time of the first event in microseconds, where events have one.
    pub start_us: Option<i64>,
    /// Largest possible `x`.
    pub end: u64,
    /// Position of each sample, ascending.
    pub x: Vec<u64>,
    /// Allocated bytes at each sample.
    pub allocated: Vec<u64>,
    /// Reserved bytes at each sample.
    pub reserved: Vec<u64>,
}

/// A rank that stands apart from the median.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RankOutlier {
    /// Its number.
    pub rank: Option<u64>,
    /// Path as given.
    pub path: String,
    /// The counter by which it does: `allocated`, `active`, `reserved` (at their peaks), `unused` (reserved and not
    /// in use when reserved bytes peak) or `end` (allocated after the last event).
    pub counter: &'static str,
    /// Other counters by which it does, too.
    pub also: Vec<&'static str>,
    /// Its value.
    pub bytes: u64,
    /// The median of all ranks.
    pub median_bytes: u64,
    /// Half of the ranks are no farther than this from the median.
    pub median_deviation_bytes: u64,
    /// Value less median.
    pub difference_bytes: i64,
    /// The lines that make the difference at the peak of allocated (or active) bytes, most first; those that go the
    /// other way are left out.
    pub lines: Vec<RankLine>,
    /// Lines of the same direction beyond those.
    pub lines_left_out: u64,
    /// What has no line: value less the median of all ranks.
    pub no_line_difference_bytes: i64,
}

/// A line on one rank against all.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RankLine {
    /// File.
    pub file: String,
    /// Line; 0 when it is not known.
    pub line: u64,
    /// Function.
    pub function: String,
    /// Held on this rank at its peak.
    pub bytes: u64,
    /// The median over all ranks, each at its own peak.
    pub median_bytes: u64,
    /// The one less the other.
    pub difference_bytes: i64,
}

/// A finding that compares ranks or devices.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RankFinding {
    /// Rank under which it stands.
    pub rank: Option<u64>,
    /// Path of that rank's file.
    pub path: String,
    /// Rule name.
    pub rule: String,
    /// `error`, `warning` or `info`.
    pub severity: &'static str,
    /// One sentence.
    pub title: String,
    /// What to do.
    pub remedy: String,
}

/// Who ran out of memory.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RankFailure {
    /// How the first is known: `none` failed, the `only` one that did, by `time`, by `step`, or `unknown`.
    pub known_by: &'static str,
    /// The first, where it is known.
    pub first: Option<FailedRank>,
    /// One sentence.
    pub sentence: String,
    /// Every rank that failed, in order as far as that is known, else by number.
    pub ranks: Vec<FailedRank>,
}

/// A rank that ran out of memory.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FailedRank {
    /// Its number.
    pub rank: Option<u64>,
    /// Path as given.
    pub path: String,
    /// Microseconds after the first failure, where all that failed have Unix times.
    pub after_first_us: Option<u64>,
    /// Its first failed request.
    #[serde(flatten)]
    pub oom: RankOom,
}

/// One step over the ranks that have it. Steps are matched by their number.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StepAcross {
    /// Number, from 0.
    pub step: u64,
    /// Ranks that have it.
    pub ranks: u64,
    /// The lowest peak of allocated bytes within it.
    pub min_bytes: u64,
    /// The middle.
    pub median_bytes: u64,
    /// The highest.
    pub max_bytes: u64,
    /// The rank with the highest.
    pub max_rank: Option<u64>,
}

impl RankRow {
    /// How people call it: `rank 3`, or the file without a number.
    #[must_use]
    pub fn name(&self) -> String {
        rank_name(self.rank, &self.path)
    }
}

/// `rank 3`, or the path where there is no number.
#[must_use]
pub fn rank_name(rank: Option<u64>, path: &str) -> String {
    rank.map_or_else(|| path.to_owned(), |rank| format!("rank {rank}"))
}
