//! The allocator's state at a moment: segments and the blocks that tile them.

use crate::model::{BlockState, PoolId, SegmentKind, StackId};

use super::history::{History, NONE};
use super::moment::{Moment, Usage};

/// A block of a [`StateSegment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateBlock {
    /// First byte.
    pub address: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Bytes asked for; 0 for a free block.
    pub requested_bytes: u64,
    /// In use, pending or free.
    pub state: BlockState,
    /// Row in the history's allocations; [`super::NONE`] for a free block.
    pub allocation: u32,
}

/// A segment at a moment. Its blocks tile it exactly; no two free blocks touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateSegment {
    /// First byte.
    pub address: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Stream.
    pub stream: u64,
    /// Small or large pool.
    pub kind: SegmentKind,
    /// Default or private pool.
    pub pool: PoolId,
    /// Whether it is a mapped range of an expandable segment.
    pub is_expandable: bool,
    /// Stack of the call that obtained it (its first piece).
    pub stack: StackId,
    /// Blocks in address order.
    pub blocks: Vec<StateBlock>,
}

impl StateSegment {
    /// Whether no block is allocated or pending.
    #[must_use]
    pub fn is_wholly_free(&self) -> bool {
        self.blocks.iter().all(|block| block.state == BlockState::Inactive)
    }
}

/// Segments in address order, blocks in address order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Segments.
    pub segments: Vec<StateSegment>,
}

impl History {
    /// The totals at `moment`, summed over allocations and segments.
    #[must_use]
    pub fn usage_at(&self, moment: Moment) -> Usage {
        let mut usage = Usage::default();
        let rows = &self.allocations;
        for row in 0..rows.len() {
            if rows.is_active_at(row, moment) {
                usage.active_bytes = usage.active_bytes.saturating_add(rows.block_bytes[row]);
                usage.requested_bytes = usage.requested_bytes.saturating_add(rows.requested_bytes[row]);
            }
            if rows.is_allocated_at(row, moment) {
                usage.allocated_bytes = usage.allocated_bytes.saturating_add(rows.block_bytes[row]);
            }
        }
        for row in (0..self.ranges.len()).filter(|&row| self.ranges.is_held_at(row, moment)) {
            usage.reserved_bytes = usage.reserved_bytes.saturating_add(self.ranges.bytes[row]);
        }
        usage
    }

    /// The allocator's state at `moment`: what is free is what no active block covers.
    #[must_use]
    pub fn state_at(&self, moment: Moment) -> State {
        let mut segments = self.segments_at(moment);
        let mut blocks = self.blocks_at(moment).into_iter().peekable();
        for segment in &mut segments {
            let end = segment.address.saturating_add(segment.bytes);
            let mut at = segment.address;
            while let Some(mut block) = blocks.next_if(|block| block.address < end) {
                if block.address < at {
                    continue; // Overlaps its neighbour or lies before every segment: counted by the pass.
                }
                block.bytes = block.bytes.min(end - block.address);
                segment.push_free(at, block.address);
                at = block.address + block.bytes;
                segment.blocks.push(block);
            }
            segment.push_free(at, end);
        }
        State { segments }
    }

    /// Held ranges at `moment` by address, touching pieces of an expandable segment joined.
    fn segments_at(&self, moment: Moment) -> Vec<StateSegment> {
        let ranges = &self.ranges;
        let mut rows: Vec<usize> = (0..ranges.len()).filter(|&row| ranges.is_held_at(row, moment)).collect();
        rows.sort_by_key(|&row| ranges.addresses[row]);
        let mut segments: Vec<StateSegment> = Vec::with_capacity(rows.len());
        for row in rows {
            if let Some(last) = segments.last_mut()
                && last.is_expandable
                && ranges.expandable[row]
                && last.stream == ranges.streams[row]
                && last.pool == ranges.pools[row]
                && last.address + last.bytes == ranges.addresses[row]
            {
                last.bytes += ranges.bytes[row];
                continue;
            }
            segments.push(StateSegment {
                address: ranges.addresses[row],
                bytes: ranges.bytes[row],
                stream: ranges.streams[row],
                kind: ranges.kinds[row],
                pool: ranges.pools[row],
                is_expandable: ranges.expandable[row],
                stack: ranges.stacks[row],
                blocks: Vec::new(),
            });
        }
        segments
    }

    /// Active blocks at `moment`, by address.
    fn blocks_at(&self, moment: Moment) -> Vec<StateBlock> {
        let rows = &self.allocations;
        let mut blocks: Vec<StateBlock> = (0..rows.len())
            .filter(|&row| rows.is_active_at(row, moment))
            .map(|row| StateBlock {
                address: rows.addresses[row],
                bytes: rows.block_bytes[row],
                requested_bytes: rows.requested_bytes[row],
                state: if rows.is_allocated_at(row, moment) {
                    BlockState::ActiveAllocated
                } else {
                    BlockState::ActivePendingFree
                },
                allocation: row as u32,
            })
            .collect();
        blocks.sort_by_key(|block| (block.address, block.allocation));
        blocks
    }
}

impl StateSegment {
    fn push_free(&mut self, from: u64, to: u64) {
        if from < to {
            self.blocks.push(StateBlock {
                address: from,
                bytes: to - from,
                requested_bytes: 0,
                state: BlockState::Inactive,
                allocation: NONE,
            });
        }
    }
}
