//! Steps found in the sequence of allocations itself.
//!
//! Owns the search for a period that is verified, not assumed. A source position that allocates once per
//! round cuts the recording into rounds; a cut counts only if the rounds are alike.
//!
//! 1. [`tape`] reduces the recording to its allocations: who asked (the Python stack), and what was live
//!    before. Times are not needed; without stacks the requested size stands for who asked.
//! 2. [`anchors`] lists the tokens that come back at even distances.
//! 3. [`verify`] cuts at such a token and compares the rounds: the same positions as often, at least three
//!    times, covering the recording. A round holds what a step holds (a backward pass and an optimizer step,
//!    where the recording shows any), lies in no single module or optimizer call, and gives memory back.
//! 4. [`levels`] chooses among several valid cuts the finest, unless memory returns to its floor only at a
//!    coarser one: layers and micro-batches are no steps.
//! 5. [`cut`] turns the rounds into steps that begin behind the optimizer, or where live memory is lowest.
//!
//! A second loop behind the first (an evaluation) is searched in what follows the last step, and before the
//! first step if its rounds are no training. All of it is linear in the events.

mod anchors;
mod cut;
mod levels;
mod tape;
mod verify;

use std::ops::Range;

use crate::model::{DeviceTrace, Trace};

use super::Span;
use tape::Tape;
use verify::Cycle;

/// Fewer rounds than this prove nothing.
const FEWEST_ROUNDS: usize = 3;
/// A round of fewer allocations could be any loop: two positions in turn are in turn by necessity.
const FEWEST_ALLOCATIONS: u32 = 4;
/// The same, for positions that allocate in a round.
const FEWEST_TOKENS: usize = 3;
/// What stands before or behind the steps is searched for a second loop if it holds at least one allocation in
/// this many.
const REST_SHARE: usize = 10;

/// Steps of `device`, in order, none overlapping another; empty where no period could be verified.
pub(super) fn find(trace: &Trace, device: &DeviceTrace) -> Vec<Span> {
    let by_stack = Tape::by_stack(trace, device);
    if by_stack.tokens_used() >= FEWEST_TOKENS {
        return found(&by_stack, device);
    }
    by_stack.by_size(device).map_or_else(Vec::new, |tape| found(&tape, device))
}

fn found(tape: &Tape, device: &DeviceTrace) -> Vec<Span> {
    let Some(main) = cycle(tape, device, 0..tape.len()) else { return Vec::new() };
    let steps = cut::steps(tape, &main, device.events.len());
    let covered = cut::covered(&steps, tape);
    // A second loop shares no anchor with the first: an evaluation now and then belongs to the step before it.
    let other = |rest: Range<usize>| {
        let cycle = (rest.len() * REST_SHARE >= tape.len()).then(|| cycle(tape, device, rest.clone()))??;
        let is_new = !tape.tokens[covered.clone()].contains(&cycle.token);
        is_new.then(|| cut::steps(tape, &cycle, device.events.len()))
    };
    let before = if main.trains { None } else { other(0..covered.start) };
    let behind = other(covered.end..tape.len());
    let mut all = before.unwrap_or_default();
    if let (Some(last), Some(first)) = (all.last_mut(), steps.first()) {
        last.end = last.end.min(first.start);
    }
    all.extend(steps);
    all.extend(behind.unwrap_or_default());
    cut::spans(&all)
}

/// The verified period within `range` of the tape.
fn cycle(tape: &Tape, device: &DeviceTrace, range: Range<usize>) -> Option<Cycle> {
    if range.len() < FEWEST_ROUNDS * FEWEST_ALLOCATIONS as usize {
        return None;
    }
    let groups = anchors::groups(tape, &range);
    levels::choose(tape, verify::passing(tape, &device.events.sizes, &range, &groups))
}

#[cfg(test)]
#[path = "tests.rs"]
#[allow(clippy::unwrap_used)]
mod tests;
