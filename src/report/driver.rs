//! The part of the report that only a recorder of driver calls can fill: who holds the device's memory, PyTorch's
//! allocator included.
//!
//! Owns shapes and names, like `types`. All of it is absent where no driver call was recorded. Bytes are what was asked
//! for, unless said otherwise; what the driver rounds up to is not known.

use serde::{Deserialize, Serialize};

use super::types::Timeline;

/// What driver calls say of a process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DriverReport {
    /// How calls were seen: `cupti`, `preload`; `null` if the file does not say.
    pub hook: Option<String>,
    /// The program's executable, without its folder.
    pub program: Option<String>,
    /// Whether the recording of calls was closed and nothing is known to be missing. If not, what is live at the end may
    /// have been given back.
    pub complete: bool,
    /// Calls, failed ones included.
    pub calls: u64,
    /// Calls that failed.
    pub failed_calls: u64,
    /// Calls by name, in the order of the format.
    pub by_call: Vec<DriverCallRow>,
    /// Successful frees of what was taken before the recording, or by no call that is seen.
    pub unknown_frees: u64,
    /// Memory that was handed out again with no free seen.
    pub unseen_frees: u64,
    /// By device.
    pub devices: Vec<DriverDeviceRow>,
    /// Memory of the host, where any was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<DriverHostRow>,
    /// Requests for memory that the driver refused, in order.
    pub refused: Vec<DriverRefusedRow>,
    /// Refused requests that are not in `refused`.
    pub refused_left_out: u64,
    /// How far machine code could be given names.
    pub symbols: SymbolsRow,
}

/// Calls of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverCallRow {
    /// Name in the trace format, for example `device_alloc`.
    pub call: String,
    /// How many, failed ones included.
    pub calls: u64,
    /// How many failed.
    pub failed: u64,
    /// Bytes that the successful ones asked for.
    pub bytes: u64,
}

/// One device.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DriverDeviceRow {
    /// Index.
    pub device: u32,
    /// Memory of the device, when a reading says it.
    pub total_bytes: Option<u64>,
    /// The most that recorded calls held at one time.
    pub peak_bytes: u64,
    /// When that was first reached: Unix microseconds.
    pub peak_time_us: Option<i64>,
    /// Held after the last call.
    pub end_bytes: u64,
    /// What nvidia-smi shows as a sum, at moments at which the driver was asked.
    pub sums: Vec<DriverSumRow>,
    /// Who holds it, most bytes at the peak first.
    pub holders: Vec<DriverHolderRow>,
    /// By kind of memory.
    pub kinds: Vec<DriverKindRow>,
    /// By line, most bytes at the peak first; managed and imported memory, too, which is in no total. PyTorch's allocator is
    /// one row where its events are at hand: its lines are those of the device's own report.
    pub lines: Vec<DriverLineRow>,
    /// Rows that are not in `lines`.
    pub lines_left_out: u64,
    /// The allocator's segments against the driver's memory, where both were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<DriverJoinRow>,
    /// Curves for the timeline: a band for each of the largest holders.
    #[serde(skip)]
    pub timeline: Timeline,
}

/// What the device says is in use, and by whom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverSumRow {
    /// `first`, `peak`, `oom` or `end`.
    pub at: String,
    /// Unix microseconds.
    pub time_us: i64,
    /// Bytes in use on the device: total less free.
    pub used_bytes: u64,
    /// Bytes that the driver says this process holds; `null` if it does not say.
    pub process_bytes: Option<u64>,
    /// Held by whom, as recorded calls say; most first.
    pub parts: Vec<DriverPartRow>,
    /// What the driver itself took for the process: contexts, code of kernels. Measured at the first reading: in use then,
    /// less what calls held.
    pub context_bytes: Option<u64>,
    /// What the driver itself took for the process since: code of kernels when they are first used, their local memory, pools'
    /// caches. `null` if the driver does not say what the process holds; then it is in `unknown_bytes`.
    #[serde(default)]
    pub loaded_bytes: Option<u64>,
    /// In use by others: other processes, and what the driver keeps for itself. `null` if the driver does not say.
    pub others_bytes: Option<u64>,
    /// What is left: in use, and none of the above. Negative where calls account for more than is in use.
    pub unknown_bytes: i64,
}

/// One part of a sum.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverPartRow {
    /// Name of the holder.
    pub holder: String,
    /// Its bytes.
    pub bytes: u64,
}

/// One holder: PyTorch's allocator, a library, the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverHolderRow {
    /// For example `PyTorch's caching allocator`, `cuBLAS`, `libfoo.so`, `unknown`.
    pub holder: String,
    /// `allocator`, `library`, `program` or `unknown`.
    pub kind: String,
    /// Files of machine code that asked, without their folders.
    pub modules: Vec<String>,
    /// Held when the device's total peaks.
    pub at_peak_bytes: u64,
    /// The most it held itself.
    pub own_peak_bytes: u64,
    /// Held after the last call.
    pub end_bytes: u64,
    /// Taken in all.
    pub total_bytes: u64,
    /// How often.
    pub taken: u64,
    /// How often given back.
    pub given_back: u64,
    /// What one should know about it.
    pub note: Option<String>,
}

