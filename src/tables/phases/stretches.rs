//! What follows from the order of things: events between a pass and the next belong to a forward pass, to an
//! evaluation, or to what lies around them.
//!
//! Owns that inference. A *stretch* is all that lies between two pieces whose phase is known otherwise than as
//! a module's call. The forward pass of training is what a backward pass consumes: it begins with the first
//! allocation that the pass frees.

use crate::model::StackId;
use crate::rebuild::{History, NONE};

use super::Phase;
use super::pieces::{Code, Piece};

/// A piece whose phase is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settled {
    pub(super) begin: u32,
    pub(super) phase: Phase,
    /// Frames, marks or ranges say that a module is being called.
    pub(super) is_call: bool,
    pub(super) ends_in_oom: bool,
}

/// Pieces `first..last` between two others.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    first: usize,
    last: usize,
    before: Option<Phase>,
    after: Option<Phase>,
}

/// A stretch that a backward pass follows.
#[derive(Clone, Copy, Debug)]
struct Training {
    stretch: Stretch,
    /// How many blocks it hands out, and how many of them before the first that the pass frees.
    allocs: u32,
    lead: u32,
}

/// How much of the allocations of a usual training stretch must come on top before it counts as evaluation.
const EVALUATION_SHARE: u32 = 4;
/// One stretch in so many may hold an evaluation: what comes oftener is part of training.
const RARE: usize = 3;
/// Stretches whose stacks stand for training's.
const MOST_SAMPLED: usize = 8;

/// Gives every piece its phase. `stacks` are those of the events.
pub(super) fn settle(pieces: &[Piece], history: &History, stacks: &[StackId]) -> Vec<Settled> {
    let mut settling = Settling {
        pieces,
        history,
        stacks,
        phases: pieces.iter().map(|piece| own_phase(piece.code)).collect(),
        cuts: Vec::new(),
        knows_calls: pieces.iter().any(|piece| piece.is(Phase::Forward)),
    };
    settling.run();
    settling.done()
}

fn own_phase(code: Code) -> Phase {
    match code {
        Code::In(phase) => phase,
        Code::Quiet | Code::NoFrames => Phase::Unknown,
    }
}

struct Settling<'a> {
    pieces: &'a [Piece],
    history: &'a History,
    stacks: &'a [StackId],
    phases: Vec<Phase>,
    /// `(piece, event, phase)`: the part of the piece before the event has that phase. Ascending.
    cuts: Vec<(usize, u32, Phase)>,
    /// Whether any frame shows a module's call.
    knows_calls: bool,
}

