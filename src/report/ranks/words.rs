//! What the screen, the Markdown page and the HTML page say of ranks in the same words.
//!
//! Owns sentences, columns and the choice of rows where not all fit. Returns raw text: whoever prints it escapes it.

use std::collections::BTreeSet;

use super::types::{RankOutlier, RankRow, RanksReport, rank_name};
use crate::report::told::line_label;
use crate::report::types::FindingLine;
use crate::units::{Bytes, Count, SignedBytes};

/// Names of the columns of [`cells`].
pub(super) const COLUMNS: [&str; 17] = [
    "rank",
    "device",
    "events",
    "whole",
    "requested",
    "allocated",
    "active",
    "reserved",
    "end",
    "unused at peak",
    "steps",
    "step peak median",
    "step peak max",
    "growth a step",
    "errors",
    "warnings",
    "out of memory",
];

/// One sentence on all ranks.
pub(super) fn headline(report: &RanksReport) -> String {
    let peaks = || report.rows.iter().map(|row| row.peak.allocated_bytes);
    let (lowest, highest) = (peaks().min().unwrap_or(0), peaks().max().unwrap_or(0));
    let what = if report.is_one_job { "ranks" } else { "files" };
    let job = report.job.as_ref().map(|job| format!("{job}: ")).unwrap_or_default();
    let median = if report.is_list {
        String::new()
    } else {
        format!(", median {}", Bytes(report.median_peak.allocated_bytes))
    };
    format!(
        "{job}{} {what}, {} events: allocated peaks from {} to {}{median}",
        Count(report.ranks),
        Count(report.events),
        Bytes(lowest),
        Bytes(highest)
    )
}

/// What a page over the ranks is called: `all ranks`, and of which job where there are several.
pub(super) fn title(report: &RanksReport) -> String {
    let of = report.job.as_ref().map(|job| format!(" of {job}")).unwrap_or_default();
    format!("all ranks{of}")
}

/// The name at the beginning of a sentence.
pub(super) fn capital_name(rank: Option<u64>, path: &str) -> String {
    rank.map_or_else(|| path.to_owned(), |rank| format!("Rank {rank}"))
}

/// How a rank stands apart.
pub(super) fn outlier(outlier: &RankOutlier) -> String {
    let (what, when) = match outlier.counter {
        "unused" => ("unused", "when reserved bytes peak"),
        "end" => ("allocated", "at the end"),
        counter => (counter, "at its peak"),
    };
    let size = Bytes(outlier.difference_bytes.unsigned_abs());
    let direction = if outlier.difference_bytes < 0 { "less" } else { "more" };
    format!(
        "{} has {size} {direction} {what} {when} than the median: {} against {}{}",
        capital_name(outlier.rank, &outlier.path),
        Bytes(outlier.bytes),
        Bytes(outlier.median_bytes),
        times(outlier.bytes, outlier.median_bytes)
    )
}

/// ` (1.97 times)`, where that is a figure.
fn times(bytes: u64, median: u64) -> String {
    if median == 0 {
        return String::new();
    }
    format!(" ({:.2} times)", bytes as f64 / median as f64)
}

/// The lines that make the difference, most first, at most `most`; then what has none.
pub(super) fn outlier_lines(outlier: &RankOutlier, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = (outlier.lines.iter().take(most))
        .map(|line| {
            let label = line_label(&FindingLine {
                file: line.file.clone(),
                line: line.line,
                function: line.function.clone(),
                bytes: line.bytes,
            });
            let (own, median) = (Bytes(line.bytes), Bytes(line.median_bytes));
            format!("{} at {label}: {own}, median {median}", SignedBytes(line.difference_bytes))
        })
        .collect();
    let left = outlier.lines.len().saturating_sub(most) as u64 + outlier.lines_left_out;
    if left > 0 {
        lines.push(format!("{} {} more", Count(left), if left == 1 { "line" } else { "lines" }));
    }
    if outlier.no_line_difference_bytes != 0 {
        lines.push(format!("{} without a line", SignedBytes(outlier.no_line_difference_bytes)));
    }
    lines
}

