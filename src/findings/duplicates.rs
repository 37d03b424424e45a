//! Groups of allocations that stay and hold the same thing twice.
//!
//! Owns three ways to tell: what a load brought beside what was made elsewhere, DDP's buckets beside the
//! gradients, and autocast's half-size copies beside the parameters. Equal sizes alone prove nothing (an
//! optimizer's state, gradients and a shadow model are as large as the parameters), so each way asks for
//! evidence of who made the second group.

use std::collections::BTreeMap;

use crate::rebuild::{Moment, NONE};
use crate::tables::Maker;

use super::Scene;
use super::sizes::{Sizes, is_near, is_share};

/// Two groups are alike when this much of the smaller has its partner, in percent.
const ALIKE_PERCENT: u64 = 90;
/// A checkpoint holds the model and up to three more of its size: two moments and a shadow copy.
const MOST_PARTS: u64 = 4;
/// Groups below this are not worth a word.
const LEAST_BYTES: u64 = 1 << 20;
/// As many of the largest groups are compared: a hostile file may have a group for each line.
const MOST_GROUPS: usize = 32;
/// Half-size copies that cover less of the parameters are chance, in percent.
const COVERED_PERCENT: u64 = 50;
/// Half-size copies have outlived their step when their lines have allocated this often for each of them.
const ROUNDS: u64 = 3;

/// A group that holds what another group holds as well.
#[derive(Debug)]
pub(super) struct Duplicate {
    /// The allocations that could go.
    pub(super) rows: Vec<usize>,
    /// Those that hold the same.
    pub(super) twins: Vec<usize>,
    /// The whole group that `rows` belongs to.
    pub(super) group: Vec<usize>,
}

/// What stays, sorted by who made it.
pub(super) struct Stayers {
    /// Read from a file.
    loaded: Vec<usize>,
    /// Parameters and whatever else nobody is known to have made.
    made: Vec<usize>,
    /// Buckets of DDP.
    buckets: Vec<usize>,
    /// By layers' forwards and by casts.
    computed: Vec<usize>,
}

impl Stayers {
    pub(super) fn of(scene: &Scene<'_>) -> Self {
        let mut sorted =
            Self { loaded: Vec::new(), made: Vec::new(), buckets: Vec::new(), computed: Vec::new() };
        for &row in scene.survivors() {
            match scene.maker(row) {
                Maker::Loader => sorted.loaded.push(row),
                Maker::Unknown | Maker::Placement => sorted.made.push(row),
                Maker::Reducer => sorted.buckets.push(row),
                Maker::Compute | Maker::Cast => sorted.computed.push(row),
                Maker::Workspace | Maker::Optimizer | Maker::Copy | Maker::Backward => {}
            }
        }
        sorted
    }
}

fn born(scene: &Scene<'_>, row: usize) -> u64 {
    let event = scene.history.allocations.alloc_events[row];
    if event == NONE { 0 } else { u64::from(event) }
}

/// What a load brought to the device although it is there already. The job must have gone on after it.
pub(super) fn loaded(scene: &Scene<'_>, stayers: &Stayers) -> Option<Duplicate> {
    let (&last, made) = (stayers.loaded.last()?, &stayers.made);
    let later_made = made.len() - made.partition_point(|&row| row < last);
    let later = scene.history.allocations.len() - last - 1;
    if later <= later_made {
        return None;
    }
    let mut left = Sizes::of(scene, &stayers.loaded);
    let (mut taken, mut twins) = (Sizes::default(), Vec::new());
    let mut take = |left: &mut Sizes, rows: &[usize], sizes: &Sizes| {
        let common = left.common(sizes);
        *left = left.without(&common);
        twins.extend(common.pick(scene, rows));
        taken = taken.with(&common);
    };
    let all = Sizes::of(scene, made);
    if is_part(&left, &all) {
        take(&mut left, made, &all);
    } else {
        let mut groups = by_line(scene, made);
        // A group that fits only once another has taken its share comes up again.
        while let Some(at) = groups.iter().position(|(_, sizes)| is_part(&left, sizes)) {
            let (rows, sizes) = groups.remove(at);
            take(&mut left, &rows, &sizes);
        }
    }
    let rows = taken.pick(scene, &stayers.loaded);
    let is_worth_it = rows.len() >= 2 && taken.bytes() >= LEAST_BYTES;
    is_worth_it.then(|| Duplicate { rows, twins, group: stayers.loaded.clone() })
}