impl Settling<'_> {
    fn run(&mut self) {
        let stretches = self.stretches();
        let mut training: Vec<Training> = Vec::new();
        for &stretch in &stretches {
            let calls = self.has_calls(stretch.first..stretch.last);
            match (stretch.before, stretch.after) {
                (Some(Phase::Backward), Some(Phase::Backward)) if self.allocs(stretch) == 0 => {
                    self.fill(stretch, Phase::Backward);
                }
                (_, Some(Phase::Backward)) => {
                    self.fill(stretch, Phase::Forward);
                    training.push(self.training(stretch));
                }
                (Some(Phase::Backward | Phase::Optimizer), Some(Phase::Optimizer)) if !calls => {
                    self.fill(stretch, Phase::Optimizer);
                }
                (Some(Phase::Loading), Some(Phase::Loading)) if !calls => self.fill(stretch, Phase::Loading),
                _ => {}
            }
        }
        let Some(&first) = training.first() else { return };
        self.loading_before(first.stretch);
        self.evaluations(&training);
        let is_last = |stretch: &&Stretch| stretch.after.is_none() && stretch.first > first.stretch.first;
        if let Some(&stretch) = stretches.last().filter(is_last) {
            self.trailing(stretch, &training);
        }
    }

    /// Pieces that say nothing or that a module is being called, as far as they follow each other.
    fn stretches(&self) -> Vec<Stretch> {
        let is_open = |at: usize| {
            own_phase(self.pieces[at].code) == Phase::Unknown || self.pieces[at].is(Phase::Forward)
        };
        let known = |at: usize| self.pieces.get(at).map(|piece| own_phase(piece.code));
        let mut found = Vec::new();
        let mut first = 0;
        while first < self.pieces.len() {
            let last = (first..self.pieces.len()).find(|&at| !is_open(at)).unwrap_or(self.pieces.len());
            if last > first {
                let before = first.checked_sub(1).and_then(known);
                found.push(Stretch { first, last, before, after: known(last) });
            }
            first = last.max(first + 1);
        }
        found
    }

    fn has_calls(&self, pieces: std::ops::Range<usize>) -> bool {
        self.pieces[pieces].iter().any(|piece| piece.is(Phase::Forward))
    }

    fn allocs(&self, stretch: Stretch) -> u32 {
        self.pieces[stretch.first..stretch.last].iter().fold(0, |sum, piece| sum.saturating_add(piece.allocs))
    }

    fn fill(&mut self, stretch: Stretch, phase: Phase) {
        self.phases[stretch.first..stretch.last].fill(phase);
    }

    fn begin(&self, piece: usize) -> u32 {
        self.pieces.get(piece).map_or(self.stacks.len() as u32, |piece| piece.begin)
    }

    /// Allocations of the events `from..to`: event and row.
    fn allocations(&self, from: u32, to: u32) -> impl Iterator<Item = (u32, usize)> {
        let rows = &self.history.allocations;
        (from..to).filter_map(move |event| {
            let row = *self.history.allocation_of_event.get(event as usize)?;
            (rows.alloc_events.get(row as usize) == Some(&event)).then_some((event, row as usize))
        })
    }

    fn freed_at(&self, row: usize) -> u32 {
        let rows = &self.history.allocations;
        rows.given_back_event(row)
    }

    /// Measures a stretch that a backward pass follows, from behind the last failed request.
    fn training(&self, stretch: Stretch) -> Training {
        let failed = self.pieces[stretch.first..stretch.last].iter().rposition(|piece| piece.ends_in_oom);
        let stretch = failed.map_or(stretch, |at| Stretch {
            first: stretch.first + at + 1,
            before: Some(Phase::Forward),
            ..stretch
        });
        let pass_end = (stretch.last..self.pieces.len()).find(|&at| !self.pieces[at].is(Phase::Backward));
        let is_cut_off = pass_end.is_none_or(|at| self.pieces[at - 1].ends_in_oom);
        let pass = self.begin(stretch.last)..self.begin(pass_end.unwrap_or(self.pieces.len()));
        let allocs = self.allocs(stretch);
        let mut born = self.allocations(self.begin(stretch.first), pass.start);
        let lead = born.position(|(_, row)| pass.contains(&self.freed_at(row)));
        // A pass that was cut off may not have come to free anything.
        let lead = lead.map_or(if is_cut_off { 0 } else { allocs }, |lead| lead as u32);
        Training { stretch, allocs, lead }
    }

    /// In a recording whose loading shows no frames of its own, the first blocks are what is put in place: those
    /// that stay to the end, up to the first that does not.
    fn loading_before(&mut self, stretch: Stretch) {
        if stretch.before.is_some() {
            return;
        }
        let quiet = (stretch.first..stretch.last).find(|&at| self.pieces[at].is(Phase::Forward));
        let until = self.begin(quiet.unwrap_or(stretch.last));
        let stays = |&(_, row): &(u32, usize)| self.freed_at(row) == NONE;
        let last = self.allocations(self.begin(stretch.first), until).take_while(stays).last();
        if let Some((event, _)) = last {
            self.split(stretch, event + 1, Phase::Loading);
        }
    }

    /// What comes on top of a usual stretch before its training begins is evaluation, if it is much, rare, and
    /// no backward pass consumes it later: networks that take turns do neither.
    fn evaluations(&mut self, training: &[Training]) {
        let usual = usual(training);
        let least = (usual.allocs / EVALUATION_SHARE).max(2);
        let has_more = |found: &&Training| found.lead.saturating_sub(usual.lead) >= least;
        let unusual: Vec<Training> = training[1..].iter().filter(has_more).copied().collect();
        if unusual.len() * RARE > training.len() {
            return;
        }
        for found in unusual {
            self.evaluation_before(found.stretch, found.lead - usual.lead);
        }
    }

    /// The first `extra` allocations of the stretch are an evaluation's.
    fn evaluation_before(&mut self, stretch: Stretch, extra: u32) {
        let (from, to) = (self.begin(stretch.first), self.begin(stretch.last));
        let boundary = self.allocations(from, to).nth(extra as usize).map_or(to, |(event, _)| event);
        let end =
            (stretch.first..stretch.last).find(|&at| self.begin(at) >= boundary).unwrap_or(stretch.last);
        let is_call = !self.knows_calls || self.has_calls(stretch.first..end);
        let is_consumed = |(_, row): (u32, usize)| self.is_in_pass(self.freed_at(row));
        if is_call && !self.allocations(from, boundary).any(is_consumed) {
            self.split(stretch, boundary, Phase::Evaluation);
        }
    }

    fn is_in_pass(&self, event: u32) -> bool {
        let behind = self.pieces.partition_point(|piece| piece.begin <= event);
        event != NONE && behind.checked_sub(1).is_some_and(|at| self.pieces[at].is(Phase::Backward))
    }

    /// What no backward pass follows: a forward pass that was cut off, an evaluation, or the end of a program.
    fn trailing(&mut self, stretch: Stretch, training: &[Training]) {
        let usual_allocs = usual(training).allocs;
        let mut first = stretch.first;
        for at in stretch.first..stretch.last {
            if self.pieces[at].ends_in_oom {
                self.phases[first..=at].fill(Phase::Forward);
                first = at + 1;
            }
        }
        let rest = Stretch { first, ..stretch };
        let allocs = self.allocs(rest);
        if allocs == 0 {
            return;
        }
        let known = self.stacks_of(training);
        let events = self.allocations(self.begin(first), self.begin(stretch.last));
        let alike = events.filter(|&(event, _)| known[self.stacks[event as usize].0 as usize]).count();
        let is_cut_off =
            alike as u64 * 2 >= u64::from(allocs) && u64::from(allocs) * 2 <= u64::from(usual_allocs) * 3;
        if is_cut_off {
            self.fill(rest, Phase::Forward);
        } else if self.has_calls(first..stretch.last) || !self.knows_calls && allocs >= usual_allocs / 2 {
            self.fill(rest, Phase::Evaluation);
        }
    }

    /// Which stacks allocate in the forward passes of training.
    fn stacks_of(&self, training: &[Training]) -> Vec<bool> {
        let highest = self.stacks.iter().map(|stack| stack.0 as usize).max().unwrap_or(0);
        let mut known = vec![false; highest + 1];
        for found in training.iter().rev().take(MOST_SAMPLED) {
            let events = self.allocations(self.begin(found.stretch.first), self.begin(found.stretch.last));
            for (event, _) in events.skip(found.lead as usize) {
                known[self.stacks[event as usize].0 as usize] = true;
            }
        }
        known
    }

    /// Gives the part of `stretch` before `event` another phase.
    fn split(&mut self, stretch: Stretch, event: u32, phase: Phase) {
        for at in stretch.first..stretch.last {
            if self.begin(at + 1) <= event {
                self.phases[at] = phase;
            } else if self.begin(at) < event {
                self.cuts.push((at, event, phase));
            }
        }
    }

    fn done(self) -> Vec<Settled> {
        let mut cuts = self.cuts.into_iter().peekable();
        let mut settled = Vec::with_capacity(self.pieces.len());
        for (at, (piece, &phase)) in self.pieces.iter().zip(&self.phases).enumerate() {
            let is_call = piece.is(Phase::Forward) || piece.is(Phase::Evaluation);
            let whole = Settled { begin: piece.begin, phase, is_call, ends_in_oom: piece.ends_in_oom };
            match cuts.next_if(|cut| cut.0 == at) {
                Some((_, event, before)) => {
                    settled.push(Settled { phase: before, ends_in_oom: false, ..whole });
                    settled.push(Settled { begin: event, ..whole });
                }
                None => settled.push(whole),
            }
        }
        settled
    }
}

/// The usual stretch: medians over all but the first, which also sees what happens once.
fn usual(training: &[Training]) -> Training {
    let mut usual = training[0];
    let rest = &training[1..];
    if !rest.is_empty() {
        usual.allocs = median(rest.iter().map(|found| found.allocs).collect());
        usual.lead = median(rest.iter().map(|found| found.lead).collect());
    }
    usual
}

/// The upper one of two.
fn median(mut values: Vec<u32>) -> u32 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}
