//! Many inputs, few at a time: what is in memory is bounded by the number of threads, not by the number of files.
//!
//! Owns the workers. A parallel loop over files is not bounded: while a thread waits for work within one file it
//! may begin another. So each worker is a thread of its own that finishes a file before it takes the next; work
//! within a file is still spread over the pool.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::ScopedJoinHandle;

use super::console::Console;
use super::input::{self, Input};

/// Reads every path and does `work` on it, told its place among `paths`; results are in their order. At most as
/// many traces as there are threads in the pool are in memory at one time.
///
/// # Errors
/// Only when standard input is asked for and cannot be used. What goes wrong with one path is in its result.
pub(crate) fn each<T: Send>(
    paths: &[PathBuf],
    console: &Console,
    work: impl Fn(usize, Input) -> anyhow::Result<T> + Sync,
) -> anyhow::Result<Vec<anyhow::Result<T>>> {
    input::check_standard_input(paths)?;
    let progress = console.progress();
    let one = |place: usize| {
        let input = input::read(&paths[place], &progress)?;
        let note = input.read_note();
        Ok((work(place, input)?, note))
    };
    let results = in_turn(paths.len(), rayon::current_num_threads(), one);
    drop(progress);
    Ok(input::noted(results, console))
}

/// `work` on 0 to `count`, at most `most` at one time; results in order.
fn in_turn<T: Send>(count: usize, most: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let places = std::iter::repeat_with(|| next.fetch_add(1, Relaxed)).take_while(|&place| place < count);
        places.map(|place| (place, work(place))).collect::<Vec<_>>()
    };
    let mut results: Vec<(usize, T)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..most.clamp(1, count.max(1))).map(|_| scope.spawn(worker)).collect();
        let done = workers.into_iter().map(ScopedJoinHandle::join);
        done.flat_map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_and_few_are_at_work_at_one_time() {
        let (at_work, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let results = in_turn(50, 3, |place| {
            most.fetch_max(at_work.fetch_add(1, Relaxed) + 1, Relaxed);
            std::thread::sleep(std::time::Duration::from_millis((place % 3) as u64));
            at_work.fetch_sub(1, Relaxed);
            place * 2
        });
        assert_eq!(results, (0..50).map(|place| place * 2).collect::<Vec<_>>());
        assert!((1..=3).contains(&most.load(Relaxed)));
        assert!(in_turn(0, 8, |place| place).is_empty());
    }
}
