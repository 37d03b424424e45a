//! What was live at the moments that a reduced recording keeps.
//!
//! Owns the choice of moments (both peaks, the last failed request, the end) and the tables that the rows need:
//! stacks that no row names are left out.

use std::collections::BTreeMap;

use crate::model::{DeviceTrace, Frame, FrameId, LiveMoment, LiveRow, LiveSet, StackId, Trace};
use crate::rebuild::{History, Moment, NONE};

/// `sets`, those of the devices of `trace` in order, as they stand in `small`, into which their stacks are entered.
pub(super) fn entered(mut sets: Vec<LiveSet>, trace: &Trace, small: &mut Trace) -> Vec<LiveSet> {
    sets.retain(|set| !set.rows.is_empty());
    let mut stacks = BTreeMap::new();
    for row in sets.iter_mut().flat_map(|set| &mut set.rows) {
        row.stack = *stacks.entry(row.stack).or_insert_with(|| stack(trace, row.stack, small));
    }
    sets
}

/// What was live on `device`.
pub(super) fn set(device: &DeviceTrace, history: &History) -> LiveSet {
    let moments = moments(history);
    let rows = (0..history.allocations.len()).filter_map(|row| live_row(history, row, &moments));
    let mut rows: Vec<LiveRow> = rows.collect();
    rows.sort_by_key(|row| (row.alloc_event, row.address));
    let named =
        |(name, moment): &(&str, Moment)| LiveMoment { name: (*name).to_owned(), event: moment.event() };
    LiveSet { device: device.device, moments: moments.iter().map(named).collect(), rows }
}

fn moments(history: &History) -> Vec<(&'static str, Moment)> {
    let oom = history.ooms.last().map(|oom| ("oom", Moment(oom.event)));
    let peaks = &history.peaks;
    let first = [("allocated-peak", peaks.allocated.moment), ("reserved-peak", peaks.reserved.moment)];
    first.into_iter().chain(oom).chain([("end", Moment(history.events))]).collect()
}

/// The allocation of `row`, if it was live at one of the moments.
fn live_row(history: &History, row: usize, moments: &[(&str, Moment)]) -> Option<LiveRow> {
    let rows = &history.allocations;
    let bits = |is_so: &dyn Fn(Moment) -> bool| {
        let bit = |(place, (_, moment)): (usize, &(&str, Moment))| u64::from(is_so(*moment)) << place;
        moments.iter().enumerate().map(bit).fold(0, |all, bit| all | bit)
    };
    let live = bits(&|moment| rows.is_active_at(row, moment));
    if live == 0 {
        return None;
    }
    let allocated = bits(&|moment| rows.is_allocated_at(row, moment));
    let range = rows.ranges.get(row).map_or(usize::MAX, |&range| range as usize);
    let event = rows.alloc_events[row];
    Some(LiveRow {
        address: rows.addresses[row],
        bytes: rows.block_bytes[row],
        requested_bytes: rows.requested_bytes[row],
        stream: history.ranges.streams.get(range).copied().unwrap_or(0),
        alloc_event: (event != NONE).then_some(event.into()),
        stack: rows.stacks[row],
        live,
        pending: live & !allocated,
    })
}

/// Enters a stack of `trace` into `small`.
fn stack(trace: &Trace, stack: StackId, small: &mut Trace) -> StackId {
    let frames: Vec<FrameId> = trace
        .stacks
        .get(stack)
        .iter()
        .map(|&frame| {
            let frame = trace.frames.get(frame);
            let function = small.strings.intern(trace.strings.get(frame.function));
            let file = small.strings.intern(trace.strings.get(frame.file));
            small.frames.intern(Frame { function, file, ..frame })
        })
        .collect();
    small.stacks.intern(&frames)
}
