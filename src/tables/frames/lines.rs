//! One row per line, and one for the unattributed remainder.

use polars::prelude::{Column, DataFrame};

use crate::error::Result;
use crate::tables::{Figures, LineTable};

use super::parts::{FrameSource, Positions, counts};
use super::schema::TableSchema;
use super::schema::columns::{DEVICE, FILE, FUNCTION, LINE, bytes, bytes_or_null, count};

/// The table's schema.
pub const LINES: TableSchema = TableSchema {
    name: "lines",
    meaning: "Every line of the user's code, most bytes held at the peak first. The last row is what has no line, \
              so that columns add up",
    columns: &[
        DEVICE,
        FILE,
        LINE,
        FUNCTION,
        bytes("held_at_peak_bytes", "live when allocated bytes peak; the column adds up to that peak"),
        bytes("own_peak_bytes", "the most its allocations ever held at one time"),
        bytes_or_null(
            "active_peak_on_stack_bytes",
            "the highest active total while it is on the stack; null in the last row",
        ),
        bytes("inferred_bytes", "the part of `held_at_peak_bytes` whose line was inferred"),
        bytes("total_bytes", "all its allocations together"),
        count("allocations", "how many there were"),
        bytes("live_at_end_bytes", "live after the last event"),
    ],
};

/// The table of [`LINES`].
///
/// # Errors
/// When the table engine refuses the table, which would be a fault of memlab.
pub fn lines_frame(source: &FrameSource<'_>, lines: &LineTable) -> Result<DataFrame> {
    let mut positions = Positions::default();
    for entry in &lines.entries {
        positions.push(source.trace, source.grouping.keys.get(entry.group as usize));
    }
    positions.push(source.trace, None);
    let on_stack: Vec<Option<u64>> =
        lines.entries.iter().map(|entry| Some(entry.active_peak_on_stack_bytes)).chain([None]).collect();
    let figures: Vec<Figures> =
        lines.entries.iter().map(|entry| entry.figures).chain([lines.unattributed]).collect();
    let mut columns = vec![source.device_column(figures.len())];
    columns.extend(positions.columns());
    columns.extend([
        counts("held_at_peak_bytes", &figures, |figures| figures.held_at_peak_bytes),
        counts("own_peak_bytes", &figures, |figures| figures.own_peak_bytes),
        Column::new("active_peak_on_stack_bytes".into(), on_stack),
        counts("inferred_bytes", &figures, |figures| figures.inferred_bytes),
        counts("total_bytes", &figures, |figures| figures.total_bytes),
        counts("allocations", &figures, |figures| figures.allocations),
        counts("live_at_end_bytes", &figures, |figures| figures.live_at_end_bytes),
    ]);
    LINES.frame(columns)
}
