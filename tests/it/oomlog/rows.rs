//! Logs read as the program reads them, and figures held against the true ones.

use memlab::analysis::oom_rows;
use memlab::findings::message::scan;
use memlab::report::MessageRow;

use super::texts::Values;

pub(crate) fn rows(log: impl AsRef<[u8]>) -> Vec<MessageRow> {
    oom_rows("a.log", &scan(log.as_ref())).0
}

pub(crate) fn only(log: &str) -> MessageRow {
    let mut rows = rows(log);
    assert_eq!(rows.len(), 1, "{log}\n{rows:#?}");
    rows.remove(0)
}

pub(crate) fn figures(row: &MessageRow) -> [Option<u64>; 9] {
    [
        row.requested_bytes,
        row.total_bytes,
        row.free_bytes,
        row.allocated_bytes,
        row.reserved_bytes,
        row.unallocated_bytes,
        row.allowed_bytes,
        row.private_pool_bytes,
        row.process_bytes,
    ]
}

pub(crate) const KEYS: [&str; 9] = [
    "requested_bytes",
    "total_bytes",
    "free_bytes",
    "allocated_bytes",
    "reserved_bytes",
    "unallocated_bytes",
    "allowed_bytes",
    "private_pool_bytes",
    "process_bytes",
];

/// Every figure of `row` is the true one within its rounding, or missing where `may_lack` says so.
pub(crate) fn assert_figures(row: &MessageRow, values: &Values, may_lack: bool, log: &str) {
    for (key, (read, value)) in KEYS.iter().zip(figures(row).into_iter().zip(values.list())) {
        match (read, value) {
            (None, None) => {}
            (None, Some(_)) if may_lack => {}
            (Some(read), Some(value)) => {
                let rounding = row.rounding[key];
                assert!(read.abs_diff(value) <= rounding, "{key}: {read} for {value} in\n{log}");
            }
            (read, value) => panic!("{key}: {read:?} for {value:?} in\n{log}"),
        }
    }
}
