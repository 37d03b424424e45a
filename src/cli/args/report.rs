//! Arguments of `memlab report`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::AnalysisArgs;
use crate::units::{self, Bytes};

/// `memlab report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Snapshot or trace, plain, gzip or zstd; `-` is standard input
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath, help_heading = "Input")]
    pub trace: PathBuf,
    /// The page to write
    #[arg(short, long, value_name = "FILE", default_value = "report.html", value_hint = ValueHint::FilePath,
        help_heading = "Output")]
    pub output: PathBuf,
    /// Show the code around each line, from source files below DIR; nothing else is read [default: .]
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = ".", hide_default_value = true,
        value_hint = ValueHint::DirPath, help_heading = "Output")]
    pub source: Option<PathBuf>,
    /// Bytes that the events may take in the page; what has no room is left out and said [default: 1.7MiB, with
    /// which every page is under 3 MB]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes, help_heading = "Output")]
    pub detail: Option<Bytes>,
    /// Replace FILE if it exists
    #[arg(short, long, help_heading = "Output")]
    pub force: bool,
    /// How to analyze.
    #[command(flatten)]
    pub analysis: AnalysisArgs,
}
