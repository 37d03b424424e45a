//! `ranks.md`: the ranks of a job for a ticket.

use super::types::RanksReport;
use super::words;
use crate::report::escape::{keep_end, keep_start, markdown_code, markdown_text};
use crate::units::{Bytes, Count};

/// Rows of the table of ranks; the JSON has all.
const MOST_RANKS: usize = 256;
/// Rows of every other list.
const MOST_ROWS: usize = 60;
const MOST_LINES: usize = 10;
const LONGEST: usize = 600;

/// The ranks as a Markdown page. `picture` names the picture beside it, where there is one.
#[must_use]
pub fn ranks_markdown(report: &RanksReport, tool: &str, picture: Option<&str>) -> String {
    let mut parts = vec![
        format!("# CUDA memory of {}", prose(&words::title(report))),
        format!("**{}.**", prose(&words::headline(report))),
        format!("{}.", prose(&report.failure.sentence)),
    ];
    parts.extend(list(&report.notes.iter().map(|note| format!("Mind: {note}.")).collect::<Vec<_>>()));
    parts.extend(picture.map(|name| format!("![Reserved bytes of all ranks]({name})")));
    parts.push("## Who stands apart".to_owned());
    parts.push(outliers(report));
    let findings: Vec<String> = (report.findings.iter())
        .map(|finding| format!("`{}`: {}. {}", finding.rule, finding.title, finding.remedy))
        .collect();
    parts.extend(list(&findings));
    if report.failure.ranks.len() > 1 {
        parts.push("## Who ran out of memory".to_owned());
        parts.push(failed(report));
    }
    parts.push("## Ranks".to_owned());
    parts.extend(ranks(report));
    parts.extend(list(&words::other_devices(report)));
    if !report.steps.is_empty() {
        parts.push("## Steps".to_owned());
        parts.push(steps(report));
    }
    parts.push(format!("Made by {}.", prose(tool)));
    parts.join("\n\n") + "\n"
}

fn prose(text: &str) -> String {
    markdown_text(&keep_start(text, LONGEST))
}

fn list(rows: &[String]) -> Option<String> {
    let mut items: Vec<_> = rows.iter().take(MOST_ROWS).map(|row| format!("- {}", prose(row))).collect();
    items.extend(more(rows.len(), MOST_ROWS).map(|more| format!("- {more}")));
    (!items.is_empty()).then(|| items.join("\n"))
}

fn more(all: usize, most: usize) -> Option<String> {
    let left = all.saturating_sub(most) as u64;
    (left > 0).then(|| format!("{} more: see the JSON", Count(left)))
}

fn outliers(report: &RanksReport) -> String {
    if report.outliers.is_empty() {
        return "No rank does.".to_owned();
    }
    let mut items = Vec::new();
    for outlier in report.outliers.iter().take(MOST_ROWS) {
        items.push(format!("- {}", prose(&words::outlier(outlier))));
        let lines = words::outlier_lines(outlier, MOST_LINES);
        items.extend(lines.iter().map(|line| format!("  - {}", prose(line))));
    }
    items.extend(more(report.outliers.len(), MOST_ROWS).map(|more| format!("- {more}")));
    items.join("\n")
}

fn row(cells: &[String]) -> String {
    format!("| {} |", cells.join(" | "))
}

fn table(heads: &[&str], words: usize, rows: Vec<Vec<String>>) -> String {
    let heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
    let marks: Vec<String> = (0..heads.len())
        .map(|place| if place + words < heads.len() { "--:" } else { "---" }.to_owned())
        .collect();
    let rows = rows.iter().map(|cells| row(cells));
    [row(&heads), row(&marks)].into_iter().chain(rows).collect::<Vec<_>>().join("\n")
}

fn failed(report: &RanksReport) -> String {
    let rows = report.failure.ranks.iter().take(MOST_ROWS).map(|rank| {
        let after = rank.after_first_us.map_or_else(|| "-".to_owned(), crate::units::duration_us);
        vec![
            rank.rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string()),
            after,
            rank.oom.step.map_or_else(|| "-".to_owned(), |step| Count(step).to_string()),
            Bytes(rank.oom.requested_bytes).to_string(),
            prose(&rank.oom.verdict),
            markdown_code(&keep_end(rank.oom.line.as_deref().unwrap_or(""), LONGEST)),
        ]
    });
    let mut text =
        table(&["rank", "after the first", "steps over", "asked", "verdict", "line"], 2, rows.collect());
    text.extend(more(report.failure.ranks.len(), MOST_ROWS).map(|more| format!("\n\n{more}")));
    text
}

fn ranks(report: &RanksReport) -> Vec<String> {
    let shown = words::chosen(report, MOST_RANKS);
    let mut heads = words::COLUMNS.to_vec();
    heads.push("file");
    let rows = shown.iter().map(|row| {
        let mut cells: Vec<String> = words::cells(row).iter().map(|cell| prose(cell)).collect();
        cells.push(markdown_code(&keep_end(&row.path, LONGEST)));
        cells
    });
    let mut parts = vec![table(&heads, 2, rows.collect())];
    parts.extend(words::rest(report, &shown).map(|text| prose(&text)));
    parts
}

fn steps(report: &RanksReport) -> String {
    let rows = report.steps.iter().take(MOST_ROWS).map(|step| {
        let size = |bytes: u64| Bytes(bytes).to_string();
        vec![
            Count(step.step).to_string(),
            Count(step.ranks).to_string(),
            size(step.min_bytes),
            size(step.median_bytes),
            size(step.max_bytes),
            step.max_rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string()),
        ]
    });
    let heads = ["step", "ranks", "lowest peak", "median", "highest", "of rank"];
    let mut text = table(&heads, 0, rows.collect());
    let all = report.steps.len() + report.steps_left_out as usize;
    text.extend(more(all, MOST_ROWS).map(|more| format!("\n\n{more}")));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::escape;
    use crate::report::ranks::fixture;

    #[test]
    fn the_page_is_as_agreed() {
        insta::assert_snapshot!(
            "ranks_markdown",
            ranks_markdown(&fixture::job(6), "memlab", Some("ranks.svg"))
        );
    }

    #[test]
    fn hostile_names_are_text_and_tables_stay_tables() {
        let page = ranks_markdown(&fixture::hostile(), "memlab", None);
        assert!(!page.contains("<b>") && !page.contains("<script"), "{page}");
        assert!(!page.chars().any(|c| c != '\n' && escape::is_invisible(c)), "{page:?}");
        let head = page.lines().find(|line| line.starts_with("| rank | device")).map_or(0, bars);
        let rows = page.lines().filter(|line| line.starts_with("| job") || line.starts_with("| <code>"));
        assert!(head > 0 && rows.into_iter().all(|row| bars(row) == head), "{page}");
    }

    fn bars(line: &str) -> usize {
        line.replace("\\|", "").matches('|').count()
    }

    #[test]
    fn very_many_ranks_are_counted() {
        let page = ranks_markdown(&fixture::job(2_000), "memlab", None);
        assert!(page.contains("1,744 more ranks") && page.len() < 200_000, "{}", page.len());
    }
}
