//! Tables of a trace as files: which there are, and how one is made; and the devices that other exports start from.
//!
//! Owns the choice and the order of the work; the columns are documented where the frames are built
//! (`tables::frames`), the formats in `tables::write` and in `export`.

use std::fmt;
use std::io::Write;
use std::str::FromStr;

use rayon::prelude::*;

use crate::error::Result;
use crate::export::DeviceHistory;
use crate::model::{DeviceTrace, Trace};
use crate::rebuild::{History, rebuild};
use crate::tables::{self, GroupBy, Grouping, TableFormat};

/// A table that can be exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// One row per allocation: size, life, stack, line.
    Allocations,
    /// One row per event: the four counters after it.
    Usage,
    /// One row per range held from the driver.
    Segments,
    /// One row per line, and one for what has none.
    Lines,
    /// One row per step.
    Steps,
}

impl Table {
    /// Every table.
    pub const ALL: [Self; 5] = [Self::Allocations, Self::Usage, Self::Segments, Self::Lines, Self::Steps];

    /// The word on the command line, and the stem of the file's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Allocations => "allocations",
            Self::Usage => "usage",
            Self::Segments => "segments",
            Self::Lines => "lines",
            Self::Steps => "steps",
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Table {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|table| table.name() == text)
            .ok_or_else(|| format!("`{text}` is no table; use allocations, usage, segments, lines or steps"))
    }
}

/// The devices of `trace` (or the one called `device`) with what happened on each.
///
/// # Errors
/// [`crate::error::Error::Shape`] when `device` is not in the trace.
pub fn histories(trace: &Trace, device: Option<u32>) -> Result<Vec<DeviceHistory<'_>>> {
    let devices = super::chosen(trace, device)?;
    Ok(devices
        .into_par_iter()
        .map(|device| DeviceHistory { device, history: rebuild(trace, device) })
        .collect())
}

/// Writes tables of one device; what they share is computed once.
#[derive(Debug)]
pub struct Exporter<'a> {
    trace: &'a Trace,
    device: &'a DeviceTrace,
    history: History,
    grouping: Grouping,
}

impl<'a> Exporter<'a> {
    /// Rebuilds `device` of `trace` and groups its allocations by line.
    #[must_use]
    pub fn new(trace: &'a Trace, device: &'a DeviceTrace) -> Self {
        let history = rebuild(trace, device);
        let grouping = Grouping::build(trace, device, &history, GroupBy::Line);
        Self { trace, device, history, grouping }
    }

    /// Writes `table` as `format` to `output`; the same trace gives the same bytes.
    ///
    /// # Errors
    /// Those of `output`; [`crate::error::Error::Table`] when a table cannot be built.
    pub fn write(&self, table: Table, format: TableFormat, output: &mut dyn Write) -> Result<()> {
        let Self { trace, device, history, grouping } = self;
        let mut frame = match table {
            Table::Allocations => tables::allocations_frame(trace, device, history, grouping)?,
            Table::Usage => tables::usage_frame(device, history)?,
            Table::Segments => tables::segments_frame(trace, device, history, grouping)?,
            Table::Lines => {
                let lines = tables::lines(trace, device, history, grouping, None)?;
                tables::lines_frame(trace, grouping, &lines)?
            }
            Table::Steps => tables::steps_frame(device, &tables::steps(trace, device, history))?,
        };
        tables::write_frame(&mut frame, format, output)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;

    #[test]
    fn every_table_is_written_in_both_formats() {
        let trace = TraceBuilder::new()
            .segment_alloc(0x7000_0000_0000, 2 << 20)
            .at("train.py", 3, "step")
            .alloc(0x7000_0000_0000, 4096)
            .free(0x7000_0000_0000, 4096)
            .build();
        let exporter = Exporter::new(&trace, &trace.devices[0]);
        for table in Table::ALL {
            assert_eq!(table.name().parse::<Table>(), Ok(table));
            let mut csv = Vec::new();
            exporter.write(table, TableFormat::Csv, &mut csv).unwrap();
            assert!(csv.contains(&b','), "{table} has a head");
            let mut parquet = Vec::new();
            exporter.write(table, TableFormat::Parquet, &mut parquet).unwrap();
            assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"), "{table}");
        }
        assert!("events".parse::<Table>().is_err());
    }
}
