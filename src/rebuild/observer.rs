//! What a pass tells to whoever counts along.

use super::blocks::Blocks;
use super::history::Allocations;

/// What kind of pool a block is in, and whether it can be split off and merged for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class {
    pub(super) small: bool,
    pub(super) expandable: bool,
}

/// A block was handed out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) class: Class,
    pub(super) requested_bytes: u64,
    pub(super) block_bytes: u64,
    /// Size of the free block that served it.
    pub(super) found_bytes: u64,
    /// Whether that free block had a neighbour in its segment.
    pub(super) was_split: bool,
}

/// A block became free.
#[derive(Clone, Copy, Debug)]
pub(super) struct Released {
    pub(super) class: Class,
    pub(super) requested_bytes: u64,
    pub(super) block_bytes: u64,
    /// Free neighbours that it was merged with.
    pub(super) merged_blocks: u64,
    pub(super) merged_bytes: u64,
    /// Size of the free block that results, and whether it has a neighbour.
    pub(super) result_bytes: u64,
    pub(super) result_is_split: bool,
}

/// Counts along with a pass. Every method does nothing unless implemented, so that a plain pass costs
/// nothing for it. `event` order: each event's calls, then [`Observer::event_done`].
pub(super) trait Observer {
    fn taken(&mut self, _what: &Taken) {}
    fn free_requested(&mut self, _class: Class, _block_bytes: u64) {}
    fn released(&mut self, _what: &Released) {}
    fn segment_added(&mut self, _class: Class, _bytes: u64) {}
    fn segment_removed(&mut self, _class: Class, _bytes: u64) {}
    /// Everything before the first event has been entered: here it is.
    fn initial_done(&mut self, _blocks: &Blocks, _allocations: &Allocations) {}
    /// Whether the pass may stop before event `event`.
    fn stops_before(&mut self, _event: usize) -> bool {
        false
    }
}

/// Counts nothing.
impl Observer for () {}