/// One kind of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverKindRow {
    /// `device`, `physical` (mapped by hand: expandable segments), `pool`, `array`, `managed` or `imported`. The last two
    /// are not in the device's totals: where they lie is not known, or they are another's.
    pub kind: String,
    /// The most at one time.
    pub peak_bytes: u64,
    /// After the last call.
    pub end_bytes: u64,
    /// How often taken.
    pub taken: u64,
    /// How often given back.
    pub given_back: u64,
}

/// What one line takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverLineRow {
    /// Source file; `null` where only machine code is known.
    pub file: Option<String>,
    /// Line number.
    pub line: Option<u64>,
    /// Function, or the library's function that was called.
    pub function: Option<String>,
    /// File of machine code, where no source line is known.
    pub module: Option<String>,
    /// Name of the holder.
    pub holder: String,
    /// Kind of memory, see [`DriverKindRow::kind`]; for the host `pinned` or `registered`.
    pub kind: String,
    /// Held when the device's total peaks.
    pub at_peak_bytes: u64,
    /// The most it held itself.
    pub own_peak_bytes: u64,
    /// Taken in all.
    pub total_bytes: u64,
    /// How often.
    pub taken: u64,
    /// Not given back by the end.
    pub kept: u64,
    /// Bytes of these.
    pub kept_bytes: u64,
}

impl DriverLineRow {
    /// How people read the row: `leaks.cu:27 runtime`, or `cublasCreate_v2 in libcublas.so.13`.
    #[must_use]
    pub fn label(&self) -> String {
        match (&self.file, self.line, &self.function, &self.module) {
            (Some(file), Some(line), Some(function), _) => format!("{file}:{line} {function}"),
            (Some(file), Some(line), None, _) => format!("{file}:{line}"),
            (Some(file), None, Some(function), _) => format!("{file} {function}"),
            (Some(file), None, None, _) => file.clone(),
            (None, _, Some(function), Some(module)) => format!("{function} in {module}"),
            (None, _, Some(function), None) => function.clone(),
            (None, _, None, Some(module)) => module.clone(),
            (None, _, None, None) => "no stack".to_owned(),
        }
    }
}

/// The allocator's segments against the driver's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverJoinRow {
    /// Segments and mapped ranges that the allocator's events obtain.
    pub segments: u64,
    /// Those of them that are driver memory at the same address, of the same size.
    pub matched: u64,
    /// Bytes of the matched ones.
    pub matched_bytes: u64,
    /// Segments held after the last event.
    pub live_segments: u64,
    /// Their bytes.
    pub live_bytes: u64,
    /// Those of them that are driver memory which is live after the last call.
    pub live_matched: u64,
    /// Bytes of these.
    pub live_matched_bytes: u64,
    /// Memory that PyTorch's allocator took, as stacks say, and that is no segment: taken before or after the recording of
    /// events.
    pub takings_without_segment: u64,
}

/// Memory of the host that driver calls pinned.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DriverHostRow {
    /// By kind: `pinned` (allocated), `registered` (the program's own memory).
    pub kinds: Vec<DriverKindRow>,
    /// By line, most bytes of its own peak first.
    pub lines: Vec<DriverLineRow>,
    /// Rows that are not in `lines`.
    pub lines_left_out: u64,
}

/// A request that the driver refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverRefusedRow {
    /// Name of the call.
    pub call: String,
    /// Device; `null` for the host, or if not known.
    pub device: Option<u32>,
    /// What was asked for.
    pub bytes: u64,
    /// The call's result; 2 is "out of memory".
    pub result: u32,
    /// Unix microseconds.
    pub time_us: i64,
    /// What recorded calls held on the device at that moment.
    pub held_bytes: u64,
    /// Who asked.
    pub holder: String,
    /// Where: see [`DriverLineRow::label`].
    pub place: String,
}

/// How far machine code could be given names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SymbolsRow {
    /// Whether binaries were looked at: `--symbols`.
    pub asked: bool,
    /// Frames of machine code in the recording.
    pub frames: u64,
    /// Those with a source line.
    pub with_line: u64,
    /// Those with a function but no line.
    pub with_function: u64,
    /// Files of machine code that could not be used, and why; most frames first.
    pub missing: Vec<MissingModuleRow>,
}

/// A file of machine code whose names are not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingModuleRow {
    /// Path as recorded.
    pub path: String,
    /// Build id; empty if it has none.
    pub build_id: String,
    /// Its frames.
    pub frames: u64,
    /// Why, in a few words.
    pub reason: String,
}
