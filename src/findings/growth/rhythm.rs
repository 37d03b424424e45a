//! The rhythm in which an origin leaves blocks behind.
//!
//! A loop that leaks does so alike in every round: one block per step, four per step, one in every second step.
//! What fills up and is full, a warm-up that stops, blocks that live by chance: all of them lose the rhythm
//! before the recording ends. So a rhythm must hold from its first step to the last.

/// How often blocks are left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::findings) struct Rhythm {
    /// The step of the first block that belongs to it.
    pub(in crate::findings) start: usize,
    /// Blocks expected of each step of one round, from `start` on. Empty when there is no round: blocks are
    /// left behind irregularly, but all the time.
    pub(in crate::findings) round: Vec<u32>,
    /// Whether also the number of blocks is the same in every round.
    pub(in crate::findings) is_constant: bool,
}

impl Rhythm {
    /// Blocks expected of step `step`; as many as there are where there is no round.
    pub(in crate::findings) fn expected(&self, step: usize) -> u32 {
        match step.checked_sub(self.start) {
            Some(_) if self.round.is_empty() => u32::MAX,
            Some(at) => self.round[at % self.round.len()],
            None => 0,
        }
    }
}

/// Fewer steps with blocks are no rhythm.
const LEAST_STEPS_WITH_BLOCKS: usize = 5;
/// A round is repeated at least so often, and is at most so long.
const LEAST_ROUNDS: usize = 3;
const LONGEST_ROUND: usize = 32;
/// A break this many times longer than the usual one begins anew.
const BREAK: usize = 3;
/// Of ten steps with blocks, so many may be out of rhythm.
const TENTHS_OUT_OF_RHYTHM: usize = 1;
/// Without a round, the recording must be long: caches fill irregularly, too.
const LEAST_IRREGULAR_STEPS: usize = 100;
const LEAST_IRREGULAR_STEPS_WITH_BLOCKS: usize = 50;

/// The rhythm of `kept`: pairs of a step and its number of kept blocks, ascending, none zero. `settled` is the
/// last step whose blocks would be gone by now if they were like the others of their origin, `last` the last
/// step of all.
pub(super) fn rhythm(kept: &[(usize, u32)], settled: usize, last: usize) -> Option<Rhythm> {
    in_rounds(kept, settled, last).or_else(|| unending(kept, settled, last))
}

/// The shortest round that is repeated up to the last step.
fn in_rounds(kept: &[(usize, u32)], settled: usize, last: usize) -> Option<Rhythm> {
    let start = unbroken(kept)?;
    let kept = &kept[kept.partition_point(|&(step, _)| step < start)..];
    let busy = kept.partition_point(|&(step, _)| step <= settled);
    let steps = last + 1 - start;
    let longest = (steps / LEAST_ROUNDS).min(LONGEST_ROUND);
    if busy < LEAST_STEPS_WITH_BLOCKS || steps > (busy + 1) * longest {
        return None;
    }
    let mut counts = vec![0; steps];
    for &(step, blocks) in kept {
        counts[step - start] = blocks;
    }
    let looked_at = &counts[..=settled - start];
    let few = |wrong: usize| wrong * 10 <= busy * TENTHS_OUT_OF_RHYTHM;
    for length in 1..=longest {
        let round = usual_round(looked_at, length);
        let expected = |at: usize| round[at % length];
        let wrong = |at: &usize| (counts[*at] > 0) != (expected(*at) > 0);
        let is_round = round.iter().any(|&blocks| blocks > 0);
        if is_round && few((0..looked_at.len()).filter(wrong).count()) {
            let goes_on = (steps - length..steps).all(|at| counts[at] > 0 || expected(at) == 0);
            let is_constant = few((0..looked_at.len()).filter(|&at| counts[at] != expected(at)).count());
            return goes_on.then_some(Rhythm { start, round, is_constant });
        }
    }
    None
}

/// The first step behind the last long break.
fn unbroken(kept: &[(usize, u32)]) -> Option<usize> {
    let gap = |pair: &[(usize, u32)]| pair[1].0 - pair[0].0;
    let mut gaps: Vec<usize> = kept.windows(2).map(gap).collect();
    gaps.sort_unstable();
    let usual = *gaps.get(gaps.len() / 2)?;
    let broken = kept.windows(2).rposition(|pair| gap(pair) > BREAK * usual);
    Some(kept[broken.map_or(0, |at| at + 1)].0)
}

/// For each step of a round of `length`: the median number of blocks.
fn usual_round(counts: &[u32], length: usize) -> Vec<u32> {
    let usual = |phase: usize| {
        let mut of_phase: Vec<u32> = counts.iter().skip(phase).step_by(length).copied().collect();
        of_phase.sort_unstable();
        of_phase.get(of_phase.len() / 2).copied().unwrap_or_default()
    };
    (0..length).map(usual).collect()
}

