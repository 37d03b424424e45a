//! Allocations that stay: live at the end, or given back only when nothing was asked for any more.
//!
//! Owns that rule. A job that tears itself down frees its model last; what is freed after the last request
//! was there as long as anything happened. So were the temporaries of the last operation: hence what is
//! freed counts only when at least half of all requests came after its own.

use crate::rebuild::{History, NONE};

/// Rows of the allocations that stay, ascending.
#[must_use]
pub fn survivors(history: &History) -> Vec<usize> {
    let allocations = &history.allocations;
    let last_alloc = allocations.alloc_events.iter().copied().filter(|&event| event != NONE).max();
    let last_oom = history.ooms.last().map(|oom| oom.event as u32);
    let last_request = last_alloc.max(last_oom);
    let stays = |row: &usize| {
        let free = allocations.free_requested_events[*row].min(allocations.free_completed_events[*row]);
        free == NONE || (Some(free) > last_request && *row < allocations.len() / 2)
    };
    (0..allocations.len()).filter(stays).filter(|&row| was_allocated(history, row)).collect()
}

/// Whether `row` was not given back before the recording already.
fn was_allocated(history: &History, row: usize) -> bool {
    let pending = &history.allocations.initially_pending;
    pending.is_empty() || pending.binary_search(&(row as u32)).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;
    use crate::rebuild::rebuild;

    const A: u64 = 0x7f00_0000_0000;

    #[test]
    fn what_is_freed_after_the_last_request_stayed() {
        let trace = TraceBuilder::new()
            .segment_alloc(A, 2 << 20)
            .alloc(A, 512)
            .alloc(A + 512, 512)
            .free(A + 512, 512)
            .alloc(A + 1024, 512)
            .alloc(A + 2048, 512)
            .free(A, 512)
            .free(A + 2048, 512)
            .build();
        let history = rebuild(&trace, &trace.devices[0]);
        assert_eq!(survivors(&history), [0, 2], "the last is a temporary");
    }

    #[test]
    fn a_failed_request_is_a_request() {
        let trace = TraceBuilder::new().segment_alloc(A, 2 << 20).alloc(A, 512).free(A, 512).oom(1 << 30, 0);
        let trace = trace.build();
        assert!(survivors(&rebuild(&trace, &trace.devices[0])).is_empty());
    }
}
