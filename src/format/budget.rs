//! The bound on what a file may unpack to.
//!
//! Owns the cost of every kind of row and the rule that ties their sum to the length of the file, so that a
//! small file cannot fill the memory. Writer and reader count alike: a writer that would pass the bound
//! stores the chunk uncompressed instead.

/// What is free of charge: a file of any length may cost this much.
pub(super) const FREE: u64 = 32 << 20;

/// Cost allowed for every byte of file.
pub(super) const PER_BYTE: u64 = 64;

/// Cost of an event: its row in the columns, the optional ones included.
pub(super) const EVENT: u64 = 56;
/// Cost of a string, a frame, a stack or a pool in the tables, without its bytes.
pub(super) const TABLE_ROW: u64 = 32;
/// Cost of a frame in a stack.
pub(super) const STACK_FRAME: u64 = 4;
/// Cost of a segment without its blocks.
pub(super) const SEGMENT: u64 = 176;
/// Cost of a block.
pub(super) const BLOCK: u64 = 48;
/// Cost of an annotation.
pub(super) const ANNOTATION: u64 = 24;
/// Cost of a mark or a holder without its text.
pub(super) const NOTE: u64 = 96;
/// Cost of a named tensor without its texts and shape.
pub(super) const TENSOR: u64 = 256;
/// Cost of a dimension in a shape.
pub(super) const DIMENSION: u64 = 8;
/// Cost of a sample without its counters.
pub(super) const SAMPLE: u64 = 96;
/// Cost of a counter of a sample without its name.
pub(super) const STAT: u64 = 64;
/// Cost of an allocation in a live set.
pub(super) const LIVE_ROW: u64 = 72;
/// Cost of a driver call.
pub(super) const DRIVER_ROW: u64 = 128;
/// Cost of every payload byte of a reduced recording's report.
pub(super) const REPORT_BYTE: u64 = 8;
/// Cost of every payload byte of settings, process facts and warnings.
pub(super) const PLAIN_BYTE: u64 = 32;

/// Counts costs against the bound. Tables have a budget of their own, because they are read before all else.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Budget {
    spent: u64,
}

impl Budget {
    /// Spends `cost` on a chunk that ends at byte `end` of the file; refuses, and spends nothing, when the
    /// sum would pass the bound.
    pub(super) fn spend(&mut self, cost: u64, end: usize) -> bool {
        let allowed = FREE.saturating_add(PER_BYTE.saturating_mul(end as u64));
        let fits = self.spent.saturating_add(cost) <= allowed;
        if fits {
            self.spent += cost;
        }
        fits
    }
}

/// `count` rows at `each`, saturating: both may come from a file.
pub(super) fn rows(count: u64, each: u64) -> u64 {
    count.saturating_mul(each)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_file_may_unpack_to_more() {
        let mut budget = Budget::default();
        assert!(budget.spend(FREE, 0));
        assert!(!budget.spend(1, 0));
        assert!(budget.spend(64, 1));
        assert!(!budget.spend(u64::MAX, 1 << 30));
        assert!(budget.spend(rows(10, 64), 11));
    }
}
