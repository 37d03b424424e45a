//! `memlab diff` on a terminal: the verdict first, then what grew and what shrank.

use super::types::{DeviceDiff, DiffReport, LineDiff};
use super::words;
use crate::report::columns::{Align, aligned};
use crate::report::escape::{keep_end, keep_start, terminal};
use crate::report::style::Style;
use crate::report::wrap::broken;
use crate::units::Count;

const COLUMNS: usize = 100;
/// Rows of each table unless more are asked for.
const TOP: usize = 10;
/// Lines that one finding, fact or note may take.
const LINES_OF_TEXT: usize = 3;

/// The comparison as text, ready to print; `top` rows of each table.
#[must_use]
pub fn diff_text(report: &DiffReport, top: Option<usize>, style: Style) -> String {
    let mut out = Vec::new();
    for (name, input) in [("before", &report.before), ("after", &report.after)] {
        let kind = if input.kind == "report" { " (report)" } else { "" };
        out.push(style.dim(format!("{name:<6} {}{kind}", keep_end(&terminal(&input.path), COLUMNS - 20))));
    }
    if report.same {
        out.push(style.bold("no difference"));
        notes(&mut out, report, style);
        return out.join("\n") + "\n";
    }
    if report.devices.is_empty() {
        notes(&mut out, report, style);
    }
    for (index, device) in report.devices.iter().enumerate() {
        if index > 0 {
            out.push(String::new());
        }
        let several = report.devices.len() > 1;
        let name = if several { format!("device {}: ", device.device) } else { String::new() };
        out.extend(wrapped(&(name + &words::headline(device))).iter().map(|line| style.bold(line)));
        if index == 0 {
            notes(&mut out, report, style);
        }
        of_device(&mut out, device, top.unwrap_or(TOP), style);
    }
    for (title, rows) in words::lists(report) {
        out.extend([String::new(), style.dim(title.to_lowercase())]);
        for row in rows {
            out.extend(wrapped(&format!("- {row}")));
        }
    }
    out.join("\n") + "\n"
}

fn wrapped(text: &str) -> Vec<String> {
    broken(&terminal(text), LINES_OF_TEXT, COLUMNS, 4)
}

fn notes(out: &mut Vec<String>, report: &DiffReport, style: Style) {
    for note in &report.notes {
        out.extend(wrapped(&format!("note: {note}")).iter().map(|line| style.warn(line)));
    }
}

fn of_device(out: &mut Vec<String>, device: &DeviceDiff, top: usize, style: Style) {
    let figures = words::figures(device);
    let mut rows = vec![["", "before", "after", "change"].map(str::to_owned).to_vec()];
    for figure in figures.into_iter().filter(|figure| figure.differs) {
        let cell = |text: &str| keep_start(&terminal(text), 40).into_owned();
        rows.push(vec![figure.name.to_owned(), cell(&figure.before), cell(&figure.after), figure.change]);
    }
    if rows.len() > 1 {
        table(out, &[Align::Left, Align::Right, Align::Right, Align::Right], &rows, style);
    }
    for (rows, sum, title) in words::grown_and_shrunk(device) {
        lines(out, &title, &rows[..top.min(rows.len())], sum.count, words::line, style);
    }
    let remainder = &device.unattributed;
    if remainder.held().differs() {
        let (before, after) = (words::size(remainder.before_bytes), words::size(remainder.after_bytes));
        out.push(format!("no line known: {} ({before} → {after})", words::signed(remainder.delta_bytes)));
    }
    for note in words::line_notes(device) {
        out.push(style.dim(keep_end(&terminal(&note), COLUMNS)));
    }
    if let Some(libraries) = &device.library_lines {
        let (rows, count, title) = words::changed_within(libraries);
        lines(out, &title, &rows[..top.min(rows.len())], count, words::library_line, style);
        out.extend(words::no_library(libraries).filter(|_| !rows.is_empty()));
        for note in words::library_notes(libraries) {
            out.push(style.dim(keep_end(&terminal(&note), COLUMNS)));
        }
    }
    modules(out, device, top, style);
    let categories: Vec<_> = words::changed_categories(device).into_iter().map(words::category).collect();
    if !categories.is_empty() {
        out.push(String::new());
        out.extend(wrapped(&format!("categories at the peak: {}", categories.join(", "))));
    }
}

fn table(out: &mut Vec<String>, align: &[Align], rows: &[Vec<String>], style: Style) {
    let mut lines = aligned(align, rows);
    lines[0] = style.dim(&lines[0]);
    out.push(String::new());
    out.extend(lines);
}

const FIGURES_THEN_NAME: [Align; 4] = [Align::Right, Align::Right, Align::Right, Align::Left];

/// The first of `count` rows; `read` says how people read one, and what it was before.
fn lines(
    out: &mut Vec<String>,
    title: &str,
    rows: &[&LineDiff],
    count: u64,
    read: fn(&LineDiff) -> (String, Option<String>),
    style: Style,
) {
    if rows.is_empty() {
        return;
    }
    let mut cells =
        vec![vec!["before".to_owned(), "after".to_owned(), "change".to_owned(), title.to_owned()]];
    for row in rows {
        let (label, was) = read(row);
        let was = was.map(|was| format!(" ({})", keep_end(&terminal(&was), 40))).unwrap_or_default();
        let room = COLUMNS - 40 - was.chars().count().min(30);
        let label = format!("{}{was}", keep_end(&terminal(&label), room));
        let figures = &row.figures;
        let [before, after] = [figures.before_bytes, figures.after_bytes].map(words::size);
        cells.push(vec![before, after, words::signed(figures.delta_bytes), label]);
    }
    table(out, &FIGURES_THEN_NAME, &cells, style);
    let hidden = count.saturating_sub(rows.len() as u64);
    if hidden > 0 {
        out.push(style.dim(format!("({} more)", Count(hidden))));
    }
}

fn modules(out: &mut Vec<String>, device: &DeviceDiff, top: usize, style: Style) {
    let rows = words::changed_modules(device);
    if rows.is_empty() {
        return;
    }
    let mut cells = vec![["before", "after", "change", "module"].map(str::to_owned).to_vec()];
    for row in rows.iter().take(top) {
        let label = keep_end(&terminal(&words::module(row)), COLUMNS - 40).into_owned();
        let [before, after] = [row.before_bytes, row.after_bytes].map(words::size);
        cells.push(vec![before, after, words::signed(row.delta_bytes), label]);
    }
    table(out, &FIGURES_THEN_NAME, &cells, style);
    let hidden = rows.len().saturating_sub(top);
    if hidden > 0 {
        out.push(style.dim(format!("({} more)", Count(hidden as u64))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::diff::fixture;
    use crate::report::escape;

    #[test]
    fn the_verdict_comes_first_and_all_parts_are_there() {
        insta::assert_snapshot!("diff_text", diff_text(&fixture::diff(), None, Style::plain()));
    }

    #[test]
    fn colour_changes_no_word() {
        let report = fixture::diff();
        let coloured = diff_text(&report, None, Style::coloured());
        let stripped = anstream::adapter::strip_str(&coloured).to_string();
        assert_eq!(stripped, diff_text(&report, None, Style::plain()));
    }

    #[test]
    fn hostile_names_are_text_and_no_line_is_too_long() {
        let text = diff_text(&fixture::hostile(), None, Style::plain());
        assert!(!text.chars().any(|c| c != '\n' && escape::is_invisible(c)), "{text:?}");
        let longest = text.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(COLUMNS + 20), "{text}");
    }
}
