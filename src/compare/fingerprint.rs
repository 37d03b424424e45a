//! What a line is known by when its number has changed, and how alike two lines are.
//!
//! Owns the measure. It is the same in both directions and uses whole numbers only. What one side does not know
//! is left out of it.

/// What a line is known by. Fields that are not known are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fingerprint {
    /// The text of its stacks without line numbers, as hashes of neighbouring frames: ascending, each once.
    pub stacks: Option<Vec<u64>>,
    /// Sizes of its requests in bytes with how often each came, ascending.
    pub sizes: Option<Vec<(u64, u64)>>,
    /// Bytes of all its allocations.
    pub total_bytes: Option<u64>,
    /// Number of its allocations.
    pub allocations: Option<u64>,
}

/// How alike two lines are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Likeness {
    /// 0 to [`FULL`].
    pub(super) score: u64,
    /// Whether it is enough to take one for the other though their numbers differ.
    pub(super) is_enough: bool,
}

/// Nothing differs.
pub(super) const FULL: u64 = 1000;
/// Of the stacks' text so much must be shared: the callers alone are often a third of it.
const LEAST_OF_STACKS: u64 = 400;
/// Of sizes and counts, where no stacks are known.
const LEAST_OF_FIGURES: u64 = 500;

impl Fingerprint {
    /// How alike the two are.
    pub(super) fn likeness(&self, other: &Self) -> Likeness {
        let figures = self.likeness_of_figures(other);
        match (&self.stacks, &other.stacks) {
            (Some(mine), Some(theirs)) if !mine.is_empty() || !theirs.is_empty() => {
                let stacks = shared_permille(mine, theirs);
                let score = (6 * stacks + 4 * figures) / 10;
                Likeness { score, is_enough: stacks >= LEAST_OF_STACKS }
            }
            _ => Likeness { score: figures, is_enough: figures >= LEAST_OF_FIGURES },
        }
    }

    fn likeness_of_figures(&self, other: &Self) -> u64 {
        let counts = ratio(self.allocations, other.allocations);
        let sizes = match (&self.sizes, &other.sizes) {
            (Some(mine), Some(theirs)) => shared_sizes(mine, theirs),
            _ => ratio(self.mean_bytes(), other.mean_bytes()),
        };
        u64::midpoint(counts, sizes)
    }

    fn mean_bytes(&self) -> Option<u64> {
        self.total_bytes?.checked_div(self.allocations?)
    }
}

/// The smaller by the larger, in thousandths; unknown sides are like nothing, two unknown or empty ones alike.
fn ratio(one: Option<u64>, other: Option<u64>) -> u64 {
    let (one, other) = match (one, other) {
        (Some(one), Some(other)) => (one, other),
        (None, None) => return FULL,
        _ => return 0,
    };
    permille(one.min(other), one.max(other))
}

fn permille(part: u64, whole: u64) -> u64 {
    if whole == 0 { FULL } else { (u128::from(part) * u128::from(FULL) / u128::from(whole)) as u64 }
}

/// What both ascending lists have, of what either has.
fn shared_permille(one: &[u64], other: &[u64]) -> u64 {
    let shared = one.iter().filter(|hash| other.binary_search(hash).is_ok()).count() as u64;
    permille(shared, (one.len() + other.len()) as u64 - shared)
}

/// Requests of the same size, of all requests of the side that has more of that size.
fn shared_sizes(one: &[(u64, u64)], other: &[(u64, u64)]) -> u64 {
    let count_in = |sizes: &[(u64, u64)], size: u64| {
        sizes.binary_search_by_key(&size, |&(size, _)| size).map_or(0, |at| sizes[at].1)
    };
    let (mut shared, mut all) = (0u64, 0u64);
    for &(size, count) in one {
        let theirs = count_in(other, size);
        shared = shared.saturating_add(count.min(theirs));
        all = all.saturating_add(count.max(theirs));
    }
    for &(_, count) in other.iter().filter(|&&(size, _)| count_in(one, size) == 0) {
        all = all.saturating_add(count);
    }
    permille(shared, all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(stacks: &[u64], sizes: &[(u64, u64)]) -> Fingerprint {
        let count = sizes.iter().map(|&(_, count)| count).sum();
        let total = sizes.iter().map(|&(size, count)| size * count).sum();
        Fingerprint {
            stacks: Some(stacks.to_vec()),
            sizes: Some(sizes.to_vec()),
            total_bytes: Some(total),
            allocations: Some(count),
        }
    }

    #[test]
    fn the_same_is_fully_alike_and_the_other_way_round_as_well() {
        let line = print(&[1, 5, 9], &[(512, 2), (1024, 1)]);
        assert_eq!(line.likeness(&line), Likeness { score: FULL, is_enough: true });
        let other = print(&[1, 5, 7], &[(512, 1), (4096, 3)]);
        assert_eq!(line.likeness(&other), other.likeness(&line));
        // 2 of 4 hashes; 1 of 6 requests (at most 2 + 1 + 3); 3 of 4 allocations.
        assert_eq!(line.likeness(&other).score, (6 * 500 + 4 * 458) / 10);
    }

    #[test]
    fn other_stacks_are_another_line_whatever_the_sizes() {
        let one = print(&[1, 2], &[(512, 2)]);
        assert!(!one.likeness(&print(&[3, 4], &[(512, 2)])).is_enough);
        assert!(one.likeness(&print(&[1, 2], &[(1 << 20, 90)])).is_enough, "a larger batch");
    }

    #[test]
    fn without_stacks_the_figures_decide() {
        let plain = |total, count| Fingerprint {
            total_bytes: Some(total),
            allocations: Some(count),
            ..Fingerprint::default()
        };
        assert_eq!(plain(100, 10).likeness(&plain(100, 10)).score, FULL);
        assert!(plain(100, 10).likeness(&plain(200, 20)).is_enough, "the same sizes twice as often");
        assert!(!plain(100, 10).likeness(&plain(9_000, 90)).is_enough);
        assert!(plain(0, 0).likeness(&plain(0, 0)).is_enough);
        assert!(plain(u64::MAX, 1).likeness(&plain(u64::MAX, u64::MAX)).score < FULL);
    }
}
