//! What was held and live before the first event.
//!
//! The trace does not say; the final segments do, read backwards: what the segment events took away is put
//! back, what they brought is removed. Two witnesses name the blocks that were live: a free without an
//! allocation before it, and a block that is active at the end without an allocation in the trace. The size
//! of the second kind is stated; that of the first follows from what surrounds it, or is uncertain.
//!
//! Owns the deduction and its result. What it has to know of the events is gathered by `gather`, piece by piece, so
//! that a recording need not be in memory whole.

use std::collections::BTreeMap;

use crate::model::{Block, BlockState, DeviceTrace, PoolId, Segment, SegmentKind, StackId};

use super::gather::{SegmentChanges, Witnesses};
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
    fn of(segment: &Segment) -> Self {
        Self {
            address: segment.address,
            bytes: segment.bytes,
            stream: segment.stream,
            kind: segment.kind,
            pool: segment.pool,
            expandable: segment.is_expandable,
            stack: segment.stack,
        }
    }

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

impl InitialBlock {
    fn of(block: &Block, stream: u64) -> Self {
        Self {
            address: block.address,
            bytes: block.bytes,
            requested_bytes: block.requested_bytes,
            stream,
            stack: block.stack,
            pending: block.state == BlockState::ActivePendingFree,
            uncertain_bytes: 0,
        }
    }
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
        if let Some(excerpt) = &device.excerpt {
            return Self::stated(&excerpt.segments);
        }
        let mut changes = SegmentChanges::default();
        changes.take(&device.events);
        let pieces = pieces_before(device.segments.as_deref(), &changes);
        // Nothing held before the first event: nothing can have been live, and the search is spared.
        if device.segments.is_some() && pieces.is_empty() && !device.events.is_empty() {
            return Self::default();
        }
        let mut witnesses = Witnesses::default();
        witnesses.take(&device.events);
        Self::concluded(pieces, witnesses, device.segments.as_deref(), rules)
    }

    /// What `witnesses` and the final `segments` say of blocks within `pieces`.
    pub(super) fn concluded(
        pieces: BTreeMap<u64, Piece>,
        witnesses: Witnesses,
        segments: Option<&[Segment]>,
        rules: &Rules,
    ) -> Self {
        let mut blocks = live_before(witnesses, segments);
        settle_sizes(&mut blocks, &pieces, rules);
        Self { pieces: pieces.into_values().collect(), blocks }
    }

    /// A state that is known, block for block.
    pub(super) fn stated(segments: &[Segment]) -> Self {
        let pieces = segments.iter().filter(|segment| segment.bytes > 0).map(Piece::of).collect();
        let active = |block: &&Block| block.state != BlockState::Inactive;
        let blocks = segments.iter().flat_map(|segment| {
            segment.blocks.iter().filter(active).map(|block| InitialBlock::of(block, segment.stream))
        });
        let mut initial = Self { pieces, blocks: blocks.collect() };
        // Blocks are entered in order of address, whatever a file says.
        initial.blocks.sort_by_key(|block| block.address);
        initial
    }

    /// The state as segments with their blocks, free ones included. Pieces of an expandable segment stay apart.
    pub(super) fn as_segments(&self) -> Vec<Segment> {
        let mut blocks = self.blocks.iter().peekable();
        let segment = |piece: &Piece| {
            let mut segment = Segment {
                address: piece.address,
                bytes: piece.bytes,
                stream: piece.stream,
                kind: piece.kind,
                pool: piece.pool,
                is_expandable: piece.expandable,
                stack: piece.stack,
                ..Segment::default()
            };
            let mut at = piece.address;
            while let Some(block) = blocks.next_if(|block| block.address < piece.end()) {
                segment.push_free(at, block.address);
                segment.push(block);
                at = block.address.saturating_add(block.bytes);
            }
            segment.push_free(at, piece.end());
            segment
        };
        self.pieces.iter().map(segment).collect()
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

impl Segment {
    fn push(&mut self, block: &InitialBlock) {
        let allocated = if block.pending { 0 } else { block.bytes };
        let state = if block.pending { BlockState::ActivePendingFree } else { BlockState::ActiveAllocated };
        let more = [allocated, block.bytes, block.requested_bytes];
        for (sum, more) in self.stated_bytes.iter_mut().zip(more) {
            *sum = sum.saturating_add(more);
        }
        self.blocks.push(Block {
            address: block.address,
            bytes: block.bytes,
            requested_bytes: block.requested_bytes,
            state,
            stack: block.stack,
        });
    }

    fn push_free(&mut self, from: u64, to: u64) {
        if from < to {
            self.blocks.push(Block { address: from, bytes: to - from, ..Block::default() });
        }
    }
}

/// What was held before the first event: the final `segments`, with every change undone.
pub(super) fn pieces_before(segments: Option<&[Segment]>, changes: &SegmentChanges) -> BTreeMap<u64, Piece> {
    let held = segments.unwrap_or_default().iter().filter(|segment| segment.bytes > 0);
    let mut pieces: BTreeMap<u64, Piece> =
        held.map(|segment| (segment.address, Piece::of(segment))).collect();
    for change in changes.newest_first() {
        if change.obtained {
            remove(&mut pieces, change.address, change.bytes);
            continue;
        }
        let kind = if change.bytes == SMALL_SEGMENT_BYTES { SegmentKind::Small } else { SegmentKind::Large };
        put_back(
            &mut pieces,
            Piece {
                address: change.address,
                bytes: change.bytes,
                stream: change.stream,
                kind,
                pool: PoolId::DEFAULT,
                expandable: change.expandable,
                stack: StackId::NONE,
            },
        );
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

/// Blocks that were live before the first event, by address; those that only a free names have no size yet.
fn live_before(witnesses: Witnesses, segments: Option<&[Segment]>) -> Vec<InitialBlock> {
    let mut blocks = witnesses.freed();
    for segment in segments.unwrap_or_default() {
        for block in &segment.blocks {
            if block.state == BlockState::Inactive || witnesses.last_seen_at(block.address) {
                continue;
            }
            blocks.entry(block.address).or_insert_with(|| InitialBlock::of(block, segment.stream));
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
    use crate::model::TraceBuilder;

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
