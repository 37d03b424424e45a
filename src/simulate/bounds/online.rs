//! Placing lives in time order, without foresight, into one range that grows at its end.

use std::collections::{BTreeMap, BTreeSet};

use super::Life;

/// Which hole a life goes into.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Choice {
    /// The smallest that holds it.
    #[default]
    Tightest,
    /// The one with the lowest address that holds it.
    Lowest,
}

/// Holes that may be looked at in all, when they are looked at one by one.
const BUDGET: u64 = 20_000_000;

/// Offsets of `lives`; `None` when it would take too long.
pub(super) fn place(lives: &[Life], choice: Choice) -> Option<Vec<u64>> {
    let mut ends: Vec<(u32, u32)> =
        lives.iter().enumerate().map(|(number, life)| (life.end, number as u32)).collect();
    ends.sort_unstable();
    let mut ends = ends.into_iter().peekable();
    let mut range = Range { choice, budget: BUDGET, ..Range::default() };
    let mut offsets = vec![0; lives.len()];
    for (number, life) in lives.iter().enumerate() {
        while let Some((_, ended)) = ends.next_if(|&(end, _)| end <= life.begin) {
            range.give_back(offsets[ended as usize], lives[ended as usize].room());
        }
        offsets[number] = range.take(life.room())?;
    }
    Some(offsets)
}

/// One range of memory: holes, and an end that can grow.
#[derive(Default)]
struct Range {
    choice: Choice,
    /// Offset to length.
    holes: BTreeMap<u64, u64>,
    /// (length, offset).
    by_length: BTreeSet<(u64, u64)>,
    end: u64,
    budget: u64,
}

impl Range {
    fn take(&mut self, bytes: u64) -> Option<u64> {
        let found = match self.choice {
            Choice::Tightest => {
                self.by_length.range((bytes, 0)..).next().map(|&(length, offset)| (offset, length))
            }
            Choice::Lowest => {
                self.budget = self.budget.checked_sub(self.holes.len() as u64)?;
                self.holes
                    .iter()
                    .find(|&(_, &length)| length >= bytes)
                    .map(|(&offset, &length)| (offset, length))
            }
        };
        // A hole at the end is extended.
        let last = self.holes.last_key_value().map(|(&offset, &length)| (offset, length));
        let (offset, length) = match (found, last) {
            (Some(found), _) => found,
            (None, Some((offset, length))) if offset.saturating_add(length) == self.end => {
                self.end = offset.saturating_add(bytes);
                (offset, length)
            }
            (None, _) => {
                let offset = self.end;
                self.end = self.end.saturating_add(bytes);
                return Some(offset);
            }
        };
        self.holes.remove(&offset);
        self.by_length.remove(&(length, offset));
        if length > bytes {
            self.add_hole(offset.saturating_add(bytes), length - bytes);
        }
        Some(offset)
    }

    fn give_back(&mut self, offset: u64, bytes: u64) {
        let (mut offset, mut bytes) = (offset, bytes);
        if let Some((&before, &length)) = self.holes.range(..offset).next_back()
            && before.saturating_add(length) == offset
        {
            self.remove_hole(before, length);
            (offset, bytes) = (before, bytes.saturating_add(length));
        }
        if let Some(&length) = self.holes.get(&offset.saturating_add(bytes)) {
            self.remove_hole(offset.saturating_add(bytes), length);
            bytes = bytes.saturating_add(length);
        }
        self.add_hole(offset, bytes);
    }

    fn add_hole(&mut self, offset: u64, length: u64) {
        self.holes.insert(offset, length);
        self.by_length.insert((length, offset));
    }

    fn remove_hole(&mut self, offset: u64, length: u64) {
        self.holes.remove(&offset);
        self.by_length.remove(&(length, offset));
    }
}
