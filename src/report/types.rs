//! The report as plain data: what the JSON contract promises, and what the renderers draw.
//!
//! Owns shapes and names only; `schema` counts changes of meaning. Nothing here knows how a figure was
//! computed or how it will look. Sizes are exact bytes.

use serde::{Deserialize, Serialize};

use super::categories::CategoryTable;
use super::packed::{self, Word};
use super::recorded::{CensusRow, ModulesRow, OutsideRow, SelfCheckRow};

/// Version of the JSON that memlab prints.
pub const SCHEMA: u32 = 1;

/// One run of `memlab analyze`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// See [`SCHEMA`].
    pub schema: u32,
    /// For example `memlab 0.1.0`.
    pub tool: String,
    /// One entry per input file, in argument order.
    pub traces: Vec<TraceReport>,
}

/// One input file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TraceReport {
    /// Path as given.
    pub path: String,
    /// `memlab-trace` or `torch-snapshot`.
    #[serde(deserialize_with = "packed::word")]
    pub format: Word,
    /// Events on all devices.
    pub events: u64,
    /// Whether the file is whole.
    pub complete: bool,
    /// Faults met while reading and rebuilding.
    pub warnings: Vec<WarningRow>,
    /// Allocator configuration text; empty when none was set or recorded.
    pub allocator_conf: String,
    /// Facts of the process, where the trace has them (rank, versions, ...), by name.
    pub process: Vec<(String, String)>,
    /// One entry per device.
    pub devices: Vec<DeviceReport>,
    /// Rules that fired.
    pub findings: Vec<FindingRow>,
    /// What was reduced, where the file is a reduced recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduced: Option<ReducedRow>,
}

/// What a reduced recording was made from. Its figures are those of the original.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReducedRow {
    /// Name of the original's file, without folders.
    pub name: String,
    /// What kind of file that was.
    pub format: String,
    /// Its length as it was stored.
    pub bytes: u64,
    /// Events on all devices.
    pub events: u64,
    /// SHA-256 of the file, in hexadecimal digits.
    pub sha256: String,
    /// What reduced it.
    pub reduced_by: String,
}

/// A counted fault.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WarningRow {
    /// Stable name.
    pub kind: String,
    /// How often.
    pub count: u64,
    /// A sentence.
    pub text: String,
}

/// The four counters, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Four<T> {
    /// Asked for.
    pub requested_bytes: T,
    /// Blocks handed out.
    pub allocated_bytes: T,
    /// Plus pending frees.
    pub active_bytes: T,
    /// Held from the driver.
    pub reserved_bytes: T,
}

/// One device of one file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeviceReport {
    /// Index.
    pub device: u32,
    /// Product name, when recorded.
    pub name: Option<String>,
    /// Memory of the device in bytes, when recorded.
    pub total_bytes: Option<u64>,
    /// Events of this device.
    pub events: u64,
    /// Each counter's own maximum.
    pub peak: Four<u64>,
    /// The event after which each maximum is first reached; `null` when it holds before the first event.
    pub peak_event: Four<Option<u64>>,
    /// Counters after the last event.
    pub end: Four<u64>,
    /// Counters before the first event.
    pub initial: Four<u64>,
    /// What the recording does not know about its beginning.
    pub history: HistoryRow,
    /// Where reserved memory goes.
    pub fragmentation: FragmentationRow,
    /// `line`, `function`, `file`, `module` or `stack`.
    pub group_by: String,
    /// How a user line was told from library code, in one sentence.
    pub line_rule: String,
    /// Per line, most bytes held at the peak first.
    pub lines: Vec<LineRow>,
    /// Rows that `--top` left out of `lines`.
    pub lines_left_out: u64,
    /// What has no user line.
    pub unattributed: LineFigures,
    /// What the memory is for.
    pub categories: CategoryTable,
    /// Failed requests.
    pub ooms: Vec<OomRow>,
    /// Steps.
    pub steps: StepsRow,
    /// Reserved and active bytes at the peak of reserved, per stream, pool and kind.
    pub pools: Vec<PoolRow>,
    /// Per module, where the recorder named modules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modules: Option<ModulesRow>,
    /// Names, kinds and holders, where the recorder took a census.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub census: Option<CensusRow>,
    /// What lies outside the allocator, where the recorder asked the driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outside: Option<OutsideRow>,
    /// The rebuilt counters against PyTorch's own, where the recorder noted these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub self_check: Option<SelfCheckRow>,
    /// Other allocator settings replayed, where memory ran out or much of it lay unused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub what_would_help: Option<super::whatif::HelpRow>,
    /// Curves for the timeline; only pictures use them.
    #[serde(skip)]
    pub timeline: Timeline,
    /// What the other pictures show.
    #[serde(skip)]
    pub pictures: super::pictures::Pictures,
}

