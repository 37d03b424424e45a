//! Whether the rounds between the occurrences of an anchor are alike, and hold what a step holds.
//!
//! Owns the tests and their thresholds. Does not own which of several valid periods is the step (`levels`).

use std::ops::Range;

use super::anchors::{Anchor, is_usual};
use super::tape::Tape;
use super::{FEWEST_ALLOCATIONS, FEWEST_ROUNDS, FEWEST_TOKENS};

/// A verified period.
#[derive(Debug)]
pub(super) struct Cycle {
    /// The token that begins each round.
    pub(super) token: u32,
    /// Positions on the tape where rounds begin.
    pub(super) starts: Vec<u32>,
    /// End of the range, or what the longest usual last round can reach.
    pub(super) end: u32,
    /// Allocations of a usual round.
    pub(super) length: u32,
    /// Rounds alike, of a thousand.
    alike: usize,
    /// Whether rounds hold a backward pass or an optimizer's work.
    pub(super) trains: bool,
    usual: Usual,
}

impl Cycle {
    /// Whether `token` allocates in at least every second round.
    pub(super) fn is_usual(&self, token: u32) -> bool {
        self.usual.is_usual(token)
    }
}

/// Of a thousand rounds so many must be alike, if there are more than four. Beyond it, more rounds are better than
/// more alike ones: evaluations in between differ.
const ALIKE: usize = 750;

/// Groups of anchors that are tried at all, and full comparisons: a bound on the work, far above what real
/// recordings need.
const MOST_GROUPS: usize = 32;
const MOST_COMPARISONS: usize = 24;

/// Of each group the best verified period, most rounds first. The list ends with the first period of training
/// rounds: coarser ones are no steps.
pub(super) fn passing(
    tape: &Tape,
    sizes: &[u64],
    range: &Range<usize>,
    groups: &[Vec<Anchor>],
) -> Vec<Cycle> {
    let mut verifier = Verifier { tape, sizes, range, comparisons: 0, counts: vec![0; tape.facts.len()] };
    let mut cycles = Vec::new();
    for group in groups.iter().take(MOST_GROUPS) {
        let found = group.iter().filter_map(|anchor| verifier.cycle(anchor));
        let better = |best: Cycle, cycle: Cycle| {
            let rank = |cycle: &Cycle| (cycle.alike.min(ALIKE), cycle.starts.len());
            if rank(&cycle) > rank(&best) { cycle } else { best }
        };
        let Some(cycle) = found.reduce(better) else { continue };
        let trains = cycle.trains;
        cycles.push(cycle);
        if trains {
            break;
        }
    }
    cycles
}

struct Verifier<'a> {
    tape: &'a Tape,
    sizes: &'a [u64],
    range: &'a Range<usize>,
    comparisons: usize,
    /// Scratch of [`Verifier::similarity`]: all zero between calls.
    counts: Vec<u32>,
}

