//! Rows on their way from the program's threads to the file.
//!
//! Owns the recorder of this process: made at the first call, given up in a forked child, which makes its own. One
//! short lock around what is waiting; what may wait for locks of others (the linker's, the interpreter's) happens
//! outside of it. Does not know how calls are seen.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::call::{NO_DEVICE, Row};
use crate::hook::{Hook, guarded};
use crate::modules::{self, Loaded, Module};
use crate::native_table::NativeTable;
use crate::output::Output;
use crate::process::Facts;
use crate::python::{self, Absent, Frames};
use crate::python_table::{PythonTable, Spot};
use crate::readings::{Readings, Sample};
use crate::settings::Settings;
use crate::thread;
use crate::unwind::Addresses;
use crate::walk::Walker;
use crate::wire::Chunk;

/// Rows after which the writer begins.
const ENOUGH_ROWS: usize = 2048;
/// Rows after which the calling thread writes itself: the queue is bounded, and nothing is lost.
const MOST_ROWS: usize = 16_384;
/// Devices that are read, at most.
const MOST_DEVICES: usize = 64;
/// How long the end of the process waits for a last reading.
const LAST: Duration = Duration::from_secs(1);
/// How long a row waits for others.
const WAIT: Duration = Duration::from_millis(200);

static CURRENT: AtomicPtr<Recorder> = AtomicPtr::new(null_mut());
/// Set for good when the recorder must not touch anything any more.
static IS_OFF: AtomicBool = AtomicBool::new(false);
/// Whether the one message was given.
static HAS_SAID: AtomicBool = AtomicBool::new(false);
static IS_FORKED: AtomicBool = AtomicBool::new(false);

/// The recorder of one process.
pub(crate) struct Recorder {
    pub(crate) pid: i32,
    settings: Settings,
    order: AtomicU64,
    walker: Walker,
    has_writer: AtomicBool,
    /// Calls whose Python frames could not be read.
    unread: AtomicU64,
    waiting: Mutex<Waiting>,
    wake: Condvar,
    /// A reading is over.
    has_read: Condvar,
    output: Mutex<Output>,
}

/// What is not in the file yet.
#[derive(Default)]
pub(crate) struct Waiting {
    rows: Vec<Row>,
    native: NativeTable,
    python: PythonTable,
    samples: Vec<Sample>,
    faults: Vec<(i64, String)>,
    /// Devices that the process uses.
    devices: Vec<u32>,
    /// Whether the writer is asked for a reading, and whether it is at it.
    wants_reading: bool,
    is_reading: bool,
    /// Where readings come from, in the words of the file.
    readings: Option<String>,
}

/// What goes to the file at once, in this order.
pub(crate) struct Batch {
    pub(crate) tables: Vec<Chunk>,
    pub(crate) rows: Vec<Row>,
    pub(crate) samples: Vec<Sample>,
    pub(crate) faults: Vec<(i64, String)>,
}

/// Locks even if another thread panicked: what is waiting stays whole, rows are pushed last.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
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
}

