//! What was held and live before the first event.
//!
//! The trace does not say; the final segments do, read backwards: what the segment events took away is put
//! back, what they brought is removed. Two witnesses name the blocks that were live: a free without an
//! allocation before it, and a block that is active at the end without an allocation in the trace. The size
//! of the second kind is stated; that of the first follows from what surrounds it, or is uncertain.

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};

use crate::model::{Action, BlockState, DeviceTrace, PoolId, SegmentKind, StackId};

use super::rules::{Rules, SMALL_BYTES, SMALL_SEGMENT_BYTES};

/// A range held before the first event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) stream: u64,
    pub(super) kind: SegmentKind,
    pub(super) pool: PoolId,
    pub(super) expandable: bool,
    pub(super) stack: StackId,
}

impl Piece {
    fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes)
    }
}

/// A block live (or pending) before the first event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InitialBlock {
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) requested_bytes: u64,
    pub(super) stream: u64,
    pub(super) stack: StackId,
    pub(super) pending: bool,
    /// By how much `bytes` may be too low; 0 when proved.
    pub(super) uncertain_bytes: u64,
}

/// State before the first event, by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Initial {
    pub(super) pieces: Vec<Piece>,
    pub(super) blocks: Vec<InitialBlock>,
}

impl Initial {
    /// Reads the initial state off `device`.
    pub(super) fn derive(device: &DeviceTrace, rules: &Rules) -> Self {
        let pieces = pieces_before(device);
        let known = device.segments.is_some();
        // Nothing held before the first event: nothing can have been live, and the search is spared.
        if known && pieces.is_empty() && !device.events.is_empty() {
            return Self::default();
        }
        let mut blocks = live_before(device);
        settle_sizes(&mut blocks, &pieces, rules);
        Self { pieces: pieces.into_values().collect(), blocks }
    }

    /// Takes in true sizes that a pass has learnt, as (row, bytes). Whether a size changed; a size that was
    /// assumed and is now proved changes only what is uncertain.
    pub(super) fn correct(&mut self, sizes: &[(u32, u64)]) -> bool {
        let mut changed = false;
        for &(row, bytes) in sizes {
            let Some(block) = self.blocks.get_mut(row as usize) else { continue };
            if block.uncertain_bytes > 0
                && bytes >= block.bytes
                && bytes - block.bytes <= block.uncertain_bytes
            {
                changed |= bytes > block.bytes;
                block.bytes = bytes;
                block.uncertain_bytes = 0;
            }
        }
        changed
    }

    /// How many sizes are unproved, and by how many bytes in all they may be too low.
    pub(super) fn uncertain(&self) -> (u64, u64) {
        let unproved = self.blocks.iter().filter(|block| block.uncertain_bytes > 0);
        unproved.fold((0, 0), |(count, bytes), block| (count + 1, bytes + block.uncertain_bytes))
    }
}

fn pieces_before(device: &DeviceTrace) -> BTreeMap<u64, Piece> {
    let mut pieces: BTreeMap<u64, Piece> = device
        .segments
        .iter()
        .flatten()
        .filter(|segment| segment.bytes > 0)
        .map(|segment| {
            (
                segment.address,
                Piece {
                    address: segment.address,
                    bytes: segment.bytes,
                    stream: segment.stream,
                    kind: segment.kind,
                    pool: segment.pool,
                    expandable: segment.is_expandable,
                    stack: segment.stack,
                },
            )
        })
        .collect();
    let events = &device.events;
    for index in (0..events.len()).rev() {
        let (address, bytes) = (events.addresses[index], events.sizes[index]);
        match events.actions[index] {
            Action::SegmentAlloc | Action::SegmentMap => remove(&mut pieces, address, bytes),
            action @ (Action::SegmentFree | Action::SegmentUnmap) => {
                let kind = if bytes == SMALL_SEGMENT_BYTES { SegmentKind::Small } else { SegmentKind::Large };
                put_back(
                    &mut pieces,
                    Piece {
                        address,
                        bytes,
                        stream: events.stream(index),
                        kind,
                        pool: PoolId::DEFAULT,
                        expandable: action == Action::SegmentUnmap,
                        stack: StackId::NONE,
                    },
                );
            }
            _ => {}
        }
    }
    pieces
}

