//! The one way in which tables go through a history event by event.
//!
//! Owns the order in which things happen at an event (frees, then segments, then allocations) and the claim
//! that a walk agrees with [`crate::rebuild::Allocations::is_allocated_at`] at every moment. What is added
//! up on the way belongs to the [`Tally`] that walks along.

use crate::rebuild::{Allocations, History, Moment, NONE, Usage};

/// What wants to be told about every change. Rows are rows of the history's tables.
///
/// What a tally does not take itself goes to its totals, if it has some.
pub(super) trait Tally<'h> {
    /// The totals that are to be kept up to date.
    #[inline]
    fn totals(&mut self) -> Option<&mut Totals<'h>> {
        None
    }

    /// Allocation `row` becomes allocated and active.
    #[inline]
    fn alloc(&mut self, row: usize) {
        if let Some(totals) = self.totals() {
            totals.alloc(row);
        }
    }

    /// Allocation `row` is no longer allocated.
    #[inline]
    fn free(&mut self, row: usize) {
        if let Some(totals) = self.totals() {
            totals.free(row);
        }
    }

    /// Allocation `row` is no longer active.
    #[inline]
    fn complete(&mut self, row: usize) {
        if let Some(totals) = self.totals() {
            totals.complete(row);
        }
    }

    /// Segment range `range` is held from now on.
    fn hold(&mut self, range: usize) {
        if let Some(totals) = self.totals() {
            totals.hold(range);
        }
    }

    /// Segment range `range` is no longer held.
    fn release(&mut self, range: usize) {
        if let Some(totals) = self.totals() {
            totals.release(range);
        }
    }

    /// Everything up to `moment` has been told.
    fn arrive(&mut self, moment: Moment);
}

/// A beginning or an end of a segment range.
struct Edge {
    moment: Moment,
    begins: bool,
    range: u32,
}

/// A history prepared for walking.
pub(super) struct Walk<'a> {
    history: &'a History,
    edges: Vec<Edge>,
    /// `(event, row)` of changes that the event's own row does not cover: an allocation that ends because
    /// its address is handed out again, for example. Empty for a sound recording.
    leaving: Vec<(u32, u32)>,
    entering: Vec<(u32, u32)>,
    /// Whether rows are in order of their `alloc` events, as they should be.
    in_order: bool,
}

impl<'a> Walk<'a> {
    /// Prepares `history`: one pass over its allocations, a sort of its segment ranges.
    pub(super) fn new(history: &'a History) -> Self {
        let (leaving, entering) = (Vec::new(), Vec::new());
        let mut walk = Self { history, edges: edges(history), leaving, entering, in_order: true };
        let allocations = &history.allocations;
        let covered = |event: u32, row: usize| {
            event == NONE || history.allocation_of_event.get(event as usize) == Some(&(row as u32))
        };
        let mut last = NONE;
        for row in 0..allocations.len() {
            let alloc = allocations.alloc_events[row];
            if alloc != NONE {
                walk.in_order &= last == NONE || alloc > last;
                last = alloc;
            }
            if !covered(alloc, row) {
                walk.entering.push((alloc, row as u32));
            }
            let (requested, completed) =
                (allocations.free_requested_events[row], allocations.free_completed_events[row]);
            if !covered(requested, row) {
                walk.leaving.push((requested, row as u32));
            }
            if completed != requested && !covered(completed, row) {
                walk.leaving.push((completed, row as u32));
            }
        }
        walk.entering.sort_unstable();
        walk.leaving.sort_unstable();
        walk
    }

