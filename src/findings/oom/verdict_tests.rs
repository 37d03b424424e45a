//! Why requests failed, by small traces.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::findings::judge_all;
use crate::model::{FREE_UNKNOWN, PoolId, SettingValue, Trace, TraceBuilder};
use crate::rebuild::rebuild;

const MIB: u64 = 1 << 20;
const A: u64 = 0x7f00_0000_0000;

fn judged(builder: TraceBuilder, total: Option<u64>) -> Verdict {
    judged_trace(&builder.build(), total)
}

fn judged_trace(trace: &Trace, total: Option<u64>) -> Verdict {
    let history = rebuild(trace, &trace.devices[0]);
    judge_all(trace, &trace.devices[0], &history, total, &history.ooms)[0].verdict.clone()
}

fn comb(holes: u64) -> TraceBuilder {
    let mut builder = TraceBuilder::new();
    for index in 0..holes {
        let at = A + index * 64 * MIB;
        builder = builder.segment_alloc(at, 40 * MIB).alloc(at, 15 * MIB).alloc(at + 15 * MIB, 25 * MIB);
        builder = builder.free(at, 15 * MIB);
    }
    builder
}

#[test]
fn holes_that_would_do_in_sum_are_fragmentation() {
    let verdict = judged(comb(10).oom(50 * MIB, 10 * MIB), Some(1000 * MIB));
    assert_eq!(verdict.kind, VerdictKind::Fragmentation);
    assert_eq!(verdict.sums.largest_free_block_bytes, 15 * MIB);
}

#[test]
fn a_full_device_is_capacity() {
    let full = TraceBuilder::new().segment_alloc(A, 400 * MIB).alloc(A, 400 * MIB);
    let verdict = judged(full.oom(64 * MIB, 10 * MIB), Some(500 * MIB));
    assert_eq!(verdict.kind, VerdictKind::Capacity);
    assert!(verdict.explanation[1].contains("54.0 MiB too little"), "{:?}", verdict.explanation);
}

#[test]
fn a_pending_block_that_fits_comes_before_capacity() {
    let run = TraceBuilder::new().segment_alloc(A, 400 * MIB).alloc(A, 400 * MIB);
    let verdict = judged(run.free_requested(A, 400 * MIB).oom(400 * MIB, 0), None);
    assert_eq!((verdict.kind, verdict.sums.pending_free_bytes), (VerdictKind::PendingAtOom, 400 * MIB));
}

#[test]
fn a_request_above_the_device_is_huge() {
    let verdict = judged(comb(1).oom(2000 * MIB, 900 * MIB), Some(1000 * MIB));
    assert_eq!(verdict.kind, VerdictKind::HugeRequest);
}

#[test]
fn room_on_the_device_means_a_cap_unless_more_was_held_before() {
    let held = || TraceBuilder::new().segment_alloc(A, 400 * MIB).alloc(A, 400 * MIB);
    assert_eq!(judged(held().oom(64 * MIB, 900 * MIB), None).kind, VerdictKind::MemoryCap);
    let shrunk = held().segment_alloc(A + (1 << 30), 200 * MIB).segment_free(A + (1 << 30), 200 * MIB);
    assert_eq!(judged(shrunk.oom(64 * MIB, 900 * MIB), None).kind, VerdictKind::DriverRefused);
    let conf = SettingValue::Text("per_process_memory_fraction:0.5".to_owned());
    let capped = held().setting("PYTORCH_CUDA_ALLOC_CONF", conf).oom(64 * MIB, 900 * MIB);
    assert!(judged(capped, None).explanation[1].contains("per_process_memory_fraction:0.5"));
}

