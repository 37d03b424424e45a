//! Driver calls on the terminal: one or two lines beside an allocator's figures, or a screen of their own.
//!
//! Owns what is worth a line there. The words are `driver_words`'; the summary of a device is `text`'s.

use super::columns::{Align, aligned};
use super::driver::{DriverDeviceRow, DriverHolderRow, DriverLineRow, DriverReport};
use super::driver_sentence::sum_sentence;
use super::driver_words as words;
use super::escape::{keep_end, keep_start, short_name, terminal};
use super::findings_text::findings_lines;
use super::style::Style;
use super::told;
use super::types::TraceReport;
use super::wrap::broken;
use crate::units::{Bytes, Count, percent};

const COLUMNS: usize = 100;
const ROWS: usize = 24;
const TOP: usize = 5;
const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
/// Refused requests, lines of findings and notes that a screen has room for.
const MOST_REFUSED: usize = 2;
const MOST_FINDINGS: usize = 2;
const MOST_NOTES: usize = 5;

/// Characters of a sentence that surely fits two lines, wherever they break.
const TWO_LINES: usize = 2 * COLUMNS - 20;

/// What nvidia-smi sees of `device`, on at most `limit` lines; none where no driver call was recorded.
pub(super) fn sum_lines(trace: &TraceReport, device: u32, limit: usize) -> Vec<String> {
    let rows = trace.driver.iter().flat_map(|driver| &driver.devices);
    match rows.rev().find(|row| row.device == device) {
        Some(row) if limit > 0 => {
            wrap(&sum_sentence(row, if limit == 1 { COLUMNS } else { TWO_LINES }), limit)
        }
        _ => Vec::new(),
    }
}

/// The same of devices that the allocator has no events of.
pub(super) fn other_devices(trace: &TraceReport) -> Vec<String> {
    let is_known = |row: &DriverDeviceRow| trace.devices.iter().any(|device| device.device == row.device);
    let rows = trace.driver.iter().flat_map(|driver| &driver.devices).filter(|row| !is_known(row));
    let told = |row: &DriverDeviceRow| {
        wrap(&format!("device {}: {}", row.device, sum_sentence(row, TWO_LINES - 12)), 2)
    };
    rows.flat_map(told).collect()
}

/// The screen of a trace with driver calls and no allocator's events, as blocks that blank lines may part, for each of
/// its devices; the first is headed by `head`'s line already.
pub(super) fn screens(
    trace: &TraceReport,
    driver: &DriverReport,
    about_file: &[String],
    style: Style,
) -> Vec<Vec<Vec<String>>> {
    let about_all = about_all(trace, driver, about_file, style);
    let Some((last, others)) = driver.devices.split_last() else {
        return vec![vec![vec![style.bold("No device memory is held by the recorded calls")], about_all]];
    };
    let mut screens: Vec<_> = others.iter().map(|row| screen(driver, row, Vec::new(), style)).collect();
    screens.push(screen(driver, last, about_all, style));
    screens
}

/// The first line: which file, and what it has.
pub(super) fn head(trace: &TraceReport, driver: &DriverReport) -> String {
    let path = terminal(&trace.path);
    let calls = words::calls_sentence(driver);
    let mut head = format!("{}: {}", keep_end(&path, 48), terminal(&calls));
    match driver.devices.as_slice() {
        [] => head.push_str(", no device"),
        [device] => head.extend([", ", &name(device)]),
        devices => head.push_str(&format!(", {} devices", devices.len())),
    }
    fit(&head)
}

fn name(device: &DriverDeviceRow) -> String {
    let total = device.total_bytes.map(|total| format!(" ({})", Bytes(total))).unwrap_or_default();
    format!("device {}{total}", device.device)
}

fn fit(line: &str) -> String {
    keep_start(line, COLUMNS).into_owned()
}

/// `text` on at most `limit` lines, none of which ends between a figure and its unit.
fn wrap(text: &str, limit: usize) -> Vec<String> {
    // Escaped text has no control character of its own.
    const GLUE: &str = "\u{1}";
    let glued = UNITS.iter().fold(terminal(text).into_owned(), |text, unit| {
        text.replace(&format!(" {unit}"), &format!("{GLUE}{unit}"))
    });
    broken(&glued, limit, COLUMNS, 2).iter().map(|line| line.replace(GLUE, " ")).collect()
}