impl Verifier<'_> {
    fn cycle(&mut self, anchor: &Anchor) -> Option<Cycle> {
        let starts = &anchor.positions;
        let (first, last) = (*starts.first()?, *starts.last()?);
        let mut gaps: Vec<u32> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let middle = gaps.len() / 2;
        let length = *gaps.select_nth_unstable(middle).1;
        let reach = u64::from(last) + u64::from(length) * 8 / 5;
        let end = reach.min(self.range.end as u64) as u32;
        let rounds = Rounds { starts, end };
        let covered: u64 = gaps.iter().filter(|&&gap| is_usual(gap, length)).map(|&gap| u64::from(gap)).sum();
        let extent = u64::from(last - first);
        let (pass, update) = (holds(&self.tape.passes, &rounds), holds(&self.tape.updates, &rounds));
        let trains = pass == Some(true) || update == Some(true);
        let share = (extent + u64::from(length)) * 2 >= self.range.len() as u64;
        if pass == Some(false)
            || update == Some(false)
            || !(share || trains)
            || covered * 2 < extent
            || self.comparisons >= MOST_COMPARISONS
        {
            return None;
        }
        self.comparisons += 1;
        let usual = Usual::of(self.tape, &rounds, length);
        let starts = &starts[self.set_up(&rounds, &usual)..];
        let first = *starts.first()?;
        let alike = self.alike(&Rounds { starts, end }, &usual)?;
        let enough = usual.tokens().count() >= FEWEST_TOKENS && length >= FEWEST_ALLOCATIONS;
        let within = self.tape.is_within_a_call(usual.tokens());
        let valid = enough && !within && self.gives_back(first, last);
        valid.then(|| Cycle {
            token: anchor.token,
            starts: starts.to_vec(),
            end,
            length,
            alike,
            trains,
            usual,
        })
    }

    /// How many rounds at the beginning hold no usual one: there the anchor occurs in setting up.
    fn set_up(&mut self, rounds: &Rounds, usual: &Usual) -> usize {
        rounds.iter().take_while(|round| !self.similarity(round, usual).is_contained()).count()
    }

    /// How many rounds of a thousand are alike: three quarters must be, at least [`FEWEST_ROUNDS`].
    fn alike(&mut self, rounds: &Rounds, usual: &Usual) -> Option<usize> {
        let whole = rounds.starts.len().checked_sub(1).filter(|&whole| whole > 0)?;
        let (mut alike, mut allocations) = (0, 0_u64);
        for round in rounds.iter().take(whole) {
            if self.similarity(&round, usual).is_alike() {
                alike += 1;
                allocations += u64::from(round.end - round.start);
            }
        }
        let last = rounds.iter().last().is_some_and(|round| self.similarity(&round, usual).is_contained());
        let extent = u64::from(rounds.starts[whole] - rounds.starts[0]);
        let enough = alike + usize::from(last) >= FEWEST_ROUNDS
            && alike + (whole / 4).max(1) >= whole
            && allocations * 2 >= extent;
        enough.then_some(alike * 1000 / whole)
    }

    fn similarity(&mut self, round: &Range<u32>, usual: &Usual) -> Similarity {
        let tokens = &self.tape.tokens[round.start as usize..round.end as usize];
        for &token in tokens {
            self.counts[token as usize] += 1;
        }
        let mut common = 0;
        for &token in tokens {
            let count = std::mem::take(&mut self.counts[token as usize]);
            common += (u64::from(count) * usual.rounds).min(u64::from(usual.counts[token as usize]));
        }
        Similarity { common, round: tokens.len() as u64 * usual.rounds, usual: usual.total }
    }

    /// A loop that builds a model keeps what it allocates; a step gives most of it back.
    fn gives_back(&self, first: u32, last: u32) -> bool {
        let (first, last) = (first as usize, last as usize);
        let events = &self.tape.events[first..last];
        let given: u128 = events.iter().map(|&event| u128::from(self.sizes[event as usize])).sum();
        let kept = i128::from(self.tape.live[last]) - i128::from(self.tape.live[first]);
        kept <= 0 || kept.unsigned_abs() * 10 <= given * 6
    }
}

/// Whether all rounds but a quarter hold one of `marks`: those of a pass that failed, of the first step,
/// or of an evaluation may not. `None` where the recording shows hardly any.
fn holds(marks: &[u32], rounds: &Rounds) -> Option<bool> {
    let (from, to) = (rounds.starts[0], rounds.end);
    let after = |position: u32| marks.partition_point(|&mark| mark < position);
    if after(to) - after(from) < FEWEST_ROUNDS {
        return None;
    }
    let lacking = rounds.iter().filter(|round| after(round.start) == after(round.end)).count();
    Some(lacking <= (rounds.starts.len() / 4).max(1))
}

struct Rounds<'a> {
    starts: &'a [u32],
    end: u32,
}

impl Rounds<'_> {
    fn iter(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        let ends = self.starts.iter().skip(1).copied().chain([self.end]);
        self.starts.iter().copied().zip(ends).map(|(start, end)| start..end)
    }
}

/// How often each token allocates in rounds of the usual length, added up over these.
#[derive(Debug)]
struct Usual {
    counts: Vec<u32>,
    rounds: u64,
    total: u64,
}

impl Usual {
    fn of(tape: &Tape, rounds: &Rounds, length: u32) -> Self {
        let mut usual = Self { counts: vec![0; tape.facts.len()], rounds: 0, total: 0 };
        for round in rounds.iter().take(rounds.starts.len() - 1) {
            let allocations = round.end - round.start;
            if is_usual(allocations, length) {
                for &token in &tape.tokens[round.start as usize..round.end as usize] {
                    usual.counts[token as usize] += 1;
                }
                usual.rounds += 1;
                usual.total += u64::from(allocations);
            }
        }
        usual
    }

    fn is_usual(&self, token: u32) -> bool {
        u64::from(self.counts[token as usize]) * 2 >= self.rounds.max(1)
    }

    fn tokens(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.counts.len() as u32).filter(|&token| self.is_usual(token))
    }
}

/// A round against the usual one, all scaled by the number of usual rounds.
struct Similarity {
    common: u64,
    round: u64,
    usual: u64,
}

impl Similarity {
    /// Six tenths of what stands in either stands in both.
    fn is_alike(&self) -> bool {
        self.common * 10 >= (self.round + self.usual - self.common) * 6
    }

    /// Six tenths of the usual round are there, whatever follows them.
    fn is_contained(&self) -> bool {
        self.common * 10 >= self.usual * 6
    }
}
