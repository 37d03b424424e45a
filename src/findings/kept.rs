//! What failed steps left behind: allocations that the next steps did not find freed.
//!
//! Owns which allocations of a failed step should have gone with it. Parameters, optimizer state, workspaces
//! and gradients stay for reasons of their own and are left out.

use crate::rebuild::{Moment, NONE};
use crate::tables::Maker;

use super::Scene;
use super::attempts::{Attempt, failed_attempts};
use super::sizes::{Sizes, is_share};

/// A step counts as kept when this much of it is live two rounds later, in percent.
const KEPT_PERCENT: u64 = 90;
/// Less is not worth a word, and neither is a thousandth of what was live.
const LEAST_BYTES: u64 = 1 << 20;
const LEAST_SHARE: u64 = 1000;

/// What failed steps left behind.
#[derive(Debug)]
pub(super) struct Kept {
    /// The failed steps of which it is.
    pub(super) attempts: Vec<Attempt>,
    /// Allocations that were live two rounds later, ascending.
    pub(super) rows: Vec<usize>,
    /// Block bytes that these steps held when they failed.
    pub(super) held_bytes: u64,
    /// Of [`Kept::rows`], those of the backward pass.
    pub(super) backward_rows: Vec<usize>,
    /// Rounds after the first of the steps.
    pub(super) rounds: usize,
    /// How many of these the most of it lived through.
    pub(super) rounds_lived: usize,
}

impl Kept {
    /// What the failed steps of `scene` left behind; `None` when that is nothing to speak of, or nothing came
    /// after them.
    pub(super) fn of(scene: &Scene<'_>) -> Option<Self> {
        let (mut attempts, mut rows, mut held_bytes) = (Vec::new(), Vec::new(), 0u64);
        for attempt in failed_attempts(scene) {
            let held = held(scene, &attempt);
            let check = attempt.later[1];
            let is_live = |row: &usize| scene.history.allocations.is_allocated_at(*row, check);
            let kept: Vec<usize> = held.iter().copied().filter(is_live).collect();
            let bytes = scene.block_bytes(&held);
            if !kept.is_empty() && is_share(scene.block_bytes(&kept), bytes, KEPT_PERCENT) {
                held_bytes = held_bytes.saturating_add(bytes);
                rows.extend(kept);
                attempts.push(attempt);
            }
        }
        let first = attempts.first()?;
        let bytes = scene.block_bytes(&rows);
        let least = LEAST_BYTES.max(first.oom.usage.allocated_bytes / LEAST_SHARE);
        if bytes < least {
            return None;
        }
        let (rounds, rounds_lived) = (first.later.len(), rounds_lived(scene, first, &rows));
        let of_backward = |row: &usize| scene.maker(*row) == Maker::Backward;
        let backward_rows = rows.iter().copied().filter(of_backward).collect();
        Some(Self { attempts, rows, held_bytes, backward_rows, rounds, rounds_lived })
    }
}

/// What the attempt had allocated and held when it failed, as far as it should have gone with it.
fn held(scene: &Scene<'_>, attempt: &Attempt) -> Vec<usize> {
    let allocations = &scene.history.allocations;
    let initial = allocations.alloc_events.partition_point(|&event| event == NONE);
    let events = &allocations.alloc_events[initial..];
    let from = initial + events.partition_point(|&event| u64::from(event) < attempt.begin);
    let to = initial + events.partition_point(|&event| u64::from(event) < attempt.oom.event);
    let at_oom = Moment(attempt.oom.event);
    let should_go = |row: &usize| {
        let stays = matches!(
            scene.maker(*row),
            Maker::Placement
                | Maker::Loader
                | Maker::Optimizer
                | Maker::Workspace
                | Maker::Reducer
                | Maker::Copy
        );
        !stays && allocations.is_allocated_at(*row, at_oom)
    };
    let held: Vec<usize> = (from..to.max(from)).filter(should_go).collect();
    without_gradients(scene, from, held)
}

/// What the backward pass made with the sizes of parameters are gradients: whether they are freed with the
/// step is the program's choice.
fn without_gradients(scene: &Scene<'_>, from: usize, held: Vec<usize>) -> Vec<usize> {
    let of_backward = |row: &usize| scene.maker(*row) == Maker::Backward;
    let backward: Vec<usize> = held.iter().copied().filter(of_backward).collect();
    if backward.is_empty() {
        return held;
    }
    let survivors = scene.survivors();
    let before = &survivors[..survivors.partition_point(|&row| row < from)];
    let gradients = Sizes::of(scene, &backward).common(&Sizes::of(scene, before)).pick(scene, &backward);
    held.into_iter().filter(|row| gradients.binary_search(row).is_err()).collect()
}

/// How many rounds ended before less than most of `rows` was live.
fn rounds_lived(scene: &Scene<'_>, attempt: &Attempt, rows: &[usize]) -> usize {
    let allocations = &scene.history.allocations;
    let freed_at = |row: usize| {
        let free = allocations.given_back_event(row);
        if free == NONE { u64::MAX } else { u64::from(free) }
    };
    let mut frees: Vec<(u64, u64)> =
        rows.iter().map(|&row| (freed_at(row), allocations.block_bytes[row])).collect();
    frees.sort_unstable();
    let whole = scene.block_bytes(rows);
    let mut left = whole;
    for (event, bytes) in frees {
        left = left.saturating_sub(bytes);
        if !is_share(left, whole, KEPT_PERCENT) {
            return attempt.later.partition_point(|end| end.0 <= event);
        }
    }
    attempt.later.len()
}
