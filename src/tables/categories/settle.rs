//! What outlives the pass in which it was made: gradients, optimizer state, parameters, activations, inputs,
//! workspaces.
//!
//! Owns the rules for them, in the order in which one needs another: gradients are told by the backward pass,
//! parameters by the sizes of gradients, what was there before the recording by both.

use crate::model::DeviceTrace;
use crate::rebuild::{History, NONE};

use super::super::phases::Origin;
use super::super::{Phase, Phases};
use super::Category;
use super::derive::{Derived, Kept};
use super::sizes::{Sizes, size_of};

mod forward;
mod initial;
mod workspace;

/// Gives every kept allocation its category, where one can be told.
pub(super) fn settle(derived: &mut Derived<'_>, device: &DeviceTrace, history: &History, phases: &Phases) {
    let kept = std::mem::take(&mut derived.kept);
    let mut settling = Settling {
        derived,
        device,
        history,
        phases,
        anchors: Sizes::default(),
        gradients: Sizes::default(),
        states: Sizes::default(),
    };
    settling.workspaces(&kept, false);
    settling.find_anchors(&kept);
    settling.workspaces(&kept, true);
    let mut open = kept;
    open.retain(|&kept| settling.is_open(kept));
    settling.gradients(&open);
    settling.optimizer_states(&open);
    settling.parameters(&open);
    settling.forward(&open);
    settling.initial(&open);
}

/// A list of its own, so that categories can be set while it is gone through.
fn chosen(kept: &[Kept], is_wanted: impl Fn(Kept) -> bool) -> Vec<Kept> {
    kept.iter().copied().filter(|&kept| is_wanted(kept)).collect()
}

struct Settling<'a, 'd> {
    derived: &'a mut Derived<'d>,
    device: &'a DeviceTrace,
    history: &'a History,
    phases: &'a Phases,
    /// Sizes of what was there before the first backward pass and stays: parameters are among it.
    anchors: Sizes,
    /// Sizes of the gradients of the widest pass.
    gradients: Sizes,
    /// Sizes of the optimizer state that steps of the recording made.
    states: Sizes,
}

impl Settling<'_, '_> {
    fn set(&mut self, kept: Kept, category: Category) {
        self.derived.codes[kept.row as usize] = category as u8;
    }

    fn is_open(&self, kept: Kept) -> bool {
        self.derived.codes[kept.row as usize] == Category::Unknown as u8
    }

    fn size(&self, kept: Kept) -> u64 {
        size_of(&self.history.allocations, kept.row)
    }

    fn alloc_event(&self, kept: Kept) -> u32 {
        self.history.allocations.alloc_events[kept.row as usize]
    }

    fn phase(&self, kept: Kept) -> Phase {
        self.derived.runs.phase(kept.born)
    }

    fn origin(&self, kept: Kept) -> Origin {
        let stack = self.history.allocations.stacks[kept.row as usize].0 as usize;
        self.phases.evidence.get(stack).map_or(Origin::Unknown, |evidence| evidence.origin)
    }

    /// Whether it stays: to the end, past all backward passes, or over two of them.
    fn stays(&self, kept: Kept) -> bool {
        let runs = &self.derived.runs;
        kept.died == NONE
            || runs.passes_between(kept.died, NONE) == 0
            || runs.passes_between(kept.born, kept.died) >= 2
    }

    /// Whether it may have been put in place before training: what a forward pass makes must last to be that.
    fn may_be_model(&self, kept: Kept) -> bool {
        match self.phase(kept) {
            Phase::Loading | Phase::Unknown => true,
            Phase::Forward => self.derived.runs.passes_between(kept.born, kept.died) >= 2,
            _ => false,
        }
    }

    fn find_anchors(&mut self, kept: &[Kept]) {
        let first = self.derived.runs.first_pass();
        let is_anchor = |kept: &&Kept| {
            let is_before = kept.born == NONE || kept.born < first && self.may_be_model(**kept);
            let outlives = kept.died == NONE || (first != NONE && kept.died > first);
            is_before && outlives && self.stays(**kept) && self.is_open(**kept)
        };
        let mut anchors = Sizes::default();
        for &kept in kept.iter().filter(is_anchor) {
            anchors.add(self.size(kept));
        }
        self.anchors = anchors;
    }

