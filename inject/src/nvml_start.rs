//! When NVML is opened: once in a process, and ahead of the first reading, since its start takes longer than a program
//! needs to take its first memory.
//!
//! Owns who opens it, on which thread, and that a forked child does not use what its parent has opened.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::hook::guarded;
use crate::nvml::Nvml;
use crate::recorder::lock;
use crate::writer::without_signals;

const CLOSED: u8 = 0;
/// Under way on a thread of its own, or ready there.
const AHEAD: u8 = 1;
/// Somebody has it.
const TAKEN: u8 = 2;
/// The process was forked from one that had opened it, where it does not work any more.
const FORKED: u8 = 3;

/// How long the end of the process waits for a start that is under way.
const LAST: Duration = Duration::from_secs(1);

static STATE: AtomicU8 = AtomicU8::new(CLOSED);
static READY: Mutex<Option<Result<Nvml, String>>> = Mutex::new(None);
static IS_READY: Condvar = Condvar::new();

fn becomes(from: u8, to: u8) -> Result<u8, u8> {
    STATE.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
}

/// Begins to open it. The library is loaded at once, for a program may fork at any moment after this; what takes long
/// goes on elsewhere.
pub(crate) fn begin() {
    if becomes(CLOSED, AHEAD).is_err() {
        return;
    }
    // SAFETY: a function of this library, which stays.
    unsafe { libc::atexit(at_exit) };
    let start = match Nvml::load() {
        Ok(nvml) => without_signals(|| {
            let builder = std::thread::Builder::new().name("memlab-nvml".to_owned());
            builder.spawn(move || guarded(|| put(nvml.start().inspect(Nvml::warm_up)))).map(drop)
        }),
        Err(reason) => {
            put(Err(reason));
            Ok(())
        }
    };
    if let Err(error) = start {
        put(Err(format!("no thread for NVML: {error}")));
    }
}

fn put(opened: Result<Nvml, String>) {
    *lock(&READY) = Some(opened);
    IS_READY.notify_all();
}

/// Libraries must not be taken down while NVML starts.
extern "C" fn at_exit() {
    guarded(|| {
        if STATE.load(Ordering::Acquire) == AHEAD {
            drop(IS_READY.wait_timeout_while(lock(&READY), LAST, |ready| ready.is_none()));
        }
    });
}

/// NVML, for the one who reads. Waits for a start that is under way.
///
/// # Errors
/// A sentence fragment that says why there is none.
pub(crate) fn take() -> Result<Nvml, String> {
    if becomes(CLOSED, TAKEN).is_ok() {
        return Nvml::load()?.start();
    }
    if becomes(AHEAD, TAKEN).is_err() {
        return Err("NVML was in use before the process was forked".to_owned());
    }
    let ready = IS_READY.wait_while(lock(&READY), |ready| ready.is_none());
    let opened = ready.unwrap_or_else(PoisonError::into_inner).take();
    opened.unwrap_or_else(|| Err("NVML did not start".to_owned()))
}

/// In a forked child. Touches an atomic alone.
pub(crate) fn forget() {
    if STATE.load(Ordering::Acquire) != CLOSED {
        STATE.store(FORKED, Ordering::Release);
    }
}