/// Verdict, sum, holders, lines, then `notes`. The tables give way where the rest needs room.
fn screen(
    driver: &DriverReport,
    device: &DriverDeviceRow,
    notes: Vec<String>,
    style: Style,
) -> Vec<Vec<String>> {
    let mut verdict = Vec::new();
    if driver.devices.len() > 1 {
        verdict.push(style.bold(name(device)));
    }
    verdict.extend(wrap(&words::headline(driver, device), 2).iter().map(|line| style.bold(line)));
    verdict.extend(wrap(&sum_sentence(device, TWO_LINES), 2));
    let refused = refused(driver, device, style);
    let taken = 1 + verdict.len() + refused.len() + notes.len();
    let (holders, lines) = shares(ROWS.saturating_sub(taken), device);
    let tables = [holder_table(device, holders, style), line_table(device, lines, style)];
    [verdict, refused].into_iter().chain(tables).chain([notes]).collect()
}

/// How many rows of each table fit into `room`, heads and rows for what is left out included; at least one of each.
fn shares(room: usize, device: &DriverDeviceRow) -> (usize, usize) {
    let rows = |shown: usize, all: usize| if all == 0 { 0 } else { 1 + shown + usize::from(shown < all) };
    let all_lines = device.lines.len() + usize::from(device.lines_left_out > 0);
    let (mut holders, mut lines) = (TOP.min(device.holders.len()), TOP.min(device.lines.len()));
    while rows(holders, device.holders.len()) + rows(lines, all_lines) > room && holders.max(lines) > 1 {
        if holders >= lines { holders -= 1 } else { lines -= 1 }
    }
    (holders, lines)
}

fn holder_table(device: &DriverDeviceRow, most: usize, style: Style) -> Vec<String> {
    let row = |row: &DriverHolderRow| {
        vec![
            Bytes(row.at_peak_bytes).to_string(),
            percent(row.at_peak_bytes, device.peak_bytes),
            Bytes(row.end_bytes).to_string(),
            short_name(&terminal(&row.holder), COLUMNS - 36).into_owned(),
        ]
    };
    let mut rows: Vec<_> = device.holders.iter().take(most).map(row).collect();
    let others = &device.holders[rows.len()..];
    if !others.is_empty() {
        let sum = |bytes: fn(&DriverHolderRow) -> u64| {
            others.iter().fold(0u64, |sum, row| sum.saturating_add(bytes(row)))
        };
        let held = sum(|row| row.at_peak_bytes);
        let end = Bytes(sum(|row| row.end_bytes)).to_string();
        let more = format!("({} more)", Count(others.len() as u64));
        rows.push(vec![Bytes(held).to_string(), percent(held, device.peak_bytes), end, more]);
    }
    let heads = ["held at peak", "share", "at the end", "holder"];
    table(&heads, rows, &[Align::Right, Align::Right, Align::Right, Align::Left], style)
}

fn line_table(device: &DriverDeviceRow, most: usize, style: Style) -> Vec<String> {
    let row = |row: &DriverLineRow| {
        vec![
            Bytes(row.at_peak_bytes).to_string(),
            Bytes(row.kept_bytes).to_string(),
            Count(row.taken).to_string(),
            short_name(&terminal(&row.label()), COLUMNS - 36).into_owned(),
        ]
    };
    let mut rows: Vec<_> = device.lines.iter().take(most).map(row).collect();
    let others = (device.lines.len() - rows.len()) as u64 + device.lines_left_out;
    if others > 0 && !rows.is_empty() {
        let more = format!("({} more)", Count(others));
        rows.push(vec!["-".to_owned(), "-".to_owned(), "-".to_owned(), more]);
    }
    let heads = ["held at peak", "kept", "calls", "line"];
    table(&heads, rows, &[Align::Right, Align::Right, Align::Right, Align::Left], style)
}

fn table(heads: &[&str], rows: Vec<Vec<String>>, align: &[Align], style: Style) -> Vec<String> {
    if rows.is_empty() {
        return Vec::new();
    }
    let head = heads.iter().map(|&head| head.to_owned()).collect();
    let rows: Vec<_> = [head].into_iter().chain(rows).collect();
    let mut lines: Vec<String> = aligned(align, &rows).iter().map(|line| fit(line)).collect();
    lines[0] = style.dim(&lines[0]);
    lines
}

/// The last requests that the driver refused on `device`, and how many more.
fn refused(driver: &DriverReport, device: &DriverDeviceRow, style: Style) -> Vec<String> {
    let rows: Vec<_> = driver.refused.iter().filter(|row| row.device == Some(device.device)).collect();
    let told = &rows[rows.len().saturating_sub(MOST_REFUSED)..];
    let mut lines: Vec<String> =
        told.iter().map(|row| style.bad(fit(&terminal(&words::refused_sentence(row))))).collect();
    if rows.len() > told.len()
        && let Some(last) = lines.last_mut()
    {
        *last = fit(&terminal(&words::refused_sentence(told[told.len() - 1])));
        let more = format!(" (the last of {})", Count(rows.len() as u64));
        *last = style.bad(keep_start(last, COLUMNS - more.len()).into_owned() + &more);
    }
    lines
}

