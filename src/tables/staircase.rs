//! Staircases: one line that asks for a little more each time, so that no cached segment ever serves it again.
//!
//! Owns the longest one: segments of one stream and pool, each larger than all before it, obtained one after
//! the other by the same line. What it means is for rules.

use std::collections::BTreeMap;

use crate::model::{DeviceTrace, PoolId, SegmentKind};
use crate::rebuild::{History, Moment, NONE};

use super::{Grouping, obtained_for};

/// Segments of rising size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Staircase {
    /// The line's group in the [`Grouping`]; `None` where no line is known.
    pub group: Option<u32>,
    /// Number of segments.
    pub rungs: u64,
    /// Size of the first.
    pub first_bytes: u64,
    /// Size of the last.
    pub last_bytes: u64,
    /// Bytes of all but the last.
    pub earlier_bytes: u64,
    /// Event that obtained the last.
    pub event: u64,
    /// What lay free in the earlier ones when the last was obtained.
    pub free_bytes: u64,
    /// Rungs at which the allocation of the rung before was still live: growth by copy.
    pub copies: u64,
    /// What was allocated since the first rung and still live at the last.
    pub kept_bytes: u64,
}

/// Segments of one stream and pool while they are looked through.
#[derive(Default)]
struct Climb {
    highest_bytes: u64,
    group: u32,
    run: Vec<usize>,
}

/// The longest staircase of at least two rungs; of equally long ones the one with most bytes.
#[must_use]
pub fn staircase(device: &DeviceTrace, history: &History, grouping: &Grouping) -> Option<Staircase> {
    let ranges = &history.ranges;
    let mut climbs: BTreeMap<(u64, PoolId), Climb> = BTreeMap::new();
    let mut best: Vec<usize> = Vec::new();
    let weight = |run: &[usize]| (run.len(), run.last().map_or(0, |&range| ranges.bytes[range]));
    for range in 0..ranges.len() {
        if ranges.expandable[range] || ranges.kinds[range] == SegmentKind::Small {
            continue;
        }
        let climb = climbs.entry((ranges.streams[range], ranges.pools[range])).or_default();
        if ranges.bytes[range] <= climb.highest_bytes {
            continue;
        }
        climb.highest_bytes = ranges.bytes[range];
        if ranges.born[range] == Moment(0) {
            continue;
        }
        let row = obtained_for(device, history, range);
        let group = row.and_then(|row| grouping.of_allocation.get(row).copied()).unwrap_or(NONE);
        if group != climb.group {
            climb.run.clear();
        }
        climb.group = group;
        climb.run.push(range);
        if weight(&climb.run) > weight(&best) {
            best.clone_from(&climb.run);
        }
    }
    (best.len() > 1).then(|| measured(device, history, grouping, &best))
}

