//! The curves against their definitions.
#![allow(clippy::unwrap_used)]

use super::super::walk::samples::{history_of, usage};
use super::super::{GroupBy, Grouping, StepTable, causes};
use super::*;
use crate::model::{Action, PoolId, Trace, TraceBuilder};

const EXTENT: TimelineExtent = TimelineExtent { bands: 2, columns: 16 };

fn picture(trace: &Trace) -> (History, Grouping, TimelineData) {
    let (device, history) = history_of(trace);
    let grouping = Grouping::build(trace, &device, &history, GroupBy::Line);
    let order: Vec<u32> = (0..grouping.len() as u32).collect();
    let data = timeline(&device, &history, &grouping, &order, &StepTable::default(), EXTENT);
    (history, grouping, data)
}

/// The causes by definition: from the whole state, at the moment after an ordinary free's second event.
fn causes_at(history: &History, moment: Moment) -> Causes {
    let settled = if passing(history, moment).is_some() { Moment(moment.0 + 1) } else { moment };
    causes(&history.state_at(settled), streams(history).main)
}

/// Asked for, over allocated blocks.
fn requested_bytes(history: &History, moment: Moment) -> u64 {
    let rows = &history.allocations;
    let live = (0..rows.len()).filter(|&row| rows.is_allocated_at(row, moment));
    live.map(|row| rows.requested_bytes[row]).sum()
}

/// Every curve against its definition.
fn check(trace: &Trace) -> TimelineData {
    let data = check_sums(trace);
    let (history, ..) = picture(trace);
    for (sample, &moment) in data.moments.iter().enumerate() {
        assert_eq!(data.causes[sample], causes_at(&history, moment), "{moment:?}");
    }
    data
}

fn check_sums(trace: &Trace) -> TimelineData {
    let (history, _, data) = picture(trace);
    for (sample, &moment) in data.moments.iter().enumerate() {
        let usage = usage(&history, moment);
        assert_eq!(data.allocated[sample], usage.allocated_bytes, "{moment:?}");
        assert_eq!(data.active[sample], usage.active_bytes, "{moment:?}");
        assert_eq!(data.reserved[sample], usage.reserved_bytes, "{moment:?}");
        let banded: u64 = data.band_bytes.iter().map(|band| band[sample]).sum();
        assert_eq!(banded, usage.allocated_bytes, "bands at {moment:?}");
        let split = data.causes[sample].sum() + requested_bytes(&history, moment);
        assert_eq!(split, usage.reserved_bytes, "{moment:?}");
    }
    assert_eq!(data.bands.len(), data.band_bytes.len());
    assert!(data.x.is_sorted());
    data
}

/// Four lines and one allocation without a line over two segments, long enough to be sampled.
fn busy(rounds: u64) -> Trace {
    let mut builder = TraceBuilder::new().segment_alloc(0, 1 << 30).segment_alloc(1 << 40, 1 << 20);
    for round in 0..rounds {
        let line = 1 + round % 4;
        let size = 512 * (1 + (round * 7919) % 1000);
        builder = builder.at("train.py", line, "step").alloc(0, size).alloc(1 << 29, 512 * line);
        builder = builder.stack(&[]).alloc(1 << 40, 512).free(0, size).free_requested(1 << 40, 512);
        builder = builder.free(1 << 29, 512 * line).free_completed(1 << 40, 512);
    }
    builder.build()
}

#[test]
fn every_sample_is_exact_and_bands_add_up() {
    let data = check(&busy(200));
    assert!(data.x_is_time);
    assert!(data.moments.len() <= EXTENT.columns * sampling::PER_COLUMN + 8, "{}", data.moments.len());
    assert!(data.events_per_sample > 10);
    assert_eq!(data.bands, [Band::Group(0), Band::Group(1), Band::OtherGroups, Band::NoGroup]);
}

#[test]
fn the_peaks_are_among_the_samples_and_marked() {
    let (history, _, data) = picture(&busy(200));
    assert_eq!(data.allocated.iter().max(), Some(&history.peaks.allocated.bytes));
    assert_eq!(data.active.iter().max(), Some(&history.peaks.active.bytes));
    assert_eq!(data.reserved.iter().max(), Some(&history.peaks.reserved.bytes));
    let reasons: Vec<_> = data.marks.iter().map(|mark| mark.reason.clone()).collect();
    let (allocated, reserved) = (history.peaks.allocated, history.peaks.reserved);
    assert_eq!(
        reasons,
        [MarkReason::ReservedPeak(reserved.bytes), MarkReason::AllocatedPeak(allocated.bytes)]
    );
    let peak = data.marks.last().unwrap();
    let sample = data.moments.iter().position(|&moment| moment == peak.moment).unwrap();
    assert_eq!((data.x[sample], data.allocated[sample]), (peak.x, allocated.bytes));
}