/// The figures of a row, in the order of [`COLUMNS`].
pub(super) fn cells(row: &RankRow) -> Vec<String> {
    let size = |bytes: u64| Bytes(bytes).to_string();
    let perhaps = |bytes: Option<u64>| bytes.map_or_else(|| "-".to_owned(), size);
    vec![
        row.rank.map_or_else(|| row.path.clone(), |rank| rank.to_string()),
        row.device.to_string(),
        Count(row.events).to_string(),
        if row.complete { "yes" } else { "no" }.to_owned(),
        size(row.peak.requested_bytes),
        size(row.peak.allocated_bytes),
        size(row.peak.active_bytes),
        size(row.peak.reserved_bytes),
        size(row.end.allocated_bytes),
        size(row.unused_at_peak_bytes),
        Count(row.steps.count).to_string(),
        perhaps(row.steps.peak_median_bytes),
        perhaps(row.steps.peak_max_bytes),
        growth(row),
        Count(row.findings.error).to_string(),
        Count(row.findings.warning).to_string(),
        oom(row),
    ]
}

fn growth(row: &RankRow) -> String {
    match &row.growth {
        None => "-".to_owned(),
        Some(growth) => match growth.bytes_per_step {
            Some(bytes) => SignedBytes(bytes).to_string(),
            None => Bytes(growth.bytes).to_string(),
        },
    }
}

/// Verdict and event of the first failure.
fn oom(row: &RankRow) -> String {
    let Some(oom) = &row.oom else { return "-".to_owned() };
    let step = oom.step.map(|step| format!(", step {}", Count(step))).unwrap_or_default();
    format!("{} at event {}{step}", oom.verdict, Count(oom.event))
}

/// At most `most` rows: who failed, who stands apart, then the extremes, then the first; in the order of the report.
pub(super) fn chosen(report: &RanksReport, most: usize) -> Vec<&RankRow> {
    let rows = &report.rows;
    let of_path = |path: &str| rows.iter().position(|row| row.path == path);
    let failed = report.failure.ranks.iter().filter_map(|rank| of_path(&rank.path));
    let apart = report.outliers.iter().filter_map(|rank| of_path(&rank.path));
    let figures: [fn(&RankRow) -> u64; 3] =
        [|row| row.peak.allocated_bytes, |row| row.peak.reserved_bytes, |row| row.unused_at_peak_bytes];
    let extremes = figures.into_iter().flat_map(|figure| {
        let highest = (0..rows.len()).rev().max_by_key(|&place| figure(&rows[place]));
        let lowest = (0..rows.len()).min_by_key(|&place| figure(&rows[place]));
        highest.into_iter().chain(lowest)
    });
    let mut kept = BTreeSet::new();
    for place in failed.chain(apart).chain(extremes).chain(0..rows.len()) {
        if kept.len() < most {
            kept.insert(place);
        }
    }
    kept.into_iter().map(|place| &rows[place]).collect()
}

/// Where the rest of the rows lies.
pub(super) fn rest(report: &RanksReport, shown: &[&RankRow]) -> Option<String> {
    let is_shown = |row: &RankRow| shown.iter().any(|other| std::ptr::eq(*other, row));
    let rest: Vec<u64> =
        (report.rows.iter().filter(|row| !is_shown(row))).map(|row| row.peak.allocated_bytes).collect();
    let (lowest, highest) = (rest.iter().min()?, rest.iter().max()?);
    Some(format!(
        "{} more {}: allocated peaks from {} to {}",
        Count(rest.len() as u64),
        if rest.len() == 1 { "rank" } else { "ranks" },
        Bytes(*lowest),
        Bytes(*highest)
    ))
}

/// Devices beside the main ones: whose they are.
pub(super) fn other_devices(report: &RanksReport) -> Vec<String> {
    let of_row = |row: &RankRow| -> Vec<String> {
        let name = rank_name(row.rank, &row.path);
        let told = |other: &super::types::OtherDevice| {
            let (reserved, allocated) = (Bytes(other.peak_reserved_bytes), Bytes(other.peak_allocated_bytes));
            format!(
                "{name} also holds device {}: {reserved} reserved, {allocated} allocated at most",
                other.device
            )
        };
        row.other_devices.iter().map(told).collect()
    };
    report.rows.iter().flat_map(of_row).collect()
}
