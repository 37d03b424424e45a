//! Releases: bursts of frees that look like a run of Python's garbage collector.
//!
//! Owns the judgement of bursts ([`crate::tables::bursts`]); what is said about them is the rule
//! `reference-cycle`'s.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use crate::rebuild::NONE;
use crate::tables::{Burst, Origins, Pace, Together, bursts};

use super::growth::bytes_of;
use super::{Scene, compared};

/// Blocks of at least so many steps go together.
const LEAST_STEPS: u32 = 3;
/// At least so many blocks, or this part of what is live.
const LEAST_BLOCKS: usize = 8;
const LEAST_PART: u64 = 20;
/// Of as many blocks as a burst takes, divided by this, may be left of the same age.
const LEFT_PART: usize = 10;
/// A bound on the work, far above what real recordings need.
const MOST_LOOKED_AT: usize = 50_000_000;
/// Without steps: so many bursts, of blocks made over this part of the time before (in fifths).
const LEAST_BURSTS_WITHOUT_STEPS: usize = 2;
const FIFTHS_OF_TIME: u64 = 4;
/// What runs in at most so many steps per burst, and in at most a quarter of all, belongs to an epoch's end.
const RARE_PER_BURST: u32 = 2;
const RARE_PART: usize = 4;
/// What a burst released that had waited.
pub(super) struct Release {
    /// The burst, and of its blocks only those that had waited.
    pub(super) burst: Burst,
    /// Whether its blocks are of different steps, or (where these are unknown) only of different calls.
    pub(super) of_steps: bool,
}

impl Release {
    /// Rows of the blocks.
    pub(super) fn rows(&self) -> impl Iterator<Item = usize> + '_ {
        self.burst.together.iter().flat_map(|together| together.rows.iter().map(|&row| row as usize))
    }

    /// Their bytes.
    pub(super) fn bytes(&self, scene: &Scene<'_>) -> u64 {
        bytes_of(scene, self.rows())
    }

    /// The most steps of which one origin's blocks are.
    pub(super) fn spread(&self) -> u32 {
        self.burst.together.iter().map(|together| together.spread).max().unwrap_or_default()
    }
}

/// All releases of a device, in order.
pub(super) fn releases(scene: &Scene<'_>) -> Vec<Release> {
    let origins = scene.origins();
    let steps = compared::steps(scene);
    if steps.rows.is_empty() {
        return without_steps(scene, origins);
    }
    let mut paces = Pace::all(&steps, scene.history, LEAST_STEPS as usize).into_iter();
    paces.next().map(|pace| over_steps(scene, origins, &pace)).unwrap_or_default()
}

fn over_steps(scene: &Scene<'_>, origins: &Origins, pace: &Pace) -> Vec<Release> {
    let found = bursts(scene.history, origins, Some(pace), LEAST_STEPS);
    let mut kept: Vec<Burst> = found.bursts;
    for burst in &mut kept {
        let goes_on = |together: &Together| goes_on(&found.last_alloc, burst.events.end, together);
        burst.together.retain(|together| goes_on(together) && is_in_order(scene, together));
    }
    kept.retain(|burst| is_large(scene, burst));
    let made = MadeBy::of(origins, &kept);
    for burst in &mut kept {
        let end = burst.events.end;
        burst.together.retain(|together| made.are_all_taken(scene, together, end));
    }
    kept.retain(|burst| is_large(scene, burst));
    let ends = epoch_ends(scene, origins, pace, &kept);
    let is_end =
        |burst: &Burst| pace.at_or_after(burst.events.start, 0).is_some_and(|step| ends.contains(&step));
    kept.retain(|burst| !is_end(burst));
    kept.into_iter().map(|burst| Release { burst, of_steps: true }).collect()
}

fn without_steps(scene: &Scene<'_>, origins: &Origins) -> Vec<Release> {
    let found = bursts(scene.history, origins, None, LEAST_BLOCKS as u32);
    let mut kept: Vec<Burst> = found.bursts;
    let mut times = vec![0usize; origins.len()];
    for burst in &mut kept {
        let start = burst.events.start;
        let goes_on = |together: &Together| goes_on(&found.last_alloc, burst.events.end, together);
        burst.together.retain(|together| {
            together.left == 0
                && goes_on(together)
                && is_in_order(scene, together)
                && is_all_along(scene, start, together)
        });
        burst.together.iter().for_each(|together| times[together.origin as usize] += 1);
    }
    for burst in &mut kept {
        let is_repeated = |together: &Together| times[together.origin as usize] >= LEAST_BURSTS_WITHOUT_STEPS;
        burst.together.retain(is_repeated);
    }
    kept.retain(|burst| !burst.together.is_empty());
    kept.into_iter().map(|burst| Release { burst, of_steps: false }).collect()
}

/// Whether the origin allocates again after the burst.
fn goes_on(last_alloc: &[u32], end: u64, together: &Together) -> bool {
    let last = last_alloc.get(together.origin as usize).copied().unwrap_or(NONE);
    last != NONE && u64::from(last) >= end
}

