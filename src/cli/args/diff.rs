//! Arguments of `memlab diff`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::analysis::{DiffOptions, GrowthLimit};
use crate::cli::help;
use crate::units;

/// `memlab diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// Snapshot, trace, or report.json of `memlab analyze`; `-` is standard input
    #[arg(value_name = "BEFORE", value_hint = ValueHint::FilePath, help_heading = "Input", display_order = 0)]
    pub before: PathBuf,
    /// The other one, of any kind
    #[arg(value_name = "AFTER", value_hint = ValueHint::FilePath, help_heading = "Input", display_order = 1)]
    pub after: PathBuf,
    /// Write it there: diff.md, diff.json, diff.html and pictures into a folder, or one file that ends in .md,
    /// .json or .html
    #[arg(short, long, value_name = "DIR|FILE", value_hint = ValueHint::AnyPath, help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Replace files that exist
    #[arg(short, long, requires = "output", help_heading = "Output")]
    pub force: bool,
    /// Keep this many lines, 0 for all [default: all, but 10 in a table on the screen]
    #[arg(long, value_name = "N", help_heading = "Comparison")]
    top: Option<usize>,
    /// Also lines in which nothing differs
    #[arg(long, help_heading = "Comparison")]
    all: bool,
    /// Only this device
    #[arg(long, value_name = "N", help_heading = "Comparison")]
    device: Option<u32>,
    /// This device of BEFORE, with another one of AFTER
    #[arg(
        long,
        value_name = "N",
        requires = "after_device",
        conflicts_with = "device",
        help_heading = "Comparison"
    )]
    before_device: Option<u32>,
    /// This device of AFTER
    #[arg(
        long,
        value_name = "N",
        requires = "before_device",
        conflicts_with = "device",
        help_heading = "Comparison"
    )]
    after_device: Option<u32>,
    /// End with exit code 1 when the allocated or reserved peak of AFTER is higher by more, for example 64MiB or
    /// 5%
    #[arg(long, value_name = "SIZE|PCT", value_parser = growth, help_heading = "Comparison")]
    fail_on_growth: Option<GrowthLimit>,
}

impl DiffArgs {
    /// The same for the analysis. `--top 0` and no `--top` both mean every line.
    pub(crate) fn options(&self) -> DiffOptions {
        DiffOptions {
            all: self.all,
            top: self.top.filter(|&top| top > 0),
            fail_on_growth: self.fail_on_growth,
            tool: help::TOOL.to_owned(),
        }
    }

    /// The device of each side, where one is asked for.
    pub(crate) fn devices(&self) -> [Option<u32>; 2] {
        [self.before_device.or(self.device), self.after_device.or(self.device)]
    }

    /// How many rows a table on the screen shows; as ever without an answer.
    pub(crate) fn screen_top(&self) -> Option<usize> {
        self.top.map(|top| if top == 0 { usize::MAX } else { top })
    }
}

/// A size, or a number of percent.
fn growth(text: &str) -> Result<GrowthLimit, String> {
    let Some(number) = text.trim().strip_suffix('%') else {
        return units::parse_bytes(text).map(|bytes| GrowthLimit::Bytes(bytes.0));
    };
    match number.trim_end().parse::<f64>() {
        Ok(percent) if (0.0..=10_000.0).contains(&percent) => Ok(GrowthLimit::Percent(percent)),
        _ => Err("write a size such as 64MiB, or a number of percent from 0% to 10000%".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_a_size_or_percent() {
        assert_eq!(growth("64MiB"), Ok(GrowthLimit::Bytes(64 << 20)));
        assert_eq!(growth("0"), Ok(GrowthLimit::Bytes(0)));
        assert_eq!(growth("2.5 %"), Ok(GrowthLimit::Percent(2.5)));
        for text in ["", "x", "-1%", "NaN%", "%", "1e9%", "64MB"] {
            assert!(growth(text).is_err(), "{text}");
        }
    }
}