#[test]
fn without_times_positions_are_event_numbers() {
    let mut trace = busy(3);
    trace.devices[0].events.times_us.fill(crate::model::NO_TIME);
    let data = check(&trace);
    assert!(!data.x_is_time);
    assert_eq!(data.x, data.moments.iter().map(|moment| moment.0).collect::<Vec<_>>());
    assert_eq!(data.x_end, trace.event_count() as u64);
}

#[test]
fn pieces_of_an_expandable_segment_are_one_segment() {
    const MIB: u64 = 1 << 20;
    let base = 0x7000_0000;
    let mut trace = TraceBuilder::new()
        .event(Action::SegmentMap, base, 20 * MIB)
        .alloc(base, 4 * MIB)
        .event(Action::SegmentMap, base + 20 * MIB, 20 * MIB)
        .event(Action::SegmentMap, base + 60 * MIB, 20 * MIB)
        // Reaches over the border of two pieces.
        .alloc(base + 18 * MIB, 6 * MIB)
        .free(base, 4 * MIB)
        .alloc(base + 60 * MIB, MIB)
        .event(Action::SegmentMap, base + 40 * MIB, 20 * MIB)
        .free(base + 18 * MIB, 6 * MIB)
        // Cut in the middle: what lies to the left is wholly free now, what lies to the right is not.
        .event(Action::SegmentUnmap, base + 20 * MIB, 20 * MIB)
        .event(Action::SegmentUnmap, base + 40 * MIB, 20 * MIB)
        .alloc(base, MIB)
        .free(base + 60 * MIB, MIB)
        .event(Action::SegmentUnmap, base + 60 * MIB, 20 * MIB)
        .free(base, MIB)
        .build();
    let data = check(&trace);
    assert_eq!(data.moments.len(), trace.event_count() + 1, "every moment was looked at");
    // The same where neighbours serve different streams: they stay apart, and so a block that reaches over
    // the border cannot be. The sums hold all the same.
    trace.devices[0].events.stream_index(7);
    trace.devices[0].events.streams[2] = 1;
    check_sums(&trace);
}

/// Two streams and a private pool; frees that wait, and frees that do not.
#[test]
fn walls_between_streams_and_pools_are_kept_apart() {
    const MIB: u64 = 1 << 20;
    let mut builder = TraceBuilder::new();
    for (stream, base) in [(0, 1u64 << 40), (7, 2 << 40), (0, 3 << 40)] {
        builder =
            builder.stream(stream).segment_alloc(base, 20 * MIB).segment_alloc(base + (1 << 30), 2 * MIB);
        builder = builder.alloc(base, 4 * MIB).alloc(base + 4 * MIB, 8 * MIB).alloc(base + (1 << 30), MIB);
        builder =
            builder.free_requested(base, 4 * MIB).free(base + (1 << 30), MIB).alloc(base + (1 << 30), 512);
        builder = builder.free_completed(base, 4 * MIB).free(base + 4 * MIB, 8 * MIB);
    }
    let mut trace = builder.build();
    let pool = trace.pool_index(PoolId(0, 3));
    let private: Vec<usize> = (0..trace.event_count())
        .filter(|&event| trace.devices[0].events.addresses[event] >= 3 << 40)
        .collect();
    for event in private {
        trace.devices[0].events.pools.set(event, pool);
    }
    let device = &trace.devices[0];
    let history = crate::rebuild::rebuild(&trace, device);
    let grouping = Grouping::build(&trace, device, &history, GroupBy::Line);
    let extent = TimelineExtent { columns: 64, ..EXTENT };
    let data = timeline(device, &history, &grouping, &[], &StepTable::default(), extent);
    assert_eq!(data.moments.len(), trace.event_count() + 1, "every moment was looked at");
    for (sample, &moment) in data.moments.iter().enumerate() {
        assert_eq!(data.causes[sample], causes_at(&history, moment), "{moment:?}");
    }
    let last = data.causes.last().unwrap();
    assert_eq!((last.private_pool_bytes, last.other_stream_bytes), (22 * MIB - 512, 22 * MIB - 512));
    assert_eq!((last.releasable_cache_bytes, last.split_remainder_bytes), (20 * MIB, 2 * MIB - 512));
    assert!(data.causes.iter().any(|causes| causes.pending_free_bytes == 4 * MIB));
    assert!(data.causes.iter().all(|causes| causes.pending_free_bytes <= 4 * MIB), "no ordinary free waits");
}

#[test]
fn an_empty_recording_is_one_empty_sample() {
    let data = check(&Trace::default());
    assert_eq!((data.x, data.x_end, data.bands.len(), data.marks.len()), (vec![0], 0, 0, 0));
}
