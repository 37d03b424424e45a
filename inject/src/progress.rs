//! How far the program's calls are: the numbers of the order, and the calls that are under way.
//!
//! Owns the question whether anything happened while the driver was asked something. A call counts as under way before
//! it takes a number on entry, and until after it has taken one on return. So the order is looked at first before, and
//! last after: whatever touched the time in between is seen in one of both.

use std::sync::atomic::{AtomicU64, Ordering};

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    order: AtomicU64,
    under_way: AtomicU64,
}

/// What was the case at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// The highest number taken.
    pub(crate) order: u64,
    is_at_rest: bool,
}

impl Progress {
    /// The next number of the order, from 1 on.
    pub(crate) fn next_order(&self) -> u64 {
        self.order.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// The highest number taken.
    pub(crate) fn order(&self) -> u64 {
        self.order.load(Ordering::SeqCst)
    }

    /// A call begins; before it takes a number.
    pub(crate) fn enter(&self) {
        self.under_way.fetch_add(1, Ordering::SeqCst);
    }

    /// So many calls are over; after the number was taken.
    pub(crate) fn leave(&self, calls: u64) {
        // In a forked child there may be calls whose beginning only the parent has counted.
        let less = |count: u64| Some(count.saturating_sub(calls));
        _ = self.under_way.try_update(Ordering::SeqCst, Ordering::SeqCst, less);
    }

    /// The moment before something that takes time.
    pub(crate) fn before(&self) -> Moment {
        let order = self.order();
        Moment { order, is_at_rest: self.under_way.load(Ordering::SeqCst) == 0 }
    }

    /// The highest number after it, and whether no call was under way at any time since `before`.
    pub(crate) fn after(&self, before: Moment) -> (u64, bool) {
        let is_at_rest = self.under_way.load(Ordering::SeqCst) == 0;
        let order = self.order();
        (order, before.is_at_rest && is_at_rest && order == before.order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_before_within_and_around_are_told_from_rest() {
        let progress = Progress::default();
        let call = |order: bool| {
            progress.enter();
            if order {
                progress.next_order();
            }
        };
        call(true);
        progress.leave(1);
        let rest = progress.before();
        assert_eq!(progress.after(rest), (1, true));
        // Begun within.
        call(false);
        assert_eq!(progress.after(rest), (1, false));
        // Over within.
        let around = progress.before();
        progress.next_order();
        progress.leave(1);
        assert_eq!((progress.after(rest), progress.after(around)), ((2, false), (2, false)));
        // One that has its number from its beginning.
        call(true);
        let around = progress.before();
        progress.leave(1);
        assert_eq!(progress.after(around), (3, false));
        progress.leave(1);
        assert_eq!(progress.after(progress.before()), (3, true));
    }
}
