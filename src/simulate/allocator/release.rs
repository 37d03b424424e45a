//! Ways back to the driver: garbage collection, the release of oversize blocks, the release of everything.

use super::{Allocator, Use};

/// Free blocks that releases may look at in all.
const WALK_BUDGET: u64 = 1_000_000_000;

impl Allocator<'_> {
    /// Returns whole cached segments of the default large pool, oldest first, once reserved bytes are over
    /// the threshold.
    pub(super) fn collect_garbage(&mut self) {
        let Some(cap) = self.limit.cap else { return };
        let threshold = (self.conf.collection_threshold * cap as f64) as u64;
        if self.figures.reserved <= threshold || !self.may_walk() {
            return;
        }
        let target = self.figures.reserved - threshold;
        let mut candidates = self.whole_cached(|group| !group.small && !group.private);
        let mut ages: Vec<u64> = candidates.iter().map(|&index| self.age_of(index)).collect();
        let mut total: u64 = ages.iter().sum();
        let mut reclaimed = 0;
        while reclaimed < target && !candidates.is_empty() {
            let bound = total as f64 / candidates.len() as f64;
            let (mut kept, mut kept_ages) = (Vec::new(), Vec::new());
            let before = candidates.len();
            for (&index, &age) in candidates.iter().zip(&ages) {
                if (age as f64) < bound {
                    kept.push(index);
                    kept_ages.push(age);
                    continue;
                }
                total -= age;
                reclaimed = self.blocks.get(index).bytes.saturating_add(reclaimed);
                self.return_segment(index);
            }
            if kept.len() == before {
                return;
            }
            (candidates, ages) = (kept, kept_ages);
        }
    }

    fn age_of(&self, index: u32) -> u64 {
        let block = self.blocks.get(index);
        self.blocks.calls[self.blocks.groups[block.group as usize].pool as usize] - block.listed_at
    }

    /// Under `max_split_size`: returns one oversize block that is large enough, or several, the largest
    /// first. Whether it is worth asking the driver again.
    pub(super) fn release_available(&mut self, group: u32, rounded: u64) -> bool {
        let max_split = self.conf.max_split_bytes;
        if max_split == u64::MAX {
            return false;
        }
        let wanted = rounded.max(max_split);
        let free = &self.blocks.groups[group as usize].free;
        let fitting = free.range((wanted, 0, 0)..).next().copied();
        if let Some((_, _, index)) = fitting
            && !self.blocks.get(index).expandable
        {
            self.return_segment(index);
            return true;
        }
        let below = fitting.unwrap_or((wanted, 0, 0));
        let oversize: Vec<_> = free.range((max_split, 0, 0)..below).rev().copied().collect();
        let mut released = 0;
        for (bytes, _, index) in oversize {
            if released >= wanted {
                break;
            }
            // By construction an oversize block is whole; a block that is not cannot be returned.
            if !self.blocks.get(index).expandable && self.blocks.get(index).is_whole() {
                self.return_segment(index);
                released = bytes.saturating_add(released);
            }
        }
        released >= wanted
    }

    /// What `empty_cache()` does: waits for all streams, then returns every whole cached segment and unmaps
    /// every free granule. Private pools keep theirs: a recording does not say when they may let go.
    pub(in crate::simulate) fn release_cached(&mut self) {
        if !self.may_walk() {
            return;
        }
        for (_, index) in std::mem::take(&mut self.pending) {
            self.complete(index);
        }
        for small in [false, true] {
            for index in self.whole_cached(|group| group.small == small && !group.private) {
                self.return_segment(index);
            }
            let of_pool = self.blocks.groups.iter().filter(|group| group.small == small && !group.private);
            let expandable: Vec<_> = of_pool
                .flat_map(|group| group.free.iter().map(|entry| entry.2))
                .filter(|&index| self.blocks.get(index).expandable)
                .collect();
            for index in expandable {
                self.unmap(index);
            }
        }
    }

    /// Whether all free blocks may be looked at once more: a hostile recording could ask for that at every
    /// event. A real one never meets the bound.
    fn may_walk(&mut self) -> bool {
        let free: usize = self.blocks.groups.iter().map(|group| group.free.len()).sum();
        self.walked = self.walked.saturating_add(free as u64);
        self.walked < WALK_BUDGET
    }

    /// Whole cached segments of the chosen groups, in the order of the allocator's lists.
    fn whole_cached(&self, chosen: impl Fn(&super::Group) -> bool) -> Vec<u32> {
        let mut groups: Vec<_> = self.blocks.groups.iter().filter(|group| chosen(group)).collect();
        groups.sort_by_key(|group| group.stream);
        let listed = groups.iter().flat_map(|group| group.free.iter().map(|entry| entry.2));
        listed
            .filter(|&index| !self.blocks.get(index).expandable && self.blocks.get(index).is_whole())
            .collect()
    }

    /// Whether the settings ask for garbage collection, acting or not.
    pub(in crate::simulate) fn conf_collects(&self) -> bool {
        self.conf.collects()
    }

    /// Returns the whole cached segment at `address`, if there is one.
    pub(in crate::simulate) fn return_at(&mut self, address: u64) {
        if !self.may_walk() {
            return;
        }
        let whole = self.whole_cached(|_| true);
        if let Some(&index) = whole.iter().find(|&&index| self.blocks.get(index).address == address) {
            self.return_segment(index);
        }
    }

    fn return_segment(&mut self, index: u32) {
        let block = *self.blocks.get(index);
        debug_assert_eq!(block.usage, Use::Free, "only free blocks go back");
        self.blocks.unlist(index);
        self.addresses.release(block.address);
        self.blocks.remove(index);
        self.subtract_reserved(block.bytes);
    }
}
