//! How much memory the files of a call may take that are analysed at one time.
//!
//! Owns the estimate of each file, the default, and who may begin. An estimate is made from the file alone, before it
//! is read; a trace that is larger than the whole budget is read in pieces, a snapshot is analysed alone rather than not
//! at all.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};

use crate::analysis::Room;
use crate::format::stated_events;

/// Bytes per event of a trace: 66 on `big` and on ten million generated events, 85 on `big` with its page.
const EVENT_BYTES: u64 = 85;
/// Bytes per event of a piece: its columns, those of its history, and what is summed over it.
const PIECE_EVENT_BYTES: u64 = 256;
/// Events of a piece: fewer make more work of what is live between two of them, more are no faster.
const FEWEST_IN_PIECE: usize = 1 << 14;
const MOST_IN_PIECE: usize = 1 << 20;
/// Where a trace does not say its events: as many bytes for each of the file, which holds two bytes an event or more.
const TRACE_FACTOR: u64 = 60;
/// Times the length of a snapshot, unpacked: 1.5 to 1.8 on `big`.
const SNAPSHOT_FACTOR: u64 = 2;
/// What any file takes.
const LEAST_BYTES: u64 = 8 << 20;
/// How much of a packed file is unpacked at most, when its end does not say.
const UNPACKS: u64 = 16;
/// Bytes at the end of a trace among which its trailer lies.
const TAIL: u64 = 64 << 10;
/// Where the machine does not say what is available.
const UNKNOWN: u64 = 4 << 30;

/// The budget of a call.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Bytes that the files in work may take together.
    pub(crate) bytes: u64,
    /// Whether somebody said so.
    pub(crate) is_asked: bool,
}

impl Budget {
    /// What was asked for, else half of what is available.
    pub(crate) fn new(asked: Option<u64>) -> Self {
        Self { bytes: asked.unwrap_or_else(|| available() / 2), is_asked: asked.is_some() }
    }

    /// How much of a recording that does not fit may be in memory: a part for the piece in work, which takes more than
    /// its events do, and a part for the last events, which are analysed together.
    pub(crate) fn room(&self) -> Room {
        let events = |bytes: u64, each: u64| usize::try_from(bytes / each).unwrap_or(usize::MAX);
        let piece_events = events(self.bytes / 4, PIECE_EVENT_BYTES).clamp(FEWEST_IN_PIECE, MOST_IN_PIECE);
        Room { piece_events, last_events: events(self.bytes / 2, EVENT_BYTES) }
    }

    /// Does `work` on each place of `costs`, several at a time as far as the budget goes and at most as many as rayon's
    /// pool has threads; results are in order. Workers are threads of their own: one of the pool that waits for its
    /// turn would hold up others, and one that waits for work within a file may begin another file.
    pub(crate) fn run<T: Send>(&self, costs: &[u64], work: impl Fn(usize) -> T + Sync) -> Vec<T> {
        let workers = rayon::current_num_threads().min(costs.len());
        let gate = Gate { budget: self.bytes, costs, turns: Mutex::default(), changed: Condvar::new() };
        let results: Vec<Mutex<Option<T>>> = costs.iter().map(|_| Mutex::new(None)).collect();
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    while let Some(turn) = gate.enter() {
                        let result = work(turn.place);
                        *results[turn.place].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
                    }
                });
            }
        });
        let taken = |result: Mutex<Option<T>>| result.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.into_iter().map(|result| taken(result).expect("every place had its turn")).collect()
    }
}

#[derive(Debug, Default)]
struct Turns {
    next: usize,
    running: usize,
    taken: u64,
}

/// Lets places in, in order.
struct Gate<'a> {
    budget: u64,
    costs: &'a [u64],
    turns: Mutex<Turns>,
    changed: Condvar,
}

/// Leave to work on a place; given back when dropped, also by a panic.
struct Turn<'a> {
    gate: &'a Gate<'a>,
    place: usize,
}

impl Gate<'_> {
    /// Waits until the next place fits; `None` when all had their turn.
    fn enter(&self) -> Option<Turn<'_>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let place = turns.next;
            let cost = *self.costs.get(place)?;
            if turns.running == 0 || turns.taken.saturating_add(cost) <= self.budget {
                turns.next += 1;
                turns.running += 1;
                turns.taken = turns.taken.saturating_add(cost);
                return Some(Turn { gate: self, place });
            }
            turns = self.changed.wait(turns).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut turns = self.gate.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.running -= 1;
        turns.taken = turns.taken.saturating_sub(self.gate.costs[self.place]);
        self.gate.changed.notify_all();
    }
}

