//! How many blocks pin each segment, kept up to date event by event.
//!
//! Owns the answer "how many bytes are free now, where, and how many of them in wholly free segments", which
//! must equal what [`crate::rebuild::State`] says at the same moment. A `cudaMalloc` segment is one range that never changes.
//! Ranges of an expandable segment come and go in pieces; pieces that touch are one segment ([`Runs`]).

use std::collections::BTreeMap;

use crate::rebuild::{Allocations, History, NONE, SegmentRanges};

use super::super::causes::Place;

/// Bytes by [`Place`].
pub(super) type ByPlace = [u64; 3];

/// Active blocks per segment. Sums wrap: ranges of a damaged recording may overlap, and a sum that comes back
/// to its start must come back to the same value.
pub(super) struct Occupancy<'a> {
    allocations: &'a Allocations,
    ranges: &'a SegmentRanges,
    /// Per range: active blocks in it. Unused for ranges of expandable segments.
    blocks: Vec<u32>,
    held: Vec<bool>,
    /// Per range: where it is.
    places: Vec<Place>,
    reserved_bytes: ByPlace,
    active_bytes: ByPlace,
    /// Bytes of held, wholly free ranges outside expandable segments.
    wholly_free_bytes: ByPlace,
    runs: Runs<'a>,
}

impl<'a> Occupancy<'a> {
    /// Before anything is held.
    pub(super) fn new(history: &'a History, main_stream: u64) -> Self {
        let (allocations, ranges) = (&history.allocations, &history.ranges);
        let any_expandable = ranges.expandable.iter().any(|&expandable| expandable);
        let rows = if any_expandable { allocations.len() } else { 0 };
        let place = |range: usize| Place::of(ranges.pools[range], ranges.streams[range], main_stream);
        let places: Vec<Place> = (0..ranges.len()).map(place).collect();
        Self {
            allocations,
            ranges,
            blocks: vec![0; ranges.len()],
            held: vec![false; ranges.len()],
            places,
            reserved_bytes: [0; 3],
            active_bytes: [0; 3],
            wholly_free_bytes: [0; 3],
            runs: Runs {
                allocations,
                ranges,
                by_start: BTreeMap::new(),
                free_bytes: [0; 3],
                stale: false,
                live: Vec::new(),
                rows: vec![NONE; rows],
                main_stream,
            },
        }
    }

    /// Free bytes in segments of `place`.
    pub(super) fn free_bytes(&self, place: Place) -> u64 {
        let place = place as usize;
        self.reserved_bytes[place].saturating_sub(self.active_bytes[place])
    }

    /// Bytes of wholly free segments of `place`.
    pub(super) fn wholly_free_bytes(&mut self, place: Place) -> u64 {
        let in_runs = self.runs.wholly_free_bytes()[place as usize];
        self.wholly_free_bytes[place as usize].saturating_add(in_runs)
    }

    #[inline]
    pub(super) fn alloc(&mut self, row: usize) {
        let range = self.allocations.ranges[row] as usize;
        if range >= self.blocks.len() {
            return;
        }
        give(&mut self.active_bytes, self.places[range], self.allocations.block_bytes[row]);
        if self.ranges.expandable[range] {
            self.runs.alloc(row);
            return;
        }
        if self.blocks[range] == 0 && self.held[range] {
            take(&mut self.wholly_free_bytes, self.places[range], self.ranges.bytes[range]);
        }
        self.blocks[range] += 1;
    }

    #[inline]
    pub(super) fn complete(&mut self, row: usize) {
        let range = self.allocations.ranges[row] as usize;
        if range >= self.blocks.len() {
            return;
        }
        take(&mut self.active_bytes, self.places[range], self.allocations.block_bytes[row]);
        if self.ranges.expandable[range] {
            self.runs.complete(row);
            return;
        }
        self.blocks[range] = self.blocks[range].saturating_sub(1);
        if self.blocks[range] == 0 && self.held[range] {
            give(&mut self.wholly_free_bytes, self.places[range], self.ranges.bytes[range]);
        }
    }

    pub(super) fn hold(&mut self, range: usize) {
        give(&mut self.reserved_bytes, self.places[range], self.ranges.bytes[range]);
        if self.ranges.expandable[range] {
            return self.runs.map(range);
        }
        self.held[range] = true;
        if self.blocks[range] == 0 {
            give(&mut self.wholly_free_bytes, self.places[range], self.ranges.bytes[range]);
        }
    }

    pub(super) fn release(&mut self, range: usize) {
        take(&mut self.reserved_bytes, self.places[range], self.ranges.bytes[range]);
        if self.ranges.expandable[range] {
            return self.runs.unmap(range);
        }
        if self.held[range] && self.blocks[range] == 0 {
            take(&mut self.wholly_free_bytes, self.places[range], self.ranges.bytes[range]);
        }
        self.held[range] = false;
    }
}

fn give(bytes: &mut ByPlace, place: Place, more: u64) {
    bytes[place as usize] = bytes[place as usize].wrapping_add(more);
}

fn take(bytes: &mut ByPlace, place: Place, less: u64) {
    bytes[place as usize] = bytes[place as usize].wrapping_sub(less);
}

