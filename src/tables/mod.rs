//! Tables: rows of allocations and lines, grouped, joined and sorted.
//!
//! Owns the rule for what a line is, who an allocation is charged to, and every figure per line. The pass
//! over events is plain Rust over columns; group-bys, joins and sorts are Polars' work. Does not own the
//! meaning of an event (`rebuild`) nor how a figure is shown (`report`).

mod group;
mod group_by;
mod inference;
mod line_pass;
mod lines;
mod module;
mod sums;
mod user_code;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod replay;

pub use group::{GroupKey, Grouping};
pub use group_by::GroupBy;
pub use inference::{INFERENCE_RULE, Passes, StackFacts, stack_facts};
pub use lines::{Figures, LineEntry, LineTable, LineTableRow, lines};
pub use user_code::{FrameClass, LINE_RULE, classify_frames};
