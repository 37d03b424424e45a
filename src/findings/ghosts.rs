//! Allocations from before the recording: how much of the peak and of the end they are, and how many frees
//! speak of them.
//!
//! Owns the counting, and who recorded, for the rules that judge a recording. They come first in the history's table, so this
//! looks at them alone, and once at the column of actions.

use crate::model::{Action, Trace};
use crate::rebuild::{Moment, NONE};

use super::Scene;

/// What came before, and what the recording holds of each action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ghosts {
    /// Allocations from before the first event, whose `alloc` event was never seen.
    pub(super) allocations: u64,
    /// Their bytes when allocated bytes peak.
    pub(super) at_peak_bytes: u64,
    /// The part of it that has no stack: the final state shows those of blocks that live to the end.
    pub(super) at_peak_frameless_bytes: u64,
    /// Their bytes after the last event.
    pub(super) at_end_bytes: u64,
    /// Frees of addresses that were never seen allocated.
    pub(super) unmatched_frees: u64,
    /// Frees of any kind.
    pub(super) frees: u64,
    /// `alloc` events.
    pub(super) allocs: u64,
    /// `free_requested` and `free_completed` events.
    pub(super) requested: u64,
    /// See [`Ghosts::requested`].
    pub(super) completed: u64,
}

/// Counts them.
pub(super) fn ghosts(scene: &Scene<'_>) -> Ghosts {
    let rows = &scene.history.allocations;
    let (peak, end) = (scene.history.peaks.allocated.moment, Moment(scene.history.events));
    let mut found = Ghosts::default();
    for row in (0..rows.len()).take_while(|&row| rows.alloc_events[row] == NONE) {
        found.allocations += 1;
        let bytes = |moment| if rows.is_allocated_at(row, moment) { rows.block_bytes[row] } else { 0 };
        found.at_peak_bytes = found.at_peak_bytes.saturating_add(bytes(peak));
        if scene.trace.stacks.get(rows.stacks[row]).is_empty() {
            found.at_peak_frameless_bytes = found.at_peak_frameless_bytes.saturating_add(bytes(peak));
        }
        found.at_end_bytes = found.at_end_bytes.saturating_add(bytes(end));
        let ended = rows.given_back_event(row) != NONE;
        found.unmatched_frees += u64::from(ended);
    }
    for action in &scene.device.events.actions {
        match action {
            Action::Alloc => found.allocs += 1,
            Action::FreeRequested => found.requested += 1,
            Action::FreeCompleted => found.completed += 1,
            _ => {}
        }
    }
    found.frees = found.requested.max(found.completed);
    // A free of which nothing is known was met twice: when it was requested, and when it completed.
    let events = if found.requested > 0 && found.completed > 0 { 2 } else { 1 };
    found.unmatched_frees += scene.history.warnings.count("unmatched-free").div_ceil(events);
    found
}

/// Whether memlab's own recorder wrote the recording, whatever file it is in by now.
pub(super) fn is_own_recording(trace: &Trace) -> bool {
    trace.process.writer.as_deref().is_some_and(|writer| writer.starts_with("memlab"))
}
