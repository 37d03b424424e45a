//! Pages of a long file, brought in while it is parsed.
//!
//! Owns a thread that touches the mapped pages in front of the parser. Faults of pages are a fifth of the time of a
//! snapshot that is in the page cache, and nearly all of one that is not.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Shorter files are parsed before a thread has begun.
const LONG: usize = 8 << 20;
const PAGE: usize = 4 << 10;
/// Pages touched between two looks at whether it is still worth it.
const STEP: usize = 1 << 20;

/// Does `work` on `bytes` while their pages are brought in.
pub(super) fn with_pages<T>(bytes: &[u8], work: impl FnOnce() -> T) -> T {
    if bytes.len() < LONG {
        return work();
    }
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| touch(bytes, &is_done));
        let _ends = Ends(&is_done);
        work()
    })
}

/// Says that it is over, also when a panic ends the work.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn touch(bytes: &[u8], is_done: &AtomicBool) {
    let steps = bytes.chunks(STEP).take_while(|_| !is_done.load(Relaxed));
    let sum = steps.flat_map(|step| step.iter().step_by(PAGE)).fold(0u8, |sum, &byte| sum ^ byte);
    std::hint::black_box(sum);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_is_done_whatever_the_length_and_ends_the_touching() {
        let bytes = vec![1u8; LONG + 5];
        for part in [&bytes[..10], &bytes[..]] {
            assert_eq!(with_pages(part, || part.len()), part.len());
        }
        let done = AtomicBool::new(true);
        touch(&bytes, &done);
    }
}
