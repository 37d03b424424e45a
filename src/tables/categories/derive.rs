//! The pass over allocations: what a life within one pass says, and who outlives it.
//!
//! Owns what can be said of an allocation by itself. Those that outlive the pass in which they were made are
//! handed on to `settle`.

use crate::rebuild::{History, NONE};

use super::super::phases::Origin;
use super::super::{Phase, Phases};
use super::Category;
use super::runs::Runs;

/// An allocation that outlives the run in which it was made, or was there before the recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    /// Row in the history.
    pub(super) row: u32,
    /// Run of its `alloc` event; [`NONE`] before the recording.
    pub(super) born: u32,
    /// Run of its free; [`NONE`] while it is live at the end.
    pub(super) died: u32,
}

/// Allocations made within one call of a module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CallCount {
    pub(super) made: u32,
    /// How many of them outlive the call.
    pub(super) kept: u32,
}

/// What the pass found.
pub(super) struct Derived<'a> {
    /// By row: the category's number.
    pub(super) codes: Vec<u8>,
    pub(super) kept: Vec<Kept>,
    pub(super) runs: Runs<'a>,
    /// By call, for those that no backward pass consumes.
    pub(super) calls: Vec<CallCount>,
}

/// Goes through the allocations of `history`.
pub(super) fn derive<'a>(history: &History, phases: &'a Phases) -> Derived<'a> {
    let rows = &history.allocations;
    let mut derived = Derived {
        codes: vec![Category::Unknown as u8; rows.len()],
        kept: Vec::new(),
        runs: Runs::new(phases),
        calls: vec![CallCount::default(); phases.calls.len()],
    };
    let mut last = 0;
    for row in 0..rows.len() {
        let stack = rows.stacks[row].0 as usize;
        if phases.evidence.get(stack).is_some_and(|evidence| evidence.origin == Origin::Workspace) {
            derived.codes[row] = Category::Workspace as u8;
            continue;
        }
        let (alloc, freed) = (rows.alloc_events[row], rows.given_back_event(row));
        let born = if alloc == NONE { NONE } else { derived.runs.locate(alloc, last) };
        let died = if freed == NONE { NONE } else { derived.runs.locate(freed, born) };
        if born != NONE {
            last = born;
        }
        match derived.within(born, died, alloc, freed) {
            Some(category) => derived.codes[row] = category as u8,
            None => derived.kept.push(Kept { row: row as u32, born, died }),
        }
    }
    derived
}

impl Derived<'_> {
    /// The category of an allocation that lives within one pass; `None` for one that outlives it.
    fn within(&mut self, born: u32, died: u32, alloc: u32, freed: u32) -> Option<Category> {
        let phase = self.runs.phase(born);
        let is_over = born != NONE && born == died;
        match phase {
            Phase::Backward | Phase::Optimizer | Phase::Loading => is_over.then_some(Category::Temporary),
            Phase::Forward if self.runs.is_consumed(born) => is_over.then_some(Category::Temporary),
            Phase::Forward | Phase::Evaluation => self.within_call(born, is_over, alloc, freed),
            Phase::Unknown => is_over.then_some(Category::Unknown),
        }
    }

    /// Where no backward pass tells a forward pass's end, a call's end does.
    fn within_call(&mut self, born: u32, is_over: bool, alloc: u32, freed: u32) -> Option<Category> {
        let Some(call) = self.runs.call_of(born, alloc) else {
            let is_told = self.runs.phase(born) == Phase::Evaluation
                || self.runs.passes_between(NONE, born) > 0
                || self.runs.is_before_calls(born, alloc).is_none();
            return is_over.then_some(if is_told { Category::Temporary } else { Category::Unknown });
        };
        let count = &mut self.calls[call];
        count.made += 1;
        if u64::from(freed) < self.runs.phases.calls[call].end {
            return Some(Category::Temporary);
        }
        count.kept += 1;
        None
    }

    /// Whether call `call` kept as much as one that records a graph: a third of its allocations outlive it. One
    /// without a graph keeps its results, and perhaps a cache.
    pub(super) fn records_graph(&self, call: usize, least: u32) -> bool {
        let count = self.calls[call];
        count.made >= least && count.kept.saturating_mul(3) >= count.made
    }
}