/// Takes `[address, address + bytes)` out of the pieces, clipping those that reach over.
fn remove(pieces: &mut BTreeMap<u64, Piece>, address: u64, bytes: u64) {
    let end = address.saturating_add(bytes);
    while let Some((&start, &piece)) = pieces.range(..end).next_back() {
        if piece.end() <= address {
            return;
        }
        pieces.remove(&start);
        for (from, to) in [(start, address), (end, piece.end())] {
            if from < to {
                pieces.insert(from, Piece { address: from, bytes: to - from, ..piece });
            }
        }
    }
}

/// Adds `piece`, unless something is there already (the file contradicts itself; the final state wins).
fn put_back(pieces: &mut BTreeMap<u64, Piece>, piece: Piece) {
    let free = piece.bytes > 0
        && pieces.range(..piece.end()).next_back().is_none_or(|(_, before)| before.end() <= piece.address);
    if free {
        pieces.insert(piece.address, piece);
    }
}

/// What the walk knows of an address.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Open,
    Closing,
}

/// Whether the recording left out `free_completed` (`skip_actions`): there is none at all, and a block whose
/// free was requested is handed out again, or is not pending in the final state.
pub(super) fn completions_are_left_out(device: &DeviceTrace) -> bool {
    let events = &device.events;
    if events.actions.contains(&Action::FreeCompleted) {
        return false;
    }
    let mut pending: HashSet<u64> = HashSet::new();
    for (action, address) in events.actions.iter().zip(&events.addresses) {
        match action {
            Action::FreeRequested => {
                pending.insert(*address);
            }
            Action::Alloc if pending.contains(address) => return true,
            _ => {}
        }
    }
    let Some(segments) = &device.segments else { return false };
    let blocks = segments.iter().flat_map(|segment| &segment.blocks);
    let still_pending = blocks
        .filter(|block| block.state == BlockState::ActivePendingFree && pending.contains(&block.address));
    still_pending.count() < pending.len()
}

fn live_before(device: &DeviceTrace) -> Vec<InitialBlock> {
    let events = &device.events;
    // A recording may leave out `free_requested` altogether (`skip_actions`): seen when a block of its own
    // completes without one. Then a completion says nothing about having been pending.
    let mut requests_are_left_out = false;
    let mut seen: HashMap<u64, Seen> = HashMap::new();
    let mut blocks: BTreeMap<u64, InitialBlock> = BTreeMap::new();
    for index in 0..events.len() {
        let address = events.addresses[index];
        let mut witness = |pending| {
            blocks.entry(address).or_insert(InitialBlock {
                address,
                bytes: 0,
                requested_bytes: events.sizes[index],
                stream: events.stream(index),
                // The stack of a free says who freed it, not who allocated it.
                stack: StackId::NONE,
                pending,
                uncertain_bytes: 0,
            });
        };
        match events.actions[index] {
            Action::Alloc => {
                seen.insert(address, Seen::Open);
            }
            Action::FreeRequested if seen.insert(address, Seen::Closing).is_none() => witness(false),
            Action::FreeCompleted => match seen.remove(&address) {
                None => witness(true),
                Some(Seen::Open) => requests_are_left_out = true,
                Some(Seen::Closing) => {}
            },
            _ => {}
        }
    }
    if requests_are_left_out {
        for block in blocks.values_mut() {
            block.pending = false;
        }
    }
    for segment in device.segments.iter().flatten() {
        for block in &segment.blocks {
            if block.state == BlockState::Inactive || seen.contains_key(&block.address) {
                continue;
            }
            blocks.entry(block.address).or_insert(InitialBlock {
                address: block.address,
                bytes: block.bytes,
                requested_bytes: block.requested_bytes,
                stream: segment.stream,
                stack: block.stack,
                pending: block.state == BlockState::ActivePendingFree,
                uncertain_bytes: 0,
            });
        }
    }
    blocks.into_values().collect()
}

