//! Arguments of `memlab whatif`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueHint};

use crate::analysis::{self, LineChange};
use crate::simulate::Release;
use crate::units::{self, Bytes};

/// `memlab whatif`.
#[derive(Debug, Args)]
pub(crate) struct WhatIfArgs {
    /// Snapshot or trace, plain, gzip or zstd; `-` is standard input
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath, help_heading = "Input")]
    pub trace: PathBuf,
    /// Write whatif.md, whatif.json and whatif.svg there
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Replace files that exist
    #[arg(short, long, requires = "output", help_heading = "Output")]
    pub force: bool,
    /// Only this device [default: the one with most events]
    #[arg(long, value_name = "N", help_heading = "Replay")]
    device: Option<u32>,
    /// Try this text of PYTORCH_CUDA_ALLOC_CONF; repeatable [default: a standard set]
    #[arg(long = "set", value_name = "CONF", help_heading = "Replay")]
    sets: Vec<String>,
    /// Go through many splits and divisions
    #[arg(long, help_heading = "Replay")]
    search: bool,
    /// Fit into so much memory, for example 24GiB, and say how little would do
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes, help_heading = "Replay")]
    memory: Option<Bytes>,
    /// Leave out the allocations with this line on their stack; repeatable
    #[arg(long, value_name = "FILE:LINE", value_parser = line_gone, help_heading = "Replay")]
    without: Vec<LineChange>,
    /// Scale the allocations with this line on their stack; repeatable
    #[arg(long, value_name = "FILE:LINE=F", value_parser = line_scaled, help_heading = "Replay")]
    scale: Vec<LineChange>,
    /// Read settings as this release of PyTorch does
    #[arg(
        long,
        value_name = "VERSION",
        default_value = "2.11",
        value_parser = PossibleValuesParser::new(["2.6", "2.11", "2.15"]),
        help_heading = "Replay"
    )]
    conf_at: String,
}

impl WhatIfArgs {
    /// The same for the analysis.
    pub(crate) fn options(&self) -> analysis::WhatIfOptions {
        analysis::WhatIfOptions {
            device: self.device,
            sets: self.sets.clone(),
            search: self.search,
            memory_bytes: self.memory.map(|bytes| bytes.0),
            changes: self.without.iter().chain(&self.scale).cloned().collect(),
            release: Release::named(&self.conf_at).unwrap_or_default(),
        }
    }
}

/// `FILE:LINE`.
fn line_gone(text: &str) -> Result<LineChange, String> {
    let place = text.rsplit_once(':').filter(|(file, _)| !file.is_empty());
    let (file, line) = place.ok_or_else(|| "write FILE:LINE, for example train.py:12".to_owned())?;
    let line = line.parse().map_err(|_| format!("`{line}` is no line number"))?;
    Ok(LineChange { file: file.to_owned(), line, factor: 0.0 })
}

/// `FILE:LINE=FACTOR`.
fn line_scaled(text: &str) -> Result<LineChange, String> {
    let pair = text.rsplit_once('=');
    let (place, factor) = pair.ok_or_else(|| "write FILE:LINE=F, for example train.py:12=0.5".to_owned())?;
    match factor.parse::<f64>() {
        Ok(factor) if (0.0..=1000.0).contains(&factor) => Ok(LineChange { factor, ..line_gone(place)? }),
        _ => Err(format!("`{factor}` is no factor from 0 to 1000")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn lines_to_change_are_read_as_typed() {
        let gone = line_gone("C:/a:b/train.py:12").unwrap();
        assert_eq!((gone.file.as_str(), gone.line, gone.factor), ("C:/a:b/train.py", 12, 0.0));
        let half = line_scaled("train.py:12=0.5").unwrap();
        assert_eq!((half.line, half.factor), (12, 0.5));
        for text in ["train.py", ":12", "train.py:x", "train.py:1=-1", "train.py:1=NaN"] {
            assert!(line_gone(text).is_err() && line_scaled(text).is_err(), "{text}");
        }
    }
}
