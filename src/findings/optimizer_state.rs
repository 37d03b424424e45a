//! State that an optimizer made in its first step: which allocations it is, and of which parameters.
//!
//! Owns the pairing of state with parameters by their sizes. Where they do not pair, nothing is said:
//! sharded or quantized state is no multiple of the parameters that this device holds.

use std::collections::BTreeMap;

use crate::model::StackId;
use crate::rebuild::{Moment, NONE};
use crate::tables::Maker;

use super::Scene;
use super::sizes::{Sizes, is_near, is_share};

/// More copies of the parameters than any common optimizer keeps.
const MOST_COPIES: u64 = 3;
/// What must fit, in percent: the rest may be scalars, or a layer that was added later.
const FITS_PERCENT: u64 = 90;

/// What a first step left behind.
#[derive(Debug)]
pub(super) struct OptimizerState {
    /// The state's allocations.
    pub(super) rows: Vec<usize>,
    /// Further copies of the parameters made in the same step, outside the optimizer.
    pub(super) shadows: Vec<usize>,
    /// How many times the parameters the state is.
    pub(super) copies: u64,
    /// Requested bytes of the parameters that have state.
    pub(super) parameter_bytes: u64,
    /// Requested bytes of the state.
    pub(super) state_bytes: u64,
    /// Whether sizes pair one by one; else only their sums do.
    pub(super) is_paired: bool,
    /// The event that made the first of it.
    pub(super) first: u64,
    /// The event that made the last of it.
    pub(super) last: u64,
}

impl OptimizerState {
    /// The state of `scene`'s first optimizer step; `None` when there is none, when it grew over several
    /// steps, or when it is no multiple of the parameters.
    pub(super) fn of(scene: &Scene<'_>) -> Option<Self> {
        let events = &scene.history.allocations.alloc_events;
        let is_state = |row: &usize| events[*row] != NONE && scene.maker(*row) == Maker::Optimizer;
        let all: Vec<usize> = scene.survivors().iter().copied().filter(is_state).collect();
        let first = u64::from(events[*all.first()?]);
        let end = end_of_first_steps(scene, first);
        let rows: Vec<usize> = all.iter().copied().filter(|&row| u64::from(events[row]) < end).collect();
        let (state, whole) = (Sizes::of(scene, &rows), Sizes::of(scene, &all));
        if !is_share(state.bytes(), whole.bytes(), FITS_PERCENT) {
            return None;
        }
        let (copies, of, is_paired) = candidates(scene, first)
            .iter()
            .find_map(|before| pair(scene, &rows, &state, &Sizes::of(scene, before)))?;
        let last = u64::from(events[*rows.last()?]);
        let shadows = shadows(scene, first, &of);
        let (parameter_bytes, state_bytes) = (of.bytes(), state.bytes());
        Some(Self { rows, shadows, copies, parameter_bytes, state_bytes, is_paired, first, last })
    }
}

/// The end of the step after the one of event `first`: with several optimizers, not all need have stepped in
/// the first. Without steps, the end of the optimizer's call.
fn end_of_first_steps(scene: &Scene<'_>, first: u64) -> u64 {
    let rows = &scene.steps.rows;
    let at = rows.partition_point(|row| row.end.0 <= first);
    match rows.get(at + 1).or(rows.get(at)).filter(|_| rows.get(at).is_some_and(|row| row.begin.0 <= first)) {
        Some(row) => row.end.0,
        None => end_of_call(scene, first),
    }
}

/// The first allocation after `first` that has frames and is not the optimizer's.
fn end_of_call(scene: &Scene<'_>, first: u64) -> u64 {
    let events = &scene.history.allocations.alloc_events;
    let later = (0..events.len()).filter(|&row| events[row] != NONE && u64::from(events[row]) > first);
    let ends_it = |row: &usize| !matches!(scene.maker(*row), Maker::Optimizer | Maker::Backward);
    later.filter(ends_it).map(|row| u64::from(events[row])).next().unwrap_or(scene.history.events)
}

