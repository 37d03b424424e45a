//! Levels: a recording of any length in a fixed number of cells, with every cell's extremes exact.
//!
//! Owns the cells, the bands in them under six groupings, and the one pass over events that fills them. Does
//! not own the numbers of lines, modules or streams (`lifetimes`).

mod bands;
mod cells;
mod pass;

pub use bands::{Band, BandBy, Bands};
pub use cells::{BandLevels, Levels};
pub use pass::{MOST_CELLS, levels};

/// Places for bands in every grouping: ten of their own, one for the others, one for what has none.
const SLOTS: usize = 12;
/// The place of the others.
const OTHERS: usize = 10;
/// The place of what belongs to no group.
const NO_GROUP: usize = 11;
