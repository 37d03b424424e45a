//! The stack table: every distinct sequence of frames once, by number. Innermost frame first, as PyTorch
//! writes it.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use super::FrameId;

/// A stack in the trace's [`StackTable`]. Zero is the empty stack: none was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct StackId(pub u32);

impl StackId {
    /// No stack was recorded.
    pub const NONE: Self = Self(0);
}

/// Distinct stacks: one flat frame list plus end offsets.
#[derive(Clone, Debug)]
pub struct StackTable {
    frames: Vec<FrameId>,
    ends: Vec<usize>,
    index: HashTable<u32>,
    hasher: RandomState,
}

impl Default for StackTable {
    fn default() -> Self {
        let mut table = Self {
            frames: Vec::new(),
            ends: Vec::new(),
            index: HashTable::new(),
            hasher: RandomState::new(),
        };
        table.intern(&[]);
        table
    }
}

impl StackTable {
    /// The number of the stack `frames` (innermost first), new or known.
    ///
    /// # Panics
    /// After 2^32 distinct stacks; importers' budgets end long before.
    pub fn intern(&mut self, frames: &[FrameId]) -> StackId {
        let hash = self.hasher.hash_one(frames);
        let (flat, ends) = (&self.frames, &self.ends);
        if let Some(&id) = self.index.find(hash, |&id| slice(flat, ends, id) == frames) {
            return StackId(id);
        }
        let id = u32::try_from(self.ends.len()).expect("fewer than 2^32 stacks by the import budget");
        self.frames.extend_from_slice(frames);
        self.ends.push(self.frames.len());
        let (flat, ends, hasher) = (&self.frames, &self.ends, &self.hasher);
        self.index.insert_unique(hash, id, |&id| hasher.hash_one(slice(flat, ends, id)));
        StackId(id)
    }

    /// The frames of `id`, innermost first; none for an id that is not in the table.
    #[must_use]
    pub fn get(&self, id: StackId) -> &[FrameId] {
        if (id.0 as usize) < self.ends.len() { slice(&self.frames, &self.ends, id.0) } else { &[] }
    }

    /// How many stacks there are, the empty one included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Never true: the empty stack is always there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All stacks in order of their numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[FrameId]> {
        (0..self.ends.len()).map(|id| slice(&self.frames, &self.ends, id as u32))
    }
}

fn slice<'a>(flat: &'a [FrameId], ends: &[usize], id: u32) -> &'a [FrameId] {
    let id = id as usize;
    let start = if id == 0 { 0 } else { ends[id - 1] };
    &flat[start..ends[id]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_stacks_have_one_number_and_zero_is_empty() {
        let mut table = StackTable::default();
        let a = table.intern(&[FrameId(3), FrameId(1)]);
        assert_eq!(table.intern(&[FrameId(3), FrameId(1)]), a);
        assert_ne!(table.intern(&[FrameId(3)]), a);
        assert_eq!(table.intern(&[]), StackId::NONE);
        assert_eq!(table.get(a), [FrameId(3), FrameId(1)]);
        assert_eq!(table.len(), 3);
    }
}
