//! One row per module and phase, where the recorder named modules.

use polars::prelude::{Column, DataFrame};

use crate::error::Result;
use crate::tables::{GroupKey, ModuleTable, Phase, PhaseFigures};

use super::parts::{FrameSource, Positions, counts};
use super::schema::TableSchema;
use super::schema::columns::{DEVICE, bytes, count, count_or_null, text_or_null};

/// The table's schema.
pub const MODULES: TableSchema = TableSchema {
    name: "modules",
    meaning: "Every module of the network in every phase in which it allocates, most bytes held at the peak first, \
              and one row for what has no module, so that columns add up. No row where the recorder named no modules",
    columns: &[
        DEVICE,
        text_or_null("module", "qualified name; null in the last row"),
        text_or_null("phase", "`forward`, `backward` or `optimizer`; null in the last row"),
        bytes("held_at_peak_bytes", "live when allocated bytes peak; the column adds up to that peak"),
        bytes("total_bytes", "all its allocations together"),
        count("allocations", "how many there were"),
        text_or_null(
            "file",
            "file of the line that allocates most in the module's forward pass; null without one",
        ),
        count_or_null("line", "its number; null when not known"),
        text_or_null("function", "its function"),
    ],
};

/// The phases of [`crate::tables::ModuleRow::phases`], in order.
const PHASES: [Phase; 3] = [Phase::Forward, Phase::Backward, Phase::Optimizer];

/// The table of [`MODULES`].
///
/// # Errors
/// When the table engine refuses the table, which would be a fault of memlab.
pub fn modules_frame(source: &FrameSource<'_>, table: Option<&ModuleTable>) -> Result<DataFrame> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    if let Some(table) = table {
        for module in &table.rows {
            let phases = PHASES.into_iter().zip(module.phases).filter(|(_, figures)| figures.allocations > 0);
            let line = module.forward_line.as_ref();
            rows.extend(phases.map(|(phase, figures)| Row {
                module: Some(&module.module),
                phase: Some(phase.name()),
                figures,
                line,
            }));
        }
        rows.push(Row { module: None, phase: None, figures: table.unnamed, line: None });
    }
    let mut positions = Positions::default();
    for row in &rows {
        positions.push(source.trace, row.line);
    }
    let mut columns = vec![
        source.device_column(rows.len()),
        Column::new("module".into(), rows.iter().map(|row| row.module).collect::<Vec<_>>()),
        Column::new("phase".into(), rows.iter().map(|row| row.phase).collect::<Vec<_>>()),
        counts("held_at_peak_bytes", &rows, |row| row.figures.held_at_peak_bytes),
        counts("total_bytes", &rows, |row| row.figures.total_bytes),
        counts("allocations", &rows, |row| row.figures.allocations),
    ];
    columns.extend(positions.columns());
    MODULES.frame(columns)
}

struct Row<'a> {
    module: Option<&'a str>,
    phase: Option<&'static str>,
    figures: PhaseFigures,
    line: Option<&'a GroupKey>,
}
