//! The four counters at every moment of a history.
//!
//! Owns the one tally that also adds up requested bytes, for those who want every counter; most tallies do not
//! and keep to [`Totals`]. What is done with the counters belongs to the caller.

use crate::rebuild::{History, Moment, Usage};

use super::walk::{Tally, Totals, Walk};

/// Calls `visit` with the counters at every moment, from before the first event to after the last.
pub(super) fn each_usage(history: &History, visit: impl FnMut(Moment, Usage)) {
    Walk::new(history).run(&mut Counters {
        history,
        totals: Totals::new(history),
        requested_bytes: 0,
        visit,
    });
}

struct Counters<'a, F> {
    history: &'a History,
    totals: Totals<'a>,
    requested_bytes: u64,
    visit: F,
}

impl<'a, F: FnMut(Moment, Usage)> Tally<'a> for Counters<'a, F> {
    #[inline]
    fn totals(&mut self) -> Option<&mut Totals<'a>> {
        Some(&mut self.totals)
    }

    fn alloc(&mut self, row: usize) {
        self.totals.alloc(row);
        let bytes = self.history.allocations.requested_bytes[row];
        self.requested_bytes = self.requested_bytes.saturating_add(bytes);
    }

    fn complete(&mut self, row: usize) {
        self.totals.complete(row);
        let bytes = self.history.allocations.requested_bytes[row];
        self.requested_bytes = self.requested_bytes.saturating_sub(bytes);
    }

    fn arrive(&mut self, moment: Moment) {
        (self.visit)(moment, Usage { requested_bytes: self.requested_bytes, ..self.totals.usage });
    }
}