/// Gives every block that only its free witnesses (`bytes` 0) a size.
fn settle_sizes(blocks: &mut [InitialBlock], pieces: &BTreeMap<u64, Piece>, rules: &Rules) {
    let starts: Vec<u64> = blocks.iter().map(|block| block.address).collect();
    for (index, block) in blocks.iter_mut().enumerate() {
        if block.bytes > 0 {
            continue;
        }
        let rounded = rules.round(block.requested_bytes);
        let holder = pieces.range(..=block.address).next_back().map(|(_, piece)| piece);
        let Some(piece) = holder.filter(|piece| block.address < piece.end()) else {
            block.bytes = rounded;
            continue;
        };
        block.bytes = rounded;
        if rules.always_splits(piece.kind == SegmentKind::Small, piece.expandable) {
            continue;
        }
        let limit = starts.get(index + 1).map_or(piece.end(), |&next| next.min(piece.end()));
        let gap = (limit - block.address).saturating_sub(rounded);
        if gap <= SMALL_BYTES && rules.small_gaps_belong_to_blocks() {
            block.bytes = rounded + gap;
        } else {
            block.uncertain_bytes = gap.min(SMALL_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Block, Segment, TraceBuilder};

    const MIB: u64 = 1 << 20;

    fn derive(trace: &crate::model::Trace) -> Initial {
        Initial::derive(&trace.devices[0], &Rules::default())
    }

    fn segment(address: u64, bytes: u64, blocks: Vec<Block>) -> Segment {
        Segment { address, bytes, blocks, ..Segment::default() }
    }

    #[test]
    fn a_trace_from_the_start_has_an_empty_beginning() {
        let trace = TraceBuilder::new()
            .segment_alloc(0x4000_0000, 20 * MIB)
            .alloc(0x4000_0000, 4 * MIB)
            .segments(vec![segment(0x4000_0000, 20 * MIB, vec![])])
            .build();
        assert_eq!(derive(&trace), Initial::default());
    }

    #[test]
    fn a_returned_segment_was_held_before() {
        let trace = TraceBuilder::new().segment_free(0x4000_0000, 20 * MIB).segments(vec![]).build();
        let initial = derive(&trace);
        assert_eq!(initial.pieces.len(), 1);
        assert_eq!((initial.pieces[0].address, initial.pieces[0].bytes), (0x4000_0000, 20 * MIB));
    }

    #[test]
    fn a_free_without_allocation_and_a_final_block_are_both_witnesses() {
        let kept = Block {
            address: 0x4000_0000,
            bytes: 3 * MIB,
            requested_bytes: 3 * MIB - 5,
            state: BlockState::ActiveAllocated,
            stack: StackId(0),
        };
        let trace = TraceBuilder::new()
            .free(0x4030_0000, 2 * MIB)
            .segments(vec![segment(0x4000_0000, 20 * MIB, vec![kept])])
            .build();
        let blocks = derive(&trace).blocks;
        assert_eq!(blocks.len(), 2);
        assert_eq!((blocks[0].bytes, blocks[0].uncertain_bytes), (3 * MIB, 0));
        assert_eq!((blocks[1].bytes, blocks[1].uncertain_bytes), (2 * MIB, MIB), "15 MiB of room: unproved");
    }

    #[test]
    fn a_small_gap_behind_a_large_block_belongs_to_it() {
        let trace = TraceBuilder::new()
            .free(0x4000_0000, 3 * MIB)
            .segments(vec![segment(0x4000_0000, 4 * MIB, vec![])])
            .build();
        let blocks = derive(&trace).blocks;
        assert_eq!((blocks[0].bytes, blocks[0].uncertain_bytes), (4 * MIB, 0));
    }

    #[test]
    fn a_completion_without_its_request_was_pending() {
        let trace = TraceBuilder::new()
            .free_completed(0x4000_0000, 2 * MIB)
            .free(0x4020_0000, 2 * MIB)
            .segments(vec![segment(0x4000_0000, 20 * MIB, vec![])])
            .build();
        let pending: Vec<_> = derive(&trace).blocks.iter().map(|block| block.pending).collect();
        assert_eq!(pending, [true, false]);
    }
}
