//! The order of the work: files read and written few at a time, then put in place one by one, in the order of the
//! arguments, so that the same call always ends alike.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::manifest::{self, FailureEntry, Manifest, RankEntry};
use super::place::{self, Staging};
use crate::analysis::{self, DATASET_TABLES, Partition, Table};
use crate::cli::args::ExportArgs;
use crate::cli::budget::Budget;
use crate::cli::console::{Console, shown};
use crate::cli::failure::{describe, refuse};
use crate::cli::input::{self, Input};
use crate::cli::output::{self, Pending};
use crate::cli::{Status, recordings};
use crate::tables::TableFormat;

/// A rank whose files are written but not in their place.
struct Made {
    folder: PathBuf,
    bytes: u64,
    entry: RankEntry,
}

/// Runs the command.
pub(in super::super) fn run(args: &ExportArgs, console: &Console) -> anyhow::Result<Status> {
    let dataset = args.output.as_path();
    output::check_folder(dataset)?;
    let paths = recordings::expand(&args.traces)?;
    let known = Manifest::read(dataset)?;
    let is_new = !dataset.exists();
    fs::create_dir_all(dataset).with_context(|| format!("cannot create folder {}", shown(dataset)))?;
    let staging = Staging::begin(dataset)?;
    let work = |at: usize, input: Input| {
        make(args, &staging, at, &input).with_context(|| format!("failed to export {}", input.label))
    };
    let made = input::within(&paths, None, &Budget::new(None), console, work, None, 0)?;
    let (placed, failed, mut bytes) = place_all(args, &paths, made, &staging, console);
    drop(staging);
    let status = if failed.is_empty() { Status::Done } else { Status::Failed };
    if placed.is_empty() {
        if is_new {
            // Nothing is left behind; a folder that is not empty stays by itself.
            let _ = fs::remove_dir(dataset);
        }
        return Ok(status);
    }
    bytes += known.with(placed, failed).write(dataset)?;
    console.wrote(dataset, bytes);
    Ok(status)
}

/// Writes the tables of one file.
fn make(args: &ExportArgs, staging: &Staging, at: usize, input: &Input) -> anyhow::Result<Made> {
    let trace = &input.trace;
    let Some(rank) = analysis::rank_of(&input.label, trace) else {
        let hint = "name the file like rank3.pickle, or its folder like rank_3";
        return Err(refuse("neither the recording nor its name says which rank it is of", hint));
    };
    input::require_allocator(trace, "export")?;
    input::require_device(trace, args.device)?;
    let job = args.job.clone().unwrap_or_else(|| analysis::job_name(&input.label));
    let name = place::folder(&job, rank);
    place::check_free(&args.output.join(&name), args.force)?;
    let tables = if args.tables.is_empty() { &DATASET_TABLES[..] } else { &args.tables };
    let partition = Partition::new(trace, args.device);
    let folder = staging.folder(at)?;
    let bytes = write(&partition, tables, &folder)?;
    let entry = RankEntry {
        job,
        rank,
        folder: name,
        path: input.label.clone(),
        file_bytes: input.file_bytes,
        events: trace.event_count() as u64,
        devices: partition.devices(),
        complete: partition.is_complete(),
        tables: tables.iter().map(ToString::to_string).collect(),
        warnings: manifest::entries(&partition.warnings()),
    };
    Ok(Made { folder, bytes, entry })
}

fn write(partition: &Partition<'_>, tables: &[Table], folder: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for &table in tables {
        // Asked for twice, it is written once.
        let mut pending = Pending::create(&folder.join(format!("{table}.parquet")), true)?;
        partition.write(table, TableFormat::Parquet, pending.writer())?;
        bytes += pending.commit()?;
    }
    Ok(bytes)
}

/// Puts what was made in place and tells what failed; also says how many bytes were placed.
fn place_all(
    args: &ExportArgs,
    paths: &[PathBuf],
    made: Vec<anyhow::Result<Made>>,
    staging: &Staging,
    console: &Console,
) -> (Vec<RankEntry>, Vec<FailureEntry>, u64) {
    let (mut placed, mut failed, mut bytes) = (Vec::new(), Vec::new(), 0);
    let mut taken = BTreeMap::new();
    for (path, made) in paths.iter().zip(made) {
        let result = made.and_then(|made| {
            first_of_its_rank(&mut taken, &made.entry)?;
            staging.place(&made.folder, &args.output.join(&made.entry.folder), args.force)?;
            Ok(made)
        });
        match result {
            Ok(made) => {
                console.detail(&format!("{} is {}", made.entry.path, made.entry.folder));
                bytes += made.bytes;
                placed.push(made.entry);
            }
            Err(error) => {
                console.error(&error);
                failed.push(FailureEntry { path: shown(path), error: describe(&error).title });
            }
        }
    }
    (placed, failed, bytes)
}

/// Refuses a second file of the same rank: which one is right cannot be known.
fn first_of_its_rank(taken: &mut BTreeMap<String, String>, entry: &RankEntry) -> anyhow::Result<()> {
    if let Some(other) = taken.get(&entry.folder) {
        return Err(refuse(
            format!("{} is rank {} of job {}, and so is {other}", entry.path, entry.rank, entry.job),
            "files of one call need ranks of their own; other jobs go into calls with another --job",
        ));
    }
    taken.insert(entry.folder.clone(), entry.path.clone());
    Ok(())
}
