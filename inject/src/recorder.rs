//! Rows on their way from the program's threads to the file.
//!
//! Owns the recorder of this process: made at the first call, given up in a forked child, which makes its own. One
//! short lock around what is waiting; what may wait for locks of others (the linker's, the interpreter's) happens
//! outside of it. Does not know how calls are seen.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::call::Row;
use crate::modules::{self, Loaded, Module};
use crate::nvml_start;
use crate::output::Output;
use crate::own_pipe;
use crate::own_time::OwnTime;
use crate::progress::Progress;
use crate::python::{Absent, Frames};
use crate::python_table::Spot;
use crate::settings::Settings;
use crate::thread;
use crate::waiting::Waiting;
use crate::walk::{Found, Walker};
use crate::writer::ENOUGH_ROWS;

/// Rows after which the calling thread writes itself: the queue is bounded, and nothing is lost.
const MOST_ROWS: usize = 16_384;

static CURRENT: AtomicPtr<Recorder> = AtomicPtr::new(null_mut());
/// Set for good when the recorder must not touch anything any more.
static IS_OFF: AtomicBool = AtomicBool::new(false);
/// Whether the one message was given.
static HAS_SAID: AtomicBool = AtomicBool::new(false);
static IS_FORKED: AtomicBool = AtomicBool::new(false);

/// The recorder of one process.
pub(crate) struct Recorder {
    pub(crate) pid: i32,
    pub(crate) settings: Settings,
    pub(crate) progress: Progress,
    pub(crate) own_time: OwnTime,
    walker: Walker,
    pub(crate) has_writer: AtomicBool,
    /// Calls whose Python frames could not be read.
    pub(crate) unread: AtomicU64,
    pub(crate) waiting: Mutex<Waiting>,
    pub(crate) wake: Condvar,
    /// A reading is over.
    pub(crate) has_read: Condvar,
    pub(crate) output: Mutex<Output>,
}

/// Locks even if another thread panicked: what is waiting stays whole, rows are pushed last.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Unix microseconds.
pub(crate) fn now_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_micros() as i64)
}

/// The recorder of this process, unless it is switched off.
pub(crate) fn current() -> Option<&'static Recorder> {
    if IS_OFF.load(Ordering::Relaxed) {
        return None;
    }
    let known = CURRENT.load(Ordering::Acquire);
    // SAFETY: what stands there was leaked, and is never freed.
    Some(unsafe { known.as_ref() }.unwrap_or_else(|| make()))
}

/// The same, if there is one already.
pub(crate) fn made() -> Option<&'static Recorder> {
    // SAFETY: see `current`.
    unsafe { CURRENT.load(Ordering::Acquire).as_ref() }.filter(|_| !IS_OFF.load(Ordering::Relaxed))
}

fn make() -> &'static Recorder {
    let made = Box::into_raw(Box::new(Recorder::new()));
    match CURRENT.compare_exchange(null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: leaked for good.
        Ok(_) => unsafe { &*made },
        Err(other) => {
            // SAFETY: nobody else has seen ours; the other one is leaked for good.
            unsafe {
                drop(Box::from_raw(made));
                &*other
            }
        }
    }
}

/// In a forked child: the parent's recorder is out of reach, its threads and its locks among it.
pub(crate) fn forget() {
    IS_FORKED.store(true, Ordering::Relaxed);
    CURRENT.store(null_mut(), Ordering::Release);
    own_pipe::forget();
    nvml_start::forget();
}

/// Ends the recording of this process: everything is written, then the trailer. Later calls are not recorded.
pub(crate) fn close() {
    // SAFETY: see `current`.
    if let Some(recorder) = unsafe { CURRENT.load(Ordering::Acquire).as_ref() } {
        IS_OFF.store(true, Ordering::Relaxed);
        recorder.write(true);
    }
}

/// Switches the recorder off for good, with one message, and notes it in the file as far as that is possible.
pub(crate) fn give_up(reason: &str) {
    IS_OFF.store(true, Ordering::Relaxed);
    if HAS_SAID.swap(true, Ordering::Relaxed) {
        return;
    }
    say(&format!("the driver recorder has stopped, the program goes on: {reason}"));
    // SAFETY: see `current`.
    if let Some(recorder) = unsafe { CURRENT.load(Ordering::Acquire).as_ref() } {
        lock(&recorder.waiting).faults.push((now_us(), format!("the driver recorder stopped: {reason}")));
        recorder.write(true);
    }
}

