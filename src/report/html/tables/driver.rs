//! The tables of driver calls: sums, holders, kinds, lines, refusals, machine code without names.

use crate::report::driver::{
    DriverDeviceRow, DriverHolderRow, DriverKindRow, DriverLineRow, DriverRefusedRow, MissingModuleRow,
};
use crate::report::driver_sums::{Part, SumTable};
use crate::report::driver_words as words;
use crate::report::html::table::{Cell, Column, Row, Table, column};
use crate::report::html::text::Name;

/// What nvidia-smi sees, part by part; `None` where the driver was never asked.
pub(in crate::report::html) fn sums(device: &DriverDeviceRow, place: usize) -> Option<Table> {
    let SumTable { moments, rows } = SumTable::of(device)?;
    let mut columns = vec![column("words", "part", "part")];
    columns.extend(moments.iter().map(|&at| column("bytes", at, words::moment(at))));
    let rows = rows.iter().map(|row| {
        let head = match &row.part {
            Part::Holder(name) => Cell::Name(Name::new(name)),
            other => Cell::words(&other.words().unwrap_or_default()),
        };
        let figure = |bytes: &Option<i64>| match bytes {
            None => Cell::words("not known"),
            Some(bytes) if *bytes < 0 => Cell::Change(*bytes),
            Some(bytes) => Cell::Bytes(bytes.unsigned_abs()),
        };
        Row::new([head].into_iter().chain(row.cells.iter().map(figure)).collect())
    });
    let rows = rows.collect();
    let caption = "What is in use on the device, and by whom";
    Some(Table { kind: "driver-sums", place, caption, row_word: "part", columns, rows, rest: vec![] })
}

/// Who holds the device's memory.
pub(in crate::report::html) fn driver_holders(
    device: &DriverDeviceRow,
    place: usize,
    most: usize,
) -> Option<Table> {
    let columns = vec![
        column("words", "holder", "holder"),
        column("bytes", "at_peak_bytes", "held at peak").sorted(),
        column("share", "at_peak_bytes", "share"),
        column("bytes", "own_peak_bytes", "own peak").hint("The most it held at one moment"),
        column("bytes", "end_bytes", "at the end"),
        column("bytes", "total_bytes", "bytes in all"),
        column("count", "taken", "taken"),
        column("count", "given_back", "given back"),
        column("words", "kind", "kind"),
    ];
    let row = |row: &DriverHolderRow| {
        Row::new(vec![
            Cell::Name(Name::new(&row.holder)),
            Cell::Bytes(row.at_peak_bytes),
            share(row.at_peak_bytes, device.peak_bytes),
            Cell::Bytes(row.own_peak_bytes),
            Cell::Bytes(row.end_bytes),
            Cell::Bytes(row.total_bytes),
            Cell::Count(row.taken),
            Cell::Count(row.given_back),
            Cell::words(&row.kind),
        ])
    };
    let rows = device.holders.iter().take(most).map(row).collect();
    let kind = ("driver-holders", "Who holds the device's memory", "holder");
    table(kind, place, columns, rows, device.holders.len() as u64)
}

fn share(part: u64, whole: u64) -> Cell {
    Cell::Share { part, whole, class: "share".to_owned() }
}

