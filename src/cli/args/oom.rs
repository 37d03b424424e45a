//! Arguments of `memlab oom`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// `memlab oom`.
#[derive(Debug, Args)]
pub(crate) struct OomArgs {
    /// Logs of any kind, plain, gzip or zstd; `-` is standard input
    #[arg(value_name = "LOG", required = true, value_hint = ValueHint::FilePath, help_heading = "Input")]
    pub logs: Vec<PathBuf>,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}