/// The largest groups of `made` by line, most bytes first, each with its sizes.
fn by_line(scene: &Scene<'_>, made: &[usize]) -> Vec<(Vec<usize>, Sizes)> {
    let mut lines: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for &row in made {
        let line = scene.lines.of_allocation.get(row).copied().unwrap_or(u32::MAX);
        lines.entry(line).or_default().push(row);
    }
    let sized = |rows: Vec<usize>| {
        let sizes = Sizes::of(scene, &rows);
        (rows, sizes)
    };
    let mut groups: Vec<_> = lines.into_values().map(sized).collect();
    groups.sort_by_key(|(_, sizes)| std::cmp::Reverse(sizes.bytes()));
    groups.truncate(MOST_GROUPS);
    groups
}

/// Whether `loaded` holds `group` once or a few times, as a checkpoint holds the tensors of a model: a
/// handful of equal sizes in a large data set is no copy.
fn is_part(loaded: &Sizes, group: &Sizes) -> bool {
    let same = loaded.with_sizes_of(group);
    let is_group = group.count() >= 2 && group.bytes() >= LEAST_BYTES;
    is_group
        && (1..=MOST_PARTS).any(|parts| {
            let whole = group.times(parts);
            let common = same.common(&whole).bytes();
            is_share(common, whole.bytes(), ALIKE_PERCENT) && is_share(common, same.bytes(), ALIKE_PERCENT)
        })
}

/// DDP's buckets, where gradients of the same total exist beside them.
pub(super) fn buckets(scene: &Scene<'_>, stayers: &Stayers) -> Option<Duplicate> {
    let first = *stayers.buckets.first()?;
    let total = Sizes::of(scene, &stayers.buckets).bytes();
    if total < LEAST_BYTES {
        return None;
    }
    let parameters: Vec<usize> = stayers.made.iter().chain(&stayers.loaded).copied().collect();
    let of_parameters = Sizes::of(scene, &parameters);
    let end = Moment(scene.history.events);
    let moments = [scene.history.peaks.allocated.moment, end];
    let gradients = moments.iter().filter(|moment| moment.0 > born(scene, first)).find_map(|&moment| {
        let is_gradient = |row: &usize| scene.maker(*row) == Maker::Backward;
        let live: Vec<usize> = scene.live_at(moment).filter(is_gradient).collect();
        let common = Sizes::of(scene, &live).common(&of_parameters);
        is_near(total, common.bytes()).then(|| common.pick(scene, &live))
    });
    // Who made the gradients may be unknown: then everything that the parameters hold must be there twice.
    let twins = gradients.or_else(|| {
        let twice = of_parameters.twice();
        is_near(total, twice.bytes()).then(|| twice.pick(scene, &stayers.made))
    })?;
    Some(Duplicate { rows: stayers.buckets.clone(), twins, group: stayers.buckets.clone() })
}

/// Copies of half a parameter's size, made once for each by a cast, that have outlived the step they were
/// made in: autocast's cache of weights.
pub(super) fn half_copies(scene: &Scene<'_>, stayers: &Stayers) -> Option<Duplicate> {
    let first = *stayers.computed.first()?;
    let parameters: Vec<usize> = stayers.made.iter().copied().filter(|&row| row < first).collect();
    let halved = Sizes::of(scene, &parameters).halved();
    let computed = Sizes::of(scene, &stayers.computed);
    let common = computed.common(&halved);
    let is_once = is_share(common.bytes(), computed.with_sizes_of(&common).bytes(), ALIKE_PERCENT);
    let is_cache = is_once
        && common.count() >= 2
        && common.bytes() >= LEAST_BYTES
        && is_share(common.bytes(), halved.bytes(), COVERED_PERCENT);
    if !is_cache {
        return None;
    }
    let rows = common.pick(scene, &stayers.computed);
    if !has_outlived_its_step(scene, &rows) {
        return None;
    }
    let twins = Sizes::of(scene, &rows).doubled().pick(scene, &parameters);
    Some(Duplicate { group: rows.clone(), rows, twins })
}

/// Whether two steps began after the last of `rows`, or its line went on allocating for long.
fn has_outlived_its_step(scene: &Scene<'_>, rows: &[usize]) -> bool {
    let Some(&last) = rows.last() else { return false };
    let steps = &scene.steps.rows;
    let later_steps = steps.len() - steps.partition_point(|step| step.begin.0 <= born(scene, last));
    if later_steps >= 2 {
        return true;
    }
    let stacks = &scene.history.allocations.stacks;
    let mut own: Vec<_> = rows.iter().map(|&row| stacks[row]).collect();
    own.sort_unstable();
    own.dedup();
    let later = (last + 1..stacks.len()).filter(|&row| own.binary_search(&stacks[row]).is_ok());
    later.count() as u64 >= ROUNDS.saturating_mul(rows.len() as u64)
}
