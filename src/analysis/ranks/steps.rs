//! Steps across ranks, matched by their number.
//!
//! Owns what is said of each. A rank's own steps are its report's.

use crate::report::{RankRow, StepAcross};

use super::median::median;

/// Steps that are kept; a table of more helps nobody.
const MOST_STEPS: usize = 500;

/// The steps that at least two ranks have, and how many more there are.
pub(super) fn across(rows: &[RankRow]) -> (Vec<StepAcross>, u64) {
    let mut counts: Vec<usize> = rows.iter().map(|row| row.step_peaks.len()).collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    // As many as the rank with the second most has.
    let all = counts.get(1).copied().unwrap_or(0);
    let kept = all.min(MOST_STEPS);
    ((0..kept).map(|step| one(rows, step)).collect(), (all - kept) as u64)
}

fn one(rows: &[RankRow], step: usize) -> StepAcross {
    let there: Vec<(&RankRow, u64)> =
        rows.iter().filter_map(|row| Some((row, *row.step_peaks.get(step)?))).collect();
    let bytes: Vec<u64> = there.iter().map(|entry| entry.1).collect();
    // Of equals the first.
    let highest = there.iter().rev().max_by_key(|entry| entry.1);
    StepAcross {
        step: step as u64,
        ranks: there.len() as u64,
        min_bytes: bytes.iter().copied().min().unwrap_or(0),
        median_bytes: median(&bytes),
        max_bytes: bytes.iter().copied().max().unwrap_or(0),
        max_rank: highest.and_then(|entry| entry.0.rank),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_matched_by_number_as_far_as_two_ranks_go() {
        let row = |rank, peaks: &[u64]| RankRow {
            rank: Some(rank),
            step_peaks: peaks.to_vec(),
            ..RankRow::default()
        };
        let (steps, left) = across(&[row(0, &[5, 6, 7]), row(1, &[5, 9]), row(2, &[4])]);
        let told: Vec<_> = steps.iter().map(|step| (step.ranks, step.median_bytes, step.max_rank)).collect();
        assert_eq!((told, left), (vec![(3, 5, Some(0)), (2, 6, Some(1))], 0));
        assert!(across(&[row(0, &[1])]).0.is_empty());
        let long = vec![1; MOST_STEPS + 3];
        assert_eq!(across(&[row(0, &long), row(1, &long)]).1, 3);
    }
}
