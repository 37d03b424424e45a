//! Frees that wait for another stream: how much of them at once, and whose.
//!
//! Owns the sweep over blocks whose free was requested at one event and completed at a later one. An ordinary
//! free is two events in a row; nothing waits between them.

use crate::rebuild::{Allocations, History, Moment, NONE};

/// The moment at which most bytes wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// The most bytes that wait at once.
    pub bytes: u64,
    /// When.
    pub moment: Moment,
    /// Rows of the allocations that wait then, ascending.
    pub rows: Vec<u32>,
    /// What waits when active bytes peak.
    pub at_active_peak_bytes: u64,
}

/// The moment at which most bytes wait, `None` where it would be less than `least` for sure. Looks at every
/// allocation once, and sorts those that waited.
#[must_use]
pub fn pending(history: &History, least: u64) -> Option<Pending> {
    let rows = &history.allocations;
    let waiting: Vec<(u32, u64, u64)> = (0..rows.len()).filter_map(|row| waits(rows, row)).collect();
    let all = waiting.iter().fold(0u64, |sum, &(row, ..)| sum.saturating_add(rows.block_bytes[row as usize]));
    if all < least {
        return None;
    }
    // Ends of a moment come before its beginnings.
    let mut edges: Vec<(u64, bool, u32)> = Vec::with_capacity(2 * waiting.len());
    for &(row, from, to) in &waiting {
        edges.push((from, true, row));
        if to != u64::MAX {
            edges.push((to, false, row));
        }
    }
    edges.sort_unstable();
    let mut found = Pending::default();
    let mut bytes = 0u64;
    for (index, &(moment, begins, row)) in edges.iter().enumerate() {
        let of_row = rows.block_bytes[row as usize];
        bytes = if begins { bytes.saturating_add(of_row) } else { bytes.saturating_sub(of_row) };
        let is_last_of_moment = edges.get(index + 1).is_none_or(|next| next.0 != moment);
        if is_last_of_moment && bytes > found.bytes {
            (found.bytes, found.moment) = (bytes, Moment(moment));
        }
    }
    let at = |moment: Moment| {
        waiting.iter().filter(move |&&(_, from, to)| from <= moment.0 && moment.0 < to).map(|&(row, ..)| row)
    };
    found.rows = at(found.moment).collect();
    let at_peak = at(history.peaks.active.moment).map(|row| rows.block_bytes[row as usize]);
    found.at_active_peak_bytes = at_peak.fold(0, u64::saturating_add);
    Some(found)
}

/// The moments from which and until which allocation `row` waits, if it does.
fn waits(rows: &Allocations, row: usize) -> Option<(u32, u64, u64)> {
    let (requested, completed) = (rows.free_requested_events[row], rows.free_completed_events[row]);
    let until = if completed == NONE { u64::MAX } else { u64::from(completed) + 1 };
    if requested == NONE {
        // Requested before the recording, or never.
        let is_initial = rows.initially_pending.binary_search(&(row as u32)).is_ok();
        return is_initial.then_some((row as u32, 0, until));
    }
    let from = u64::from(requested) + 1;
    (until > from + 1).then_some((row as u32, from, until))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;
    use crate::rebuild::rebuild;

    const MIB: u64 = 1 << 20;
    const A: u64 = 0x7000_0000_0000;

    fn of(builder: TraceBuilder, least: u64) -> Option<Pending> {
        let trace = builder.build();
        pending(&rebuild(&trace, &trace.devices[0]), least)
    }

    #[test]
    fn the_most_that_waits_at_once_is_found() {
        let run = TraceBuilder::new()
            .segment_alloc(A, 20 * MIB)
            .alloc(A, 4 * MIB)
            .alloc(A + 4 * MIB, 8 * MIB)
            .free_requested(A, 4 * MIB)
            .free_requested(A + 4 * MIB, 8 * MIB)
            .free_completed(A, 4 * MIB)
            .alloc(A, 2 * MIB)
            .free_completed(A + 4 * MIB, 8 * MIB)
            .free(A, 2 * MIB);
        let found = of(run.clone(), 0).unwrap();
        assert_eq!((found.bytes, found.moment, found.rows), (12 * MIB, Moment(5), vec![0, 1]));
        assert_eq!(found.at_active_peak_bytes, 0, "active bytes peak before the first free");
        assert_eq!(of(run, 13 * MIB), None);
    }

    #[test]
    fn an_ordinary_free_waits_for_nothing() {
        let run = TraceBuilder::new().segment_alloc(A, 20 * MIB).alloc(A, 20 * MIB).free(A, 20 * MIB);
        assert_eq!(of(run, 1), None);
        let ends = TraceBuilder::new().segment_alloc(A, 20 * MIB).alloc(A, 20 * MIB);
        let ends = of(ends.free_requested(A, 20 * MIB), 1).unwrap();
        assert_eq!((ends.bytes, ends.moment), (20 * MIB, Moment(3)));
    }
}
