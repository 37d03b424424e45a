//! The allocator's state as a snapshot shows it: segments and the blocks that tile them.

use super::StackId;

/// Which pool a segment or event belongs to. `(0, 0)` is the default pool, `(0, n)` a user's `MemPool`,
/// `(n, 0)` a pool made by a CUDA graph capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub u64, pub u64);

impl PoolId {
    /// The default pool.
    pub const DEFAULT: Self = Self(0, 0);
}

/// The allocator keeps two pools: for blocks of up to 1 MiB, and for the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum SegmentKind {
    /// Blocks of at most 1 MiB, in segments of 2 MiB.
    Small = 0,
    /// Larger blocks.
    #[default]
    Large = 1,
}

/// Condition of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum BlockState {
    /// Free.
    #[default]
    Inactive = 0,
    /// In use.
    ActiveAllocated = 1,
    /// Given back, but other streams may still use it.
    ActivePendingFree = 2,
}

impl BlockState {
    /// PyTorch's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Inactive => "inactive",
            Self::ActiveAllocated => "active_allocated",
            Self::ActivePendingFree => "active_pending_free",
        }
    }

    /// The state called `name`; `active_awaiting_free` is what old documentation calls a pending free.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "inactive" => Some(Self::Inactive),
            "active_allocated" => Some(Self::ActiveAllocated),
            "active_pending_free" | "active_awaiting_free" => Some(Self::ActivePendingFree),
            _ => None,
        }
    }
}

/// A part of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// First byte.
    pub address: u64,
    /// Length in bytes, rounding included.
    pub bytes: u64,
    /// Bytes asked for. Meaningless for an inactive block: PyTorch leaves the last tenant's number there.
    pub requested_bytes: u64,
    /// In use, pending or free.
    pub state: BlockState,
    /// Who allocated it, when recorded.
    pub stack: StackId,
}

/// One region obtained from the driver, or one contiguous mapped range of an expandable segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// First byte.
    pub address: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Stream whose requests it serves.
    pub stream: u64,
    /// Small or large pool.
    pub kind: SegmentKind,
    /// Default or private pool.
    pub pool: PoolId,
    /// Whether it is part of an expandable segment.
    pub is_expandable: bool,
    /// Whose request caused it, when recorded.
    pub stack: StackId,
    /// Totals that the snapshot itself states: allocated, active and requested bytes.
    pub stated_bytes: [u64; 3],
    /// Blocks in address order.
    pub blocks: Vec<Block>,
}

impl Segment {
    /// First byte behind the segment (saturating: addresses come from the file).
    #[must_use]
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes)
    }
}
