//! Addresses as a region and an offset, both small enough for every reader of numbers.
//!
//! Owns the regions (stretches of addresses that were ever held, touching ones joined), the distinct places of
//! blocks, and the ranges held from the driver.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use crate::model::{PoolId, SegmentKind};
use crate::rebuild::{History, Moment};

use super::Numbers;

/// Distinct addresses of blocks in order of first use.
#[derive(Clone, Debug, Default)]
pub struct Places {
    addresses: Vec<u64>,
    known: HashMap<u64, u32>,
    /// First addresses of the regions, ascending.
    pub regions: Vec<u64>,
}

impl Places {
    /// The number of `address`, new or known.
    pub(super) fn enter(&mut self, address: u64) -> u32 {
        let next = self.addresses.len() as u32;
        let number = *self.known.entry(address).or_insert(next);
        if number == next {
            self.addresses.push(address);
        }
        number
    }

    /// Region and offset of every place.
    #[must_use]
    pub fn columns(&self) -> (Vec<u32>, Vec<u64>) {
        self.addresses.iter().map(|&address| self.locate(address)).unzip()
    }

    /// Region of `address`, and the bytes between its first address and this one.
    fn locate(&self, address: u64) -> (u32, u64) {
        let region = self.regions.partition_point(|&first| first <= address).saturating_sub(1);
        let first = self.regions.get(region).copied().unwrap_or(0);
        (region as u32, address.saturating_sub(first))
    }

    /// Joins what touches of `ranges` and the places entered so far into regions.
    pub(super) fn settle(&mut self, history: &History, ranges: &[usize]) {
        let held = &history.ranges;
        let extents = ranges.iter().map(|&range| (held.addresses[range], held.bytes[range]));
        let mut extents: Vec<(u64, u64)> =
            extents.chain(self.addresses.iter().map(|&address| (address, 0))).collect();
        extents.sort_unstable();
        let mut end = None;
        for (address, bytes) in extents {
            if end.is_none_or(|end| address > end) {
                self.regions.push(address);
            }
            end = end.max(Some(address.saturating_add(bytes)));
        }
    }
}

/// Ranges held from the driver.
#[derive(Clone, Debug, Default)]
pub struct RangeColumns {
    /// Number of the region.
    pub region: Vec<u32>,
    /// Offset of the first byte in the region.
    pub offset: Vec<u64>,
    /// Length in bytes.
    pub bytes: Vec<u64>,
    /// First moment at which it is held.
    pub born: Vec<u64>,
    /// First moment at which it is no longer held; 0 when held at the end.
    pub died: Vec<u64>,
    /// Number of its stream.
    pub stream: Vec<u32>,
    /// Whether it is a piece of an expandable segment.
    pub expandable: Vec<bool>,
    /// Whether it serves small blocks.
    pub small: Vec<bool>,
    /// Number of its pool.
    pub pool: Vec<u32>,
    /// The pools, ascending.
    pub pools: Vec<PoolId>,
    /// Ranges that no kept moment sees.
    pub left_out: u64,
}

impl RangeColumns {
    pub(super) fn of(history: &History, ranges: &[usize], places: &Places, numbers: &Numbers<'_>) -> Self {
        let held = &history.ranges;
        let mut pools: BTreeMap<PoolId, u32> = ranges.iter().map(|&range| (held.pools[range], 0)).collect();
        for (number, slot) in pools.values_mut().enumerate() {
            *slot = number as u32;
        }
        let mut columns = Self { pools: pools.keys().copied().collect(), ..Self::default() };
        for &range in ranges {
            let (region, offset) = places.locate(held.addresses[range]);
            columns.region.push(region);
            columns.offset.push(offset);
            columns.bytes.push(held.bytes[range]);
            columns.born.push(held.born[range].0);
            let died = held.died[range];
            columns.died.push(if died == Moment(u64::MAX) { 0 } else { died.0 });
            columns.stream.push(numbers.stream_of_range(range));
            columns.expandable.push(held.expandable[range]);
            columns.small.push(held.kinds[range] == SegmentKind::Small);
            columns.pool.push(pools[&held.pools[range]]);
        }
        columns.left_out = (held.len() - ranges.len()) as u64;
        columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_ranges_are_one_region_and_a_stray_block_has_its_own() {
        let mut history = History::default();
        for (address, bytes) in [(0x3000, 0x1000), (0x1000, 0x1000), (0x2000, 0x1000), (0x9000, 0x1000)] {
            history.ranges.addresses.push(address);
            history.ranges.bytes.push(bytes);
        }
        let mut places = Places::default();
        for address in [0x2200, 0x6000, u64::MAX, 0x2200] {
            places.enter(address);
        }
        places.settle(&history, &[0, 1, 2, 3]);
        assert_eq!(places.regions, [0x1000, 0x6000, 0x9000, u64::MAX]);
        assert_eq!(places.columns(), (vec![0, 1, 3], vec![0x1200, 0, 0]));
    }
}
