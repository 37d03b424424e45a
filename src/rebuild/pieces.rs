//! Rebuilding a recording piece by piece, in memory that does not grow with its events.
//!
//! Owns what is carried from one piece to the next: the allocator's state, and which rows go on. A piece is rebuilt
//! by the same pass as a whole recording, so that what it says is the same, to the byte. What is to be made of each
//! piece's history is the caller's.

use crate::model::{Action, BlockState, DeviceTrace, Events, Segment, Settings, StackId, Trace, Warnings};

use super::MAX_CORRECTIONS;
use super::check;
use super::gather::{Completions, SegmentChanges, Witnesses};
use super::history::{History, NONE};
use super::initial::{Initial, InitialBlock, Piece, pieces_before};
use super::pass::Pass;
use super::rules::Rules;

/// Where a piece of `events` may end: behind the last allocation among the first `most`, so that no event that a later
/// one explains is cut off from it (a segment is obtained for the allocation that follows). All of them where there is
/// no allocation.
#[must_use]
pub fn piece_end(events: &Events, most: usize) -> usize {
    let most = most.min(events.len());
    let last = events.actions[..most].iter().rposition(|&action| action == Action::Alloc);
    last.map_or(most, |last| last + 1)
}

/// What has to be known of all events of a device before the first piece can be rebuilt.
#[derive(Clone, Debug, Default)]
pub struct Prelude {
    changes: SegmentChanges,
    completions: Completions,
    witnesses: Witnesses,
    events: u64,
}

impl Prelude {
    /// Takes in the next events.
    pub fn take(&mut self, events: &Events) {
        self.changes.take(events);
        self.completions.take(events);
        self.events += events.len() as u64;
    }

    /// Whether anything may have been live before the first event, so that all events have to be shown once more, to
    /// [`Prelude::take_again`]. `segments` is the final state.
    #[must_use]
    pub fn must_look_again(&self, segments: Option<&[Segment]>) -> bool {
        segments.is_none() || self.events == 0 || !pieces_before(segments, &self.changes).is_empty()
    }

    /// Takes in the next events, in a second round.
    pub fn take_again(&mut self, events: &Events) {
        self.witnesses.take(events);
    }

    /// Ready for the first piece.
    #[must_use]
    pub fn finish(self, segments: Option<&[Segment]>, settings: &Settings) -> Carried {
        let rules = Rules::new(settings);
        let completes_at_once = self.completions.are_left_out(segments);
        let pieces = pieces_before(segments, &self.changes);
        let initial = if segments.is_some() && pieces.is_empty() && self.events > 0 {
            Initial::default()
        } else {
            Initial::concluded(pieces, self.witnesses, segments, &rules)
        };
        Carried::new(rules, initial, completes_at_once)
    }
}

/// What is carried from one piece of a device's recording to the next.
#[derive(Clone, Debug)]
pub struct Carried {
    rules: Rules,
    completes_at_once: bool,
    /// Before the recording.
    initial: Initial,
    /// Before the next piece.
    now: Initial,
    /// By block of `now`: its number in `initial`, or [`NONE`].
    origins: Vec<u32>,
    /// By block of `now`: its row in the history of the piece before. Empty before the first piece.
    rows: Vec<u32>,
    learnt: Vec<(u32, u64)>,
    corrections: usize,
}

impl Carried {
    fn new(rules: Rules, initial: Initial, completes_at_once: bool) -> Self {
        let mut carried = Self {
            rules,
            completes_at_once,
            initial,
            now: Initial::default(),
            origins: Vec::new(),
            rows: Vec::new(),
            learnt: Vec::new(),
            corrections: 0,
        };
        carried.rewind();
        carried
    }

    /// Rebuilds the next piece of `device`: `piece` holds its events, and the final state of the device. The first rows
    /// of the history are those that [`Carried::rows`] named.
    #[must_use]
    pub fn next(&mut self, trace: &Trace, piece: &DeviceTrace) -> History {
        let mut pass = Pass::new(trace, piece, &self.rules, &self.now, self.completes_at_once, ());
        pass.walk();
        let origin = |&(row, bytes): &(u32, u64)| Some((*self.origins.get(row as usize)?, bytes));
        self.learnt.extend(pass.learnt.iter().filter_map(origin).filter(|&(origin, _)| origin != NONE));
        let (now, rows) = after(&pass, &self.now);
        let before = self.now.blocks.len();
        let kept = |&row: &u32| if (row as usize) < before { self.origins[row as usize] } else { NONE };
        self.origins = rows.iter().map(kept).collect();
        (self.now, self.rows) = (now, rows);
        let mut history = pass.history;
        (history.uncertain_allocations, history.uncertain_bytes) = self.initial.uncertain();
        history
    }