    /// Tells `tally` all that happens, from before the first event to after the last.
    pub(super) fn run<'t>(&self, tally: &mut impl Tally<'t>) {
        let allocations = &self.history.allocations;
        let mut edges = self.edges.as_slice();
        pass_edges(&mut edges, Moment(0), tally);
        for row in (0..allocations.len()).filter(|&row| allocations.alloc_events[row] == NONE) {
            tally.alloc(row);
            if allocations.is_initially_pending(row) {
                tally.free(row);
            }
        }
        tally.arrive(Moment(0));
        // A row that was handed out already cannot be so again: the column of alloc events, which is far away
        // by the time of the free, need not be looked at.
        let mut next_row = 0;
        let (mut leaving, mut entering) = (self.leaving.as_slice(), self.entering.as_slice());
        for (event, &row) in self.history.allocation_of_event.iter().enumerate() {
            let (event, moment) = (event as u32, Moment::after(event as u64));
            let enters = row != NONE && row >= next_row && allocations.alloc_events[row as usize] == event;
            if row != NONE && !enters {
                leave(allocations, row as usize, event, tally);
            }
            while let Some((&(_, row), rest)) = leaving.split_first().filter(|(next, _)| next.0 <= event) {
                leave(allocations, row as usize, event, tally);
                leaving = rest;
            }
            if edges.first().is_some_and(|edge| edge.moment <= moment) {
                pass_edges(&mut edges, moment, tally);
            }
            if enters {
                tally.alloc(row as usize);
                next_row = if self.in_order { row + 1 } else { 0 };
            }
            while let Some((&(_, row), rest)) = entering.split_first().filter(|(next, _)| next.0 <= event) {
                tally.alloc(row as usize);
                entering = rest;
            }
            tally.arrive(moment);
        }
    }
}

/// Ends of a moment come before its beginnings: a range that changes its extent ends and begins anew.
fn edges(history: &History) -> Vec<Edge> {
    let ranges = &history.ranges;
    let mut edges = Vec::with_capacity(2 * ranges.len());
    for range in 0..ranges.len() {
        let row = range as u32;
        edges.push(Edge { moment: ranges.born[range], begins: true, range: row });
        if ranges.died[range] != Moment(u64::MAX) {
            edges.push(Edge { moment: ranges.died[range], begins: false, range: row });
        }
    }
    edges.sort_unstable_by_key(|edge| (edge.moment, edge.begins, edge.range));
    edges
}

fn pass_edges<'t>(edges: &mut &[Edge], moment: Moment, tally: &mut impl Tally<'t>) {
    while let Some((edge, rest)) = edges.split_first().filter(|(edge, _)| edge.moment <= moment) {
        if edge.begins {
            tally.hold(edge.range as usize);
        } else {
            tally.release(edge.range as usize);
        }
        *edges = rest;
    }
}

#[inline]
fn leave<'t>(allocations: &Allocations, row: usize, event: u32, tally: &mut impl Tally<'t>) {
    let completed = allocations.free_completed_events[row];
    let requested = allocations.free_requested_events[row];
    if requested.min(completed) == event && !allocations.is_initially_pending(row) {
        tally.free(row);
    }
    if completed == event {
        tally.complete(row);
    }
}

/// The running totals of allocated, active and reserved bytes; what most tallies keep.
#[derive(Clone)]
pub(super) struct Totals<'a> {
    history: &'a History,
    /// At the moment last arrived at. Requested bytes are left out: hardly anybody asks for them, and they
    /// are one more column to fetch at random.
    pub(super) usage: Usage,
}

impl<'a> Totals<'a> {
    /// Nothing so far; the walk brings in what was there before the first event.
    pub(super) fn new(history: &'a History) -> Self {
        Self { history, usage: Usage::default() }
    }

    #[inline]
    pub(super) fn alloc(&mut self, row: usize) {
        let bytes = self.history.allocations.block_bytes[row];
        self.usage.allocated_bytes = self.usage.allocated_bytes.saturating_add(bytes);
        self.usage.active_bytes = self.usage.active_bytes.saturating_add(bytes);
    }

    #[inline]
    pub(super) fn free(&mut self, row: usize) {
        let bytes = self.history.allocations.block_bytes[row];
        self.usage.allocated_bytes = self.usage.allocated_bytes.saturating_sub(bytes);
    }

    #[inline]
    pub(super) fn complete(&mut self, row: usize) {
        let bytes = self.history.allocations.block_bytes[row];
        self.usage.active_bytes = self.usage.active_bytes.saturating_sub(bytes);
    }

