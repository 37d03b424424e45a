//! Arguments of `memlab analyze`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use regex::Regex;

use super::{AnalysisArgs, SymbolsArgs};
use crate::units::{self, Bytes};

/// `memlab analyze`.
#[derive(Debug, Args)]
pub(crate) struct AnalyzeArgs {
    /// Snapshots or traces, plain, gzip or zstd; folders of them, patterns with `*`, `?`, `[...]`; `-` is standard
    /// input
    #[arg(value_name = "TRACE", required = true, value_hint = ValueHint::FilePath, help_heading = "Input")]
    pub traces: Vec<PathBuf>,
    /// Where the rank stands in a path: the group called `rank`, else the first, of this regular expression
    #[arg(long, value_name = "REGEX", value_parser = rank_pattern, help_heading = "Input")]
    pub rank_from: Option<Regex>,
    /// How much the files may take that are analysed at a time, for example 12GiB [default: half of what is available]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes, help_heading = "Input")]
    pub memory_budget: Option<Bytes>,
    /// Where the binaries of native frames lie.
    #[command(flatten)]
    pub symbols: SymbolsArgs,
    /// Write report.html, report.md, report.json and pictures there; one subfolder each for several traces,
    /// and ranks.html, ranks.md, ranks.json and ranks.svg beside them
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Print the whole report as JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Replace files that exist
    #[arg(short, long, requires = "output", help_heading = "Output")]
    pub force: bool,
    /// How to analyze.
    #[command(flatten)]
    pub analysis: AnalysisArgs,
}

/// A regular expression that says where a rank stands, so it needs a group.
fn rank_pattern(text: &str) -> Result<Regex, String> {
    let pattern = Regex::new(text).map_err(|error| {
        // Its last line says what is wrong; those before it point with spaces that clap would fold.
        let told = error.to_string();
        told.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
    })?;
    if pattern.captures_len() < 2 {
        return Err(
            "it has no group: put the digits of the rank in parentheses, as in `rank_(\\d+)`".to_owned()
        );
    }
    Ok(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_without_a_group_is_refused() {
        assert!(rank_pattern(r"rank_(\d+)").is_ok() && rank_pattern(r"(?P<rank>[0-9]+)").is_ok());
        assert!(rank_pattern(r"rank_\d+").is_err_and(|text| text.contains("no group")));
        assert!(rank_pattern("(").is_err_and(|text| text.contains("unclosed group")));
    }
}
