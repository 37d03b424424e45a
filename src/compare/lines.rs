//! Lines that are the same, though their numbers moved.
//!
//! Owns the rule: the same file (see [`same_files`]) and function; within a function its lines keep their order,
//! and are told apart by the likeness of their stacks' text, of sizes and counts. A renamed function is another.

use std::collections::{BTreeMap, BTreeSet};

use super::align::align;
use super::files::same_files;
use super::fingerprint::Fingerprint;

/// A line as one recording knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineTraits {
    /// File as recorded.
    pub file: Option<String>,
    /// Line number.
    pub line: Option<u64>,
    /// Function.
    pub function: Option<String>,
    /// What it is known by besides.
    pub fingerprint: Fingerprint,
}

/// Indices of a line on both sides; one that only one side has stands alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinePair {
    /// Index in the lines before.
    pub before: Option<usize>,
    /// Index in the lines after.
    pub after: Option<usize>,
}

/// More pairs than this in one function are not tried: only lines of the same number are paired then.
const MOST_PAIRS: usize = 250_000;
/// What the same number is worth beside likeness: enough to decide between lines that are alike, too little to
/// hold a line where all others of its function moved.
const SAME_NUMBER: u64 = 10;
/// Likeness in units that leave room for the distance below it.
const UNIT: u64 = 100;

/// Lines of one function on both sides, by index.
type Group = [Vec<usize>; 2];

/// Every line of both sides once, paired where it is the same; swapping the sides turns every pair around.
/// Ascending by index before, lines that are only after last.
#[must_use]
pub fn match_lines(before: &[LineTraits], after: &[LineTraits]) -> Vec<LinePair> {
    let mut pairs = Vec::with_capacity(before.len().max(after.len()));
    for [left, right] in groups(before, after).into_values() {
        let mut alone: BTreeSet<usize> = left.iter().copied().collect();
        let mut new: BTreeSet<usize> = right.iter().copied().collect();
        for (one, other) in match_function(before, after, left, right) {
            alone.remove(&one);
            new.remove(&other);
            pairs.push(LinePair { before: Some(one), after: Some(other) });
        }
        pairs.extend(alone.into_iter().map(|one| LinePair { before: Some(one), after: None }));
        pairs.extend(new.into_iter().map(|other| LinePair { before: None, after: Some(other) }));
    }
    pairs.sort_unstable_by_key(|pair| (pair.before.is_none(), pair.before, pair.after));
    pairs
}

/// Lines by file and function. A file of the one side that the other does not have is told apart by the flag.
fn groups<'a>(
    before: &'a [LineTraits],
    after: &'a [LineTraits],
) -> BTreeMap<(bool, Option<&'a str>, Option<&'a str>), Group> {
    let files = |lines: &'a [LineTraits]| lines.iter().filter_map(|line| line.file.as_deref()).collect();
    let (files_before, files_after): (BTreeSet<&str>, BTreeSet<&str>) = (files(before), files(after));
    let same = same_files(&files_before, &files_after);
    let mut groups: BTreeMap<_, Group> = BTreeMap::new();
    for (index, line) in before.iter().enumerate() {
        let file = line.file.as_deref();
        let known = file.and_then(|file| same.get(file).copied());
        let is_gone = file.is_some() && known.is_none();
        groups.entry((is_gone, known.or(file), line.function.as_deref())).or_default()[0].push(index);
    }
    for (index, line) in after.iter().enumerate() {
        groups.entry((false, line.file.as_deref(), line.function.as_deref())).or_default()[1].push(index);
    }
    groups
}

fn match_function(
    before: &[LineTraits],
    after: &[LineTraits],
    mut left: Vec<usize>,
    mut right: Vec<usize>,
) -> Vec<(usize, usize)> {
    let order = |line: &LineTraits| (line.line, line.fingerprint.clone());
    left.sort_by_cached_key(|&index| order(&before[index]));
    right.sort_by_cached_key(|&index| order(&after[index]));
    let numbers_before = left.iter().map(|&index| before[index].line);
    if numbers_before.eq(right.iter().map(|&index| after[index].line)) {
        return left.into_iter().zip(right).collect();
    }
    if left.len().saturating_mul(right.len()) > MOST_PAIRS {
        return by_number(before, after, &left, &right);
    }
    // The smaller side always comes first, so that a tie falls alike in both directions.
    let traits = |lines: &[LineTraits], indices: &[usize]| {
        indices.iter().map(|&index| order(&lines[index])).collect::<Vec<_>>()
    };
    if traits(before, &left) <= traits(after, &right) {
        let score = |i: usize, j: usize| score(&before[left[i]], &after[right[j]]);
        align(left.len(), right.len(), score).into_iter().map(|(i, j)| (left[i], right[j])).collect()
    } else {
        let score = |j: usize, i: usize| score(&after[right[j]], &before[left[i]]);
        align(right.len(), left.len(), score).into_iter().map(|(j, i)| (left[i], right[j])).collect()
    }
}

/// Lines of the same number, each once.
fn by_number(
    before: &[LineTraits],
    after: &[LineTraits],
    left: &[usize],
    right: &[usize],
) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    let mut rest = right;
    for &one in left {
        let skipped = rest.iter().take_while(|&&other| after[other].line < before[one].line).count();
        rest = &rest[skipped..];
        if let [other, later @ ..] = rest
            && after[*other].line == before[one].line
        {
            pairs.push((one, *other));
            rest = later;
        }
    }
    pairs
}

/// What pairing the two is worth: likeness above all, then the same number, then a number nearby.
fn score(one: &LineTraits, other: &LineTraits) -> Option<u64> {
    let likeness = one.fingerprint.likeness(&other.fingerprint);
    let same_number = one.line == other.line;
    if !same_number && !likeness.is_enough {
        return None;
    }
    let distance = one.line.unwrap_or(0).abs_diff(other.line.unwrap_or(0)).min(UNIT - 1);
    let number = if same_number { SAME_NUMBER } else { 0 };
    Some((likeness.score + number) * UNIT + UNIT - distance)
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
