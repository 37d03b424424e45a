//! Ranks that stand apart, and the lines that make the difference.
//!
//! Owns when a rank is called an outlier: by the median and the median deviation, which a few odd ranks cannot move.
//! The rule `rank-imbalance` judges what is worth a warning; this only says who differs and where.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::findings::{DeviceFacts, LineBytes, RankFacts};
use crate::report::{Four, RankLine, RankOutlier, RankRow};

use super::median::{deviation, difference, median, median_with_zeros};
use super::row::main_device;

/// Median deviations from the median on: 3.5 standard deviations, were ranks spread normally.
const DEVIATIONS: f64 = 3.5 * 1.4826;
/// What differs by less than this share of the median is no difference: one in so many.
const LEAST_SHARE: u64 = 20;
/// Nor is less than this.
const LEAST_BYTES: u64 = 1 << 20;
/// A line that makes less than this part of the difference is not named: one in so many.
const LEAST_PART: u64 = 100;
/// Lines that are named.
const MOST_LINES: usize = 10;

type Counter = (&'static str, fn(&RankRow) -> u64);

/// In the order in which they are tried: what is allocated says most.
const COUNTERS: [Counter; 5] = [
    ("allocated", |row| row.peak.allocated_bytes),
    ("active", |row| row.peak.active_bytes),
    ("reserved", |row| row.peak.reserved_bytes),
    ("unused", |row| row.unused_at_peak_bytes),
    ("end", |row| row.end.allocated_bytes),
];

/// A rank's lines; the sum of all is the peak less what has no line.
type Lines = Vec<LineBytes>;
/// A line without its bytes.
type Place<'a> = (&'a str, u64, &'a str);

/// Median and median deviation of each counter's peaks.
pub(super) fn middle(rows: &[RankRow]) -> (Four<u64>, Four<u64>) {
    let of = |counter: fn(&Four<u64>) -> u64| {
        let values: Vec<u64> = rows.iter().map(|row| counter(&row.peak)).collect();
        let middle = median(&values);
        (middle, deviation(&values, middle))
    };
    let (requested, allocated) = (of(|four| four.requested_bytes), of(|four| four.allocated_bytes));
    let (active, reserved) = (of(|four| four.active_bytes), of(|four| four.reserved_bytes));
    let four = |requested, allocated, active, reserved| Four {
        requested_bytes: requested,
        allocated_bytes: allocated,
        active_bytes: active,
        reserved_bytes: reserved,
    };
    (
        four(requested.0, allocated.0, active.0, reserved.0),
        four(requested.1, allocated.1, active.1, reserved.1),
    )
}

/// The outliers among `rows`, which have these `facts`, in the same order; farthest from the median first.
pub(super) fn outliers(rows: &[RankRow], facts: &[RankFacts]) -> Vec<RankOutlier> {
    let mut found: BTreeMap<usize, RankOutlier> = BTreeMap::new();
    for (name, counter) in COUNTERS {
        let values: Vec<u64> = rows.iter().map(counter).collect();
        let middle = median(&values);
        let usual = deviation(&values, middle);
        for (place, &bytes) in values.iter().enumerate() {
            if !stands_apart(bytes, middle, usual) {
                continue;
            }
            let row = &rows[place];
            let outlier = found.entry(place).or_insert_with(|| RankOutlier {
                rank: row.rank,
                path: row.path.clone(),
                counter: name,
                bytes,
                median_bytes: middle,
                median_deviation_bytes: usual,
                difference_bytes: difference(bytes, middle),
                ..RankOutlier::default()
            });
            if outlier.counter != name {
                outlier.also.push(name);
            }
        }
    }
    for active in [false, true] {
        let at_peak: Vec<(&Lines, u64)> = facts.iter().map(|rank| lines_of(rank, active)).collect();
        let with = found.iter_mut().filter(|(_, outlier)| (outlier.counter == "active") == active);
        explain(with, &at_peak, facts.len());
    }
    let mut outliers: Vec<RankOutlier> = found.into_values().collect();
    outliers.sort_by_key(|outlier| Reverse(outlier.difference_bytes.unsigned_abs()));
    outliers
}

fn stands_apart(bytes: u64, median: u64, usual: u64) -> bool {
    let off = bytes.abs_diff(median);
    off >= LEAST_BYTES && off >= median / LEAST_SHARE && off as f64 > usual as f64 * DEVIATIONS
}

static NOTHING: Lines = Vec::new();

/// Lines of a rank's main device at its peak, and that peak.
fn lines_of(rank: &RankFacts, active: bool) -> (&Lines, u64) {
    let device: Option<&DeviceFacts> = main_device(&rank.devices).and_then(|place| rank.devices.get(place));
    let Some(device) = device else { return (&NOTHING, 0) };
    match &device.lines_at_active_peak {
        Some(lines) if active => (lines, device.peaks.active.bytes),
        _ => (&device.lines_at_peak, device.peaks.allocated.bytes),
    }
}

/// Names the lines of each outlier. A line that a rank does not have counts as nothing there.
fn explain<'a>(
    outliers: impl Iterator<Item = (&'a usize, &'a mut RankOutlier)>,
    ranks: &[(&Lines, u64)],
    count: usize,
) {
    let mut outliers = outliers.peekable();
    if outliers.peek().is_none() {
        return;
    }
    let mut by_line: BTreeMap<Place<'_>, Vec<u64>> = BTreeMap::new();
    for line in ranks.iter().flat_map(|rank| rank.0) {
        by_line.entry(place(line)).or_default().push(line.bytes);
    }
    let medians: BTreeMap<Place<'_>, u64> =
        by_line.into_iter().map(|(place, mut bytes)| (place, median_with_zeros(&mut bytes, count))).collect();
    let without_line = |rank: &(&Lines, u64)| {
        rank.1.saturating_sub(rank.0.iter().fold(0, |sum: u64, line| sum.saturating_add(line.bytes)))
    };
    let without: Vec<u64> = ranks.iter().map(without_line).collect();
    let middle_without = median(&without);
    for (&at, outlier) in outliers {
        outlier.no_line_difference_bytes = difference(without[at], middle_without);
        let up = outlier.difference_bytes >= 0;
        let least = outlier.difference_bytes.unsigned_abs() / LEAST_PART;
        let mut lines = differing(ranks[at].0, &medians, up);
        lines.retain(|line| line.difference_bytes.unsigned_abs() >= least);
        outlier.lines_left_out = lines.len().saturating_sub(MOST_LINES) as u64;
        lines.truncate(MOST_LINES);
        outlier.lines = lines;
    }
}

