//! The table of categories: what each held at the moments of interest, and at most.
//!
//! Owns the figures and their order. Does not own which category an allocation has.

use std::ops::Range;

use crate::rebuild::{History, Moment, NONE};

use super::super::walk::{Tally, Walk};
use super::{Categories, Category, CategorySums};

/// Figures of one category, in bytes of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CategoryFigures {
    /// The category.
    pub category: Category,
    /// Live at the peak.
    pub held_at_peak_bytes: u64,
    /// The part of it that a census names.
    pub named_at_peak_bytes: u64,
    /// Live at the failed request, where one is asked for.
    pub held_at_oom_bytes: Option<u64>,
    /// Live after the last event.
    pub live_at_end_bytes: u64,
    /// The most it ever held at one moment.
    pub own_peak_bytes: u64,
    /// Allocations that the events handed out, or that were there before the first.
    pub allocations: u64,
}

/// The figures of every category that has any, over the events `window` with their peak at `peak`: most bytes
/// at the peak first, unknown last.
#[must_use]
pub fn category_figures(
    categories: &Categories,
    history: &History,
    window: &Range<u64>,
    peak: Moment,
    oom: Option<Moment>,
) -> Vec<CategoryFigures> {
    let meter = measure(categories, history, window);
    let (at_peak, at_end) = (categories.at(history, peak), categories.at(history, Moment(window.end)));
    let at_oom = oom.map(|oom| categories.at(history, oom));
    let row = |category: Category| CategoryFigures {
        category,
        held_at_peak_bytes: at_peak.of(category).bytes,
        named_at_peak_bytes: at_peak.of(category).named_bytes,
        held_at_oom_bytes: at_oom.as_ref().map(|sums: &CategorySums| sums.of(category).bytes),
        live_at_end_bytes: at_end.of(category).bytes,
        own_peak_bytes: meter.most[category as usize],
        allocations: meter.made[category as usize],
    };
    let has_any = |row: &CategoryFigures| row.allocations > 0 || row.own_peak_bytes > 0;
    let mut rows: Vec<CategoryFigures> = Category::ALL.into_iter().map(row).filter(has_any).collect();
    let key = |row: &CategoryFigures| {
        (row.category == Category::Unknown, std::cmp::Reverse(row.held_at_peak_bytes), row.category)
    };
    rows.sort_by_key(key);
    rows
}

fn measure<'a>(categories: &'a Categories, history: &'a History, window: &Range<u64>) -> Meter<'a> {
    let mut meter = Meter {
        categories,
        history,
        begin: Moment(window.start),
        end: Moment(window.end),
        now: Moment(0),
        live: [0; CATEGORIES],
        most: [0; CATEGORIES],
        made: [0; CATEGORIES],
        grown: None,
    };
    Walk::new(history).run(&mut meter);
    meter
}

const CATEGORIES: usize = Category::ALL.len();

/// Walks along and keeps each category's maximum.
struct Meter<'a> {
    categories: &'a Categories,
    history: &'a History,
    begin: Moment,
    end: Moment,
    now: Moment,
    live: [u64; CATEGORIES],
    most: [u64; CATEGORIES],
    made: [u64; CATEGORIES],
    /// The category that the last allocation made larger.
    grown: Option<usize>,
}

impl<'a> Tally<'a> for Meter<'a> {
    #[inline]
    fn alloc(&mut self, row: usize) {
        let category = self.categories.of(row) as usize;
        let rows = &self.history.allocations;
        self.live[category] = self.live[category].saturating_add(rows.block_bytes[row]);
        let is_initial = rows.alloc_events[row] == NONE && self.begin == Moment(0);
        if is_initial || (self.begin <= self.now && self.now < self.end && rows.alloc_events[row] != NONE) {
            self.made[category] += 1;
        }
        self.grown = Some(category);
    }

    #[inline]
    fn free(&mut self, row: usize) {
        let category = self.categories.of(row) as usize;
        self.live[category] = self.live[category].saturating_sub(self.history.allocations.block_bytes[row]);
    }

    #[inline]
    fn arrive(&mut self, moment: Moment) {
        if moment == self.begin {
            self.most = self.live;
        } else if let Some(category) = self.grown
            && self.begin < moment
            && moment <= self.end
        {
            self.most[category] = self.most[category].max(self.live[category]);
        }
        (self.now, self.grown) = (moment, None);
    }
}
