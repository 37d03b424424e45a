//! Phases: what the process was doing at every event, as far as the recording says.
//!
//! Owns the order of the evidence and the runs of equal phase. What one stack says belongs to `evidence`,
//! marks and annotations to `spans`, and what follows from the order of things to `stretches`. Does not own
//! steps: a phase needs none.
//!
//! The evidence, best first: the emitter's marks; frames of PyTorch's that stand for the backward pass or for
//! an optimizer, and events without frames inside an open backward pass; the emitter's tags; `record_function`
//! ranges that name a phase; frames of a module's call or of loading. What says nothing itself takes the phase
//! of what it lies between: before a backward pass lies its forward pass.

mod evidence;
mod pieces;
mod spans;
mod stretches;

#[cfg(test)]
pub(in crate::tables) mod samples;
#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::model::{DeviceTrace, Trace};
use crate::rebuild::{History, Moment};

use super::Grouping;

pub(in crate::tables) use evidence::{Origin, StackEvidence};
use stretches::Settled;

/// What the process was doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// The forward pass of training, its inputs and its loss included; a forward pass at all where the
    /// recording has no backward pass.
    Forward = 0,
    /// The backward pass, what it recomputes included.
    Backward = 1,
    /// The optimizer's step, and what lies between the backward pass and it: unscaling, clipping.
    Optimizer = 2,
    /// Model, optimizer and checkpoints are put in place.
    Loading = 3,
    /// Forward passes beside those of training: no backward pass follows them.
    Evaluation = 4,
    /// Nothing says.
    #[default]
    Unknown = 5,
}

impl Phase {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Optimizer => "optimizer",
            Self::Loading => "loading",
            Self::Evaluation => "evaluation",
            Self::Unknown => "unknown",
        }
    }
}

/// Events of one phase, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseRun {
    /// The phase.
    pub phase: Phase,
    /// The events.
    pub events: Range<u64>,
    /// Whether it ends with a failed request: what was under way did not come to its end.
    pub ends_in_oom: bool,
    /// In [`Phases::calls`]: the calls of modules within it, for runs forward or in evaluation.
    pub calls: Range<usize>,
}

/// The phases of one device.
#[derive(Clone, Debug, Default)]
pub struct Phases {
    /// Every event is in exactly one run, in order. Two runs of one phase follow each other only where a
    /// request failed between them.
    pub runs: Vec<PhaseRun>,
    /// Stretches of events inside a call of a module (or of `torch.nn.functional`), as frames, marks or ranges
    /// say. Calls right after one another may be one stretch.
    pub calls: Vec<Range<u64>>,
    /// What every stack says, by stack number.
    pub(in crate::tables) evidence: Vec<StackEvidence>,
}

/// The phases of `device`: one pass over its events.
#[must_use]
pub fn phases(trace: &Trace, device: &DeviceTrace, history: &History, grouping: &Grouping) -> Phases {
    let evidence = evidence::of_stacks(trace, &grouping.facts);
    let pieces = pieces::cut(trace, device, &grouping.modules.tags, &evidence);
    let mut phases = Phases { evidence, ..Phases::default() };
    let events = device.events.len() as u64;
    let settled = stretches::settle(&pieces, history, &device.events.stacks);
    for (index, piece) in settled.iter().enumerate() {
        let end = settled.get(index + 1).map_or(events, |next| next.begin.into());
        phases.extend(*piece, end);
    }
    phases
}

impl Phases {
    /// The phase of event `event`; [`Phase::Unknown`] for one that is not there.
    #[must_use]
    pub fn of_event(&self, event: u64) -> Phase {
        self.run_of_event(event).map_or(Phase::Unknown, |run| self.runs[run].phase)
    }

    /// The phase in which the last event before `moment` lies; that of the first event before all of them.
    #[must_use]
    pub fn at(&self, moment: Moment) -> Phase {
        self.of_event(moment.event().unwrap_or(0))
    }

    /// The index in [`Phases::runs`] of the run that holds `event`.
    #[must_use]
    pub fn run_of_event(&self, event: u64) -> Option<usize> {
        let behind = self.runs.partition_point(|run| run.events.start <= event);
        behind.checked_sub(1).filter(|&run| event < self.runs[run].events.end)
    }

    /// Whether any event is of `phase`.
    #[must_use]
    pub fn has(&self, phase: Phase) -> bool {
        self.runs.iter().any(|run| run.phase == phase)
    }

    fn extend(&mut self, piece: Settled, end: u64) {
        let begin = u64::from(piece.begin);
        let joins = |run: &&mut PhaseRun| run.phase == piece.phase && !run.ends_in_oom;
        match self.runs.last_mut().filter(joins) {
            Some(run) => (run.events.end, run.ends_in_oom) = (end, piece.ends_in_oom),
            None => self.runs.push(PhaseRun {
                phase: piece.phase,
                events: begin..end,
                ends_in_oom: piece.ends_in_oom,
                calls: self.calls.len()..self.calls.len(),
            }),
        }
        if piece.is_call && matches!(piece.phase, Phase::Forward | Phase::Evaluation) {
            self.calls.push(begin..end);
            if let Some(run) = self.runs.last_mut() {
                run.calls.end = self.calls.len();
            }
        }
    }
}
