//! Calls within calls.
//!
//! Owns which of them are copies: a function of the runtime that is seen may call one of the driver that is seen too, for
//! the same memory.

use std::collections::HashSet;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::model::DriverRow;

/// Most calls within calls that wait for the one around them, of one thread: a crafted file must not make more.
const MOST_WAITING: usize = 4096;

/// Indices of the rows that describe the same memory as the call around them. `rows` are in their order: a call that takes
/// memory is numbered when it returns, so it stands behind those within it.
pub(super) fn copies(rows: &[DriverRow]) -> FxHashSet<u32> {
    let mut copies: FxHashSet<u32> = HashSet::default();
    let mut waiting: FxHashMap<u64, Vec<u32>> = FxHashMap::default();
    for (index, row) in rows.iter().enumerate() {
        let Some(of_thread) = waiting.get_mut(&row.thread) else {
            if row.depth > 0 {
                waiting.insert(row.thread, vec![index as u32]);
            }
            continue;
        };
        while let Some(&inner) = of_thread.last() {
            let within = &rows[inner as usize];
            if within.depth <= row.depth {
                break;
            }
            of_thread.pop();
            if row.is_success() && is_same_memory(within, row) {
                copies.insert(inner);
            }
        }
        if row.depth > 0 && of_thread.len() < MOST_WAITING {
            of_thread.push(index as u32);
        }
    }
    copies
}

fn is_same_memory(inner: &DriverRow, outer: &DriverRow) -> bool {
    let is_same = |a: u64, b: u64| a != 0 && a == b;
    inner.call().is_some()
        && (is_same(inner.address, outer.address) || is_same(inner.handle, outer.handle))
        && inner.bytes != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::DriverCall;

    fn row(thread: u64, depth: u32, address: u64, bytes: u64) -> DriverRow {
        DriverRow {
            code: DriverCall::DeviceAlloc as u8,
            thread,
            depth,
            address,
            bytes,
            ..DriverRow::default()
        }
    }

    #[test]
    fn the_inner_call_for_the_same_address_is_the_copy() {
        let rows = [
            row(1, 1, 0x1000, 64),
            row(2, 0, 0x1000, 64),
            row(1, 1, 0x9000, 32),
            row(1, 0, 0x1000, 64),
            row(1, 1, 0x1000, 64),
            row(1, 0, 0x2000, 64),
        ];
        let mut found: Vec<u32> = copies(&rows).into_iter().collect();
        found.sort_unstable();
        assert_eq!(found, [0], "another thread, another address, and a later call are no copies");
    }

    #[test]
    fn a_failed_outer_call_does_not_hide_what_the_inner_one_took() {
        let failed = DriverRow { result: 2, ..row(1, 0, 0x1000, 64) };
        assert!(copies(&[row(1, 1, 0x1000, 64), failed]).is_empty());
    }

    #[test]
    fn calls_three_deep_are_one_memory() {
        let rows = [row(1, 2, 0x1000, 64), row(1, 1, 0x1000, 64), row(1, 0, 0x1000, 64)];
        assert_eq!(copies(&rows).len(), 2);
    }
}
