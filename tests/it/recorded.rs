//! What memlab's own recorder adds is read, kept and shown: modules, names, holders, readings, faults.

use std::fs;

use memlab::analysis::{self, Options};
use memlab::export;
use memlab::format::{self, WriteOptions};
use memlab::import::{self, ReadOptions};
use memlab::model::{
    DeviceFacts, Holder, Mark, MarkKind, NamedTensor, OptionalColumn, Sample, Trace, TraceBuilder,
};
use memlab::report::{CategoryRow, DeviceReport, LineRow, TraceReport};
use memlab::tables::GroupBy;
use serde_json::Value;

use crate::program::run;

const A: u64 = 0x7f00_0000_0000;
const MIB: u64 = 1 << 20;
const AUTOGRAD: &str = "/opt/venv/lib/python3.12/site-packages/torch/autograd/__init__.py";

/// One step of a model of two layers; the recorder noted modules from forward to optimizer.
pub(crate) fn step() -> Trace {
    let train = |line| ("train.py", line, "step");
    let mut trace = TraceBuilder::new()
        .segment_alloc(A, 40 * MIB)
        .stack(&[("model.py", 40, "forward"), train(10)])
        .alloc(A, 4 * MIB)
        .stack(&[("model.py", 41, "forward"), train(10)])
        .alloc(A + 4 * MIB, 2 * MIB)
        .stack(&[(AUTOGRAD, 374, "backward"), train(11)])
        .alloc(A + 6 * MIB, MIB)
        .stack(&[])
        .alloc(A + 7 * MIB, 4 * MIB)
        .alloc(A + 11 * MIB, 2 * MIB)
        .alloc(A + 13 * MIB, MIB)
        .stack(&[train(12)])
        .alloc(A + 14 * MIB, 3 * MIB)
        .build();
    let tags = [
        (1, "memlab:forward:blocks.0.up"),
        (2, "memlab:forward:blocks.0.down"),
        (3, "memlab:backward:"),
        (4, "memlab:backward:blocks.0.up"),
        (5, "memlab:backward:blocks.0.down"),
        (6, "a note of the user's own"),
        (7, "memlab:optimizer:AdamW"),
    ];
    for (event, text) in tags {
        let id = trace.strings.intern(text);
        trace.devices[0].events.user_metadata.set(event, id);
    }
    trace
}

fn report_by(trace: &Trace, group_by: GroupBy) -> TraceReport {
    analysis::analyze("x", trace, &Options { group_by, ..Options::default() }).unwrap()
}

fn device_by(trace: &Trace, group_by: GroupBy) -> DeviceReport {
    report_by(trace, group_by).devices.remove(0)
}

fn report(trace: &Trace) -> TraceReport {
    report_by(trace, GroupBy::Line)
}

/// Label, bytes held at the peak and the inferred part of them, in MiB.
fn held(lines: &[LineRow]) -> Vec<(String, u64, u64)> {
    let mib = |bytes| bytes / MIB;
    lines
        .iter()
        .map(|row| (row.label(), mib(row.figures.held_at_peak_bytes), mib(row.figures.inferred_bytes)))
        .collect()
}

fn written(trace: &Trace) -> Vec<u8> {
    let mut bytes = Vec::new();
    format::write(trace, &WriteOptions::default(), &mut bytes).unwrap();
    bytes
}

fn row(label: &str, held: u64, inferred: u64) -> (String, u64, u64) {
    (label.to_owned(), held, inferred)
}

#[test]
fn backward_bytes_go_to_the_forward_line_of_their_module() {
    let device = device_by(&step(), GroupBy::Line);
    let expected = [
        row("model.py:40 forward", 8, 4),
        row("model.py:41 forward", 4, 2),
        row("train.py:12 step", 3, 0),
        row("train.py:11 step", 2, 1),
        row("train.py:10 step", 0, 0),
    ];
    assert_eq!(held(&device.lines), expected);
    assert!(device.line_rule.contains("that module's forward pass"));
    // The same for files: both groupings are by position.
    let files = held(&device_by(&step(), GroupBy::File).lines);
    assert_eq!(files, [row("model.py", 12, 6), row("train.py", 5, 1)]);
}

