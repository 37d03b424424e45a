//! One row per step and line that did something since the step before.

use polars::prelude::{Column, DataFrame};

use crate::error::Result;
use crate::tables::{StepLine, StepTable, each_step_line};

use super::parts::{FrameSource, PIECE, Positions, Sink, counts};
use super::schema::TableSchema;
use super::schema::columns::{DEVICE, FILE, FUNCTION, LINE, bytes, change, count, number};

/// The table's schema.
pub const STEP_LINES: TableSchema = TableSchema {
    name: "step_lines",
    meaning: "What every line holds at the end of every step, in order of steps, then of lines; what has no line \
              comes last. A line that neither allocated nor freed since the step before has no row: it holds what it \
              held. The growth of all rows of a step adds up to the step's",
    columns: &[
        DEVICE,
        number("step", "number of the step, see `steps`"),
        FILE,
        LINE,
        FUNCTION,
        bytes("end_bytes", "what it holds at the step's end"),
        change(
            "growth_bytes",
            "by how much that exceeds the end of the step before; for the first step, its own beginning",
        ),
        bytes("allocated_bytes", "what it allocated within the step"),
        count("allocations", "in so many allocations"),
    ],
};

/// The table of [`STEP_LINES`].
///
/// # Errors
/// Those of `sink`; when the table engine refuses the table, which would be a fault of memlab.
pub fn step_line_frames(source: &FrameSource<'_>, steps: &StepTable, sink: &mut Sink<'_>) -> Result<()> {
    let mut rows: Vec<StepLine> = Vec::new();
    let mut told = Ok(());
    each_step_line(source.history, source.grouping, steps, |row| {
        rows.push(row);
        if rows.len() == PIECE && told.is_ok() {
            told = frame(source, &rows).and_then(&mut *sink);
            rows.clear();
        }
    });
    told?;
    if rows.is_empty() { Ok(()) } else { sink(frame(source, &rows)?) }
}

fn frame(source: &FrameSource<'_>, rows: &[StepLine]) -> Result<DataFrame> {
    let mut positions = Positions::default();
    for row in rows {
        positions.push(source.trace, source.grouping.keys.get(row.group as usize));
    }
    let mut columns = vec![
        source.device_column(rows.len()),
        Column::new("step".into(), rows.iter().map(|row| row.step).collect::<Vec<_>>()),
    ];
    columns.extend(positions.columns());
    columns.extend([
        counts("end_bytes", rows, |row| row.end_bytes),
        Column::new("growth_bytes".into(), rows.iter().map(|row| row.growth_bytes).collect::<Vec<_>>()),
        counts("allocated_bytes", rows, |row| row.allocated_bytes),
        counts("allocations", rows, |row| row.allocations),
    ]);
    STEP_LINES.frame(columns)
}