/// What concerns the whole recording: the host, gaps, names of machine code, what to do next.
fn about_all(trace: &TraceReport, driver: &DriverReport, about_file: &[String], style: Style) -> Vec<String> {
    let mut lines = findings_lines(&told::in_order(trace, None), MOST_FINDINGS, COLUMNS, style);
    let kinds = driver.host.iter().flat_map(|host| &host.kinds).map(words::kind_sentence);
    let kinds: Vec<String> = kinds.collect();
    if !kinds.is_empty() {
        lines.push(fit(&terminal(&format!("host: {}", kinds.join("; ")))));
    }
    let notes = words::notes(driver);
    let notes = notes.iter().map(|note| style.warn(fit(&terminal(&format!("warning: {note}")))));
    lines.extend(about_file.iter().cloned().chain(notes).take(MOST_NOTES));
    lines.extend(words::symbols_sentence(&driver.symbols).map(|text| fit(&terminal(&text))));
    let path = terminal(&trace.path);
    lines.push(style.bold(fit(&format!("next: memlab analyze {} -o report", keep_end(&path, 60)))));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::text::text_summary;
    use crate::report::{Report, driver_fixture, escape, fixtures};

    fn plain(report: &Report) -> String {
        text_summary(&report.traces[0], Style::plain())
    }

    fn assert_fits(text: &str) {
        assert!(text.lines().count() <= ROWS, "{} lines:\n{text}", text.lines().count());
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
    }

    /// The full report with no device of the allocator's.
    fn alone(mut report: Report) -> Report {
        report.traces[0].devices.clear();
        report
    }

    #[test]
    fn the_summaries_are_as_agreed() {
        insta::assert_snapshot!("text_driver", plain(&driver_fixture::full()));
        insta::assert_snapshot!("text_driver_leaks", plain(&driver_fixture::leaks()));
        insta::assert_snapshot!("text_driver_alone", plain(&alone(driver_fixture::full())));
    }

    #[test]
    fn every_summary_fits_one_screen() {
        let mut worst = driver_fixture::hostile(driver_fixture::full());
        let trace = &mut worst.traces[0];
        let late = fixtures::late().traces.remove(0);
        trace.complete = false;
        trace.warnings = late.warnings;
        trace.devices[0].history = late.devices[0].history;
        trace.devices[0].initial = late.devices[0].initial;
        assert_fits(&plain(&worst));
        assert_fits(&plain(&alone(worst)));
        for count in [0, 1, 6, 5_000] {
            assert_fits(&plain(&driver_fixture::many(count)));
        }
    }

    #[test]
    fn hostile_names_reach_the_terminal_as_text_and_colour_changes_no_word() {
        for report in [driver_fixture::full(), driver_fixture::leaks()] {
            let report = driver_fixture::hostile(report);
            let text = plain(&report);
            assert!(!text.chars().any(|c| c != '\n' && escape::is_invisible(c)), "{text:?}");
            let coloured = text_summary(&report.traces[0], Style::coloured());
            assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), text);
        }
    }

    #[test]
    fn every_device_is_shown_and_what_the_allocator_does_not_use_too() {
        let mut report = driver_fixture::leaks();
        let driver = report.traces[0].driver.as_mut().unwrap();
        driver.devices.push(DriverDeviceRow { device: 3, ..driver.devices[0].clone() });
        let text = plain(&report);
        assert!(
            text.contains("2 devices") && text.contains("device 0 (8.0") && text.contains("device 3 (8.0")
        );
        assert_eq!(text.matches("next: memlab").count(), 1);
        let mut both = fixtures::normal();
        both.traces[0].driver = report.traces[0].driver.take();
        let text = plain(&both);
        assert!(text.contains("\nnvidia-smi at the peak") && text.contains("device 3: nvidia-smi"), "{text}");
    }

    #[test]
    fn a_recording_without_device_memory_says_so() {
        let mut report = driver_fixture::leaks();
        report.traces[0].driver.as_mut().unwrap().devices.clear();
        let text = plain(&report);
        assert!(text.contains("No device memory") && text.contains("host: pinned 8.0 MiB at most"), "{text}");
    }
}
