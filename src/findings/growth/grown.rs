//! What has grown: the blocks concerned, how fast, and for how long it can go on.
//!
//! Owns the figures that both kinds of growth have in common.

use std::collections::BTreeSet;

use crate::findings::{LineBytes, Scene};
use crate::rebuild::{History, NONE};
use crate::tables::{Pace, StepRow, StepTable};

use super::{Growth, Rising, Slope, slope};

/// Growth, by whatever was found.
pub(in crate::findings) struct Grown<'a> {
    /// The steps that `pace` is made of.
    pub(in crate::findings) steps: &'a StepTable,
    /// The steps that were compared.
    pub(in crate::findings) pace: &'a Pace,
    /// The first step of the growth.
    pub(in crate::findings) start: usize,
    /// How fast.
    pub(in crate::findings) slope: Slope,
    /// Rows of the blocks.
    pub(in crate::findings) rows: BTreeSet<usize>,
    /// That likely it is luck.
    pub(in crate::findings) probability: f64,
    /// Over so many origins.
    pub(in crate::findings) origins: u64,
}

impl<'a> Grown<'a> {
    /// By leaks.
    pub(in crate::findings) fn by_leaks(steps: &'a StepTable, found: &'a Growth) -> Self {
        Self {
            steps,
            pace: &found.pace,
            start: found.start,
            slope: found.slope,
            rows: found.leaks.iter().flat_map(|leak| leak.rows.iter().copied()).collect(),
            probability: found.leaks.iter().map(|leak| leak.probability).fold(1.0, f64::min),
            origins: found.origins,
        }
    }

    /// By one block that rises.
    pub(in crate::findings) fn by_rising(steps: &'a StepTable, found: &'a Rising) -> Self {
        Self {
            steps,
            pace: &found.pace,
            start: found.start,
            slope: found.slope,
            rows: found.rows.iter().copied().collect(),
            probability: found.probability,
            origins: found.origins,
        }
    }

    /// How many steps it has gone on for.
    pub(in crate::findings) fn count(&self) -> usize {
        self.pace.len() - self.start
    }

    /// The last step compared.
    pub(in crate::findings) fn last(&self) -> Option<&StepRow> {
        self.steps.rows.get(self.pace.row(self.pace.len() - 1))
    }

    /// Bytes per step.
    pub(in crate::findings) fn per_step_bytes(&self) -> u64 {
        self.slope.per_step.round() as u64
    }

    /// Growth of the steps' peaks.
    pub(in crate::findings) fn peak_slope(&self) -> Option<Slope> {
        let steps = (self.start..self.pace.len()).filter_map(|step| self.steps.rows.get(self.pace.row(step)));
        slope(&steps.map(|step| step.peak_allocated.bytes).collect::<Vec<_>>())
    }

    /// Bytes of the blocks.
    pub(in crate::findings) fn bytes(&self, scene: &Scene<'_>) -> u64 {
        bytes_of(scene, self.rows.iter().copied())
    }

    /// The lines that made the blocks.
    pub(in crate::findings) fn lines(&self, scene: &Scene<'_>) -> Vec<LineBytes> {
        let sizes = &scene.history.allocations.block_bytes;
        scene.by_line(self.rows.iter().map(|&row| (row, sizes[row])))
    }

    /// Bytes that were given back after the last step, while the program went on asking for memory.
    pub(in crate::findings) fn released_bytes(&self, scene: &Scene<'_>) -> u64 {
        let rows = &scene.history.allocations;
        let stop = last_request(scene.history);
        let freed = |&row: &usize| rows.given_back_event(row) < stop;
        bytes_of(scene, self.rows.iter().copied().filter(freed))
    }

    /// How many more steps fit, if the highest total of the last step grows on alike. What is on the device
    /// beside PyTorch's allocator is not known here: it is earlier rather than later.
    pub(in crate::findings) fn exhausted_in_steps(&self, scene: &Scene<'_>) -> Option<u64> {
        let total = scene.total_bytes?;
        let fraction = scene.trace.memory_fraction(scene.id()).unwrap_or(1.0);
        let limit = (total as f64 * fraction) as u64;
        let room = limit.saturating_sub(self.last()?.peak_allocated.bytes);
        room.checked_div(self.per_step_bytes())
    }
}

/// The last event at which memory was asked for: what is given back behind it goes with the program.
pub(super) fn last_request(history: &History) -> u32 {
    let allocs = history.allocations.alloc_events.iter().copied();
    let last_alloc = allocs.filter(|&event| event != NONE).max();
    let last_oom = history.ooms.last().map(|oom| oom.event as u32);
    last_alloc.max(last_oom).unwrap_or_default()
}

/// Bytes of the blocks of `rows`.
pub(in crate::findings) fn bytes_of(scene: &Scene<'_>, rows: impl IntoIterator<Item = usize>) -> u64 {
    let sizes = &scene.history.allocations.block_bytes;
    rows.into_iter().fold(0u64, |sum, row| sum.saturating_add(sizes[row]))
}
