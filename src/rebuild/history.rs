//! What happened on one device: every allocation's life, every segment's life, and the totals.
//!
//! Owns the result type of `rebuild`. Columns hold one row per allocation (those from before the recording
//! come first) and one row per segment range. Nothing in here is an estimate unless
//! [`History::warnings`] says so.

use crate::model::{DeviceId, PoolId, SegmentKind, StackId, Warnings};

use super::{Moment, Peaks, Usage};

/// Stands for "no event" in event columns, "no row" in row columns.
pub const NONE: u32 = u32::MAX;

/// Every allocation, one row each, in order of their `alloc` event; those that were live before the
/// recording come first, by address.
#[derive(Clone, Debug, Default)]
pub struct Allocations {
    /// First byte of the block.
    pub addresses: Vec<u64>,
    /// Bytes asked for.
    pub requested_bytes: Vec<u64>,
    /// True size of the block: what the allocator's counters use.
    pub block_bytes: Vec<u64>,
    /// Event that handed the block out; [`NONE`] for an allocation from before the recording.
    pub alloc_events: Vec<u32>,
    /// Event that gave it back; [`NONE`] while it is live at the end.
    pub free_requested_events: Vec<u32>,
    /// Event that made it reusable; [`NONE`] while it is active at the end.
    pub free_completed_events: Vec<u32>,
    /// Stack of the `alloc` event; of the final block for one from before the recording.
    pub stacks: Vec<StackId>,
    /// Row in [`SegmentRanges`] that holds it; [`NONE`] when its segment is unknown.
    pub ranges: Vec<u32>,
    /// Rows from before the recording whose free had been requested already, ascending: active, but not
    /// allocated, until they complete.
    pub initially_pending: Vec<u32>,
}

impl Allocations {
    /// How many allocations there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// The event from which row `row` no longer counts as allocated: its free was requested, or completed without
    /// a request on record; [`NONE`] while it is allocated at the end.
    #[inline]
    #[must_use]
    pub fn given_back_event(&self, row: usize) -> u32 {
        self.free_requested_events[row].min(self.free_completed_events[row])
    }

    /// Whether row `row` counts as allocated at `moment` (handed out, not given back).
    #[inline]
    #[must_use]
    pub fn is_allocated_at(&self, row: usize, moment: Moment) -> bool {
        let alloc = self.alloc_events[row];
        let free = self.given_back_event(row);
        let begun = if alloc == NONE { !self.is_initially_pending(row) } else { u64::from(alloc) < moment.0 };
        begun && (free == NONE || u64::from(free) >= moment.0)
    }

    /// Whether row `row` was given back before the first event, so that it is active at first but never allocated.
    #[inline]
    #[must_use]
    pub fn is_initially_pending(&self, row: usize) -> bool {
        !self.initially_pending.is_empty() && self.initially_pending.binary_search(&(row as u32)).is_ok()
    }

    /// Whether row `row` counts as active at `moment` (handed out, not yet reusable).
    #[inline]
    #[must_use]
    pub fn is_active_at(&self, row: usize, moment: Moment) -> bool {
        let alloc = self.alloc_events[row];
        let free = self.free_completed_events[row];
        (alloc == NONE || u64::from(alloc) < moment.0) && (free == NONE || u64::from(free) >= moment.0)
    }
}

/// Address ranges held from the driver, one row for each as long as its extent stays the same: a whole
/// segment, or a mapped piece of an expandable segment. Adjacent pieces of an expandable segment belong
/// together; [`super::State`] joins them.
#[derive(Clone, Debug, Default)]
pub struct SegmentRanges {
    /// First byte.
    pub addresses: Vec<u64>,
    /// Length in bytes.
    pub bytes: Vec<u64>,
    /// Stream whose requests it serves.
    pub streams: Vec<u64>,
    /// Small or large pool.
    pub kinds: Vec<SegmentKind>,
    /// Default or private pool; the default pool when unknown.
    pub pools: Vec<PoolId>,
    /// Whether it is a piece of an expandable segment.
    pub expandable: Vec<bool>,
    /// First moment at which it is held; `Moment(0)` for one from before the recording.
    pub born: Vec<Moment>,
    /// First moment at which it is no longer held; `Moment(u64::MAX)` when held at the end.
    pub died: Vec<Moment>,
    /// Stack of the call that obtained it.
    pub stacks: Vec<StackId>,
}

impl SegmentRanges {
    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// Whether row `row` is held at `moment`.
    #[must_use]
    pub fn is_held_at(&self, row: usize, moment: Moment) -> bool {
        self.born[row] <= moment && moment < self.died[row]
    }
}

/// A request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OomEvent {
    /// Event number.
    pub event: u64,
    /// The rounded request, as the event states it.
    pub size: u64,
    /// Free bytes of the device at that moment, if the event states them.
    pub device_free_bytes: Option<u64>,
    /// Stream of the request.
    pub stream: u64,
    /// Stack of the request.
    pub stack: StackId,
    /// Totals at that moment.
    pub usage: Usage,
}

/// What happened on one device.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Device.
    pub device: DeviceId,
    /// Number, in the recording, of the first event that was replayed: 0 unless this is an excerpt. All event numbers
    /// and moments here count from that one on.
    pub first_event: u64,
    /// How many events were replayed.
    pub events: u64,
    /// Every allocation's life.
    pub allocations: Allocations,
    /// Row in [`History::allocations`] that event `i` concerns (alloc, free_requested, free_completed);
    /// [`NONE`] for other events and for events that could not be matched.
    pub allocation_of_event: Vec<u32>,
    /// Every segment's life.
    pub ranges: SegmentRanges,
    /// Totals before the first event.
    pub initial: Usage,
    /// Totals after the last event.
    pub end: Usage,
    /// Maxima over all moments.
    pub peaks: Peaks,
    /// Failed requests.
    pub ooms: Vec<OomEvent>,
    /// Allocations from before the recording whose true size could not be proved (their rounded request is
    /// used), and the bytes by which the truth may be higher.
    pub uncertain_allocations: u64,
    /// See [`History::uncertain_allocations`].
    pub uncertain_bytes: u64,
    /// Whether the recording reaches back to the first allocation: nothing was live or reserved before it.
    pub from_the_start: bool,
    /// What did not add up.
    pub warnings: Warnings,
}