/// Whether blocks go rather in the order in which they were made than the other way round.
fn is_in_order(scene: &Scene<'_>, together: &Together) -> bool {
    let made = |row: u32| scene.history.allocations.alloc_events[row as usize];
    let pairs = together.rows.windows(2);
    let later = pairs.filter(|pair| made(pair[1]) > made(pair[0])).count();
    later * 2 >= together.rows.len() - 1
}

fn is_large(scene: &Scene<'_>, burst: &Burst) -> bool {
    let rows = || burst.together.iter().flat_map(|together| &together.rows).map(|&row| row as usize);
    let (blocks, bytes) = (rows().count(), bytes_of(scene, rows()));
    blocks >= LEAST_BLOCKS || (blocks > 0 && bytes >= burst.live_bytes / LEAST_PART)
}

/// Rows of the origins that bursts speak of, ascending; and how many may still be looked at.
struct MadeBy {
    rows: BTreeMap<u32, Vec<u32>>,
    budget: Cell<usize>,
}

impl MadeBy {
    fn of(origins: &Origins, bursts: &[Burst]) -> Self {
        let origins_of = bursts.iter().flat_map(|burst| &burst.together).map(|together| together.origin);
        let mut rows: BTreeMap<u32, Vec<u32>> = origins_of.map(|origin| (origin, Vec::new())).collect();
        for row in (0..origins.allocations()).filter(|_| !bursts.is_empty()) {
            if let Some(rows) = rows.get_mut(&origins.of(row)) {
                rows.push(row as u32);
            }
        }
        Self { rows, budget: Cell::new(MOST_LOOKED_AT) }
    }

    /// Whether next to nothing is left of what was made between the oldest and the newest block of the burst:
    /// the collector takes all that waits, chance does not.
    fn are_all_taken(&self, scene: &Scene<'_>, together: &Together, end: u64) -> bool {
        let rows = &scene.history.allocations;
        let (Some(&oldest), Some(&newest)) = (together.rows.iter().min(), together.rows.iter().max()) else {
            return false;
        };
        let made = self.rows.get(&together.origin).map_or(&[][..], Vec::as_slice);
        let made =
            &made[made.partition_point(|&row| row < oldest)..made.partition_point(|&row| row <= newest)];
        let Some(budget) = self.budget.get().checked_sub(made.len()) else { return false };
        self.budget.set(budget);
        let is_left = |&&row: &&u32| {
            let row = row as usize;
            u64::from(rows.given_back_event(row)) >= end
        };
        let few = together.rows.len() / LEFT_PART;
        made.iter().filter(is_left).take(few + 1).count() <= few
    }
}

/// Whether the blocks were made up to the burst, rather than all at the beginning and then used.
fn is_all_along(scene: &Scene<'_>, start: u64, together: &Together) -> bool {
    let made = |row: &u32| scene.history.allocations.alloc_events[*row as usize];
    let events = together.rows.iter().map(made).filter(|&event| event != NONE);
    let (Some(first), Some(last)) = (events.clone().min(), events.max()) else { return false };
    let (made, waited) = (u64::from(last - first), start.saturating_sub(first.into()));
    made * 5 >= waited * FIFTHS_OF_TIME
}

/// Steps of bursts in or after which something runs that runs hardly anywhere else.
fn epoch_ends(scene: &Scene<'_>, origins: &Origins, pace: &Pace, bursts: &[Burst]) -> BTreeSet<usize> {
    let rows = &scene.history.allocations;
    let steps: BTreeSet<usize> =
        bursts.iter().filter_map(|burst| pace.at_or_after(burst.events.start, 0)).collect();
    if steps.is_empty() {
        return steps;
    }
    let mut active = vec![(usize::MAX, 0u32); origins.len()];
    let mut around = BTreeSet::new();
    let mut hint = 0;
    for row in 0..rows.len() {
        let Some(step) = Some(rows.alloc_events[row])
            .filter(|&event| event != NONE)
            .and_then(|event| pace.at_or_after(event.into(), hint))
        else {
            continue;
        };
        hint = step;
        let (last, count) = &mut active[origins.of(row) as usize];
        if *last != step {
            (*last, *count) = (step, *count + 1);
            if steps.contains(&step) || step.checked_sub(1).is_some_and(|step| steps.contains(&step)) {
                around.insert((step, origins.of(row)));
            }
        }
    }
    let rare = (RARE_PER_BURST * steps.len() as u32).min((pace.len() / RARE_PART) as u32);
    let is_rare = |&(_, origin): &(usize, u32)| active[origin as usize].1 <= rare;
    let odd: BTreeSet<usize> = around.iter().filter(|entry| is_rare(entry)).map(|&(step, _)| step).collect();
    steps.into_iter().filter(|step| odd.contains(step) || odd.contains(&(step + 1))).collect()
}
