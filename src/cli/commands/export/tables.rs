//! The tables behind the report, as a folder of Parquet or CSV files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::analysis::{Exporter, Table};
use crate::cli::args::ExportArgs;
use crate::cli::console::{Console, shown};
use crate::cli::{Status, input, output};
use crate::tables::TableFormat;

/// Runs the command.
pub(super) fn run(args: &ExportArgs, format: TableFormat, console: &Console) -> anyhow::Result<Status> {
    output::check_folder(&args.output)?;
    let tables = if args.tables.is_empty() { Table::ALL.to_vec() } else { args.tables.clone() };
    for &table in &tables {
        output::check_free(&file(&args.output, table, 0, format), args.force)?;
    }
    input::one(args.trace(), console, |input| {
        input::require_events(&input.trace, "export")?;
        input::require_allocator(&input.trace, "export")?;
        input::require_device(&input.trace, args.device)?;
        fs::create_dir_all(&args.output)
            .with_context(|| format!("cannot create folder {}", shown(&args.output)))?;
        let wanted = |device: u32| args.device.is_none_or(|only| only == device);
        for device in input.trace.devices.iter().filter(|device| wanted(device.device.0)) {
            let exporter = Exporter::new(&input.trace, device);
            for &table in &tables {
                let path = file(&args.output, table, device.device.0, format);
                let mut pending = output::Pending::create(&path, args.force)?;
                exporter.write(table, format, pending.writer())?;
                console.wrote(&path, pending.commit()?);
            }
        }
        Ok(())
    })?;
    Ok(Status::Done)
}

/// `lines.parquet` for device 0, `lines.1.parquet` for device 1, as the pictures are named.
fn file(folder: &Path, table: Table, device: u32, format: TableFormat) -> PathBuf {
    folder.join(match device {
        0 => format!("{table}.{format}"),
        device => format!("{table}.{device}.{format}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_like_the_pictures() {
        let name = |device| file(Path::new("out"), Table::Lines, device, TableFormat::Csv);
        assert_eq!(name(0), Path::new("out/lines.csv"));
        assert_eq!(name(3), Path::new("out/lines.3.csv"));
    }
}
