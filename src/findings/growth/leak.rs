//! Origins that leave blocks behind in a rhythm which has not ended.
//!
//! Owns the decision whether blocks that are kept are a leak. Its parts: the rhythm holds to the last step; the
//! blocks are older than others of the same origin ever get; it goes on as long as the loop does; that none was
//! released is no luck, although many origins were looked at; and nothing else shrinks as fast (blocks that
//! replace others are no growth).

use crate::findings::{Scene, compared};
use crate::tables::{Kept, LeftBehind, Origins, Pace, ReleasedLate, StepTable, left_behind};

use super::afterwards::that_go_on;
use super::bytes_of;
use super::chance::{of_any, probability};
use super::rhythm::{Rhythm, rhythm};
use super::slope::{Slope, slope};

/// Fewer steps cannot be told from chance.
pub(super) const LEAST_STEPS: usize = 6;
/// Where the program does not name its steps, a few more must be alike.
const LEAST_UNNAMED_STEPS: usize = 8;
/// That likely it may be, over all origins, that luck looks so.
const MOST_PROBABLE: f64 = 0.01;
/// Blocks of the same origin that are released late must be released within this part of the steps, and from
/// early on: a cache that begins to let go at the end is a cache.
const LATE_PART: usize = 8;
const EARLY_PART: usize = 3;
/// What shrinks at this part of the speed, in nearly every step, is being replaced.
const REPLACED_PART: f64 = 0.5;
const REPLACED_TAU: f64 = -0.9;

/// An origin that leaks.
#[derive(Clone, Debug)]
pub(in crate::findings) struct Leak {
    /// The origin.
    pub(in crate::findings) origin: u32,
    /// Rows of the blocks that are kept too long, in order of their steps.
    pub(in crate::findings) rows: Vec<usize>,
    /// The step of each.
    pub(in crate::findings) steps: Vec<usize>,
    /// When they are left behind.
    pub(in crate::findings) rhythm: Rhythm,
    /// How many blocks of this origin outlived their step and were released.
    pub(in crate::findings) released: u64,
    /// That likely it is that luck looks so, over all origins.
    pub(in crate::findings) probability: f64,
}

impl Leak {
    /// Bytes of its blocks.
    pub(in crate::findings) fn bytes(&self, scene: &Scene<'_>) -> u64 {
        bytes_of(scene, self.rows.iter().copied())
    }
}

/// Leaks, and how fast memory grows by them.
#[derive(Clone, Debug)]
pub(in crate::findings) struct Growth {
    /// The steps that were compared.
    pub(in crate::findings) pace: Pace,
    /// The leaks.
    pub(in crate::findings) leaks: Vec<Leak>,
    /// The first step with a leak.
    pub(in crate::findings) start: usize,
    /// How many origins were looked at.
    pub(in crate::findings) origins: u64,
    /// Growth of what the leaks keep.
    pub(in crate::findings) slope: Slope,
    /// Bytes that live through each step.
    pub(in crate::findings) floor_bytes: Vec<u64>,
}

/// Looks for leaks: over all steps, then over those of one kind; by stack, then, where that says nothing
/// although memory grows, by line.
pub(in crate::findings) fn find(scene: &Scene<'_>, steps: &StepTable) -> Option<Growth> {
    let least = if compared::are_named(scene) { LEAST_STEPS } else { LEAST_UNNAMED_STEPS };
    let paces = Pace::all(steps, scene.history, least);
    let sequences = paces.len() as u64;
    for pace in paces {
        let left = left_behind(scene.history, &pace, scene.origins());
        let leaks = that_go_on(scene, &pace, scene.origins(), leaks(scene, &pace, &left, sequences));
        if !leaks.is_empty() {
            if let Some(growth) = growth(scene, pace, left, leaks) {
                return Some(growth);
            }
        } else if rises(&left.floor_bytes) {
            let by_line = Origins::by_line(scene.lines);
            let left = left_behind(scene.history, &pace, &by_line);
            let leaks = that_go_on(scene, &pace, &by_line, self::leaks(scene, &pace, &left, sequences));
            if let Some(growth) = growth(scene, pace, left, leaks) {
                return Some(growth);
            }
        }
    }
    None
}

/// Whether the floor is higher at the end than halfway.
fn rises(floors: &[u64]) -> bool {
    floors.last() > floors.get(floors.len() / 2)
}

