//! Kinds: what many allocations have in common, each once.

use hashbrown::HashMap;

/// Everything about an allocation but its place and its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    /// Node of its stack plus one; 0 when none was recorded.
    pub stack: u32,
    /// Bytes asked for.
    pub requested: u64,
    /// Bytes of its block.
    pub block: u64,
    /// Number of its stream.
    pub stream: u32,
    /// Number of its category.
    pub category: u8,
    /// Number of its module plus one; 0 for none.
    pub module: u32,
    /// Rank of its line plus one; 0 for none.
    pub line: u32,
    /// Whether the line was inferred.
    pub inferred: bool,
}

/// Distinct kinds in order of first use.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    rows: Vec<Kind>,
    known: HashMap<Kind, u32>,
}

impl Kinds {
    /// The number of `kind`, new or known.
    pub(super) fn enter(&mut self, kind: Kind) -> u32 {
        let next = self.rows.len() as u32;
        let number = *self.known.entry(kind).or_insert(next);
        if number == next {
            self.rows.push(kind);
        }
        number
    }

    /// All kinds by number.
    #[must_use]
    pub fn rows(&self) -> &[Kind] {
        &self.rows
    }
}
