//! The tables of fragmentation: where reserved bytes are, why they are not requested ones, who pins them.

use crate::report::html::table::{Cell, Row, Table, column};
use crate::report::html::text::Name;
use crate::report::types::{DeviceReport, Fragmentation, PinRow};

/// The moments of interest with their names, the OOM first.
pub(in crate::report::html) fn moments(device: &DeviceReport) -> Vec<(&'static str, &Fragmentation)> {
    let row = &device.fragmentation;
    let oom = row.at_oom.iter().map(|at| ("at the OOM", at));
    oom.chain([("at the peak of reserved", &row.at_peak), ("at the end", &row.at_end)]).collect()
}

/// Where the reserved bytes are at each moment.
pub(in crate::report::html) fn totals(moments: &[(&str, &Fragmentation)], place: usize) -> Table {
    let columns = vec![
        column("words", "moment", "moment"),
        column("event", "event", "event"),
        column("bytes", "reserved_bytes", "reserved").hint("Held from the driver"),
        column("bytes", "requested_bytes", "requested").hint("Asked for, over allocated blocks"),
        column("bytes", "rounding_bytes", "rounding").hint("Allocated minus requested"),
        column("bytes", "pending_free_bytes", "pending free").hint("Freed, but waiting for another stream"),
        column("bytes", "releasable_bytes", "releasable").hint("In segments that are wholly free"),
        column("bytes", "stranded_bytes", "stranded").hint("Free, but in a segment that a live block pins"),
        column("bytes", "largest_free_block_bytes", "largest free block"),
        column("words", "ratio", "unused share").hint("1 - active / reserved"),
    ];
    let row = |(name, at): &(&str, &Fragmentation)| {
        Row::new(vec![
            Cell::words(name),
            Cell::Event(at.event),
            Cell::Bytes(at.reserved_bytes),
            Cell::Bytes(at.requested_bytes),
            Cell::Bytes(at.rounding_bytes),
            Cell::Bytes(at.pending_free_bytes),
            Cell::Bytes(at.releasable_bytes),
            Cell::Bytes(at.stranded_bytes),
            Cell::Bytes(at.largest_free_block_bytes),
            Cell::words(&format!("{:.1} %", at.ratio * 100.0)),
        ])
    };
    let rows = moments.iter().map(row).collect();
    Table {
        kind: "fragmentation",
        place,
        caption: "Fragmentation",
        row_word: "moment",
        columns,
        rows,
        rest: vec![],
    }
}

/// The same bytes once more: what stands in the way of using them.
pub(in crate::report::html) fn by_cause(moments: &[(&str, &Fragmentation)], place: usize) -> Table {
    let columns = vec![
        column("words", "moment", "moment"),
        column("bytes", "unrequested", "reserved - requested"),
        column("bytes", "by_cause.rounding_bytes", "rounding"),
        column("bytes", "by_cause.pending_free_bytes", "pending frees"),
        column("bytes", "by_cause.split_remainder_bytes", "split remainders")
            .hint("Free in a segment of the main stream, beside a block in use"),
        column("bytes", "by_cause.other_stream_bytes", "other streams")
            .hint("Free on another stream than the main one"),
        column("bytes", "by_cause.private_pool_bytes", "private pools"),
        column("bytes", "by_cause.releasable_cache_bytes", "releasable cache").hint("Wholly free segments"),
    ];
    let row = |(name, at): &(&str, &Fragmentation)| {
        let unrequested = at.reserved_bytes.saturating_sub(at.requested_bytes);
        let causes = at.by_cause.named().map(|(_, bytes)| Cell::Bytes(bytes));
        Row::new([Cell::words(name), Cell::Bytes(unrequested)].into_iter().chain(causes).collect())
    };
    let rows = moments.iter().map(row).collect();
    let caption = "Fragmentation by cause";
    Table { kind: "causes", place, caption, row_word: "moment", columns, rows, rest: vec![] }
}

/// Whose blocks pin the stranded bytes of `at`.
pub(in crate::report::html) fn pins(at: &Fragmentation, place: usize, most: usize) -> Option<Table> {
    let columns = vec![
        column("words", "label", "line"),
        column("bytes", "stranded_bytes", "stranded beside it").sorted(),
        column("bytes", "sole_stranded_bytes", "pinned by it alone"),
        column("count", "blocks", "its blocks"),
        column("bytes", "block_bytes", "their bytes"),
    ];
    let rows: Vec<Row> = at.pins.iter().take(most).map(pin).collect();
    let caption = "Lines whose blocks pin stranded bytes";
    let rest = Row::left_out(at.pins.len(), rows.len(), columns.len());
    let table = Table { kind: "pins", place, caption, row_word: "line", columns, rows, rest };
    (!table.rows.is_empty()).then_some(table)
}

fn pin(pin: &PinRow) -> Row {
    Row::new(vec![
        Name::of_pin(pin).map_or_else(|| Cell::words("no line known"), Cell::Name),
        Cell::Bytes(pin.stranded_bytes),
        Cell::Bytes(pin.sole_stranded_bytes),
        Cell::Count(pin.blocks),
        Cell::Bytes(pin.block_bytes),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixtures;

    fn bytes(cells: &[Cell]) -> u64 {
        let bytes = cells.iter().map(|cell| if let Cell::Bytes(bytes) = cell { *bytes } else { 0 });
        bytes.sum()
    }

    #[test]
    fn every_row_adds_up() {
        let report = fixtures::oom();
        let moments = moments(&report.traces[0].devices[0]);
        assert_eq!(moments[0].0, "at the OOM");
        for row in totals(&moments, 0).rows {
            assert_eq!(bytes(&row.cells[2..3]), bytes(&row.cells[3..8]));
        }
        for row in by_cause(&moments, 0).rows {
            assert_eq!(bytes(&row.cells[1..2]), bytes(&row.cells[2..]));
        }
    }
}
