//! Report: plain data and its renderers.
//!
//! Owns the shapes that `--json` prints and the pictures and pages made from them. Computes nothing: every
//! figure arrives finished. Every renderer escapes what comes from the trace, and the same report always
//! gives the same bytes.

mod categories;
mod check;
mod columns;
mod diff;
mod driver;
#[cfg(test)]
mod driver_fixture;
mod driver_sentence;
mod driver_sums;
mod driver_text;
mod driver_words;
pub mod escape;
mod explain;
mod findings_text;
#[cfg(test)]
mod fixtures;
pub mod html;
mod json;
mod lines_table;
mod markdown;
mod modules_table;
mod numbering;
mod oom;
mod packed;
#[cfg(test)]
mod picture_fixture;
mod pictures;
mod ranks;
mod recorded;
#[cfg(test)]
mod recorded_fixture;
mod steps_table;
mod style;
mod summary;
mod svg;
mod text;
#[cfg(test)]
mod timeline_fixture;
mod told;
mod types;
mod verdict;
mod whatif;
mod wrap;

pub use categories::{CategoryTable, CategoryTableRow};
pub use check::{CheckReport, GatePart, GateRow, Outcome, check_junit, check_line, check_text};
pub use diff::{
    CategoryDiff, Change, DeviceDiff, DiffInput, DiffPlace, DiffReport, FactDiff, FiguresDiff, FindingDiff,
    FindingsDiff, FragmentationFigures, LibraryDiff, LineDiff, LinesSum, ModuleDiff, OomFigures, Sides,
    StepFigures, diff_html, diff_markdown, diff_text,
};
pub use driver::{
    DriverCallRow, DriverDeviceRow, DriverHolderRow, DriverHostRow, DriverJoinRow, DriverKindRow,
    DriverLineRow, DriverPartRow, DriverRefusedRow, DriverReport, DriverSumRow, MissingModuleRow, SymbolsRow,
};
pub use explain::{explain_index, explain_json, explain_text};
pub use html::{HtmlOptions, html};
pub use json::{JSON_BETWEEN, json, json_frame, json_trace, pretty};
pub use lines_table::lines_table;
pub use markdown::{MarkdownOptions, markdown, picture_name};
pub use modules_table::modules_table;
pub use oom::{GLOSSARY, LogRow, MessageRow, OomReport, ProcessRow, oom_text};
pub use packed::Word;
pub use pictures::{
    FlameBox, FlameGraph, FlameKind, MapBlock, MapSegment, MapState, Pictures, SegmentMap, StepColumn,
    StepCurve,
};
pub use ranks::{
    FailedRank, OtherDevice, RankCurve, RankFailure, RankFinding, RankGrowth, RankLine, RankOom, RankOutlier,
    RankRow, RankSteps, RanksReport, SeverityCounts, StepAcross, rank_name, ranks_html, ranks_markdown,
    ranks_text,
};
pub use recorded::{
    CategoriesRow, CategoryRow, CensusRow, DifferenceRow, HolderRow, ModuleRow, ModulesRow, OutsidePointRow,
    OutsideRow, PhaseRow, PlaceRow, SelfCheckRow, TensorRow,
};
pub use style::Style;
pub use summary::{SummaryGroup, SummaryRow, SummaryTable, summary_table};
pub use svg::{
    DRIVER_PICTURE, PICTURE_KINDS, diff_svg, driver_timeline_svg, flamegraph_svg, fragmentation_svg,
    picture_svg, ranks_svg, segments_svg, steps_svg, timeline_svg, whatif_svg,
};
pub use text::{text_summary, write_summary};
pub(crate) use told::line_label;
pub use types::{
    ByCause, DeviceReport, FindingLine, FindingRow, Four, Fragmentation, FragmentationRow, HistoryRow,
    LineFigures, LineRow, LiveMomentRow, LiveRow, OomRow, PinRow, PoolRow, ReducedRow, Report, SCHEMA,
    SourceRow, StepRow, StepsRow, Timeline, TimelineMark, TraceReport, WarningRow,
};
pub use whatif::{
    BaselineRow, BoundsRow, ChangedLineRow, HelpRow, HelpSettingRow, LimitRow, RecommendationRow, SettingRow,
    WhatIfReport, whatif_markdown, whatif_text,
};
