//! Segments that were obtained although enough memory was free, in pieces that were each too small.
//!
//! Owns the count of free bytes and of the largest free block where a segment is obtained: per stream, pool and
//! kind, for those are the walls between which blocks cannot be lent; and what would have been reserved had the
//! pieces been in one. One pass over the history; live blocks are looked through only where a segment is
//! obtained that the free bytes would have covered. Expandable segments are left out: they grow in place, and
//! only by what is missing.

use std::collections::BTreeMap;

use crate::model::{Action, DeviceTrace, PoolId, SegmentKind};
use crate::rebuild::{History, Moment, NONE, Rules};

use super::walk::{Tally, Walk};

/// A segment obtained although its pool had as many bytes free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unserved {
    /// Row of the segment.
    pub range: usize,
    /// The event that obtained it.
    pub event: u64,
    /// Its bytes.
    pub bytes: u64,
    /// What was free in its pool before.
    pub free_bytes: u64,
}

/// Growth that pieces explain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// The segments, in order.
    pub unserved: Vec<Unserved>,
    /// The most that would have been reserved at one time had every one of these requests been served from the
    /// pieces.
    pub joined_peak_bytes: u64,
}

/// Blocks looked through in all, so that no recording makes the pass slow.
const BUDGET: u64 = 50_000_000;

/// All such segments, as long as no free block was even half as large: a near miss is not fragmentation but a
/// request that outgrew the cache. `rules` are those in force.
#[must_use]
pub fn unserved(device: &DeviceTrace, history: &History, rules: &Rules) -> Growth {
    let mut watcher = Watcher::new(device, history, rules);
    Walk::new(history).run(&mut watcher);
    watcher.found
}

/// What shares free blocks.
#[derive(Default)]
struct Shelf {
    reserved_bytes: u64,
    active_bytes: u64,
    /// Reserved only because pieces did not serve. What is in use now cannot be among it.
    avoidable_bytes: u64,
    /// Rows of held ranges and of active allocations, in no order.
    ranges: Vec<u32>,
    rows: Vec<u32>,
}

impl Shelf {
    fn free_bytes(&self) -> u64 {
        self.reserved_bytes.saturating_sub(self.active_bytes)
    }

    /// Once more of the free bytes is used, or returned, than could do without the avoidable ones, these would have
    /// been obtained after all. Gives by how much.
    fn settle(&mut self) -> u64 {
        let kept = self.avoidable_bytes.min(self.free_bytes());
        std::mem::replace(&mut self.avoidable_bytes, kept) - kept
    }
}

struct Watcher<'a> {
    device: &'a DeviceTrace,
    history: &'a History,
    rules: &'a Rules,
    shelves: Vec<Shelf>,
    /// Shelf of every range; [`NONE`] for pieces of expandable segments.
    shelf_of_range: Vec<u32>,
    /// Where every range and every allocation is in its shelf's lists.
    place_of_range: Vec<u32>,
    place_of_row: Vec<u32>,
    budget: u64,
    /// Over all shelves and all else.
    reserved_bytes: u64,
    avoidable_bytes: u64,
    found: Growth,
}

impl<'a> Watcher<'a> {
    fn new(device: &'a DeviceTrace, history: &'a History, rules: &'a Rules) -> Self {
        let ranges = &history.ranges;
        let mut numbers: BTreeMap<(u64, PoolId, SegmentKind), u32> = BTreeMap::new();
        let mut shelf_of_range = vec![NONE; ranges.len()];
        for range in (0..ranges.len()).filter(|&range| !ranges.expandable[range]) {
            let next = numbers.len() as u32;
            let key = (ranges.streams[range], ranges.pools[range], ranges.kinds[range]);
            shelf_of_range[range] = *numbers.entry(key).or_insert(next);
        }
        Self {
            device,
            history,
            rules,
            shelves: (0..numbers.len()).map(|_| Shelf::default()).collect(),
            shelf_of_range,
            place_of_range: vec![NONE; ranges.len()],
            place_of_row: vec![NONE; history.allocations.len()],
            budget: BUDGET,
            reserved_bytes: 0,
            avoidable_bytes: 0,
            found: Growth::default(),
        }
    }

    fn shelf_of_row(&self, row: usize) -> Option<usize> {
        let range = self.history.allocations.ranges[row] as usize;
        self.shelf_of_range.get(range).copied().filter(|&shelf| shelf != NONE).map(|shelf| shelf as usize)
    }

    /// Whether free blocks of less than half of segment `range` are all there is.
    fn is_in_pieces(&mut self, range: usize, shelf: usize) -> bool {
        let half = self.history.ranges.bytes[range] / 2;
        // Of free blocks that fit the allocator takes one: a small request found none of its size.
        if self.request_bytes(range).is_some_and(|request| request <= half)
            && self.rules.max_split_bytes().is_none()
        {
            return true;
        }
        let shelf = &self.shelves[shelf];
        let looked_at = (shelf.ranges.len() + shelf.rows.len()) as u64;
        let Some(left) = self.budget.checked_sub(looked_at) else { return false };
        self.budget = left;
        largest_free_block(self.history, shelf) < half
    }

