//! What has to be known of all events before the first can be replayed.
//!
//! Owns three questions that are put to the events in order, piece by piece: what changed hands with the driver, which
//! addresses were freed without an allocation before, and whether completions were recorded at all. Draws no
//! conclusions (`initial`).

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};

use crate::model::{Action, BlockState, Events, Segment, StackId};

use super::initial::InitialBlock;

/// A range was obtained from the driver or returned to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentChange {
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) stream: u64,
    /// Obtained, or else returned.
    pub(super) obtained: bool,
    pub(super) expandable: bool,
}

/// Everything that changed hands with the driver.
#[derive(Clone, Debug, Default)]
pub(super) struct SegmentChanges(Vec<SegmentChange>);

impl SegmentChanges {
    /// Takes in the next events.
    pub(super) fn take(&mut self, events: &Events) {
        for (index, &action) in events.actions.iter().enumerate() {
            let (obtained, expandable) = match action {
                Action::SegmentAlloc => (true, false),
                Action::SegmentMap => (true, true),
                Action::SegmentFree => (false, false),
                Action::SegmentUnmap => (false, true),
                _ => continue,
            };
            let (address, bytes) = (events.addresses[index], events.sizes[index]);
            self.0.push(SegmentChange { address, bytes, stream: events.stream(index), obtained, expandable });
        }
    }

    pub(super) fn newest_first(&self) -> impl Iterator<Item = &SegmentChange> {
        self.0.iter().rev()
    }
}

/// What is known of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Open,
    Closing,
}

/// Frees whose allocation is not among the events.
#[derive(Clone, Debug, Default)]
pub(super) struct Witnesses {
    seen: HashMap<u64, Seen>,
    blocks: BTreeMap<u64, InitialBlock>,
    /// A recording may leave out `free_requested` altogether (`skip_actions`): seen when a block of its own
    /// completes without one. Then a completion says nothing about having been pending.
    requests_are_left_out: bool,
}

impl Witnesses {
    /// Takes in the next events.
    pub(super) fn take(&mut self, events: &Events) {
        for index in 0..events.len() {
            let address = events.addresses[index];
            match events.actions[index] {
                Action::Alloc => {
                    self.seen.insert(address, Seen::Open);
                }
                Action::FreeRequested if self.seen.insert(address, Seen::Closing).is_none() => {
                    self.witness(events, index, false);
                }
                Action::FreeCompleted => match self.seen.remove(&address) {
                    None => self.witness(events, index, true),
                    Some(Seen::Open) => self.requests_are_left_out = true,
                    Some(Seen::Closing) => {}
                },
                _ => {}
            }
        }
    }

    fn witness(&mut self, events: &Events, index: usize, pending: bool) {
        let address = events.addresses[index];
        self.blocks.entry(address).or_insert(InitialBlock {
            address,
            bytes: 0,
            requested_bytes: events.sizes[index],
            stream: events.stream(index),
            // The stack of a free says who freed it, not who allocated it.
            stack: StackId::NONE,
            pending,
            uncertain_bytes: 0,
        });
    }

    /// Blocks that a free names, by address, without a size.
    pub(super) fn freed(&self) -> BTreeMap<u64, InitialBlock> {
        let mut blocks = self.blocks.clone();
        if self.requests_are_left_out {
            for block in blocks.values_mut() {
                block.pending = false;
            }
        }
        blocks
    }

    /// Whether a block at `address` was handed out, and is not free again after the last event.
    pub(super) fn last_seen_at(&self, address: u64) -> bool {
        self.seen.contains_key(&address)
    }
}

/// Whether the recording left out `free_completed` (`skip_actions`): there is none at all, and a block whose
/// free was requested is handed out again, or is not pending in the final state.
#[derive(Clone, Debug, Default)]
pub(super) struct Completions {
    pending: HashSet<u64>,
    /// Whether any event completes a free: the question is settled.
    any: bool,
    /// Whether a block was handed out again that nobody said was free.
    reused: bool,
}

impl Completions {
    /// Takes in the next events.
    pub(super) fn take(&mut self, events: &Events) {
        if self.any || events.actions.contains(&Action::FreeCompleted) {
            self.any = true;
            return;
        }
        for (action, address) in events.actions.iter().zip(&events.addresses) {
            match action {
                Action::FreeRequested => {
                    self.pending.insert(*address);
                }
                Action::Alloc if self.pending.contains(address) => self.reused = true,
                _ => {}
            }
        }
    }

    /// The answer, given the final `segments` where these are known.
    pub(super) fn are_left_out(&self, segments: Option<&[Segment]>) -> bool {
        if self.any || self.reused {
            return !self.any;
        }
        let Some(segments) = segments else { return false };
        let blocks = segments.iter().flat_map(|segment| &segment.blocks);
        let still_pending = blocks.filter(|block| {
            block.state == BlockState::ActivePendingFree && self.pending.contains(&block.address)
        });
        still_pending.count() < self.pending.len()
    }
}
