//! A model of PyTorch's native caching allocator (2.6 to 2.15): one device, one call at a time.
//!
//! Owns the sequence of a request (search, collect, obtain, release, give up), frees and the totals. Which
//! requests come is `replay`'s business; expandable segments are in `expandable`, the ways back to the
//! driver in `release`. Its behaviour is explained in `docs/memory-model.md` and `docs/whatif.md`.

mod blocks;
mod expandable;
mod initial;
mod layout;
mod release;

use std::collections::BTreeMap;

use super::addresses::Addresses;
use super::conf::Conf;
use super::outcome::{Figures, Track};
use crate::model::PoolId;
use crate::rebuild::{NONE, SMALL_BYTES};
use blocks::{Block, Blocks, Group, Use};

pub use layout::{Layout, LayoutBlock, LayoutSegment, LayoutUse, LiveRequest};

/// Requests beyond this are refused before anything else is tried.
const HUGE_BYTES: u64 = 1 << 60;

/// How much memory there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// Most reserved bytes allowed to the process (`set_per_process_memory_fraction`): tested with the size
    /// of a whole segment, before the driver is asked.
    pub cap: Option<u64>,
    /// Most bytes that the driver can give.
    pub physical: Option<u64>,
}

impl Limit {
    /// A cap on reserved bytes.
    #[must_use]
    pub fn cap(bytes: u64) -> Self {
        Self { cap: Some(bytes), physical: None }
    }
}

/// Which of a request's questions to the driver are refused regardless of the limit, as recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Refusal {
    #[default]
    None,
    /// The first one.
    First,
    /// All.
    Always,
}

/// Where requests go: a pool and a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) pool: PoolId,
    pub(super) stream: u64,
}

/// A request that could not be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutOfMemory;

/// The allocator.
#[derive(Debug)]
pub(super) struct Allocator<'a> {
    conf: &'a Conf,
    limit: Limit,
    pub(super) blocks: Blocks,
    addresses: Addresses,
    /// Address space of an expandable segment.
    reservation_bytes: u64,
    /// Blocks waiting for other streams, by allocation row.
    pending: BTreeMap<u32, u32>,
    pub(super) figures: Figures,
    pub(super) track: Track,
    /// Event under way.
    pub(super) event: u32,
    collects: bool,
    /// Free blocks that releases have looked at.
    walked: u64,
}

impl<'a> Allocator<'a> {
    /// An empty allocator. `places` fixes the numbers that [`Allocator::malloc`] takes.
    pub(super) fn new(
        conf: &'a Conf,
        limit: Limit,
        places: &[Place],
        addresses: Addresses,
        device_bytes: Option<u64>,
    ) -> Self {
        const UNKNOWN_DEVICE_BYTES: u64 = 256 << 30;
        let device = device_bytes.unwrap_or(UNKNOWN_DEVICE_BYTES).min(HUGE_BYTES >> 4);
        let mut blocks = Blocks::default();
        let mut pools: Vec<PoolId> = Vec::new();
        for place in places {
            let pool = pools.iter().position(|&known| known == place.pool).unwrap_or_else(|| {
                pools.push(place.pool);
                pools.len() - 1
            });
            for small in [false, true] {
                blocks.groups.push(Group {
                    free: std::collections::BTreeSet::new(),
                    unmapped: std::collections::BTreeSet::new(),
                    pool: (pool * 2 + usize::from(small)) as u32,
                    stream: place.stream,
                    small,
                    private: place.pool != PoolId::DEFAULT,
                });
            }
        }
        blocks.calls = vec![0; pools.len() * 2];
        Self {
            conf,
            limit,
            blocks,
            addresses,
            reservation_bytes: device / 8 * 9,
            pending: BTreeMap::new(),
            figures: Figures::default(),
            track: Track::default(),
            event: 0,
            collects: conf.collects() && limit.cap.is_some(),
            walked: 0,
        }
    }

    /// What is in use now is what every peak begins with.
    pub(super) fn begins_here(&mut self) {
        self.track.peak_allocated = self.figures.allocated;
        self.track.active_at_peak = self.figures.active;
    }

    /// Serves a request of `bytes` at place number `place`: the block.
    #[inline]
    pub(super) fn malloc(&mut self, place: u32, bytes: u64, refusal: Refusal) -> Result<u32, OutOfMemory> {
        if bytes >= HUGE_BYTES {
            return Err(OutOfMemory);
        }
        let rounded = self.conf.round(bytes);
        let group = group_of(place, rounded <= SMALL_BYTES);
        let block = match self.find(group, rounded) {
            Some(block) if refusal != Refusal::Always => block,
            found => {
                if let Some(block) = found {
                    self.blocks.list(block);
                }
                self.obtain(group, rounded, refusal)?
            }
        };
        self.take(block, rounded);
        Ok(block)
    }

