//! The cells: what they hold, and how two become one.

use super::{BandBy, Bands, NO_GROUP, OTHERS, SLOTS};

/// All groupings' places side by side.
pub(super) const WIDTH: usize = SLOTS * BandBy::ALL.len();

/// Extremes of the moments of one cell, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) lowest: u64,
    pub(super) highest: u64,
    pub(super) highest_at: u64,
    pub(super) active: u64,
    pub(super) reserved: u64,
}

/// Cells of equal width over all moments; only the last may be shorter. Columns are allocated bytes unless
/// they say otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// Moments in a cell.
    pub width: u64,
    /// The bands of every grouping.
    pub bands: [Bands; 6],
    pub(super) cells: Vec<Cell>,
    /// By cell: every place's bytes when the cell is highest.
    pub(super) at_highest: Vec<[u64; WIDTH]>,
    /// By cell: the most that every place held.
    pub(super) own_highest: Vec<[u64; WIDTH]>,
}

/// The levels of one band.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BandLevels {
    /// By cell: bytes when the cell is highest.
    pub at_highest: Vec<u64>,
    /// By cell: the most it held.
    pub own_highest: Vec<u64>,
}

impl Levels {
    /// How many cells there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The columns, by name.
    #[must_use]
    pub fn columns(&self) -> [(&'static str, Vec<u64>); 7] {
        let column = |of: fn(&Cell) -> u64| self.cells.iter().map(of).collect::<Vec<u64>>();
        [
            ("first", column(|cell| cell.first)),
            ("last", column(|cell| cell.last)),
            ("lowest", column(|cell| cell.lowest)),
            ("highest", column(|cell| cell.highest)),
            ("highest_at", column(|cell| cell.highest_at)),
            ("active", column(|cell| cell.active)),
            ("reserved", column(|cell| cell.reserved)),
        ]
    }

    /// The levels of every band of grouping `by`, in the order of its bands.
    #[must_use]
    pub fn of(&self, by: BandBy) -> Vec<BandLevels> {
        let own = self.bands[by as usize].bands.len() - 2;
        let places = (0..own).chain([OTHERS, NO_GROUP]).map(|place| SLOTS * by as usize + place);
        let column = |rows: &[[u64; WIDTH]], place: usize| rows.iter().map(|row| row[place]).collect();
        places
            .map(|place| BandLevels {
                at_highest: column(&self.at_highest, place),
                own_highest: column(&self.own_highest, place),
            })
            .collect()
    }

    /// The same with cells twice as wide: every extreme stays exact.
    #[must_use]
    pub fn halved(mut self) -> Self {
        let pairs = self.cells.len().div_ceil(2);
        for at in 0..pairs {
            let (left, right) = (2 * at, 2 * at + 1);
            let (mut cell, mut winner) = (self.cells[left], left);
            let mut own = self.own_highest[left];
            if let Some(&other) = self.cells.get(right) {
                if other.highest > cell.highest {
                    (cell.highest, cell.highest_at, winner) = (other.highest, other.highest_at, right);
                }
                cell.last = other.last;
                cell.lowest = cell.lowest.min(other.lowest);
                cell.active = cell.active.max(other.active);
                cell.reserved = cell.reserved.max(other.reserved);
                for (bytes, other) in own.iter_mut().zip(&self.own_highest[right]) {
                    *bytes = (*bytes).max(*other);
                }
            }
            self.cells[at] = cell;
            self.own_highest[at] = own;
            self.at_highest[at] = self.at_highest[winner];
        }
        self.cells.truncate(pairs);
        self.own_highest.truncate(pairs);
        self.at_highest.truncate(pairs);
        self.width *= 2;
        self
    }
}
