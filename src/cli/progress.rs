//! The progress bar: bytes read of bytes to read, over all inputs together.
//!
//! A thread of its own draws it, half a second after the work began, so short runs never flicker and the
//! readers only touch two counters. Gone without a trace when the work is done.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work that takes less than this shows no bar.
const DELAY: Duration = Duration::from_millis(500);
const REDRAW: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
struct Counters {
    done: AtomicU64,
    total: AtomicU64,
    files_done: AtomicU64,
    /// 0 where files are not counted.
    files: AtomicU64,
}

/// Progress of one run. Dropping it removes the bar.
#[derive(Debug)]
pub(crate) struct Progress {
    counters: Arc<Counters>,
    drawing: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Begins; `is_visible` is the console's verdict.
    pub(crate) fn start(is_visible: bool) -> Self {
        let counters = Arc::new(Counters::default());
        let drawing = is_visible.then(|| {
            let (stop, stopped) = mpsc::channel();
            let counters = Arc::clone(&counters);
            (stop, std::thread::spawn(move || draw(&counters, &stopped)))
        });
        Self { counters, drawing }
    }

    /// Says that files are counted, too, and how many there are.
    pub(crate) fn expect_files(&self, files: usize) {
        self.counters.files.store(files as u64, Relaxed);
    }

    /// One more file is done with.
    pub(crate) fn file_done(&self) {
        self.counters.files_done.fetch_add(1, Relaxed);
    }

    /// A callback for one input: bytes done and bytes in all, both of that input and growing.
    pub(crate) fn input(&self) -> impl Fn(u64, u64) + Sync + use<> {
        let counters = Arc::clone(&self.counters);
        let seen = Counters::default();
        // Each input adds what changed since its last call; the sums wrap, so the order of calls is free.
        move |done, total| {
            counters.done.fetch_add(done.wrapping_sub(seen.done.swap(done, Relaxed)), Relaxed);
            counters.total.fetch_add(total.wrapping_sub(seen.total.swap(total, Relaxed)), Relaxed);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.drawing.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}

/// Draws until the other end of `stopped` is dropped.
fn draw(counters: &Counters, stopped: &mpsc::Receiver<()>) {
    if stopped.recv_timeout(DELAY) != Err(RecvTimeoutError::Timeout) {
        return;
    }
    let bar = ProgressBar::hidden();
    bar.enable_steady_tick(REDRAW);
    loop {
        let (done, total) = (counters.done.load(Relaxed), counters.total.load(Relaxed));
        bar.set_style(style(total));
        bar.set_length(total.max(done));
        bar.set_position(done);
        bar.set_message(message(counters, total > 0 && done >= total));
        if bar.is_hidden() {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        if stopped.recv_timeout(REDRAW) != Err(RecvTimeoutError::Timeout) {
            break;
        }
    }
    bar.finish_and_clear();
}

/// What goes on, and how far it is where several files are counted.
fn message(counters: &Counters, is_read: bool) -> String {
    let word = if is_read { "Analyzing" } else { "Reading" };
    let (done, files) = (counters.files_done.load(Relaxed), counters.files.load(Relaxed));
    if files > 1 { format!("{word} ({done} of {files} files done)") } else { word.to_owned() }
}

/// A bar where the end is known, else a count.
fn style(total: u64) -> ProgressStyle {
    let template = match total {
        0 => "{spinner} {msg} {binary_bytes}",
        _ => "{spinner} {msg} {wide_bar} {binary_bytes}/{binary_total_bytes}",
    };
    ProgressStyle::with_template(template).expect("the templates are constant and well-formed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_add_up() {
        let progress = Progress::start(false);
        let (first, second) = (progress.input(), progress.input());
        first(10, 100);
        second(5, 50);
        first(100, 100);
        assert_eq!(progress.counters.done.load(Relaxed), 105);
        assert_eq!(progress.counters.total.load(Relaxed), 150);
    }

    #[test]
    fn files_are_counted_where_there_are_several() {
        let progress = Progress::start(false);
        progress.expect_files(1);
        assert_eq!(message(&progress.counters, false), "Reading");
        progress.expect_files(64);
        progress.file_done();
        assert_eq!(message(&progress.counters, true), "Analyzing (1 of 64 files done)");
    }

    #[test]
    fn a_short_run_ends_at_once() {
        let began = std::time::Instant::now();
        drop(Progress::start(true));
        assert!(began.elapsed() < DELAY);
    }
}
