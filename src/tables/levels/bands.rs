//! Which groups get a band of their own, under each of the six groupings.
//!
//! Owns the choice (those that held most when allocated bytes peaked, then those that allocated most) and the
//! place of every allocation's band, packed into one number per allocation.

use std::cmp::Reverse;

use crate::model::Trace;
use crate::rebuild::History;
use crate::tables::Category;
use crate::tables::lifetimes::{Lifetimes, SIZE_CLASSES, Sources};

use super::{NO_GROUP, OTHERS};

/// What bands are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BandBy {
    /// The user's line.
    Line,
    /// What the allocation is for.
    Category,
    /// The module that the recorder named.
    Module,
    /// The step in which it was made.
    Step,
    /// The stream of its block.
    Stream,
    /// The size of its block.
    Size,
}

impl BandBy {
    /// Every grouping, in the order of [`super::Levels::bands`].
    pub const ALL: [Self; 6] =
        [Self::Line, Self::Category, Self::Module, Self::Step, Self::Stream, Self::Size];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Category => "category",
            Self::Module => "module",
            Self::Step => "step",
            Self::Stream => "stream",
            Self::Size => "size",
        }
    }

    /// Names of the bands for other groups and for no group.
    fn remainders(self) -> [&'static str; 2] {
        match self {
            Self::Line => ["other lines", "no line known"],
            Self::Category => ["other categories", "unknown"],
            Self::Module => ["other modules", "no module known"],
            Self::Step => ["other steps", "outside of steps"],
            Self::Stream => ["other streams", "no stream known"],
            Self::Size => ["other sizes", "no size known"],
        }
    }
}

/// One band.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Band {
    /// Its name.
    pub name: String,
    /// The group's number; `None` for a remainder.
    pub key: Option<u32>,
}

/// The bands of one grouping: up to ten groups, then the others, then what has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bands {
    /// The bands; the last two are the remainders.
    pub bands: Vec<Band>,
    /// By group number: the place of its band.
    place: Vec<u8>,
}

impl Bands {
    /// `chosen` are numbers and names of the groups with a band of their own, of `groups` in all; `none` is the
    /// number that stands for no group.
    fn new(by: BandBy, chosen: Vec<(u32, String)>, groups: usize, none: Option<u32>) -> Self {
        let mut place = vec![OTHERS as u8; groups];
        if let Some(slot) = none.and_then(|none| place.get_mut(none as usize)) {
            *slot = NO_GROUP as u8;
        }
        for (at, (group, _)) in chosen.iter().enumerate() {
            place[*group as usize] = at as u8;
        }
        let own = chosen.into_iter().map(|(group, name)| Band { name, key: Some(group) });
        let remainders = by.remainders().map(|name| Band { name: name.to_owned(), key: None });
        Self { bands: own.chain(remainders).collect(), place }
    }

    #[inline]
    fn place(&self, group: u32) -> u32 {
        u32::from(self.place.get(group as usize).copied().unwrap_or(NO_GROUP as u8))
    }
}

/// Live at the peak, and of all allocations: what groups are ranked by.
type Weight = (u64, u64);

/// Sums per group of the groupings that have no table of their own.
#[derive(Default)]
struct Weights {
    modules: Vec<Weight>,
    steps: Vec<Weight>,
    streams: Vec<Weight>,
}

/// The bands of all groupings, in the order of [`BandBy::ALL`].
pub(super) fn choose(sources: &Sources<'_>, lifetimes: &Lifetimes<'_>) -> [Bands; 6] {
    let weights = weigh(sources, lifetimes);
    let streams = lifetimes.numbers.stream_names();
    let texts = lifetimes.texts.texts();
    let module = |number: u32| texts[lifetimes.modules[number as usize - 1] as usize].clone();
    let step = |number: u32| sources.steps.rows[number as usize - 1].name.clone();
    let ranked = |by, weights: &[Weight], first: u32, name: &dyn Fn(u32) -> String| {
        let chosen = heaviest(weights, first).into_iter().map(|group| (group, name(group))).collect();
        Bands::new(by, chosen, weights.len(), (first == 1).then_some(0))
    };
    [
        lines(sources.trace, sources, lifetimes),
        categories(),
        ranked(BandBy::Module, &weights.modules, 1, &module),
        ranked(BandBy::Step, &weights.steps, 1, &step),
        ranked(BandBy::Stream, &weights.streams, 0, &|stream| streams[stream as usize].clone()),
        sizes(),
    ]
}

