//! What of a recording is drawn: all moments, or windows around those that matter.
//!
//! Owns the numbering that stays the same however much is drawn ([`Lifetimes`]), the choice of windows, and
//! the columns of one choice ([`Drawn`]).

use std::ops::RangeInclusive;

use crate::model::{DeviceTrace, Trace};
use crate::rebuild::{History, Moment};
use crate::tables::clock::Clock;
use crate::tables::{Categories, Grouping, LineTable, StepTable};

use super::rows::begin;
use super::{Kind, Kinds, LineColumns, Numbers, Places, RangeColumns, RowColumns, StackTree, Texts};

/// What lifetimes are drawn from.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The trace.
    pub trace: &'a Trace,
    /// The device.
    pub device: &'a DeviceTrace,
    /// What happened on it.
    pub history: &'a History,
    /// Its lines.
    pub lines: &'a Grouping,
    /// The table of its lines over the whole recording.
    pub table: &'a LineTable,
    /// What its allocations are for.
    pub categories: &'a Categories,
    /// Its steps.
    pub steps: &'a StepTable,
}

/// How much of what a trace names is kept. Far more than a sound recording holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nodes of the tree of stacks.
    pub nodes: usize,
    /// Lines.
    pub lines: usize,
    /// Modules.
    pub modules: usize,
    /// Steps.
    pub steps: usize,
    /// Failed requests; of many the last ones.
    pub ooms: usize,
    /// Ranges held from the driver. Of more, only those that a window sees are kept.
    pub ranges: usize,
    /// Bytes of the texts of stacks and lines together, roughly.
    pub text_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            nodes: 60_000,
            lines: 5_000,
            modules: 5_000,
            steps: 5_000,
            ooms: 1_000,
            ranges: 8_000,
            text_bytes: 4 << 20,
        }
    }
}

impl Limits {
    /// A quarter of everything; `None` when hardly anything would be left.
    #[must_use]
    pub fn smaller(self) -> Option<Self> {
        let Self { nodes, lines, modules, steps, ooms, ranges, text_bytes } = self;
        (nodes > 100).then_some(Self {
            nodes: nodes / 4,
            lines: (lines / 4).max(16),
            modules: (modules / 4).max(16),
            steps: (steps / 4).max(16),
            ooms: (ooms / 4).max(16),
            ranges: ranges / 4,
            text_bytes: text_bytes / 4,
        })
    }
}

/// How much detail is drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// Moments, from first to last; ascending, none touching another.
    pub windows: Vec<RangeInclusive<u64>>,
    /// Allocations of at least so many bytes are drawn whenever they lived.
    pub large_bytes: Option<u64>,
}

/// A device's lifetimes, numbered and ready to be drawn.
pub struct Lifetimes<'a> {
    sources: Sources<'a>,
    /// How much of what the trace names is in here.
    pub limits: Limits,
    /// All texts.
    pub texts: Texts,
    /// All stacks.
    pub stacks: StackTree,
    /// All lines.
    pub lines: LineColumns,
    /// Texts of the modules; an allocation's number is the place in this list plus one.
    pub modules: Vec<u32>,
    /// Modules without a number.
    pub modules_left_out: u64,
    /// Numbers of modules, streams, steps and sizes.
    pub numbers: Numbers<'a>,
}

/// The columns of one choice of detail.
#[derive(Debug, Default)]
pub struct Drawn {
    /// What allocations have in common.
    pub kinds: Kinds,
    /// Where they lie.
    pub places: Places,
    /// What was held from the driver in the windows.
    pub ranges: RangeColumns,
    /// The rows of each window.
    pub windows: Vec<RowColumns>,
    /// The large allocations.
    pub large: Option<RowColumns>,
}

