//! Options of `memlab reduce`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// `memlab reduce`.
#[derive(Debug, Args)]
pub(crate) struct ReduceArgs {
    /// Snapshot or trace, plain, gzip or zstd
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath, help_heading = "Input")]
    pub trace: PathBuf,
    /// Write the reduced recording there; its name ends in .msgpack
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub output: PathBuf,
    /// Replace FILE if it exists
    #[arg(short, long, help_heading = "Output")]
    pub force: bool,
}
