//! `reference-cycle`: blocks of many steps wait for Python's collector and go all at once.
//!
//! Owns the judgement of bursts ([`crate::tables::bursts`]); a recorder that has seen the cycles themselves is
//! believed without any burst.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::error::Result;
use crate::findings::holders::{self, HeldBy};
use crate::findings::{Check, Finding, Guide, Rule, Scene, Severity};
use crate::model::StackId;
use crate::rebuild::NONE;
use crate::tables::{Burst, Origins, Pace, StepSource, Together, bursts};
use crate::units::{Bytes, Count};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "reference-cycle",
    heading: "Blocks wait for Python's garbage collector",
    guide: Guide {
        says: "Blocks that many steps made, and that each of these steps could have given back, were released all \
            at once: they hung in reference cycles until Python's garbage collector ran. The finding names the \
            lines that made them, how much waited at most, and where the collector ran.",
        fires: "It looks for bursts: frees with no allocation in between. Of each burst it takes the stacks of \
            which blocks from at least 3 different steps are released together, and fires when these are at least \
            8 blocks, or at least 3 with 5 % of what was live. The stack must go on allocating after the burst \
            (else it is the end of the program); the burst must take all that the stack made between its oldest \
            and its newest block, but for one in ten; the blocks must go in the order in which they were made, as \
            the collector takes them (a Python list drops its last element first); and nothing may run around the \
            burst that runs nowhere else (an evaluation, a checkpoint: then an epoch has ended and its cache is \
            dropped).\n\n\
            Where no steps are known, a stack must be emptied by at least two bursts of at least 8 of its blocks \
            each, made over at least four fifths of the events since the first of them.\n\n\
            A recording of `memlab run` says which blocks hang in cycles as it ends; these are reported whether or \
            not the collector has run. It is a warning from 64 MiB or 5 % of the peak on, else an info.",
        why: "Without cycles Python frees an object with its last reference, so the blocks of a step go with that \
            step. Three steps tell this from a result that is still in use when the next step begins; eight blocks \
            from a coincidence.",
        needs: "Events of frees, which every recording has. Steps make it sharper. With the stacks of frees \
            (recorded by default since PyTorch 2.1) it names where the collector ran. The pattern cannot tell a \
            cycle from a dict or deque that is emptied as a whole in the middle of everything; `memlab run` can.",
        is_not: "Not gradients dropped by `zero_grad(set_to_none=True)` (one step made them), not a cache that \
            evicts its oldest entry (one at a time), not a list of results that is cleared, not the end of an \
            epoch or of the program. If the collector never runs while you record, the same fault shows as \
            `growth`.",
        remedy: "Break the cycle: let the back reference be a `weakref`, set it to `None` when the object is done, \
            or remove hooks whose closures refer to the module. Until then call `gc.collect()` every few steps: \
            what waits is at most what the steps in between have made. `gc.freeze()` after setup makes that \
            cheap.",
    },
    check: Check::Device(find),
};

/// Blocks of at least so many steps go together.
const LEAST_STEPS: u32 = 3;
/// At least so many blocks, or this part of what is live.
const LEAST_BLOCKS: usize = 8;
const LEAST_PART: u64 = 20;
/// Of as many blocks as a burst takes, divided by this, may be left of the same age.
const LEFT_PART: usize = 10;
/// Without steps: so many bursts, of blocks made over this part of the time before (in fifths).
const LEAST_BURSTS_WITHOUT_STEPS: usize = 2;
const FIFTHS_OF_TIME: u64 = 4;
/// What runs in at most so many steps per burst, and in at most a quarter of all, belongs to an epoch's end.
const RARE_PER_BURST: u32 = 2;
const RARE_PART: usize = 4;
/// What is a warning: so much, or this part of the peak.
const MUCH_BYTES: u64 = 64 << 20;
const MUCH_PART: u64 = 20;
const MOST_NAMED: usize = 8;

fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    let releases = releases(scene);
    let holders = holders::holders(scene);
    let cycles: BTreeSet<usize> =
        holders.iter().filter(|(_, path)| path.contains("reference cycle")).map(|&(row, _)| row).collect();
    let held = holders::held_by(scene, &holders, &cycles);
    let finding = match largest(scene, &releases) {
        Some(largest) => of_releases(scene, &releases, largest),
        None if !cycles.is_empty() => at_the_end(scene, &cycles, &held),
        None => return Ok(Vec::new()),
    };
    Ok(vec![with_cycles(scene, finding, &cycles, &held)])
}

