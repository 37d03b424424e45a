//! One file of a job as its part of a dataset: all its devices in one set of tables, and who it is.
//!
//! Owns how a rank and a job are named there, and that devices follow each other in every table. Folders and files
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

/// The name of a job where the path has none.
const UNNAMED_JOB: &str = "job";

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
            self.devices.iter().try_for_each(|device| device.fill(table, sink))
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

/// What the job of the file `path` is called unless it is said: the name of the folder that holds the ranks, files
/// or folders; `job` where the path names no folder.
#[must_use]
pub fn job_name(path: &str) -> String {
    const SEPARATORS: [char; 2] = ['/', '\\'];
    let folder_of = |path: &str| path.rfind(SEPARATORS).map_or(0, |at| at);
    let mut end = folder_of(path);
    if rank_in(path).is_some_and(|(place, _)| place.start < end) {
        end = folder_of(&path[..end]);
    }
    let folder = path[..end].trim_end_matches(SEPARATORS);
    let name = folder.rfind(SEPARATORS).map_or(folder, |at| &folder[at + 1..]);
    if matches!(name, "" | "." | "..") { UNNAMED_JOB.to_owned() } else { name.to_owned() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;

    #[test]
    fn a_job_is_called_like_the_folder_that_holds_its_ranks() {
        for (path, job) in [
            ("run7/rank0.pickle", "run7"),
            ("out/run 7/snapshot_rank_3.pickle.gz", "run 7"),
            ("run7/rank_5/snapshot.pickle", "run7"),
            ("run7\\rank_5\\snapshot.pickle", "run7"),
            ("a//run7//rank0.pickle", "run7"),
            ("rank_5/snapshot.pickle", "job"),
            ("rank0.pickle", "job"),
            ("./rank0.pickle", "job"),
            ("../rank0.pickle", "job"),
            ("/rank0.pickle", "job"),
            ("größe/x.msgpack", "größe"),
            ("-", "job"),
            ("", "job"),
        ] {
            assert_eq!(job_name(path), job, "{path}");
        }
    }

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
