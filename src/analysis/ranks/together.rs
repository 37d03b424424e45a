//! All rows of a job side by side.
//!
//! Owns what is said about ranks that are one job, and about files that are none. Sums over ranks are made only of what
//! can be counted together: files and events.

use crate::findings::RankFacts;
use crate::report::{FindingRow, Four, RankFinding, RankRow, RanksReport};
use crate::units::Count;

use super::{failure, outliers, steps};

/// Missing ranks that are listed.
const MOST_MISSING: usize = 64;

/// One file of those that are put side by side.
pub(super) struct Rank {
    pub(super) row: RankRow,
    pub(super) facts: RankFacts,
    /// What rules say of it that compare ranks or devices.
    pub(super) findings: Vec<FindingRow>,
}

/// What files are to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Ranks of one job.
    Job,
    /// All files of a call, among which there is no job.
    Files,
    /// What is left of a call with jobs.
    Rest,
}

/// The report over `ranks`. Files of different folders that are no job are listed and not compared: they may be of
/// different jobs.
pub(super) fn together(ranks: Vec<Rank>, side: Side) -> RanksReport {
    let findings = findings(&ranks);
    let (mut rows, mut facts) = (Vec::with_capacity(ranks.len()), Vec::with_capacity(ranks.len()));
    for rank in ranks {
        rows.push(rank.row);
        facts.push(rank.facts);
    }
    let is_one_job = side == Side::Job;
    let is_list = !is_one_job && facts.iter().any(|rank| rank.folder != facts[0].folder);
    // Outliers refer to facts by place, so they are sought before the rows are sorted.
    let outliers = if is_list { Vec::new() } else { outliers::outliers(&rows, &facts) };
    let world_size = world_size(&facts);
    drop(facts);
    rows.sort_by_key(|row| (row.rank.is_none(), row.rank));
    let (median_peak, median_deviation) =
        if is_list { (Four::default(), Four::default()) } else { outliers::middle(&rows) };
    let (steps, steps_left_out) = if is_list { (Vec::new(), 0) } else { steps::across(&rows) };
    let mut report = RanksReport {
        job: None,
        ranks: rows.len() as u64,
        is_one_job,
        is_list,
        world_size,
        missing_ranks: missing(&rows, world_size.filter(|_| is_one_job)),
        failed_files: 0,
        events: rows.iter().fold(0, |sum, row| sum.saturating_add(row.events)),
        median_peak,
        median_deviation,
        failure: if is_list { failure::apart(&rows) } else { failure::failure(&rows) },
        outliers,
        findings,
        rows,
        steps,
        steps_left_out,
        notes: Vec::new(),
    };
    report.notes = notes(&report, side);
    report
}

fn findings(ranks: &[Rank]) -> Vec<RankFinding> {
    let of_rank = |rank: &Rank| -> Vec<RankFinding> {
        let found = rank.findings.iter();
        found
            .map(|finding| RankFinding {
                rank: rank.row.rank,
                path: rank.row.path.clone(),
                rule: finding.rule.clone(),
                severity: finding.severity,
                title: finding.title.clone(),
                remedy: finding.remedy.clone(),
            })
            .collect()
    };
    let mut findings: Vec<RankFinding> = ranks.iter().flat_map(of_rank).collect();
    findings.sort_by(|a, b| (&b.rule, a.rank).cmp(&(&a.rule, b.rank)));
    findings
}

/// The number of ranks, where all that say it agree.
fn world_size(facts: &[RankFacts]) -> Option<u64> {
    let mut sizes = facts.iter().filter_map(|rank| rank.world_size);
    let first = sizes.next()?;
    sizes.all(|size| size == first).then_some(first)
}

/// Ranks of the job without a file.
fn missing(rows: &[RankRow], world_size: Option<u64>) -> Vec<u64> {
    let Some(size) = world_size else { return Vec::new() };
    // `rows` are sorted by number.
    let is_there = |rank: &u64| rows.binary_search_by_key(&Some(*rank), |row| row.rank).is_ok();
    (0..size).filter(|rank| !is_there(rank)).take(MOST_MISSING).collect()
}

fn notes(report: &RanksReport, side: Side) -> Vec<String> {
    let mut notes = Vec::new();
    let rows = &report.rows;
    let count = |is: &dyn Fn(&RankRow) -> bool| rows.iter().filter(|row| is(row)).count();
    let told = |number: usize| Count(number as u64).to_string();
    if !report.is_one_job {
        let unknown = count(&|row| row.rank.is_none());
        notes.push(match unknown {
            0 if side == Side::Rest && rows.len() == 1 => "1 file is in no job of two or more ranks".to_owned(),
            0 if side == Side::Rest => {
                format!("{} files are in no job of two or more ranks", told(rows.len()))
            }
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

    fn report_of(ranks: &[Option<u64>], world_size: Option<u64>, side: Side) -> RanksReport {
        let rank = |&rank: &Option<u64>| Rank {
            row: RankRow { rank, events: 5, complete: true, from_the_start: true, ..RankRow::default() },
            facts: RankFacts { world_size, ..RankFacts::default() },
            findings: Vec::new(),
        };
        together(ranks.iter().map(rank).collect(), side)
    }

    #[test]
    fn a_job_says_who_is_missing() {
        let job = report_of(&[Some(2), Some(0)], Some(4), Side::Job);
        assert!(job.is_one_job && !job.is_list);
        assert_eq!((job.events, job.missing_ranks.as_slice()), (10, &[1, 3][..]));
        assert_eq!(job.rows.iter().map(|row| row.rank).collect::<Vec<_>>(), [Some(0), Some(2)]);
        assert_eq!(job.notes, ["2 of 4 ranks have no file: 1, 3"]);
        assert!(report_of(&[Some(0), Some(1)], None, Side::Job).notes.is_empty());
    }

    #[test]
    fn what_is_no_job_is_said() {
        let first = |ranks: &[Option<u64>], side| report_of(ranks, None, side).notes.swap_remove(0);
        assert!(first(&[Some(1), None], Side::Files).contains("--rank-from"));
        assert!(first(&[Some(1), Some(1)], Side::Files).contains("twice"));
        assert_eq!(first(&[Some(1), Some(1)], Side::Rest), "2 files are in no job of two or more ranks");
    }

    #[test]
    fn files_of_different_folders_that_are_no_job_are_listed_only() {
        let rank = |folder: &str, bytes| Rank {
            row: RankRow { end: Four { allocated_bytes: bytes, ..Four::default() }, ..RankRow::default() },
            facts: RankFacts { folder: folder.to_owned(), ..RankFacts::default() },
            findings: Vec::new(),
        };
        let report = |other: &str| together(vec![rank("a", 1), rank(other, 1 << 30)], Side::Files);
        assert!(report("b").is_list && report("b").outliers.is_empty());
        assert!(!report("a").is_list && report("a").outliers.len() == 1);
    }
}
