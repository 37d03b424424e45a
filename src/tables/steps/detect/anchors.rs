//! Tokens that come back at even distances, grouped by how often.
//!
//! Owns the first sieve. Does not own whether the rounds between two occurrences are alike (`verify`).

use std::ops::Range;

use super::tape::Tape;
use super::{FEWEST_ALLOCATIONS, FEWEST_ROUNDS};

/// A candidate for the position at which rounds are cut.
#[derive(Clone, Debug)]
pub(super) struct Anchor {
    pub(super) token: u32,
    /// Where it occurs, ascending.
    pub(super) positions: Vec<u32>,
    /// Live bytes before it, on average over all occurrences but the first.
    floor: i64,
}

/// Anchors to try, by how often they occur: the most frequent first. Anchors of a group occur about equally often.
/// Within a group, those of the count that most tokens share come first, then those at the lowest floor.
pub(super) fn groups(tape: &Tape, range: &Range<usize>) -> Vec<Vec<Anchor>> {
    let mut anchors = even(tape, range);
    anchors.sort_by_key(|anchor| (std::cmp::Reverse(anchor.positions.len()), anchor.token));
    let mut groups: Vec<Vec<Anchor>> = Vec::new();
    for anchor in anchors {
        match groups.last_mut() {
            Some(group) if anchor.positions.len() * 3 >= group[0].positions.len() * 2 => group.push(anchor),
            _ => groups.push(vec![anchor]),
        }
    }
    groups.into_iter().map(chosen).collect()
}

/// Counts to try of a group, and anchors to try of the count that most tokens share.
const MOST_COUNTS: usize = 4;
const OF_THE_FIRST: usize = 3;

fn chosen(group: Vec<Anchor>) -> Vec<Anchor> {
    let floors = || group.iter().map(|anchor| anchor.floor);
    let lowest = floors().min().unwrap_or(0);
    let tolerance = floors().max().unwrap_or(0).saturating_sub(lowest) / 100;
    let mut counts: Vec<Vec<Anchor>> = Vec::new();
    for anchor in group {
        match counts.last_mut() {
            Some(same) if same[0].positions.len() == anchor.positions.len() => same.push(anchor),
            _ => counts.push(vec![anchor]),
        }
    }
    // Equally low is what differs by a hundredth of the range; of these the one that is first met begins.
    let order = |anchor: &Anchor| {
        let low = anchor.floor.saturating_sub(lowest) <= tolerance;
        (!low, if low { i64::from(anchor.positions[0]) } else { anchor.floor }, anchor.token)
    };
    counts.sort_by_key(|same| std::cmp::Reverse(same.len()));
    let mut anchors = Vec::new();
    for (place, mut same) in counts.into_iter().take(MOST_COUNTS).enumerate() {
        same.sort_by_key(order);
        same.truncate(if place == 0 { OF_THE_FIRST } else { 1 });
        anchors.append(&mut same);
    }
    anchors
}

/// Whether `gap` is a usual one where `median` is.
pub(super) fn is_usual(gap: u32, median: u32) -> bool {
    let (gap, median) = (u64::from(gap), u64::from(median));
    gap * 8 >= median * 5 && gap * 5 <= median * 8
}

/// Tokens with at least [`FEWEST_ROUNDS`] occurrences of which seven in ten stand at the usual distance.
fn even(tape: &Tape, range: &Range<usize>) -> Vec<Anchor> {
    let tokens = &tape.tokens[range.clone()];
    let mut ends = vec![0_u32; tape.facts.len() + 1];
    for &token in tokens {
        ends[token as usize + 1] += 1;
    }
    for index in 1..ends.len() {
        ends[index] += ends[index - 1];
    }
    let starts = ends.clone();
    let mut positions = vec![0_u32; tokens.len()];
    for (position, &token) in (range.start as u32..).zip(tokens) {
        let slot = &mut ends[token as usize];
        positions[*slot as usize] = position;
        *slot += 1;
    }
    let mut gaps = Vec::new();
    let mut anchors = Vec::new();
    for token in 0..tape.facts.len() {
        let positions = &positions[starts[token] as usize..starts[token + 1] as usize];
        if positions.len() >= FEWEST_ROUNDS && is_even(positions, &mut gaps) {
            anchors.push(Anchor {
                token: token as u32,
                positions: positions.to_vec(),
                floor: floor(tape, &positions[1..]),
            });
        }
    }
    anchors
}

fn is_even(positions: &[u32], gaps: &mut Vec<u32>) -> bool {
    gaps.clear();
    gaps.extend(positions.windows(2).map(|pair| pair[1] - pair[0]));
    let middle = gaps.len() / 2;
    let (_, &mut median, _) = gaps.select_nth_unstable(middle);
    let usual = gaps.iter().filter(|&&gap| is_usual(gap, median)).count();
    median >= FEWEST_ALLOCATIONS && usual * 10 >= (gaps.len() * 7).min((gaps.len() - 1) * 10)
}

fn floor(tape: &Tape, positions: &[u32]) -> i64 {
    let sum: i128 = positions.iter().map(|&position| i128::from(tape.live[position as usize])).sum();
    (sum / positions.len().max(1) as i128) as i64
}
