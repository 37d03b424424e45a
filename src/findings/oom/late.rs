//! Frees that completed while a request was already failing.
//!
//! Before it gives up, the allocator waits for every stream, so blocks that were pending become free within
//! the very call; then it asks the driver once more, but does not search its free blocks again (PyTorch issue
//! 189504). A block that appears this way and would have served the request explains a failure that a second
//! try does not repeat.

use crate::model::{Action, DeviceTrace, StackId};
use crate::rebuild::{History, NONE};

/// Addresses, ascending, of the blocks whose late free completed in the call that failed at `event`.
pub(super) fn freed_within_call(device: &DeviceTrace, history: &History, event: u64) -> Vec<u64> {
    let mut late = Vec::new();
    let events = &device.events;
    let stack = |index: usize| events.stacks.get(index).copied().unwrap_or(StackId::NONE);
    let end = (event as usize).min(events.len());
    for index in (0..end).rev() {
        match events.actions[index] {
            Action::FreeCompleted => {
                let row = history.allocation_of_event.get(index).copied().unwrap_or(NONE) as usize;
                let Some(&requested) = history.allocations.free_requested_events.get(row) else { continue };
                // An ordinary free completes in the next event and with the same stack; one that the failing
                // call completed has that call's.
                let waited = u64::from(requested) + 1 < index as u64;
                let is_the_calls = stack(index) != StackId::NONE && stack(index) == stack(end);
                if waited || (is_the_calls && stack(requested as usize) != stack(index)) {
                    late.push(history.allocations.addresses[row]);
                }
            }
            Action::SegmentFree | Action::SegmentUnmap => {}
            _ => break,
        }
    }
    late.sort_unstable();
    late
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;
    use crate::rebuild::rebuild;

    const A: u64 = 0x7f00_0000_0000;

    #[test]
    fn only_late_frees_right_before_the_failure_count() {
        let run = TraceBuilder::new().segment_alloc(A, 100 << 20);
        let run = run.alloc(A, 20 << 20).alloc(A + (20 << 20), 20 << 20).alloc(A + (40 << 20), 20 << 20);
        let run = run.free_requested(A + (20 << 20), 20 << 20).free_requested(A + (40 << 20), 20 << 20);
        let trace = run.free_completed(A + (40 << 20), 20 << 20).alloc(A + (40 << 20), 20 << 20);
        let trace = trace.free(A, 20 << 20).free_completed(A + (20 << 20), 20 << 20).oom(1 << 30, 0).build();
        let history = rebuild(&trace, &trace.devices[0]);
        let event = history.ooms[0].event;
        assert_eq!(freed_within_call(&trace.devices[0], &history, event), [A + (20 << 20)]);
    }

    #[test]
    fn a_free_in_the_next_event_is_late_with_the_failing_calls_stack_only() {
        let found = |completer: &str| {
            let run = TraceBuilder::new().at("a.py", 1, "f").segment_alloc(A, 20 << 20).alloc(A, 20 << 20);
            let run = run.free_requested(A, 20 << 20).at(completer, 2, "g").free_completed(A, 20 << 20);
            let trace = run.at("b.py", 2, "g").oom(1 << 30, 0).build();
            let history = rebuild(&trace, &trace.devices[0]);
            freed_within_call(&trace.devices[0], &history, history.ooms[0].event).len()
        };
        assert_eq!((found("b.py"), found("c.py")), (1, 0));
    }
}
