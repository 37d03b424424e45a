//! `diff.md`: the comparison for a ticket.

use super::types::{DeviceDiff, DiffReport, LibraryDiff, LineDiff};
use super::words;
use crate::report::escape::{keep_end, keep_start, markdown_code, markdown_text};
use crate::units::Count;

/// Rows of each table; the JSON has all.
const MOST_ROWS: usize = 60;
const LONGEST_NAME: usize = 200;
const LONGEST_SENTENCE: usize = 600;

/// The comparison as a Markdown page. `picture` names the picture of a device beside it, where there is one.
#[must_use]
pub fn diff_markdown(report: &DiffReport, picture: impl Fn(&DeviceDiff) -> Option<String>) -> String {
    let inputs = [("Before", &report.before), ("After", &report.after)].map(|(name, input)| {
        let kind = if input.kind == "report" { ", an earlier report" } else { "" };
        format!("- {name}: {}{kind}", code(&input.path))
    });
    let mut parts = vec!["# CUDA memory: what differs".to_owned()];
    if report.same {
        parts.push("**No difference.**".to_owned());
    }
    for device in report.devices.iter().filter(|_| !report.same) {
        parts.push(format!("**Device {}: {}.**", device.device, prose(&words::headline(device))));
    }
    parts.push(inputs.join("\n"));
    parts.extend(list(&report.notes.iter().map(|note| format!("Mind: {note}.")).collect::<Vec<_>>()));
    for device in report.devices.iter().filter(|_| !report.same) {
        if report.devices.len() > 1 {
            parts.push(format!("## Device {}", device.device));
        }
        of_device(&mut parts, device, picture(device));
    }
    for (title, rows) in words::lists(report) {
        parts.push(format!("## {title}"));
        parts.extend(list(&rows));
    }
    parts.push(format!("Made by {}.", prose(&report.tool)));
    parts.join("\n\n") + "\n"
}

fn code(text: &str) -> String {
    markdown_code(&keep_end(text, LONGEST_NAME))
}

fn prose(text: &str) -> String {
    markdown_text(&keep_start(text, LONGEST_SENTENCE))
}

fn list(rows: &[String]) -> Option<String> {
    let mut items: Vec<_> = rows.iter().take(MOST_ROWS).map(|row| format!("- {}", prose(row))).collect();
    if rows.len() > MOST_ROWS {
        items.push(format!("- {} more", Count((rows.len() - MOST_ROWS) as u64)));
    }
    (!items.is_empty()).then(|| items.join("\n"))
}

fn of_device(parts: &mut Vec<String>, device: &DeviceDiff, picture: Option<String>) {
    let figures = words::figures(device);
    let rows = figures.iter().map(|figure| {
        let name = if figure.differs { format!("**{}**", figure.name) } else { figure.name.to_owned() };
        vec![name, prose(&figure.before), prose(&figure.after), figure.change.clone()]
    });
    parts.push(table(["", "before", "after", "change"], 1, rows.collect()));
    parts.extend(
        picture.map(|picture| format!("![Reserved and allocated bytes before and after]({picture})")),
    );
    for (rows, _, title) in words::grown_and_shrunk(device) {
        if !rows.is_empty() {
            parts.push(format!("### {}", words::capital(&title)));
            let rows = rows.iter().map(|row| line(row, words::line(row))).collect();
            parts.push(table(["before", "after", "change", "line"], 3, rows));
        }
    }
    let remainder = &device.unattributed;
    let (before, after) = (words::size(remainder.before_bytes), words::size(remainder.after_bytes));
    let change = words::signed(remainder.delta_bytes);
    let mut notes = vec![format!("no line known: {change} ({before} → {after})")];
    notes.extend(words::line_notes(device));
    parts.extend(list(&notes));
    if let Some(libraries) = &device.library_lines {
        within_libraries(parts, libraries);
    }
    let modules = words::changed_modules(device);
    if !modules.is_empty() {
        parts.push("### Modules at the peak".to_owned());
        let rows = modules.iter().map(|row| {
            let name = code(&words::module(row));
            vec![
                words::size(row.before_bytes),
                words::size(row.after_bytes),
                words::signed(row.delta_bytes),
                name,
            ]
        });
        parts.push(table(["before", "after", "change", "module"], 3, rows.collect()));
    }
    let categories: Vec<_> = words::changed_categories(device).into_iter().map(words::category).collect();
    if !categories.is_empty() {
        parts.push("### Categories at the peak".to_owned());
        parts.extend(list(&categories));
    }
}

fn within_libraries(parts: &mut Vec<String>, libraries: &LibraryDiff) {
    let (rows, _, title) = words::changed_within(libraries);
    if rows.is_empty() {
        return;
    }
    parts.push(format!("### {}", words::capital(&title)));
    let rows = rows.iter().map(|row| line(row, words::library_line(row))).collect();
    parts.push(table(["before", "after", "change", "line"], 3, rows));
    let mut notes: Vec<String> = words::no_library(libraries).into_iter().collect();
    notes.extend(words::library_notes(libraries));
    parts.extend(list(&notes));
}

fn line(row: &LineDiff, (label, was): (String, Option<String>)) -> Vec<String> {
    let was = was.map(|was| format!(" ({})", prose(&keep_end(&was, LONGEST_NAME)))).unwrap_or_default();
    let figures = &row.figures;
    vec![
        words::size(figures.before_bytes),
        words::size(figures.after_bytes),
        words::signed(figures.delta_bytes),
        code(&label) + &was,
    ]
}

/// A table whose first `right` columns are figures, or all but the first where one is.
fn table(header: [&str; 4], right: usize, rows: Vec<Vec<String>>) -> String {
    let rules = (0..4).map(|column| {
        let is_figure = if right == 1 { column > 0 } else { column < right };
        if is_figure { "--:" } else { "---" }
    });
    let mut lines =
        vec![format!("| {} |", header.join(" | ")), format!("|{}|", rules.collect::<Vec<_>>().join("|"))];
    let hidden = rows.len().saturating_sub(MOST_ROWS);
    lines.extend(rows.iter().take(MOST_ROWS).map(|cells| format!("| {} |", cells.join(" | "))));
    if hidden > 0 {
        lines.push(format!("\n{} more: see the JSON.", Count(hidden as u64)));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::diff::fixture;
    use crate::report::escape;

    #[test]
    fn the_page_is_as_agreed() {
        let page = diff_markdown(&fixture::diff(), |_| Some("diff.svg".to_owned()));
        insta::assert_snapshot!("diff_markdown", page);
    }

    #[test]
    fn hostile_names_are_no_markup_and_a_ticket_takes_the_page() {
        let page = diff_markdown(&fixture::hostile(), |_| None);
        assert!(!page.contains("<script") && !page.contains("[l](javascript"), "{page}");
        assert!(!page.chars().any(|c| c != '\n' && escape::is_invisible(c)));
        assert!(page.len() < 60_000, "{}", page.len());
    }
}
