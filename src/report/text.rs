//! The summary that fits one screen: 24 lines of 100 columns for a trace with one device.
//!
//! Owns what is worth a line there and what is left to the other outputs. The words of verdicts, caveats
//! and remedies belong to `verdict`.

use std::fmt;

use super::columns::{Align, aligned};
use super::driver_text;
use super::escape::{keep_end, keep_start, terminal};
use super::findings_text::findings_lines;
use super::lines_table::bytes_of_other_lines;
use super::style::Style;
use super::told;
use super::types::{DeviceReport, Four, Fragmentation, LineRow, PinRow, TraceReport};
use super::verdict;
use super::wrap::broken;
use crate::units::{Bytes, Count, percent};

const COLUMNS: usize = 100;
const ROWS: usize = 24;
const TOP: usize = 5;
/// Header, other lines, no line known.
const TABLE_FRAME: usize = 3;

/// The summary of `trace`, ready to print.
#[must_use]
pub fn text_summary(trace: &TraceReport, style: Style) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write_summary(&mut text, trace, style);
    text
}

/// Writes the summary of `trace` to `out`.
///
/// # Errors
/// Those of `out`.
pub fn write_summary<W: fmt::Write>(out: &mut W, trace: &TraceReport, style: Style) -> fmt::Result {
    if let (true, Some(driver)) = (trace.devices.is_empty(), &trace.driver) {
        writeln!(out, "{}", style.dim(driver_text::head(trace, driver)))?;
        let screens = driver_text::screens(trace, driver, &file_warnings(trace, style), style);
        return screens.iter().try_for_each(|screen| write_blocks(out, screen));
    }
    writeln!(out, "{}", style.dim(head(trace)))?;
    let about_file = file_warnings(trace, style);
    match trace.devices.as_slice() {
        [device] => {
            write_blocks(out, &device_blocks(trace, device, &about_file, style))?;
            driver_text::other_devices(trace).iter().try_for_each(|line| writeln!(out, "{line}"))
        }
        devices => {
            for device in devices {
                write_blocks(out, &device_blocks(trace, device, &[], style))?;
                writeln!(out)?;
            }
            let elsewhere = told::in_order(trace, None);
            let known = |device: u32| devices.iter().any(|entry| entry.device == device);
            let elsewhere: Vec<_> = elsewhere.into_iter().filter(|finding| !known(finding.device)).collect();
            let elsewhere = findings_lines(&elsewhere, ROWS, COLUMNS, style);
            let driver = driver_text::other_devices(trace);
            elsewhere.iter().chain(&driver).chain(&about_file).try_for_each(|line| writeln!(out, "{line}"))
        }
    }
}