fn place(line: &LineBytes) -> Place<'_> {
    (&line.file, line.line, &line.function)
}

/// Lines with more (or less) than the median, most first.
fn differing(own: &Lines, medians: &BTreeMap<Place<'_>, u64>, up: bool) -> Vec<RankLine> {
    let own: BTreeMap<Place<'_>, u64> = own.iter().map(|line| (place(line), line.bytes)).collect();
    let mut lines: Vec<RankLine> = medians
        .iter()
        .map(|(&place, &median_bytes)| {
            let bytes = own.get(&place).copied().unwrap_or(0);
            let (file, line, function) = place;
            RankLine {
                file: file.to_owned(),
                line,
                function: function.to_owned(),
                bytes,
                median_bytes,
                difference_bytes: difference(bytes, median_bytes),
            }
        })
        .filter(|line| if up { line.difference_bytes > 0 } else { line.difference_bytes < 0 })
        .collect();
    lines.sort_by_key(|line| Reverse(line.difference_bytes.unsigned_abs()));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rebuild::{Moment, Peak};

    const MIB: u64 = 1 << 20;

    fn rank(number: u64, lines: &[(&str, u64)], unknown: u64) -> (RankRow, RankFacts) {
        let lines: Lines = lines
            .iter()
            .map(|&(file, mib)| LineBytes {
                file: file.to_owned(),
                line: 1,
                function: String::new(),
                bytes: mib * MIB,
            })
            .collect();
        let peak = lines.iter().map(|line| line.bytes).sum::<u64>() + unknown * MIB;
        let mut device = DeviceFacts { lines_at_peak: lines, ..DeviceFacts::default() };
        device.peaks.allocated = Peak { bytes: peak, moment: Moment(1) };
        let row = RankRow { rank: Some(number), ..RankRow::default() };
        let peaks =
            Four { allocated_bytes: peak, active_bytes: peak, reserved_bytes: 400 * MIB, ..Four::default() };
        let facts = RankFacts { rank: Some(number), devices: vec![device], ..RankFacts::default() };
        (RankRow { peak: peaks, ..row }, facts)
    }

    fn found(ranks: Vec<(RankRow, RankFacts)>) -> Vec<RankOutlier> {
        let (rows, facts): (Vec<_>, Vec<_>) = ranks.into_iter().unzip();
        outliers(&rows, &facts)
    }

    #[test]
    fn an_outlier_is_named_with_its_line_and_what_has_none() {
        let mut ranks: Vec<_> = (0..9).map(|n| rank(n, &[("a.py", 100), ("b.py", 50 + n % 2)], 1)).collect();
        ranks.push(rank(9, &[("a.py", 100), ("b.py", 20), ("leak.py", 90)], 6));
        let found = found(ranks);
        assert_eq!(found.len(), 1);
        let outlier = &found[0];
        assert_eq!(
            (outlier.rank, outlier.counter, outlier.also.as_slice()),
            (Some(9), "allocated", &["active"][..])
        );
        assert_eq!(outlier.lines.len(), 1, "b.py goes the other way");
        let line = &outlier.lines[0];
        assert_eq!((line.file.as_str(), line.median_bytes, line.difference_bytes), ("leak.py", 0, 90 << 20));
        assert_eq!(outlier.no_line_difference_bytes, 5 << 20);
    }

    #[test]
    fn a_rank_with_less_names_what_it_lacks() {
        let mut ranks: Vec<_> = (0..5).map(|n| rank(n, &[("a.py", 100), ("b.py", 50)], 0)).collect();
        ranks.push(rank(5, &[("b.py", 50)], 0));
        let found = found(ranks);
        assert_eq!((found[0].rank, found[0].difference_bytes), (Some(5), -100 << 20));
        assert_eq!((found[0].lines[0].file.as_str(), found[0].lines[0].bytes), ("a.py", 0));
    }

    #[test]
    fn ranks_that_differ_as_ranks_do_are_no_outliers() {
        assert!(found((0..8).map(|n| rank(n, &[("a.py", 100 + n)], 0)).collect()).is_empty());
        assert!(found(vec![rank(0, &[("a.py", 100)], 0)]).is_empty());
        let two = found(vec![rank(0, &[("a.py", 100)], 0), rank(1, &[("a.py", 150)], 0)]);
        assert_eq!(
            two.iter().map(|outlier| outlier.rank).collect::<Vec<_>>(),
            [Some(1)],
            "the lower is normal"
        );
    }
}