/// Blocks that are left behind all over a long recording, not more rarely in its second half.
fn unending(kept: &[(usize, u32)], settled: usize, last: usize) -> Option<Rhythm> {
    let busy = &kept[..kept.partition_point(|&(step, _)| step <= settled)];
    let (&(start, _), &(end, _), &(newest, _)) = (busy.first()?, busy.last()?, kept.last()?);
    let is_long = last + 1 - start >= LEAST_IRREGULAR_STEPS && start * 5 <= last;
    if !is_long || busy.len() < LEAST_IRREGULAR_STEPS_WITH_BLOCKS {
        return None;
    }
    let longest_gap = kept.windows(2).map(|pair| pair[1].0 - pair[0].0).max()?;
    // Steps spread evenly have their mean in the middle; the mean of n of them is off by this much.
    let (count, width) = (busy.len() as f64, (end - start) as f64);
    let mean = busy.iter().map(|&(step, _)| (step - start) as f64).sum::<f64>() / count;
    let off_by = width / (12.0 * count).sqrt();
    let goes_on = (mean - width / 2.0) / off_by >= -1.0 && last - newest < longest_gap;
    goes_on.then_some(Rhythm { start, round: Vec::new(), is_constant: false })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The rhythm of one block in each of `steps`, of `total` steps.
    fn of(steps: impl IntoIterator<Item = usize>, total: usize) -> Option<Rhythm> {
        let kept: Vec<_> = steps.into_iter().map(|step| (step, 1)).collect();
        rhythm(&kept, total - 2, total - 1)
    }

    fn round_of(steps: impl IntoIterator<Item = usize>, total: usize) -> Option<(usize, Vec<u32>)> {
        of(steps, total).map(|rhythm| (rhythm.start, rhythm.round))
    }

    #[test]
    fn one_block_in_every_first_second_or_third_step_is_a_rhythm() {
        assert_eq!(round_of(0..10, 10), Some((0, vec![1])));
        assert_eq!(round_of((0..60).step_by(2).chain([59]), 60), Some((0, vec![1, 0])));
        assert_eq!(round_of((2..30).step_by(3), 30), Some((2, vec![1, 0, 0])));
        assert!(of(0..10, 10).unwrap().is_constant);
    }

    #[test]
    fn an_evaluation_in_between_is_part_of_the_round() {
        assert_eq!(round_of((0..40).filter(|step| step % 5 != 4), 40), Some((0, vec![1, 1, 1, 1, 0])));
    }

    #[test]
    fn what_begins_late_is_seen_from_there() {
        assert_eq!(round_of([0].into_iter().chain(20..40), 40), Some((20, vec![1])));
    }

    #[test]
    fn what_stops_is_none() {
        for stop in [5, 20, 38, 39] {
            assert_eq!(of(0..stop, 40), None, "until {stop}");
        }
        assert_eq!(of((0..35).step_by(3), 60), None);
    }

    #[test]
    fn what_becomes_rare_or_comes_by_chance_is_none() {
        assert_eq!(of([0, 1, 2, 3, 5, 6, 9, 11, 14, 20, 27, 35], 40), None);
        assert_eq!(of([2, 3, 9, 10, 12, 17, 18, 22, 26, 27, 31, 36, 38], 40), None);
        assert_eq!(of([3, 17, 21, 38], 40), None);
    }

    #[test]
    fn a_number_of_blocks_that_varies_is_not_constant() {
        let kept: Vec<_> = (0..20).map(|step| (step, 1 + (step as u32 * 7) % 3)).collect();
        let found = rhythm(&kept, 18, 19).unwrap();
        assert!(!found.is_constant);
        assert_eq!((found.round.len(), found.expected(7) > 0), (1, true));
    }

    #[test]
    fn an_irregular_leak_needs_a_long_recording() {
        let steps = |total: usize| (0..total).filter(|&step| tossed(step));
        assert_eq!(of(steps(60), 60), None);
        let found = of(steps(400), 400).unwrap();
        assert!(found.start < 20 && found.round.is_empty() && !found.is_constant, "{found:?}");
        let becoming_rare = (0..400).filter(|&step| tossed(step) && step % (1 + step / 80) == 0);
        assert_eq!(of(becoming_rare, 400), None);
    }

    /// A coin tossed for each step (SplitMix64's mixing).
    fn tossed(step: usize) -> bool {
        let mut mixed = (step as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).is_multiple_of(2)
    }
}
