//! The smaller tables: counters, categories, failed requests, pools, other settings.

use crate::report::categories::CategoryTableRow;
use crate::report::html::table::{Cell, Column, Row, Table, column};
use crate::report::html::text::Name;
use crate::report::types::{DeviceReport, Four, OomRow, PoolRow};
use crate::report::whatif::HelpRow;
use crate::units::Count;

/// The four counters at the moments that matter.
pub(in crate::report::html) fn counters(device: &DeviceReport, place: usize) -> Table {
    let columns = vec![
        column("words", "moment", "moment"),
        column("bytes", "requested_bytes", "requested").hint("Asked for"),
        column("bytes", "allocated_bytes", "allocated").hint("The blocks handed out"),
        column("bytes", "active_bytes", "active").hint("Plus frees that wait for another stream"),
        column("bytes", "reserved_bytes", "reserved").hint("Held from the driver"),
    ];
    let bytes = |name: &str, four: &Four<u64>| row(name, each(four).map(|&bytes| Cell::Bytes(bytes)));
    let rows = vec![
        bytes("peak", &device.peak),
        row("peak at event", each(&device.peak_event).map(|&event| Cell::Event(event))),
        bytes("before the recording", &device.initial),
        bytes("at the end", &device.end),
    ];
    let caption = "The four counters: their peaks and ends";
    Table { kind: "counters", place, caption, row_word: "moment", columns, rows, rest: vec![] }
}

fn row(name: &str, cells: [Cell; 4]) -> Row {
    Row::new([Cell::words(name)].into_iter().chain(cells).collect())
}

fn each<T>(four: &Four<T>) -> [&T; 4] {
    [&four.requested_bytes, &four.allocated_bytes, &four.active_bytes, &four.reserved_bytes]
}

/// At the OOM only where there was one, named bytes only where a census names any.
pub(in crate::report::html) fn categories(device: &DeviceReport, place: usize, most: usize) -> Option<Table> {
    let rows = &device.categories.rows[..most.min(device.categories.rows.len())];
    let has_oom = rows.iter().any(|row| row.held_at_oom_bytes.is_some());
    let has_names = rows.iter().any(|row| row.named_at_peak_bytes > 0);
    let columns = [
        (true, column("words", "category", "category")),
        (has_oom, column("bytes", "held_at_oom_bytes", "at the OOM")),
        (true, column("bytes", "held_at_peak_bytes", "at the peak").sorted()),
        (true, column("share", "held_at_peak_bytes", "share")),
        (has_names, column("bytes", "named_at_peak_bytes", "of it named").hint("Named by a census")),
        (true, column("bytes", "own_peak_bytes", "own peak").hint("The most it ever held at one moment")),
        (true, column("count", "allocations", "allocations")),
        (true, column("bytes", "live_at_end_bytes", "live at end")),
    ];
    let is_shown = columns.each_ref().map(|(is_shown, _)| *is_shown);
    let columns: Vec<Column> =
        columns.into_iter().filter_map(|(is_shown, column)| is_shown.then_some(column)).collect();
    let peak = device.peak.allocated_bytes;
    let row = |row: &CategoryTableRow| {
        let cells = category(row, peak).into_iter().zip(is_shown);
        Row::new(cells.filter_map(|(cell, is_shown)| is_shown.then_some(cell)).collect())
    };
    let rows: Vec<Row> = rows.iter().map(row).collect();
    let caption = "What the memory is for";
    let rest = Row::left_out(device.categories.rows.len(), rows.len(), columns.len());
    let table = Table { kind: "categories", place, caption, row_word: "category", columns, rows, rest };
    (!table.rows.is_empty()).then_some(table)
}

fn category(row: &CategoryTableRow, peak: u64) -> [Cell; 8] {
    [
        Cell::Name(Name::new(&row.label())),
        Cell::maybe_bytes(row.held_at_oom_bytes),
        Cell::Bytes(row.held_at_peak_bytes),
        Cell::Share { part: row.held_at_peak_bytes, whole: peak, class: "share".to_owned() },
        Cell::Bytes(row.named_at_peak_bytes),
        Cell::Bytes(row.own_peak_bytes),
        Cell::Count(row.allocations),
        Cell::Bytes(row.live_at_end_bytes),
    ]
}

