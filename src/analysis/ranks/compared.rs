//! The files of one call side by side: what is kept of each, what the rules over all of them find, and their jobs.
//!
//! Owns what outlives a file's own report, and where a finding over several files is put into it. Which files are one
//! job is `findings`', what is said of one is [`super::together`]'s.

use std::collections::{BTreeMap, BTreeSet};

use crate::findings::{self, RankFacts, Severity};
use crate::report::html::blob::PageDevice;
use crate::report::{FindingRow, RankRow, RanksReport, SeverityCounts, TraceReport};

use super::named::{job_folder, job_name};
use super::together::{Rank, Side, together};
use crate::analysis::findings::row;

/// Rules that look at several devices or several files.
const COMPARING: [&str; 2] = ["rank-imbalance", "foreign-device"];

/// A report with what comparisons with other files need.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// The report.
    pub report: TraceReport,
    /// Plain figures of each device.
    pub facts: RankFacts,
    /// Its devices packed for a page, in the order of the report; none without [`crate::analysis::Options::page`].
    pub pages: Vec<PageDevice>,
    /// Its row in the table of ranks; none unless [`crate::analysis::Options::several_files`].
    pub row: Option<RankRow>,
}

impl Analysis {
    /// Says which rank it is, whatever the recording and the file's name say.
    pub fn name_rank(&mut self, rank: u64) {
        self.facts.rank = Some(rank);
        if let Some(row) = &mut self.row {
            row.rank = Some(rank);
        }
    }

    /// Parts the report and its pages from what comparisons need; that is small, and is all that a call with many
    /// files keeps of each.
    #[must_use]
    pub fn parted(self) -> (TraceReport, Vec<PageDevice>, Kept) {
        let Self { report, facts, pages, mut row } = self;
        if let Some(row) = &mut row {
            row.findings = counted(&report);
        }
        let compares = |finding: &&FindingRow| COMPARING.contains(&finding.rule.as_str());
        let findings = report.findings.iter().filter(compares).cloned().collect();
        (report, pages, Kept { facts, row, findings })
    }
}

/// What comparisons with other files need of one.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    facts: RankFacts,
    row: Option<RankRow>,
    /// Those of the rules that compare devices.
    findings: Vec<FindingRow>,
}

impl Kept {
    /// The path of the file, as given.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.facts.path
    }

    /// Events of the file.
    #[must_use]
    pub fn events(&self) -> Option<u64> {
        self.row.as_ref().map(|row| row.events)
    }
}

/// What several files give together.
#[derive(Clone, Debug, Default)]
pub struct Compared {
    /// What the rules over several files found, with the place of the file under which it stands.
    pub found: Vec<(usize, FindingRow)>,
    /// All files as ranks of one job, where they are; else those that are in none of `jobs`. None of fewer than two
    /// files.
    pub ranks: Option<RanksReport>,
    /// Where the files are not one job: each job of two or more ranks among them, under its own name, in the order of
    /// the call.
    pub jobs: Vec<RanksReport>,
}

/// Puts `files` side by side; `failed` are the paths of those that could not be analysed.
#[must_use]
pub fn compared(files: Vec<Kept>, failed: &[String]) -> Compared {
    let (mut facts, mut rows, mut own) = (Vec::new(), Vec::new(), Vec::new());
    let count = files.len();
    for file in files {
        facts.push(file.facts);
        rows.extend(file.row);
        own.push(file.findings);
    }
    let found: Vec<(usize, FindingRow)> =
        findings::of_ranks(&facts).into_iter().map(|(file, finding)| (file, row(finding))).collect();
    if rows.len() < 2 || rows.len() < count {
        return Compared { found, ..Compared::default() };
    }
    for (file, finding) in &found {
        add_to(&mut rows[*file].findings, finding);
        put(&mut own[*file], finding.clone());
    }
    let groups = findings::jobs(&facts);
    let mut ranks: Vec<Option<Rank>> = rows
        .into_iter()
        .zip(facts)
        .zip(own)
        .map(|((row, facts), findings)| Some(Rank { row, facts, findings }))
        .collect();
    if groups.iter().any(|group| group.len() == count) {
        let mut all = together(ranks.into_iter().flatten().collect(), Side::Job);
        all.failed_files = failed.len() as u64;
        return Compared { found, ranks: Some(all), jobs: Vec::new() };
    }
    let (mut jobs, mut folders) = (Vec::new(), BTreeSet::new());
    for group in groups {
        let job: Vec<Rank> = group.into_iter().filter_map(|place| ranks[place].take()).collect();
        let of_job: BTreeSet<String> = job.iter().map(|rank| rank.facts.folder.clone()).collect();
        let name = Name::of(&job[0].facts);
        let mut report = together(job, Side::Job);
        report.failed_files = failed.iter().filter(|path| of_job.contains(job_folder(path))).count() as u64;
        folders.extend(of_job);
        jobs.push((name, report));
    }
    let rest: Vec<Rank> = ranks.into_iter().flatten().collect();
    let side = if jobs.is_empty() { Side::Files } else { Side::Rest };
    let ranks = (!rest.is_empty()).then(|| {
        let mut report = together(rest, side);
        report.failed_files = failed.iter().filter(|path| !folders.contains(job_folder(path))).count() as u64;
        report
    });
    Compared { found, ranks, jobs: named(jobs) }
}

