//! Histories for the tests of this folder: blocks of whole 512 bytes, no other rule of the allocator.

use std::collections::BTreeMap;

use crate::model::{Action, StackId, Trace};
use crate::rebuild::{History, Moment, NONE, Peaks, Usage};

/// What happened on the only device of `trace`, with one allocation of `initial` (address, bytes, stack)
/// from before the recording for each entry.
pub(super) fn replay(trace: &Trace, initial: &[(u64, u64, StackId)]) -> History {
    let mut history = History::default();
    let mut usage = Usage::default();
    let mut live = BTreeMap::new();
    for &(address, bytes, stack) in initial {
        live.insert(address, push(&mut history, address, bytes, NONE, stack));
        usage.allocated_bytes += bytes;
        usage.active_bytes += bytes;
    }
    history.initial = usage;
    history.peaks = Peaks::starting_at(usage, Moment(0));
    let events = &trace.devices[0].events;
    for index in 0..events.len() {
        let event = events.get(index);
        let at = index as u32;
        let row = match event.action {
            Action::Alloc => {
                let bytes = event.size.max(1).next_multiple_of(512);
                live.insert(event.address, push(&mut history, event.address, bytes, at, event.stack));
                usage.allocated_bytes += bytes;
                usage.active_bytes += bytes;
                live[&event.address]
            }
            Action::FreeRequested => {
                let row = live[&event.address];
                history.allocations.free_requested_events[row as usize] = at;
                usage.allocated_bytes -= history.allocations.block_bytes[row as usize];
                row
            }
            Action::FreeCompleted => {
                let row = live.remove(&event.address).unwrap();
                history.allocations.free_completed_events[row as usize] = at;
                usage.active_bytes -= history.allocations.block_bytes[row as usize];
                row
            }
            _ => NONE,
        };
        history.allocation_of_event.push(row);
        history.peaks.raise(usage, Moment::after(index as u64));
    }
    history.events = events.len() as u64;
    history.end = usage;
    history
}

fn push(history: &mut History, address: u64, bytes: u64, event: u32, stack: StackId) -> u32 {
    let rows = &mut history.allocations;
    rows.addresses.push(address);
    rows.requested_bytes.push(bytes);
    rows.block_bytes.push(bytes);
    rows.alloc_events.push(event);
    rows.free_requested_events.push(NONE);
    rows.free_completed_events.push(NONE);
    rows.stacks.push(stack);
    rows.ranges.push(NONE);
    rows.addresses.len() as u32 - 1
}
