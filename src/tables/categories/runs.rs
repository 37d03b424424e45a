//! Runs of phases as categories ask for them: which run an event lies in, how many backward passes lie between
//! two, and what became of a forward pass.
//!
//! Owns look-ups only.

use crate::rebuild::NONE;

use super::super::{Phase, Phases};

/// Phases with what is counted over them.
pub(super) struct Runs<'a> {
    pub(super) phases: &'a Phases,
    /// Backward passes among the runs before each, and in all.
    passes: Vec<u32>,
    /// The first run of an optimizer at or behind each run; [`NONE`] where none follows.
    optimizers: Vec<u32>,
}

impl<'a> Runs<'a> {
    pub(super) fn new(phases: &'a Phases) -> Self {
        let runs = &phases.runs;
        let mut passes = vec![0; runs.len() + 1];
        for (at, run) in runs.iter().enumerate() {
            // A failed request cuts a pass in two.
            let goes_on = at > 0 && runs[at - 1].phase == run.phase;
            passes[at + 1] = passes[at] + u32::from(run.phase == Phase::Backward && !goes_on);
        }
        let mut optimizers = vec![NONE; runs.len() + 1];
        for at in (0..runs.len()).rev() {
            let is_one = runs[at].phase == Phase::Optimizer;
            optimizers[at] = if is_one { at as u32 } else { optimizers[at + 1] };
        }
        Self { phases, passes, optimizers }
    }

    /// The phase of a run; unknown for [`NONE`].
    pub(super) fn phase(&self, run: u32) -> Phase {
        self.phases.runs.get(run as usize).map_or(Phase::Unknown, |run| run.phase)
    }

    /// The run of `event`, which is `near` or one behind it if `near` is a run.
    #[inline]
    pub(super) fn locate(&self, event: u32, near: u32) -> u32 {
        let is_near = |run: u32| {
            self.phases.runs.get(run as usize).is_some_and(|run| run.events.contains(&u64::from(event)))
        };
        if is_near(near) {
            return near;
        }
        if is_near(near.wrapping_add(1)) {
            return near.wrapping_add(1);
        }
        self.phases.run_of_event(event.into()).map_or(NONE, |run| run as u32)
    }

    /// Backward passes that begin behind run `born` ([`NONE`]: before all) and up to run `died` ([`NONE`]: to
    /// the end).
    pub(super) fn passes_between(&self, born: u32, died: u32) -> u32 {
        let count = |run: u32, none: usize| {
            self.passes.get(if run == NONE { none } else { run as usize + 1 }).copied().unwrap_or(0)
        };
        count(died, self.phases.runs.len()).saturating_sub(count(born, 0))
    }

    /// Backward passes of the whole recording.
    pub(super) fn passes(&self) -> u32 {
        self.passes.last().copied().unwrap_or(0)
    }

    /// The first backward pass.
    pub(super) fn first_pass(&self) -> u32 {
        let first = self.phases.runs.iter().position(|run| run.phase == Phase::Backward);
        first.map_or(NONE, |run| run as u32)
    }

    /// The first run of an optimizer behind `run`.
    pub(super) fn next_optimizer(&self, run: u32) -> u32 {
        let behind = if run == NONE { 0 } else { run as usize + 1 };
        self.optimizers.get(behind).copied().unwrap_or(NONE)
    }

    /// Whether a backward pass consumes what run `run` made.
    pub(super) fn is_consumed(&self, run: u32) -> bool {
        let ended = self.phases.runs.get(run as usize).is_none_or(|run| run.ends_in_oom);
        !ended && self.phase(run.wrapping_add(1)) == Phase::Backward
    }

    /// Whether run `run` was cut off: by a failed request, or by the end of the recording.
    pub(super) fn is_unfinished(&self, run: u32) -> bool {
        let failed = self.phases.runs.get(run as usize).is_some_and(|run| run.ends_in_oom);
        failed || run as usize + 1 == self.phases.runs.len()
    }

    /// The call within run `run` that holds `event`: an index in [`Phases::calls`].
    pub(super) fn call_of(&self, run: u32, event: u32) -> Option<usize> {
        let within = &self.phases.runs.get(run as usize)?.calls;
        let calls = self.phases.calls.get(within.clone())?;
        let at = calls.partition_point(|call| call.start <= u64::from(event)).checked_sub(1)?;
        calls[at].contains(&u64::from(event)).then_some(within.start + at)
    }

    /// Whether `event` lies before the first call within run `run`; `None` when it has no call.
    pub(super) fn is_before_calls(&self, run: u32, event: u32) -> Option<bool> {
        let within = &self.phases.runs.get(run as usize)?.calls;
        let first = self.phases.calls.get(within.clone())?.first()?;
        Some(u64::from(event) < first.start)
    }
}
