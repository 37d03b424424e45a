//! How many blocks pin each segment, kept up to date event by event.
//!
//! Owns the answer "how many bytes lie in wholly free segments now", which must equal what
//! [`crate::rebuild::State`] says at the same moment. A `cudaMalloc` segment is one range that never changes.
//! Ranges of an expandable segment come and go in pieces; pieces that touch are one segment ([`Runs`]).

use std::collections::BTreeMap;

use crate::rebuild::{Allocations, History, NONE, SegmentRanges};

/// Active blocks per segment. Sums wrap: ranges of a damaged recording may overlap, and a sum that comes back
/// to its start must come back to the same value.
pub(super) struct Occupancy<'a> {
    allocations: &'a Allocations,
    ranges: &'a SegmentRanges,
    /// Per range: active blocks in it. Unused for ranges of expandable segments.
    blocks: Vec<u32>,
    held: Vec<bool>,
    /// Bytes of held, wholly free ranges outside expandable segments.
    free_bytes: u64,
    runs: Runs<'a>,
}

impl<'a> Occupancy<'a> {
    /// Before anything is held.
    pub(super) fn new(history: &'a History) -> Self {
        let (allocations, ranges) = (&history.allocations, &history.ranges);
        let any_expandable = ranges.expandable.iter().any(|&expandable| expandable);
        let rows = if any_expandable { allocations.len() } else { 0 };
        Self {
            allocations,
            ranges,
            blocks: vec![0; ranges.len()],
            held: vec![false; ranges.len()],
            free_bytes: 0,
            runs: Runs {
                allocations,
                ranges,
                by_start: BTreeMap::new(),
                free_bytes: 0,
                stale: false,
                live: Vec::new(),
                places: vec![NONE; rows],
            },
        }
    }

    /// Bytes of wholly free segments.
    pub(super) fn releasable_bytes(&mut self) -> u64 {
        self.free_bytes.saturating_add(self.runs.releasable_bytes())
    }

    #[inline]
    pub(super) fn alloc(&mut self, row: usize) {
        let range = self.allocations.ranges[row] as usize;
        if range >= self.blocks.len() {
            return;
        }
        if self.ranges.expandable[range] {
            self.runs.alloc(row);
            return;
        }
        if self.blocks[range] == 0 && self.held[range] {
            self.free_bytes = self.free_bytes.wrapping_sub(self.ranges.bytes[range]);
        }
        self.blocks[range] += 1;
    }

    #[inline]
    pub(super) fn complete(&mut self, row: usize) {
        let range = self.allocations.ranges[row] as usize;
        if range >= self.blocks.len() {
            return;
        }
        if self.ranges.expandable[range] {
            self.runs.complete(row);
            return;
        }
        self.blocks[range] = self.blocks[range].saturating_sub(1);
        if self.blocks[range] == 0 && self.held[range] {
            self.free_bytes = self.free_bytes.wrapping_add(self.ranges.bytes[range]);
        }
    }

    pub(super) fn hold(&mut self, range: usize) {
        if self.ranges.expandable[range] {
            return self.runs.map(range);
        }
        self.held[range] = true;
        if self.blocks[range] == 0 {
            self.free_bytes = self.free_bytes.wrapping_add(self.ranges.bytes[range]);
        }
    }

    pub(super) fn release(&mut self, range: usize) {
        if self.ranges.expandable[range] {
            return self.runs.unmap(range);
        }
        if self.held[range] && self.blocks[range] == 0 {
            self.free_bytes = self.free_bytes.wrapping_sub(self.ranges.bytes[range]);
        }
        self.held[range] = false;
    }
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
    free_bytes: u64,
    stale: bool,
    /// Rows of the active allocations, in no order, and the place of each row in there.
    live: Vec<u32>,
    places: Vec<u32>,
}

impl Runs<'_> {
    fn alloc(&mut self, row: usize) {
        self.places[row] = self.live.len() as u32;
        self.live.push(row as u32);
        if !self.stale {
            self.count_in(row);
        }
    }

    fn complete(&mut self, row: usize) {
        let place = std::mem::replace(&mut self.places[row], NONE) as usize;
        if place >= self.live.len() {
            return;
        }
        self.live.swap_remove(place);
        if let Some(&moved) = self.live.get(place) {
            self.places[moved as usize] = place as u32;
        }
        if self.stale {
            return;
        }
        if let Some((&start, run)) = self.by_start.range_mut(..=self.allocations.addresses[row]).next_back()
            && self.allocations.addresses[row] < run.end
        {
            run.blocks = run.blocks.saturating_sub(1);
            if run.blocks == 0 {
                self.free_bytes = self.free_bytes.wrapping_add(run.end - start);
            }
        }
    }

    fn count_in(&mut self, row: usize) {
        let address = self.allocations.addresses[row];
        if let Some((&start, run)) = self.by_start.range_mut(..=address).next_back()
            && address < run.end
        {
            if run.blocks == 0 {
                self.free_bytes = self.free_bytes.wrapping_sub(run.end - start);
            }
            run.blocks += 1;
        }
    }

    /// Enters a stretch; an empty one counts as free.
    fn insert(&mut self, start: u64, run: Run) {
        if run.end > start {
            self.by_start.insert(start, run);
            if run.blocks == 0 {
                self.free_bytes = self.free_bytes.wrapping_add(run.end - start);
            }
        }
    }

    fn remove(&mut self, start: u64) -> Option<Run> {
        let run = self.by_start.remove(&start)?;
        if run.blocks == 0 {
            self.free_bytes = self.free_bytes.wrapping_sub(run.end - start);
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

    fn releasable_bytes(&mut self) -> u64 {
        if self.stale {
            self.stale = false;
            self.free_bytes = 0;
            for (start, run) in &mut self.by_start {
                run.blocks = 0;
                self.free_bytes = self.free_bytes.wrapping_add(run.end - start);
            }
            for place in 0..self.live.len() {
                self.count_in(self.live[place] as usize);
            }
        }
        self.free_bytes
    }
}
