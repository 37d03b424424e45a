//! One row per group, and one for the unattributed remainder.

use polars::prelude::{Column, DataFrame};

use crate::error::Result;
use crate::model::Trace;
use crate::tables::{Figures, Grouping, LineTable};

use super::{Positions, frame};

/// The table of lines, in its own order; the last row is what has no group, so that columns add up.
///
/// | column | type | meaning |
/// | --- | --- | --- |
/// | `file`, `line`, `function` | text, u64, text | the group; all null in the last row, some null by grouping |
/// | `stack` | text | whole stack, innermost frame first, a frame a line; null unless grouped by stack |
/// | `held_at_peak_bytes` | u64 | bytes live when allocated bytes peak; the sum of the column is that peak |
/// | `own_peak_bytes` | u64 | the most its allocations ever held at one time |
/// | `active_peak_on_stack_bytes` | u64 | the highest active total while it is on the stack; null in the last row |
/// | `inferred_bytes` | u64 | the part of `held_at_peak_bytes` whose group was inferred |
/// | `total_bytes` | u64 | bytes of all its allocations together |
/// | `allocations` | u64 | how many there were |
/// | `live_at_end_bytes` | u64 | bytes live after the last event |
///
/// Grouped by module, the `file` column holds the module.
///
/// # Errors
/// When the table engine refuses the table, which would be a fault of memlab.
pub fn lines_frame(trace: &Trace, grouping: &Grouping, lines: &LineTable) -> Result<DataFrame> {
    let mut positions = Positions::default();
    let mut stacks: Vec<Option<String>> = Vec::with_capacity(lines.entries.len() + 1);
    for entry in &lines.entries {
        let key = grouping.keys.get(entry.group as usize);
        positions.push(trace, key);
        stacks.push(key.and_then(|key| key.stack_text(trace)).map(|frames| frames.join("\n")));
    }
    positions.push(trace, None);
    stacks.push(None);
    let on_stack: Vec<Option<u64>> =
        lines.entries.iter().map(|entry| Some(entry.active_peak_on_stack_bytes)).chain([None]).collect();
    let figures: Vec<Figures> =
        lines.entries.iter().map(|entry| entry.figures).chain([lines.unattributed]).collect();
    let column = |name: &str, of: fn(&Figures) -> u64| {
        Column::new(name.into(), figures.iter().map(of).collect::<Vec<_>>())
    };
    let mut columns: Vec<Column> = positions.columns().into();
    columns.extend([
        Column::new("stack".into(), stacks),
        column("held_at_peak_bytes", |figures| figures.held_at_peak_bytes),
        column("own_peak_bytes", |figures| figures.own_peak_bytes),
        Column::new("active_peak_on_stack_bytes".into(), on_stack),
        column("inferred_bytes", |figures| figures.inferred_bytes),
        column("total_bytes", |figures| figures.total_bytes),
        column("allocations", |figures| figures.allocations),
        column("live_at_end_bytes", |figures| figures.live_at_end_bytes),
    ]);
    frame("lines", columns)
}
