//! The live sets of a reduced recording as the report shows them.
//!
//! Owns which allocations are listed and what each is called. The sums are over all of them.

use std::cmp::Reverse;

use crate::model::{self, LiveSet, Reduced, StackId, Trace};
use crate::report::{LiveMomentRow, LiveRow};
use crate::tables::{GroupKey, StackFacts, classify_frames, stack_facts};

/// Allocations of a moment that are listed.
const MOST_ROWS: usize = 200;

/// What was live at every kept moment, by device; of one `device` only where that is asked for.
pub(super) fn moments(trace: &Trace, reduced: &Reduced, device: Option<u32>) -> Vec<LiveMomentRow> {
    let facts = stack_facts(trace, &classify_frames(trace));
    let sets = reduced.live.iter().filter(|set| device.is_none_or(|device| set.device.0 == device));
    sets.flat_map(|set| (0..set.moments.len()).map(|place| moment(trace, &facts, set, place))).collect()
}

fn moment(trace: &Trace, facts: &[StackFacts], set: &LiveSet, place: usize) -> LiveMomentRow {
    let bit = 1u64.checked_shl(place as u32).unwrap_or(0);
    let mut live: Vec<&model::LiveRow> = set.rows.iter().filter(|row| row.live & bit != 0).collect();
    live.sort_by_key(|row| (Reverse(row.bytes), row.alloc_event, row.address));
    let (allocations, bytes) = set.totals(place);
    let pending = live.iter().filter(|row| row.pending & bit != 0);
    let left_out = live.len().saturating_sub(MOST_ROWS);
    LiveMomentRow {
        device: set.device.0,
        moment: set.moments[place].name.clone(),
        event: set.moments[place].event,
        allocations,
        bytes,
        pending_free_bytes: pending.fold(0, |sum, row| sum.saturating_add(row.bytes)),
        rows: live.iter().take(MOST_ROWS).map(|row| shown(trace, facts, row, bit)).collect(),
        rows_left_out: left_out as u64,
    }
}

fn shown(trace: &Trace, facts: &[StackFacts], row: &model::LiveRow, bit: u64) -> LiveRow {
    let StackId(stack) = row.stack;
    let frame = |id| GroupKey::of_frame(trace, id).label(trace);
    LiveRow {
        bytes: row.bytes,
        requested_bytes: row.requested_bytes,
        stream: row.stream,
        alloc_event: row.alloc_event,
        pending_free: row.pending & bit != 0,
        line: facts.get(stack as usize).and_then(|facts| facts.user_frame).map(frame),
        frame: trace.stacks.get(row.stack).first().copied().map(frame),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DeviceId, LiveMoment};

    #[test]
    fn the_largest_come_first_and_the_sums_are_over_all() {
        let row = |bytes, live, pending| model::LiveRow { bytes, live, pending, ..model::LiveRow::default() };
        let names = ["allocated-peak", "end"];
        let named = |name: &str| LiveMoment { name: name.to_owned(), event: Some(9) };
        let mut rows = vec![row(512, 1, 0), row(4096, 3, 2)];
        rows.extend((0..250).map(|_| row(1024, 2, 0)));
        let live = vec![LiveSet { device: DeviceId(3), moments: names.map(named).into(), rows }];
        let reduced = Reduced { live, ..Reduced::default() };
        let shown = moments(&Trace::default(), &reduced, None);
        let told = |place: usize| {
            let moment: &LiveMomentRow = &shown[place];
            (
                moment.allocations,
                moment.bytes,
                moment.pending_free_bytes,
                moment.rows.len(),
                moment.rows_left_out,
            )
        };
        assert_eq!(told(0), (2, 4608, 0, 2, 0));
        assert_eq!(told(1), (251, 4096 + 250 * 1024, 4096, 200, 51));
        assert_eq!((shown[1].rows[0].bytes, shown[1].rows[0].pending_free), (4096, true));
        assert_eq!((shown[0].device, shown[0].moment.as_str()), (3, "allocated-peak"));
        assert!(moments(&Trace::default(), &reduced, Some(0)).is_empty());
    }
}
