//! Where the reserved bytes are at one moment, and why the free ones among them cannot be used.
//!
//! Owns the definitions: rounding, pending frees, releasable and stranded bytes, holes. Whose blocks pin the
//! stranded bytes is [`super::pins`]. By construction `requested + rounding = allocated`,
//! `allocated + pending_free = active` and `active + releasable + stranded = reserved`.

use crate::error::Result;
use crate::model::BlockState;
use crate::rebuild::{Moment, State, StateSegment};

use super::Grouping;
use super::pins::{Pin, pins};

/// Where the reserved bytes are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fragmentation {
    /// When.
    pub moment: Moment,
    /// Held from the driver.
    pub reserved_bytes: u64,
    /// Allocated plus pending.
    pub active_bytes: u64,
    /// Blocks handed out.
    pub allocated_bytes: u64,
    /// Asked for, over allocated blocks.
    pub requested_bytes: u64,
    /// Allocated minus requested.
    pub rounding_bytes: u64,
    /// Freed, but waiting for another stream.
    pub pending_free_bytes: u64,
    /// In segments that are wholly free.
    pub releasable_bytes: u64,
    /// Free, but in a segment that an allocated or pending block pins.
    pub stranded_bytes: u64,
    /// Number of free blocks that make up the stranded bytes.
    pub stranded_blocks: u64,
    /// The largest free block of all.
    pub largest_free_block_bytes: u64,
    /// The largest free block inside a pinned segment.
    pub largest_stranded_block_bytes: u64,
    /// `1 - active / reserved`; 0 when nothing is reserved.
    pub ratio: f64,
    /// Free blocks by size, smallest first.
    pub holes: Vec<HoleClass>,
    /// Whose blocks pin the stranded bytes, most stranded bytes first.
    pub pins: Vec<Pin>,
}

/// Free blocks of `2^power` up to `2^(power + 1)` bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HoleClass {
    /// Logarithm of the smallest size of the class.
    pub power: u32,
    /// Stranded blocks.
    pub stranded_blocks: u64,
    /// Their bytes.
    pub stranded_bytes: u64,
    /// Wholly free segments.
    pub releasable_blocks: u64,
    /// Their bytes.
    pub releasable_bytes: u64,
}

/// Where the reserved bytes of `state` are. `state` is the state at `moment` of the history that `grouping`
/// was made for.
///
/// # Errors
/// When the table engine refuses a table, which would be a fault of memlab.
pub fn fragmentation(state: &State, moment: Moment, grouping: &Grouping) -> Result<Fragmentation> {
    let mut all = Fragmentation { moment, ..Fragmentation::default() };
    let mut holes = [HoleClass::default(); 64];
    for segment in &state.segments {
        let part = SegmentBytes::of(segment);
        all.reserved_bytes += part.reserved;
        all.active_bytes += part.active;
        all.releasable_bytes += part.releasable();
        all.stranded_bytes += part.stranded();
        all.count_blocks(segment, part.is_pinned(), &mut holes);
    }
    all.rounding_bytes = all.allocated_bytes.saturating_sub(all.requested_bytes);
    all.pending_free_bytes = all.active_bytes - all.allocated_bytes;
    if all.reserved_bytes > 0 {
        all.ratio = 1.0 - all.active_bytes as f64 / all.reserved_bytes as f64;
    }
    all.holes = classes(&holes);
    all.pins = pins(state, grouping)?;
    Ok(all)
}

impl Fragmentation {
    fn count_blocks(&mut self, segment: &StateSegment, pinned: bool, holes: &mut [HoleClass; 64]) {
        for block in &segment.blocks {
            match block.state {
                BlockState::ActiveAllocated => {
                    self.allocated_bytes += block.bytes;
                    self.requested_bytes += block.requested_bytes.min(block.bytes);
                }
                BlockState::ActivePendingFree => {}
                BlockState::Inactive => {
                    self.largest_free_block_bytes = self.largest_free_block_bytes.max(block.bytes);
                    let class = &mut holes[block.bytes.max(1).ilog2() as usize];
                    if pinned {
                        self.stranded_blocks += 1;
                        self.largest_stranded_block_bytes =
                            self.largest_stranded_block_bytes.max(block.bytes);
                        class.stranded_blocks += 1;
                        class.stranded_bytes += block.bytes;
                    } else {
                        class.releasable_blocks += 1;
                        class.releasable_bytes += block.bytes;
                    }
                }
            }
        }
    }
}

/// Sizes that occur, with their power filled in.
fn classes(holes: &[HoleClass; 64]) -> Vec<HoleClass> {
    (0..)
        .zip(holes)
        .filter(|(_, class)| class.stranded_blocks + class.releasable_blocks > 0)
        .map(|(power, &class)| HoleClass { power, ..class })
        .collect()
}

/// Bytes of one segment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SegmentBytes {
    pub(super) reserved: u64,
    pub(super) active: u64,
    active_blocks: u64,
}

