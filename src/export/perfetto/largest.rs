//! The largest allocations as slices, each with its line as name and its stack beside it.
//!
//! Owns the choice: those that weigh most by bytes times life. All others are in the counters only, and the
//! track says how many there are.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::error::Result;
use crate::model::Trace;
use crate::rebuild::{History, Moment, NONE};
use crate::tables::Grouping;
use crate::units::Count;

use super::about;
use super::axis::DeviceAxis;
use super::lanes::{Sharing, Span, lanes};
use super::messages::TrackEvent;
use super::packets::{Packets, values};
use super::spans::write_lane;

/// Allocations that get a slice.
pub const LARGEST_ALLOCATIONS: usize = 2000;

/// Writes the largest allocations of one device.
pub(super) fn write(
    packets: &mut Packets<'_>,
    parent: u64,
    axis: &DeviceAxis<'_>,
    trace: &Trace,
    (history, grouping): (&History, &Grouping),
) -> Result<()> {
    let spans = largest(history, axis, LARGEST_ALLOCATIONS);
    let all = history.allocations.len();
    let what = format!(
        "The {} of {} allocations with the largest product of block bytes and life.",
        Count(spans.len() as u64),
        Count(all as u64)
    );
    // As many tracks as allocations are enough for all. Perfetto draws tracks of one name as one.
    let (lanes, _) = lanes(spans, Sharing::Apart, LARGEST_ALLOCATIONS);
    for edges in lanes {
        let track = packets.track(about::track(parent, 40, "largest allocations", what.clone()))?;
        write_lane(packets, track, &edges, |packets, row| slice(packets, trace, history, grouping, row))?;
    }
    Ok(())
}

fn slice(
    packets: &mut Packets<'_>,
    trace: &Trace,
    history: &History,
    grouping: &Grouping,
    row: usize,
) -> TrackEvent {
    let rows = &history.allocations;
    let key = grouping.key_of_allocation(row);
    let label = key.map_or_else(|| format!("(no {})", grouping.by), |key| key.label(trace));
    let event = |event: u32| (event != NONE).then(|| u64::from(event));
    let mut beside = vec![
        values::count("block_bytes", rows.block_bytes[row]),
        values::count("requested_bytes", rows.requested_bytes[row]),
        values::text("address", format!("{:#x}", rows.addresses[row])),
    ];
    beside.extend(event(rows.alloc_events[row]).map(|event| values::count("alloc_event", event)));
    if rows.alloc_events[row] == NONE {
        beside.push(values::flag("from_before_the_recording", true));
    }
    match event(rows.given_back_event(row)) {
        Some(event) => beside.push(values::count("free_event", event)),
        None => beside.push(values::flag("live_at_the_end", true)),
    }
    if grouping.inferred.get(row).copied().unwrap_or(false) {
        beside.push(values::flag("line_is_inferred", true));
    }
    beside.extend(packets.stack(rows.stacks[row]));
    TrackEvent { name_iid: packets.name(&label), debug_annotations: beside, ..TrackEvent::default() }
}

/// The lives of the `most` allocations with the largest product of bytes and life; of equals the earlier ones.
fn largest(history: &History, axis: &DeviceAxis<'_>, most: usize) -> Vec<Span> {
    let rows = &history.allocations;
    let mut kept: BinaryHeap<Reverse<(u128, Reverse<usize>)>> = BinaryHeap::new();
    let mut least = 0;
    let begun_before = |row: usize| rows.alloc_events[row] == NONE;
    // What was given back before the recording and only waits for its stream is no longer allocated.
    let is_waiting = |&row: &usize| begun_before(row) && !rows.is_allocated_at(row, Moment(0));
    for row in (0..rows.len()).filter(|row| !is_waiting(row)) {
        let span = life(history, axis, row);
        let weight = u128::from(rows.block_bytes[row]) * u128::from(span.end - span.begin);
        if kept.len() >= most && weight <= least {
            continue;
        }
        kept.push(Reverse((weight, Reverse(row))));
        if kept.len() > most {
            kept.pop();
        }
        least = kept.peek().map_or(0, |Reverse((weight, _))| *weight);
    }
    let mut chosen: Vec<usize> = kept.into_iter().map(|Reverse((_, Reverse(row)))| row).collect();
    chosen.sort_unstable();
    chosen.into_iter().map(|row| life(history, axis, row)).collect()
}

/// From when to when `row` counts as allocated.
fn life(history: &History, axis: &DeviceAxis<'_>, row: usize) -> Span {
    let rows = &history.allocations;
    let after = |event: u32, otherwise| {
        if event == NONE { otherwise } else { Moment::after(u64::from(event)) }
    };
    let begin = axis.ns(after(rows.alloc_events[row], Moment(0)));
    let end = axis.ns(after(rows.given_back_event(row), Moment(history.events)));
    Span { begin, end: end.max(begin), row }
}

#[cfg(test)]
mod tests {
    use super::super::axis::Axis;
    use super::*;
    use crate::model::TraceBuilder;
    use crate::rebuild::rebuild;

    const A: u64 = 0x7000_0000_0000;

    #[test]
    fn bytes_times_life_decides() {
        let trace = TraceBuilder::new()
            .segment_alloc(A, 2 << 20)
            .alloc(A, 1024)
            .alloc(A + 4096, 512)
            .free(A, 1024)
            .alloc(A, 4096)
            .free(A, 4096)
            .alloc(A, 4096)
            .build();
        let device = &trace.devices[0];
        let history = rebuild(&trace, device);
        let axis = Axis::of(trace.devices.iter()).device(device);
        let rows = |most| largest(&history, &axis, most).iter().map(|span| span.row).collect::<Vec<_>>();
        // Weights: 1024 x 20 us, 512 x 60 us, 4096 x 10 us, 4096 x 0.
        assert_eq!((rows(1), rows(2), rows(3)), (vec![2], vec![1, 2], vec![0, 1, 2]));
        assert_eq!(rows(9), [0, 1, 2, 3]);
        let life = largest(&history, &axis, 2)[0];
        assert_eq!((life.begin, life.end), (20_000, 80_000), "live at the end");
    }
}