/// What a job may be called, from short to long.
struct Name([String; 3]);

impl Name {
    fn of(first: &RankFacts) -> Self {
        Self([job_name(&first.path), first.folder.clone(), first.job.clone()])
    }
}

/// The jobs under the shortest of their names that tell all of them apart; numbered where none does.
fn named(jobs: Vec<(Name, RanksReport)>) -> Vec<RanksReport> {
    let all = |length: usize| jobs.iter().map(|(name, _)| name.0[length].as_str()).collect::<BTreeSet<_>>();
    let length = (0..3).find(|&length| all(length).len() == jobs.len());
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut name = |names: Name| {
        let name = names.0.into_iter().nth(length.unwrap_or(0)).unwrap_or_default();
        let number = seen.entry(name.clone()).or_default();
        *number += 1;
        if *number == 1 { name } else { format!("{name} ({number})") }
    };
    jobs.into_iter().map(|(names, report)| RanksReport { job: Some(name(names)), ..report }).collect()
}

/// Adds to a report what a rule over several files found: behind what is as serious.
pub fn put_finding(report: &mut TraceReport, found: FindingRow) {
    put(&mut report.findings, found);
}

fn put(findings: &mut Vec<FindingRow>, found: FindingRow) {
    let at = findings.partition_point(|other| severity(other.severity) <= severity(found.severity));
    findings.insert(at, found);
}

fn severity(name: &str) -> Severity {
    let all = [Severity::Error, Severity::Warning];
    all.into_iter().find(|severity| severity.name() == name).unwrap_or(Severity::Info)
}

fn counted(report: &TraceReport) -> SeverityCounts {
    let mut counts = SeverityCounts::default();
    for finding in &report.findings {
        add_to(&mut counts, finding);
    }
    counts
}

fn add_to(counts: &mut SeverityCounts, finding: &FindingRow) {
    match severity(finding.severity) {
        Severity::Error => counts.error += 1,
        Severity::Warning => counts.warning += 1,
        Severity::Info => counts.info += 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(path: &str, rank: Option<u64>) -> Kept {
        let facts = RankFacts {
            path: path.to_owned(),
            folder: job_folder(path).to_owned(),
            job: path.to_owned(),
            rank,
            ..RankFacts::default()
        };
        let row = RankRow { rank, path: path.to_owned(), events: 5, ..RankRow::default() };
        Kept { facts, row: Some(row), findings: Vec::new() }
    }

    #[test]
    fn jobs_of_one_call_have_a_report_each_and_what_is_left_one_of_its_own() {
        let files =
            ["7/rank0.pickle", "7/rank1.pickle", "8/rank0.pickle", "8/rank1.pickle", "9/rank0.pickle"];
        let ranks = [0, 1, 0, 1, 0];
        let files = files.iter().zip(ranks).map(|(path, rank)| kept(path, Some(rank))).collect();
        let failed = ["8/rank2.pickle", "x.pickle"].map(str::to_owned);
        let found = compared(files, &failed);
        let told: Vec<_> =
            found.jobs.iter().map(|job| (job.job.as_deref(), job.ranks, job.failed_files)).collect();
        assert_eq!(told, [(Some("7"), 2, 0), (Some("8"), 2, 1)]);
        assert!(found.jobs.iter().all(|job| job.is_one_job && job.events == 10));
        let rest = found.ranks.unwrap_or_default();
        assert_eq!((rest.ranks, rest.is_one_job, rest.failed_files), (1, false, 1));
    }

    #[test]
    fn jobs_with_the_same_folder_name_are_called_by_what_tells_them_apart() {
        let names = |paths: [&str; 4]| -> Vec<_> {
            let files = paths.iter().zip([0, 1, 0, 1]).map(|(path, rank)| kept(path, Some(rank))).collect();
            compared(files, &[]).jobs.into_iter().filter_map(|job| job.job).collect()
        };
        assert_eq!(names(["a/x/rank0", "a/x/rank1", "b/x/rank0", "b/x/rank1"]), ["a/x", "b/x"]);
        assert_eq!(names(["a/x/rank0", "a/x/rank1", "a/y/rank0", "a/y/rank1"]), ["x", "y"]);
    }

    #[test]
    fn a_single_file_and_files_without_rows_are_not_compared() {
        assert!(compared(vec![kept("rank0", Some(0))], &[]).ranks.is_none());
        assert!(compared(vec![Kept::default(), Kept::default()], &[]).ranks.is_none());
        let no_job = compared(vec![kept("a", None), kept("b", None)], &[]);
        assert!(no_job.jobs.is_empty() && no_job.ranks.is_some_and(|files| !files.is_one_job));
    }
}
