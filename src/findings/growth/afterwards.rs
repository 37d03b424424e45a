//! What comes behind the steps that were compared.
//!
//! Steps may cover a part of a recording only: a profiler names some of them, a repetition is found only as long
//! as all rounds are alike. Where the loop goes on behind them and the leak does not, the leak has ended.

use std::collections::BTreeSet;

use crate::findings::Scene;
use crate::rebuild::NONE;
use crate::tables::{Origins, Pace};

use super::grown::last_request;
use super::leak::Leak;

/// So many blocks must be expected behind the steps before their absence says anything.
const LEAST_EXPECTED: u64 = 2;
/// And at least this part of them must be there.
const GOES_ON_PART: u64 = 2;

/// Those of `leaks` that go on as long as the loop does.
pub(super) fn that_go_on(
    scene: &Scene<'_>,
    pace: &Pace,
    origins: &Origins,
    mut leaks: Vec<Leak>,
) -> Vec<Leak> {
    if leaks.is_empty() {
        return leaks;
    }
    let seen = Seen::of(scene, pace, origins);
    let (begin, end) = (pace.begin().0, pace.end().0);
    let leaking: BTreeSet<usize> = leaks.iter().map(|leak| leak.origin as usize).collect();
    let loop_end = seen.loop_end(pace.len(), &leaking);
    let within = u128::from(end.saturating_sub(begin).max(1));
    let after = u128::from(loop_end.saturating_sub(end));
    leaks.retain(|leak| {
        let expected = (leak.rows.len() as u128 * after / within) as u64;
        expected < LEAST_EXPECTED || seen.kept_after[leak.origin as usize] * GOES_ON_PART >= expected
    });
    leaks
}

/// What each origin does during the steps and behind them.
struct Seen {
    /// In how many steps it allocates.
    steps: Vec<u32>,
    /// The moment behind its last allocation.
    last: Vec<u64>,
    /// Blocks from behind the steps that nobody gives back while the program goes on.
    kept_after: Vec<u64>,
}

impl Seen {
    fn of(scene: &Scene<'_>, pace: &Pace, origins: &Origins) -> Self {
        let rows = &scene.history.allocations;
        let (end, stop) = (pace.end().0, last_request(scene.history));
        let count = origins.len();
        let mut seen = Self { steps: vec![0; count], last: vec![0; count], kept_after: vec![0; count] };
        let mut last_step = vec![usize::MAX; count];
        let mut hint = 0;
        for row in 0..rows.len() {
            let alloc = rows.alloc_events[row];
            if alloc == NONE {
                continue;
            }
            let origin = origins.of(row) as usize;
            seen.last[origin] = u64::from(alloc) + 1;
            if u64::from(alloc) >= end {
                let free = rows.given_back_event(row);
                seen.kept_after[origin] += u64::from(free >= stop);
            } else if let Some(step) = pace.within(alloc.into(), hint) {
                hint = step;
                seen.steps[origin] += u32::from(std::mem::replace(&mut last_step[origin], step) != step);
            }
        }
        seen
    }

    /// When half of what allocates in at least every second step, and does not leak, has stopped.
    fn loop_end(&self, steps: usize, leaking: &BTreeSet<usize>) -> u64 {
        let is_loop =
            |&(origin, &count): &(usize, &u32)| count as usize * 2 >= steps && !leaking.contains(&origin);
        let in_loop = self.steps.iter().enumerate().filter(is_loop);
        let mut last: Vec<u64> = in_loop.map(|(origin, _)| self.last[origin]).collect();
        last.sort_unstable();
        last.get(last.len().saturating_sub(1) / 2).copied().unwrap_or_default()
    }
}