    pub(super) fn hold(&mut self, range: usize) {
        let bytes = self.history.ranges.bytes[range];
        self.usage.reserved_bytes = self.usage.reserved_bytes.saturating_add(bytes);
    }

    pub(super) fn release(&mut self, range: usize) {
        let bytes = self.history.ranges.bytes[range];
        self.usage.reserved_bytes = self.usage.reserved_bytes.saturating_sub(bytes);
    }
}

#[cfg(test)]
pub(super) mod samples {
    //! Histories by hand, as `rebuild` would make them.

    use crate::model::{Action, DeviceTrace, PoolId, SegmentKind, StackId, Trace};
    use crate::rebuild::{History, Moment, NONE, Usage};

    /// A history of the events of `trace`'s first device, for traces whose blocks are exactly as large as
    /// their requests: a plain replay, checked against nothing.
    pub(in crate::tables) fn history_of(trace: &Trace) -> (DeviceTrace, History) {
        let device = trace.devices.first().cloned().unwrap_or_default();
        let mut history = History { events: device.events.len() as u64, ..History::default() };
        for event in 0..device.events.len() {
            let row = replay(&mut history, &device, event);
            history.allocation_of_event.push(row);
        }
        history.end = usage(&history, Moment(history.events));
        for moment in 0..=history.events {
            let usage = usage(&history, Moment(moment));
            history.peaks.raise(usage, Moment(moment));
        }
        (device, history)
    }

    fn replay(history: &mut History, device: &DeviceTrace, event: usize) -> u32 {
        let row = device.events.get(event);
        let live = |history: &History| {
            (0..history.allocations.len())
                .rev()
                .find(|&at| {
                    history.allocations.addresses[at] == row.address
                        && history.allocations.free_completed_events[at] == NONE
                })
                .map_or(NONE, |at| at as u32)
        };
        match row.action {
            Action::Alloc => return alloc(history, row.address, row.size, event, row.stack),
            Action::FreeRequested => {
                let at = live(history);
                history.allocations.free_requested_events[at as usize] = event as u32;
                return at;
            }
            Action::FreeCompleted => {
                let at = live(history);
                history.allocations.free_completed_events[at as usize] = event as u32;
                return at;
            }
            Action::SegmentAlloc => hold(history, row.address, row.size, row.stream, false, event),
            Action::SegmentMap => hold(history, row.address, row.size, row.stream, true, event),
            Action::SegmentFree | Action::SegmentUnmap => {
                let ranges = &mut history.ranges;
                let at = (0..ranges.len())
                    .find(|&at| ranges.addresses[at] == row.address && ranges.died[at].0 == u64::MAX)
                    .unwrap();
                ranges.died[at] = Moment::after(event as u64);
            }
            _ => {}
        }
        NONE
    }

    fn alloc(history: &mut History, address: u64, size: u64, event: usize, stack: StackId) -> u32 {
        let ranges = &history.ranges;
        let range = (0..ranges.len())
            .find(|&at| {
                ranges.died[at].0 == u64::MAX
                    && (ranges.addresses[at]..ranges.addresses[at] + ranges.bytes[at]).contains(&address)
            })
            .map_or(NONE, |at| at as u32);
        let allocations = &mut history.allocations;
        allocations.addresses.push(address);
        allocations.requested_bytes.push(size);
        allocations.block_bytes.push(size);
        allocations.alloc_events.push(event as u32);
        allocations.free_requested_events.push(NONE);
        allocations.free_completed_events.push(NONE);
        allocations.stacks.push(stack);
        allocations.ranges.push(range);
        (allocations.len() - 1) as u32
    }

    pub(in crate::tables) fn hold(
        history: &mut History,
        address: u64,
        bytes: u64,
        stream: u64,
        expandable: bool,
        event: usize,
    ) {
        let ranges = &mut history.ranges;
        ranges.addresses.push(address);
        ranges.bytes.push(bytes);
        ranges.streams.push(stream);
        ranges.kinds.push(SegmentKind::Large);
        ranges.pools.push(PoolId::DEFAULT);
        ranges.expandable.push(expandable);
        ranges.born.push(Moment::after(event as u64));
        ranges.died.push(Moment(u64::MAX));
        ranges.stacks.push(StackId::NONE);
    }