/// Its head, its rows and the row for what is left of `all`; `None` without rows.
fn table(
    (kind, caption, row_word): (&'static str, &'static str, &'static str),
    place: usize,
    columns: Vec<Column>,
    rows: Vec<Row>,
    all: u64,
) -> Option<Table> {
    let all = usize::try_from(all).unwrap_or(usize::MAX);
    let rest = Row::left_out(all, rows.len(), columns.len());
    (!rows.is_empty()).then_some(Table { kind, place, caption, row_word, columns, rows, rest })
}

/// Memory by kind, of a device or of the host.
pub(in crate::report::html) fn driver_kinds(
    kinds: &[DriverKindRow],
    place: usize,
    most: usize,
) -> Option<Table> {
    let columns = vec![
        column("words", "kind", "kind of memory"),
        column("bytes", "peak_bytes", "at most"),
        column("bytes", "end_bytes", "at the end"),
        column("count", "taken", "taken"),
        column("count", "given_back", "given back"),
    ];
    let row = |row: &DriverKindRow| {
        Row::new(vec![
            Cell::words(&row.kind),
            Cell::Bytes(row.peak_bytes),
            Cell::Bytes(row.end_bytes),
            Cell::Count(row.taken),
            Cell::Count(row.given_back),
        ])
    };
    let rows = kinds.iter().take(most).map(row).collect();
    table(("driver-kinds", "Memory by kind", "kind"), place, columns, rows, kinds.len() as u64)
}

/// Lines that took memory, of a device with the most at its `peak`, or of the host with nothing at one.
pub(in crate::report::html) fn driver_lines(
    (lines, left_out): (&[DriverLineRow], u64),
    peak: Option<u64>,
    place: usize,
    most: usize,
) -> Option<Table> {
    let columns = [
        (true, column("words", "line", "line")),
        (peak.is_some(), column("bytes", "at_peak_bytes", "held at peak").sorted()),
        (peak.is_some(), column("share", "at_peak_bytes", "share")),
        (true, column("bytes", "own_peak_bytes", "own peak").hint("The most it held at one moment")),
        (true, column("bytes", "total_bytes", "bytes in all")),
        (true, column("count", "taken", "calls")),
        (true, column("count", "kept", "kept").hint("Not given back by the end")),
        (true, column("bytes", "kept_bytes", "bytes kept")),
        (true, column("words", "holder", "holder")),
        (true, column("words", "kind", "kind")),
    ];
    let is_shown = columns.each_ref().map(|(is_shown, _)| *is_shown);
    let columns = columns.into_iter().filter_map(|(is_shown, column)| is_shown.then_some(column)).collect();
    let row = |row: &DriverLineRow| {
        let cells = line(row, peak.unwrap_or(0)).into_iter().zip(is_shown);
        Row::new(cells.filter_map(|(cell, is_shown)| is_shown.then_some(cell)).collect())
    };
    let rows = lines.iter().take(most).map(row).collect();
    let all = left_out.saturating_add(lines.len() as u64);
    table(("driver-lines", "Lines that take memory from the driver", "line"), place, columns, rows, all)
}

fn line(row: &DriverLineRow, peak: u64) -> [Cell; 10] {
    [
        Cell::Name(Name::of_driver_line(row)),
        Cell::Bytes(row.at_peak_bytes),
        share(row.at_peak_bytes, peak),
        Cell::Bytes(row.own_peak_bytes),
        Cell::Bytes(row.total_bytes),
        Cell::Count(row.taken),
        Cell::Count(row.kept),
        Cell::Bytes(row.kept_bytes),
        Cell::Name(Name::new(&row.holder)),
        Cell::words(&row.kind),
    ]
}

/// Requests that the driver refused, the last one first.
pub(in crate::report::html) fn refused(rows: &[DriverRefusedRow], most: usize) -> Option<Table> {
    let columns = vec![
        column("words", "place", "place"),
        column("bytes", "bytes", "asked"),
        column("bytes", "held_bytes", "held then").hint("By recorded calls, on the device"),
        column("count", "device", "device"),
        column("words", "result", "result"),
        column("words", "call", "call"),
        column("words", "holder", "holder"),
    ];
    let row = |row: &DriverRefusedRow| {
        let on_device = |cell| row.device.map_or(Cell::Dash, |_| cell);
        Row::new(vec![
            Cell::Name(Name::new(&row.place)),
            Cell::Bytes(row.bytes),
            on_device(Cell::Bytes(row.held_bytes)),
            on_device(Cell::Count(u64::from(row.device.unwrap_or(0)))),
            Cell::words(&words::result(row.result)),
            Cell::Name(Name::new(&row.call)),
            Cell::Name(Name::new(&row.holder)),
        ])
    };
    let shown = rows.iter().rev().take(most).map(row).collect();
    table(
        ("driver-refused", "Requests that the driver refused", "request"),
        0,
        columns,
        shown,
        rows.len() as u64,
    )
}

/// Files of machine code without names.
pub(in crate::report::html) fn missing(rows: &[MissingModuleRow], most: usize) -> Option<Table> {
    let columns = vec![
        column("words", "path", "file"),
        column("count", "frames", "frames").sorted(),
        column("words", "reason", "why"),
        column("words", "build_id", "build id"),
    ];
    let row = |row: &MissingModuleRow| {
        Row::new(vec![
            Cell::Name(Name::new(&row.path)),
            Cell::Count(row.frames),
            Cell::words(&row.reason),
            Cell::name(Some(&row.build_id)),
        ])
    };
    let shown = rows.iter().take(most).map(row).collect();
    table(
        ("driver-missing", "Files whose machine code has no names", "file"),
        0,
        columns,
        shown,
        rows.len() as u64,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::driver_fixture;
    use askama::Template as _;

    fn device() -> DriverDeviceRow {
        driver_fixture::full().traces.remove(0).driver.unwrap().devices.remove(0)
    }

    #[test]
    fn what_is_not_known_is_said_and_what_is_too_much_has_a_sign() {
        let mut device = device();
        for sum in &mut device.sums {
            (sum.context_bytes, sum.unknown_bytes) = (None, -4096);
        }
        let text = sums(&device, 0).unwrap().render().unwrap();
        assert_eq!(text.matches("not known").count(), 4);
        assert_eq!(text.matches("data-bytes=\"-4096\"").count(), 4);
        device.sums.clear();
        assert!(sums(&device, 0).is_none());
    }

    #[test]
    fn rows_have_as_many_cells_as_columns_and_what_is_left_out_is_counted() {
        let device = device();
        let lines = (device.lines.as_slice(), device.lines_left_out);
        let tables = [
            sums(&device, 0),
            driver_holders(&device, 0, 2),
            driver_kinds(&device.kinds, 0, 1),
            driver_lines(lines, Some(device.peak_bytes), 0, 2),
            driver_lines(lines, None, 0, 2),
        ];
        for table in tables.into_iter().flatten() {
            assert!(table.rows.iter().chain(&table.rest).all(|row| row.cells.len() == table.columns.len()));
        }
        let text = driver_lines(lines, None, 0, 2).unwrap().render().unwrap();
        assert!(text.contains("5 more: see report.json"), "{text}");
    }
}
