//! The life of every allocation, as columns that a page can carry.
//!
//! Owns the numbering of texts, stacks, lines, modules, streams and kinds (what allocations have in common),
//! which moments are kept when not all can be, and the rows of these moments. Does not own how columns are
//! written nor how many bytes they may take: that is decided by who measures them.

mod kinds;
mod lines;
mod numbers;
mod places;
mod rows;
mod select;
mod stacks;
mod texts;

pub use kinds::{Kind, Kinds};
pub use lines::LineColumns;
pub use numbers::{Numbers, SIZE_CLASSES, SizeClass};
pub use places::{Places, RangeColumns};
pub use rows::RowColumns;
pub use select::{Detail, Drawn, Lifetimes, Limits, Sources, large_threshold, windows_around};
pub use stacks::{FrameColumns, StackFigures, StackTree};
pub use texts::Texts;
