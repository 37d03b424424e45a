//! GPU memory, explained. See `docs/design.md` for the floors: bytes → trace → what happened → tables →
//! findings → report.

pub mod analysis;
pub mod cli;
pub mod compare;
pub mod driver;
pub mod error;
pub mod export;
pub mod findings;
pub mod format;
pub mod import;
pub mod model;
pub mod rebuild;
pub mod report;
pub mod simulate;
pub mod symbols;
pub mod tables;
pub mod units;