fn leaks(scene: &Scene<'_>, pace: &Pace, left: &LeftBehind, sequences: u64) -> Vec<Leak> {
    let tried = left.origins.saturating_mul(sequences);
    let of_origin = left.kept.chunk_by(|a, b| a.origin == b.origin);
    let leak = |kept: &[Kept]| {
        let late = left.released.get(kept.first()?.origin as usize).copied().unwrap_or_default();
        leak(scene, kept, late, pace.len(), tried)
    };
    of_origin.filter_map(leak).collect()
}

fn leak(scene: &Scene<'_>, kept: &[Kept], late: ReleasedLate, steps: usize, tried: u64) -> Option<Leak> {
    let last = steps.checked_sub(1)?;
    let settled = last.checked_sub((2 * late.oldest_steps as usize).max(1))?;
    let by_step = kept.chunk_by(|a, b| a.step == b.step);
    let counts: Vec<(usize, u32)> =
        by_step.filter_map(|kept| Some((kept.first()?.step as usize, kept.len() as u32))).collect();
    let rhythm = rhythm(&counts, settled, last)?;
    let looked_at = last + 1 - rhythm.start;
    let lets_go = late.blocks > 0
        && (late.oldest_steps as usize * LATE_PART > looked_at
            || late.first_step as usize > rhythm.start + looked_at / EARLY_PART);
    if lets_go {
        return None;
    }
    let (rows, steps) = counted(scene, kept, &rhythm);
    let chances = steps.iter().map(|step| (last - step).saturating_sub(1) as u64).sum();
    let probability = of_any(probability(chances, late.blocks, looked_at), tried);
    let origin = kept.first()?.origin;
    (probability < MOST_PROBABLE).then_some(Leak {
        origin,
        rows,
        steps,
        rhythm,
        released: late.blocks,
        probability,
    })
}

/// The blocks that belong to the rhythm: of a step with more, those whose size is most like the others'.
fn counted(scene: &Scene<'_>, kept: &[Kept], rhythm: &Rhythm) -> (Vec<usize>, Vec<usize>) {
    let bytes = |kept: &Kept| scene.history.allocations.block_bytes[kept.row as usize];
    let mut sizes: Vec<u64> = kept.iter().map(bytes).collect();
    sizes.sort_unstable();
    let usual = sizes.get(sizes.len() / 2).copied().unwrap_or_default();
    let (mut rows, mut steps) = (Vec::new(), Vec::new());
    for of_step in kept.chunk_by(|a, b| a.step == b.step) {
        let Some(step) = of_step.first().map(|kept| kept.step as usize) else { continue };
        let mut chosen = of_step.to_vec();
        chosen.sort_by_key(|kept| bytes(kept).abs_diff(usual));
        chosen.truncate(rhythm.expected(step) as usize);
        chosen.sort_unstable();
        rows.extend(chosen.iter().map(|kept| kept.row as usize));
        steps.extend(chosen.iter().map(|_| step));
    }
    (rows, steps)
}

/// The growth by all leaks together; `None` without any, or where the rest shrinks as fast.
fn growth(scene: &Scene<'_>, pace: Pace, left: LeftBehind, leaks: Vec<Leak>) -> Option<Growth> {
    let start = leaks.iter().map(|leak| leak.rhythm.start).min()?;
    let mut kept = vec![0u64; pace.len()];
    for leak in &leaks {
        for (&row, &step) in leak.rows.iter().zip(&leak.steps) {
            kept[step] = kept[step].saturating_add(scene.history.allocations.block_bytes[row]);
        }
    }
    for step in 1..kept.len() {
        kept[step] = kept[step].saturating_add(kept[step - 1]);
    }
    let speed = slope(&kept[start..])?;
    // What the leaks kept before a step lives through it.
    let rest: Vec<u64> =
        (start + 1..pace.len()).map(|step| left.floor_bytes[step].saturating_sub(kept[step - 1])).collect();
    let is_replaced = slope(&rest)
        .is_some_and(|rest| rest.tau <= REPLACED_TAU && rest.per_step <= -REPLACED_PART * speed.per_step);
    (!is_replaced).then_some(Growth {
        pace,
        leaks,
        start,
        origins: left.origins,
        slope: speed,
        floor_bytes: left.floor_bytes,
    })
}