    /// Usage by definition: a sum over all rows.
    pub(in crate::tables) fn usage(history: &History, moment: Moment) -> Usage {
        let mut usage = Usage::default();
        let allocations = &history.allocations;
        for row in 0..allocations.len() {
            let bytes = allocations.block_bytes[row];
            usage.allocated_bytes += u64::from(allocations.is_allocated_at(row, moment)) * bytes;
            let active = u64::from(allocations.is_active_at(row, moment));
            usage.active_bytes += active * bytes;
            usage.requested_bytes += active * allocations.requested_bytes[row];
        }
        for range in 0..history.ranges.len() {
            usage.reserved_bytes +=
                u64::from(history.ranges.is_held_at(range, moment)) * history.ranges.bytes[range];
        }
        usage
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::samples::{history_of, usage};
    use super::*;
    use crate::model::TraceBuilder;

    struct Check<'a>(&'a History, Totals<'a>, u64);

    impl<'a> Tally<'a> for Check<'a> {
        fn totals(&mut self) -> Option<&mut Totals<'a>> {
            Some(&mut self.1)
        }
        fn arrive(&mut self, moment: Moment) {
            assert_eq!(moment, Moment(self.2), "moments come one by one");
            let expected = Usage { requested_bytes: 0, ..usage(self.0, moment) };
            assert_eq!(self.1.usage, expected, "at {moment:?}");
            self.2 += 1;
        }
    }

    fn check(history: &History) {
        let mut check = Check(history, Totals::new(history), 0);
        Walk::new(history).run(&mut check);
        assert_eq!(check.2, history.events + 1, "every moment was visited");
    }

    #[test]
    fn a_walk_agrees_with_the_definition_at_every_moment() {
        let trace = TraceBuilder::new()
            .segment_alloc(0x1000, 4096)
            .alloc(0x1000, 1024)
            .alloc(0x1400, 512)
            .free_requested(0x1000, 1024)
            .alloc(0x1600, 512)
            .free_completed(0x1000, 1024)
            .free(0x1400, 512)
            .free(0x1600, 512)
            .segment_free(0x1000, 4096)
            .build();
        check(&history_of(&trace).1);
    }

    #[test]
    fn what_no_event_tells_still_happens() {
        let trace = TraceBuilder::new().segment_alloc(0x1000, 4096).alloc(0x1000, 512).alloc(0x1000, 1024);
        let (_, mut history) = history_of(&trace.build());
        // The second alloc at the same address ends the first allocation without an event of its own.
        history.allocations.free_completed_events[0] = 2;
        // And one from before the recording is freed by an event that names another row.
        history.allocations.alloc_events[1] = NONE;
        history.allocations.free_requested_events[1] = 1;
        history.allocations.free_completed_events[1] = 2;
        check(&history);
    }

    #[test]
    fn a_free_requested_before_the_recording_leaves_active_bytes_only() {
        let trace = TraceBuilder::new().segment_alloc(0x1000, 4096).alloc(0x1000, 512).alloc(0x1200, 1024);
        let (_, mut history) = history_of(&trace.free(0x1200, 1024).build());
        history.allocations.alloc_events[0] = NONE;
        history.allocations.initially_pending = vec![0];
        history.allocations.free_completed_events[0] = 3;
        check(&history);
    }

    #[test]
    fn rows_out_of_order_are_told_all_the_same() {
        let trace = TraceBuilder::new().segment_alloc(0x1000, 4096).alloc(0x1000, 512).alloc(0x1200, 1024);
        let (_, mut history) = history_of(&trace.free(0x1200, 1024).build());
        history.allocations.alloc_events.swap(0, 1);
        history.allocation_of_event.swap(1, 2);
        check(&history);
    }
}
