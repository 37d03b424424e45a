//! Which of several valid periods is the step.
//!
//! Owns the choice between a loop and a loop around it, by where live memory returns to its floor.

use super::tape::Tape;
use super::verify::Cycle;

/// `cycles` are valid, most rounds first. A period of training rounds is the step. Else it is the finest one,
/// unless its rounds end above the floor of a coarser one.
pub(super) fn choose(tape: &Tape, mut cycles: Vec<Cycle>) -> Option<Cycle> {
    if cycles.last().is_some_and(|cycle| cycle.trains) {
        return cycles.pop();
    }
    cycles.into_iter().reduce(|fine, coarse| if is_inner(tape, &fine, &coarse) { coarse } else { fine })
}

/// Lowest and highest live bytes of each round.
fn extremes(tape: &Tape, cycle: &Cycle) -> Vec<(i64, i64)> {
    let ends = cycle.starts.iter().skip(1).copied().chain([cycle.end]);
    let rounds = cycle.starts.iter().zip(ends);
    rounds
        .map(|(&start, end)| {
            let live = &tape.live[start as usize..end as usize];
            live.iter().fold((i64::MAX, i64::MIN), |(low, high), &bytes| (low.min(bytes), high.max(bytes)))
        })
        .collect()
}

/// Whether the rounds of `fine` lie inside those of `coarse`: between two floors of `coarse`, drawn as a line
/// because steps may leak, those of `fine` stay above by more than a twentieth of what a round allocates.
fn is_inner(tape: &Tape, fine: &Cycle, coarse: &Cycle) -> bool {
    let (floors, around) = (extremes(tape, fine), extremes(tape, coarse));
    let mut swings: Vec<i64> = around.iter().map(|(low, high)| high.saturating_sub(*low)).collect();
    let mut excess = Vec::new();
    let mut outer = 0;
    for (&start, &(floor, _)) in fine.starts.iter().zip(&floors) {
        while coarse.starts.get(outer + 1).is_some_and(|&next| next <= start) {
            outer += 1;
        }
        let Some((&from, &to)) = coarse.starts.get(outer).zip(coarse.starts.get(outer + 1)) else { break };
        if start >= from {
            let (low, next) = (i128::from(around[outer].0), i128::from(around[outer + 1].0));
            let line = low + (next - low) * i128::from(start - from) / i128::from(to - from);
            excess.push((i128::from(floor) - line).clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64);
        }
    }
    match (median(&mut excess), median(&mut swings)) {
        (Some(excess), Some(swing)) => excess > 0 && excess > swing / 20,
        _ => false,
    }
}

fn median(values: &mut [i64]) -> Option<i64> {
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable(middle).1)
}
