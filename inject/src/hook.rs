//! Calls as they are seen, by whatever sees them.
//!
//! Owns which way of seeing is in use, and what happens at a call's entry and return. Nothing here may change what the
//! program sees: every fault ends the recording, never the call.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::call::{Call, NO_DEVICE, RUNTIME, Row, Seen};
use crate::own_time;
use crate::recorder::{current, give_up, made, now_us};
use crate::thread;

/// How calls are seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Hook {
    /// Not at all (yet).
    #[default]
    None,
    /// By CUPTI's callbacks.
    Cupti {
        /// Path of the library, as the linker has it.
        library: PathBuf,
        /// What `cuptiGetVersion` says; 0 if nothing.
        version: u32,
    },
    /// By interposed functions.
    Preload,
}

static HOOK: Mutex<Hook> = Mutex::new(Hook::None);
/// Whether CUPTI sees the calls: then interposed functions stay out of it.
static HAS_CUPTI: AtomicBool = AtomicBool::new(false);

impl Hook {
    /// The way that is in use in this process.
    pub(crate) fn current() -> Self {
        HOOK.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes it the way that is in use.
    pub(crate) fn install(self) {
        HAS_CUPTI.store(matches!(self, Self::Cupti { .. }), Ordering::Release);
        *HOOK.lock().unwrap_or_else(PoisonError::into_inner) = self;
    }

    /// Its name in the file.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Cupti { .. } => "cupti",
            Self::Preload => "preload",
        }
    }
}

/// Runs `work` at a border to foreign code: a panic ends the recording and nothing else.
pub(crate) fn guarded(work: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        _ = catch_unwind(|| give_up("a fault of its own; please report it"));
    }
}

/// What is known of a call when it has returned.
#[derive(Clone, Copy)]
pub(crate) struct Returned {
    /// Its code in the file.
    pub(crate) code: u8,
    pub(crate) result: u32,
    pub(crate) seen: Seen,
    /// What was current: the context, and its device.
    pub(crate) context: (u64, u32),
}

/// A call is about to be made. `key` tells it from others of its thread: an id and an address of its own; `start` is
/// when the recorder was entered, in ticks.
pub(crate) fn enter(key: (u32, usize), call: Call, start: u64) {
    if let Some(recorder) = current() {
        recorder.progress.enter();
        let order = if call.gives() { recorder.progress.next_order() } else { 0 };
        if !thread::enter(key, order, now_us(), start) {
            recorder.progress.leave(1);
        }
    }
}

/// A call has returned, as [`Returned`] says.
pub(crate) fn leave(key: (u32, usize), call: Call, returned: Returned, start: u64) {
    let Returned { code, result, seen, context } = returned;
    let Some(recorder) = current() else { return };
    let (open, depth, left) = thread::leave(key);
    let own_ticks = open.map_or(0, |open| open.own_ticks);
    let (order, time_us) = match open {
        Some(open) if call.gives() => (open.order, open.time_us),
        _ => (recorder.progress.next_order(), now_us()),
    };
    recorder.progress.leave(left);
    recorder.record(Row {
        code,
        order,
        time_us,
        result,
        device: seen.device.unwrap_or(context.1),
        context: context.0,
        depth,
        seen,
        ..Row::default()
    });
    recorder.own_time.add(own_ticks + own_time::since(start));
}

/// A call that an interposed function sees; see [`Interposed::enter`].
#[derive(Debug)]
pub struct Interposed {
    call: Call,
    key: (u32, usize),
}

impl Interposed {
    /// Notes that `call` is about to be made. `at` is an address that no other call under way on this thread has: one
    /// on its stack.
    pub fn enter(call: Call, at: usize) -> Self {
        let start = own_time::ticks();
        let key = (u32::MAX, at);
        guarded(|| {
            if !HAS_CUPTI.load(Ordering::Acquire) {
                enter(key, call, start);
            }
        });
        Self { call, key }
    }

    /// Records that it returned `result`, unless CUPTI sees it. `is_runtime`: it is libcudart's and not the driver's.
    pub fn leave(self, result: i32, is_runtime: bool, seen: Seen) {
        let start = own_time::ticks();
        guarded(|| {
            if HAS_CUPTI.load(Ordering::Acquire) {
                // It may have come into use during this call.
                let (_, _, left) = thread::leave(self.key);
                if let Some(recorder) = made() {
                    recorder.progress.leave(left);
                }
                return;
            }
            let code = self.call as u8 + if is_runtime { RUNTIME } else { 0 };
            let returned = Returned { code, result: result as u32, seen, context: (0, NO_DEVICE) };
            leave(self.key, self.call, returned, start);
        });
    }
}
