//! Segment events of a pass: obtaining, returning, mapping and unmapping address ranges.

use crate::model::{Action, BlockState, PoolId, SegmentKind, StackId};

use super::blocks::Node;
use super::history::NONE;
use super::moment::Moment;
use super::observer::{Class, Observer};
use super::pass::Pass;
use super::rules::{SMALL_BYTES, SMALL_SEGMENT_BYTES};

impl<O: Observer> Pass<'_, O> {
    /// Enters a held range as a free block. `None` (and nothing entered) when it overlaps a held one.
    #[expect(clippy::too_many_arguments, reason = "the columns of one row, each used once")]
    pub(super) fn add_range(
        &mut self,
        address: u64,
        bytes: u64,
        stream: u64,
        class: Class,
        pool: PoolId,
        stack: StackId,
        born: Moment,
    ) -> Option<u32> {
        let end = address.checked_add(bytes)?;
        if bytes == 0 || self.overlaps(address, end) {
            return None;
        }
        let row = self.history.ranges.len() as u32;
        let node = Node {
            address,
            bytes,
            row: NONE,
            range: row,
            previous: NONE,
            next: NONE,
            state: BlockState::Inactive,
            small: class.small,
            expandable: class.expandable,
        };
        let index = self.blocks.add_segment(node, &mut self.budget)?;
        let kind = if class.small { SegmentKind::Small } else { SegmentKind::Large };
        self.push_range(address, bytes, stream, kind, pool, class.expandable, stack, born);
        self.usage.reserved_bytes = self.usage.reserved_bytes.saturating_add(bytes);
        self.observer.segment_added(class, bytes);
        Some(if class.expandable { self.blocks.merge(index).0 } else { index })
    }

    #[expect(clippy::too_many_arguments, reason = "the columns of one row, each used once")]
    fn push_range(
        &mut self,
        address: u64,
        bytes: u64,
        stream: u64,
        kind: SegmentKind,
        pool: PoolId,
        expandable: bool,
        stack: StackId,
        born: Moment,
    ) {
        let ranges = &mut self.history.ranges;
        self.held.insert(address, ranges.len() as u32);
        ranges.addresses.push(address);
        ranges.bytes.push(bytes);
        ranges.streams.push(stream);
        ranges.kinds.push(kind);
        ranges.pools.push(pool);
        ranges.expandable.push(expandable);
        ranges.born.push(born);
        ranges.died.push(Moment(u64::MAX));
        ranges.stacks.push(stack);
    }

    fn overlaps(&self, address: u64, end: u64) -> bool {
        let range_end = |row: u32| {
            self.history.ranges.addresses[row as usize]
                .saturating_add(self.history.ranges.bytes[row as usize])
        };
        self.held.range(..end).next_back().is_some_and(|(_, &row)| range_end(row) > address)
    }

    /// Row of the held range that contains `address`.
    pub(super) fn range_at(&self, address: u64) -> Option<u32> {
        let (&start, &row) = self.held.range(..=address).next_back()?;
        (address - start < self.history.ranges.bytes[row as usize]).then_some(row)
    }

    pub(super) fn segment_alloc(&mut self, event: usize, expandable: bool) {
        let events = &self.device.events;
        let (address, bytes) = (events.addresses[event], events.sizes[event]);
        let class = Class { small: self.is_for_small_blocks(event, bytes, expandable), expandable };
        let pool = self.trace.event_pool(self.device, event).unwrap_or_else(|| self.final_pool(address));
        let (stream, stack) = (events.stream(event), events.stacks[event]);
        let born = Moment::after(event as u64);
        if self.add_range(address, bytes, stream, class, pool, stack, born).is_none() {
            self.fault("segment-overlap", event, "a segment is obtained where one is held already");
        }
    }

    /// Small pool or large? A segment is obtained for the request that follows, which decides it; small
    /// segments are always 2 MiB (or granules of it when expandable).
    fn is_for_small_blocks(&self, event: usize, bytes: u64, expandable: bool) -> bool {
        let events = &self.device.events;
        let following = event + 1..events.len().min(event + 9);
        let next = following.into_iter().find(|&next| events.actions[next] == Action::Alloc);
        let small_request = next.is_none_or(|next| self.rules.round(events.sizes[next]) <= SMALL_BYTES);
        small_request
            && (bytes == SMALL_SEGMENT_BYTES || (expandable && bytes.is_multiple_of(SMALL_SEGMENT_BYTES)))
    }

    /// The pool of the final segment that covers `address`: right for segments that lived to the end, the
    /// default pool for the others. Events name their pool only since PyTorch 2.12.
    fn final_pool(&self, address: u64) -> PoolId {
        let Some(segments) = &self.device.segments else { return PoolId::DEFAULT };
        let at = segments.partition_point(|segment| segment.address <= address);
        match at.checked_sub(1).map(|at| &segments[at]) {
            Some(segment) if address < segment.end() => segment.pool,
            _ => PoolId::DEFAULT,
        }
    }

    pub(super) fn segment_free(&mut self, event: usize, address: u64, bytes: u64) {
        let Some(&row) = self.held.get(&address) else {
            self.fault("unmatched-segment-free", event, "a segment is returned that was not held");
            return;
        };
        let held = self.history.ranges.bytes[row as usize];
        if held != bytes {
            self.fault(
                "size-mismatch",
                event,
                "a segment is returned with another size than it was obtained",
            );
        }
        self.clear(address, held, event);
        let Some(index) = self.blocks.at(address) else { return };
        let node = *self.blocks.node(index);
        if node.bytes == held && !node.is_split() {
            self.blocks.cut_out(index);
        }
        self.drop_range(address, row, Moment::after(event as u64));
    }

    /// Forces every live block in `[address, address + bytes)` to be free: its free is not in the trace.
    fn clear(&mut self, address: u64, bytes: u64, event: usize) {
        let end = address.saturating_add(bytes);
        let mut at = address;
        while at < end && self.budget > 0 {
            self.budget -= 1;
            let Some(index) = self.blocks.containing(at, &mut self.budget) else { return };
            let node = *self.blocks.node(index);
            if node.state != BlockState::Inactive {
                self.fault("lost-free", event, "a segment is returned with a live block in it");
                self.force_free(index, event);
            }
            at = node.end().max(at + 1);
        }
    }

    fn drop_range(&mut self, address: u64, row: u32, died: Moment) {
        let ranges = &mut self.history.ranges;
        let bytes = ranges.bytes[row as usize];
        ranges.died[row as usize] = died;
        let class = Class {
            small: ranges.kinds[row as usize] == SegmentKind::Small,
            expandable: ranges.expandable[row as usize],
        };
        self.held.remove(&address);
        self.usage.reserved_bytes = self.usage.reserved_bytes.saturating_sub(bytes);
        self.observer.segment_removed(class, bytes);
    }

    pub(super) fn segment_unmap(&mut self, event: usize, address: u64, bytes: u64) {
        let end = address.saturating_add(bytes);
        self.clear(address, bytes, event);
        let free = self.blocks.containing(address, &mut self.budget);
        let Some(mut index) = free.filter(|&index| self.blocks.node(index).end() >= end && bytes > 0) else {
            self.fault("unmatched-segment-free", event, "a range is unmapped that was not mapped");
            return;
        };
        let front = address - self.blocks.node(index).address;
        if front > 0 {
            self.blocks.split(index, front);
            index = self.blocks.node(index).next;
        }
        if self.blocks.node(index).bytes > bytes {
            self.blocks.split(index, bytes);
        }
        self.blocks.cut_out(index);
        self.clip_ranges(address, end, Moment::after(event as u64));
    }

    /// Ends every held piece that reaches into `[start, end)`; what is left of it goes on as new pieces.
    fn clip_ranges(&mut self, start: u64, end: u64, moment: Moment) {
        while let Some((&address, &row)) = self.held.range(..end).next_back() {
            let at = row as usize;
            let piece_end = address.saturating_add(self.history.ranges.bytes[at]);
            if piece_end <= start {
                return;
            }
            let ranges = &self.history.ranges;
            let (stream, kind, pool) = (ranges.streams[at], ranges.kinds[at], ranges.pools[at]);
            let (expandable, stack) = (ranges.expandable[at], ranges.stacks[at]);
            let kept = [(address, start), (end, piece_end)];
            self.history.ranges.died[at] = moment;
            self.held.remove(&address);
            for (from, to) in kept.into_iter().filter(|(from, to)| from < to) {
                self.push_range(from, to - from, stream, kind, pool, expandable, stack, moment);
            }
            let gone = piece_end.min(end) - address.max(start);
            self.usage.reserved_bytes = self.usage.reserved_bytes.saturating_sub(gone);
            let class = Class { small: kind == SegmentKind::Small, expandable };
            self.observer.segment_removed(class, gone);
        }
    }
}
