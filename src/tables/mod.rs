//! Tables: rows of allocations and lines, grouped, joined and sorted.
//!
//! Owns the rule for what a line is, who an allocation is charged to, and every figure per line. The pass
//! over events is plain Rust over columns; group-bys, joins and sorts are Polars' work. Does not own the
//! meaning of an event (`rebuild`) nor how a figure is shown (`report`).

mod around;
mod bursts;
mod categories;
mod causes;
mod clock;
mod fingerprints;
mod flame;
mod flushes;
mod fragmentation;
mod frames;
mod group;
mod group_by;
mod held_curves;
mod inference;
mod late_need;
mod left_behind;
mod levels;
mod library_lines;
mod lifetimes;
mod line_pass;
mod lines;
mod m4;
mod maker_frames;
mod makers;
mod module;
mod module_groups;
mod modules;
mod names;
mod obtained;
mod origins;
mod pace;
mod pending;
mod phases;
mod pins;
mod pools;
mod readings;
mod stack_totals;
mod staircase;
mod step_curve;
mod step_growth;
mod step_lines;
mod steps;
mod streams;
mod sums;
mod survivors;
mod tags;
mod timeline;
mod times;
mod unserved;
mod usage_curve;
mod usages;
mod user_code;
mod walk;
mod window;
mod without;
mod write;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod replay;

pub use around::peaks_around;
pub use bursts::{Burst, Bursts, Together, bursts};
pub use categories::{
    CATEGORY_RULE, Categories, Category, CategoryFigures, CategorySum, CategorySums, NAMED_RULE, categories,
    category_figures,
};
pub use causes::{Causes, causes};
pub use clock::Clock;
pub use fingerprints::{LineFingerprint, line_fingerprints};
pub use flame::{Flame, FlameExtent, FlameNode, FlamePart, flame};
pub use flushes::{Flush, FlushKind, flushes, is_collecting};
pub use fragmentation::{Fragmentation, HoleClass, fragmentation};
pub use frames::{
    ColumnSchema, ColumnType, FindingEntry, FragmentationEntry, FrameSource, OomEntry, Purposes, Sink,
    StackHashes, TABLES, TABLES_SCHEMA, TableSchema, allocation_frames, categories_frame, findings_frame,
    fragmentation_frame, lines_frame, modules_frame, ooms_frame, pins_frame, pools_frame, schemas,
    segments_frame, stack_frames, step_line_frames, steps_frame, tables_page, trace_frame, usage_frames,
    warnings_frame,
};
pub use group::{GroupKey, Grouping, Seen};
pub use group_by::GroupBy;
pub use held_curves::{Curve, CurvePoint, HeldCurves, counter_curves, held_curves};
pub use inference::{INFERENCE_RULE, Passes, StackFacts, stack_facts};
pub use late_need::late_need;
pub use left_behind::{Kept, LeftBehind, ReleasedLate, left_behind};
pub use levels::{Band as LevelBand, BandBy, BandLevels, Bands, Levels, MOST_CELLS, levels};
pub use library_lines::{LibraryTable, library_lines};
pub use lifetimes::{
    Detail, Drawn, FrameColumns, Kind, Kinds, Lifetimes, Limits, LineColumns, Numbers, Places, RangeColumns,
    RowColumns, SIZE_CLASSES, SizeClass, Sources, StackFigures, StackTree, Texts, large_threshold,
    windows_around,
};
pub use lines::{Figures, LineEntry, LineTable, LineTableRow, LinesOfPieces, lines};
pub use makers::{Maker, Makers};
pub use module_groups::ModuleGroups;
pub use modules::{ModuleRow, ModuleTable, PhaseFigures, modules};
pub use names::{CategoryRow, HolderRow, Names, TensorRow, UNKNOWN_KIND, names};
pub use obtained::obtained_for;
pub use origins::Origins;
pub use pace::Pace;
pub use pending::{Pending, pending};
pub use phases::{Phase, PhaseRun, Phases, phases};
pub use pins::Pin;
pub use pools::{PoolUse, pools};
pub use readings::{Difference, Outside, OutsidePoint, Readings, ReadingsOfPieces, SelfCheck, readings};
pub use stack_totals::{StackTotal, stack_totals};
pub use staircase::{Staircase, staircase};
pub use step_curve::{StepColumn, StepCurve, step_curve};
pub use step_growth::{StepLine, each_step_line};
pub use step_lines::step_lines;
pub use steps::{StepRow, StepSource, StepTable, StepsOfPieces, backward_steps, steps, steps_by_chunks};
pub use streams::{MainStream, StreamUse, Streams, streams};
pub use survivors::survivors;
pub use tags::{MODULE_RULE, ModuleTags, Tag};
pub use timeline::{
    Band, MarkReason, TimelineData, TimelineDataMark, TimelineExtent, TimelineOfPieces, mark_reasons,
    timeline,
};
pub use times::{Axis, PieceClock, Times};
pub use unserved::{Growth, Unserved, unserved};
pub use usage_curve::{UsageCurve, usage_curve};
pub use user_code::{FrameClass, LINE_RULE, classify_frames};
pub use window::{WindowUsage, window_usage};
pub use without::{MOST_SETS, peaks_without};
pub use write::{Fill, TableFormat, write_table};
