//! `memlab export`: a trace as files of other tools.
//!
//! Which format is meant and what goes with it is [`target`]'s to say; [`tables`] writes a folder, [`dataset`] one of
//! many ranks, [`file`] one file.

mod dataset;
mod file;
mod tables;
mod target;

use crate::cli::Status;
use crate::cli::args::ExportArgs;
use crate::cli::console::Console;
use crate::tables::TableFormat;
use target::Target;

/// Runs the command.
pub(crate) fn run(args: &ExportArgs, console: &Console) -> anyhow::Result<Status> {
    match target::of(args)? {
        Target::Parquet if args.partition => dataset::run(args, console),
        Target::Parquet => tables::run(args, TableFormat::Parquet, console),
        Target::Csv => tables::run(args, TableFormat::Csv, console),
        target => file::run(args, target, console),
    }
}