/// What the analysis of the file is likely to take, in bytes; the least where it cannot be looked at.
pub(crate) fn cost(path: &Path) -> u64 {
    looked_at(path).unwrap_or(0).saturating_add(LEAST_BYTES)
}

fn looked_at(path: &Path) -> Option<u64> {
    let found = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let length = found.len();
    let mut file = File::open(path).ok()?;
    let mut start = [0; 64];
    let read = file.read(&mut start).ok()?;
    let start = &start[..read];
    if crate::format::is_trace(start) {
        let events = tail(&mut file, length).and_then(|tail| stated_events(&tail));
        return Some(
            events.map_or(length.saturating_mul(TRACE_FACTOR), |events| events.saturating_mul(EVENT_BYTES)),
        );
    }
    let unpacked = if start.starts_with(&[0x1f, 0x8b]) {
        // The length modulo 4 GiB stands at the end.
        let tail = tail(&mut file, length)?;
        let stated = tail.last_chunk().map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes)));
        stated.max(length)
    } else if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        zstd::zstd_safe::get_frame_content_size(start)
            .ok()
            .flatten()
            .unwrap_or(length.saturating_mul(UNPACKS))
    } else {
        length
    };
    Some(unpacked.saturating_mul(SNAPSHOT_FACTOR))
}

fn tail(file: &mut File, length: u64) -> Option<Vec<u8>> {
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL))).ok()?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Memory that this process may still take: the machine's, or less where a control group says so.
fn available() -> u64 {
    let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    });
    let limit = number("/sys/fs/cgroup/memory.max");
    let used = number("/sys/fs/cgroup/memory.current").unwrap_or(0);
    let group = limit.map(|limit| limit.saturating_sub(used));
    machine.into_iter().chain(group).min().unwrap_or(UNKNOWN)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    use super::*;

    fn most_at_a_time(budget: u64, costs: &[u64]) -> (u64, Vec<usize>) {
        let (now, most) = (AtomicU64::new(0), AtomicU64::new(0));
        let budget = Budget { bytes: budget, is_asked: true };
        let results = budget.run(costs, |place| {
            most.fetch_max(now.fetch_add(costs[place], SeqCst) + costs[place], SeqCst);
            std::thread::sleep(std::time::Duration::from_millis(2));
            now.fetch_sub(costs[place], SeqCst);
            place
        });
        (most.into_inner(), results)
    }

    #[test]
    fn files_in_work_stay_within_the_budget_and_results_in_order() {
        let costs = [4, 4, 1, 2, 4, 3, 3, 1, 1, 1];
        let (most, results) = most_at_a_time(4, &costs);
        assert_eq!((most, results), (4, (0..costs.len()).collect()));
        assert!(most_at_a_time(100, &costs).0 <= 22);
    }

    #[test]
    fn no_more_are_at_work_than_the_pool_has_threads() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let (now, most) = (AtomicU64::new(0), AtomicU64::new(0));
        let results = pool.install(|| {
            Budget { bytes: u64::MAX, is_asked: true }.run(&[1; 20], |place| {
                most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                std::thread::sleep(std::time::Duration::from_millis(2));
                now.fetch_sub(1, SeqCst);
                place * 2
            })
        });
        assert!(most.into_inner() <= 2);
        assert_eq!(results, (0..20).map(|place| place * 2).collect::<Vec<_>>());
    }

    #[test]
    fn a_file_beyond_the_budget_has_it_to_itself() {
        let (most, results) = most_at_a_time(2, &[1, 9, 1]);
        assert_eq!((most, results), (9, vec![0, 1, 2]));
        assert!(Budget::new(None).run(&[], |place| place).is_empty());
    }

    #[test]
    fn a_recording_costs_by_what_it_unpacks_to() {
        let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/torch");
        let cost = |name: &str| cost(&testdata.join(name));
        let big = cost("big.pickle.gz");
        assert!((90_000_000..120_000_000).contains(&big), "{big}");
        assert_eq!(cost("missing"), LEAST_BYTES);
        assert!(available() > 1 << 20);
    }
}
