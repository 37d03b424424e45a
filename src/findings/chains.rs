//! Tensors that grow by copying themselves: chains of allocations of one stack, each a little larger than the
//! one before, which is freed just after.
//!
//! Owns the search for such chains. Whether they matter is for the rule `grow-by-copy`.

use std::collections::BTreeMap;

use crate::model::StackId;
use crate::rebuild::{History, NONE};

/// How many events may lie between the larger copy and the end of the smaller one.
const CLOSE_EVENTS: u32 = 64;
/// How many of a stack's latest allocations may be the copy.
const LATEST: usize = 4;

/// A chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    /// Whose allocations they are.
    pub(crate) stack: StackId,
    /// Rows of the history's allocations, smallest first.
    pub(crate) rows: Vec<u32>,
    /// By how many requested bytes each is larger than the one before.
    pub(crate) step_bytes: u64,
}

/// Chains of at least `least` allocations, in order of their last one. One pass over the events; a few bytes
/// per allocation.
pub(crate) fn chains(history: &History, least: usize) -> Vec<Chain> {
    let rows = history.allocations.len();
    let mut search = Search { history, latest: BTreeMap::new(), grown_from: vec![NONE; rows] };
    // A row is freed at the event of its own number: events tell in which order rows are born and die.
    for (event, &row) in history.allocation_of_event.iter().enumerate() {
        if row != NONE {
            search.take(event as u32, row);
        }
    }
    search.finished(least)
}

struct Search<'a> {
    history: &'a History,
    /// The latest allocations of every stack, newest last.
    latest: BTreeMap<u32, Vec<u32>>,
    /// By row: of which other it is the larger copy, or [`NONE`].
    grown_from: Vec<u32>,
}

impl Search<'_> {
    fn take(&mut self, event: u32, row: u32) {
        let rows = &self.history.allocations;
        let index = row as usize;
        let stack = rows.stacks[index];
        if stack == StackId::NONE {
            return;
        }
        if rows.alloc_events[index] == event {
            let latest = self.latest.entry(stack.0).or_default();
            if latest.len() == LATEST {
                latest.remove(0);
            }
            latest.push(row);
        } else if rows.given_back_event(index) == event {
            self.died(event, row, stack);
        }
    }

    /// `row` dies: is one of its stack's latest allocations its larger copy?
    fn died(&mut self, event: u32, row: u32, stack: StackId) {
        let rows = &self.history.allocations;
        let size = rows.requested_bytes[row as usize];
        let is_copy = |&&copy: &&u32| {
            let copy_index = copy as usize;
            copy > row
                && rows.requested_bytes[copy_index] > size
                && rows.free_completed_events[copy_index] > event
                && event - rows.alloc_events[copy_index].min(event) <= CLOSE_EVENTS
                && self.grown_from[copy_index] == NONE
        };
        let latest = self.latest.get(&stack.0).map_or(&[][..], Vec::as_slice);
        let copy = latest.iter().filter(is_copy).min_by_key(|&&copy| rows.requested_bytes[copy as usize]);
        if let Some(&copy) = copy {
            self.grown_from[copy as usize] = row;
        }
    }

    /// By how much `row` is larger than what it was copied from; `None` for a row that was not.
    fn growth(&self, row: u32) -> Option<u64> {
        let sizes = &self.history.allocations.requested_bytes;
        let from = *self.grown_from.get(row as usize)?;
        (from != NONE).then(|| sizes[row as usize].saturating_sub(sizes[from as usize]))
    }

    /// Follows the links; where the growth changes a new chain begins.
    fn finished(&self, least: usize) -> Vec<Chain> {
        let mut lengths = vec![1_u32; self.grown_from.len()];
        let mut goes_on = vec![false; self.grown_from.len()];
        for row in 0..self.grown_from.len() as u32 {
            // What a row was copied from has a lower number: its length is known.
            let Some(growth) = self.growth(row) else { continue };
            let from = self.grown_from[row as usize];
            let continues = self.growth(from) == Some(growth);
            goes_on[from as usize] |= continues;
            lengths[row as usize] = if continues { lengths[from as usize] + 1 } else { 2 };
        }
        let ends = (0..lengths.len()).filter(|&row| !goes_on[row] && lengths[row] as usize >= least.max(2));
        ends.map(|row| self.chain(row as u32, lengths[row])).collect()
    }

    /// The chain of `length` rows that ends with `last`.
    fn chain(&self, last: u32, length: u32) -> Chain {
        let back = std::iter::successors(Some(last), |&row| Some(self.grown_from[row as usize]));
        let mut rows: Vec<u32> = back.take(length as usize).collect();
        rows.reverse();
        let stack = self.history.allocations.stacks[last as usize];
        Chain { stack, rows, step_bytes: self.growth(last).unwrap_or(0) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;
    use crate::rebuild::rebuild;

    const MIB: u64 = 1 << 20;
    const A: u64 = 0x7f00_0000_0000;

    fn chains_of(trace: TraceBuilder) -> Vec<(usize, u64)> {
        let trace = trace.build();
        let history = rebuild(&trace, &trace.devices[0]);
        chains(&history, 3).iter().map(|chain| (chain.rows.len(), chain.step_bytes)).collect()
    }

    #[test]
    fn interleaved_chains_of_one_line_are_told_apart() {
        let mut builder = TraceBuilder::new().segment_alloc(A, 4096 * MIB).at("cache.py", 3, "append");
        let place = |which: u64, index: u64| A + (which * 1024 + (index % 2) * 512) * MIB;
        for which in 0..3 {
            builder = builder.alloc(place(which, 0), (10 + which * 100) * MIB);
        }
        for index in 1..6 {
            for which in 0..3 {
                let size = |index: u64| (10 + which * 100 + index * (which + 1)) * MIB;
                builder = builder.alloc(place(which, index), size(index));
                builder = builder.free(place(which, index - 1), size(index - 1));
            }
        }
        assert_eq!(chains_of(builder), [(6, MIB), (6, 2 * MIB), (6, 3 * MIB)]);
    }

    #[test]
    fn buffers_that_come_and_go_do_not_grow() {
        let mut builder = TraceBuilder::new().segment_alloc(A, 4096 * MIB).at("step.py", 3, "forward");
        for index in 0..8 {
            builder = builder.alloc(A, (100 + index) * MIB).free(A, (100 + index) * MIB);
        }
        assert!(chains_of(builder).is_empty());
    }
}
