//! Entering the state that a recording began with, when it began late.

use super::{Allocator, Block, Place, Use, group_of};
use crate::model::{BlockState, SegmentKind};
use crate::rebuild::{NONE, State, StateSegment};

impl Allocator<'_> {
    /// Enters `state` into the empty allocator; gives the block of every allocation row below `rows` that
    /// is handed out ([`NONE`] for the others). Later rows are new requests.
    pub(in crate::simulate) fn enter(&mut self, state: &State, places: &[Place], rows: usize) -> Vec<u32> {
        let mut of_row = vec![NONE; rows];
        let mut at = 0;
        while let Some(first) = state.segments.get(at) {
            let run = self.reservation_run(&state.segments[at..]);
            let group = place_of(first, places);
            let mut last = NONE;
            for segment in &state.segments[at..at + run] {
                last = self.enter_segment(segment, group, first.address, last, &mut of_row);
            }
            if first.is_expandable {
                let next = state.segments.get(at + run).map_or(u64::MAX, |segment| segment.address);
                self.enter_tail(last, first.address, next);
            } else {
                self.addresses.hold(first.address, first.bytes);
            }
            at += run;
        }
        of_row
    }

    /// How many of `segments` are pieces of the reservation that the first one belongs to: those of its
    /// kind that follow it without another segment between, as far as a reservation reaches.
    fn reservation_run(&self, segments: &[StateSegment]) -> usize {
        let first = &segments[0];
        if !first.is_expandable {
            return 1;
        }
        let is_same = |segment: &&StateSegment| {
            segment.is_expandable
                && (segment.pool, segment.stream, segment.kind) == (first.pool, first.stream, first.kind)
                && segment.address.saturating_add(segment.bytes) - first.address <= self.reservation_bytes
        };
        segments.iter().take_while(is_same).count().max(1)
    }

    /// Enters the blocks of `segment` behind block `last` of the same reservation; gives its last block.
    fn enter_segment(
        &mut self,
        segment: &StateSegment,
        group: u32,
        origin: u64,
        last: u32,
        of_row: &mut [u32],
    ) -> u32 {
        let template = Block {
            address: segment.address,
            bytes: 0,
            previous: NONE,
            next: NONE,
            group,
            usage: Use::Free,
            expandable: segment.is_expandable,
            listed_at: 0,
            origin,
        };
        let mut last = last;
        if last != NONE {
            let end = self.blocks.get(last).end();
            let gap = Block {
                address: end,
                bytes: segment.address.saturating_sub(end),
                usage: Use::Unmapped,
                ..template
            };
            last = self.append(last, gap);
        }
        for block in &segment.blocks {
            let usage = match block.state {
                BlockState::Inactive => Use::Free,
                BlockState::ActiveAllocated => Use::Allocated,
                BlockState::ActivePendingFree => Use::Pending,
            };
            last = self.append(last, Block { address: block.address, bytes: block.bytes, usage, ..template });
            if usage == Use::Free {
                continue;
            }
            self.figures.active = self.figures.active.saturating_add(block.bytes);
            if usage == Use::Pending {
                self.pending.insert(block.allocation, last);
                continue;
            }
            self.figures.allocated = self.figures.allocated.saturating_add(block.bytes);
            if let Some(of_row) = of_row.get_mut(block.allocation as usize) {
                *of_row = last;
            }
        }
        self.add_reserved(segment.bytes);
        self.track.raise(&self.figures, self.event);
        last
    }

    /// The unmapped end of a reservation that began at `origin` and may reach up to `next`.
    fn enter_tail(&mut self, last: u32, origin: u64, next: u64) {
        let block = *self.blocks.get(last);
        let granule = self.conf.granule_bytes(self.blocks.groups[block.group as usize].small);
        let end = origin.saturating_add(self.reservation_bytes).min(next).max(block.end());
        let bytes = (end - block.end()) / granule * granule;
        self.addresses.hold(origin, (block.end() - origin).saturating_add(bytes));
        if bytes > 0 {
            self.append(last, Block { address: block.end(), bytes, usage: Use::Unmapped, ..block });
        }
    }

    /// Enters `block` behind `last` (if any) and into its list.
    fn append(&mut self, last: u32, block: Block) -> u32 {
        if block.bytes == 0 && last != NONE {
            return last;
        }
        let index = self.blocks.add(Block { previous: last, next: NONE, ..block });
        if last != NONE {
            self.blocks.get_mut(last).next = index;
        }
        if matches!(block.usage, Use::Free | Use::Unmapped) {
            self.blocks.list(index);
        }
        index
    }
}

fn place_of(segment: &StateSegment, places: &[Place]) -> u32 {
    let place = Place { pool: segment.pool, stream: segment.stream };
    let number = places.iter().position(|&known| known == place);
    group_of(
        number.expect("requests enter the places of all initial segments") as u32,
        segment.kind == SegmentKind::Small,
    )
}