#[test]
fn a_stated_fraction_makes_the_cap_certain() {
    let judged_with = |fraction: serde_json::Value, total: Option<u64>| {
        let held = TraceBuilder::new().segment_alloc(A, 400 * MIB).alloc(A, 400 * MIB);
        let mut trace = held.oom(64 * MIB, 900 * MIB).build();
        trace.process.other.insert("memory_fraction".to_owned(), fraction);
        judged_trace(&trace, total)
    };
    let capped = judged_with(0.3.into(), Some(1400 * MIB));
    assert_eq!(capped.kind, VerdictKind::MemoryCap);
    assert!(capped.explanation[1].contains("allows 420.0 MiB in all"), "{:?}", capped.explanation);
    assert_eq!((capped.cause, capped.missing_bytes()), (VerdictKind::Capacity, 44 * MIB));
    // A fraction that does not explain the refusal leaves the driver.
    for (fraction, total) in [(0.9, Some(1400 * MIB)), (1.0, None)] {
        let verdict = judged_with(fraction.into(), total);
        assert_eq!(verdict.kind, VerdictKind::DriverRefused);
        assert!(
            verdict.explanation[1].contains("no limit on this process is known"),
            "{:?}",
            verdict.explanation
        );
    }
    let other = judged_with(serde_json::json!({"1": 0.1}), None);
    assert!(other.explanation[1].contains("leaves no mark"), "{:?}", other.explanation);
}

#[test]
fn crumbs_on_a_nearly_full_device_are_near_capacity() {
    let run = TraceBuilder::new().segment_alloc(A, 400 * MIB).alloc(A, 393 * MIB).oom(12 * MIB, 8 * MIB);
    assert_eq!(judged(run, Some(420 * MIB)).kind, VerdictKind::NearCapacity);
}

#[test]
fn what_others_hold_can_be_the_difference() {
    let run = TraceBuilder::new().segment_alloc(A, 400 * MIB).alloc(A, 400 * MIB);
    let verdict = judged(run.oom(100 * MIB, 10 * MIB), Some(4000 * MIB));
    assert_eq!(verdict.kind, VerdictKind::OutsideAllocator);
    // Less than twice the usual is no reason beyond doubt.
    let run = TraceBuilder::new().segment_alloc(A, 400 * MIB).alloc(A, 400 * MIB);
    assert_eq!(judged(run.oom(100 * MIB, 10 * MIB), Some(2400 * MIB)).kind, VerdictKind::Capacity);
}

#[test]
fn failures_under_one_limit_bound_it_together() {
    let run = TraceBuilder::new().segment_alloc(A, 400 * MIB).alloc(A, 400 * MIB).oom(200 * MIB, 9000 * MIB);
    let run =
        run.segment_alloc(A + 1024 * MIB, 60 * MIB).alloc(A + 1024 * MIB, 60 * MIB).oom(30 * MIB, 9000 * MIB);
    let trace = run.build();
    let history = rebuild(&trace, &trace.devices[0]);
    let judged = judge_all(&trace, &trace.devices[0], &history, None, &history.ooms);
    let verdict = &judged[0].verdict;
    let cap = verdict.refusal.cap().unwrap();
    assert_eq!((cap.at_least_bytes, cap.below_bytes), (460 * MIB, 490 * MIB));
    assert_eq!((verdict.missing_bytes(), verdict.missing_at_least_bytes()), (140 * MIB, 110 * MIB + 1));
    assert_eq!(judged[1].verdict.refusal, verdict.refusal);
}

#[test]
fn a_known_device_without_a_limit_leaves_the_driver() {
    let held = TraceBuilder::new().segment_alloc(A, 400 * MIB).alloc(A, 400 * MIB).oom(64 * MIB, 900 * MIB);
    assert_eq!(judged(held.clone(), Some(1400 * MIB)).kind, VerdictKind::DriverRefused);
    assert_eq!(judged(held, None).kind, VerdictKind::MemoryCap);
}

#[test]
fn pieces_under_a_limit_are_fragmentation_and_the_limit_is_told() {
    let verdict = judged(comb(10).oom(50 * MIB, 9000 * MIB), None);
    assert_eq!((verdict.kind, verdict.cause), (VerdictKind::Fragmentation, VerdictKind::Fragmentation));
    assert!(verdict.refusal.cap().is_some());
    assert!(verdict.explanation[2].contains("the process is limited to a part"), "{:?}", verdict.explanation);
    // What is stated to be left of the limit counts: 160 MiB in sum.
    let mut trace = comb(10).oom(155 * MIB, 9000 * MIB).build();
    trace.process.other.insert("memory_fraction".to_owned(), 0.041.into());
    assert_eq!(judged_trace(&trace, Some(10_000 * MIB)).kind, VerdictKind::Fragmentation);
    trace.process.other.insert("memory_fraction".to_owned(), 0.0402.into());
    let short = judged_trace(&trace, Some(10_000 * MIB));
    assert_eq!((short.kind, short.cause), (VerdictKind::MemoryCap, VerdictKind::Capacity));
}