    /// The best fitting free block, taken off its list.
    #[inline]
    fn find(&mut self, group: u32, rounded: u64) -> Option<u32> {
        if self.collects {
            let pool = self.blocks.groups[group as usize].pool;
            self.blocks.calls[pool as usize] += 1;
        }
        let mut candidates = self.blocks.groups[group as usize].free.range((rounded, 0, 0)..).copied();
        let mut best = candidates.next()?;
        if self.blocks.get(best.2).expandable {
            best = if self.conf.expandable {
                self.best_expandable(best, candidates)
            } else {
                candidates.find(|entry| !self.blocks.get(entry.2).expandable)?
            };
        }
        if !self.conf.may_serve(rounded, best.0) {
            return None;
        }
        self.blocks.groups[group as usize].free.remove(&best);
        Some(best.2)
    }

    /// Asks the driver for memory, releasing what is cached step by step.
    fn obtain(&mut self, group: u32, rounded: u64, refusal: Refusal) -> Result<u32, OutOfMemory> {
        if self.collects {
            self.collect_garbage();
        }
        if refusal == Refusal::None
            && let Some(block) = self.ask_driver(group, rounded)
        {
            return Ok(block);
        }
        if self.release_available(group, rounded)
            && refusal != Refusal::Always
            && let Some(block) = self.ask_driver(group, rounded)
        {
            return Ok(block);
        }
        self.release_cached();
        self.figures.retries += 1;
        // The pool is not searched again, although the release may have completed fitting blocks.
        if refusal == Refusal::Always {
            return Err(OutOfMemory);
        }
        self.ask_driver(group, rounded).ok_or(OutOfMemory)
    }

    /// One question to the driver: a free block, unlisted, that holds `rounded` bytes.
    fn ask_driver(&mut self, group: u32, rounded: u64) -> Option<u32> {
        let bytes = self.conf.segment_bytes(rounded);
        if self.limit.cap.is_some_and(|cap| self.figures.reserved.saturating_add(bytes) > cap) {
            return None;
        }
        if self.conf.expandable {
            return self.expand(group, rounded);
        }
        if !self.driver_has(bytes) {
            return None;
        }
        let address = self.addresses.segment(bytes);
        self.add_reserved(bytes);
        Some(self.blocks.add(Block {
            address,
            bytes,
            previous: NONE,
            next: NONE,
            group,
            usage: Use::Free,
            expandable: false,
            listed_at: 0,
            origin: address,
        }))
    }

    fn driver_has(&self, bytes: u64) -> bool {
        self.limit.physical.is_none_or(|physical| self.figures.reserved.saturating_add(bytes) <= physical)
    }

    /// Hands out unlisted free block `index`, splitting off what the rule says.
    #[inline]
    fn take(&mut self, index: u32, rounded: u64) {
        let block = *self.blocks.get(index);
        let small = self.blocks.groups[block.group as usize].small;
        let taken = self.conf.taken(block.bytes, rounded, small);
        if taken < block.bytes {
            let rest = self.blocks.split(index, taken, Use::Free);
            self.blocks.list(rest);
        }
        self.blocks.get_mut(index).usage = Use::Allocated;
        self.figures.allocated = self.figures.allocated.saturating_add(taken);
        self.figures.active = self.figures.active.saturating_add(taken);
        self.track.raise(&self.figures, self.event);
    }

    /// A block is given back and free at once.
    #[inline]
    pub(super) fn free(&mut self, index: u32) {
        self.figures.allocated = self.figures.allocated.saturating_sub(self.blocks.get(index).bytes);
        self.complete(index);
    }

    /// Blocks that wait for other streams, as (allocation row, block).
    pub(super) fn pending(&self) -> impl Iterator<Item = (u32, u32)> {
        self.pending.iter().map(|(&row, &block)| (row, block))
    }

    /// The block of allocation `row` is given back but waits for other streams.
    pub(super) fn request_free(&mut self, row: u32, index: u32) {
        let block = self.blocks.get_mut(index);
        block.usage = Use::Pending;
        self.figures.allocated = self.figures.allocated.saturating_sub(block.bytes);
        self.pending.insert(row, index);
    }

    /// The wait of allocation `row` is over, unless a release has ended it before.
    pub(super) fn complete_free(&mut self, row: u32) {
        if let Some(index) = self.pending.remove(&row) {
            self.complete(index);
        }
    }

    #[inline]
    fn complete(&mut self, index: u32) {
        let block = self.blocks.get_mut(index);
        block.usage = Use::Free;
        self.figures.active = self.figures.active.saturating_sub(block.bytes);
        let joined = self.blocks.merge(index);
        self.blocks.list(joined);
    }

    fn add_reserved(&mut self, bytes: u64) {
        self.figures.reserved = self.figures.reserved.saturating_add(bytes);
        self.track.reserved_changed(&self.figures, self.event);
    }

    fn subtract_reserved(&mut self, bytes: u64) {
        self.figures.reserved = self.figures.reserved.saturating_sub(bytes);
        self.track.reserved_changed(&self.figures, self.event);
    }
}

/// Number of the group for blocks at `place`.
#[inline]
pub(super) fn group_of(place: u32, small: bool) -> u32 {
    place * 2 + u32::from(small)
}
