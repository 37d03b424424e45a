//! One forward pass over a device's events: true block sizes, lifetimes, totals.
//!
//! Owns the walk and its bookkeeping. The allocator's arithmetic is in `rules`, the block links in `blocks`,
//! the state before the first event in `initial`, segment events in `segments`. Faults of the trace are
//! counted and worked around, never trusted and never fatal.

use std::collections::BTreeMap;

use crate::model::{
    Action, BlockState, DeviceTrace, Events, FREE_UNKNOWN, PoolId, SegmentKind, StackId, Trace, Warnings,
};

use super::blocks::{Blocks, Node};
use super::history::{History, NONE, OomEvent};
use super::initial::{Initial, InitialBlock};
use super::moment::{Moment, Peaks, Usage};
use super::observer::{Class, Observer, Released, Taken};
use super::rules::Rules;

/// How far a walk through a segment may go in sum, beyond a share per event: see `Blocks::containing`.
const WALK_BUDGET: u64 = 50_000_000;

/// A forward pass under way.
pub(super) struct Pass<'a, O> {
    pub(super) trace: &'a Trace,
    pub(super) device: &'a DeviceTrace,
    pub(super) rules: &'a Rules,
    pub(super) blocks: Blocks,
    pub(super) history: History,
    /// Held ranges by address, values are rows of `history.ranges`.
    pub(super) held: BTreeMap<u64, u32>,
    pub(super) usage: Usage,
    pub(super) budget: u64,
    pub(super) observer: O,
    /// Sizes of initial blocks that later events prove, as assumed or otherwise: (row, true size).
    pub(super) learnt: Vec<(u32, u64)>,
    /// Whether any initial block's size is unproved, so that looking out for proofs is worth it.
    has_uncertain: bool,
    /// Whether the state before the first event is still being entered.
    entering: bool,
    /// The block entered last while that lasts: the next one lies behind it.
    entered: u32,
    /// Whether frees complete with their request because the recording left out `free_completed`.
    completes_at_once: bool,
}

impl<'a, O: Observer> Pass<'a, O> {
    pub(super) fn new(
        trace: &'a Trace,
        device: &'a DeviceTrace,
        rules: &'a Rules,
        initial: &Initial,
        completes_at_once: bool,
        observer: O,
    ) -> Self {
        let events = &device.events;
        let mut pass = Self {
            trace,
            device,
            rules,
            blocks: Blocks::default(),
            history: History {
                device: device.device,
                first_event: device.first_event(),
                events: events.len() as u64,
                ..History::default()
            },
            held: BTreeMap::new(),
            usage: Usage::default(),
            budget: WALK_BUDGET + events.len() as u64 * 16,
            observer,
            learnt: Vec::new(),
            has_uncertain: false,
            entering: true,
            entered: NONE,
            completes_at_once,
        };
        pass.history.allocation_of_event.reserve_exact(events.len());
        pass.enter(initial);
        pass
    }

    /// Enters the state before the first event.
    fn enter(&mut self, initial: &Initial) {
        for piece in &initial.pieces {
            let class = Class { small: piece.kind == SegmentKind::Small, expandable: piece.expandable };
            self.add_range(
                piece.address,
                piece.bytes,
                piece.stream,
                class,
                piece.pool,
                piece.stack,
                Moment(0),
            );
        }
        for block in &initial.blocks {
            self.enter_block(block);
        }
        self.entering = false;
        self.has_uncertain = initial.uncertain().0 > 0;
        self.history.initial = self.usage;
        self.history.peaks = Peaks::starting_at(self.usage, Moment(0));
        self.history.from_the_start = self.usage == Usage::default() && self.history.ranges.is_empty();
        self.observer.initial_done(&self.blocks, &self.history.allocations);
    }

