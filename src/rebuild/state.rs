//! The allocator's state at a moment: segments and the blocks that tile them.

use crate::model::{BlockState, PoolId, SegmentKind, StackId};

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
