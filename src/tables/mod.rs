//! Tables: rows of allocations and lines, grouped, joined and sorted.
//!
//! Owns the rule for what a line is, who an allocation is charged to, and every figure per line. The pass
//! over events is plain Rust over columns; group-bys, joins and sorts are Polars' work. Does not own the
//! meaning of an event (`rebuild`) nor how a figure is shown (`report`).

mod categories;
mod clock;
mod fragmentation;
mod frames;
mod group;
mod group_by;
mod inference;
mod line_pass;
mod lines;
mod module;
mod module_groups;
mod modules;
mod names;
mod phases;
mod pins;
mod pools;
mod readings;
mod steps;
mod sums;
mod tags;
mod timeline;
mod usages;
mod user_code;
mod walk;
mod window;
mod without;
mod write;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod replay;

pub use categories::{
    CATEGORY_RULE, Categories, Category, CategoryFigures, CategorySum, CategorySums, NAMED_RULE, categories,
    category_figures,
};
pub use fragmentation::{Fragmentation, HoleClass, fragmentation};
pub use frames::{allocations_frame, lines_frame, segments_frame, steps_frame, usage_frame};
pub use group::{GroupKey, Grouping};
pub use group_by::GroupBy;
pub use inference::{INFERENCE_RULE, Passes, StackFacts, stack_facts};
pub use lines::{Figures, LineEntry, LineTable, LineTableRow, lines};
pub use module_groups::ModuleGroups;
pub use modules::{ModuleRow, ModuleTable, PhaseFigures, modules};
pub use names::{CategoryRow, HolderRow, Names, TensorRow, UNKNOWN_KIND, names};
pub use phases::{Phase, PhaseRun, Phases, phases};
pub use pins::Pin;
pub use pools::{PoolUse, pools};
pub use readings::{Difference, Outside, OutsidePoint, Readings, SelfCheck, readings};
pub use steps::{StepRow, StepSource, StepTable, steps};
pub use tags::{MODULE_RULE, ModuleTags, Tag};
pub use timeline::{Band, MarkReason, TimelineData, TimelineDataMark, TimelineExtent, timeline};
pub use user_code::{FrameClass, LINE_RULE, classify_frames};
pub use window::{WindowUsage, window_usage};
pub use without::{MOST_SETS, peaks_without};
pub use write::{TableFormat, write_frame};