    fn enter_block(&mut self, block: &InitialBlock) {
        let index = self
            .room_behind_the_last(block.address)
            .unwrap_or_else(|| self.free_block_at(block.address, block.bytes, block.stream, 0));
        let found = self.blocks.node(index).bytes;
        let bytes = block.bytes.min(found);
        if bytes < found {
            self.blocks.split(index, bytes);
        }
        self.entered = index;
        let row = self.new_row(block.address, block.requested_bytes, bytes, NONE, block.stack, index);
        let node = self.blocks.node_mut(index);
        node.row = row;
        self.usage.requested_bytes = self.usage.requested_bytes.saturating_add(block.requested_bytes);
        self.usage.active_bytes = self.usage.active_bytes.saturating_add(bytes);
        if block.pending {
            node.state = BlockState::ActivePendingFree;
            self.history.allocations.initially_pending.push(row);
        } else {
            node.state = BlockState::ActiveAllocated;
            self.usage.allocated_bytes = self.usage.allocated_bytes.saturating_add(bytes);
        }
    }

    /// Blocks are entered by address, thousands into a segment: mostly the free block behind the last one is the place,
    /// and no search through the segment is needed.
    fn room_behind_the_last(&mut self, address: u64) -> Option<u32> {
        if self.entered == NONE {
            return None;
        }
        let index = self.blocks.node(self.entered).next;
        let room = (index != NONE).then(|| *self.blocks.node(index))?;
        if room.state != BlockState::Inactive || address < room.address || address >= room.end() {
            return None;
        }
        if address == room.address {
            return Some(index);
        }
        self.blocks.split(index, address - room.address);
        Some(self.blocks.node(index).next)
    }

    /// Walks all events; what is left of the pass then has the history and the blocks as they are at the end.
    pub(super) fn walk(&mut self) {
        let events = &self.device.events;
        for index in 0..events.len() {
            if self.observer.stops_before(index) {
                break;
            }
            let row = self.apply(events, index);
            self.history.allocation_of_event.push(row);
            self.history.peaks.raise(self.usage, Moment::after(index as u64));
        }
        self.history.end = self.usage;
    }

    /// Applies event `index`; gives the allocation row that it concerns, if any.
    fn apply(&mut self, events: &Events, index: usize) -> u32 {
        let (address, size) = (events.addresses[index], events.sizes[index]);
        match events.actions[index] {
            Action::Alloc => return self.alloc(index, address, size),
            Action::FreeRequested => return self.free_requested(index, address, size),
            Action::FreeCompleted => return self.free_completed(index, address, size),
            Action::SegmentAlloc => self.segment_alloc(index, false),
            Action::SegmentMap => self.segment_alloc(index, true),
            Action::SegmentFree => self.segment_free(index, address, size),
            Action::SegmentUnmap => self.segment_unmap(index, address, size),
            Action::Oom => self.history.ooms.push(OomEvent {
                event: index as u64,
                size,
                device_free_bytes: Some(address).filter(|&free| free != FREE_UNKNOWN),
                stream: events.stream(index),
                stack: events.stacks[index],
                usage: self.usage,
            }),
            Action::Snapshot | Action::Annotate | Action::Other => {}
        }
        NONE
    }

    fn alloc(&mut self, event: usize, address: u64, size: u64) -> u32 {
        let events = &self.device.events;
        let rounded = self.rules.round(size);
        let index = match self.blocks.at(address) {
            Some(index) if self.blocks.node(index).state == BlockState::Inactive => index,
            _ => self.free_block_at(address, rounded, events.stream(event), event),
        };
        let node = *self.blocks.node(index);
        if self.has_uncertain {
            self.learn_size_before(node.previous, address);
        }
        // A tool that writes blocks as large as their requests contradicts nothing.
        if node.bytes < size {
            self.fault("block-too-small", event, "a request is larger than the free block at its address");
        }
        let taken = self.rules.taken(node.bytes, rounded, node.small, node.expandable);
        if taken < node.bytes {
            self.blocks.split(index, taken);
        }
        let row = self.new_row(address, size, taken, event as u32, events.stacks[event], index);
        let block = self.blocks.node_mut(index);
        block.state = BlockState::ActiveAllocated;
        block.row = row;
        self.usage.requested_bytes = self.usage.requested_bytes.saturating_add(size);
        self.usage.allocated_bytes = self.usage.allocated_bytes.saturating_add(taken);
        self.usage.active_bytes = self.usage.active_bytes.saturating_add(taken);
        self.observer.taken(&Taken {
            class: Class { small: node.small, expandable: node.expandable },
            requested_bytes: size,
            block_bytes: taken,
            found_bytes: node.bytes,
            was_split: node.is_split(),
        });
        row
    }

