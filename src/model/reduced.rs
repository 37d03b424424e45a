//! What a reduced recording carries in place of its events.
//!
//! Owns where it came from, the report as packed bytes (only `analysis` knows what is in them) and the allocations
//! that were live at the kept moments. Owns no figure: those are the report's.

use super::{DeviceId, StackId};

/// The recording that was reduced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Name of its file, without folders.
    pub name: String,
    /// What kind of file it was, by the name of [`super::Format`].
    pub format: String,
    /// Length of the file as it was stored, in bytes.
    pub bytes: u64,
    /// Events on all devices.
    pub events: u64,
    /// SHA-256 of the file as it was stored, in 64 hexadecimal digits.
    pub sha256: String,
    /// What reduced it, for example `memlab 0.1.0`.
    pub reduced_by: String,
}

/// A report in place of events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reduced {
    /// Where it came from.
    pub origin: Origin,
    /// The packed report.
    pub report: Vec<u8>,
    /// One entry per device that has live allocations at a kept moment, ascending.
    pub live: Vec<LiveSet>,
}

/// The allocations of a device that were live at any of the kept moments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveSet {
    /// Device.
    pub device: DeviceId,
    /// The moments; a row's [`LiveRow::live`] has a bit for each, the first one's the lowest.
    pub moments: Vec<LiveMoment>,
    /// By the event that made them, then by address.
    pub rows: Vec<LiveRow>,
}

/// A kept moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveMoment {
    /// `allocated-peak`, `reserved-peak`, `oom` or `end`.
    pub name: String,
    /// The event after which it is; `None` before the first.
    pub event: Option<u64>,
}

/// An allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveRow {
    /// Address of its block.
    pub address: u64,
    /// Bytes of its block.
    pub bytes: u64,
    /// Bytes that were asked for.
    pub requested_bytes: u64,
    /// Stream of its segment; 0 where that is not known.
    pub stream: u64,
    /// The event that made it; `None` for one from before the recording.
    pub alloc_event: Option<u64>,
    /// Who asked for it.
    pub stack: StackId,
    /// At which moments it was live: allocated or waiting to be free.
    pub live: u64,
    /// At which of these it was waiting to be free.
    pub pending: u64,
}

impl LiveSet {
    /// Most moments that a set has.
    pub const MOST_MOMENTS: usize = 64;

    /// Number of allocations and bytes of their blocks that were live at the moment with this place.
    #[must_use]
    pub fn totals(&self, place: usize) -> (u64, u64) {
        let bit = 1u64.checked_shl(place as u32).unwrap_or(0);
        let live = self.rows.iter().filter(|row| row.live & bit != 0);
        live.fold((0, 0), |(count, bytes), row| (count + 1, bytes.saturating_add(row.bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_moment_has_its_own_total() {
        let row = |bytes, live| LiveRow { bytes, live, ..LiveRow::default() };
        let set = LiveSet { rows: vec![row(512, 1), row(1024, 3), row(u64::MAX, 2)], ..LiveSet::default() };
        assert_eq!(set.totals(0), (2, 1536));
        assert_eq!(set.totals(1), (2, u64::MAX));
        assert_eq!(set.totals(2), (0, 0));
        assert_eq!(set.totals(64), (0, 0));
    }
}
