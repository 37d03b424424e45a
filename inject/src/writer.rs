//! The thread that writes, and asks the driver for readings.
//!
//! Owns when something is written, and by whom: this thread, or a thread of the program whose rows do not fit any more.
//! Does not know how files look.

use std::ptr::null_mut;
use std::sync::atomic::Ordering;
use std::sync::{Once, PoisonError};
use std::time::Duration;

use crate::hook::{Hook, guarded};
use crate::process::Facts;
use crate::python;
use crate::readings::{Readings, Wish};
use crate::recorder::{Recorder, give_up, lock, made, say};
use crate::waiting::Waiting;

/// Rows after which the writer begins.
pub(crate) const ENOUGH_ROWS: usize = 2048;
/// How long the end of the process waits for a last reading.
const LAST: Duration = Duration::from_secs(1);
/// How long a row waits for others.
const WAIT: Duration = Duration::from_millis(200);

static HANDLER: Once = Once::new();

/// When exit handlers run: the last moment at which the driver is sure to be there.
extern "C" fn at_exit() {
    guarded(|| {
        if let Some(recorder) = made() {
            recorder.read_at_the_end();
        }
    });
}

impl Recorder {
    /// At the first call: takes the file's name, before a forked child may, and starts the writer.
    pub(crate) fn begin_writing(&self) {
        if self.has_writer.swap(true, Ordering::Relaxed) {
            return;
        }
        self.write(false);
        // Not earlier, for what CUDA's libraries have registered until now runs after it.
        // SAFETY: a function of this library, which stays.
        HANDLER.call_once(|| _ = unsafe { libc::atexit(at_exit) });
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
            if let Some(wish) = self.wait(readings.due_in(self.progress.order())) {
                // Before anything is written: the program goes on.
                self.read(&mut readings, wish);
                continue;
            }
            self.write(false);
            if readings.due_in(self.progress.order()).is_some_and(|time| time.is_zero()) {
                self.read(&mut readings, Wish::Passing);
            }
        }
    }

    /// Waits for rows and a while for more of them, for somebody who asks for a reading, or until one is due. Answers
    /// what was asked for.
    fn wait(&self, due_in: Option<Duration>) -> Option<Wish> {
        let mut waiting = lock(&self.waiting);
        let is_idle = |waiting: &mut Waiting| waiting.rows.is_empty() && waiting.wish.is_none();
        waiting = match due_in {
            Some(time) => {
                self.wake.wait_timeout_while(waiting, time, is_idle).unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.wake.wait_while(waiting, is_idle).unwrap_or_else(PoisonError::into_inner),
        };
        if !waiting.rows.is_empty() {
            let is_short = |waiting: &mut Waiting| waiting.rows.len() < ENOUGH_ROWS && waiting.wish.is_none();
            let waited = self.wake.wait_timeout_while(waiting, WAIT, is_short);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let wish = waiting.wish.take();
        waiting.is_reading = wish.is_some();
        wish
    }

    /// Takes a reading and writes it. No lock is held while the driver is asked.
    fn read(&self, readings: &mut Readings, wish: Wish) {
        let devices = lock(&self.waiting).devices.clone();
        let samples = readings.take(&devices, &self.progress, wish);
        let mut waiting = lock(&self.waiting);
        waiting.samples.extend(samples);
        waiting.readings = readings.how();
        waiting.is_reading = false;
        drop(waiting);
        self.has_read.notify_all();
        self.write(false);
    }

    /// Has the writer take a last reading, and waits for it, but not for long.
    fn read_at_the_end(&self) {
        let mut waiting = lock(&self.waiting);
        if waiting.devices.is_empty() || !self.has_writer.load(Ordering::Relaxed) {
            return;
        }
        waiting.wish = Some(Wish::Last);
        self.wake.notify_one();
        let is_under_way = |waiting: &mut Waiting| waiting.wish.is_some() || waiting.is_reading;
        drop(self.has_read.wait_timeout_while(waiting, LAST, is_under_way));
    }

    fn facts(&self, is_last: bool) -> Facts {
        let python = if self.settings.python { python::how() } else { None };
        Facts {
            hook: Hook::current(),
            python,
            python_unread: self.unread.load(Ordering::Relaxed),
            readings: lock(&self.waiting).readings.clone(),
            own_time: is_last.then(|| self.own_time.sums()),
        }
    }

    /// Writes what is waiting, and the trailer if this `is_last`.
    pub(crate) fn write(&self, is_last: bool) {
        let mut output = lock(&self.output);
        output.set_facts(self.facts(is_last), is_last);
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

/// Runs `spawn` so that the thread it makes gets none of the program's signals.
pub(crate) fn without_signals<T>(spawn: impl FnOnce() -> T) -> T {
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
