//! Highest totals of allocated bytes, counted anew: without some allocations, or within spans.
//!
//! Owns no judgement about which allocations could be done without.

use crate::rebuild::{History, Moment, Peak};

use super::walk::{Tally, Totals, Walk};

/// The highest total of allocated bytes, had the allocations `rows` never been made. One walk.
#[must_use]
pub fn peak_without(history: &History, rows: &[usize]) -> Peak {
    let mut left_out = vec![false; history.allocations.len()];
    for &row in rows {
        if let Some(slot) = left_out.get_mut(row) {
            *slot = true;
        }
    }
    let mut rest = Rest { totals: Totals::new(history), left_out, peak: Peak::default() };
    Walk::new(history).run(&mut rest);
    rest.peak
}

struct Rest<'a> {
    totals: Totals<'a>,
    left_out: Vec<bool>,
    peak: Peak,
}

impl Tally for Rest<'_> {
    #[inline]
    fn alloc(&mut self, row: usize) {
        if !self.left_out[row] {
            self.totals.alloc(row);
        }
    }

    #[inline]
    fn free(&mut self, row: usize) {
        if !self.left_out[row] {
            self.totals.free(row);
        }
    }

    fn complete(&mut self, _row: usize) {}

    #[inline]
    fn arrive(&mut self, moment: Moment) {
        self.peak.raise(self.totals.usage.allocated_bytes, moment);
    }
}

/// The highest totals of allocated bytes up to `first` and from `second` on. One walk.
#[must_use]
pub fn peaks_around(history: &History, first: Moment, second: Moment) -> (Peak, Peak) {
    let totals = Totals::new(history);
    let mut around = Around { totals, first, second, before: Peak::default(), after: Peak::default() };
    Walk::new(history).run(&mut around);
    (around.before, around.after)
}

struct Around<'a> {
    totals: Totals<'a>,
    first: Moment,
    second: Moment,
    before: Peak,
    after: Peak,
}

impl Tally for Around<'_> {
    #[inline]
    fn alloc(&mut self, row: usize) {
        self.totals.alloc(row);
    }

    #[inline]
    fn free(&mut self, row: usize) {
        self.totals.free(row);
    }

    fn complete(&mut self, _row: usize) {}

    #[inline]
    fn arrive(&mut self, moment: Moment) {
        let bytes = self.totals.usage.allocated_bytes;
        if moment <= self.first {
            self.before.raise(bytes, moment);
        }
        if moment >= self.second {
            self.after.raise(bytes, moment);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::walk::samples::history_of;
    use super::*;
    use crate::model::TraceBuilder;

    fn history() -> History {
        let trace = TraceBuilder::new()
            .segment_alloc(0, 1 << 20)
            .alloc(0, 1024)
            .alloc(1024, 512)
            .free(1024, 512)
            .alloc(1024, 2048)
            .free(0, 1024)
            .build();
        history_of(&trace).1
    }

    #[test]
    fn a_peak_without_some_rows_may_lie_elsewhere() {
        let history = history();
        assert_eq!(peak_without(&history, &[]), history.peaks.allocated);
        assert_eq!(peak_without(&history, &[2]), Peak { bytes: 1536, moment: Moment(3) });
        assert_eq!(peak_without(&history, &[0, 1, 2, 99]).bytes, 0);
    }

    #[test]
    fn peaks_around_a_span_leave_it_out() {
        let (before, after) = peaks_around(&history(), Moment(2), Moment(6));
        assert_eq!((before.bytes, after.bytes), (1024, 3072));
        assert_eq!(after.moment, Moment(6));
    }
}
