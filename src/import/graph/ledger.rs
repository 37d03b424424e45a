//! The budget against hostile input: what is built from a file may cost so many times the file, and no more.

use crate::error::{Error, Result};

/// Counts bytes against a limit that grows with the file. No honest file comes near it: a container costs
/// a file several bytes, and some tens of bytes here.
#[derive(Clone, Debug)]
pub(in crate::import) struct Ledger {
    what: &'static str,
    spent: usize,
    limit: usize,
}

const MIB: usize = 1 << 20;

impl Ledger {
    /// For the objects of the file, the reader's stack and its memo.
    pub(in crate::import) fn for_graph(file_bytes: usize) -> Self {
        let limit = file_bytes.saturating_mul(6).saturating_add(32 * MIB);
        Self { what: "bytes for the objects of the file", spent: 0, limit }
    }

    /// For the trace that is made of them.
    pub(in crate::import) fn for_trace(file_bytes: usize) -> Self {
        let limit = file_bytes.saturating_mul(3).saturating_add(16 * MIB);
        Self {
            what: "bytes for what the objects of the file say when shared ones are written out",
            spent: 0,
            limit,
        }
    }

    /// For visits of items: a shared object may be reached in many ways, and each costs time.
    pub(in crate::import) fn for_visits(file_bytes: usize) -> Self {
        let limit = file_bytes.saturating_mul(2).saturating_add(MIB);
        Self { what: "visits of shared objects", spent: 0, limit }
    }

    /// Adds `bytes` (or visits).
    #[inline]
    pub(in crate::import) fn charge(&mut self, bytes: usize, offset: usize) -> Result<()> {
        self.spent = self.spent.saturating_add(bytes);
        if self.spent <= self.limit {
            return Ok(());
        }
        Err(self.exceeded(offset))
    }

    #[cold]
    fn exceeded(&self, offset: usize) -> Error {
        Error::LimitExceeded {
            what: self.what,
            value: self.spent as u64,
            limit: self.limit as u64,
            offset: offset as u64,
        }
    }
}
