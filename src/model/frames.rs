//! The frame table: every distinct source position once, by number.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use super::StringId;

/// A row of the trace's [`FrameTable`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct FrameId(pub u32);

/// A source position as PyTorch recorded it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame {
    /// Function name (Python) or demangled symbol (C++).
    pub function: StringId,
    /// File name as recorded; `??` or empty when unknown.
    pub file: StringId,
    /// Line, 1-based. 0 and 2^64-1 both occur in real files and mean "unknown".
    pub line: u64,
}

/// Distinct frames in columns.
#[derive(Clone, Debug, Default)]
pub struct FrameTable {
    rows: Vec<Frame>,
    index: HashTable<u32>,
    hasher: RandomState,
}

impl FrameTable {
    /// The number of `frame`, new or known.
    ///
    /// # Panics
    /// After 2^32 distinct frames; importers' budgets end long before.
    pub fn intern(&mut self, frame: Frame) -> FrameId {
        let hash = self.hasher.hash_one(frame);
        let rows = &self.rows;
        if let Some(&id) = self.index.find(hash, |&id| rows[id as usize] == frame) {
            return FrameId(id);
        }
        let id = u32::try_from(self.rows.len()).expect("fewer than 2^32 frames by the import budget");
        self.rows.push(frame);
        let (rows, hasher) = (&self.rows, &self.hasher);
        self.index.insert_unique(hash, id, |&id| hasher.hash_one(rows[id as usize]));
        FrameId(id)
    }

    /// The frame behind `id`; an all-empty one for an id that is not in the table.
    #[must_use]
    pub fn get(&self, id: FrameId) -> Frame {
        self.rows.get(id.0 as usize).copied().unwrap_or_default()
    }

    /// How many frames there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether no frame was recorded at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All frames in order of their numbers.
    #[must_use]
    pub fn rows(&self) -> &[Frame] {
        &self.rows
    }
}
