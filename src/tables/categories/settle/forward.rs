//! What outlives a forward pass or an evaluation: activations and inputs.
//!
//! Owns how the two are told apart (an input is there before the first module is called), and what becomes of
//! passes that no backward pass consumes.

use crate::model::StackId;
use crate::rebuild::NONE;

use super::{Category, Kept, Phase, Settling, chosen};

/// In this many passes a stack must leave something behind for good, for it to be activations that are kept:
/// a single one may be a table that is made once.
const LEAST_PASSES: usize = 3;

impl Settling<'_, '_> {
    pub(super) fn forward(&mut self, kept: &[Kept]) {
        let open = chosen(kept, |kept| kept.born != NONE && self.is_open(kept));
        let consumed = chosen(&open, |kept| {
            self.phase(kept) == Phase::Forward && self.derived.runs.is_consumed(kept.born)
        });
        let piling_up = self.piling_up(&consumed);
        for kept in consumed {
            let piles_up = piling_up.binary_search(&self.stack(kept)).is_ok();
            let place = self.by_place(kept);
            // What a loop collects between its steps is no input; what is made once and stays may be anything.
            let is_told = match place {
                Category::Input => !piles_up && !self.is_lasting(kept),
                _ => piles_up || !self.is_lasting(kept),
            };
            if is_told {
                self.set(kept, place);
            }
        }
        for kept in open {
            let phase = self.phase(kept);
            let is_consumed = phase == Phase::Forward && self.derived.runs.is_consumed(kept.born);
            if !is_consumed && matches!(phase, Phase::Forward | Phase::Evaluation) {
                self.unconsumed(kept);
            }
        }
    }

    fn stack(&self, kept: Kept) -> StackId {
        self.history.allocations.stacks[kept.row as usize]
    }

    /// Whether it outlives the pass that consumes it and two more, or as many as there are left, but one.
    fn is_lasting(&self, kept: Kept) -> bool {
        let passes = self.derived.runs.passes_between(kept.born, kept.died);
        passes >= if kept.died == NONE { 2 } else { 3 }
    }

    fn by_place(&self, kept: Kept) -> Category {
        let before = self.derived.runs.is_before_calls(kept.born, self.alloc_event(kept));
        if before == Some(true) { Category::Input } else { Category::Activation }
    }

    /// The stacks that leave something for good in step after step, ascending.
    fn piling_up(&self, kept: &[Kept]) -> Vec<StackId> {
        let mut lasting = chosen(kept, |kept| self.is_lasting(kept));
        lasting.sort_by_key(|&kept| (self.stack(kept), kept.row));
        let alike = lasting.chunk_by(|&a, &b| self.stack(a) == self.stack(b));
        let piles_up = |alike: &&[Kept]| alike.chunk_by(|a, b| a.born == b.born).count() >= LEAST_PASSES;
        alike.filter(piles_up).map(|alike| self.stack(alike[0])).collect()
    }

    /// No backward pass follows: the recording or a failed request cut the pass off, or none was to come.
    fn unconsumed(&mut self, kept: Kept) {
        let runs = &self.derived.runs;
        let event = self.alloc_event(kept);
        let is_training = self.phase(kept) == Phase::Forward && runs.passes_between(NONE, kept.born) > 0;
        let failed = self.phases.runs.get(kept.born as usize).is_some_and(|run| run.ends_in_oom);
        let category = match runs.call_of(kept.born, event) {
            Some(_) if is_training && failed => Category::Activation,
            Some(call) if self.derived.records_graph(call, if is_training { 1 } else { 3 }) => {
                Category::Activation
            }
            Some(_) => Category::Unknown,
            None if !is_training => Category::Unknown,
            None => match runs.is_before_calls(kept.born, event) {
                Some(true) => Category::Input,
                None if !self.phases.calls.is_empty() => Category::Input,
                _ => Category::Activation,
            },
        };
        self.set(kept, category);
    }
}