fn measured(device: &DeviceTrace, history: &History, grouping: &Grouping, run: &[usize]) -> Staircase {
    let (ranges, allocations) = (&history.ranges, &history.allocations);
    let (first, last) = (run[0], run[run.len() - 1]);
    let mut is_earlier = vec![false; ranges.len()];
    let mut found = Staircase {
        rungs: run.len() as u64,
        first_bytes: ranges.bytes[first],
        last_bytes: ranges.bytes[last],
        event: ranges.born[last].0.saturating_sub(1),
        ..Staircase::default()
    };
    let mut held_bytes = 0u64;
    for pair in run.windows(2) {
        let (range, next) = (pair[0], pair[1]);
        is_earlier[range] = true;
        found.earlier_bytes = found.earlier_bytes.saturating_add(ranges.bytes[range]);
        if ranges.is_held_at(range, ranges.born[last]) {
            held_bytes = held_bytes.saturating_add(ranges.bytes[range]);
        }
        let before = obtained_for(device, history, range);
        found.copies += u64::from(before.is_some_and(|row| allocations.is_active_at(row, ranges.born[next])));
    }
    let row = obtained_for(device, history, last);
    found.group = row.and_then(|row| grouping.of_allocation.get(row).copied()).filter(|&of| of != NONE);
    let (begin, now) = (ranges.born[first], ranges.born[last]);
    let mut used_bytes = 0u64;
    for row in (0..allocations.len()).filter(|&row| allocations.is_active_at(row, now)) {
        let bytes = allocations.block_bytes[row];
        if is_earlier.get(allocations.ranges[row] as usize) == Some(&true) {
            used_bytes = used_bytes.saturating_add(bytes);
        }
        let begun = allocations.alloc_events[row];
        if begun != NONE && u64::from(begun) >= begin.0 {
            found.kept_bytes = found.kept_bytes.saturating_add(bytes);
        }
    }
    found.free_bytes = held_bytes.saturating_sub(used_bytes);
    found
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::{Trace, TraceBuilder};
    use crate::rebuild::rebuild;
    use crate::tables::GroupBy;

    const MIB: u64 = 1 << 20;
    const A: u64 = 0x7000_0000_0000;

    fn of(trace: &Trace) -> Option<Staircase> {
        let device = &trace.devices[0];
        let history = rebuild(trace, device);
        let grouping = Grouping::build(trace, device, &history, GroupBy::Line);
        staircase(device, &history, &grouping)
    }

    fn at(rung: u64) -> u64 {
        A + (rung << 32)
    }

    #[test]
    fn each_rung_is_larger_than_all_before() {
        let mut builder = TraceBuilder::new().segment_alloc(A, 2 * MIB).alloc(A, 512);
        for (rung, mib) in [40, 50, 60, 55, 70].into_iter().enumerate() {
            let address = at(rung as u64 + 1);
            builder = builder.at("head.py", 12, "logits").segment_alloc(address, mib * MIB);
            builder = builder.alloc(address, mib * MIB).free(address, mib * MIB);
        }
        let found = of(&builder.build()).unwrap();
        assert_eq!((found.rungs, found.first_bytes, found.last_bytes), (4, 40 * MIB, 70 * MIB));
        assert_eq!((found.earlier_bytes, found.free_bytes), (150 * MIB, 150 * MIB));
        assert_eq!((found.copies, found.kept_bytes), (0, 0));
        assert!(found.group.is_some());
    }

    #[test]
    fn growth_by_copy_and_keepers_are_told() {
        let mut builder = TraceBuilder::new();
        for rung in 0..6 {
            let bytes = (40 + 10 * rung) * MIB;
            builder = builder.segment_alloc(at(rung), bytes).alloc(at(rung), bytes);
            if rung > 0 {
                builder = builder.free(at(rung - 1), bytes - 10 * MIB);
            }
        }
        let copied = of(&builder.build()).unwrap();
        assert_eq!((copied.rungs, copied.copies, copied.group), (6, 5, None));
        let mut builder = TraceBuilder::new();
        for rung in 0..3 {
            let bytes = (40 + 10 * rung) * MIB;
            builder = builder.segment_alloc(at(rung), bytes).alloc(at(rung), bytes).free(at(rung), bytes);
            builder = builder.alloc(at(0) + rung * 4 * MIB, 4 * MIB);
        }
        let kept = of(&builder.build()).unwrap();
        assert_eq!((kept.copies, kept.kept_bytes, kept.free_bytes), (0, 8 * MIB, 82 * MIB));
    }

    #[test]
    fn another_line_ends_it() {
        let mut builder = TraceBuilder::new();
        for rung in 0..5 {
            let bytes = (40 + 10 * rung) * MIB;
            builder =
                builder.at("a.py", 1 + rung / 3, "f").segment_alloc(at(rung), bytes).alloc(at(rung), bytes);
        }
        assert_eq!(of(&builder.build()).unwrap().rungs, 3);
        assert_eq!(of(&TraceBuilder::new().segment_alloc(A, 2 * MIB).build()), None);
    }
}
