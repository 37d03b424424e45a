//! A small model of PyTorch's caching allocator, as `testdata/generate.py` has it.
//!
//! Owns rounding, best fit, the split rule, merging, three sizes of segments, pending frees of a second stream
//! and `empty_cache`, one device, default settings. It logs what it does and counts what PyTorch counts. It
//! shares nothing with the program that it is to be held against.

use std::collections::{BTreeMap, VecDeque};

use memlab::model::Action;

const MIB: u64 = 1 << 20;
/// A pending free completes at this many requests after it was asked for.
const PENDING_FOR: u64 = 40;

/// A counter with its maximum and what went in and out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counter {
    pub(crate) current: u64,
    pub(crate) peak: u64,
    pub(crate) allocated: u64,
    pub(crate) freed: u64,
}

impl Counter {
    fn add(&mut self, amount: u64) {
        self.current += amount;
        self.allocated += amount;
        self.peak = self.peak.max(self.current);
    }

    fn take(&mut self, amount: u64) {
        self.current -= amount;
        self.freed += amount;
    }
}

/// The counters of `torch.cuda.memory_stats()` that an analyzer must find again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) allocation: Counter,
    pub(crate) active: Counter,
    pub(crate) segment: Counter,
    pub(crate) allocated_bytes: Counter,
    pub(crate) active_bytes: Counter,
    pub(crate) requested_bytes: Counter,
    pub(crate) reserved_bytes: Counter,
}

/// An event as it is logged; `side` is whether it is of the second stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Logged {
    pub(crate) action: Action,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) side: bool,
    pub(crate) site: u32,
}

/// Where a block's segment belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home {
    pub(crate) small: bool,
    pub(crate) side: bool,
}

/// A part of a segment, in a list with its neighbours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) requested: u64,
    pub(crate) site: u32,
    pub(crate) free: bool,
    pub(crate) pending: bool,
    pub(crate) after: Option<usize>,
    before: Option<usize>,
    pub(crate) home: Home,
}

/// The first block of a segment, and the segment's bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) first: usize,
    pub(crate) bytes: u64,
}

/// The allocator. `log` is for the caller to take from.
#[derive(Debug, Default)]
pub(crate) struct Allocator {
    pub(crate) log: Vec<Logged>,
    pub(crate) counters: Counters,
    pub(crate) blocks: Vec<Block>,
    /// By address.
    pub(crate) segments: BTreeMap<u64, Held>,
    unused: Vec<usize>,
    slots: Vec<Option<usize>>,
    pending: VecDeque<(u64, usize)>,
    requests: u64,
    /// Free blocks of each kind of segment, by size and address.
    pools: [BTreeMap<(u64, u64), usize>; 4],
    obtained: u64,
    returned: BTreeMap<u64, Vec<u64>>,
}

