//! From the ids of a file to the ids of a model's tables.
//!
//! Owns the map for each table. Usually the two are equal; they differ when a writer enters a text twice or
//! when a chunk of tables is lost. A gap costs nothing, however large the file says that it is.

use super::cursor::{Fault, Parse};

/// The ids of one table.
#[derive(Clone, Debug, Default)]
pub(super) struct IdMap {
    runs: Vec<Run>,
    next: u64,
    /// File ids below this are equal to the model's.
    identical: u64,
}

#[derive(Clone, Debug)]
struct Run {
    first: u64,
    ids: Vec<u32>,
}

impl IdMap {
    /// A map that knows id 0: the empty string, the empty stack, no pool.
    pub(super) fn with_zero() -> Self {
        let mut map = Self::default();
        map.push(0);
        map
    }

    /// Announces that the next id is `first`; answers how many ids are missing before it.
    pub(super) fn start(&mut self, first: u64) -> Parse<u64> {
        let missing = first.checked_sub(self.next).ok_or(Fault::Wrong("table ids that go back"))?;
        if missing > 0 {
            self.runs.push(Run { first, ids: Vec::new() });
            self.next = first;
        }
        Ok(missing)
    }

    /// The next id of the file is `id` in the model.
    pub(super) fn push(&mut self, id: u32) {
        if self.runs.is_empty() {
            self.runs.push(Run { first: 0, ids: Vec::new() });
        }
        if self.identical == self.next && u64::from(id) == self.next {
            self.identical += 1;
        }
        self.next += 1;
        if let Some(run) = self.runs.last_mut() {
            run.ids.push(id);
        }
    }

    /// The model's id, or `None` for one that no table of the file defines.
    pub(super) fn get(&self, id: u64) -> Option<u32> {
        if id < self.identical { Some(id as u32) } else { self.find(id) }
    }

    #[cold]
    fn find(&self, id: u64) -> Option<u32> {
        let after = self.runs.partition_point(|run| run.first <= id);
        let run = self.runs.get(after.checked_sub(1)?)?;
        run.ids.get(usize::try_from(id - run.first).ok()?).copied()
    }

    /// The model's id; 0, counted in `unknown`, for one that is not defined.
    pub(super) fn get_or_zero(&self, id: u64, unknown: &mut u64) -> u32 {
        self.get(id).unwrap_or_else(|| {
            *unknown += 1;
            0
        })
    }
}

/// The maps of all tables.
#[derive(Clone, Debug)]
pub(super) struct Ids {
    pub(super) strings: IdMap,
    pub(super) frames: IdMap,
    pub(super) stacks: IdMap,
    /// Pool number in the file to index plus one in the model.
    pub(super) pools: IdMap,
}

impl Default for Ids {
    fn default() -> Self {
        Self {
            strings: IdMap::with_zero(),
            frames: IdMap::default(),
            stacks: IdMap::with_zero(),
            pools: IdMap::with_zero(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_and_gaps_are_mapped() {
        let mut map = IdMap::with_zero();
        assert_eq!(map.start(1), Ok(0));
        map.push(1);
        map.push(1);
        map.push(2);
        assert_eq!(map.start(1 << 60), Ok((1 << 60) - 4));
        map.push(3);
        let found: Vec<_> = [0, 1, 2, 3, 4, 1 << 60, u64::MAX].map(|id| map.get(id)).into();
        assert_eq!(found, [Some(0), Some(1), Some(1), Some(2), None, Some(3), None]);
        assert!(map.start(5).is_err());
    }
}
