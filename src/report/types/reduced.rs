//! What a reduced recording tells of its original, and what was live when. Shapes only, as all of `types`.

use serde::{Deserialize, Serialize};

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
    /// What was live at the kept moments, device by device.
    #[serde(default)]
    pub live: Vec<LiveMomentRow>,
}

/// The allocations of a device that were live at a kept moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveMomentRow {
    /// Index of the device.
    pub device: u32,
    /// `allocated-peak`, `reserved-peak`, `oom` or `end`.
    pub moment: String,
    /// The event after which it is; `null` before the first.
    pub event: Option<u64>,
    /// Number of allocations, those that wait for another stream included.
    pub allocations: u64,
    /// Bytes of their blocks: the active bytes of that moment, as far as they are known.
    pub bytes: u64,
    /// The part of it that waits for another stream.
    pub pending_free_bytes: u64,
    /// The largest of them.
    pub rows: Vec<LiveRow>,
    /// Allocations beyond those.
    pub rows_left_out: u64,
}

/// A live allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveRow {
    /// Bytes of its block.
    pub bytes: u64,
    /// Bytes that were asked for.
    pub requested_bytes: u64,
    /// Stream of its segment, raw pointer value.
    pub stream: u64,
    /// The event that made it; `null` for one from before the recording.
    pub alloc_event: Option<u64>,
    /// Whether it was freed and waits for another stream.
    pub pending_free: bool,
    /// The user's line on its own stack; `null` where there is none.
    pub line: Option<String>,
    /// The innermost frame of its stack; `null` without one.
    pub frame: Option<String>,
}

impl LiveMomentRow {
    /// What the moment is called; `None` for one that this version does not know.
    #[must_use]
    pub fn title(&self) -> Option<&'static str> {
        match self.moment.as_str() {
            "allocated-peak" => Some("Live when allocated bytes peak"),
            "reserved-peak" => Some("Live when reserved bytes peak"),
            "oom" => Some("Live at the last failed request"),
            "end" => Some("Live after the last event"),
            _ => None,
        }
    }
}

impl ReducedRow {
    /// The moments of a device at which something was live, with their titles.
    pub fn live_on(&self, device: u32) -> impl Iterator<Item = (&LiveMomentRow, &'static str)> {
        let moments =
            self.live.iter().filter(move |moment| moment.device == device && moment.allocations > 0);
        moments.filter_map(|moment| Some((moment, moment.title()?)))
    }
}
