//! The report as plain data: what the JSON contract promises, and what the renderers draw.
//!
//! Owns shapes and names only; `schema` counts changes of meaning. Nothing here knows how a figure was
//! computed or how it will look. Sizes are exact bytes. What a device consists of stands in files of its own.

mod course;
mod findings;
mod fragmentation;
mod lines;
mod reduced;

use serde::{Deserialize, Serialize};

use super::categories::CategoryTable;
use super::driver::DriverReport;
use super::packed::{self, Word};
use super::recorded::{CensusRow, ModulesRow, OutsideRow, SelfCheckRow};

pub use course::{StepRow, StepsRow, Timeline, TimelineMark};
pub use findings::{FindingLine, FindingRow, OomRow};
pub use fragmentation::{ByCause, Fragmentation, FragmentationRow, PinRow, PoolRow};
pub use lines::{LineFigures, LineRow, SourceRow};
pub use reduced::{LiveMomentRow, LiveRow, ReducedRow};

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
    /// Who holds the device's memory, where driver calls were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<DriverReport>,
    /// What was reduced, where the file is a reduced recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduced: Option<ReducedRow>,
}

impl TraceReport {
    /// Whether driver calls were recorded, and no allocator's events.
    pub(super) fn has_calls_alone(&self) -> bool {
        self.devices.is_empty() && self.driver.is_some()
    }
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
