//! Gates over small traces: held, broken, and what cannot be said.

use super::*;
use crate::analysis::{Options, analyze_file};
use crate::model::{Block, BlockState, Segment, Trace, TraceBuilder};

const MIB: u64 = 1 << 20;
const A: u64 = 0x7f00_0000_0000;

/// 40 MiB at the peak, 60 MiB reserved, recorded from the start.
fn whole() -> Trace {
    TraceBuilder::new()
        .at("train.py", 3, "step")
        .segment_alloc(A, 60 * MIB)
        .alloc(A, 40 * MIB)
        .free(A, 40 * MIB)
        .build()
}

/// The same behind a block that was there before.
fn late() -> Trace {
    let kept = Block {
        address: A - 20 * MIB,
        bytes: 2 * MIB,
        requested_bytes: 2 * MIB,
        state: BlockState::ActiveAllocated,
        ..Block::default()
    };
    let mut trace = whole();
    let before = Segment { address: A - 20 * MIB, bytes: 2 * MIB, blocks: vec![kept], ..Segment::default() };
    let after = Segment { address: A, bytes: 60 * MIB, ..Segment::default() };
    trace.devices[0].segments = Some(vec![before, after]);
    trace
}

fn outcome(trace: &Trace, gates: &Gates) -> Outcome {
    check(&analyze_file("x.pickle", trace, &Options::default()).unwrap(), gates).outcome
}

fn max_peak(mib: u64) -> Gates {
    Gates { max_peak_bytes: Some(mib * MIB), ..Gates::default() }
}

fn fail_on(name: &str) -> Gates {
    Gates { fail_on: vec![FailOn::named(name).unwrap()], ..Gates::default() }
}

#[test]
fn a_limit_holds_up_to_itself() {
    assert_eq!(outcome(&whole(), &max_peak(40)), Outcome::Passed);
    assert_eq!(outcome(&whole(), &max_peak(39)), Outcome::Failed);
    let reserved = |mib| Gates { max_reserved_bytes: Some(mib * MIB), ..Gates::default() };
    assert_eq!(outcome(&whole(), &reserved(60)), Outcome::Passed);
    assert_eq!(outcome(&whole(), &reserved(59)), Outcome::Failed);
}

#[test]
fn what_is_not_seen_leaves_a_held_limit_undecided_but_not_a_broken_one() {
    assert_eq!(outcome(&late(), &max_peak(100)), Outcome::Undecided);
    assert_eq!(outcome(&late(), &max_peak(41)), Outcome::Failed, "42 MiB were seen");
    let recorded_part = Gates { recorded_part: true, ..max_peak(100) };
    assert_eq!(outcome(&late(), &recorded_part), Outcome::Passed);
    let mut cut = whole();
    cut.complete = false;
    cut.warnings.add("truncated", || "x".to_owned());
    assert_eq!(outcome(&cut, &max_peak(40)), Outcome::Undecided);
    assert_eq!(outcome(&cut, &max_peak(39)), Outcome::Failed);
    assert_eq!(outcome(&cut, &Gates { recorded_part: true, ..max_peak(40) }), Outcome::Passed);
}

#[test]
fn a_gap_leaves_everything_undecided() {
    let mut gap = whole();
    gap.warnings.add("damaged-chunk", || "x".to_owned());
    for gates in [max_peak(40), max_peak(39), Gates { recorded_part: true, ..max_peak(40) }] {
        assert_eq!(outcome(&gap, &gates), Outcome::Undecided);
    }
    let mut lost = whole();
    lost.process.lost_events = 7;
    assert_eq!(outcome(&lost, &max_peak(40)), Outcome::Undecided);
}

#[test]
fn a_trace_without_devices_decides_nothing() {
    assert_eq!(outcome(&TraceBuilder::new().build(), &max_peak(1)), Outcome::Undecided);
}