#[test]
fn without_modules_lines_are_as_they_ever_were() {
    let mut trace = step();
    trace.devices[0].events.user_metadata = OptionalColumn::default();
    let device = device_by(&trace, GroupBy::Line);
    assert!(device.modules.is_none() && !device.line_rule.contains("module"));
    assert_eq!(held(&device.lines)[0], row("train.py:11 step", 8, 7));
    let keys = serde_json::to_value(&device).unwrap();
    for key in ["modules", "census", "outside", "self_check"] {
        assert!(keys.get(key).is_none(), "{key}");
    }
}

#[test]
fn modules_add_up_to_the_peak_and_say_how_much_of_the_backward_pass_is_named() {
    let device = device_by(&step(), GroupBy::Line);
    let modules = device.modules.unwrap();
    let names: Vec<_> = modules.rows.iter().map(|row| row.module.as_str()).collect();
    assert_eq!(names, ["blocks.0.up", "blocks.0.down", "AdamW"]);
    let up = &modules.rows[0];
    assert_eq!((up.forward.held_at_peak_bytes, up.backward.held_at_peak_bytes), (4 * MIB, 4 * MIB));
    assert_eq!((up.total.allocations, up.total.total_bytes), (2, 8 * MIB));
    assert_eq!(up.forward_line.as_ref().unwrap().label(), "model.py:40 forward");
    assert_eq!(modules.rows[2].optimizer.total_bytes, 3 * MIB);
    let sum: u64 = modules.rows.iter().map(|row| row.total.held_at_peak_bytes).sum();
    assert_eq!(sum + modules.unnamed.held_at_peak_bytes, device.peak.allocated_bytes);
    assert_eq!((modules.backward_bytes, modules.backward_named_bytes), (8 * MIB, 6 * MIB));
}

#[test]
fn a_named_module_is_its_own_group_and_nothing_is_lost_in_any_grouping() {
    let trace = step();
    let modules = device_by(&trace, GroupBy::Module);
    let expected = [
        row("blocks.0.up", 8, 0),
        row("blocks.0.down", 4, 0),
        row("AdamW", 3, 0),
        // The call of backward(), and what it allocated without a module.
        row("train", 2, 1),
    ];
    assert_eq!(held(&modules.lines)[..4], expected);
    assert_eq!(modules.lines[2].active_peak_on_stack_bytes, 17 * MIB);
    for by in GroupBy::ALL {
        let device = device_by(&trace, by);
        let sum: u64 = device.lines.iter().map(|row| row.figures.held_at_peak_bytes).sum();
        assert_eq!(sum + device.unattributed.held_at_peak_bytes, 17 * MIB, "{by}");
    }
}

fn tensor(address: u64, bytes: u64, kind: &str, name: &str) -> NamedTensor {
    NamedTensor {
        address,
        bytes,
        kind: kind.to_owned(),
        name: name.to_owned(),
        dtype: "torch.float32".to_owned(),
        shape: vec![bytes / 4],
        time_us: 1_000_500,
        events: Some(9),
        ..NamedTensor::default()
    }
}

/// The step runs out of memory; the recorder wrote down all that it knows.
pub(crate) fn failed() -> Trace {
    let mut trace = step();
    let oom = TraceBuilder::new().at("train.py", 13, "step").oom(64 * MIB, 90 * MIB).build();
    let mut event = oom.devices[0].events.get(0);
    event.time_us = 1_000_400;
    event.stack = trace.devices[0].events.stacks[7];
    trace.devices[0].events.push(event);
    trace.tensors = vec![
        tensor(A, 4 * MIB - 4, "activation", ""),
        tensor(A + 7 * MIB, 4 * MIB, "gradient", "blocks.0.up.weight"),
        tensor(A + 14 * MIB, 3 * MIB, "optimizer_state", "blocks.0.up.weight.exp_avg"),
        tensor(A + 39 * MIB, 7, "parameter", "gone"),
    ];
    "MulBackward0".clone_into(&mut trace.tensors[0].grad_fn);
    let holder = |address, path: &str| Holder {
        address,
        path: path.to_owned(),
        time_us: 1_000_500,
        events: Some(9),
        ..Holder::default()
    };
    trace.holders =
        vec![holder(A + 4 * MIB, "local history in train()"), holder(A, "module train: CACHE.data[12]")];
    let mark = |kind, name: &str, time_us| Mark { kind, name: name.to_owned(), time_us, begins: None };
    trace.marks = vec![mark(MarkKind::Step, "0", 1_000_000), mark(MarkKind::Phase, "forward", 1_000_001)];
    trace.process.devices = vec![DeviceFacts {
        name: "NVIDIA H200".to_owned(),
        total_bytes: Some(200 * MIB),
        ..Default::default()
    }];
    trace.process.other.insert("memory_fraction".to_owned(), serde_json::json!({"0": 0.25}));
    trace.process.other.insert("backend".to_owned(), "native".into());
    trace.samples = vec![sample(0, 195, 0, 0), sample(3, 100, 6, 40), sample(9, 90, 17, 40)];
    trace
}