/// What a burst released that had waited.
struct Release {
    burst: Burst,
    /// Whether its blocks are of different steps, or (where these are unknown) only of different calls.
    of_steps: bool,
}

impl Release {
    fn rows(&self) -> impl Iterator<Item = usize> + '_ {
        self.burst.together.iter().flat_map(|together| together.rows.iter().map(|&row| row as usize))
    }

    fn bytes(&self, scene: &Scene<'_>) -> u64 {
        let sizes = &scene.history.allocations.block_bytes;
        self.rows().fold(0u64, |sum, row| sum.saturating_add(sizes[row]))
    }

    fn spread(&self) -> u32 {
        self.burst.together.iter().map(|together| together.spread).max().unwrap_or_default()
    }
}

fn releases(scene: &Scene<'_>) -> Vec<Release> {
    let origins = Origins::by_stack(scene.lines, scene.history);
    if scene.steps.source == StepSource::None {
        return without_steps(scene, &origins);
    }
    let mut paces = Pace::all(scene.steps, scene.history, LEAST_STEPS as usize).into_iter();
    paces.next().map(|pace| over_steps(scene, &origins, &pace)).unwrap_or_default()
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
    let sizes = &scene.history.allocations.block_bytes;
    let rows = || burst.together.iter().flat_map(|together| &together.rows);
    let bytes = rows().fold(0u64, |sum, &row| sum.saturating_add(sizes[row as usize]));
    let blocks = rows().count();
    blocks >= LEAST_BLOCKS || (blocks > 0 && bytes >= burst.live_bytes / LEAST_PART)
}

/// Rows of the origins that bursts speak of, ascending.
struct MadeBy(BTreeMap<u32, Vec<u32>>);

impl MadeBy {
    fn of(origins: &Origins, bursts: &[Burst]) -> Self {
        let origins_of = bursts.iter().flat_map(|burst| &burst.together).map(|together| together.origin);
        let mut rows: BTreeMap<u32, Vec<u32>> = origins_of.map(|origin| (origin, Vec::new())).collect();
        for row in (0..origins.allocations()).filter(|_| !bursts.is_empty()) {
            if let Some(rows) = rows.get_mut(&origins.of(row)) {
                rows.push(row as u32);
            }
        }
        Self(rows)
    }

