//! `reference-cycle`: blocks of many steps wait for Python's collector and go all at once.
//!
//! Owns what is said about releases that look like the collector's ([`crate::findings::releases`]); a recorder
//! that has seen the cycles themselves is believed without any.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::findings::holders::{self, HeldBy};
use crate::findings::releases::{Release, releases};
use crate::findings::{Check, Finding, Guide, Rule, Scene, Severity, growth};
use crate::model::StackId;
use crate::rebuild::NONE;
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
    let event = rows.given_back_event(row);
    scene.device.events.stacks.get(event as usize).copied()
}

/// Bytes of the same origins that are live at the end of the recording: they wait still.
fn waiting_bytes(scene: &Scene<'_>, releases: &[Release]) -> u64 {
    let rows = &scene.history.allocations;
    let origins = scene.origins();
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
    growth::bytes_of(scene, (0..rows.len()).filter(is_waiting))
}

fn at_the_end(scene: &Scene<'_>, cycles: &BTreeSet<usize>, held: &[HeldBy]) -> Finding {
    let sizes = &scene.history.allocations.block_bytes;
    let bytes = growth::bytes_of(scene, cycles.iter().copied());
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
    let bytes = growth::bytes_of(scene, cycles.iter().copied());
    finding
        .evidence("in_cycles_bytes", bytes)
        .evidence("in_cycles_blocks", cycles.len())
        .evidence("holders", growth::holders(held))
}

fn severity(scene: &Scene<'_>, bytes: u64) -> Severity {
    let is_much = bytes >= MUCH_BYTES || bytes >= scene.history.peaks.allocated.bytes / MUCH_PART;
    if is_much { Severity::Warning } else { Severity::Info }
}

#[cfg(test)]
#[path = "reference_cycle_tests.rs"]
mod tests;
