//! `ranks.html`: the ranks of a job as one page with their curves and a table that sorts.
//!
//! Owns what stands in the page; the frame and its policy are `html::page`'s, the look is in `assets`.

use askama::Template;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::types::{RankRow, RanksReport};
use super::words;
use crate::report::escape::{keep_end, keep_start, terminal};
use crate::report::html::page::{Page, page};
use crate::report::svg::ranks_svg;
use crate::units::{Bytes, Count};

const STYLES: [&str; 3] = [
    include_str!("../assets/tokens.css"),
    include_str!("../assets/diff.css"),
    include_str!("../assets/ranks.css"),
];
const SCRIPTS: [&str; 1] = [include_str!("../assets/ranks.js")];
/// Rows of the table of ranks; the JSON has all.
const MOST_RANKS: usize = 2_048;
/// Rows of every other list.
const MOST_ROWS: usize = 200;
const MOST_LINES: usize = 10;
const LONGEST_NAME: usize = 200;
const LONGEST: usize = 800;

#[derive(Template)]
#[template(path = "ranks.html", config = "src/report/assets/askama.toml")]
struct Body {
    title: String,
    headline: String,
    failure: String,
    notes: Vec<String>,
    picture: Option<String>,
    outliers: Vec<(String, Vec<String>)>,
    findings: Vec<String>,
    tables: Vec<Table>,
    others: Vec<String>,
    tool: String,
}

struct Table {
    title: &'static str,
    heads: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
    hidden: Option<String>,
    is_sortable: bool,
}

struct Cell {
    text: String,
    /// What it is sorted by.
    value: i128,
    class: &'static str,
}

/// The page, one file that loads nothing.
#[must_use]
pub fn ranks_html(report: &RanksReport, tool: &str) -> String {
    let outliers = report.outliers.iter().take(MOST_ROWS).map(|outlier| {
        let lines = words::outlier_lines(outlier, MOST_LINES);
        (sentence(&words::outlier(outlier)), lines.iter().map(|line| sentence(line)).collect())
    });
    let findings = report.findings.iter().take(MOST_ROWS);
    let mut tables = vec![ranks(report)];
    tables.extend(steps(report));
    let title = words::title(report);
    let body = Body {
        title: sentence(&capital(&title)),
        headline: sentence(&words::headline(report)),
        failure: sentence(&report.failure.sentence),
        notes: report.notes.iter().map(|note| sentence(note)).collect(),
        picture: ranks_svg(report).map(|svg| STANDARD.encode(svg)),
        outliers: outliers.collect(),
        findings: findings
            .map(|finding| sentence(&format!("{}: {}. {}", finding.rule, finding.title, finding.remedy)))
            .collect(),
        tables,
        others: words::other_devices(report).iter().take(MOST_ROWS).map(|text| sentence(text)).collect(),
        tool: sentence(tool),
    };
    let body = body.render().unwrap_or_default();
    page(Page {
        title: &sentence(&format!("memlab: {title}")),
        body: &body,
        styles: &STYLES,
        scripts: &SCRIPTS,
    })
}

fn capital(text: &str) -> String {
    text.chars().take(1).flat_map(char::to_uppercase).chain(text.chars().skip(1)).collect()
}

fn sentence(text: &str) -> String {
    keep_start(&terminal(text), LONGEST).into_owned()
}

fn ranks(report: &RanksReport) -> Table {
    let shown = words::chosen(report, MOST_RANKS);
    let mut heads = words::COLUMNS.to_vec();
    heads.push("file");
    Table {
        title: "Ranks",
        heads,
        rows: shown.iter().enumerate().map(|(place, row)| cells(row, place)).collect(),
        hidden: words::rest(report, &shown),
        is_sortable: true,
    }
}

fn cells(row: &RankRow, place: usize) -> Vec<Cell> {
    let texts = words::cells(row);
    let perhaps = |value: Option<u64>| value.map_or(-1, i128::from);
    let growth = row
        .growth
        .as_ref()
        .map_or(0, |growth| growth.bytes_per_step.map_or(i128::from(growth.bytes), i128::from));
    // In the order of the columns; what has no figure is sorted by its place.
    let values = [
        row.rank.map_or(place as i128, i128::from),
        row.device.into(),
        row.events.into(),
        row.complete.into(),
        row.peak.requested_bytes.into(),
        row.peak.allocated_bytes.into(),
        row.peak.active_bytes.into(),
        row.peak.reserved_bytes.into(),
        row.end.allocated_bytes.into(),
        row.unused_at_peak_bytes.into(),
        row.steps.count.into(),
        perhaps(row.steps.peak_median_bytes),
        perhaps(row.steps.peak_max_bytes),
        growth,
        row.findings.error.into(),
        row.findings.warning.into(),
        perhaps(row.oom.as_ref().map(|oom| oom.event)),
    ];
    let name = |text: &str| keep_end(&terminal(text), LONGEST_NAME).into_owned();
    let mut cells: Vec<Cell> = texts
        .iter()
        .zip(values)
        .map(|(text, value)| Cell { text: name(text), value, class: "number" })
        .collect();
    cells.push(Cell { text: name(&row.path), value: place as i128, class: "name" });
    cells
}

fn steps(report: &RanksReport) -> Option<Table> {
    let number = |value: u64| Cell { text: Count(value).to_string(), value: value.into(), class: "number" };
    let size = |value: u64| Cell { text: Bytes(value).to_string(), value: value.into(), class: "number" };
    let rows: Vec<Vec<Cell>> = (report.steps.iter().take(MOST_ROWS))
        .map(|step| {
            let rank = step.max_rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string());
            let value = step.max_rank.map_or(-1, i128::from);
            vec![
                number(step.step),
                number(step.ranks),
                size(step.min_bytes),
                size(step.median_bytes),
                size(step.max_bytes),
                Cell { text: rank, value, class: "number" },
            ]
        })
        .collect();
    let left = report.steps.len().saturating_sub(MOST_ROWS) as u64 + report.steps_left_out;
    (!rows.is_empty()).then(|| Table {
        title: "Steps",
        heads: vec!["step", "ranks", "lowest peak", "median", "highest", "of rank"],
        rows,
        hidden: (left > 0).then(|| format!("{} more: see the JSON", Count(left))),
        is_sortable: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::escape;
    use crate::report::ranks::fixture;

    #[test]
    fn the_page_has_verdict_picture_and_a_table_of_every_rank() {
        let html = ranks_html(&fixture::job(64), "memlab");
        for text in [
            "64 ranks, 64,000 events",
            "Rank 5 alone ran out of memory",
            "data:image/svg+xml;base64,",
            "leak.py:7 keep",
            "class=\"sortable\"",
        ] {
            assert!(html.contains(text), "{text}: {html}");
        }
        assert_eq!(html.matches("class=\"name\"").count(), 64);
        assert!(html.contains(&format!("data-value=\"{}\"", 220 * fixture::MIB)));
        assert!(!html.contains("style=\""), "the policy forbids it");
    }

    #[test]
    fn hostile_names_are_text() {
        let html = ranks_html(&fixture::hostile(), "memlab");
        assert!(!html.contains("<b>bold") && html.matches("<script").count() == 1, "{html}");
        assert!(!html.chars().any(|c| c != '\n' && escape::is_invisible(c)));
    }
}
