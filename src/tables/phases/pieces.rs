//! The events of a device cut into pieces that say the same.
//!
//! Owns the order of the evidence for one event. What follows from neighbours belongs to `stretches`.

use crate::model::{Action, DeviceTrace, Trace};

use super::super::tags::{ModuleTags, Tag};
use super::Phase;
use super::evidence::{Says, StackEvidence};
use super::spans::{Cursor, annotated, marked};

/// What events say of themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    /// Nothing: their phase follows from their neighbours.
    Quiet,
    /// They have no Python frames, and no pass is known to be open.
    NoFrames,
    /// A phase.
    In(Phase),
}

/// Events one after the other that say the same. A piece ends where the next begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// First event.
    pub(super) begin: u32,
    pub(super) code: Code,
    /// How many of its events hand out a block.
    pub(super) allocs: u32,
    /// Its last event is a failed request.
    pub(super) ends_in_oom: bool,
}

impl Piece {
    pub(super) fn is(&self, phase: Phase) -> bool {
        self.code == Code::In(phase)
    }
}

/// Cuts the events of `device`.
pub(super) fn cut(
    trace: &Trace,
    device: &DeviceTrace,
    tags: &ModuleTags,
    evidence: &[StackEvidence],
) -> Vec<Piece> {
    let (marks, mut ranges) = (marked(trace, device), annotated(trace, device));
    if !marks.is_empty() {
        // The emitter knows training's phases; it does not know what the program calls evaluation.
        ranges.retain(|range| range.phase == Phase::Evaluation);
    }
    let (mut marks, mut ranges) = (Cursor(&marks), Cursor(&ranges));
    let events = &device.events;
    let mut threads = Threads::default();
    let mut pieces: Vec<Piece> = Vec::new();
    let mut span = None;
    for (event, (&stack, &action)) in events.stacks.iter().zip(&events.actions).enumerate() {
        let says = evidence.get(stack.0 as usize).map_or(Says::Nothing, |evidence| evidence.says);
        let seen = threads.next(says);
        let (mark, range) = (marks.at(event as u64), ranges.at(event as u64));
        let tag = tags.of_event(events, event);
        let code = mark
            .map_or_else(|| decide(seen, tag, range.map(|range| range.phase)), |mark| Code::In(mark.phase));
        // Two ranges of one phase, one right after the other, are two passes.
        let is_same_span = mark.or(range) == span;
        span = mark.or(range);
        let joins = |piece: &&mut Piece| piece.code == code && !piece.ends_in_oom && is_same_span;
        let allocs = u32::from(action == Action::Alloc);
        let ends_in_oom = action == Action::Oom;
        match pieces.last_mut().filter(joins) {
            Some(piece) => (piece.allocs, piece.ends_in_oom) = (piece.allocs + allocs, ends_in_oom),
            None => pieces.push(Piece { begin: event as u32, code, allocs, ends_in_oom }),
        }
    }
    hidden_passes(&mut pieces, &threads);
    pieces
}

/// Knows while going through the events whether the engine is at work.
#[derive(Default)]
struct Threads {
    is_open: bool,
    /// Whether an event without frames was ever seen inside an open pass.
    engine_seen: bool,
    /// Whether frames ever showed a module's call.
    calls_seen: bool,
}

impl Threads {
    /// A pass stays open over events without frames and those of the engine's own threads.
    #[inline]
    fn next(&mut self, says: Says) -> Code {
        match says {
            Says::NoFrames if self.is_open => {
                self.engine_seen = true;
                return Code::In(Phase::Backward);
            }
            Says::NoFrames => return Code::NoFrames,
            Says::Backward => return Code::In(Phase::Backward),
            Says::OpensBackward => self.is_open = true,
            _ => self.is_open = false,
        }
        self.calls_seen |= says == Says::Forward;
        match says {
            Says::OpensBackward => Code::In(Phase::Backward),
            Says::Forward => Code::In(Phase::Forward),
            Says::Optimizer => Code::In(Phase::Optimizer),
            Says::Loading => Code::In(Phase::Loading),
            _ => Code::Quiet,
        }
    }
}

/// The backward pass and the optimizer are told best by frames, then by tags, then by ranges; all else is
/// told best by ranges, save a module that is called while an optimizer steps: it has a closure.
fn decide(seen: Code, tag: Option<Tag>, range: Option<Phase>) -> Code {
    let tagged = tag.map(|tag| tag.phase);
    let works = |phase: &Phase| matches!(phase, Phase::Backward | Phase::Optimizer);
    match seen {
        Code::In(phase) if works(&phase) => seen,
        Code::In(Phase::Forward) if range == Some(Phase::Optimizer) => seen,
        _ => match tagged.filter(works).or(range).or(tagged) {
            Some(phase) => Code::In(phase),
            None => seen,
        },
    }
}

/// Only the engine's threads hand out blocks without Python frames, where frames were recorded at all. So it is
/// the engine where no opening event shows the pass: the calling thread allocated nothing, or on another device,
/// or before the recording began.
fn hidden_passes(pieces: &mut [Piece], threads: &Threads) {
    for (at, piece) in pieces.iter_mut().enumerate() {
        let is_engine = threads.calls_seen || (at == 0 && threads.engine_seen);
        if piece.code == Code::NoFrames && piece.allocs > 0 && is_engine {
            piece.code = Code::In(Phase::Backward);
        }
    }
}