/// The blocks one below the other, with as many blank lines between them as the screen has room for.
fn write_blocks<W: fmt::Write>(out: &mut W, blocks: &[Vec<String>]) -> fmt::Result {
    let lines: usize = blocks.iter().map(Vec::len).sum();
    let mut blanks = (ROWS - 1).saturating_sub(lines);
    for (index, block) in blocks.iter().filter(|block| !block.is_empty()).enumerate() {
        if index > 0 && blanks > 0 {
            blanks -= 1;
            writeln!(out)?;
        }
        block.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    Ok(())
}

/// One line, never wider than the screen.
fn fit(line: &str) -> String {
    keep_start(line, COLUMNS).into_owned()
}

/// `text` on at most `limit` lines, later ones indented; what does not fit ends in an ellipsis.
fn wrap(text: &str, limit: usize) -> Vec<String> {
    broken(text, limit, COLUMNS, 2)
}

fn head(trace: &TraceReport) -> String {
    let events = Count(trace.events);
    let mut head =
        format!("{}: {}, {events} events", keep_end(&terminal(&trace.path), 48), terminal(trace.format));
    match trace.devices.as_slice() {
        [] => head.push_str(", no device"),
        [device] => head.extend([", ", &device_name(device)]),
        devices => head.push_str(&format!(", {} devices", devices.len())),
    }
    fit(&head)
}

fn device_name(device: &DeviceReport) -> String {
    let mut name = format!("device {}", device.device);
    if let Some(product) = &device.name {
        name.extend([" ", &keep_start(&terminal(product), 30)]);
    }
    if let Some(total) = device.total_bytes {
        name.push_str(&format!(" ({})", Bytes(total)));
    }
    name
}

/// What is wrong with the file as a whole.
fn file_warnings(trace: &TraceReport, style: Style) -> Vec<String> {
    let mut lines: Vec<String> =
        verdict::trace_caveats(trace).iter().map(|text| warning(text, style)).collect();
    if verdict::faults(trace).next().is_some() {
        let total = verdict::faults(trace).fold(0u64, |sum, warning| sum.saturating_add(warning.count));
        let kinds: Vec<_> = verdict::faults(trace).map(|warning| terminal(&warning.kind)).collect();
        lines.push(warning(&format!("{} faults in the file ({})", Count(total), kinds.join(", ")), style));
    }
    lines
}

fn warning(text: &str, style: Style) -> String {
    style.warn(fit(&format!("warning: {text}")))
}

/// Verdict, findings, figures, lines, warnings, next step. The table of lines gives way where the rest needs room.
fn device_blocks(
    trace: &TraceReport,
    device: &DeviceReport,
    about_file: &[String],
    style: Style,
) -> Vec<Vec<String>> {
    let mut verdict = Vec::new();
    if trace.devices.len() > 1 {
        verdict.push(style.bold(fit(&device_name(device))));
    }
    verdict.extend(headline(device, style));
    let mut figures = counters(device, style);
    figures.extend(fragmentation(device));
    figures.extend(device.categories.sentence(COLUMNS).map(|line| fit(&line)));
    let mut notes: Vec<String> =
        verdict::device_caveats(device).iter().map(|text| warning(text, style)).collect();
    notes.extend_from_slice(about_file);
    let help = device.what_would_help.as_ref().and_then(super::whatif::HelpRow::sentence);
    notes.extend(help.map(|text| fit(&terminal(&text))));
    let next = next(trace, device, style);
    let taken = 1 + verdict.len() + figures.len() + notes.len() + next.len();
    // One line of the table is kept in any case.
    let room = ROWS.saturating_sub(taken + TABLE_FRAME + 1);
    // Findings have a line of their own wherever there are any.
    let found = told::in_order(trace, Some(device.device));
    let room_for_sum = room.saturating_sub(usize::from(!found.is_empty()));
    let driver = driver_text::sum_lines(trace, device.device, room_for_sum.min(2));
    let (taken, room) = (taken + driver.len(), room - driver.len());
    figures.extend(driver);
    // Three lines of the table are worth more than the fourth finding, one finding more than the table, and what
    // is optional more than a finding's second line.
    let optional = optional(device);
    let spare = room.saturating_sub(2);
    let share = spare.saturating_sub(optional.len()).max(spare.min(found.len()));
    let found = findings_lines(&found, share, COLUMNS, style);
    let (taken, room) = (taken + found.len(), room.saturating_sub(found.len() + 1));
    let taken = taken + optional.len().min(room);
    figures.extend(optional.into_iter().take(room));
    let top = ROWS.saturating_sub(taken + TABLE_FRAME).clamp(1, TOP);
    vec![verdict, found, figures, top_lines(device, top, style), notes, next]
}

fn headline(device: &DeviceReport, style: Style) -> Vec<String> {
    let text = verdict::headline(device);
    let lines = wrap(&terminal(&text), 2);
    let Some(oom) = device.ooms.last() else {
        return lines.iter().map(|line| style.bold(line)).collect();
    };
    let mut lines: Vec<String> = lines.iter().map(|line| style.bad(line)).collect();
    let more = match device.ooms.len() {
        1 => String::new(),
        count => format!(" (the last of {})", Count(count as u64)),
    };
    lines.push(fit(&format!("  {}{more}", terminal(&verdict::oom_place(oom)))));
    lines
}

fn counters(device: &DeviceReport, style: Style) -> Vec<String> {
    let cells = |name: &str, four: [String; 4]| {
        let mut row = vec![name.to_owned()];
        row.extend(four);
        row
    };
    let names = ["requested", "allocated", "active", "reserved"].map(str::to_owned);
    let moments = each(&device.peak_event).map(|event| match event {
        Some(event) => Count(*event).to_string(),
        None => "before".to_owned(),
    });
    let bytes = |four: &Four<u64>| each(four).map(|&bytes| Bytes(bytes).to_string());
    let mut rows = vec![cells("", names)];
    if device.initial != Four::default() {
        rows.push(cells("before", bytes(&device.initial)));
    }
    rows.push(cells("peak", bytes(&device.peak)));
    rows.push(cells("at event", moments));
    rows.push(cells("end", bytes(&device.end)));
    let align = [Align::Left, Align::Right, Align::Right, Align::Right, Align::Right];
    let mut lines = aligned(&align, &rows);
    lines[0] = style.dim(&lines[0]);
    lines
}

fn each<T>(four: &Four<T>) -> [&T; 4] {
    [&four.requested_bytes, &four.allocated_bytes, &four.active_bytes, &four.reserved_bytes]
}

fn fragmentation(device: &DeviceReport) -> Vec<String> {
    let (moment, at) = verdict::telling_fragmentation(device);
    let mut lines = vec![fit(&format!(
        "fragmentation {moment}: {} free: {} stranded, {} releasable, largest {}",
        percent(verdict::free_bytes(at), at.reserved_bytes),
        Bytes(at.stranded_bytes),
        Bytes(at.releasable_bytes),
        Bytes(at.largest_free_block_bytes),
    ))];
    lines.extend(pinned_by(at));
    lines
}

fn pinned_by(at: &Fragmentation) -> Option<String> {
    let pin = at.pins.first().filter(|_| at.stranded_bytes > 0)?;
    Some(fit(&format!(
        "  pinned by {}: {} blocks of {} together, {} stranded beside them",
        keep_end(&terminal(&pin_label(pin)), 30),
        Count(pin.blocks),
        Bytes(pin.block_bytes),
        Bytes(pin.stranded_bytes)
    )))
}

/// What gives way where the screen is full: steps, and what only memlab's own recorder knows.
fn optional(device: &DeviceReport) -> Vec<String> {
    let steps = (device.steps.count > 0).then(|| super::steps_table::sentence(&device.steps));
    let mut lines: Vec<String> = steps.map(|text| fit(&terminal(&text))).into_iter().collect();
    lines.extend(recorded(device));
    lines
}

/// What only memlab's own recorder knows: the largest allocation's holder, memory outside.
fn recorded(device: &DeviceReport) -> Vec<String> {
    let mut lines = Vec::new();
    let holder = device.census.as_ref().and_then(|census| census.holders.first());
    if let Some((holder, bytes)) = holder.and_then(|row| Some((row, row.bytes?))) {
        let path = terminal(&holder.path);
        lines.push(fit(&format!("{} held by {}", Bytes(bytes), keep_end(&path, 70))));
    }
    if let Some(outside) = &device.outside {
        let (most, end) = (Bytes(outside.max_bytes), Bytes(outside.end_bytes));
        lines.push(fit(&format!("outside the allocator: {most} at most, {end} at the end")));
    }
    lines
}

/// How people read the line of a pin.
pub(super) fn pin_label(pin: &PinRow) -> String {
    if pin.file.is_none() && pin.function.is_none() {
        return "no line known".to_owned();
    }
    let row = LineRow {
        file: pin.file.clone(),
        line: pin.line,
        function: pin.function.clone(),
        ..LineRow::default()
    };
    row.label()
}

fn top_lines(device: &DeviceReport, top: usize, style: Style) -> Vec<String> {
    let peak = device.peak.allocated_bytes;
    let shown = &device.lines[..top.min(device.lines.len())];
    let row = |bytes: u64, label: String| vec![Bytes(bytes).to_string(), percent(bytes, peak), label];
    let mut rows =
        vec![vec!["held at peak".to_owned(), "share".to_owned(), terminal(&device.group_by).into()]];
    rows.extend(
        shown.iter().map(|line| row(line.figures.held_at_peak_bytes, terminal(&line.label()).into_owned())),
    );
    let others = (device.lines.len() - shown.len()) as u64 + device.lines_left_out;
    if others > 0 {
        rows.push(row(bytes_of_other_lines(device, shown), format!("({} more)", Count(others))));
    }
    rows.push(row(device.unattributed.held_at_peak_bytes, "(no line known)".to_owned()));
    for row in &mut rows {
        row[2] = keep_end(&row[2], COLUMNS - 24).into_owned();
    }
    let mut lines = aligned(&[Align::Right, Align::Right, Align::Left], &rows);
    lines[0] = style.dim(&lines[0]);
    lines
}

fn next(trace: &TraceReport, device: &DeviceReport, style: Style) -> Vec<String> {
    let path = terminal(&trace.path);
    match verdict::next_step(trace, device) {
        Some(remedy) => wrap(&format!("next: {}", terminal(&remedy)), 2),
        None => vec![fit(&format!("next: memlab analyze {} -o report", keep_end(&path, 60)))],
    }
    .iter()
    .map(|line| style.bold(line))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{escape, fixtures};

    fn plain(report: &super::super::Report) -> String {
        text_summary(&report.traces[0], Style::plain())
    }

    fn assert_fits(text: &str) {
        assert!(text.lines().count() <= ROWS, "{} lines:\n{text}", text.lines().count());
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
    }

    #[test]
    fn the_summaries_are_as_agreed() {
        insta::assert_snapshot!("text_oom", plain(&fixtures::oom()));
        insta::assert_snapshot!("text_normal", plain(&fixtures::normal()));
        insta::assert_snapshot!("text_late", plain(&fixtures::late()));
        insta::assert_snapshot!("text_recorded", plain(&fixtures::recorded()));
    }

    #[test]
    fn every_summary_of_one_device_fits_one_screen() {
        for report in [fixtures::oom(), fixtures::normal(), fixtures::late(), fixtures::hostile()] {
            assert_fits(&plain(&report));
        }
        assert_fits(&plain(&fixtures::many_lines(5_000)));
    }

    #[test]
    fn the_worst_of_everything_still_fits() {
        let mut report = fixtures::recorded();
        let late = fixtures::late();
        let trace = &mut report.traces[0];
        trace.complete = false;
        trace.warnings = late.traces[0].warnings.clone();
        trace.devices[0].history = late.traces[0].devices[0].history;
        trace.devices[0].initial = late.traces[0].devices[0].initial;
        trace.findings[1].remedy = "word ".repeat(200);
        assert_fits(&plain(&report));
    }

    #[test]
    fn colour_changes_no_word() {
        let report = fixtures::oom();
        let coloured = text_summary(&report.traces[0], Style::coloured());
        assert!(coloured.contains('\x1b'));
        let stripped = anstream::adapter::strip_str(&coloured).to_string();
        assert_eq!(stripped, plain(&report));
    }

    #[test]
    fn hostile_names_reach_the_terminal_as_text() {
        let text = plain(&fixtures::hostile());
        assert!(!text.chars().any(|c| c != '\n' && escape::is_invisible(c)), "{text:?}");
    }

    #[test]
    fn every_device_is_shown_under_its_name() {
        let mut report = fixtures::normal();
        let mut second = report.traces[0].devices[0].clone();
        second.device = 1;
        report.traces[0].devices.push(second);
        let text = plain(&report);
        assert!(
            text.contains("2 devices")
                && text.contains("device 0 NVIDIA")
                && text.contains("device 1 NVIDIA")
        );
    }
}
