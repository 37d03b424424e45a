//! The tables that only memlab's own recorder can fill: modules, named tensors, holders.

use crate::report::html::table::{Cell, Row, Table, column};
use crate::report::html::text::Name;
use crate::report::recorded::{CensusRow, HolderRow, ModuleRow, ModulesRow, TensorRow};
use crate::units::Count;

const MODULE_COLUMNS: usize = 9;

/// The first `most` modules; the page's script adds the others.
pub(in crate::report::html) fn modules(modules: &ModulesRow, peak: u64, place: usize, most: usize) -> Table {
    let columns = vec![
        column("words", "module", "module"),
        column("bytes", "held_at_peak_bytes", "held at peak").sorted(),
        column("share", "held_at_peak_bytes", "share"),
        column("count", "allocations", "allocations"),
        column("bytes", "total_bytes", "bytes in all"),
        column("bytes", "forward.total_bytes", "of it forward"),
        column("bytes", "backward.total_bytes", "backward"),
        column("bytes", "optimizer.total_bytes", "optimizer"),
        column("words", "forward_line", "forward line").hint("Allocates most in the module's forward pass"),
    ];
    let rows: Vec<Row> = modules.rows.iter().take(most).map(|row| module(row, peak)).collect();
    let others = &modules.rows[rows.len()..];
    let share = |part| Cell::Share { part, whole: peak, class: "share".to_owned() };
    let mut rest = Vec::new();
    if !others.is_empty() {
        let held = others.iter().fold(0u64, |sum, row| sum.saturating_add(row.total.held_at_peak_bytes));
        let head = format!("{} more", Count(others.len() as u64));
        rest.push(Row::rest("more", &head, vec![Cell::Bytes(held), share(held)], MODULE_COLUMNS));
    }
    let unnamed = &modules.unnamed;
    let figures = vec![
        Cell::Bytes(unnamed.held_at_peak_bytes),
        share(unnamed.held_at_peak_bytes),
        Cell::Count(unnamed.allocations),
        Cell::Bytes(unnamed.total_bytes),
    ];
    rest.push(Row::rest("unknown", "no module named", figures, MODULE_COLUMNS));
    Table { kind: "modules", place, caption: "Memory by module", row_word: "module", columns, rows, rest }
}

fn module(row: &ModuleRow, peak: u64) -> Row {
    let held = row.total.held_at_peak_bytes;
    Row::new(vec![
        Cell::Name(Name::new(&row.module)),
        Cell::Bytes(held),
        Cell::Share { part: held, whole: peak, class: "share".to_owned() },
        Cell::Count(row.total.allocations),
        Cell::Bytes(row.total.total_bytes),
        Cell::Bytes(row.forward.total_bytes),
        Cell::Bytes(row.backward.total_bytes),
        Cell::Bytes(row.optimizer.total_bytes),
        Cell::name(row.forward_line.as_ref().map(crate::report::PlaceRow::label).as_deref()),
    ])
}

/// The largest allocations that a census names.
pub(in crate::report::html) fn names(census: &CensusRow, place: usize, most: usize) -> Option<Table> {
    let columns = vec![
        column("words", "name", "name"),
        column("bytes", "block_bytes", "bytes").hint("Of its block").sorted(),
        column("words", "kind", "kind"),
        column("words", "dtype", "dtype"),
        column("words", "shape", "shape"),
        column("words", "live_at_peak", "at peak"),
        column("words", "live_at_end", "at end"),
        column("words", "line", "line"),
    ];
    let rows: Vec<Row> = census.tensors.iter().take(most).map(tensor).collect();
    let caption = "Named tensors";
    let rest = Row::left_out(census.tensors.len(), rows.len(), columns.len());
    let table = Table { kind: "names", place, caption, row_word: "tensor", columns, rows, rest };
    (!table.rows.is_empty()).then_some(table)
}

fn tensor(row: &TensorRow) -> Row {
    const MOST_DIMENSIONS: usize = 8;
    let shape: Vec<String> = row.shape.iter().take(MOST_DIMENSIONS).map(u64::to_string).collect();
    let cut = if row.shape.len() > MOST_DIMENSIONS { ", ..." } else { "" };
    let yes = |live: bool| Cell::words(if live { "yes" } else { "no" });
    let name = if row.name.is_empty() { &row.grad_fn } else { &row.name };
    let name = if name.is_empty() { Cell::words("no name") } else { Cell::Name(Name::new(name)) };
    Row::new(vec![
        name,
        Cell::Bytes(row.block_bytes),
        Cell::words(&row.kind),
        Cell::words(row.dtype.strip_prefix("torch.").unwrap_or(&row.dtype)),
        Cell::words(&format!("({}{cut})", shape.join(", "))),
        yes(row.live_at_peak),
        yes(row.live_at_end),
        Cell::name(row.line.as_deref()),
    ])
}

/// Who keeps the largest allocations alive.
pub(in crate::report::html) fn holders(census: &CensusRow, place: usize, most: usize) -> Option<Table> {
    let columns = vec![
        column("words", "path", "held by"),
        column("bytes", "bytes", "bytes").sorted(),
        column("words", "kind", "kind"),
        column("words", "name", "tensor"),
        column("words", "line", "line"),
    ];
    let row = |row: &HolderRow| {
        Row::new(vec![
            Cell::Name(Name::new(&row.path)),
            Cell::maybe_bytes(row.bytes),
            Cell::words(row.kind.as_deref().unwrap_or("-")),
            Cell::name(row.name.as_deref()),
            Cell::name(row.line.as_deref()),
        ])
    };
    let rows: Vec<Row> = census.holders.iter().take(most).map(row).collect();
    let caption = "Who holds the largest allocations";
    let rest = Row::left_out(census.holders.len(), rows.len(), columns.len());
    let table = Table { kind: "holders", place, caption, row_word: "holder", columns, rows, rest };
    (!table.rows.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixtures;

    #[test]
    fn modules_and_their_rest_add_up_to_the_peak() {
        let report = fixtures::recorded();
        let device = &report.traces[0].devices[0];
        let table_of = |most| modules(device.modules.as_ref().unwrap(), device.peak.allocated_bytes, 0, most);
        for most in [0, 1, 100] {
            let table = table_of(most);
            let held = |row: &Row| if let Cell::Bytes(bytes) = row.cells[1] { bytes } else { 0 };
            let sum: u64 = table.rows.iter().chain(&table.rest).map(held).sum();
            assert_eq!(sum, device.peak.allocated_bytes, "{most}");
        }
    }
}
