//! What each thread of the program has under way.
//!
//! Owns the calls that a thread has entered and not left, whether it is inside the recorder, and its id. Thread-local
//! values without destructors: threads may end at any moment, this library's code must not run then.

use std::cell::{Cell, RefCell};

use crate::own_time;

/// Calls within calls that are told apart; deeper ones are recorded as of the deepest.
const MAX_OPEN: usize = 16;

/// A call that was entered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    key: (u32, usize),
    pub(crate) order: u64,
    pub(crate) time_us: i64,
    /// Ticks that the recorder took before the call began.
    pub(crate) own_ticks: u64,
}

struct Calls {
    open: [Open; MAX_OPEN],
    length: usize,
}

thread_local! {
    static CALLS: RefCell<Calls> = const {
        RefCell::new(Calls { open: [Open { key: (0, 0), order: 0, time_us: 0, own_ticks: 0 }; MAX_OPEN], length: 0 })
    };
    static IS_BUSY: Cell<bool> = const { Cell::new(false) };
    static ID: Cell<(i32, u32)> = const { Cell::new((0, 0)) };
}

/// Notes that a call was entered. `key` tells it from all others of this thread that are under way, `start` is when the
/// recorder began. Answers whether there was room for it.
pub(crate) fn enter(key: (u32, usize), order: u64, time_us: i64, start: u64) -> bool {
    CALLS.with_borrow_mut(|calls| {
        let has_room = calls.length < MAX_OPEN;
        if has_room {
            calls.open[calls.length] = Open { key, order, time_us, own_ticks: own_time::since(start) };
            calls.length += 1;
        }
        has_room
    })
}

/// Takes back the call with this key, if its entry was seen, and says how many are around it, and how many are under
/// way no more: calls within it that never returned are forgotten.
pub(crate) fn leave(key: (u32, usize)) -> (Option<Open>, u32, u64) {
    CALLS.with_borrow_mut(|calls| {
        let found = calls.open[..calls.length].iter().rposition(|open| open.key == key);
        let before = calls.length;
        if let Some(at) = found {
            calls.length = at;
        }
        (found.map(|at| calls.open[at]), calls.length as u32, (before - calls.length) as u64)
    })
}

/// Runs `work`, handing over whether this thread was inside the recorder already.
pub(crate) fn inside<T>(work: impl FnOnce(bool) -> T) -> T {
    let was_busy = IS_BUSY.replace(true);
    let result = work(was_busy);
    IS_BUSY.set(was_busy);
    result
}

/// The system's id of this thread, which in process `pid` is asked for once.
pub(crate) fn id(pid: i32) -> u32 {
    let (known_in, known) = ID.get();
    if known_in == pid {
        return known;
    }
    // SAFETY: takes and touches nothing.
    let id = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
    ID.set((pid, id));
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_within_calls_are_told_apart() {
        assert!(enter((1, 10), 7, 70, 0) && enter((2, 20), 0, 0, 0));
        let (inner, depth, left) = leave((2, 20));
        assert_eq!((inner.map(|open| open.order), depth, left), (Some(0), 1, 1));
        assert_eq!((leave((9, 9)).1, leave((9, 9)).2), (1, 0));
        enter((3, 30), 0, 0, 0);
        let (outer, depth, left) = leave((1, 10));
        assert_eq!((outer.map(|open| (open.order, open.time_us)), depth, left), (Some((7, 70)), 0, 2));
        let entered = (0..100).filter(|&level| enter((4, level), 0, 0, 0)).count();
        assert_eq!((entered, leave((4, 99))), (MAX_OPEN, leave((4, 99))));
    }

    impl PartialEq for Open {
        fn eq(&self, other: &Self) -> bool {
            self.key == other.key
        }
    }
}
