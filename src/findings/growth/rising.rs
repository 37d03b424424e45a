//! One place whose block is larger after every step: what is gathered by copying it into a larger one.
//!
//! No block of such a place is ever old, so [`super::leak`] does not see it. What a step leaves to the next one
//! is compared instead: it must rise in every step up to the last. Only steps that the program names are looked
//! at; a repetition found in the events may be one buffer's own growing.

use crate::findings::{Scene, compared};
use crate::rebuild::NONE;
use crate::tables::Pace;

use super::chance::of_any;
use super::leak::LEAST_STEPS;
use super::slope::{Slope, slope};

/// That likely it may be that luck looks so: each step is as likely to leave less as more.
const MOST_PROBABLE: f64 = 0.01;
/// Memory at the ends of the steps rises by at least this part of it.
const LEAST_OF_END: f64 = 0.5;
/// The peaks of the steps rise at most so many times as fast (the old block and the new one make two): else
/// the batches grow, and this with them.
const MOST_OF_PEAK: f64 = 2.5;

/// A place whose block grows.
#[derive(Clone, Debug)]
pub(in crate::findings) struct Rising {
    /// The steps that were compared.
    pub(in crate::findings) pace: Pace,
    /// Rows of the blocks that the last step left.
    pub(in crate::findings) rows: Vec<usize>,
    /// The first step of the rise.
    pub(in crate::findings) start: usize,
    /// Growth of what a step leaves.
    pub(in crate::findings) slope: Slope,
    /// That likely it is that luck looks so, over all origins.
    pub(in crate::findings) probability: f64,
    /// How many origins were looked at.
    pub(in crate::findings) origins: u64,
}

/// What an origin's last steps left to the next.
#[derive(Clone, Copy, Default)]
struct Run {
    step: usize,
    bytes: u64,
    before: u64,
    start: usize,
    rises: u32,
    is_known: bool,
}

impl Run {
    /// Adds a block of `step` that is still there at its end. Steps come in order.
    fn add(&mut self, step: usize, bytes: u64) {
        if self.is_known && self.step == step {
            self.bytes = self.bytes.saturating_add(bytes);
            return;
        }
        self.close();
        let goes_on = self.is_known && self.step + 1 == step;
        if !goes_on {
            (self.start, self.rises, self.before) = (step, 0, 0);
        }
        (self.step, self.bytes, self.is_known) = (step, bytes, true);
    }

    /// The step is over.
    fn close(&mut self) {
        if !self.is_known {
            return;
        }
        if self.bytes > self.before {
            self.rises += u32::from(self.step > self.start);
        } else {
            (self.start, self.rises) = (self.step, 0);
        }
        self.before = self.bytes;
    }
}

/// The place that rises most, if one does.
pub(in crate::findings) fn rising(scene: &Scene<'_>) -> Option<Rising> {
    if !compared::are_named(scene) {
        return None;
    }
    let paces = Pace::all(scene.steps, scene.history, LEAST_STEPS);
    let sequences = paces.len() as u64;
    paces.into_iter().find_map(|pace| in_pace(scene, pace, sequences))
}

fn in_pace(scene: &Scene<'_>, pace: Pace, sequences: u64) -> Option<Rising> {
    let origins = scene.origins();
    let mut runs = vec![Run::default(); origins.len()];
    each_left_over(scene, &pace, |row, step| {
        runs[origins.of(row) as usize].add(step, scene.history.allocations.requested_bytes[row]);
    });
    runs.iter_mut().for_each(Run::close);
    let tried = runs.iter().filter(|run| run.is_known).count() as u64;
    let last = pace.len() - 1;
    let likely =
        |run: &Run| of_any(0.5f64.powi(run.rises.min(1_000) as i32), tried.saturating_mul(sequences));
    let candidates = runs.iter().enumerate().filter(|(_, run)| {
        run.step == last && run.rises as usize + 1 >= LEAST_STEPS && likely(run) < MOST_PROBABLE
    });
    let (origin, run) = candidates.max_by_key(|(_, run)| run.bytes)?;
    let mut left = vec![0u64; pace.len()];
    let mut rows = Vec::new();
    each_left_over(scene, &pace, |row, step| {
        if origins.of(row) as usize == origin {
            left[step] = left[step].saturating_add(scene.history.allocations.block_bytes[row]);
            if step == last {
                rows.push(row);
            }
        }
    });
    let left = &left[run.start..];
    let slope = slope(left)?;
    (goes_on(left) && is_of_memory(scene, &pace, run.start, slope)).then(|| Rising {
        rows,
        start: run.start,
        slope,
        probability: likely(run),
        origins: tried,
        pace,
    })
}

/// Calls `tell` with every allocation that is still there when its step is over, and with that step, in order.
fn each_left_over(scene: &Scene<'_>, pace: &Pace, mut tell: impl FnMut(usize, usize)) {
    let rows = &scene.history.allocations;
    let end = pace.end().0;
    let mut hint = 0;
    for row in 0..rows.len() {
        let alloc = rows.alloc_events[row];
        if alloc == NONE || u64::from(alloc) >= end {
            continue;
        }
        let Some(step) = pace.within(alloc.into(), hint) else { continue };
        hint = step;
        let free = rows.given_back_event(row);
        if u64::from(free) >= end || pace.at_or_after(free.into(), step).is_some_and(|until| until > step) {
            tell(row, step);
        }
    }
}

/// Whether the second half rises at least half as much as the first.
fn goes_on(left: &[u64]) -> bool {
    let (Some(first), Some(last)) = (left.first(), left.last()) else { return false };
    let middle = left[left.len() / 2];
    last.saturating_sub(middle) * 2 >= middle.saturating_sub(*first)
}

/// Whether memory as a whole rises with it, and the peaks not far more.
fn is_of_memory(scene: &Scene<'_>, pace: &Pace, start: usize, part: Slope) -> bool {
    let steps = || (start..pace.len()).map(|step| &scene.steps.rows[pace.row(step)]);
    let ends: Vec<u64> = steps().map(|step| step.end_allocated_bytes).collect();
    let peaks: Vec<u64> = steps().map(|step| step.peak_allocated.bytes).collect();
    let (Some(ends), Some(peaks)) = (slope(&ends), slope(&peaks)) else { return false };
    ends.per_step >= LEAST_OF_END * part.per_step && peaks.per_step <= MOST_OF_PEAK * part.per_step
}
