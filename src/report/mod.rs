//! Report: plain data and its renderers.
//!
//! Owns the shapes that `--json` prints and the pictures and pages made from them. Computes nothing: every
//! figure arrives finished.

mod types;

pub use types::{
    DeviceReport, FindingLine, FindingRow, Four, Fragmentation, FragmentationRow, HistoryRow, LineFigures,
    LineRow, OomRow, PinRow, PoolRow, Report, SCHEMA, StepsRow, Timeline, TimelineMark, TraceReport,
    WarningRow,
};