/// One line on stderr, in one write.
pub(crate) fn say(text: &str) {
    let line = format!("memlab: {text}\n");
    // SAFETY: the bytes are there; what the system answers does not matter.
    unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
}

impl Recorder {
    fn new() -> Self {
        // SAFETY: takes and touches nothing.
        let pid = unsafe { libc::getpid() };
        let settings = Settings::from_environment();
        let is_forked = IS_FORKED.load(Ordering::Relaxed);
        let output = Output::new(settings.path(pid), pid, is_forked, settings.since_us);
        Self {
            pid,
            settings,
            progress: Progress::default(),
            own_time: OwnTime::new(),
            walker: Walker::default(),
            has_writer: AtomicBool::new(false),
            unread: AtomicU64::new(0),
            waiting: Mutex::default(),
            wake: Condvar::new(),
            has_read: Condvar::new(),
            output: Mutex::new(output),
        }
    }

    /// Takes a row of the calling thread, with its stacks.
    pub(crate) fn record(&self, mut row: Row) {
        thread::inside(|is_within| {
            row.thread = thread::id(self.pid);
            let generation = modules::generation();
            // Within the recorder (a finalizer that frees, say) a stack would be the recorder's.
            let mut native = (self.settings.native && !is_within).then(|| self.walker.here(generation));
            let python = if self.settings.python && !is_within {
                Frames::here(generation.0, row.thread == self.pid as u32)
            } else {
                Err(Absent::NoPython)
            };
            if let Err(Absent::Unreadable) = python {
                self.unread.fetch_add(1, Ordering::Relaxed);
            }
            let python = python.ok();
            let (waiting, kept) = self.push(row, generation, native.as_mut(), python.as_ref());
            if let Some(frames) = python {
                frames.release(&kept);
            }
            self.begin_writing();
            if waiting >= MOST_ROWS {
                self.write(false);
            }
        });
    }

    /// Answers how many rows are waiting, and the spots whose code objects must stay alive.
    fn push(
        &self,
        mut row: Row,
        generation: (u64, u64),
        native: Option<&mut Found<'_>>,
        python: Option<&Frames>,
    ) -> (usize, Vec<Spot>) {
        let mut kept = Vec::new();
        let mut waiting = lock(&self.waiting);
        if native.is_some() && !waiting.native.is_current(generation) {
            drop(waiting);
            let loaded = Loaded::now();
            waiting = lock(&self.waiting);
            waiting.native.take(loaded, is_ours);
        }
        row.native = native.map_or(0, |found| {
            found.id().unwrap_or_else(|| {
                let id = waiting.native.stack(found.addresses());
                found.learn(id);
                id
            })
        });
        if let Some(frames) = python {
            let spots = frames.spots();
            if let Some(known) = waiting.python.known(spots) {
                row.python = known;
            } else {
                let unknown: Vec<usize> =
                    (0..spots.len()).filter(|&at| !waiting.python.knows(&spots[at])).collect();
                drop(waiting);
                let meanings: Vec<_> = unknown.iter().map(|&at| frames.meaning(at)).collect();
                waiting = lock(&self.waiting);
                for (at, meaning) in unknown.into_iter().zip(meanings) {
                    if waiting.python.learn(spots[at], meaning) {
                        kept.push(spots[at]);
                    }
                }
                row.python = waiting.python.stack(spots);
            }
        }
        let is_new = waiting.uses(&row);
        waiting.rows.push(row);
        let length = waiting.rows.len();
        drop(waiting);
        if length == 1 || length == ENOUGH_ROWS || is_new {
            self.wake.notify_one();
        }
        (length, kept)
    }

    /// Notes a fault, and writes it.
    pub(crate) fn fault(&self, text: String) {
        lock(&self.waiting).faults.push((now_us(), text));
        self.write(false);
    }
}

/// Whether frames of this file are the recorder's doing and not the program's.
fn is_ours(module: &Module) -> bool {
    let name = module.path.file_name().unwrap_or_default().to_string_lossy();
    ["libmemlab_inject.so", "libmemlab_preload.so", "libcupti.so"].iter().any(|ours| name.starts_with(ours))
}
