//! Bytes and allocations of every stack: live at a moment, and over the whole recording.
//!
//! Owns the sums that every profile (flame graphs, pprof, speedscope) is made of. They count blocks, rounding
//! included, so that they add up to PyTorch's allocated bytes. Does not own who is to blame for an allocation
//! (`group`): a stack stands as it was recorded, nothing is inferred.

use crate::model::StackId;
use crate::rebuild::{History, Moment};

/// What one recorded stack allocated, in bytes of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackTotal {
    /// Stack of the `alloc` events; [`StackId::NONE`] gathers the allocations that have none.
    pub stack: StackId,
    /// Bytes allocated (handed out, not given back) at the moment asked for.
    pub live_bytes: u64,
    /// Allocations among them.
    pub live_allocations: u64,
    /// Bytes of all allocations, those from before the recording included.
    pub total_bytes: u64,
    /// Number of all allocations.
    pub allocations: u64,
}

/// Every stack that allocated anything, ascending by number; [`StackId::NONE`] comes last. `live_bytes` add up
/// to the device's allocated bytes at `moment`.
#[must_use]
pub fn stack_totals(history: &History, moment: Moment) -> Vec<StackTotal> {
    let allocations = &history.allocations;
    let stacks = allocations.stacks.iter().map(|stack| stack.0 as usize + 1).max().unwrap_or(0);
    let mut totals: Vec<StackTotal> = (0..stacks)
        .map(|stack| StackTotal { stack: StackId(stack as u32), ..StackTotal::default() })
        .collect();
    for (row, &stack) in allocations.stacks.iter().enumerate() {
        let (bytes, total) = (allocations.block_bytes[row], &mut totals[stack.0 as usize]);
        total.total_bytes = total.total_bytes.saturating_add(bytes);
        total.allocations += 1;
        if allocations.is_allocated_at(row, moment) {
            total.live_bytes = total.live_bytes.saturating_add(bytes);
            total.live_allocations += 1;
        }
    }
    totals.retain(|total| total.allocations > 0);
    if totals.first().is_some_and(|total| total.stack == StackId::NONE) {
        totals.rotate_left(1);
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Trace, TraceBuilder};
    use crate::rebuild::rebuild;

    const A: u64 = 0x7000_0000_0000;

    fn trace() -> Trace {
        TraceBuilder::new()
            .segment_alloc(A, 2 << 20)
            .alloc(A, 100)
            .at("a.py", 1, "f")
            .alloc(A + 512, 1000)
            .at("b.py", 2, "g")
            .alloc(A + 1536, 512)
            .free(A + 1536, 512)
            .at("a.py", 1, "f")
            .alloc(A + 1536, 1)
            .at("c.py", 3, "never allocates")
            .free(A + 512, 1000)
            .build()
    }

    fn figures(moment: Moment) -> Vec<(u32, u64, u64, u64, u64)> {
        let trace = trace();
        let history = rebuild(&trace, &trace.devices[0]);
        let row = |row: StackTotal| {
            (row.stack.0, row.live_bytes, row.live_allocations, row.total_bytes, row.allocations)
        };
        stack_totals(&history, moment).into_iter().map(row).collect()
    }

    #[test]
    fn blocks_are_counted_and_what_has_no_stack_comes_last() {
        let peak = [(1, 1024, 1, 1536, 2), (2, 512, 1, 512, 1), (0, 512, 1, 512, 1)];
        assert_eq!(figures(Moment(4)), peak);
        let end = [(1, 512, 1, 1536, 2), (2, 0, 0, 512, 1), (0, 512, 1, 512, 1)];
        assert_eq!(figures(Moment(9)), end);
    }

    #[test]
    fn live_bytes_are_the_allocated_bytes_of_every_moment() {
        let trace = trace();
        let history = rebuild(&trace, &trace.devices[0]);
        let live = |moment| stack_totals(&history, moment).iter().map(|row| row.live_bytes).sum::<u64>();
        assert_eq!(live(history.peaks.allocated.moment), history.peaks.allocated.bytes);
        assert_eq!(live(Moment(history.events)), history.end.allocated_bytes);
        assert_eq!(live(Moment(0)), 0);
    }

    #[test]
    fn a_recording_without_allocations_has_no_stacks() {
        assert_eq!(stack_totals(&History::default(), Moment(0)), []);
    }
}
