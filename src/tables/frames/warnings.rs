//! One row per kind of fault met while reading and rebuilding.

use polars::prelude::{Column, DataFrame};

use crate::error::Result;
use crate::model::{Warning, Warnings};

use super::parts::{FrameSource, counts, texts};
use super::schema::TableSchema;
use super::schema::columns::{DEVICE, count, flag, text};

/// The table's schema.
pub const WARNINGS: TableSchema = TableSchema {
    name: "warnings",
    meaning: "Faults met while reading the file and rebuilding this device, by kind: those of the file first",
    columns: &[
        DEVICE,
        flag("of_file", "whether it concerns the whole file: such a row stands in the table of every device"),
        text("kind", "stable name"),
        count("count", "how often"),
        text("text", "what it means, with the first example"),
    ],
};

/// The table of [`WARNINGS`].
///
/// # Errors
/// When the table engine refuses the table, which would be a fault of memlab.
pub fn warnings_frame(
    source: &FrameSource<'_>,
    of_file: &Warnings,
    of_device: &Warnings,
) -> Result<DataFrame> {
    let of_file = of_file.iter().map(|warning| (true, warning));
    let rows: Vec<(bool, &Warning)> =
        of_file.chain(of_device.iter().map(|warning| (false, warning))).collect();
    WARNINGS.frame(vec![
        source.device_column(rows.len()),
        Column::new("of_file".into(), rows.iter().map(|(of_file, _)| *of_file).collect::<Vec<_>>()),
        texts("kind", &rows, |(_, warning)| warning.kind),
        counts("count", &rows, |(_, warning)| warning.count),
        texts("text", &rows, |(_, warning)| &warning.text),
    ])
}
