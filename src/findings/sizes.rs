//! Multisets of sizes: how groups of allocations are told to be copies of each other.
//!
//! Owns the arithmetic on them. Sizes are requested bytes: what a tensor asks for does not depend on which
//! block served it.

use std::collections::BTreeMap;

use super::Scene;

/// How many allocations there are of each size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes(BTreeMap<u64, u64>);

impl Sizes {
    /// Requested sizes of `rows`.
    pub(super) fn of(scene: &Scene<'_>, rows: &[usize]) -> Self {
        let requested = &scene.history.allocations.requested_bytes;
        let mut sizes = Self::default();
        for &row in rows {
            sizes.add(requested[row], 1);
        }
        sizes
    }

    fn add(&mut self, size: u64, count: u64) {
        if count > 0 {
            let sum = self.0.entry(size).or_default();
            *sum = sum.saturating_add(count);
        }
    }

    /// How many of `size`.
    pub(super) fn count_of(&self, size: u64) -> u64 {
        self.0.get(&size).copied().unwrap_or(0)
    }

    /// How many in all.
    pub(super) fn count(&self) -> u64 {
        self.0.values().fold(0, |sum: u64, &count| sum.saturating_add(count))
    }

    /// Bytes of all.
    pub(super) fn bytes(&self) -> u64 {
        self.0.iter().fold(0, |sum: u64, (size, count)| sum.saturating_add(size.saturating_mul(*count)))
    }

    /// What both hold.
    pub(super) fn common(&self, other: &Self) -> Self {
        let mut common = Self::default();
        for (&size, &count) in &self.0 {
            common.add(size, count.min(other.count_of(size)));
        }
        common
    }

    /// What is left after `other`.
    pub(super) fn without(&self, other: &Self) -> Self {
        let mut rest = Self::default();
        for (&size, &count) in &self.0 {
            rest.add(size, count.saturating_sub(other.count_of(size)));
        }
        rest
    }

    /// One part of `parts` equal ones, rounded up where a count does not divide.
    pub(super) fn part(&self, parts: u64) -> Self {
        Self(self.0.iter().map(|(&size, count)| (size, count.div_ceil(parts.max(1)))).collect())
    }

    /// The largest set that is in here twice.
    pub(super) fn twice(&self) -> Self {
        let mut half = Self::default();
        for (&size, count) in &self.0 {
            half.add(size, count / 2);
        }
        half
    }

    /// As many, each half as large; odd sizes have no half and are left out.
    pub(super) fn halved(&self) -> Self {
        let mut halved = Self::default();
        for (&size, &count) in self.0.iter().filter(|(size, _)| *size % 2 == 0 && **size > 0) {
            halved.add(size / 2, count);
        }
        halved
    }

    /// As many, each twice as large.
    pub(super) fn doubled(&self) -> Self {
        let mut doubled = Self::default();
        for (&size, &count) in &self.0 {
            doubled.add(size.saturating_mul(2), count);
        }
        doubled
    }

    /// Both together.
    pub(super) fn with(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        for (&size, &count) in &other.0 {
            sum.add(size, count);
        }
        sum
    }

    /// `count` times each.
    pub(super) fn times(&self, count: u64) -> Self {
        Self(self.0.iter().map(|(&size, each)| (size, each.saturating_mul(count))).collect())
    }

    /// Those whose size occurs in `other`.
    pub(super) fn with_sizes_of(&self, other: &Self) -> Self {
        let known = self.0.iter().filter(|(size, _)| other.0.contains_key(size));
        Self(known.map(|(&size, &count)| (size, count)).collect())
    }

    /// Of `rows`, in their order, those that make up this set.
    pub(super) fn pick(&self, scene: &Scene<'_>, rows: &[usize]) -> Vec<usize> {
        let mut left = self.0.clone();
        let mut take = |row: &usize| {
            let size = scene.history.allocations.requested_bytes[*row];
            let Some(count) = left.get_mut(&size).filter(|count| **count > 0) else { return false };
            *count -= 1;
            true
        };
        rows.iter().copied().filter(|row| take(row)).collect()
    }
}

/// Whether `part` is at least `percent` of `whole`.
pub(super) fn is_share(part: u64, whole: u64, percent: u64) -> bool {
    u128::from(part) * 100 >= u128::from(whole) * u128::from(percent)
}

/// Whether `bytes` differs from `of` by at most a tenth of it.
pub(super) fn is_near(bytes: u64, of: u64) -> bool {
    of > 0 && u128::from(bytes.abs_diff(of)) * 10 <= u128::from(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(of: &[(u64, u64)]) -> Sizes {
        Sizes(of.iter().copied().collect())
    }

    #[test]
    fn sets_are_compared_with_their_counts() {
        let (a, b) = (sizes(&[(10, 3), (20, 1)]), sizes(&[(10, 2), (30, 5)]));
        assert_eq!(a.common(&b), sizes(&[(10, 2)]));
        assert_eq!(a.without(&b), sizes(&[(10, 1), (20, 1)]));
        assert_eq!(a.with_sizes_of(&b), sizes(&[(10, 3)]));
        assert_eq!((a.count(), a.bytes()), (4, 50));
        assert_eq!(a.part(2), sizes(&[(10, 2), (20, 1)]));
        assert_eq!(a.twice(), sizes(&[(10, 1)]));
        assert_eq!(sizes(&[(10, 3), (7, 1)]).halved(), sizes(&[(5, 3)]));
        assert_eq!(b.times(2), sizes(&[(10, 4), (30, 10)]));
        assert_eq!(b.doubled(), sizes(&[(20, 2), (60, 5)]));
        assert_eq!(a.with(&b), sizes(&[(10, 5), (20, 1), (30, 5)]));
    }

    #[test]
    fn sums_of_hostile_sizes_do_not_overflow() {
        assert_eq!(sizes(&[(u64::MAX, 9)]).bytes(), u64::MAX);
        assert_eq!(sizes(&[(1, u64::MAX), (2, 9)]).times(4).count(), u64::MAX);
        assert!(is_share(u64::MAX, u64::MAX, 100) && !is_share(1, u64::MAX, 1));
        assert!(is_near(u64::MAX, u64::MAX) && is_near(110, 100) && !is_near(111, 100) && !is_near(0, 0));
    }
}
