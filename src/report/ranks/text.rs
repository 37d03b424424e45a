//! The ranks of a job on one screen.
//!
//! Owns what is worth a line there: the verdict, who stands apart, a table of at most 20 ranks.

use super::types::{RankRow, RanksReport};
use super::words;
use crate::report::columns::{Align, aligned};
use crate::report::escape::{keep_end, keep_start, terminal};
use crate::report::style::Style;
use crate::report::wrap::broken;
use crate::units::Count;

const COLUMNS: usize = 100;
const MOST_RANKS: usize = 20;
const MOST_OUTLIERS: usize = 3;
const MOST_LINES: usize = 2;
const MOST_FINDINGS: usize = 2;
/// Columns of the table that fit beside each other, by their names in `words`.
const SHOWN: [&str; 9] = [
    "rank",
    "allocated",
    "reserved",
    "end",
    "unused at peak",
    "steps",
    "errors",
    "warnings",
    "out of memory",
];

/// The summary of `report`, ready to print.
#[must_use]
pub fn ranks_text(report: &RanksReport, style: Style) -> String {
    let mut lines = vec![style.bold(fit(&terminal(&words::headline(report))))];
    lines.extend(failure(report, style));
    lines.extend(outliers(report, style));
    lines.extend(findings(report));
    lines.push(String::new());
    lines.extend(table(report, style));
    lines.extend(report.notes.iter().map(|note| style.warn(fit(&format!("warning: {}", terminal(note))))));
    lines.join("\n") + "\n"
}

fn fit(line: &str) -> String {
    keep_start(line, COLUMNS).into_owned()
}

fn wrap(text: &str, limit: usize) -> Vec<String> {
    broken(&terminal(text), limit, COLUMNS, 2)
}

fn failure(report: &RanksReport, style: Style) -> Vec<String> {
    let lines = wrap(&report.failure.sentence, 2);
    let is_bad = !report.failure.ranks.is_empty();
    lines.into_iter().map(|line| if is_bad { style.bad(line) } else { line }).collect()
}

fn outliers(report: &RanksReport, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    for outlier in report.outliers.iter().take(MOST_OUTLIERS) {
        lines.extend(wrap(&words::outlier(outlier), 2).into_iter().map(|line| style.bold(line)));
        let told = words::outlier_lines(outlier, MOST_LINES);
        lines.extend(told.iter().map(|line| fit(&format!("  {}", terminal(line)))));
    }
    let more = report.outliers.len().saturating_sub(MOST_OUTLIERS) as u64;
    lines.extend((more > 0).then(|| format!("{} more ranks stand apart", Count(more))));
    if report.outliers.is_empty() && report.ranks > 1 && !report.is_list {
        lines.push("No rank stands apart".to_owned());
    }
    lines
}

fn findings(report: &RanksReport) -> Vec<String> {
    let told = report.findings.iter().take(MOST_FINDINGS);
    let mut lines: Vec<String> = told
        .flat_map(|finding| wrap(&format!("{}: {}: {}", finding.severity, finding.rule, finding.title), 2))
        .collect();
    let more = report.findings.len().saturating_sub(MOST_FINDINGS) as u64;
    lines.extend((more > 0).then(|| format!("{} more findings compare ranks or devices", Count(more))));
    lines
}

fn table(report: &RanksReport, style: Style) -> Vec<String> {
    let shown = words::chosen(report, MOST_RANKS);
    let places: Vec<usize> =
        SHOWN.iter().filter_map(|name| words::COLUMNS.iter().position(|column| column == name)).collect();
    let cells = |row: &RankRow| -> Vec<String> {
        let mut cells = words::cells(row);
        // The sentence above says when; here the verdict must do.
        if let (Some(oom), Some(last)) = (&row.oom, cells.last_mut()) {
            last.clone_from(&oom.verdict);
        }
        places.iter().map(|&place| keep_end(&terminal(&cells[place]), 30).into_owned()).collect()
    };
    let heads = SHOWN.map(|name| match name {
        "unused at peak" => "unused".to_owned(),
        name => name.to_owned(),
    });
    let rows: Vec<Vec<String>> =
        std::iter::once(heads.to_vec()).chain(shown.iter().map(|row| cells(row))).collect();
    let mut align = [Align::Right; SHOWN.len()];
    align[SHOWN.len() - 1] = Align::Left;
    let mut lines: Vec<String> = aligned(&align, &rows).iter().map(|line| fit(line)).collect();
    lines[0] = style.dim(&lines[0]);
    lines.extend(words::rest(report, &shown).map(|text| fit(&text)));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::escape;
    use crate::report::ranks::fixture;

    #[test]
    fn the_screen_is_as_agreed() {
        insta::assert_snapshot!("ranks_text", ranks_text(&fixture::job(64), Style::plain()));
    }

    #[test]
    fn a_thousand_ranks_fit_the_screen_and_the_odd_ones_are_on_it() {
        let text = ranks_text(&fixture::job(1_024), Style::plain());
        assert!(text.lines().count() <= 34, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        assert!(
            text.contains("Rank 3 has") && text.contains("leak.py:7 keep") && text.contains("1,004 more")
        );
        assert!(text.lines().any(|line| line.trim_start().starts_with("5  ") && line.contains("capacity")));
    }

    #[test]
    fn hostile_names_reach_the_terminal_as_text() {
        let text = ranks_text(&fixture::hostile(), Style::plain());
        assert!(!text.chars().any(|c| c != '\n' && escape::is_invisible(c)), "{text:?}");
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
    }
}