/// How much of the beginning is known.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct HistoryRow {
    /// Nothing was live or reserved before the first event.
    pub from_the_start: bool,
    /// Allocations that were live before the first event.
    pub initial_allocations: u64,
    /// Of these, how many have a size that could not be proved.
    pub uncertain_allocations: u64,
    /// By how many bytes the truth may be higher.
    pub uncertain_bytes: u64,
}

/// Fragmentation at the three moments of interest.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FragmentationRow {
    /// When reserved bytes peak.
    pub at_peak: Fragmentation,
    /// After the last event.
    pub at_end: Fragmentation,
    /// At the (last) OOM.
    pub at_oom: Option<Fragmentation>,
}

/// Where the reserved bytes are at one moment. `requested + rounding = allocated`;
/// `allocated + pending_free = active`; `active + releasable + stranded = reserved`. `by_cause` is another view
/// of the same bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Fragmentation {
    /// The event after which this holds; `null` before the first event.
    pub event: Option<u64>,
    /// Held from the driver.
    pub reserved_bytes: u64,
    /// Allocated plus pending.
    pub active_bytes: u64,
    /// Blocks handed out.
    pub allocated_bytes: u64,
    /// Asked for, over allocated blocks.
    pub requested_bytes: u64,
    /// Allocated minus requested.
    pub rounding_bytes: u64,
    /// Freed, but waiting for another stream.
    pub pending_free_bytes: u64,
    /// In segments that are wholly free.
    pub releasable_bytes: u64,
    /// Free, but in a segment that a live block pins.
    pub stranded_bytes: u64,
    /// Number of free blocks that make up `stranded_bytes`.
    pub stranded_blocks: u64,
    /// The largest free block of all.
    pub largest_free_block_bytes: u64,
    /// The largest free block inside a pinned segment.
    pub largest_stranded_block_bytes: u64,
    /// `1 - active / reserved`; 0 when nothing is reserved.
    pub ratio: f64,
    /// `reserved - requested`, every byte under the one cause that it has.
    pub by_cause: ByCause,
    /// The stream with most traffic, to which `by_cause` compares the others.
    pub main_stream: u64,
    /// Whose blocks pin the stranded bytes, most bytes first.
    pub pins: Vec<PinRow>,
}

/// Reserved minus requested bytes by cause. All of them together are exactly that difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByCause {
    /// Blocks in use are larger than what was asked for.
    pub rounding_bytes: u64,
    /// Freed, but waiting for another stream.
    pub pending_free_bytes: u64,
    /// Free in a segment of the main stream that a block in use or pending pins.
    pub split_remainder_bytes: u64,
    /// Free on another stream than the main one.
    pub other_stream_bytes: u64,
    /// Free in private pools.
    pub private_pool_bytes: u64,
    /// In segments of the main stream that are wholly free.
    pub releasable_cache_bytes: u64,
}

impl ByCause {
    /// The causes with their names for people, in the order in which pictures and tables show them.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 6] {
        [
            ("rounding", self.rounding_bytes),
            ("pending frees", self.pending_free_bytes),
            ("split remainders", self.split_remainder_bytes),
            ("other streams", self.other_stream_bytes),
            ("private pools", self.private_pool_bytes),
            ("releasable cache", self.releasable_cache_bytes),
        ]
    }
}

/// A line whose live blocks pin stranded bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PinRow {
    /// File of the line; `null` when the pinning blocks have no user line.
    pub file: Option<String>,
    /// Line number.
    pub line: Option<u64>,
    /// Function.
    pub function: Option<String>,
    /// Live blocks of this line in segments with stranded bytes.
    pub blocks: u64,
    /// Their bytes.
    pub block_bytes: u64,
    /// Stranded bytes in the segments where this line has a live block.
    pub stranded_bytes: u64,
    /// The part of it in segments that no other line pins: what would become releasable if this line's
    /// blocks were gone.
    pub sole_stranded_bytes: u64,
}

/// Figures of a line or of the remainder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineFigures {
    /// Bytes live when allocated bytes peak.
    pub held_at_peak_bytes: u64,
    /// The most these allocations ever held at one time.
    pub own_peak_bytes: u64,
    /// The part of `held_at_peak_bytes` that was attributed by inference.
    pub inferred_bytes: u64,
    /// Bytes of all allocations together.
    pub total_bytes: u64,
    /// Number of allocations.
    pub allocations: u64,
    /// Bytes live after the last event.
    pub live_at_end_bytes: u64,
}