/// Failed requests, the last one first.
pub(in crate::report::html) fn ooms(ooms: &[OomRow], place: usize, most: usize) -> Option<Table> {
    let columns = vec![
        column("words", "line", "line"),
        column("event", "event", "event").sorted(),
        column("words", "verdict", "verdict"),
        column("bytes", "requested_bytes", "asked"),
        column("bytes", "device_free_bytes", "free on device"),
        column("bytes", "largest_free_block_bytes", "largest free block"),
        column("bytes", "missing_bytes", "missing").hint("Even if all free memory were in one piece"),
        column("bytes", "reserved_bytes", "reserved"),
        column("bytes", "active_bytes", "active"),
        column("bytes", "pending_free_bytes", "pending"),
    ];
    let rows: Vec<Row> = ooms.iter().rev().take(most).map(oom).collect();
    let caption = "Requests that failed";
    let rest = Row::left_out(ooms.len(), rows.len(), columns.len());
    let table = Table { kind: "ooms", place, caption, row_word: "request", columns, rows, rest };
    (!table.rows.is_empty()).then_some(table)
}

fn oom(oom: &OomRow) -> Row {
    let line = oom.line.as_deref().filter(|line| !line.is_empty());
    Row::new(vec![
        line.map_or_else(|| Cell::words("no line known"), |line| Cell::Name(Name::new(line))),
        Cell::Event(Some(oom.event)),
        Cell::words(&oom.verdict),
        Cell::Bytes(oom.requested_bytes),
        Cell::maybe_bytes(oom.device_free_bytes),
        Cell::Bytes(oom.largest_free_block_bytes),
        Cell::Bytes(oom.missing_bytes),
        Cell::Bytes(oom.reserved_bytes),
        Cell::Bytes(oom.active_bytes),
        Cell::Bytes(oom.pending_free_bytes),
    ])
}

/// Reserved memory by stream, pool and kind at the peak of reserved bytes.
pub(in crate::report::html) fn pools(pools: &[PoolRow], place: usize, most: usize) -> Option<Table> {
    let columns = vec![
        column("words", "stream", "stream, pool, kind"),
        column("count", "segments", "segments"),
        column("bytes", "reserved_bytes", "reserved"),
        column("bytes", "active_bytes", "active"),
        column("bytes", "releasable_bytes", "releasable"),
        column("bytes", "stranded_bytes", "stranded"),
    ];
    let row = |pool: &PoolRow| {
        let stream = if pool.stream == 0 { "0".to_owned() } else { format!("{:#x}", pool.stream) };
        let name = format!("stream {stream}, pool ({}, {}), {}", pool.pool.0, pool.pool.1, pool.kind);
        Row::new(vec![
            Cell::words(&name),
            Cell::Count(pool.segments),
            Cell::Bytes(pool.reserved_bytes),
            Cell::Bytes(pool.active_bytes),
            Cell::Bytes(pool.releasable_bytes),
            Cell::Bytes(pool.stranded_bytes),
        ])
    };
    let rows: Vec<Row> = pools.iter().take(most).map(row).collect();
    let caption = "Reserved memory by stream and pool";
    let rest = Row::left_out(pools.len(), rows.len(), columns.len());
    let table = Table { kind: "pools", place, caption, row_word: "pool", columns, rows, rest };
    (!table.rows.is_empty()).then_some(table)
}

/// The recorded requests under other settings.
pub(in crate::report::html) fn what_would_help(help: &HelpRow, place: usize) -> Table {
    let columns = vec![
        column("words", "conf", "setting"),
        column("bytes", "peak_reserved_bytes", "peak reserved"),
        column("change", "saved_bytes", "saved"),
        column("words", "oom_event", "fits"),
    ];
    let rows = help.settings.iter().map(|row| {
        let name = if row.conf.is_empty() { "(defaults)" } else { &row.conf };
        let name = if row.is_recorded { format!("{name}, as recorded") } else { name.to_owned() };
        let is_compared = row.oom_event.is_none() && !row.is_recorded;
        Row::new(vec![
            Cell::Name(Name::new(&name)),
            Cell::Bytes(row.peak_reserved_bytes),
            if is_compared { Cell::Change(row.saved_bytes) } else { Cell::Dash },
            row.oom_event.map_or_else(
                || Cell::words("yes"),
                |event| Cell::words(&format!("no: OOM at event {}", Count(event))),
            ),
        ])
    });
    let caption = "Other allocator settings, replayed";
    Table {
        kind: "settings",
        place,
        caption,
        row_word: "setting",
        columns,
        rows: rows.collect(),
        rest: vec![],
    }
}