/// When exit handlers run: the last moment at which the driver is sure to be there.
extern "C" fn at_exit() {
    guarded(|| {
        // SAFETY: see `current`.
        let recorder = unsafe { CURRENT.load(Ordering::Acquire).as_ref() };
        if let Some(recorder) = recorder.filter(|_| !IS_OFF.load(Ordering::Relaxed)) {
            recorder.read_at_the_end();
        }
    });
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
            order: AtomicU64::new(0),
            walker: Walker::default(),
            has_writer: AtomicBool::new(false),
            unread: AtomicU64::new(0),
            waiting: Mutex::default(),
            wake: Condvar::new(),
            has_read: Condvar::new(),
            output: Mutex::new(output),
        }
    }

    /// The next number of the order, from 1 on.
    pub(crate) fn next_order(&self) -> u64 {
        self.order.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Takes a row of the calling thread, with its stacks.
    pub(crate) fn record(&self, mut row: Row) {
        thread::inside(|is_within| {
            row.thread = thread::id(self.pid);
            let generation = modules::generation();
            // Within the recorder (a finalizer that frees, say) a stack would be the recorder's.
            let native = if self.settings.native && !is_within {
                self.walker.here(generation)
            } else {
                Addresses::NONE
            };
            let python = if self.settings.python && !is_within {
                Frames::here(generation.0, row.thread == self.pid as u32)
            } else {
                Err(Absent::NoPython)
            };
            if let Err(Absent::Unreadable) = python {
                self.unread.fetch_add(1, Ordering::Relaxed);
            }
            let python = python.ok();
            let (waiting, kept) = self.push(row, generation, &native, python.as_ref());
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
        native: &Addresses,
        python: Option<&Frames>,
    ) -> (usize, Vec<Spot>) {
        let mut kept = Vec::new();
        let mut waiting = lock(&self.waiting);
        if !native.as_slice().is_empty() && !waiting.native.is_current(generation) {
            drop(waiting);
            let loaded = Loaded::now();
            waiting = lock(&self.waiting);
            waiting.native.take(loaded, is_ours);
        }
        row.native = waiting.native.stack(native.as_slice());
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

    /// At the first call: takes the file's name, before a forked child may, and starts the writer.
    fn begin_writing(&self) {
        if self.has_writer.swap(true, Ordering::Relaxed) {
            return;
        }
        self.write(false);
        // From here on, for the handlers of CUDA's libraries are older then, and run later.
        static ONCE: Once = Once::new();
        // SAFETY: a function of this library, which stays.
        ONCE.call_once(|| _ = unsafe { libc::atexit(at_exit) });
        // SAFETY: recorders are never freed.
        let recorder: &'static Self = unsafe { &*std::ptr::from_ref(self) };
        if let Err(error) = without_signals(|| {
            let builder = std::thread::Builder::new().name("memlab-driver".to_owned());
            builder.spawn(move || recorder.write_on()).map(drop)
        }) {
            give_up(&format!("no thread for writing: {error}"));
        }
    }

    /// The writer's thread.
    fn write_on(&self) {
        let mut readings = Readings::new(self.pid);
        loop {
            let is_asked = self.wait(readings.due_in(self.order.load(Ordering::Relaxed)));
            self.write(false);
            let due_in = readings.due_in(self.order.load(Ordering::Relaxed));
            if is_asked || due_in.is_some_and(|time| time.is_zero()) {
                self.read(&mut readings);
            }
        }
    }

    /// Waits for rows and a while for more of them, for somebody who asks for a reading, or until one is due. Answers
    /// whether one was asked for.
    fn wait(&self, due_in: Option<Duration>) -> bool {
        let mut waiting = lock(&self.waiting);
        let is_idle = |waiting: &mut Waiting| waiting.rows.is_empty() && !waiting.wants_reading;
        waiting = match due_in {
            Some(time) => {
                self.wake.wait_timeout_while(waiting, time, is_idle).unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.wake.wait_while(waiting, is_idle).unwrap_or_else(PoisonError::into_inner),
        };
        if !waiting.rows.is_empty() {
            let is_short = |waiting: &mut Waiting| waiting.rows.len() < ENOUGH_ROWS && !waiting.wants_reading;
            let waited = self.wake.wait_timeout_while(waiting, WAIT, is_short);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        waiting.is_reading = std::mem::take(&mut waiting.wants_reading);
        waiting.is_reading
    }

    /// Takes a reading and writes it. No lock is held while the driver is asked.
    fn read(&self, readings: &mut Readings) {
        let devices = lock(&self.waiting).devices.clone();
        let samples = readings.take(&devices, self.order.load(Ordering::Relaxed));
        let mut waiting = lock(&self.waiting);
        waiting.samples.extend(samples);
        waiting.readings = readings.how();
        waiting.is_reading = false;
        drop(waiting);
        self.has_read.notify_all();
        self.write(false);
    }

    /// Has the writer take a last reading, and waits for it, but not for long.
    pub(crate) fn read_at_the_end(&self) {
        let mut waiting = lock(&self.waiting);
        if waiting.devices.is_empty() || !self.has_writer.load(Ordering::Relaxed) {
            return;
        }
        waiting.wants_reading = true;
        self.wake.notify_one();
        let is_under_way = |waiting: &mut Waiting| waiting.wants_reading || waiting.is_reading;
        drop(self.has_read.wait_timeout_while(waiting, LAST, is_under_way));
    }

    fn facts(&self) -> Facts {
        let python = if self.settings.python { python::how() } else { None };
        Facts {
            hook: Hook::current(),
            python,
            python_unread: self.unread.load(Ordering::Relaxed),
            readings: lock(&self.waiting).readings.clone(),
        }
    }

    /// Writes what is waiting, and the trailer if this `is_last`.
    fn write(&self, is_last: bool) {
        let mut output = lock(&self.output);
        output.set_facts(self.facts(), is_last);
        let result = loop {
            let batch = lock(&self.waiting).take();
            let is_empty = batch.rows.is_empty() && batch.samples.is_empty() && batch.faults.is_empty();
            let result = if is_empty { Ok(()) } else { output.write(batch) };
            if is_empty || result.is_err() {
                break result;
            }
        };
        let result = if is_last { result.and_then(|()| output.close()) } else { result.map(|()| None) };
        let path = output.path().display().to_string();
        drop(output);
        match result {
            Ok(Some(1)) if self.settings.says => say(&format!("wrote {path}: 1 driver call")),
            Ok(Some(calls)) if self.settings.says => say(&format!("wrote {path}: {calls} driver calls")),
            Ok(_) => {}
            Err(error) => give_up(&format!("cannot write {path}: {error}")),
        }
    }
}

impl Waiting {
    /// Notes the device of a call. Answers whether it is the first of its device: then a reading tells what the context
    /// alone takes.
    fn uses(&mut self, row: &Row) -> bool {
        let is_new = row.device != NO_DEVICE
            && row.result == 0
            && !self.devices.contains(&row.device)
            && self.devices.len() < MOST_DEVICES;
        if is_new {
            self.devices.push(row.device);
            self.wants_reading = true;
        }
        is_new
    }

    fn take(&mut self) -> Batch {
        Batch {
            tables: self.native.drain().into_iter().chain(self.python.drain()).collect(),
            rows: std::mem::take(&mut self.rows),
            samples: std::mem::take(&mut self.samples),
            faults: std::mem::take(&mut self.faults),
        }
    }
}

/// Whether frames of this file are the recorder's doing and not the program's.
fn is_ours(module: &Module) -> bool {
    let name = module.path.file_name().unwrap_or_default().to_string_lossy();
    ["libmemlab_inject.so", "libmemlab_preload.so", "libcupti.so"].iter().any(|ours| name.starts_with(ours))
}

/// Runs `spawn` so that the thread it makes gets none of the program's signals.
fn without_signals<T>(spawn: impl FnOnce() -> T) -> T {
    // SAFETY: both sets are written before they are read.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let result = spawn();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, null_mut());
        result
    }
}