/// What PyTorch and the driver say after `events` events.
fn sample(events: u64, free_mib: u64, allocated_mib: u64, reserved_mib: u64) -> Sample {
    let mib = |value: u64| (value * MIB) as i64;
    let stats = [
        ("allocated_bytes.all.current", mib(allocated_mib)),
        ("active_bytes.all.current", mib(allocated_mib)),
        ("requested_bytes.all.current", mib(allocated_mib)),
        ("reserved_bytes.all.current", mib(reserved_mib)),
        ("num_ooms", i64::from(events == 9)),
    ];
    Sample {
        time_us: 1_000_000 + 10 * events as i64 - 5,
        events: Some(events),
        free_bytes: Some(free_mib * MIB),
        total_bytes: Some(200 * MIB),
        stats: stats.into_iter().map(|(name, value)| (name.into(), value)).collect(),
        ..Sample::default()
    }
}

fn kinds(rows: &[CategoryRow]) -> Vec<(&str, u64)> {
    rows.iter().map(|row| (row.kind.as_str(), row.block_bytes / MIB)).collect()
}

#[test]
fn kinds_names_and_holders_are_known_at_the_failure() {
    let report = report(&failed());
    let device = &report.devices[0];
    let census = device.census.as_ref().unwrap();
    let expected = [("activation", 4), ("gradient", 4), ("optimizer_state", 3), ("unknown", 6)];
    assert_eq!(kinds(census.categories.at_oom.as_ref().unwrap()), expected);
    assert_eq!(kinds(&census.categories.at_peak), expected);
    assert_eq!(census.categories.at_end[0].bytes, 4 * MIB - 4, "the storage's bytes, not the block's");
    assert_eq!((census.count, census.unmatched_tensors, census.unmatched_bytes), (1, 1, 7));
    let first = &census.tensors[0];
    assert_eq!(
        (first.grad_fn.as_str(), first.line.as_deref()),
        ("MulBackward0", Some("model.py:40 forward"))
    );
    assert!(first.live_at_peak && first.live_at_end);
    let holders: Vec<_> = census.holders.iter().map(|row| (row.path.as_str(), row.bytes)).collect();
    let expected =
        [("module train: CACHE.data[12]", Some(4 * MIB)), ("local history in train()", Some(2 * MIB))];
    assert_eq!(holders, expected);
    assert_eq!(census.holders[0].kind.as_deref(), Some("activation"));
}

#[test]
fn a_stated_fraction_makes_the_verdict_certain() {
    let verdict = |fraction: f64| {
        let mut trace = failed();
        trace.process.other.insert("memory_fraction".to_owned(), fraction.into());
        report(&trace).devices[0].ooms[0].clone()
    };
    let capped = verdict(0.4);
    assert_eq!((capped.verdict.as_str(), capped.cap_bytes), ("memory-cap", Some(80 * MIB)));
    assert!(capped.explanation.iter().any(|text| text.contains("allows 80.0 MiB in all")), "{capped:?}");
    // What is left of a higher limit and the free pieces would do together.
    assert_eq!(verdict(0.45).verdict, "fragmentation");
    // 64 MiB never fit into 50.
    assert_eq!(verdict(0.25).verdict, "huge-request");
    // The recorder saw no limit: then it was the driver.
    assert_eq!(verdict(1.0).verdict, "driver-refused");
}

#[test]
fn readings_show_what_lies_outside_and_prove_the_figures() {
    let trace = failed();
    let report = report(&trace);
    let outside = report.devices[0].outside.as_ref().unwrap();
    assert_eq!((outside.max_bytes, outside.max_event, outside.end_bytes), (70 * MIB, Some(8), 70 * MIB));
    assert_eq!(outside.series.iter().map(|point| point.bytes / MIB).collect::<Vec<_>>(), [5, 60, 70]);
    let check = report.devices[0].self_check.as_ref().unwrap();
    assert_eq!((check.samples, check.equal), (3, 3));
    assert!(report.complete && report.warnings.is_empty(), "{:?}", report.warnings);
}