#[test]
fn growth_needs_steps() {
    let gates = Gates { max_growth_bytes: Some(MIB), ..Gates::default() };
    assert_eq!(outcome(&whole(), &gates), Outcome::Undecided);
    let mut analysis = analyze_file("x.pickle", &whole(), &Options::default()).unwrap();
    analysis.facts.devices[0].step_ends = (0..10).map(|step| step * MIB).collect();
    assert_eq!(check(&analysis, &gates).outcome, Outcome::Passed, "exactly as much as is allowed");
    analysis.facts.devices[0].step_ends = (0..10).map(|step| step * (MIB + 1)).collect();
    assert_eq!(check(&analysis, &gates).outcome, Outcome::Failed);
}

#[test]
fn findings_that_must_not_be_there_are_gates_of_their_own() {
    let mut oom = TraceBuilder::new().segment_alloc(A, 60 * MIB).alloc(A, 40 * MIB);
    for hole in 0..10 {
        let at = A + (hole + 2) * 64 * MIB;
        oom = oom
            .segment_alloc(at, 40 * MIB)
            .alloc(at, 15 * MIB)
            .alloc(at + 15 * MIB, 25 * MIB)
            .free(at, 15 * MIB);
    }
    let oom = oom.oom(50 * MIB, 10 * MIB).build();
    assert_eq!(outcome(&oom, &fail_on("fragmentation")), Outcome::Failed);
    assert_eq!(outcome(&oom, &fail_on("error")), Outcome::Failed);
    assert_eq!(outcome(&oom, &fail_on("odd-schema")), Outcome::Passed);
    assert_eq!(outcome(&whole(), &fail_on("error")), Outcome::Passed);
}

#[test]
fn silence_of_a_rule_says_nothing_where_it_could_not_speak() {
    assert_eq!(outcome(&late(), &fail_on("fragmentation")), Outcome::Undecided);
    assert_eq!(outcome(&late(), &fail_on("odd-schema")), Outcome::Passed, "it speaks of the file itself");
    assert_eq!(outcome(&whole(), &fail_on("growth")), Outcome::Undecided, "no steps");
    assert_eq!(outcome(&whole(), &fail_on("rank-imbalance")), Outcome::Undecided, "one file");
}

#[test]
fn every_name_that_can_be_given_is_understood() {
    for name in FailOn::names() {
        assert_eq!(FailOn::named(name).map(FailOn::name), Some(name));
    }
    assert!(FailOn::named("leak").is_none());
}

#[test]
fn a_baseline_is_compared_device_by_device() {
    let text = |allocated: u64| {
        format!(
            "{{\"schema\": 1, \"traces\": [{{\"devices\": [{{\"device\": 0, \"peak\": {{\"allocated_bytes\": \
             {allocated}, \"reserved_bytes\": {}}}}}]}}]}}",
            60 * MIB
        )
    };
    let gates = |allocated, tolerance| {
        let baseline = Baseline::read(text(allocated).as_bytes(), "x.pickle").unwrap();
        Gates { baseline: Some((baseline, "old.json".to_owned(), tolerance)), ..Gates::default() }
    };
    assert_eq!(outcome(&whole(), &gates(40 * MIB, 0.0)), Outcome::Passed);
    assert_eq!(outcome(&whole(), &gates(40 * MIB - 1, 0.0)), Outcome::Failed);
    assert_eq!(outcome(&whole(), &gates(38 * MIB, 5.0)), Outcome::Failed);
    assert_eq!(outcome(&whole(), &gates(39 * MIB, 5.0)), Outcome::Passed);
    let other = TraceBuilder::new().device(1).segment_alloc(A, 60 * MIB).alloc(A, 40 * MIB).build();
    assert_eq!(outcome(&other, &gates(40 * MIB, 5.0)), Outcome::Undecided, "another device");
    let analysis = analyze_file("x.pickle", &whole(), &Options::default()).unwrap();
    let failed = check(&analysis, &gates(20 * MIB, 5.0));
    let reason = failed.gates[0].reason();
    assert!(
        reason.contains("100.0 % over the baseline's 20.0 MiB; train.py:3 step holds 40.0 MiB more"),
        "{reason}"
    );
}
