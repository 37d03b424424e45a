//! The table of steps.

use crate::report::html::table::{Cell, Row, Table, column};
use crate::report::html::text::Name;
use crate::report::types::{StepRow, StepsRow};
use crate::units::Count;

const COLUMNS: usize = 8;

/// The first `most` steps; the page's script adds the others. Nothing where there are none.
pub(in crate::report::html) fn steps(steps: &StepsRow, place: usize, most: usize) -> Option<Table> {
    let columns = vec![
        column("words", "name", "step"),
        column("event", "begin_event", "begins").hint("Its first event"),
        column("event", "end_event", "ends").hint("The event after its last"),
        column("bytes", "begin_allocated_bytes", "live before").hint("Allocated before its first event"),
        column("bytes", "peak_allocated_bytes", "peak").hint("The most allocated within it"),
        column("event", "peak_event", "peak at event"),
        column("bytes", "end_allocated_bytes", "live at end").hint("Allocated after its last event"),
        column("change", "growth_bytes", "growth")
            .hint("By how much its end exceeds the end of the step before"),
    ];
    let rows: Vec<Row> = steps.rows.iter().take(most).map(row).collect();
    let others = (steps.rows.len() - rows.len()) as u64;
    let more = |count| Row::rest("more", &format!("{} more", Count(count)), vec![], COLUMNS);
    let rest = (others > 0).then(|| more(others)).into_iter().collect();
    let table =
        Table { kind: "steps", place, caption: "Memory by step", row_word: "step", columns, rows, rest };
    (!steps.rows.is_empty()).then_some(table)
}

fn row(step: &StepRow) -> Row {
    Row::new(vec![
        Cell::Name(Name::new(&step.name)),
        Cell::Event(Some(step.begin_event)),
        Cell::Event(Some(step.end_event)),
        Cell::Bytes(step.begin_allocated_bytes),
        Cell::Bytes(step.peak_allocated_bytes),
        Cell::Event(step.peak_event),
        Cell::Bytes(step.end_allocated_bytes),
        Cell::Change(step.growth_bytes),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixtures;

    #[test]
    fn what_is_not_shown_is_counted() {
        let report = fixtures::normal();
        let device = &report.traces[0].devices[0];
        let table = steps(&device.steps, 0, 25).unwrap();
        assert_eq!((table.rows.len(), table.rest.len()), (25, 1));
        assert!(steps(&device.steps, 0, 100).unwrap().rest.is_empty());
        assert!(steps(&StepsRow::default(), 0, 100).is_none());
    }
}