#[test]
fn a_counter_that_differs_and_a_lost_event_are_said() {
    let mut trace = failed();
    trace.samples[1].stats.insert("active_bytes.all.current".into(), 5);
    trace.process.lost_events = 12;
    trace.warnings.add("other-recorder", || "another recorder is active".to_owned());
    let text = "census cut off after 2 s";
    for name in [text, "lost 12 events", "another recorder is active"] {
        let name = name.to_owned();
        trace.marks.push(Mark { kind: MarkKind::Fault, name, time_us: 1_000_400, begins: None });
    }
    let report = report(&import::read_bytes(&written(&trace), &ReadOptions::default()).unwrap());
    let warnings: Vec<_> = report.warnings.iter().map(|row| (row.kind.as_str(), row.count)).collect();
    let expected = [("lost-events", 12), ("other-recorder", 1), ("recorder-fault", 1), ("self-check", 1)];
    assert_eq!(warnings, expected);
    assert_eq!(report.warnings[2].text, text);
    assert!(!report.complete);
    let first = report.devices[0].self_check.as_ref().unwrap().first_difference.as_ref().unwrap();
    assert_eq!((first.event, first.recorded, first.rebuilt), (Some(2), 5, 6 * MIB));
    assert_eq!(first.counter, "active_bytes.all.current");
}

#[test]
fn file_and_snapshot_keep_all_of_it() {
    let trace = failed();
    let figures = |trace: &Trace| {
        let mut value = serde_json::to_value(report(trace)).unwrap();
        value.as_object_mut().unwrap().remove("format");
        value
    };
    let bytes = written(&trace);
    let from_file = import::read_bytes(&bytes, &ReadOptions::default()).unwrap();
    assert_eq!(figures(&trace), figures(&from_file));
    assert_eq!(written(&from_file), bytes, "the same trace gives the same bytes");
    let mut pickle = Vec::new();
    export::write_snapshot(&from_file, &mut pickle).unwrap();
    let from_snapshot = import::read_bytes(&pickle, &ReadOptions::default()).unwrap();
    assert_eq!(from_snapshot.samples, trace.samples);
    assert_eq!((from_snapshot.tensors, from_snapshot.holders), (trace.tensors, trace.holders));
}

#[test]
fn every_cut_of_the_file_gives_a_report() {
    let bytes = written(&failed());
    for length in (9..bytes.len()).step_by(7) {
        if let Ok(trace) = import::read_bytes(&bytes[..length], &ReadOptions::default()) {
            assert!(!report(&trace).complete, "{length}");
        }
    }
}

#[test]
fn the_program_shows_all_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.msgpack");
    fs::write(&path, written(&failed())).unwrap();
    let path = path.to_string_lossy();
    let shown = |arguments: &[&str]| {
        let done = run(arguments);
        assert_eq!(done.code, Some(0), "{arguments:?}: {}", done.stderr);
        done.stdout
    };
    let summary = shown(&["analyze", &path]);
    for part in [
        "at the OOM: activation ",
        "4.0 MiB held by module train: CACHE.data[12]",
        "outside the allocator: 70.0 MiB",
    ] {
        assert!(summary.contains(part), "{part}:\n{summary}");
    }
    let lines = shown(&["lines", &path]);
    assert!(
        lines.contains("blocks.0.up") && lines.contains("6.0 MiB (75.0 %) carry a module's name"),
        "{lines}"
    );
    let json: Value = serde_json::from_str(&shown(&["lines", &path, "--json"])).unwrap();
    assert_eq!(json["devices"][0]["modules"]["backward_named_bytes"], 6 * MIB);
    let json: Value = serde_json::from_str(&shown(&["analyze", &path, "--json"])).unwrap();
    let device = &json["traces"][0]["devices"][0];
    assert_eq!(device["census"]["categories"]["at_oom"][0]["kind"], "activation");
    assert_eq!(device["self_check"]["equal"], 3);
    let info = shown(&["info", &path]);
    assert!(info.contains("3 samples"), "{info}");
}
