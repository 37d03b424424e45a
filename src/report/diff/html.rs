//! `diff.html`: the comparison as one static page, with the two timelines on one axis.
//!
//! Owns what stands in the page; the frame and its policy are `html::page`'s, the look is in `assets/diff.*`.

use askama::Template;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::types::{DeviceDiff, DiffInput, DiffReport, FiguresDiff, LibraryDiff};
use super::words::{self, Figure};
use crate::report::escape::{keep_end, keep_start, terminal};
use crate::report::html::page::{Page, page};
use crate::report::svg::diff_svg;
use crate::units::Count;

const STYLES: [&str; 2] = [include_str!("../assets/tokens.css"), include_str!("../assets/diff.css")];
/// Rows of each table; the JSON has all.
const MOST_ROWS: usize = 500;
const LONGEST_NAME: usize = 300;
const LONGEST_SENTENCE: usize = 2_000;

#[derive(Template)]
#[template(path = "diff.html", config = "src/report/assets/askama.toml")]
struct Body {
    tool: String,
    same: bool,
    inputs: [(&'static str, String, &'static str); 2],
    notes: Vec<String>,
    devices: Vec<Device>,
    lists: Vec<(&'static str, Vec<String>)>,
}

struct Device {
    title: Option<String>,
    headline: String,
    figures: Vec<Figure>,
    picture: Option<String>,
    picture_title: String,
    picture_note: &'static str,
    tables: Vec<Table>,
    notes: Vec<String>,
}

/// Rows with before, after and change in front of a name.
struct Table {
    title: String,
    name: &'static str,
    rows: Vec<Row>,
    hidden: Option<String>,
}

struct Row {
    before: String,
    after: String,
    change: String,
    /// `up`, `down` or nothing, for the look.
    direction: &'static str,
    name: String,
    was: Option<String>,
}

/// The page, one file that loads nothing.
#[must_use]
pub fn diff_html(report: &DiffReport) -> String {
    let several = report.devices.len() > 1;
    let body = Body {
        tool: sentence(&report.tool),
        same: report.same,
        inputs: [("before", &report.before), ("after", &report.after)].map(input),
        notes: report.notes.iter().map(|note| sentence(note)).collect(),
        devices: report.devices.iter().map(|row| device(row, several)).collect(),
        lists: words::lists(report)
            .into_iter()
            .map(|(title, rows)| (title, rows.iter().take(MOST_ROWS).map(|row| sentence(row)).collect()))
            .collect(),
    };
    let body = body.render().unwrap_or_default();
    page(Page { title: "memlab: what differs", body: &body, styles: &STYLES, scripts: &[] })
}

fn input((name, input): (&'static str, &DiffInput)) -> (&'static str, String, &'static str) {
    let kind = if input.kind == "report" { "an earlier report" } else { "a recording" };
    (name, shown(&input.path), kind)
}

/// A name of the trace: the template escapes markup, this what cannot be seen.
fn shown(text: &str) -> String {
    keep_end(&terminal(text), LONGEST_NAME).into_owned()
}

fn sentence(text: &str) -> String {
    keep_start(&terminal(text), LONGEST_SENTENCE).into_owned()
}

fn device(device: &DeviceDiff, several: bool) -> Device {
    let mut figures = words::figures(device);
    for figure in &mut figures {
        (figure.before, figure.after) = (sentence(&figure.before), sentence(&figure.after));
    }
    let picture = diff_svg(device).map(|svg| STANDARD.encode(svg));
    let mut tables = line_tables(device);
    tables.extend(device.library_lines.as_ref().map(within_libraries).unwrap_or_default());
    tables.extend(modules(device));
    tables.extend(categories(device));
    Device {
        title: several.then(|| format!("Device {}", device.device)),
        headline: words::headline(device),
        figures,
        picture,
        picture_title: format!("Reserved and allocated bytes before and after: {}", words::headline(device)),
        picture_note: words::picture_note(device).unwrap_or_default(),
        tables,
        notes: words::all_notes(device).iter().map(|note| sentence(note)).collect(),
    }
}

fn table(title: String, name: &'static str, rows: Vec<Row>) -> Option<Table> {
    let mut rows = rows;
    let hidden = rows.len().saturating_sub(MOST_ROWS);
    rows.truncate(MOST_ROWS);
    let hidden = (hidden > 0).then(|| format!("{} more: see the JSON", Count(hidden as u64)));
    (!rows.is_empty()).then_some(Table { title, name, rows, hidden })
}

fn row(before: Option<u64>, after: Option<u64>, delta: Option<i64>, name: &str, was: Option<String>) -> Row {
    Row {
        before: words::size(before),
        after: words::size(after),
        change: words::signed(delta),
        direction: match delta.map_or(0, i64::signum) {
            1 => "up",
            -1 => "down",
            _ => "level",
        },
        name: shown(name),
        was: was.map(|was| shown(&was)),
    }
}

fn of_figures(figures: &FiguresDiff, name: &str, was: Option<String>) -> Row {
    row(figures.before_bytes, figures.after_bytes, figures.delta_bytes, name, was)
}

fn within_libraries(libraries: &LibraryDiff) -> Vec<Table> {
    let (rows, _, title) = words::changed_within(libraries);
    let rows = rows.iter().map(|line| {
        let (label, was) = words::library_line(line);
        of_figures(&line.figures, &label, was)
    });
    let rest = of_figures(&libraries.no_library, "not in a library", None);
    let mut tables: Vec<Table> = table(words::capital(&title), "line", rows.collect()).into_iter().collect();
    if libraries.no_library.held().differs() && !tables.is_empty() {
        tables.extend(table("Not in a library".to_owned(), "line", vec![rest]));
    }
    tables
}

fn line_tables(device: &DeviceDiff) -> Vec<Table> {
    let mut tables: Vec<Table> = words::grown_and_shrunk(device)
        .into_iter()
        .filter_map(|(rows, _, title)| {
            let rows = rows.iter().map(|line| {
                let (label, was) = words::line(line);
                of_figures(&line.figures, &label, was)
            });
            table(words::capital(&title), "line", rows.collect())
        })
        .collect();
    if device.unattributed.held().differs() {
        let rows = vec![of_figures(&device.unattributed, "no line known", None)];
        tables.extend(table("Without a line".to_owned(), "line", rows));
    }
    tables
}

fn modules(device: &DeviceDiff) -> Option<Table> {
    let rows = words::changed_modules(device);
    let rows = rows
        .iter()
        .map(|line| row(line.before_bytes, line.after_bytes, line.delta_bytes, &words::module(line), None));
    table("Modules at the peak".to_owned(), "module", rows.collect())
}

fn categories(device: &DeviceDiff) -> Option<Table> {
    let rows = words::changed_categories(device);
    let rows = rows.iter().map(|line| {
        let name = line.category.replace('_', " ");
        row(line.before_bytes, line.after_bytes, line.delta_bytes, &name, None)
    });
    table("Categories at the peak".to_owned(), "category", rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::diff::fixture;
    use crate::report::escape;

    #[test]
    fn the_page_says_what_the_report_says_and_holds_the_picture() {
        let html = diff_html(&fixture::diff());
        for text in
            ["reserved peak 600.0 MiB lower", "train.py:12 step", "was line 10", "data:image/svg+xml;base64,"]
        {
            assert!(html.contains(text), "{text}: {html}");
        }
        assert!(!html.contains("style=\"") && !html.contains("<script"), "the policy forbids both");
        assert_eq!(html, diff_html(&fixture::diff()));
    }

    #[test]
    fn without_curves_it_says_why_there_is_no_picture() {
        let mut report = fixture::diff();
        report.devices[0].timelines.after.x.clear();
        let html = diff_html(&report);
        assert!(html.contains("no picture: a report has no curve") && !html.contains("<img"), "{html}");
    }

    #[test]
    fn no_difference_is_said_alone() {
        let report = DiffReport { same: true, ..DiffReport::default() };
        let html = diff_html(&report);
        assert!(html.contains("No difference") && !html.contains("<table"), "{html}");
    }

    #[test]
    fn hostile_names_are_text_and_the_page_stays_small() {
        let html = diff_html(&fixture::hostile());
        assert!(!html.contains("<script") && !html.contains("<b>bold"), "{html}");
        assert!(!html.chars().any(|c| c != '\n' && escape::is_invisible(c)));
        assert!(html.len() < 1_000_000, "{}", html.len());
    }
}