/// A stretch of address space that is mapped without a gap.
#[derive(Clone, Copy)]
struct Run {
    end: u64,
    /// A range of it, for its stream and pool.
    range: usize,
    blocks: u32,
}

/// Mapped stretches of expandable segments. Counts are kept as long as stretches only grow and join. When a
/// stretch with blocks in it is cut, its counts go stale and are taken anew only when somebody asks.
struct Runs<'a> {
    allocations: &'a Allocations,
    ranges: &'a SegmentRanges,
    by_start: BTreeMap<u64, Run>,
    /// Bytes of wholly free stretches.
    free_bytes: ByPlace,
    stale: bool,
    /// Rows of the active allocations, in no order, and where each row is in there.
    live: Vec<u32>,
    rows: Vec<u32>,
    main_stream: u64,
}

impl Runs<'_> {
    fn alloc(&mut self, row: usize) {
        self.rows[row] = self.live.len() as u32;
        self.live.push(row as u32);
        if !self.stale {
            self.count_in(row);
        }
    }

    fn complete(&mut self, row: usize) {
        let place = std::mem::replace(&mut self.rows[row], NONE) as usize;
        if place >= self.live.len() {
            return;
        }
        self.live.swap_remove(place);
        if let Some(&moved) = self.live.get(place) {
            self.rows[moved as usize] = place as u32;
        }
        if self.stale {
            return;
        }
        if let Some((&start, run)) = self.by_start.range_mut(..=self.allocations.addresses[row]).next_back()
            && self.allocations.addresses[row] < run.end
        {
            run.blocks = run.blocks.saturating_sub(1);
            if run.blocks == 0 {
                give(&mut self.free_bytes, place_of(self.ranges, run, self.main_stream), run.end - start);
            }
        }
    }

    fn count_in(&mut self, row: usize) {
        let address = self.allocations.addresses[row];
        if let Some((&start, run)) = self.by_start.range_mut(..=address).next_back()
            && address < run.end
        {
            if run.blocks == 0 {
                take(&mut self.free_bytes, place_of(self.ranges, run, self.main_stream), run.end - start);
            }
            run.blocks += 1;
        }
    }

    /// Enters a stretch; an empty one counts as free.
    fn insert(&mut self, start: u64, run: Run) {
        if run.end > start {
            self.by_start.insert(start, run);
            if run.blocks == 0 {
                give(&mut self.free_bytes, place_of(self.ranges, &run, self.main_stream), run.end - start);
            }
        }
    }

    fn remove(&mut self, start: u64) -> Option<Run> {
        let run = self.by_start.remove(&start)?;
        if run.blocks == 0 {
            take(&mut self.free_bytes, place_of(self.ranges, &run, self.main_stream), run.end - start);
        }
        Some(run)
    }

    fn map(&mut self, range: usize) {
        let start = self.ranges.addresses[range];
        let end = start.saturating_add(self.ranges.bytes[range]);
        self.cut(start, end);
        let mut joined = (start, Run { end, range, blocks: 0 });
        let before = self.by_start.range(..start).next_back().map(|(&at, &run)| (at, run));
        if let Some((at, run)) = before
            && run.end == start
            && self.belong_together(run.range, range)
        {
            self.remove(at);
            joined = (at, Run { end, ..run });
        }
        if let Some(&run) = self.by_start.get(&end)
            && self.belong_together(run.range, range)
        {
            self.remove(end);
            joined.1 = Run { end: run.end, blocks: joined.1.blocks + run.blocks, ..joined.1 };
        }
        self.insert(joined.0, joined.1);
    }

    fn unmap(&mut self, range: usize) {
        let start = self.ranges.addresses[range];
        self.cut(start, start.saturating_add(self.ranges.bytes[range]));
    }

    /// Takes `start..end` out of every stretch.
    fn cut(&mut self, start: u64, end: u64) {
        while let Some((&at, &run)) = self.by_start.range(..end).next_back()
            && run.end > start
            && start < end
        {
            self.remove(at);
            self.stale |= run.blocks > 0;
            self.insert(at, Run { end: run.end.min(start), ..run });
            self.insert(end.max(at), Run { end: run.end, ..run });
        }
    }

    fn belong_together(&self, left: usize, right: usize) -> bool {
        let ranges = self.ranges;
        let of = |range: usize| (ranges.streams[range], ranges.pools[range]);
        of(left) == of(right)
    }

    fn wholly_free_bytes(&mut self) -> ByPlace {
        if self.stale {
            self.stale = false;
            self.free_bytes = [0; 3];
            for (start, run) in &mut self.by_start {
                run.blocks = 0;
                let place = place_of(self.ranges, run, self.main_stream);
                give(&mut self.free_bytes, place, run.end - start);
            }
            for place in 0..self.live.len() {
                self.count_in(self.live[place] as usize);
            }
        }
        self.free_bytes
    }
}

/// A stretch is on one stream and in one pool: those of any range of it.
fn place_of(ranges: &SegmentRanges, run: &Run, main_stream: u64) -> Place {
    Place::of(ranges.pools[run.range], ranges.streams[run.range], main_stream)
}
