//! The tables that users take away, as Polars frames.
//!
//! Owns names, types and meanings of columns: each table's schema stands beside the code that fills it, and is
//! part of what memlab promises ([`TABLES_SCHEMA`], `docs/tables.md`). Texts are what the file says, untouched.
//! A null says that something is not known or does not apply. Rows come in a fixed order, so the same trace
//! gives the same table. Tables that may be as long as the recording are made piece by piece.

mod allocations;
mod categories;
mod findings;
mod fragmentation;
mod hashes;
mod lines;
mod modules;
mod ooms;
mod page;
mod parts;
mod pins;
mod pools;
mod schema;
mod segments;
mod stacks;
mod step_lines;
mod steps;
mod trace;
mod usage;
mod warnings;

pub use allocations::{Purposes, allocation_frames};
pub use categories::categories_frame;
pub use findings::{FindingEntry, findings_frame};
pub use fragmentation::{FragmentationEntry, fragmentation_frame};
pub use hashes::StackHashes;
pub use lines::lines_frame;
pub use modules::modules_frame;
pub use ooms::{OomEntry, ooms_frame};
pub use page::{TABLES, tables_page};
pub use parts::{FrameSource, Sink};
pub use pins::pins_frame;
pub use pools::pools_frame;
pub use schema::{ColumnSchema, ColumnType, TABLES_SCHEMA, TableSchema};
pub use segments::segments_frame;
pub use stacks::stack_frames;
pub use step_lines::step_line_frames;
pub use steps::steps_frame;
pub use trace::trace_frame;
pub use usage::usage_frames;
pub use warnings::warnings_frame;

/// The schemas, for those who write or list the tables.
pub mod schemas {
    pub use super::allocations::ALLOCATIONS;
    pub use super::categories::CATEGORIES;
    pub use super::findings::FINDINGS;
    pub use super::fragmentation::FRAGMENTATION;
    pub use super::lines::LINES;
    pub use super::modules::MODULES;
    pub use super::ooms::OOMS;
    pub use super::pins::PINS;
    pub use super::pools::POOLS;
    pub use super::segments::SEGMENTS;
    pub use super::stacks::STACKS;
    pub use super::step_lines::STEP_LINES;
    pub use super::steps::STEPS;
    pub use super::trace::TRACE;
    pub use super::usage::USAGE;
    pub use super::warnings::WARNINGS;
}

#[cfg(test)]
mod tests;
