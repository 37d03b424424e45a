//! Shapes of `memlab whatif --json`. Keys are a contract; see `docs/whatif.md`.

use serde::{Deserialize, Serialize};

/// Answer of a what-if replay on one device.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WhatIfReport {
    /// Version of these shapes.
    pub schema: u32,
    /// Trace, as given.
    pub path: String,
    /// Device.
    pub device: u32,
    /// Events of the device.
    pub events: u64,
    /// The recorded settings replayed and held against the recording.
    pub baseline: BaselineRow,
    /// Memory within which the settings were replayed; `null` for as much as they take.
    pub limit: Option<LimitRow>,
    /// One row per setting.
    pub settings: Vec<SettingRow>,
    /// What no setting can beat.
    pub bounds: BoundsRow,
    /// What to do.
    pub recommendation: RecommendationRow,
    /// Lines whose allocations were left out or scaled.
    pub changed_lines: Vec<ChangedLineRow>,
    /// What the figures rest on, where it is not the recording alone.
    pub notes: Vec<String>,
}

/// The model's test against the recording.
#[derive(Clone, Debug, Default, Serialize)]
pub struct BaselineRow {
    /// Recorded configuration text; empty for the defaults.
    pub conf: String,
    /// Peak of reserved bytes in the recording.
    pub recorded_peak_reserved_bytes: u64,
    /// The same of the replay.
    pub replayed_peak_reserved_bytes: u64,
    /// Whether that peak and every block's address and size agree.
    pub exact: bool,
    /// First request that was served otherwise than recorded.
    pub first_divergence_event: Option<u64>,
    /// The likely cause.
    pub cause: Option<String>,
    /// How many requests were served otherwise.
    pub differing_requests: u64,
}

/// Memory within which settings were replayed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LimitRow {
    /// Bytes.
    pub bytes: u64,
    /// `given`, or `recorded` where a failed or retried request of the recording tells it.
    pub source: &'static str,
}

/// What a setting gives.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SettingRow {
    /// Configuration text, as given.
    pub conf: String,
    /// Whether these are the recorded settings.
    pub is_recorded: bool,
    /// Whether the figures are lower bounds and not a replay.
    pub is_bound: bool,
    /// Most bytes held from the driver.
    pub peak_reserved_bytes: u64,
    /// The lowest and the highest peak over several plausible orders of addresses, which decide between
    /// equally large blocks; both equal the peak where nothing hangs on them.
    pub peak_reserved_range: [u64; 2],
    /// Most bytes handed out.
    pub peak_allocated_bytes: u64,
    /// Held after the last request.
    pub end_reserved_bytes: u64,
    /// Peak of the recorded settings less this one's; negative when it takes more.
    pub saved_bytes: i64,
    /// Share of the peak that no live block used.
    pub fragmentation_at_peak: f64,
    /// First request that fails; `null` when all fit.
    pub oom_event: Option<u64>,
    /// Whether every request is served; `null` where only bounds are known and they do not decide it.
    pub fits: Option<bool>,
    /// How often everything cached was given back for one request.
    pub retries: u64,
    /// Smallest memory under which every request is served, where it was looked for.
    pub smallest_memory_bytes: Option<u64>,
    /// Course of reserved bytes, for pictures: (event, bytes after it).
    #[serde(skip)]
    pub course: Vec<(u32, u64)>,
}

/// Lower bounds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct BoundsRow {
    /// Highest total of requested bytes that are live at one time.
    pub live_peak_bytes: u64,
    /// Length of the best packing of all lives into one range.
    pub packed_bytes: u64,
    /// Which way of placing gave it.
    pub packing: &'static str,
}

/// What to do.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RecommendationRow {
    /// Configuration to use; `null` for leaving things as they are.
    pub conf: Option<String>,
    /// What it saves at the peak.
    pub saved_bytes: i64,
    /// The reason, in a sentence or two.
    pub reason: String,
}

/// The short form that stands in a report: other settings replayed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HelpRow {
    /// Whether replaying the recorded settings gives the recording to the byte.
    pub exact: bool,
    /// Memory that the recording ran into, within which the settings were replayed.
    pub limit_bytes: Option<u64>,
    /// One row per setting, the recorded ones first, then by peak.
    pub settings: Vec<HelpSettingRow>,
    /// What to do.
    pub recommendation: RecommendationRow,
}

/// A setting in a report.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HelpSettingRow {
    /// Configuration text.
    pub conf: String,
    /// Whether these are the recorded settings.
    pub is_recorded: bool,
    /// Most bytes held from the driver.
    pub peak_reserved_bytes: u64,
    /// Peak of the recorded settings less this one's.
    pub saved_bytes: i64,
    /// First request that fails; `null` when all fit.
    pub oom_event: Option<u64>,
}

/// A line whose allocations were changed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ChangedLineRow {
    /// As given: `FILE:LINE`.
    pub line: String,
    /// Share that was kept of each allocation's size; 0 for none.
    pub factor: f64,
    /// How many allocations that changed.
    pub allocations: u64,
}