    fn free_requested(&mut self, event: usize, address: u64, size: u64) -> u32 {
        let Some(index) = self.blocks.at(address).filter(|&index| self.is_allocated(index)) else {
            self.fault("unmatched-free", event, "a free names an address at which nothing is allocated");
            return NONE;
        };
        let row = self.request_free(index, event);
        if self.history.allocations.requested_bytes[row as usize] != size {
            self.fault("size-mismatch", event, "a free states another size than its allocation");
        }
        if self.completes_at_once {
            self.complete_free(index, event);
        }
        row
    }

    fn free_completed(&mut self, event: usize, address: u64, size: u64) -> u32 {
        let Some(index) = self.blocks.at(address).filter(|&index| self.blocks.node(index).row != NONE) else {
            self.fault("unmatched-free", event, "a free names an address at which nothing is allocated");
            return NONE;
        };
        if self.is_allocated(index) {
            self.request_free(index, event);
        }
        let row = self.complete_free(index, event);
        if self.history.allocations.requested_bytes[row as usize] != size {
            self.fault("size-mismatch", event, "a free states another size than its allocation");
        }
        row
    }

    fn is_allocated(&self, index: u32) -> bool {
        self.blocks.node(index).state == BlockState::ActiveAllocated
    }

    fn request_free(&mut self, index: u32, event: usize) -> u32 {
        let node = self.blocks.node_mut(index);
        node.state = BlockState::ActivePendingFree;
        let (row, bytes) = (node.row, node.bytes);
        let class = Class { small: node.small, expandable: node.expandable };
        self.history.allocations.free_requested_events[row as usize] = event as u32;
        self.usage.allocated_bytes = self.usage.allocated_bytes.saturating_sub(bytes);
        self.observer.free_requested(class, bytes);
        row
    }

    fn complete_free(&mut self, index: u32, event: usize) -> u32 {
        let node = self.blocks.node_mut(index);
        node.state = BlockState::Inactive;
        let (row, bytes) = (node.row, node.bytes);
        let class = Class { small: node.small, expandable: node.expandable };
        node.row = NONE;
        self.history.allocations.free_completed_events[row as usize] = event as u32;
        let requested = self.history.allocations.requested_bytes[row as usize];
        self.usage.active_bytes = self.usage.active_bytes.saturating_sub(bytes);
        self.usage.requested_bytes = self.usage.requested_bytes.saturating_sub(requested);
        let (result, merged) = self.blocks.merge(index);
        let result = self.blocks.node(result);
        self.observer.released(&Released {
            class,
            requested_bytes: requested,
            block_bytes: bytes,
            merged_blocks: merged.blocks,
            merged_bytes: merged.bytes,
            result_bytes: result.bytes,
            result_is_split: result.is_split(),
        });
        row
    }

    fn new_row(
        &mut self,
        address: u64,
        requested: u64,
        bytes: u64,
        event: u32,
        stack: StackId,
        node: u32,
    ) -> u32 {
        let node = self.blocks.node(node);
        let range = if node.expandable { self.range_at(address).unwrap_or(node.range) } else { node.range };
        let rows = &mut self.history.allocations;
        rows.addresses.push(address);
        rows.requested_bytes.push(requested);
        rows.block_bytes.push(bytes);
        rows.alloc_events.push(event);
        rows.free_requested_events.push(NONE);
        rows.free_completed_events.push(NONE);
        rows.stacks.push(stack);
        rows.ranges.push(range);
        (rows.len() - 1) as u32
    }

