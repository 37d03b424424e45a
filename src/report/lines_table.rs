//! The table of `memlab lines`: who held the memory, for a terminal.
//!
//! Owns columns and remainders: what is cut off, what has no line, and the sum stand below the table, so
//! that the shown bytes always add up to the peak.

use super::columns::{Align, aligned};
use super::escape;
use super::style::Style;
use super::types::{DeviceReport, LineFigures, LineRow};
use crate::units::{Bytes, Count, percent};

const ALIGN: [Align; 7] =
    [Align::Right, Align::Right, Align::Right, Align::Right, Align::Right, Align::Right, Align::Left];

/// The line table of `device` with at most `top` lines, ready to print.
#[must_use]
pub fn lines_table(device: &DeviceReport, top: usize, style: Style) -> String {
    let shown = &device.lines[..top.min(device.lines.len())];
    let peak = device.peak.allocated_bytes;
    let mut rows = vec![header(&device.group_by)];
    rows.extend(shown.iter().map(|line| row(line, peak)));
    rows.extend(remainder(device, shown));
    rows.push(figures_row(&device.unattributed, "-".to_owned(), peak, "(no line known)".to_owned()));
    rows.push(total_row(device));
    let mut lines = aligned(&ALIGN, &rows);
    lines[0] = style.bold(&lines[0]);
    let last = lines.len() - 1;
    lines[last] = style.bold(&lines[last]);
    let rule = escape::terminal(&device.line_rule);
    lines.push(style.dim(rule));
    if shown.iter().any(|line| line.figures.inferred_bytes > 0) {
        lines.push(style.dim("* partly inferred: allocations of the backward pass without Python frames belong to the line that started it"));
    }
    lines.join("\n") + "\n"
}

fn header(group_by: &str) -> Vec<String> {
    ["held at peak", "share", "own peak", "active on stack", "allocations", "bytes in all"]
        .map(str::to_owned)
        .into_iter()
        .chain([escape::terminal(group_by).into_owned()])
        .collect()
}

fn row(line: &LineRow, peak: u64) -> Vec<String> {
    let mut label = escape::terminal(&line.label()).into_owned();
    if line.figures.inferred_bytes > 0 {
        label.push_str(" *");
    }
    figures_row(&line.figures, Bytes(line.active_peak_on_stack_bytes).to_string(), peak, label)
}

fn figures_row(figures: &LineFigures, on_stack: String, peak: u64, label: String) -> Vec<String> {
    vec![
        Bytes(figures.held_at_peak_bytes).to_string(),
        percent(figures.held_at_peak_bytes, peak),
        Bytes(figures.own_peak_bytes).to_string(),
        on_stack,
        Count(figures.allocations).to_string(),
        Bytes(figures.total_bytes).to_string(),
        label,
    ]
}

/// What all lines beyond those shown held, cut off here or by `--top` before.
fn remainder(device: &DeviceReport, shown: &[LineRow]) -> Option<Vec<String>> {
    let hidden = (device.lines.len() - shown.len()) as u64 + device.lines_left_out;
    if hidden == 0 {
        return None;
    }
    let held = bytes_of_other_lines(device, shown);
    let share = percent(held, device.peak.allocated_bytes);
    let dash = || "-".to_owned();
    let label = format!("({} more)", Count(hidden));
    Some(vec![Bytes(held).to_string(), share, dash(), dash(), dash(), dash(), label])
}

/// Bytes at the peak of lines that are not in `shown`: the peak less what is shown and what has no line.
pub(super) fn bytes_of_other_lines(device: &DeviceReport, shown: &[LineRow]) -> u64 {
    let shown: u64 = shown.iter().fold(0, |sum, line| line.figures.held_at_peak_bytes.saturating_add(sum));
    device.peak.allocated_bytes.saturating_sub(shown).saturating_sub(device.unattributed.held_at_peak_bytes)
}

fn total_row(device: &DeviceReport) -> Vec<String> {
    let dash = || "-".to_owned();
    let peak = device.peak.allocated_bytes;
    let label = "allocated at the peak".to_owned();
    vec![Bytes(peak).to_string(), percent(peak, peak), dash(), dash(), dash(), dash(), label]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixtures;

    #[test]
    fn the_table_is_as_agreed() {
        let report = fixtures::normal();
        insta::assert_snapshot!("lines_all", lines_table(&report.traces[0].devices[0], 100, Style::plain()));
        insta::assert_snapshot!("lines_top_3", lines_table(&report.traces[0].devices[0], 3, Style::plain()));
    }

    #[test]
    fn what_top_hides_is_summed_up() {
        let mut report = fixtures::normal();
        let device = &mut report.traces[0].devices[0];
        assert_eq!(bytes_of_other_lines(device, &device.lines[..3]), 20 << 20);
        device.lines.truncate(2);
        device.lines_left_out = 5;
        let table = lines_table(device, 2, Style::plain());
        assert!(table.contains("44.0 MiB") && table.contains("(5 more)"), "{table}");
    }

    #[test]
    fn hostile_names_stay_in_their_line() {
        let report = fixtures::hostile();
        let device = &report.traces[0].devices[0];
        let table = lines_table(device, 100, Style::plain());
        assert!(!table.chars().any(|c| c != '\n' && escape::is_invisible(c)));
        assert_eq!(table.lines().count(), device.lines.len() + 5);
    }
}
