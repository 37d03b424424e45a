//! Arguments of `memlab check`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, ValueHint};

use crate::analysis::{FailOn, Gates};
use crate::units::{self, Bytes};

/// `memlab check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Snapshot or trace, plain, gzip or zstd; `-` is standard input
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath, help_heading = "Input")]
    pub trace: PathBuf,
    /// Most that may be allocated at any moment, for example 12GiB
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes, help_heading = "Gates")]
    max_peak: Option<Bytes>,
    /// Most that may be reserved at any moment
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes, help_heading = "Gates")]
    max_reserved: Option<Bytes>,
    /// Most by which a step may end with more allocated than the one before, for example 1MiB/step
    #[arg(long, value_name = "SIZE/step", value_parser = bytes_per_step, help_heading = "Gates")]
    max_growth: Option<Bytes>,
    /// A report.json of `memlab analyze`: its peaks, allocated and reserved, must not be exceeded
    #[arg(long, value_name = "REPORT.json", value_hint = ValueHint::FilePath, help_heading = "Gates")]
    pub baseline: Option<PathBuf>,
    /// By how many percent the baseline may be exceeded [default: 5]
    #[arg(long, value_name = "PCT", value_parser = percent, requires = "baseline", help_heading = "Gates")]
    tolerance: Option<f64>,
    /// Findings that must not be there: rules, or `error` or `warning` for all of a severity and worse
    /// [default without any gate: error]
    #[arg(
        long,
        value_name = "RULE,...",
        value_delimiter = ',',
        hide_possible_values = true,
        value_parser = PossibleValuesParser::new(FailOn::names()).try_map(fail_on),
        help_heading = "Gates"
    )]
    fail_on: Vec<FailOn>,
    /// Judge what was recorded: a late beginning or a cut end leaves no gate undecided
    #[arg(long, help_heading = "Gates")]
    recorded_part: bool,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Write the outcome there as JUnit XML
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub junit: Option<PathBuf>,
    /// Replace the file of --junit if it exists
    #[arg(short, long, requires = "junit", help_heading = "Output")]
    pub force: bool,
    /// Only this device
    #[arg(long, value_name = "N", help_heading = "Analysis")]
    pub device: Option<u32>,
}

impl CheckArgs {
    /// The same for the analysis, but for the baseline, which is a file.
    pub(crate) fn gates(&self) -> Gates {
        let mut gates = Gates {
            max_peak_bytes: self.max_peak.map(|bytes| bytes.0),
            max_reserved_bytes: self.max_reserved.map(|bytes| bytes.0),
            max_growth_bytes: self.max_growth.map(|bytes| bytes.0),
            baseline: None,
            fail_on: self.fail_on.clone(),
            recorded_part: self.recorded_part,
        };
        let sizes = [gates.max_peak_bytes, gates.max_reserved_bytes, gates.max_growth_bytes];
        let is_asked = sizes.iter().any(Option::is_some) || self.baseline.is_some();
        if !is_asked && gates.fail_on.is_empty() {
            gates.fail_on = FailOn::named("error").into_iter().collect();
        }
        gates
    }

    /// By how many percent the baseline may be exceeded.
    pub(crate) fn tolerance(&self) -> f64 {
        const UNLESS_SAID: f64 = 5.0;
        self.tolerance.unwrap_or(UNLESS_SAID)
    }
}

fn fail_on(name: String) -> Result<FailOn, String> {
    FailOn::named(&name).ok_or_else(|| format!("`{name}` is no rule"))
}

/// `1MiB/step`; the unit may be left out.
fn bytes_per_step(text: &str) -> Result<Bytes, String> {
    units::parse_bytes(text.trim().strip_suffix("/step").unwrap_or(text))
}

fn percent(text: &str) -> Result<f64, String> {
    match text.trim().trim_end_matches('%').trim_end().parse::<f64>() {
        Ok(value) if (0.0..=10_000.0).contains(&value) => Ok(value),
        _ => Err("write a number of percent from 0 to 10000".to_owned()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_a_size_per_step() {
        assert_eq!(bytes_per_step("1MiB/step"), Ok(Bytes(1 << 20)));
        assert_eq!(bytes_per_step("4096"), Ok(Bytes(4096)));
        assert!(bytes_per_step("1MiB/hour").is_err() && bytes_per_step("/step").is_err());
    }

    #[test]
    fn a_tolerance_is_a_number_of_percent() {
        assert_eq!((percent("2.5"), percent("5 %"), percent("0")), (Ok(2.5), Ok(5.0), Ok(0.0)));
        for text in ["-1", "NaN", "inf", "x", ""] {
            assert!(percent(text).is_err(), "{text}");
        }
    }
}