    /// The slow path of an allocation: makes a free block start at `address`, whatever the rebuilt state
    /// says, and counts what had to be assumed.
    fn free_block_at(&mut self, address: u64, bytes: u64, stream: u64, event: usize) -> u32 {
        if let Some(index) = self.blocks.at(address)
            && self.blocks.node(index).state != BlockState::Inactive
        {
            self.fault(
                "lost-free",
                event,
                "a block is handed out although its last free is not in the trace",
            );
            self.force_free(index, event);
        }
        if let Some(index) = self.blocks.at(address) {
            return index;
        }
        let Some(index) = self.blocks.containing(address, &mut self.budget) else {
            return self.assume_segment(address, bytes, stream, event);
        };
        let node = *self.blocks.node(index);
        if node.state == BlockState::Inactive {
            self.use_from_the_middle(&node, address, event);
        } else {
            self.shrink(index, address, event);
        }
        let index = self.blocks.containing(address, &mut self.budget).unwrap_or(index);
        let front = address - self.blocks.node(index).address;
        if front == 0 {
            return index;
        }
        self.blocks.split(index, front);
        self.blocks.node(index).next
    }

    pub(super) fn force_free(&mut self, index: u32, event: usize) {
        if self.is_allocated(index) {
            self.request_free(index, event);
        }
        self.complete_free(index, event);
    }

    /// A block is handed out at `address`, right behind block `before`: if that one is from before the
    /// recording, its true size is now known.
    fn learn_size_before(&mut self, before: u32, address: u64) {
        if before == NONE {
            return;
        }
        let node = self.blocks.node(before);
        if node.row != NONE && self.history.allocations.alloc_events[node.row as usize] == NONE {
            self.learnt.push((node.row, address - node.address));
        }
    }

    /// A free block is used from its middle: the block before it must reach up to there.
    fn use_from_the_middle(&mut self, free: &Node, address: u64, event: usize) {
        if self.entering {
            return; // Initial blocks are entered into the middle of segments as a matter of course.
        }
        self.learn_size_before(free.previous, address);
        self.fault("unexpected-address", event, "a block starts inside a larger free block");
    }

    /// A block starts inside one that counts as live: the live one is shorter than thought.
    fn shrink(&mut self, index: u32, address: u64, event: usize) {
        let node = *self.blocks.node(index);
        let bytes = address - node.address;
        let lost = node.bytes - bytes;
        self.fault("unexpected-address", event, "a block starts inside a live one");
        self.blocks.split(index, bytes);
        self.history.allocations.block_bytes[node.row as usize] = bytes;
        self.usage.active_bytes = self.usage.active_bytes.saturating_sub(lost);
        if node.state == BlockState::ActiveAllocated {
            self.usage.allocated_bytes = self.usage.allocated_bytes.saturating_sub(lost);
        }
    }

    /// An allocation outside every known segment: a segment of exactly its size is assumed.
    fn assume_segment(&mut self, address: u64, bytes: u64, stream: u64, event: usize) -> u32 {
        self.fault("unknown-segment", event, "an allocation lies in no segment that the trace knows");
        let room = self.held.range(address..).next().map_or(u64::MAX - address, |(&next, _)| next - address);
        let class = Class { small: bytes <= super::rules::SMALL_BYTES, expandable: false };
        let born = Moment(self.history.allocation_of_event.len() as u64);
        let bytes = bytes.min(room).max(1);
        self.add_range(address, bytes, stream, class, PoolId::DEFAULT, StackId::NONE, born)
            .expect("no block starts here: it was looked up, and the room before the next segment is kept")
    }

    pub(super) fn fault(&mut self, kind: &'static str, event: usize, what: &str) {
        let device = self.device.device.0;
        let event = event as u64 + self.history.first_event;
        let warnings: &mut Warnings = &mut self.history.warnings;
        warnings.add_about(kind, &device.to_string(), 1, || {
            format!("{what}; first at event {event} of device {device}")
        });
    }
}