impl<'a> Lifetimes<'a> {
    /// Numbers everything within `limits`. A few passes over the allocations.
    #[must_use]
    pub fn new(sources: Sources<'a>, limits: &Limits) -> Self {
        let Sources { trace, device, history, lines: grouping, table, steps, .. } = sources;
        let mut texts = Texts::default();
        let lines = LineColumns::build(trace, history, grouping, table, limits, &mut texts);
        let mut numbers = Numbers::new(device, history, grouping, steps);
        let (modules, modules_left_out) = numbers.limit_modules(limits.modules, &mut texts);
        let stacks = StackTree::build(trace, history, limits, &mut texts);
        Self { sources, limits: *limits, texts, stacks, lines, modules, modules_left_out, numbers }
    }

    /// Microseconds since the first event at each of `moments`; `None` without usable times.
    #[must_use]
    pub fn times(&self, moments: impl Iterator<Item = u64>) -> Option<Vec<u64>> {
        let clock = Clock::of(&self.sources.device.events);
        clock.is_time().then(|| moments.map(|moment| clock.position(Moment(moment))).collect())
    }

    /// Unix microseconds of the first event; `None` without usable times.
    #[must_use]
    pub fn time_origin_us(&self) -> Option<i64> {
        let events = &self.sources.device.events;
        Clock::of(events).is_time().then(|| events.times_us[0])
    }

    /// The columns of `detail`. One pass over the allocations.
    #[must_use]
    pub fn draw(&self, detail: &Detail) -> Drawn {
        let rows = &self.sources.history.allocations;
        let mut drawn = Drawn {
            windows: vec![RowColumns::default(); detail.windows.len()],
            large: detail.large_bytes.map(|_| RowColumns::default()),
            ..Drawn::default()
        };
        let is_sorted = (1..rows.len()).all(|row| begin(rows, row - 1) <= begin(rows, row));
        let mut order: Vec<u32> = Vec::new();
        if !is_sorted {
            order = (0..rows.len() as u32).collect();
            order.sort_by_key(|&row| begin(rows, row as usize));
        }
        for at in 0..rows.len() {
            let row = order.get(at).map_or(at, |&row| row as usize);
            self.draw_row(row, detail, &mut drawn);
        }
        self.settle(detail, &mut drawn);
        drawn
    }

    fn draw_row(&self, row: usize, detail: &Detail, drawn: &mut Drawn) {
        let rows = &self.sources.history.allocations;
        let (begin, last) = (begin(rows, row), u64::from(rows.free_completed_events[row]));
        let is_large = detail.large_bytes.is_some_and(|least| rows.block_bytes[row] >= least);
        let sees = |window: &RangeInclusive<u64>| begin <= *window.end() && last >= *window.start();
        if !is_large && !detail.windows.iter().any(sees) {
            return;
        }
        let kind = drawn.kinds.enter(self.kind(row));
        let place = drawn.places.enter(rows.addresses[row]);
        for (window, columns) in detail.windows.iter().zip(&mut drawn.windows) {
            if sees(window) {
                columns.push(rows, row, place, kind);
            }
        }
        if let Some(columns) = drawn.large.as_mut().filter(|_| is_large) {
            columns.push(rows, row, place, kind);
        }
    }

    fn kind(&self, row: usize) -> Kind {
        let rows = &self.sources.history.allocations;
        Kind {
            stack: self.stacks.of(rows.stacks[row]),
            requested: rows.requested_bytes[row],
            block: rows.block_bytes[row],
            stream: self.numbers.stream(row),
            category: self.sources.categories.of(row) as u8,
            module: self.numbers.module(row),
            line: self.lines.of(self.sources.lines.of_allocation[row]),
            inferred: self.sources.lines.inferred[row],
        }
    }

    fn settle(&self, detail: &Detail, drawn: &mut Drawn) {
        let history = self.sources.history;
        let held = &history.ranges;
        let sees = |range: usize, window: &RangeInclusive<u64>| {
            held.born[range].0 <= *window.end() && held.died[range].0 > *window.start()
        };
        let all = held.len() <= self.limits.ranges;
        let is_seen = |range: &usize| all || detail.windows.iter().any(|window| sees(*range, window));
        let ranges: Vec<usize> = (0..held.len()).filter(is_seen).collect();
        drawn.places.settle(history, &ranges);
        drawn.ranges = RangeColumns::of(history, &ranges, &drawn.places, &self.numbers);
    }
}

