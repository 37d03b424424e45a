//! Medians over ranks, and the lines by which one rank differs from the others.

use std::collections::BTreeMap;

use crate::findings::LineBytes;

use super::Rank;

/// The median; the mean of the two in the middle, but of two values the lower: one of them is what is normal.
pub(super) fn median(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0,
        1 | 2 => sorted[0],
        length if length % 2 == 1 => sorted[middle],
        _ => sorted[middle - 1].midpoint(sorted[middle]),
    }
}

/// A line without its bytes.
pub(super) type Place<'a> = (&'a str, u64, &'a str);

pub(super) fn place(line: &LineBytes) -> Place<'_> {
    (&line.file, line.line, &line.function)
}

/// Lines of rank `at` by what they hold more (or less) than the median of the others, most first.
pub(super) fn line_differences(job: &[Rank<'_>], at: usize, active: bool, more: bool) -> Vec<LineBytes> {
    let mut by_line: BTreeMap<Place<'_>, Vec<u64>> = BTreeMap::new();
    for (index, rank) in job.iter().enumerate() {
        let device = rank.device;
        let lines = match &device.lines_at_active_peak {
            Some(lines) if active => lines,
            _ => &device.lines_at_peak,
        };
        for line in lines {
            by_line.entry(place(line)).or_insert_with(|| vec![0; job.len()])[index] = line.bytes;
        }
    }
    let mut lines: Vec<LineBytes> = by_line
        .into_iter()
        .filter_map(|((file, line, function), mut bytes)| {
            let own = bytes.swap_remove(at);
            let others = median(&bytes);
            let bytes = if more { own.saturating_sub(others) } else { others.saturating_sub(own) };
            let line = LineBytes { file: file.to_owned(), line, function: function.to_owned(), bytes };
            (bytes > 0).then_some(line)
        })
        .collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.bytes));
    lines
}
