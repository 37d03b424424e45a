//! What was live at the kept moments of a reduced recording: one table for each.

use crate::report::html::table::{Cell, Row, Table, column};
use crate::report::html::text::Name;
use crate::report::types::{DeviceReport, LiveMomentRow, LiveRow, TraceReport};
use crate::units::Count;

const COLUMNS: usize = 6;
/// The tables of `device`, each with at most `most` allocations, the largest first, and the sum of all; none of a
/// recording that has its events.
pub(in crate::report::html) fn live(
    trace: &TraceReport,
    device: &DeviceReport,
    place: usize,
    most: usize,
) -> Vec<Table> {
    let moments = trace.reduced.iter().flat_map(|reduced| reduced.live_on(device.device));
    moments.map(|(moment, title)| table(moment, title, place, most)).collect()
}

/// What the script calls the table of a moment.
fn kind(moment: &LiveMomentRow) -> &'static str {
    match moment.moment.as_str() {
        "allocated-peak" => "live-allocated-peak",
        "reserved-peak" => "live-reserved-peak",
        "oom" => "live-oom",
        _ => "live-end",
    }
}

fn table(moment: &LiveMomentRow, caption: &'static str, place: usize, most: usize) -> Table {
    let kind = kind(moment);
    let columns = vec![
        column("words", "line", "line"),
        column("bytes", "bytes", "block").sorted(),
        column("bytes", "requested_bytes", "requested").hint("Asked for"),
        column("event", "alloc_event", "made at event"),
        column("count", "stream", "stream").hint("Raw pointer value; 0 is the default stream"),
        column("words", "state", "state"),
    ];
    let rows: Vec<Row> = moment.rows.iter().take(most).map(row).collect();
    let shown = moment.rows.iter().take(most).fold(0u64, |sum, row| sum.saturating_add(row.bytes));
    let mut rest = Vec::new();
    let others = moment.allocations.saturating_sub(rows.len() as u64);
    if others > 0 {
        let bytes = Cell::Bytes(moment.bytes.saturating_sub(shown));
        rest.push(Row::rest("more", &format!("{} more", Count(others)), vec![bytes], COLUMNS));
    }
    let total = format!("{} allocations", Count(moment.allocations));
    rest.push(Row::rest("total", &total, vec![Cell::Bytes(moment.bytes)], COLUMNS));
    Table { kind, place, caption, row_word: "allocation", columns, rows, rest }
}

fn row(row: &LiveRow) -> Row {
    let name = row.line.as_deref().or(row.frame.as_deref()).unwrap_or("no line known");
    let state = if row.pending_free { "waits for another stream" } else { "allocated" };
    Row::new(vec![
        Cell::Name(Name::new(name)),
        Cell::Bytes(row.bytes),
        Cell::Bytes(row.requested_bytes),
        Cell::Event(row.alloc_event),
        Cell::Count(row.stream),
        Cell::words(state),
    ])
}