impl SegmentBytes {
    pub(super) fn of(segment: &StateSegment) -> Self {
        let mut bytes = Self::default();
        for block in &segment.blocks {
            bytes.reserved += block.bytes;
            if block.state != BlockState::Inactive {
                bytes.active += block.bytes;
                bytes.active_blocks += 1;
            }
        }
        bytes
    }

    pub(super) fn is_pinned(self) -> bool {
        self.active_blocks > 0
    }

    pub(super) fn releasable(self) -> u64 {
        if self.is_pinned() { 0 } else { self.reserved }
    }

    pub(super) fn stranded(self) -> u64 {
        if self.is_pinned() { self.reserved - self.active } else { 0 }
    }
}

#[cfg(test)]
pub(super) mod samples {
    //! States by hand.

    use crate::model::{BlockState, PoolId, SegmentKind, StackId};
    use crate::rebuild::{NONE, State, StateBlock, StateSegment};
    use crate::tables::{GroupBy, GroupKey, Grouping};

    /// `(bytes, requested, allocation)`: an allocated block, or a free one for allocation [`NONE`].
    pub(in crate::tables) fn segment(address: u64, blocks: &[(u64, u64, u32)]) -> StateSegment {
        let mut segment = StateSegment {
            address,
            bytes: blocks.iter().map(|block| block.0).sum(),
            stream: 0,
            kind: SegmentKind::Large,
            pool: PoolId::DEFAULT,
            is_expandable: false,
            stack: StackId::NONE,
            blocks: Vec::new(),
        };
        let mut at = address;
        for &(bytes, requested_bytes, allocation) in blocks {
            let state = if allocation == NONE { BlockState::Inactive } else { BlockState::ActiveAllocated };
            segment.blocks.push(StateBlock { address: at, bytes, requested_bytes, state, allocation });
            at += bytes;
        }
        segment
    }

    /// Two segments that lines 0 and 1 pin, one of them alone, a pending block, and a free segment.
    pub(in crate::tables) fn state() -> State {
        let mut mixed = segment(0x1_0000, &[(1000, 900, 0), (3000, 0, NONE), (500, 500, 1), (70, 0, NONE)]);
        mixed.blocks[2].state = BlockState::ActivePendingFree;
        let sole = segment(0x2_0000, &[(2048, 0, NONE), (512, 512, 2), (512, 500, 3)]);
        let mut free = segment(0x3_0000, &[(8192, 0, NONE)]);
        free.stream = 7;
        let full = segment(0x4_0000, &[(4096, 4096, 4)]);
        State { segments: vec![mixed, sole, free, full] }
    }

    /// Allocations 0, 2 and 3 belong to line 0, 1 and 4 to line 1.
    pub(in crate::tables) fn grouping() -> Grouping {
        Grouping {
            by: GroupBy::Line,
            keys: vec![GroupKey::default(); 2],
            of_stack: Vec::new(),
            of_frame: Vec::new(),
            of_allocation: vec![0, 1, 0, 0, 1],
            inferred: vec![false; 5],
            facts: Vec::new(),
            modules: super::super::ModuleGroups::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::samples::{grouping, state};
    use super::*;

    #[test]
    fn every_reserved_byte_is_somewhere_once() {
        let all = fragmentation(&state(), Moment(9), &grouping()).unwrap();
        assert_eq!(all.reserved_bytes, 4570 + 3072 + 8192 + 4096);
        assert_eq!(all.allocated_bytes, 1000 + 512 + 512 + 4096);
        assert_eq!((all.requested_bytes, all.rounding_bytes), (900 + 512 + 500 + 4096, 112));
        assert_eq!(all.pending_free_bytes, 500);
        assert_eq!((all.releasable_bytes, all.stranded_bytes), (8192, 3070 + 2048));
        assert_eq!(all.requested_bytes + all.rounding_bytes, all.allocated_bytes);
        assert_eq!(all.allocated_bytes + all.pending_free_bytes, all.active_bytes);
        assert_eq!(all.active_bytes + all.releasable_bytes + all.stranded_bytes, all.reserved_bytes);
        assert!((all.ratio - (1.0 - 6620.0 / 19930.0)).abs() < 1e-12);
    }

    #[test]
    fn holes_are_counted_by_power_of_two() {
        let all = fragmentation(&state(), Moment(9), &grouping()).unwrap();
        assert_eq!((all.stranded_blocks, all.largest_stranded_block_bytes), (3, 3000));
        assert_eq!(all.largest_free_block_bytes, 8192);
        let holes: Vec<_> = all
            .holes
            .iter()
            .map(|h| (h.power, h.stranded_blocks, h.stranded_bytes, h.releasable_blocks, h.releasable_bytes))
            .collect();
        assert_eq!(holes, [(6, 1, 70, 0, 0), (11, 2, 5048, 0, 0), (13, 0, 0, 1, 8192)]);
    }

    #[test]
    fn nothing_reserved_is_no_fragmentation() {
        let none = fragmentation(&State::default(), Moment(0), &grouping()).unwrap();
        assert_eq!(none, Fragmentation::default());
    }
}