/// One row of the line table. For `--group-by` other than `line` the fields that do not apply are `null`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LineRow {
    /// File as recorded.
    pub file: Option<String>,
    /// Line number.
    pub line: Option<u64>,
    /// Function.
    pub function: Option<String>,
    /// For `--group-by module`: the network's module where the recorder named it, else the top-level package or
    /// file stem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Whole stack, innermost first, for `--group-by stack`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<Vec<String>>,
    /// The highest total of active bytes while this line is on the stack.
    pub active_peak_on_stack_bytes: u64,
    /// The other figures.
    #[serde(flatten)]
    pub figures: LineFigures,
    /// The text around the line, where it was asked for and the file was at hand; only pages show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceRow>,
}

/// Source text around a line of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRow {
    /// Where it was found, below the folder that was named.
    pub file: String,
    /// Number of the first line of `text`.
    pub first: u64,
    /// Consecutive lines of the file, without their ends.
    pub text: Vec<String>,
}

impl LineRow {
    /// How people read the row: `train.py:100 step`, a file, a module, or the innermost frame of a stack.
    #[must_use]
    pub fn label(&self) -> String {
        if let Some(module) = &self.module {
            return module.clone();
        }
        if let Some(frame) = self.stack.as_ref().and_then(|stack| stack.first()) {
            return frame.clone();
        }
        let file = self.file.as_deref().unwrap_or("");
        match (self.line, &self.function) {
            (Some(line), Some(function)) => format!("{file}:{line} {function}"),
            (Some(line), None) => format!("{file}:{line}"),
            (None, Some(function)) => format!("{file} {function}"),
            (None, None) => file.to_owned(),
        }
    }
}

/// A failed request and why it failed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct OomRow {
    /// Event number.
    pub event: u64,
    /// The rounded request.
    pub requested_bytes: u64,
    /// What the driver was asked for to serve it.
    pub segment_bytes: u64,
    /// Free bytes of the device, when recorded.
    pub device_free_bytes: Option<u64>,
    /// See the contract: `capacity`, `fragmentation`, ...
    pub verdict: String,
    /// Where the verdict is `memory-cap`: why the limited memory was not enough. Otherwise the verdict again.
    pub cause: String,
    /// The arithmetic that proves the verdict, as sentences.
    pub explanation: Vec<String>,
    /// Largest free block of the same stream and pool.
    pub largest_free_block_bytes: u64,
    /// Reserved.
    pub reserved_bytes: u64,
    /// Active.
    pub active_bytes: u64,
    /// Allocated.
    pub allocated_bytes: u64,
    /// Pending frees.
    pub pending_free_bytes: u64,
    /// Free inside segments of the request's pool.
    pub slack_bytes: u64,
    /// Free in other pools.
    pub private_pool_free_bytes: u64,
    /// How much is missing even if all free memory were in one piece; with a limit that is not known, the most
    /// that may be.
    pub missing_bytes: u64,
    /// The limit that refused, when known.
    pub cap_bytes: Option<u64>,
    /// Held outside the allocator, when the size of the device is known.
    pub outside_bytes: Option<u64>,
    /// Stream of the request, raw pointer value.
    pub stream: u64,
    /// Pool of the request, two numbers.
    pub pool: (u64, u64),
    /// Line of the failing request.
    pub line: Option<String>,
}

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

/// Reserved memory of one (stream, pool, kind) at the peak of reserved bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PoolRow {
    /// Stream, raw pointer value; 0 is the default stream.
    pub stream: u64,
    /// Pool id, two numbers; `[0, 0]` is the default pool.
    pub pool: (u64, u64),
    /// `small` or `large`.
    #[serde(deserialize_with = "packed::word")]
    pub kind: Word,
    /// Number of segments.
    pub segments: u64,
    /// Held from the driver.
    pub reserved_bytes: u64,
    /// Allocated plus pending.
    pub active_bytes: u64,
    /// In wholly free segments.
    pub releasable_bytes: u64,
    /// Free but pinned.
    pub stranded_bytes: u64,
}

/// A rule that fired.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FindingRow {
    /// Rule name of the contract.
    pub rule: String,
    /// `error`, `warning` or `info`.
    #[serde(deserialize_with = "packed::word")]
    pub severity: Word,
    /// One sentence.
    pub title: String,
    /// Bytes concerned.
    pub bytes: u64,
    /// Device.
    pub device: u32,
    /// Lines concerned.
    pub lines: Vec<FindingLine>,
    /// Figures.
    pub evidence: serde_json::Map<String, serde_json::Value>,
    /// What to do.
    pub remedy: String,
}

/// A line named by a finding.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FindingLine {
    /// File.
    pub file: String,
    /// Line.
    pub line: u64,
    /// Function.
    pub function: String,
    /// Bytes of it.
    pub bytes: u64,
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
