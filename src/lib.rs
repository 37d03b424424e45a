//! GPU memory, explained. See `docs/design.md` for the floors: bytes → trace → what happened → tables →
//! findings → report.

pub mod cli;
pub mod error;
pub mod model;
pub mod rebuild;
pub mod report;
pub mod units;
