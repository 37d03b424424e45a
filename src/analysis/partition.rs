//! One file of a job as its part of a dataset: all its devices in one set of tables, and who it is.
//!
//! Owns which rank it is there, and that devices follow each other in every table. Folders and files
//! are `cli`'s, the tables `export`'s.

use std::io::Write;

use rayon::prelude::*;

use crate::error::Result;
use crate::model::{Trace, Warnings};
use crate::tables::{self, TableFormat};

use super::ranks::rank_in;
use super::{Exporter, Table};

/// The tables that a dataset has unless others are asked for: those that answer the questions of `docs/fleet.md`.
pub const DATASET_TABLES: [Table; 12] = [
    Table::Trace,
    Table::Allocations,
    Table::Stacks,
    Table::Lines,
    Table::Steps,
    Table::StepLines,
    Table::Categories,
    Table::Usage,
    Table::Segments,
    Table::Fragmentation,
    Table::Ooms,
    Table::Findings,
];

/// Writes the tables of all devices of a recording, rebuilt once.
#[derive(Debug)]
pub struct Partition<'a> {
    trace: &'a Trace,
    devices: Vec<Exporter<'a>>,
}

impl<'a> Partition<'a> {
    /// Rebuilds the devices of `trace`, or only the one that is wanted.
    #[must_use]
    pub fn new(trace: &'a Trace, only: Option<u32>) -> Self {
        let wanted: Vec<_> =
            trace.devices.iter().filter(|entry| only.is_none_or(|only| entry.device.0 == only)).collect();
        Self { trace, devices: wanted.into_par_iter().map(|device| Exporter::new(trace, device)).collect() }
    }

    /// Writes `table` with the rows of every device, in order; the same trace gives the same bytes.
    ///
    /// # Errors
    /// Those of `output`; [`crate::error::Error::Table`] when a table cannot be built.
    pub fn write(&self, table: Table, format: TableFormat, output: &mut dyn Write) -> Result<()> {
        tables::write_table(table.schema(), format, output, &mut |sink| {
            self.devices.iter().try_for_each(|device| device.fill(table, &self.devices, sink))
        })
    }

    /// Whether the recording is whole, as far as that can be told.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.trace.complete && self.devices.iter().all(Exporter::is_complete)
    }

    /// Faults of the file and of its devices.
    #[must_use]
    pub fn warnings(&self) -> Warnings {
        let mut all = Warnings::default();
        for (place, device) in self.devices.iter().enumerate() {
            let (of_file, of_device) = device.warnings();
            if place == 0 {
                all.merge(of_file);
            }
            all.merge(of_device);
        }
        if self.devices.is_empty() { self.trace.warnings.clone() } else { all }
    }

    /// The devices' indices.
    #[must_use]
    pub fn devices(&self) -> Vec<u32> {
        self.devices.iter().map(Exporter::device_index).collect()
    }
}

/// The rank that the recording states, else the one that its path names.
#[must_use]
pub fn rank_of(path: &str, trace: &Trace) -> Option<u64> {
    trace.process.rank.or_else(|| rank_in(path).map(|(_, rank)| rank))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;

    #[test]
    fn a_stated_rank_is_stronger_than_a_name() {
        let mut trace = Trace::default();
        assert_eq!(rank_of("x.pickle", &trace), None);
        assert_eq!(rank_of("rank4.pickle", &trace), Some(4));
        trace.process.rank = Some(9);
        assert_eq!(rank_of("rank4.pickle", &trace), Some(9));
    }

    #[test]
    fn devices_follow_each_other_in_one_table() {
        let trace = TraceBuilder::new()
            .segment_alloc(0x7000_0000_0000, 2 << 20)
            .alloc(0x7000_0000_0000, 4096)
            .device(3)
            .segment_alloc(0x7000_0000_0000, 2 << 20)
            .alloc(0x7000_0000_0000, 512)
            .build();
        let text = |only| {
            let mut bytes = Vec::new();
            let partition = Partition::new(&trace, only);
            partition.write(Table::Lines, TableFormat::Csv, &mut bytes).unwrap();
            String::from_utf8(bytes).unwrap().split_once('\n').unwrap().1.to_owned()
        };
        assert_eq!(text(None), "0,,,,4096,4096,,0,4096,1,4096\n3,,,,512,512,,0,512,1,512\n");
        assert_eq!(text(Some(3)), "3,,,,512,512,,0,512,1,512\n");
        assert_eq!(Partition::new(&trace, None).devices(), [0, 3]);
    }
}
