//! Why requests failed, by small traces.

use super::*;
use crate::model::{DeviceId, SettingValue, Trace, TraceBuilder};
use crate::rebuild::{Moment, rebuild};

const MIB: u64 = 1 << 20;
const A: u64 = 0x7f00_0000_0000;

fn judged(builder: TraceBuilder, total: Option<u64>) -> Verdict {
    judged_trace(&builder.build(), total)
}

fn judged_trace(trace: &Trace, total: Option<u64>) -> Verdict {
    let history = rebuild(trace, &trace.devices[0]);
    let oom = &history.ooms[0];
    judge(&OomFacts {
        oom,
        state: &history.state_at(Moment(oom.event)),
        pool: PoolId::DEFAULT,
        total_bytes: total,
        peaks: &history.peaks,
        settings: &trace.settings,
        memory_fraction: trace.memory_fraction(DeviceId(0)),
    })
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
    assert_eq!(verdict.largest_free_block_bytes, 15 * MIB);
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
    assert_eq!((verdict.kind, verdict.pending_free_bytes), (VerdictKind::PendingAtOom, 400 * MIB));
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
    // A fraction that does not explain the refusal may have been lowered since.
    for (fraction, total) in [(0.9, Some(1400 * MIB)), (1.0, None)] {
        let verdict = judged_with(fraction.into(), total);
        assert_eq!(verdict.kind, VerdictKind::MemoryCap);
        assert!(verdict.explanation[1].contains("or the driver refused"), "{:?}", verdict.explanation);
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
}
