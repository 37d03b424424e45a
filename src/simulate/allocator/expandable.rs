//! Expandable segments: reserved address space, mapped granule by granule as requests need it.

use super::{Allocator, Block, Use};
use crate::rebuild::NONE;

/// How many unmapped ranges are looked at for one request; no real program comes near.
const MOST_HOLES: usize = 4096;

/// Entry of a list of free blocks.
type Entry = (u64, u64, u32);

impl Allocator<'_> {
    /// Among free blocks from `best` on, the first whose successor could not grow to less: growable tails
    /// are spared.
    pub(super) fn best_expandable(&self, best: Entry, rest: impl Iterator<Item = Entry>) -> Entry {
        let mut best = best;
        for next in rest {
            if !self.blocks.get(best.2).expandable || self.could_grow_to(next.2) >= self.could_grow_to(best.2)
            {
                break;
            }
            best = next;
        }
        best
    }

    fn could_grow_to(&self, index: u32) -> u64 {
        let block = self.blocks.get(index);
        let room = match block.next {
            NONE => 0,
            next if self.blocks.get(next).usage == Use::Unmapped => self.blocks.get(next).bytes,
            _ => 0,
        };
        block.bytes.saturating_add(room)
    }

    /// Makes a free block of at least `bytes` by mapping; unlisted. `None` when the driver runs out, with
    /// what was mapped until then left as free blocks.
    pub(super) fn expand(&mut self, group: u32, bytes: u64) -> Option<u32> {
        let mut at = self.room_for(group, bytes);
        if self.blocks.get(at).usage == Use::Unmapped {
            let wanted = bytes.min(self.blocks.get(at).bytes);
            at = self.map(at, wanted)?;
        }
        while self.blocks.get(at).bytes < bytes {
            let next = self.blocks.get(at).next;
            let missing = bytes - self.blocks.get(at).bytes;
            let wanted = missing.min(self.blocks.get(next).bytes);
            at = self.map(next, wanted)?;
        }
        self.blocks.unlist(at);
        Some(at)
    }

    /// The lowest run of free and unmapped blocks that holds `bytes` and has an unmapped block as its first
    /// or second; in a new reservation if there is none.
    fn room_for(&mut self, group: u32, bytes: u64) -> u32 {
        for &(_, unmapped) in self.blocks.groups[group as usize].unmapped.iter().take(MOST_HOLES) {
            let previous = self.blocks.get(unmapped).previous;
            let start = if previous != NONE && self.is_available(previous) { previous } else { unmapped };
            if self.has_room(start, bytes) {
                return start;
            }
        }
        self.reserve(group, bytes)
    }

    fn is_available(&self, index: u32) -> bool {
        matches!(self.blocks.get(index).usage, Use::Free | Use::Unmapped)
    }

    fn has_room(&self, start: u32, bytes: u64) -> bool {
        let (mut at, mut found) = (start, 0u64);
        while at != NONE && found < bytes && self.is_available(at) {
            found = found.saturating_add(self.blocks.get(at).bytes);
            at = self.blocks.get(at).next;
        }
        found >= bytes
    }

    fn reserve(&mut self, group: u32, bytes: u64) -> u32 {
        let granule = self.granule_of(group);
        let needed = bytes.div_ceil(granule).saturating_mul(granule);
        let wanted = self.reservation_bytes.div_ceil(granule).saturating_mul(granule).max(needed);
        let (address, bytes) = self.addresses.reservation(group, wanted, needed);
        let block = self.blocks.add(Block {
            address,
            bytes: bytes / granule * granule,
            previous: NONE,
            next: NONE,
            group,
            usage: Use::Unmapped,
            expandable: true,
            listed_at: 0,
            origin: address,
        });
        self.blocks.list(block);
        block
    }

    fn granule_of(&self, group: u32) -> u64 {
        self.conf.granule_bytes(self.blocks.groups[group as usize].small)
    }

    /// Maps at least `bytes` from the front of unmapped block `index`; gives the free block that results
    /// after merging, listed.
    fn map(&mut self, index: u32, bytes: u64) -> Option<u32> {
        let block = *self.blocks.get(index);
        let granule = self.granule_of(block.group);
        let mapped = bytes.div_ceil(granule).saturating_mul(granule).min(block.bytes);
        if !self.driver_has(mapped) {
            return None;
        }
        self.blocks.unlist(index);
        if mapped < block.bytes {
            let rest = self.blocks.split(index, mapped, Use::Unmapped);
            self.blocks.list(rest);
        }
        self.blocks.get_mut(index).usage = Use::Free;
        self.add_reserved(mapped);
        let joined = self.blocks.merge(index);
        self.blocks.list(joined);
        Some(joined)
    }

    /// Unmaps the whole granules inside free block `index`; its edges stay free blocks. A reservation
    /// without anything mapped is given up.
    pub(super) fn unmap(&mut self, index: u32) {
        let block = *self.blocks.get(index);
        let granule = self.granule_of(block.group);
        let start = block.origin;
        let first = (block.address - start).div_ceil(granule).saturating_mul(granule).saturating_add(start);
        let last = (block.end() - start) / granule * granule + start;
        if first >= last {
            return;
        }
        self.blocks.unlist(index);
        let mut middle = index;
        if first > block.address {
            middle = self.blocks.split(index, first - block.address, Use::Free);
            self.blocks.list(index);
        }
        if last < block.end() {
            let after = self.blocks.split(middle, last - first, Use::Free);
            self.blocks.list(after);
        }
        self.blocks.get_mut(middle).usage = Use::Unmapped;
        self.subtract_reserved(last - first);
        let joined = self.blocks.merge(middle);
        if self.blocks.get(joined).is_whole() {
            self.addresses.release(self.blocks.get(joined).address);
            self.blocks.remove(joined);
        } else {
            self.blocks.list(joined);
        }
    }
}
