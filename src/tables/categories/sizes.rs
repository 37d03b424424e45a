//! Sizes that belong together: a parameter, its gradient and its optimizer state are equally large.
//!
//! Owns counting by size. A size is the request rounded up to whole blocks of 512 bytes, so that a block that
//! got a rest on top still matches.

use std::collections::BTreeMap;

use crate::rebuild::{Allocations, MIN_BLOCK_BYTES};

/// The size of allocation `row` for the sake of comparison.
pub(super) fn size_of(rows: &Allocations, row: u32) -> u64 {
    let requested = rows.requested_bytes[row as usize].max(1);
    requested.div_ceil(MIN_BLOCK_BYTES).saturating_mul(MIN_BLOCK_BYTES)
}

/// How many there are of each size.
#[derive(Clone, Debug, Default)]
pub(super) struct Sizes(BTreeMap<u64, u32>);

impl Sizes {
    pub(super) fn add(&mut self, size: u64) {
        *self.0.entry(size).or_default() += 1;
    }

    pub(super) fn count(&self, size: u64) -> u32 {
        self.0.get(&size).copied().unwrap_or(0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keeps the larger count of each size.
    pub(super) fn widen(&mut self, other: &Self) {
        for (&size, &count) in &other.0 {
            let most = self.0.entry(size).or_default();
            *most = (*most).max(count);
        }
    }

    /// Takes one of `size`, if there is one.
    pub(super) fn take(&mut self, size: u64) -> bool {
        match self.0.get_mut(&size).filter(|count| **count > 0) {
            Some(count) => {
                *count -= 1;
                true
            }
            None => false,
        }
    }

    /// How many parameters of each size these states belong to: half as many where every count is even (an Adam
    /// keeps two of each), a third where three divides all; rather too few than too many.
    pub(super) fn per_parameter(&self) -> Self {
        let divides = |share: u32| self.0.values().all(|count| count % share == 0);
        let share = [2, 3].into_iter().find(|&share| divides(share)).unwrap_or(1);
        Self(self.0.iter().map(|(&size, &count)| (size, count / share)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(counts: &[(u64, u32)]) -> Sizes {
        Sizes(counts.iter().copied().collect())
    }

    #[test]
    fn states_are_shared_out_to_parameters() {
        assert_eq!(sizes(&[(512, 2), (1024, 4)]).per_parameter().0, sizes(&[(512, 1), (1024, 2)]).0);
        assert_eq!(sizes(&[(512, 3), (1024, 3)]).per_parameter().0, sizes(&[(512, 1), (1024, 1)]).0);
        assert_eq!(sizes(&[(512, 1), (1024, 4)]).per_parameter().0, sizes(&[(512, 1), (1024, 4)]).0);
    }

    #[test]
    fn the_widest_pass_counts() {
        let mut most = sizes(&[(512, 2)]);
        most.widen(&sizes(&[(512, 1), (1024, 3)]));
        assert_eq!((most.count(512), most.count(1024), most.count(7)), (2, 3, 0));
        assert!(most.take(512) && most.take(512) && !most.take(512) && !most.take(9));
    }

    #[test]
    fn a_size_is_the_request_in_whole_blocks() {
        let rows = Allocations { requested_bytes: vec![0, 1, 512, 513, u64::MAX], ..Allocations::default() };
        let found: Vec<u64> = (0..5).map(|row| size_of(&rows, row)).collect();
        assert_eq!(found, [512, 512, 512, 1024, u64::MAX]);
    }
}