/// What was there before the state, stays, and may be parameters: first what was there before any step (later
/// comers may be gradients), then all of it.
fn candidates(scene: &Scene<'_>, first: u64) -> [Vec<usize>; 2] {
    let may_be = |maker| matches!(maker, Maker::Unknown | Maker::Placement | Maker::Loader);
    let allocations = &scene.history.allocations;
    let live = |row: usize| allocations.is_allocated_at(row, Moment(first));
    let all = scene.survivors().iter().copied().filter(|&row| live(row) && may_be(scene.maker(row)));
    let all: Vec<usize> = all.collect();
    let begin = scene.steps.rows.first().map_or(Moment(0), |step| step.begin);
    let early = all.iter().copied().filter(|&row| allocations.is_allocated_at(row, begin)).collect();
    [early, all]
}

/// How many times the parameters the state is, the sizes of these, and whether they pair one by one.
fn pair(scene: &Scene<'_>, rows: &[usize], state: &Sizes, parameters: &Sizes) -> Option<(u64, Sizes, bool)> {
    let fits = |one: &Sizes| is_share(parameters.common(one).bytes(), one.bytes(), FITS_PERCENT);
    if let Some((copies, one)) = by_stack(scene, rows, state).filter(|(_, one)| fits(one)) {
        return (copies <= MOST_COPIES).then(|| (copies, parameters.common(&one), true));
    }
    let one_by_one = (1..=MOST_COPIES).find_map(|copies| {
        let one = state.part(copies);
        let whole = is_near(one.bytes().saturating_mul(copies), state.bytes());
        (whole && fits(&one)).then(|| (copies, parameters.common(&one), true))
    });
    one_by_one.or_else(|| {
        let sum = parameters.bytes();
        let copies = (1..=MOST_COPIES).find(|&copies| is_near(state.bytes(), sum.saturating_mul(copies)))?;
        Some((copies, parameters.clone(), false))
    })
}

/// Optimizers make each kind of state at a line of its own: as many lines of equal sizes as copies.
fn by_stack(scene: &Scene<'_>, rows: &[usize], state: &Sizes) -> Option<(u64, Sizes)> {
    let mut stacks: BTreeMap<StackId, Vec<usize>> = BTreeMap::new();
    for &row in rows {
        stacks.entry(scene.history.allocations.stacks[row]).or_default().push(row);
    }
    let groups: Vec<Sizes> = stacks.values().map(|rows| Sizes::of(scene, rows)).collect();
    let one = groups.iter().max_by_key(|group| group.bytes())?;
    let is_equal = |group: &&Sizes| {
        let common = one.common(group).bytes();
        is_share(common, one.bytes(), FITS_PERCENT) && is_share(common, group.bytes(), FITS_PERCENT)
    };
    let copies = groups.iter().filter(is_equal).count() as u64;
    let is_whole = is_near(one.bytes().saturating_mul(copies), state.bytes());
    (copies >= 2 && is_whole).then(|| (copies, one.clone()))
}

/// What else appeared in the state's step with the sizes of the parameters: a shadow copy of them.
fn shadows(scene: &Scene<'_>, first: u64, parameters: &Sizes) -> Vec<usize> {
    let steps = &scene.steps.rows;
    let at = steps.partition_point(|row| row.end.0 <= first);
    let Some(step) = steps.get(at).filter(|row| row.begin.0 <= first) else { return Vec::new() };
    let events = &scene.history.allocations.alloc_events;
    let is_here = |row: usize| events[row] != NONE && (first..step.end.0).contains(&u64::from(events[row]));
    let may_be = |maker| matches!(maker, Maker::Unknown | Maker::Copy | Maker::Placement);
    let rows = scene.survivors().iter().copied().filter(|&row| is_here(row) && may_be(scene.maker(row)));
    let rows: Vec<usize> = rows.collect();
    let copy = Sizes::of(scene, &rows).common(parameters);
    if is_share(copy.bytes(), parameters.bytes(), FITS_PERCENT) {
        copy.pick(scene, &rows)
    } else {
        Vec::new()
    }
}