/// Windows of about `moments` moments around the first `most` of what matters: the last failure, the peaks of
/// reserved and allocated bytes, the end, the beginning, and a step in the middle. Windows that meet are one.
#[must_use]
pub fn windows_around(
    history: &History,
    steps: &StepTable,
    moments: u64,
    most: usize,
) -> Vec<RangeInclusive<u64>> {
    let middle = steps.rows.get(steps.rows.len() / 2).map(|step| step.begin.0.midpoint(step.end.0));
    let centres = [
        history.ooms.last().map(|oom| oom.event + 1),
        Some(history.peaks.reserved.moment.0),
        Some(history.peaks.allocated.moment.0),
        Some(history.events),
        Some(0),
        middle,
    ];
    let around = |centre: u64| {
        let from = centre.saturating_sub(moments / 2);
        from..=centre.saturating_add(moments / 2).min(history.events)
    };
    let mut windows: Vec<RangeInclusive<u64>> =
        centres.into_iter().flatten().take(most).map(around).collect();
    windows.sort_unstable_by_key(|window| (*window.start(), *window.end()));
    let mut joined: Vec<RangeInclusive<u64>> = Vec::with_capacity(windows.len());
    for window in windows {
        match joined.last_mut() {
            Some(last) if *window.start() <= *last.end() + 1 => {
                *last = *last.start()..=(*last.end()).max(*window.end());
            }
            _ => joined.push(window),
        }
    }
    joined
}

/// The least power of two such that at most `most` allocations have a block as large; `None` when no
/// allocation has, or more of them are larger than any.
#[must_use]
pub fn large_threshold(history: &History, most: usize) -> Option<u64> {
    let mut counts = [0usize; 64];
    for &bytes in history.allocations.block_bytes.iter().filter(|&&bytes| bytes > 0) {
        counts[bytes.ilog2() as usize] += 1;
    }
    let mut rows = 0;
    let mut found = None;
    for power in (0..64).rev() {
        rows += counts[power];
        if rows > most {
            break;
        }
        if rows > 0 {
            found = Some(1 << power);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rebuild::{OomEvent, Peak};

    #[test]
    fn windows_that_meet_are_one() {
        let mut history = History { events: 1_000, ..History::default() };
        history.peaks.allocated = Peak { bytes: 1, moment: Moment(500) };
        history.peaks.reserved = Peak { bytes: 1, moment: Moment(511) };
        let windows = windows_around(&history, &StepTable::default(), 10, 6);
        assert_eq!(windows, [0..=5, 495..=516, 995..=1000]);
        let oom = OomEvent {
            event: 299,
            size: 1,
            device_free_bytes: None,
            stream: 0,
            stack: crate::model::StackId::NONE,
            usage: crate::rebuild::Usage::default(),
        };
        history.ooms.push(oom);
        assert_eq!(windows_around(&history, &StepTable::default(), 0, 6)[1], 300..=300);
        assert_eq!(windows_around(&history, &StepTable::default(), u64::MAX, 6), [0..=1000]);
        assert_eq!(windows_around(&history, &StepTable::default(), 10, 1), [295..=305]);
    }

    #[test]
    fn the_threshold_is_the_least_power_of_two_that_leaves_few_enough() {
        let mut history = History::default();
        history.allocations.block_bytes = vec![512, 600, 1024, 5000, 4096, 0];
        assert_eq!(large_threshold(&history, 2), Some(2048));
        assert_eq!(large_threshold(&history, 3), Some(1024));
        assert_eq!(large_threshold(&history, 1), None);
        assert_eq!(large_threshold(&history, 9), Some(1));
        assert_eq!(large_threshold(&History::default(), 9), None);
    }
}