    /// Whether next to nothing is left of what was made between the oldest and the newest block of the burst:
    /// the collector takes all that waits, chance does not.
    fn are_all_taken(&self, scene: &Scene<'_>, together: &Together, end: u64) -> bool {
        let rows = &scene.history.allocations;
        let (Some(&oldest), Some(&newest)) = (together.rows.iter().min(), together.rows.iter().max()) else {
            return false;
        };
        let made = self.0.get(&together.origin).map_or(&[][..], Vec::as_slice);
        let made =
            &made[made.partition_point(|&row| row < oldest)..made.partition_point(|&row| row <= newest)];
        let is_left = |&&row: &&u32| {
            let row = row as usize;
            u64::from(rows.free_requested_events[row].min(rows.free_completed_events[row])) >= end
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

fn largest<'a>(scene: &Scene<'_>, releases: &'a [Release]) -> Option<&'a Release> {
    releases
        .iter()
        .max_by_key(|release| (release.bytes(scene), std::cmp::Reverse(release.burst.events.start)))
}

fn of_releases(scene: &Scene<'_>, releases: &[Release], largest: &Release) -> Finding {
    let sizes = &scene.history.allocations.block_bytes;
    let (bytes, blocks) = (largest.bytes(scene), largest.rows().count());
    let lines = scene.by_line(largest.rows().map(|row| (row, sizes[row])));
    let of = match (largest.of_steps, lines.first()) {
        (true, _) => format!("of {} steps", Count(largest.spread().into())),
        (false, Some(line)) => format!("of {}", line.label()),
        (false, None) => String::from("of one stack"),
    };
    let times = match releases.len() {
        1 => String::from("once"),
        2 => String::from("twice"),
        times => format!("{} times", Count(times as u64)),
    };
    let title = format!(
        "Blocks waited for Python's garbage collector and were released together {times}: up to {} in {} blocks {of}",
        Bytes(bytes),
        Count(blocks as u64),
    );
    let events: Vec<u64> =
        releases.iter().take(MOST_NAMED).map(|release| release.burst.events.start).collect();
    let all: usize = releases.iter().map(|release| release.rows().count()).sum();
    let waiting = waiting_bytes(scene, releases);
    let mut finding = Finding::new(&RULE, severity(scene, bytes), scene.id(), bytes, title)
        .lines(lines)
        .evidence("bursts", releases.len())
        .evidence("burst_events", events)
        .evidence("blocks", all)
        .evidence("largest_burst_blocks", blocks)
        .evidence("held_needlessly_bytes", bytes)
        .evidence("waiting_at_end_bytes", waiting);
    if largest.of_steps {
        finding = finding.evidence("largest_burst_steps", largest.spread());
    }
    let at = largest.rows().next().and_then(|row| freed_by(scene, row));
    let place = scene.line_of_stack(at.unwrap_or(StackId::NONE), 0).map(|line| line.label());
    if let Some(place) = &place {
        finding = finding.evidence("released_at", place.clone());
    }
    let ran = place.map(|place| format!(" They were released at {place}.")).unwrap_or_default();
    finding.remedy(format!(
        "Break the cycle that holds them (a weak reference, or setting the back reference to None), or call \
         gc.collect() more often: up to {} would be free at the peak of the wait.{ran} If a dict or deque is \
         emptied there on purpose, empty it earlier. `memlab run` names the cycle.",
        Bytes(bytes)
    ))
}

/// The stack of the call that gave allocation `row` back.
fn freed_by(scene: &Scene<'_>, row: usize) -> Option<StackId> {
    let rows = &scene.history.allocations;
    let event = rows.free_requested_events[row].min(rows.free_completed_events[row]);
    scene.device.events.stacks.get(event as usize).copied()
}

/// Bytes of the same origins that are live at the end of the recording: they wait still.
fn waiting_bytes(scene: &Scene<'_>, releases: &[Release]) -> u64 {
    let rows = &scene.history.allocations;
    let origins = Origins::by_stack(scene.lines, scene.history);
    let waiting: BTreeSet<u32> = releases
        .iter()
        .flat_map(|release| release.burst.together.iter().map(|together| together.origin))
        .collect();
    let last = releases.last().map_or(0, |release| release.burst.events.end);
    let is_waiting = |row: &usize| {
        rows.alloc_events[*row] != NONE
            && u64::from(rows.alloc_events[*row]) >= last
            && rows.free_requested_events[*row].min(rows.free_completed_events[*row]) == NONE
            && waiting.contains(&origins.of(*row))
    };
    (0..rows.len()).filter(is_waiting).fold(0u64, |sum, row| sum.saturating_add(rows.block_bytes[row]))
}

fn at_the_end(scene: &Scene<'_>, cycles: &BTreeSet<usize>, held: &[HeldBy]) -> Finding {
    let sizes = &scene.history.allocations.block_bytes;
    let bytes = cycles.iter().fold(0u64, |sum, &row| sum.saturating_add(sizes[row]));
    let path = held.first().map_or("reference cycles", |held| held.path.as_str());
    let title = format!("{} in {} blocks are held by a {path}", Bytes(bytes), Count(cycles.len() as u64));
    Finding::new(&RULE, severity(scene, bytes), scene.id(), bytes, title)
        .lines(scene.by_line(cycles.iter().map(|&row| (row, sizes[row]))))
        .evidence("bursts", 0)
        .evidence("held_needlessly_bytes", bytes)
        .remedy(format!(
            "Break the cycle (a weak reference, or setting the back reference to None), or call gc.collect() from \
             time to time: {} would be free.",
            Bytes(bytes)
        ))
}

fn with_cycles(scene: &Scene<'_>, finding: Finding, cycles: &BTreeSet<usize>, held: &[HeldBy]) -> Finding {
    if cycles.is_empty() {
        return finding;
    }
    let sizes = &scene.history.allocations.block_bytes;
    let bytes = cycles.iter().fold(0u64, |sum, &row| sum.saturating_add(sizes[row]));
    let rows = held.iter().take(MOST_NAMED);
    let rows = rows.map(|held| json!({ "path": held.path, "blocks": held.blocks, "bytes": held.bytes }));
    finding
        .evidence("in_cycles_bytes", bytes)
        .evidence("in_cycles_blocks", cycles.len())
        .evidence("holders", rows.collect::<Vec<Value>>())
}

fn severity(scene: &Scene<'_>, bytes: u64) -> Severity {
    let is_much = bytes >= MUCH_BYTES || bytes >= scene.history.peaks.allocated.bytes / MUCH_PART;
    if is_much { Severity::Warning } else { Severity::Info }
}

#[cfg(test)]
#[path = "reference_cycle_tests.rs"]
mod tests;
