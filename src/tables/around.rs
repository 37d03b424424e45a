//! Highest totals of allocated bytes on both sides of a span.

use crate::rebuild::{History, Moment, Peak};

use super::walk::{Tally, Totals, Walk};

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

impl<'a> Tally<'a> for Around<'a> {
    #[inline]
    fn totals(&mut self) -> Option<&mut Totals<'a>> {
        Some(&mut self.totals)
    }

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
    fn peaks_around_a_span_leave_it_out() {
        let (before, after) = peaks_around(&history(), Moment(2), Moment(6));
        assert_eq!((before.bytes, after.bytes), (1024, 3072));
        assert_eq!(after.moment, Moment(6));
    }
}