#[test]
fn crumbs_under_a_limit_are_its_cause() {
    let run = TraceBuilder::new().segment_alloc(A, 400 * MIB).alloc(A, 393 * MIB).stream(3);
    let verdict = judged(run.oom(6 * MIB, 9000 * MIB), None);
    assert_eq!((verdict.kind, verdict.cause), (VerdictKind::MemoryCap, VerdictKind::NearCapacity));
}

#[test]
fn what_no_recording_shows_is_unknown() {
    // A block that fits was there: the request was for another pool, or this is not what the allocator had.
    let run = TraceBuilder::new().segment_alloc(A, 400 * MIB).alloc(A, 300 * MIB);
    let fits = judged(run.clone().oom(64 * MIB, MIB), Some(420 * MIB));
    assert_eq!(fits.kind, VerdictKind::Unknown);
    assert!(fits.explanation[1].contains("would have served"), "{:?}", fits.explanation);
    // Nothing says what the device had.
    let unsaid = run.oom(200 * MIB, FREE_UNKNOWN);
    assert_eq!(judged(unsaid.clone(), None).kind, VerdictKind::Unknown);
    assert_eq!(judged(unsaid, Some(310 * MIB)).kind, VerdictKind::Capacity);
    // Nothing says what was held.
    assert_eq!(judged(TraceBuilder::new().oom(64 * MIB, MIB), None).kind, VerdictKind::Unknown);
}

#[test]
fn slack_of_other_pools_does_not_count() {
    let run = comb(2).segment_alloc(A + 4096 * MIB, 400 * MIB).oom(64 * MIB, MIB);
    let private = |pool: PoolId| {
        let mut trace = run.clone().build();
        let index = trace.pool_index(pool);
        let segment = trace.devices[0].events.len() - 2;
        trace.devices[0].events.pools.set(segment, index);
        judged_trace(&trace, Some(600 * MIB))
    };
    let verdict = private(PoolId(0, 1));
    assert_eq!((verdict.kind, verdict.sums.private_free_bytes), (VerdictKind::Capacity, 400 * MIB));
    assert_eq!(verdict.sums.slack_bytes, 30 * MIB);
}

#[test]
fn a_block_kept_for_larger_requests_is_no_hole() {
    let run = TraceBuilder::new().setting("max_split_size", SettingValue::Int(128 << 20));
    let run = run.segment_alloc(A, 400 * MIB).alloc(A, 100 * MIB).segment_alloc(A + 1024 * MIB, 200 * MIB);
    let verdict = judged(run.alloc(A + 1024 * MIB, 200 * MIB).oom(64 * MIB, MIB), Some(620 * MIB));
    assert_eq!((verdict.kind, verdict.sums.largest_free_block_bytes), (VerdictKind::Fragmentation, 0));
    assert_eq!(verdict.sums.largest_elsewhere_bytes, 300 * MIB);
}

#[test]
fn granules_of_expandable_segments_need_their_room() {
    let run = TraceBuilder::new().setting("expandable_segments", SettingValue::Bool(true));
    let run = run.event(crate::model::Action::SegmentMap, A, 400 * MIB).alloc(A, 400 * MIB);
    // 2 MiB are asked for, but 20 are mapped at a time.
    let full = judged(run.clone().oom(2 * MIB, 10 * MIB), Some(420 * MIB));
    assert_eq!(full.kind, VerdictKind::NearCapacity);
    assert!(full.explanation[1].contains("for 20.0 MiB at a time"), "{:?}", full.explanation);
    assert_eq!(judged(run.oom(2 * MIB, 30 * MIB), None).kind, VerdictKind::MemoryCap);
}