    /// The rounded request that segment `range` was obtained for.
    fn request_bytes(&self, range: usize) -> Option<u64> {
        let event = self.history.ranges.born[range].0 as usize;
        let events = &self.device.events;
        let is_request = events.actions.get(event).is_some_and(|&action| action == Action::Alloc);
        is_request.then(|| self.rules.round(events.sizes[event]))
    }
}

/// The largest gap between active blocks of the shelf's ranges.
fn largest_free_block(history: &History, shelf: &Shelf) -> u64 {
    let (ranges, allocations) = (&history.ranges, &history.allocations);
    let mut blocks: Vec<(u64, u64)> = (shelf.rows.iter())
        .map(|&row| (allocations.addresses[row as usize], allocations.block_bytes[row as usize]))
        .collect();
    let mut held: Vec<(u64, u64)> = (shelf.ranges.iter())
        .map(|&range| (ranges.addresses[range as usize], ranges.bytes[range as usize]))
        .collect();
    blocks.sort_unstable();
    held.sort_unstable();
    let mut blocks = blocks.into_iter().peekable();
    let mut largest = 0;
    for (start, bytes) in held {
        let end = start.saturating_add(bytes);
        let mut at = start;
        while let Some((address, bytes)) = blocks.next_if(|&(address, _)| address < end) {
            largest = largest.max(address.saturating_sub(at));
            at = at.max(address.saturating_add(bytes));
        }
        largest = largest.max(end.saturating_sub(at));
    }
    largest
}

/// Takes `item` out of `list`, whose places are in `places`.
fn take(list: &mut Vec<u32>, places: &mut [u32], item: usize) {
    let place = std::mem::replace(&mut places[item], NONE) as usize;
    if place < list.len() {
        list.swap_remove(place);
        if let Some(&moved) = list.get(place) {
            places[moved as usize] = place as u32;
        }
    }
}

