//! The tables of driver calls in the page: holders, kinds, lines, the host, refusals, machine code without names.
//!
//! Owns which columns are worth a ticket. Everything from the trace goes through `escape` here.

use super::table::Page;
use super::{code, prose};
use crate::report::driver::{
    DriverDeviceRow, DriverHolderRow, DriverHostRow, DriverKindRow, DriverLineRow, DriverRefusedRow,
    DriverReport, MissingModuleRow, SymbolsRow,
};
use crate::report::driver_words as words;
use crate::units::{Bytes, Count, percent};

pub(super) fn holders(page: &mut Page, device: &DriverDeviceRow, share: usize) {
    let row = |row: &DriverHolderRow| {
        vec![
            Bytes(row.at_peak_bytes).to_string(),
            percent(row.at_peak_bytes, device.peak_bytes),
            Bytes(row.own_peak_bytes).to_string(),
            Bytes(row.end_bytes).to_string(),
            Bytes(row.total_bytes).to_string(),
            Count(row.taken).to_string(),
            Count(row.given_back).to_string(),
            code(&row.holder),
            prose(&row.kind),
        ]
    };
    let rows: Vec<_> = device.holders.iter().map(row).collect();
    let header = [
        "held at peak",
        "share",
        "own peak",
        "at the end",
        "bytes in all",
        "taken",
        "given back",
        "holder",
        "kind",
    ];
    page.table(&header, 7, &rows, &[], share);
    let note = |(holder, note): (&str, &str)| format!("{}: {}", code(holder), prose(note));
    page.list(&words::holder_notes(device).map(note).collect::<Vec<_>>(), share / 4);
    kinds(page, &device.kinds, share / 2);
}

fn kinds(page: &mut Page, kinds: &[DriverKindRow], share: usize) {
    if kinds.is_empty() {
        return;
    }
    let row = |row: &DriverKindRow| {
        let bytes = [row.peak_bytes, row.end_bytes].map(|bytes| Bytes(bytes).to_string());
        let counts = [row.taken, row.given_back].map(|count| Count(count).to_string());
        bytes.into_iter().chain(counts).chain([prose(&row.kind)]).collect()
    };
    let rows: Vec<Vec<String>> = kinds.iter().map(row).collect();
    page.table(&["at most", "at the end", "taken", "given back", "kind of memory"], 4, &rows, &[], share);
}

pub(super) fn lines(page: &mut Page, device: &DriverDeviceRow, share: usize) {
    line_table(page, &device.lines, device.lines_left_out, device.peak_bytes, share);
    page.block(&words::about_lines(device.join.is_some()));
}

fn line_table(page: &mut Page, lines: &[DriverLineRow], left_out: u64, peak: u64, share: usize) {
    let row = |row: &DriverLineRow| {
        vec![
            Bytes(row.at_peak_bytes).to_string(),
            percent(row.at_peak_bytes, peak),
            Bytes(row.own_peak_bytes).to_string(),
            Bytes(row.total_bytes).to_string(),
            Count(row.taken).to_string(),
            Count(row.kept).to_string(),
            Bytes(row.kept_bytes).to_string(),
            code(&row.label()),
            code(&row.holder),
            prose(&row.kind),
        ]
    };
    let rows: Vec<_> = lines.iter().map(row).collect();
    let mut last = Vec::new();
    if left_out > 0 {
        let mut cells = vec!["-".to_owned(); 7];
        cells.push(format!("{} more lines", Count(left_out)));
        cells.extend(["-".to_owned(), "-".to_owned()]);
        last.push(cells);
    }
    let header = [
        "held at peak",
        "share",
        "own peak",
        "bytes in all",
        "calls",
        "kept",
        "bytes kept",
        "line",
        "holder",
        "kind",
    ];
    page.table(&header, 7, &rows, &last, share);
}

pub(super) fn host(page: &mut Page, host: &DriverHostRow, share: usize) {
    page.heading(3, "Host memory");
    kinds(page, &host.kinds, share / 3);
    let row = |row: &DriverLineRow| {
        vec![
            Bytes(row.own_peak_bytes).to_string(),
            Bytes(row.total_bytes).to_string(),
            Count(row.taken).to_string(),
            Bytes(row.kept_bytes).to_string(),
            code(&row.label()),
            prose(&row.kind),
        ]
    };
    let rows: Vec<_> = host.lines.iter().map(row).collect();
    if !rows.is_empty() {
        let header = ["own peak", "bytes in all", "calls", "bytes kept", "line", "kind"];
        page.table(&header, 4, &rows, &[], share / 2);
    }
    if host.lines_left_out > 0 {
        page.block(&format!("{} more lines are left out.", Count(host.lines_left_out)));
    }
    page.block("Pinned: allocated by the driver. Registered: the program's own memory.");
}

pub(super) fn refused(page: &mut Page, driver: &DriverReport, share: usize) {
    if driver.refused.is_empty() {
        return;
    }
    page.heading(3, "Refused");
    let row = |row: &DriverRefusedRow| {
        let device = row.device.map_or_else(|| "-".to_owned(), |device| device.to_string());
        let held = row.device.map_or_else(|| "-".to_owned(), |_| Bytes(row.held_bytes).to_string());
        vec![
            Bytes(row.bytes).to_string(),
            held,
            device,
            words::result(row.result),
            code(&row.call),
            code(&row.place),
            code(&row.holder),
        ]
    };
    let rows: Vec<_> = driver.refused.iter().rev().map(row).collect();
    let header = ["asked", "held then", "device", "result", "call", "place", "holder"];
    page.table(&header, 3, &rows, &[], share);
    if driver.refused_left_out > 0 {
        page.block(&format!("{} more are only counted.", Count(driver.refused_left_out)));
    }
}

pub(super) fn symbols(page: &mut Page, symbols: &SymbolsRow, share: usize) {
    let Some(sentence) = words::symbols_sentence(symbols) else { return };
    page.heading(3, "Machine code without names");
    page.block(&format!("{}.", prose(&sentence)));
    let row = |row: &MissingModuleRow| {
        vec![Count(row.frames).to_string(), prose(&row.reason), code(&row.path), code(&row.build_id)]
    };
    let rows: Vec<_> = symbols.missing.iter().map(row).collect();
    if !rows.is_empty() {
        page.table(&["frames", "why", "file", "build id"], 1, &rows, &[], share);
    }
}