    /// What a backward pass leaves behind is a gradient. What it leaves for good, or was cut off with, must
    /// have the size of something that was there before, as a gradient has the size of its parameter.
    fn gradients(&mut self, kept: &[Kept]) {
        let born = chosen(kept, |kept| self.phase(kept) == Phase::Backward);
        for pass in born.chunk_by(|a, b| a.born == b.born) {
            let (mut found, mut paired) = (Sizes::default(), Sizes::default());
            for &kept in pass {
                let size = self.size(kept);
                let is_paired = paired.count(size) < self.anchors.count(size);
                paired.add(size);
                let category = self.left_by_pass(kept, is_paired);
                if category == Category::Gradient {
                    found.add(size);
                }
                self.set(kept, category);
            }
            self.gradients.widen(&found);
        }
    }

    fn left_by_pass(&self, kept: Kept, is_paired: bool) -> Category {
        let runs = &self.derived.runs;
        if runs.is_unfinished(kept.born) {
            return if is_paired { Category::Gradient } else { Category::Temporary };
        }
        let later = runs.passes_between(kept.born, kept.died);
        let is_usual = if kept.died == NONE { later == 0 && runs.passes() > 1 } else { later < 2 };
        if is_usual || is_paired { Category::Gradient } else { Category::Unknown }
    }

    /// What a step makes and what does not go right after it is state. Where a step was cut off, frames must say
    /// so, if any do.
    fn optimizer_states(&mut self, kept: &[Kept]) {
        let born = chosen(kept, |kept| self.phase(kept) == Phase::Optimizer);
        for step in born.chunk_by(|a, b| a.born == b.born) {
            let first = step[0].born;
            let is_unfinished = self.derived.runs.is_unfinished(first);
            let tells = is_unfinished && step.iter().any(|&kept| self.origin(kept) == Origin::MadeState);
            let mut found = Sizes::default();
            for &kept in step {
                // What the step's own variables held goes right after it.
                let goes = kept.died == first + 1 && self.derived.runs.phase(kept.died) != Phase::Loading;
                let is_state = if tells { self.origin(kept) == Origin::MadeState } else { !goes };
                if is_state {
                    found.add(self.size(kept));
                }
                self.set(kept, if is_state { Category::OptimizerState } else { Category::Temporary });
            }
            self.states.widen(&found);
        }
    }

    /// What a module or an optimizer puts in place is told by frames; what stays and has the size of a
    /// gradient, or failing those of optimizer state, is a parameter: the first of that size, as many as there
    /// are gradients.
    fn parameters(&mut self, kept: &[Kept]) {
        let placed = chosen(kept, |kept| self.phase(kept) == Phase::Loading);
        let (loaded, placed): (Vec<Kept>, Vec<Kept>) =
            placed.into_iter().partition(|&kept| self.origin(kept) == Origin::LoadedState);
        for kept in loaded {
            self.set(kept, Category::OptimizerState);
            self.states.add(self.size(kept));
        }
        let mut wanted =
            if self.gradients.is_empty() { self.states.per_parameter() } else { self.gradients.clone() };
        for kept in placed {
            if self.origin(kept) == Origin::Module {
                self.set(kept, Category::Parameter);
                wanted.take(self.size(kept));
            }
        }
        let runs = &self.derived.runs;
        let (first_pass, first_step) = (runs.first_pass(), runs.next_optimizer(NONE));
        let before = first_pass.min(first_step);
        for &kept in kept {
            let may_be = kept.born != NONE
                && kept.born < before
                && self.may_be_model(kept)
                && self.is_open(kept)
                && self.stays(kept);
            if may_be && wanted.take(self.size(kept)) {
                self.set(kept, Category::Parameter);
            }
        }
    }
}
