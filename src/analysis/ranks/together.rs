//! All rows of a call side by side.
//!
//! Owns which files are one job and what is said about that. Sums over ranks are made only of what can be counted
//! together: files and events.

use crate::findings::RankFacts;
use crate::report::{RankFinding, RankRow, RanksReport, SeverityCounts, TraceReport};
use crate::units::Count;

use super::{failure, outliers, steps};

/// Missing ranks that are listed.
const MOST_MISSING: usize = 64;
/// Rules that look at several devices or several files.
const COMPARING: [&str; 2] = ["rank-imbalance", "foreign-device"];

/// The report over `rows`, which have these `facts` and `reports`, in the same order.
pub(super) fn together(mut rows: Vec<RankRow>, facts: &[RankFacts], reports: &[TraceReport]) -> RanksReport {
    let findings = findings(&rows, reports);
    for (row, report) in rows.iter_mut().zip(reports) {
        row.findings = counted(report);
    }
    // Outliers refer to facts by place, so they are sought before the rows are sorted.
    let outliers = outliers::outliers(&rows, facts);
    let world_size = world_size(facts);
    rows.sort_by_key(|row| (row.rank.is_none(), row.rank));
    let is_one_job = is_one_job(&rows, facts);
    let (median_peak, median_deviation) = outliers::middle(&rows);
    let (steps, steps_left_out) = steps::across(&rows);
    let mut report = RanksReport {
        ranks: rows.len() as u64,
        is_one_job,
        world_size,
        missing_ranks: missing(&rows, world_size.filter(|_| is_one_job)),
        failed_files: 0,
        events: rows.iter().fold(0, |sum, row| sum.saturating_add(row.events)),
        median_peak,
        median_deviation,
        failure: failure::failure(&rows),
        outliers,
        findings,
        rows,
        steps,
        steps_left_out,
        notes: Vec::new(),
    };
    report.notes = notes(&report);
    report
}

fn counted(report: &TraceReport) -> SeverityCounts {
    let of = |name: &str| report.findings.iter().filter(|finding| finding.severity == name).count() as u64;
    SeverityCounts { error: of("error"), warning: of("warning"), info: of("info") }
}

fn findings(rows: &[RankRow], reports: &[TraceReport]) -> Vec<RankFinding> {
    let of_rank = |(row, report): (&RankRow, &TraceReport)| -> Vec<RankFinding> {
        let found = report.findings.iter().filter(|finding| COMPARING.contains(&finding.rule.as_str()));
        found
            .map(|finding| RankFinding {
                rank: row.rank,
                path: row.path.clone(),
                rule: finding.rule.clone(),
                severity: finding.severity,
                title: finding.title.clone(),
                remedy: finding.remedy.clone(),
            })
            .collect()
    };
    let mut findings: Vec<RankFinding> = rows.iter().zip(reports).flat_map(of_rank).collect();
    findings.sort_by(|a, b| (&b.rule, a.rank).cmp(&(&a.rule, b.rank)));
    findings
}

/// The number of ranks, where all that say it agree.
fn world_size(facts: &[RankFacts]) -> Option<u64> {
    let mut sizes = facts.iter().filter_map(|rank| rank.world_size);
    let first = sizes.next()?;
    sizes.all(|size| size == first).then_some(first)
}

/// Every rank has a number of its own, and no two recordings state different numbers of ranks. `rows` are sorted.
fn is_one_job(rows: &[RankRow], facts: &[RankFacts]) -> bool {
    let is_distinct = rows.windows(2).all(|pair| pair[0].rank != pair[1].rank);
    let states_sizes = facts.iter().any(|rank| rank.world_size.is_some());
    rows.len() >= 2
        && rows.iter().all(|row| row.rank.is_some())
        && is_distinct
        && (!states_sizes || world_size(facts).is_some())
}

/// Ranks of the job without a file.
fn missing(rows: &[RankRow], world_size: Option<u64>) -> Vec<u64> {
    let Some(size) = world_size else { return Vec::new() };
    // `rows` are sorted by number.
    let is_there = |rank: &u64| rows.binary_search_by_key(&Some(*rank), |row| row.rank).is_ok();
    (0..size).filter(|rank| !is_there(rank)).take(MOST_MISSING).collect()
}

fn notes(report: &RanksReport) -> Vec<String> {
    let mut notes = Vec::new();
    let rows = &report.rows;
    let count = |is: &dyn Fn(&RankRow) -> bool| rows.iter().filter(|row| is(row)).count();
    let told = |number: usize| Count(number as u64).to_string();
    if !report.is_one_job {
        let unknown = count(&|row| row.rank.is_none());
        notes.push(match unknown {
            0 => "ranks are there twice, or the recordings state different numbers of ranks: these files are not one job"
                .to_owned(),
            _ => format!("{} files have no rank: --rank-from says where it stands in the path", told(unknown)),
        });
    }
    let missing = report.world_size.unwrap_or(0).saturating_sub(report.ranks);
    if missing > 0 && report.is_one_job {
        let first: Vec<String> = report.missing_ranks.iter().take(8).map(u64::to_string).collect();
        let more = if missing > first.len() as u64 { ", ..." } else { "" };
        notes.push(format!(
            "{} of {} ranks have no file: {}{more}",
            Count(missing),
            Count(report.world_size.unwrap_or(0)),
            first.join(", ")
        ));
    }
    let cut = count(&|row| !row.complete);
    if cut > 0 {
        notes.push(format!("{} recordings are not whole: their peaks may be too low", told(cut)));
    }
    let late = count(&|row| !row.from_the_start);
    if late > 0 {
        notes.push(format!("{} recordings begin late: an earlier peak is not seen", told(late)));
    }
    if report.outliers.len() * 4 > rows.len() && rows.len() >= 4 {
        notes.push(format!(
            "{} of {} ranks stand apart: they fall into groups, as the stages of a pipeline do",
            told(report.outliers.len()),
            told(rows.len())
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report_of(ranks: &[Option<u64>], world_size: Option<u64>) -> RanksReport {
        let rows: Vec<RankRow> = ranks
            .iter()
            .map(|&rank| RankRow {
                rank,
                events: 5,
                complete: true,
                from_the_start: true,
                ..RankRow::default()
            })
            .collect();
        let facts = vec![RankFacts { world_size, ..RankFacts::default() }; ranks.len()];
        together(rows, &facts, &[])
    }

    #[test]
    fn one_job_has_every_rank_once_and_says_who_is_missing() {
        let job = report_of(&[Some(2), Some(0)], Some(4));
        assert!(job.is_one_job);
        assert_eq!((job.events, job.missing_ranks.as_slice()), (10, &[1, 3][..]));
        assert_eq!(job.rows.iter().map(|row| row.rank).collect::<Vec<_>>(), [Some(0), Some(2)]);
        assert_eq!(job.notes, ["2 of 4 ranks have no file: 1, 3"]);
        assert!(report_of(&[Some(0), Some(1)], None).notes.is_empty());
    }

    #[test]
    fn what_is_no_job_is_said() {
        for ranks in [&[Some(1), Some(1)][..], &[Some(1), None], &[Some(1)]] {
            assert!(!report_of(ranks, None).is_one_job, "{ranks:?}");
        }
        assert!(report_of(&[Some(1), None], None).notes[0].contains("--rank-from"));
        assert!(report_of(&[Some(1), Some(1)], None).notes[0].contains("twice"));
    }
}