impl<'a> Tally<'a> for Watcher<'a> {
    fn alloc(&mut self, row: usize) {
        let Some(shelf) = self.shelf_of_row(row) else { return };
        let shelf = &mut self.shelves[shelf];
        shelf.active_bytes = shelf.active_bytes.saturating_add(self.history.allocations.block_bytes[row]);
        self.avoidable_bytes = self.avoidable_bytes.saturating_sub(shelf.settle());
        self.place_of_row[row] = shelf.rows.len() as u32;
        shelf.rows.push(row as u32);
    }

    fn complete(&mut self, row: usize) {
        let Some(shelf) = self.shelf_of_row(row) else { return };
        let shelf = &mut self.shelves[shelf];
        shelf.active_bytes = shelf.active_bytes.saturating_sub(self.history.allocations.block_bytes[row]);
        take(&mut shelf.rows, &mut self.place_of_row, row);
    }

    fn hold(&mut self, range: usize) {
        self.reserved_bytes = self.reserved_bytes.saturating_add(self.history.ranges.bytes[range]);
        let Some(number) = self.shelf_of_range.get(range).copied().filter(|&shelf| shelf != NONE) else {
            return;
        };
        let (bytes, born) = (self.history.ranges.bytes[range], self.history.ranges.born[range]);
        let shelf = &self.shelves[number as usize];
        let (free_bytes, avoidable_bytes) = (shelf.free_bytes(), shelf.avoidable_bytes);
        let is_enough = free_bytes.saturating_sub(avoidable_bytes) >= bytes;
        let is_unserved = born > Moment(0) && is_enough && self.is_in_pieces(range, number as usize);
        let shelf = &mut self.shelves[number as usize];
        if is_unserved {
            self.found.unserved.push(Unserved { range, event: born.0 - 1, bytes, free_bytes });
            shelf.avoidable_bytes = shelf.avoidable_bytes.saturating_add(bytes);
            self.avoidable_bytes = self.avoidable_bytes.saturating_add(bytes);
        }
        shelf.reserved_bytes = shelf.reserved_bytes.saturating_add(bytes);
        self.place_of_range[range] = shelf.ranges.len() as u32;
        shelf.ranges.push(range as u32);
    }

    fn release(&mut self, range: usize) {
        self.reserved_bytes = self.reserved_bytes.saturating_sub(self.history.ranges.bytes[range]);
        let Some(number) = self.shelf_of_range.get(range).copied().filter(|&shelf| shelf != NONE) else {
            return;
        };
        let shelf = &mut self.shelves[number as usize];
        shelf.reserved_bytes = shelf.reserved_bytes.saturating_sub(self.history.ranges.bytes[range]);
        self.avoidable_bytes = self.avoidable_bytes.saturating_sub(shelf.settle());
        take(&mut shelf.ranges, &mut self.place_of_range, range);
    }

    fn arrive(&mut self, _moment: Moment) {
        let joined = self.reserved_bytes.saturating_sub(self.avoidable_bytes);
        self.found.joined_peak_bytes = self.found.joined_peak_bytes.max(joined);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{SettingValue, Trace, TraceBuilder};
    use crate::rebuild::rebuild;

    const MIB: u64 = 1 << 20;
    const A: u64 = 0x7000_0000_0000;

    fn found(trace: &Trace) -> Vec<(u64, u64, u64)> {
        let history = rebuild(trace, &trace.devices[0]);
        let found = unserved(&trace.devices[0], &history, &Rules::new(&trace.settings));
        assert!(found.joined_peak_bytes >= history.peaks.active.bytes);
        assert!(found.joined_peak_bytes <= history.peaks.reserved.bytes);
        found.unserved.iter().map(|of| (of.event, of.bytes / MIB, of.free_bytes / MIB)).collect()
    }

    /// Segments of 64 MiB, half kept and half free.
    fn comb(segments: u64) -> TraceBuilder {
        let mut builder = TraceBuilder::new();
        for index in 0..segments {
            let at = A + index * 128 * MIB;
            builder = builder.segment_alloc(at, 64 * MIB).alloc(at, 32 * MIB).alloc(at + 32 * MIB, 32 * MIB);
        }
        (0..segments).fold(builder, |builder, index| builder.free(A + (index * 128 + 32) * MIB, 32 * MIB))
    }

    const BIG: u64 = A + (1 << 40);

    #[test]
    fn pieces_that_would_do_in_sum_are_not_served() {
        let asked = |segments, mib| {
            found(&comb(segments).segment_alloc(BIG, mib * MIB).alloc(BIG, mib * MIB).build())
        };
        assert_eq!(asked(4, 128), [(20, 128, 128)]);
        assert_eq!(asked(4, 130), [], "not enough in sum");
        assert_eq!(asked(4, 60), [], "half of it is in one piece");
    }

    fn joined(trace: &Trace) -> u64 {
        let history = rebuild(trace, &trace.devices[0]);
        unserved(&trace.devices[0], &history, &Rules::new(&trace.settings)).joined_peak_bytes / MIB
    }

    #[test]
    fn what_is_used_later_would_have_been_obtained_after_all() {
        let grown = comb(4).segment_alloc(BIG, 128 * MIB).alloc(BIG, 128 * MIB);
        assert_eq!(joined(&grown.clone().build()), 256);
        let mut used = grown.clone();
        for index in 0..2 {
            used = used.alloc(A + (index * 128 + 32) * MIB, 32 * MIB);
        }
        assert_eq!(joined(&used.build()), 256 + 64, "64 of the 128 MiB that were free in pieces are used");
        // The second time the pieces are needed twice.
        let twice = grown.segment_alloc(2 * BIG, 128 * MIB).alloc(2 * BIG, 128 * MIB);
        assert_eq!((found(&twice.clone().build()).len(), joined(&twice.build())), (1, 384));
    }

    #[test]
    fn walls_part_what_is_free() {
        let asked = comb(4).stream(7).segment_alloc(BIG, 100 * MIB).alloc(BIG, 100 * MIB).build();
        assert_eq!(found(&asked), []);
    }

    #[test]
    fn what_the_cache_would_nearly_hold_is_not_in_pieces() {
        let mut builder = TraceBuilder::new();
        for (index, mib) in [400, 500, 600, 700].into_iter().enumerate() {
            let at = A + index as u64 * (1 << 32);
            builder = builder.segment_alloc(at, mib * MIB).alloc(at, mib * MIB).free(at, mib * MIB);
        }
        assert_eq!(found(&builder.build()), []);
    }

    #[test]
    fn a_small_request_in_a_segment_of_its_own_size_class_needs_no_look() {
        // 5 MiB are asked for: a segment of 20 MiB is obtained, since no hole of 4 MiB serves.
        let mut builder = TraceBuilder::new();
        for index in 0..6 {
            let at = A + index * 64 * MIB;
            builder = builder.segment_alloc(at, 20 * MIB).alloc(at, 4 * MIB).alloc(at + 4 * MIB, 16 * MIB);
        }
        builder = (0..6).fold(builder, |builder, index| builder.free(A + index * 64 * MIB, 4 * MIB));
        let asked = builder.segment_alloc(BIG, 20 * MIB).alloc(BIG, 5 * MIB);
        assert_eq!(found(&asked.clone().build()), [(30, 20, 24)]);
        let limited = asked.setting("max_split_size", SettingValue::Int(64 << 20)).build();
        assert_eq!(found(&limited), [(30, 20, 24)], "looked at, with the same result");
    }
}