impl Allocator {
    /// Serves a request into `slot`.
    pub(crate) fn take(&mut self, slot: usize, requested: u64, side: bool, site: u32) {
        self.requests += 1;
        while self.pending.front().is_some_and(|&(at, _)| at <= self.requests) {
            self.complete_next(site);
        }
        let rounded = requested.next_multiple_of(512).max(512);
        let small = rounded <= MIB;
        let fit =
            self.pools[pool(small, side)].range((rounded, 0)..).next().map(|(&key, &block)| (key, block));
        let block = if let Some((key, block)) = fit {
            self.pools[pool(small, side)].remove(&key);
            block
        } else {
            self.obtain(rounded, small, side, site)
        };
        self.split(block, rounded, small);
        let taken = &mut self.blocks[block];
        (taken.free, taken.requested, taken.site) = (false, requested, site);
        let (address, bytes) = (taken.address, taken.bytes);
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, None);
        }
        self.slots[slot] = Some(block);
        self.counters.allocation.add(1);
        self.counters.active.add(1);
        self.counters.allocated_bytes.add(bytes);
        self.counters.active_bytes.add(bytes);
        self.counters.requested_bytes.add(requested);
        self.log.push(Logged { action: Action::Alloc, address, bytes: requested, side, site });
    }

    /// Gives back what is in `slot`; `later` leaves it pending for a while.
    pub(crate) fn give(&mut self, slot: usize, later: bool, site: u32) {
        let block = self.slots[slot].take().expect("the program gives back what it took");
        let Block { address, bytes, requested, home, .. } = self.blocks[block];
        self.counters.allocation.take(1);
        self.counters.allocated_bytes.take(bytes);
        let action = Action::FreeRequested;
        self.log.push(Logged { action, address, bytes: requested, side: home.side, site });
        if later {
            self.blocks[block].pending = true;
            self.pending.push_back((self.requests + PENDING_FOR, block));
        } else {
            self.complete(block, site);
        }
    }

    /// Returns every segment that is free as a whole.
    pub(crate) fn empty_cache(&mut self, site: u32) {
        while !self.pending.is_empty() {
            self.complete_next(site);
        }
        for small in [false, true] {
            let whole = |held: &&Held| {
                let first = self.blocks[held.first];
                first.home.small == small && first.free && first.after.is_none()
            };
            let mut whole: Vec<Held> = self.segments.values().filter(whole).copied().collect();
            whole.sort_by_key(|held| (self.blocks[held.first].home.side, held.bytes, held.first));
            for held in whole {
                self.give_up(held, site);
            }
        }
    }

    fn give_up(&mut self, held: Held, site: u32) {
        let Block { address, home, .. } = self.blocks[held.first];
        self.set_used(held.first);
        self.segments.remove(&address);
        self.unused.push(held.first);
        self.returned.entry(held.bytes).or_default().push(address);
        self.counters.segment.take(1);
        self.counters.reserved_bytes.take(held.bytes);
        let (action, bytes) = (Action::SegmentFree, held.bytes);
        self.log.push(Logged { action, address, bytes, side: home.side, site });
    }

    fn obtain(&mut self, rounded: u64, small: bool, side: bool, site: u32) -> usize {
        let bytes = match rounded {
            _ if small => 2 * MIB,
            ..10_485_760 => 20 * MIB,
            _ => rounded.next_multiple_of(2 * MIB),
        };
        let known = self.returned.get_mut(&bytes).and_then(Vec::pop);
        let address = known.unwrap_or_else(|| {
            let address = 0x7f10_0000_0000 + self.obtained;
            self.obtained += bytes + 2 * MIB;
            address
        });
        let first = self.new_block(address, bytes, Home { small, side });
        self.segments.insert(address, Held { first, bytes });
        self.counters.segment.add(1);
        self.counters.reserved_bytes.add(bytes);
        self.log.push(Logged { action: Action::SegmentAlloc, address, bytes, side, site });
        first
    }

    fn new_block(&mut self, address: u64, bytes: u64, home: Home) -> usize {
        let (before, after) = (None, None);
        let block =
            Block { address, bytes, requested: 0, site: 0, free: true, pending: false, after, before, home };
        let number = self.unused.pop().unwrap_or(self.blocks.len());
        if number == self.blocks.len() {
            self.blocks.push(block);
        } else {
            self.blocks[number] = block;
        }
        number
    }

    fn split(&mut self, block: usize, rounded: u64, small: bool) {
        let Block { address, bytes, after, home, .. } = self.blocks[block];
        let rest = bytes - rounded;
        if if small { rest < 512 } else { rest <= MIB } {
            return;
        }
        let left = self.new_block(address + rounded, rest, home);
        (self.blocks[left].before, self.blocks[left].after) = (Some(block), after);
        if let Some(after) = after {
            self.blocks[after].before = Some(left);
        }
        (self.blocks[block].after, self.blocks[block].bytes) = (Some(left), rounded);
        self.set_free(left);
    }

    fn complete_next(&mut self, site: u32) {
        if let Some((_, block)) = self.pending.pop_front() {
            self.complete(block, site);
        }
    }

    fn complete(&mut self, block: usize, site: u32) {
        let Block { address, bytes, requested, home, before, .. } = self.blocks[block];
        self.counters.active.take(1);
        self.counters.active_bytes.take(bytes);
        self.counters.requested_bytes.take(requested);
        let action = Action::FreeCompleted;
        self.log.push(Logged { action, address, bytes: requested, side: home.side, site });
        (self.blocks[block].free, self.blocks[block].pending) = (true, false);
        let mut whole = block;
        if let Some(before) = before.filter(|&before| self.blocks[before].free) {
            self.set_used(before);
            self.absorb(before, block);
            whole = before;
        }
        if let Some(after) = self.blocks[whole].after.filter(|&after| self.blocks[after].free) {
            self.set_used(after);
            self.absorb(whole, after);
        }
        self.set_free(whole);
    }

    /// Makes `right` a part of its neighbour `left`.
    fn absorb(&mut self, left: usize, right: usize) {
        let Block { bytes, after, .. } = self.blocks[right];
        self.blocks[left].bytes += bytes;
        self.blocks[left].after = after;
        if let Some(after) = after {
            self.blocks[after].before = Some(left);
        }
        self.unused.push(right);
    }

    fn set_free(&mut self, block: usize) {
        let Block { address, bytes, home, .. } = self.blocks[block];
        self.pools[pool(home.small, home.side)].insert((bytes, address), block);
    }

    fn set_used(&mut self, block: usize) {
        let Block { address, bytes, home, .. } = self.blocks[block];
        self.pools[pool(home.small, home.side)].remove(&(bytes, address));
    }
}

fn pool(small: bool, side: bool) -> usize {
    usize::from(small) + 2 * usize::from(side)
}
