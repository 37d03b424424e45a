//! From a verified period to steps: where in the round a step begins, and where the last one ends.

use std::ops::Range;

use crate::rebuild::Moment;

use super::super::Span;
use super::tape::Tape;
use super::verify::Cycle;

/// Events of each step.
pub(super) type Steps = Vec<Range<u64>>;

/// A step begins behind the optimizer's work of the step before, where the optimizer shows in three quarters
/// of the rounds; else at the anchor. `events` is the number of events of the device.
pub(super) fn steps(tape: &Tape, cycle: &Cycle, events: usize) -> Steps {
    let begins = behind_the_optimizer(tape, cycle).unwrap_or_else(|| cycle.starts.clone());
    let event = |position: u32| u64::from(tape.events[position as usize]);
    let mut steps: Steps = begins.windows(2).map(|pair| event(pair[0])..event(pair[1])).collect();
    if let Some(&last) = begins.last() {
        let quiet = begins.iter().skip(1).map(|&begin| event(begin) - event(begin.saturating_sub(1))).max();
        let end = end_of_last(tape, cycle, last);
        let until = end.checked_sub(1).map_or(0, event).saturating_add(quiet.unwrap_or(1).max(1));
        let limit = tape.events.get(end as usize).map_or(events as u64, |&next| u64::from(next));
        steps.push(event(last)..until.min(limit).max(event(last) + 1));
    }
    steps
}

/// Positions on the tape from the first step's beginning to the last one's end.
pub(super) fn covered(steps: &Steps, tape: &Tape) -> Range<usize> {
    let position = |event: u64| tape.events.partition_point(|&other| u64::from(other) < event);
    steps.first().map_or(0, |step| position(step.start))..steps.last().map_or(0, |step| position(step.end))
}

/// Numbered from one.
pub(super) fn spans(steps: &Steps) -> Vec<Span> {
    let spans = steps.iter().zip(1..);
    spans
        .map(|(step, number): (_, usize)| Span {
            name: number.to_string(),
            begin: Moment(step.start),
            end: Moment(step.end),
        })
        .collect()
}

/// The first allocation after each round's last work in an optimizer's `step`, with the first step's
/// beginning traced back over positions that belong to a step.
fn behind_the_optimizer(tape: &Tape, cycle: &Cycle) -> Option<Vec<u32>> {
    let mut shown = 0;
    let mut begins = vec![first_begin(tape, cycle)];
    for pair in cycle.starts.windows(2) {
        let after = tape.steps.partition_point(|&position| position < pair[1]);
        let worked = tape.steps[..after].last().filter(|&&position| position > pair[0]);
        let mut begin = worked.map_or(pair[1], |&position| position);
        while begin < pair[1] && tape.facts[tape.tokens[begin as usize] as usize].update {
            begin += 1;
        }
        shown += usize::from(worked.is_some());
        begins.push(begin);
    }
    (shown * 4 >= (cycle.starts.len() - 1) * 3 && begins.is_sorted_by(|one, other| one < other))
        .then_some(begins)
}

fn first_begin(tape: &Tape, cycle: &Cycle) -> u32 {
    let anchor = cycle.starts[0];
    let mut begin = anchor;
    while begin > 0 && anchor - begin < cycle.length {
        let token = tape.tokens[begin as usize - 1];
        if !cycle.is_usual(token) || tape.facts[token as usize].update {
            break;
        }
        begin -= 1;
    }
    begin
}

/// The last step ends behind the last allocation of a position that belongs to a step, if others follow.
fn end_of_last(tape: &Tape, cycle: &Cycle, last: u32) -> u32 {
    let tokens = &tape.tokens[last as usize..cycle.end as usize];
    let length = tokens.iter().rposition(|&token| cycle.is_usual(token)).map_or(1, |at| at as u32 + 1);
    last + length
}
