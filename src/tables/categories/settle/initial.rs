//! What was there before the recording: told by when it goes, and by sizes.
//!
//! Owns that rule. Which of two equally large ones is the parameter and which its state cannot be told; how
//! many of each there are can.

use crate::rebuild::NONE;

use super::{Category, Kept, Origin, Phase, Settling, chosen};

impl Settling<'_, '_> {
    pub(super) fn initial(&mut self, kept: &[Kept]) {
        let mut staying: Vec<(u64, Kept)> = Vec::new();
        for kept in chosen(kept, |kept| kept.born == NONE && self.is_open(kept)) {
            let origin = self.origin(kept);
            if origin == Origin::Module {
                self.set(kept, Category::Parameter);
            } else if matches!(origin, Origin::MadeState | Origin::LoadedState) {
                self.set(kept, Category::OptimizerState);
            } else if self.stays(kept) && self.derived.runs.phase(kept.died) != Phase::Optimizer {
                staying.push((self.size(kept), kept));
            } else {
                self.set(kept, self.leaving(kept));
            }
        }
        staying.sort_by_key(|&(size, kept)| (size, kept.row));
        for alike in staying.chunk_by(|a, b| a.0 == b.0) {
            self.share_out(alike);
        }
    }

    /// It goes in the first backward pass: an activation. Of a gradient's size, it goes in a step if a step
    /// makes its state anew, and else when gradients are dropped.
    fn leaving(&self, kept: Kept) -> Category {
        let is_paired = self.gradients.count(self.size(kept)) > 0;
        match self.derived.runs.phase(kept.died) {
            Phase::Backward => Category::Activation,
            Phase::Optimizer if is_paired => Category::OptimizerState,
            _ if is_paired => Category::Gradient,
            _ => Category::Unknown,
        }
    }

    /// Of equally large ones that stay, as many are parameters as there are gradients; the rest is state, if an
    /// optimizer steps, makes none of that size itself, and the rest is a multiple.
    fn share_out(&mut self, alike: &[(u64, Kept)]) {
        let size = alike[0].0;
        let parameters = self.gradients.count(size) as usize;
        if parameters == 0 {
            return;
        }
        let steps = self.derived.runs.next_optimizer(NONE) != NONE;
        let rest = alike.len().saturating_sub(parameters);
        let is_state = steps && self.states.count(size) == 0 && rest.is_multiple_of(parameters);
        for (at, &(_, kept)) in alike.iter().enumerate() {
            if at < parameters {
                self.set(kept, Category::Parameter);
            } else if is_state {
                self.set(kept, Category::OptimizerState);
            }
        }
    }
}