/// The ten heaviest groups from number `first` on that have any weight, heaviest first.
fn heaviest(weights: &[Weight], first: u32) -> Vec<u32> {
    let mut groups: Vec<u32> =
        (first..weights.len() as u32).filter(|&group| weights[group as usize].1 > 0).collect();
    groups.sort_by_key(|&group| (Reverse(weights[group as usize]), group));
    groups.truncate(OTHERS);
    groups
}

fn lines(trace: &Trace, sources: &Sources<'_>, lifetimes: &Lifetimes<'_>) -> Bands {
    let shown = sources.table.entries.iter().take(OTHERS).filter_map(|entry| {
        let key = sources.lines.keys.get(entry.group as usize)?;
        let number = lifetimes.lines.of(entry.group);
        let is_own = number > 0 && (number as usize) <= lifetimes.lines.own_rows();
        is_own.then(|| (number, key.label(trace)))
    });
    Bands::new(BandBy::Line, shown.collect(), lifetimes.lines.file.len() + 1, Some(0))
}

fn categories() -> Bands {
    let known = Category::ALL.into_iter().filter(|category| *category != Category::Unknown);
    let shown = known.map(|category| (category as u32, category.name().to_owned())).collect();
    Bands::new(BandBy::Category, shown, Category::ALL.len(), Some(Category::Unknown as u32))
}

fn sizes() -> Bands {
    let shown = (0u32..).zip(SIZE_CLASSES).map(|(class, size)| (class, size.name.to_owned())).collect();
    Bands::new(BandBy::Size, shown, SIZE_CLASSES.len(), None)
}

fn weigh(sources: &Sources<'_>, lifetimes: &Lifetimes<'_>) -> Weights {
    let numbers = &lifetimes.numbers;
    let (rows, peak) = (&sources.history.allocations, sources.history.peaks.allocated.moment);
    let mut weights = Weights {
        modules: vec![(0, 0); lifetimes.modules.len() + 1],
        steps: vec![(0, 0); sources.steps.rows.len() + 1],
        streams: vec![(0, 0); numbers.stream_count()],
    };
    let mut step = 0;
    for row in 0..rows.len() {
        step = numbers.step(row, step);
        let bytes = rows.block_bytes[row];
        let held = if rows.is_allocated_at(row, peak) { bytes } else { 0 };
        let slots = [
            &mut weights.modules[numbers.module(row) as usize],
            &mut weights.steps[step as usize],
            &mut weights.streams[numbers.stream(row) as usize],
        ];
        for slot in slots {
            *slot = (slot.0.saturating_add(held), slot.1.saturating_add(bytes));
        }
    }
    weights
}

/// The place of every allocation's band under every grouping, four bits each.
pub(super) fn pack(
    history: &History,
    sources: &Sources<'_>,
    lifetimes: &Lifetimes<'_>,
    all: &[Bands; 6],
) -> Vec<u32> {
    let numbers = &lifetimes.numbers;
    let mut step = 0;
    let packed = |row: usize| {
        step = numbers.step(row, step);
        let groups = [
            lifetimes.lines.of(sources.lines.of_allocation[row]),
            sources.categories.of(row) as u32,
            numbers.module(row),
            step,
            numbers.stream(row),
            numbers.size_class(row),
        ];
        let places = all.iter().zip(groups).enumerate();
        places.fold(0, |code, (at, (bands, group))| code | bands.place(group) << (4 * at))
    };
    (0..history.allocations.len()).map(packed).collect()
}
