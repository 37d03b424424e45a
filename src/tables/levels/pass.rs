//! The pass over events that fills the cells, under all groupings at once.

use crate::rebuild::Moment;
use crate::tables::lifetimes::{Lifetimes, Sources};
use crate::tables::walk::{Tally, Totals, Walk};

use super::cells::{Cell, WIDTH};
use super::{BandBy, Levels, SLOTS, bands};

/// More cells than this are never needed: they are finer than pixels.
pub const MOST_CELLS: u64 = 2_048;

/// The levels of a device, in at most [`MOST_CELLS`] cells. One pass over its events.
#[must_use]
pub fn levels(sources: Sources<'_>, lifetimes: &Lifetimes<'_>) -> Levels {
    let history = sources.history;
    let chosen = bands::choose(&sources, lifetimes);
    let places = bands::pack(history, &sources, lifetimes, &chosen);
    let width = (history.events + 1).div_ceil(MOST_CELLS);
    let mut meter = Meter {
        totals: Totals::new(history),
        places: &places,
        bytes: &history.allocations.block_bytes,
        held: [0; WIDTH],
        own: [0; WIDTH],
        at_highest: [0; WIDTH],
        is_due: false,
        cell: Cell::default(),
        next_cell: 0,
        events: history.events,
        levels: Levels { width, bands: chosen, ..Levels::default() },
    };
    Walk::new(history).run(&mut meter);
    meter.levels
}

struct Meter<'a> {
    totals: Totals<'a>,
    places: &'a [u32],
    bytes: &'a [u64],
    held: [u64; WIDTH],
    own: [u64; WIDTH],
    at_highest: [u64; WIDTH],
    /// The moment last arrived at is the cell's highest so far, and `at_highest` is yet to be noted. While
    /// allocations come one after the other there is nothing to note.
    is_due: bool,
    cell: Cell,
    next_cell: u64,
    events: u64,
    levels: Levels,
}

/// The places of a packed number.
#[inline]
fn unpacked(code: u32) -> [usize; BandBy::ALL.len()] {
    std::array::from_fn(|by| SLOTS * by + (code >> (4 * by)) as usize % 16)
}

impl Meter<'_> {
    #[inline]
    fn note(&mut self) {
        if self.is_due {
            self.at_highest = self.held;
            self.is_due = false;
        }
    }

    fn begin_cell(&mut self, bytes: u64) {
        self.own = self.held;
        self.cell = Cell { first: bytes, lowest: bytes, ..Cell::default() };
        self.next_cell += self.levels.width;
    }

    fn end_cell(&mut self, bytes: u64) {
        self.note();
        self.cell.last = bytes;
        self.levels.cells.push(self.cell);
        self.levels.at_highest.push(self.at_highest);
        self.levels.own_highest.push(self.own);
    }
}

impl<'a> Tally<'a> for Meter<'a> {
    #[inline]
    fn totals(&mut self) -> Option<&mut Totals<'a>> {
        Some(&mut self.totals)
    }

    #[inline]
    fn alloc(&mut self, row: usize) {
        self.totals.alloc(row);
        let bytes = self.bytes[row];
        for place in unpacked(self.places[row]) {
            let held = self.held[place].saturating_add(bytes);
            self.held[place] = held;
            self.own[place] = self.own[place].max(held);
        }
    }

    #[inline]
    fn free(&mut self, row: usize) {
        self.note();
        self.totals.free(row);
        let bytes = self.bytes[row];
        for place in unpacked(self.places[row]) {
            self.held[place] = self.held[place].saturating_sub(bytes);
        }
    }

    #[inline]
    fn arrive(&mut self, moment: Moment) {
        let usage = self.totals.usage;
        let bytes = usage.allocated_bytes;
        let begins = moment.0 == self.next_cell;
        if begins {
            self.begin_cell(bytes);
        }
        if begins || bytes > self.cell.highest {
            (self.cell.highest, self.cell.highest_at, self.is_due) = (bytes, moment.0, true);
        }
        self.cell.lowest = self.cell.lowest.min(bytes);
        self.cell.active = self.cell.active.max(usage.active_bytes);
        self.cell.reserved = self.cell.reserved.max(usage.reserved_bytes);
        if moment.0 + 1 == self.next_cell || moment.0 == self.events {
            self.end_cell(bytes);
        }
    }
}
