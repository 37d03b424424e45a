//! Rows of allocations: when each lived, where, and of which kind.

use crate::rebuild::{Allocations, NONE};

/// Lives in order of their beginning. Moments, not events; every 0 is "never", hence the ones added.
#[derive(Clone, Debug, Default)]
pub struct RowColumns {
    /// First moment at which it is live; 0 also for one from before the recording.
    pub begin: Vec<u64>,
    /// Moments for which it is allocated plus one; 0 when it is never given back.
    pub life: Vec<u64>,
    /// Moments for which it is active afterwards plus one; 0 when that never ends.
    pub pending: Vec<u64>,
    /// Number of its place.
    pub place: Vec<u32>,
    /// Number of its kind.
    pub kind: Vec<u32>,
    /// Rows that were given back before the recording and are only active.
    pub initially_pending: Vec<u32>,
}

impl RowColumns {
    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.begin.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.begin.is_empty()
    }

    pub(super) fn push(&mut self, rows: &Allocations, row: usize, place: u32, kind: u32) {
        let begin = begin(rows, row);
        let is_pending = rows.initially_pending.binary_search(&(row as u32)).is_ok();
        let given_back = match rows.given_back_event(row) {
            _ if is_pending => Some(0),
            NONE => None,
            event => Some(u64::from(event) + 1),
        };
        let completed = match rows.free_completed_events[row] {
            NONE => None,
            event => Some(u64::from(event) + 1),
        };
        if is_pending {
            self.initially_pending.push(self.begin.len() as u32);
        }
        self.begin.push(begin);
        self.life.push(given_back.map_or(0, |at| at.saturating_sub(begin) + 1));
        let waits = given_back.zip(completed).map_or(0, |(from, to)| to.saturating_sub(from) + 1);
        self.pending.push(waits);
        self.place.push(place);
        self.kind.push(kind);
    }
}

/// First moment of allocation `row`; 0 for one from before the recording.
#[inline]
pub(super) fn begin(rows: &Allocations, row: usize) -> u64 {
    match rows.alloc_events[row] {
        NONE => 0,
        event => u64::from(event) + 1,
    }
}
