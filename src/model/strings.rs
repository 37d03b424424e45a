//! The string table: every distinct text of a trace once, by number.
//!
//! One buffer plus end offsets; the index hashes the buffer's own slices, so no text is kept twice. Texts
//! come from the file and may be chosen by an attacker, hence a seeded hasher.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

/// A text in the trace's [`StringTable`]. Zero is the empty text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct StringId(pub u32);

/// Distinct texts, numbered in order of first appearance.
#[derive(Clone, Debug)]
pub struct StringTable {
    text: String,
    ends: Vec<usize>,
    index: HashTable<u32>,
    hasher: RandomState,
}

impl Default for StringTable {
    fn default() -> Self {
        let mut table = Self {
            text: String::new(),
            ends: Vec::new(),
            index: HashTable::new(),
            hasher: RandomState::new(),
        };
        table.intern("");
        table
    }
}

impl StringTable {
    /// The number of `text`, new or known.
    ///
    /// # Panics
    /// After 2^32 distinct texts; importers' budgets end long before.
    pub fn intern(&mut self, text: &str) -> StringId {
        let hash = self.hasher.hash_one(text);
        let (buffer, ends) = (&self.text, &self.ends);
        if let Some(&id) = self.index.find(hash, |&id| slice(buffer, ends, id) == text) {
            return StringId(id);
        }
        let id = u32::try_from(self.ends.len()).expect("fewer than 2^32 strings by the import budget");
        self.text.push_str(text);
        self.ends.push(self.text.len());
        let (buffer, ends, hasher) = (&self.text, &self.ends, &self.hasher);
        self.index.insert_unique(hash, id, |&id| hasher.hash_one(slice(buffer, ends, id)));
        StringId(id)
    }

    /// The text behind `id`; empty for an id that is not in the table.
    #[must_use]
    pub fn get(&self, id: StringId) -> &str {
        if (id.0 as usize) < self.ends.len() { slice(&self.text, &self.ends, id.0) } else { "" }
    }

    /// How many texts there are, the empty one included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Never true: the empty text is always there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All texts in order of their numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.ends.len()).map(|id| slice(&self.text, &self.ends, id as u32))
    }
}

fn slice<'a>(text: &'a str, ends: &[usize], id: u32) -> &'a str {
    let id = id as usize;
    let start = if id == 0 { 0 } else { ends[id - 1] };
    &text[start..ends[id]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_one_number() {
        let mut table = StringTable::default();
        let a = table.intern("train.py");
        let b = table.intern("model.py");
        assert_eq!(table.intern("train.py"), a);
        assert_ne!(a, b);
        assert_eq!(table.get(a), "train.py");
        assert_eq!(table.intern(""), StringId(0));
        assert_eq!(table.iter().collect::<Vec<_>>(), ["", "train.py", "model.py"]);
        assert_eq!(table.get(StringId(99)), "");
    }
}
