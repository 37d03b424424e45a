//! Who holds allocations, as the recorder's census says, for findings about what is kept.
//!
//! Owns putting holders that differ in an index alone (`history[0]`, `history[1]`) into one. A recording
//! without a census says nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::tables;

use super::Scene;

/// A holder of several allocations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeldBy {
    /// As the recorder says, with `[*]` for any index.
    pub(super) path: String,
    /// How many of the allocations it holds.
    pub(super) blocks: u64,
    /// Their bytes.
    pub(super) bytes: u64,
}

/// Who holds which allocation: rows of the history and paths. Empty without a census.
pub(super) fn holders<'a>(scene: &Scene<'a>) -> Vec<(usize, &'a str)> {
    if scene.trace.holders.is_empty() {
        return Vec::new();
    }
    let Some(names) = tables::names(scene.trace, scene.device, scene.history) else { return Vec::new() };
    let trace = scene.trace;
    let path = |row: &tables::HolderRow| trace.holders.get(row.holder).map(|holder| holder.path.as_str());
    let mut held: Vec<(usize, &str)> =
        names.holders.iter().filter_map(|row| Some((row.allocation?, path(row)?))).collect();
    held.sort_unstable();
    held
}

/// Who holds `rows`, most bytes first.
pub(super) fn held_by(scene: &Scene<'_>, holders: &[(usize, &str)], rows: &BTreeSet<usize>) -> Vec<HeldBy> {
    let mut sums: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for (row, path) in holders.iter().filter(|(row, _)| rows.contains(row)) {
        sums.entry(without_indices(path)).or_default().insert(*row);
    }
    let bytes = |rows: &BTreeSet<usize>| {
        rows.iter().fold(0u64, |sum, &row| sum.saturating_add(scene.history.allocations.block_bytes[row]))
    };
    let mut held: Vec<HeldBy> = sums
        .into_iter()
        .map(|(path, rows)| HeldBy { blocks: rows.len() as u64, bytes: bytes(&rows), path })
        .collect();
    held.sort_by_key(|held| std::cmp::Reverse(held.bytes));
    held
}

/// `CACHE.data[*]` of `CACHE.data[12]`.
fn without_indices(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('[') {
        text.push_str(&rest[..=at]);
        rest = &rest[at + 1..];
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if digits > 0 && rest[digits..].starts_with(']') {
            text.push('*');
            rest = &rest[digits..];
        }
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_any_index() {
        assert_eq!(without_indices("local history[12] in f()"), "local history[*] in f()");
        assert_eq!(without_indices("a[1][x2][3"), "a[*][x2][3");
        assert_eq!(without_indices("plain"), "plain");
    }
}