    /// For the first rows of the next piece's history, one after the other: the row of the same allocation in the
    /// history of the piece before.
    #[must_use]
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// After the last piece: whether sizes of blocks from before the recording turned out to be others than were
    /// assumed, so that all pieces have to be rebuilt again. In any
    /// case it is ready for the first one again.
    pub fn corrects_itself(&mut self) -> bool {
        let learnt = std::mem::take(&mut self.learnt);
        let again = self.initial.correct(&learnt) && self.corrections < MAX_CORRECTIONS;
        self.corrections += 1;
        self.rewind();
        again
    }

    /// Number and bytes of sizes that stay unproved; see [`History::uncertain_allocations`].
    #[must_use]
    pub fn uncertain(&self) -> (u64, u64) {
        self.initial.uncertain()
    }

    /// Stacks of what was live before the next piece.
    #[must_use]
    pub fn stacks(&self) -> Vec<StackId> {
        self.now.blocks.iter().map(|block| block.stack).collect()
    }

    /// Whether frees complete with their request because the recording leaves out completions: an excerpt could not tell,
    /// so no state is to be written into such a recording.
    #[must_use]
    pub fn completes_at_once(&self) -> bool {
        self.completes_at_once
    }

    /// The allocator's state before the next piece; stacks are those of the allocations.
    #[must_use]
    pub fn segments(&self) -> Vec<Segment> {
        self.now.as_segments()
    }

    /// Goes back to before the first piece.
    fn rewind(&mut self) {
        self.now = self.initial.clone();
        self.origins = (0..self.now.blocks.len() as u32).collect();
        self.rows.clear();
    }
}

/// What differs between the end of the last piece's `history` and the final state that the file states.
#[must_use]
pub fn end_differences(trace: &Trace, stated: Option<&[Segment]>, history: &History) -> Warnings {
    let Some(stated) = stated else { return Warnings::default() };
    let is_empty = |device: &DeviceTrace| device.segments.as_ref().is_none_or(Vec::is_empty);
    if trace.devices.iter().all(is_empty) {
        check::end_against_nothing(history)
    } else {
        check::end_against(stated, history)
    }
}

/// The state that a pass ended with, and the row of each of its blocks.
fn after(pass: &Pass<'_, ()>, before: &Initial) -> (Initial, Vec<u32>) {
    let (ranges, allocations) = (&pass.history.ranges, &pass.history.allocations);
    let pieces = pass.held.iter().map(|(&address, &row)| {
        let row = row as usize;
        Piece {
            address,
            bytes: ranges.bytes[row],
            stream: ranges.streams[row],
            kind: ranges.kinds[row],
            pool: ranges.pools[row],
            expandable: ranges.expandable[row],
            stack: ranges.stacks[row],
        }
    });
    let is_there = |&row: &u32| {
        let node = pass.blocks.at(allocations.addresses[row as usize]).map(|index| *pass.blocks.node(index));
        node.is_some_and(|node| node.row == row)
    };
    let open = |&row: &u32| allocations.free_completed_events[row as usize] == NONE;
    let mut rows: Vec<u32> = (0..allocations.len() as u32).filter(open).filter(is_there).collect();
    rows.sort_unstable_by_key(|&row| allocations.addresses[row as usize]);
    let block = |&row: &u32| {
        let at = row as usize;
        let index = pass.blocks.at(allocations.addresses[at]).unwrap_or(0);
        InitialBlock {
            address: allocations.addresses[at],
            bytes: allocations.block_bytes[at],
            requested_bytes: allocations.requested_bytes[at],
            stream: ranges.streams.get(allocations.ranges[at] as usize).copied().unwrap_or(0),
            stack: allocations.stacks[at],
            pending: pass.blocks.node(index).state == BlockState::ActivePendingFree,
            uncertain_bytes: before.blocks.get(at).map_or(0, |block| block.uncertain_bytes),
        }
    };
    let blocks = rows.iter().map(block).collect();
    (Initial { pieces: pieces.collect(), blocks }, rows)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "pieces_tests.rs"]
mod tests;
