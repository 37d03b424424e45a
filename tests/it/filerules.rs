//! Rules about the recording itself, about several devices in one file, and about several files of one job.

use std::collections::BTreeSet;

use memlab::import::{self, ReadOptions};
use memlab::report::{FindingRow, TraceReport};
use serde_json::{Value, json};

use crate::inputs::{Analyzed, analyze, analyzed, analyzed_path, testdata};
use crate::sandbox::Sandbox;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const A: u64 = 0x7f00_0000_0000;

fn found<'a>(report: &'a TraceReport, rule: &str) -> Option<&'a FindingRow> {
    report.findings.iter().find(|finding| finding.rule == rule)
}

fn rules(report: &TraceReport) -> BTreeSet<&str> {
    report.findings.iter().map(|finding| finding.rule.as_str()).collect()
}

/// A recording, of which the emitter's are named with their ending: the right values lie beside them.
fn any(folder: &'static str, name: &str) -> &'static Analyzed {
    match folder {
        "emitter" => analyzed_path(&testdata(folder).join(name)),
        _ => analyzed(folder, name),
    }
}

fn report_of(snapshot: &Value) -> TraceReport {
    analyze(&import::read_bytes(snapshot.to_string().as_bytes(), &ReadOptions::default()).unwrap())
}

fn json_of(path: &str) -> Value {
    serde_json::from_slice(&std::fs::read(testdata(path)).unwrap()).unwrap()
}

/// Events in the shape of a snapshot, 10 us apart.
#[derive(Default)]
struct Tape {
    events: Vec<Value>,
    notes: Vec<Value>,
    next: u64,
    line: Option<(&'static str, u64)>,
}

impl Tape {
    fn time(&self) -> u64 {
        1_000_000 + 10 * (self.events.len() + self.notes.len()) as u64
    }

    fn event(&mut self, action: &str, address: u64, size: u64) {
        let frame = |(file, line): (&str, u64)| json!({ "filename": file, "line": line, "name": "f" });
        let frames: Vec<Value> = self.line.into_iter().map(frame).collect();
        let time = self.time();
        self.events.push(json!({ "action": action, "addr": address, "size": size, "stream": 0,
            "time_us": time, "frames": frames }));
    }

    /// A segment of its own for `size` bytes from `line`.
    fn keep(&mut self, line: &'static str, size: u64) -> u64 {
        let address = A + self.next;
        self.next += size.next_multiple_of(2 * MIB) + 2 * MIB;
        self.line = Some((line, 9));
        self.event("segment_alloc", address, size.next_multiple_of(2 * MIB));
        self.event("alloc", address, size);
        address
    }

    fn free(&mut self, address: u64, size: u64) {
        self.event("free_requested", address, size);
        self.event("free_completed", address, size);
    }

    fn note(&mut self, name: &str, stage: &str) {
        let time = self.time();
        self.notes.push(json!({ "device": 0, "name": name, "stage": stage, "time_us": time }));
    }

    fn snapshot(self) -> Value {
        json!({ "segments": [], "device_traces": [self.events], "external_annotations": self.notes })
    }
}

#[test]
fn recordings_that_begin_late_are_told_and_full_ones_are_not() {
    for (folder, name) in [
        ("torch", "ring"),
        ("public", "no_events"),
        ("public", "no_history"),
        ("public", "one_event"),
        ("public", "oldest_form"),
        ("public", "training_starts_late"),
        ("public", "lm_fullstep"),
    ] {
        let report = &analyzed(folder, name).report;
        let finding =
            found(report, "history-incomplete").unwrap_or_else(|| panic!("{name}: nothing was found"));
        assert_eq!(finding.severity, "warning", "{name}");
        assert_eq!(
            finding.evidence["peak_allocated_bytes"], report.devices[0].peak.allocated_bytes,
            "{name}"
        );
    }
    for (folder, name) in [
        ("torch", "cnn"),
        ("torch", "gpt"),
        ("torch", "gpt_cpp"),
        ("torch", "oom"),
        ("torch", "noleak"),
        ("torch", "streams"),
        ("torch", "varlen.expandable"),
        ("torch", "vision.gc0.6_cap100"),
        ("gpu", "graph_pools"),
        ("gpu", "cache_flush_every_step"),
        ("public", "pure_cache"),
        ("emitter", "gpt.msgpack"),
        ("emitter", "oom.msgpack"),
    ] {
        let report = &any(folder, name).report;
        assert!(found(report, "history-incomplete").is_none(), "{name}: {:?}", report.findings);
    }
}

#[test]
fn the_bytes_from_before_a_ring_are_exact() {
    let report = &analyzed("torch", "ring").report;
    let finding = found(report, "history-incomplete").unwrap();
    let device = &report.devices[0];
    let without_line = device.unattributed.held_at_peak_bytes;
    assert_eq!(finding.evidence["before_recording_without_stack_bytes"], without_line, "and nothing else is");
    assert!(finding.bytes > without_line && finding.bytes <= device.initial.allocated_bytes);
    assert_eq!(finding.evidence["before_recording_allocations"], device.history.initial_allocations);
    assert!(finding.remedy.contains("max_entries: the 2,000 events"), "{}", finding.remedy);
}

#[test]
fn a_cut_file_is_incomplete() {
    let path = testdata("emitter").join("cnn.msgpack");
    let bytes = std::fs::read(path).unwrap();
    let report = analyze(&import::read_bytes(&bytes[..bytes.len() - 100], &ReadOptions::default()).unwrap());
    assert!(!report.complete);
    assert!(found(&report, "history-incomplete").is_some_and(|finding| finding.severity == "warning"));
}

#[test]
fn backward_bytes_without_stacks_are_worth_knowing_from_a_tenth_on() {
    let gpt = &analyzed("torch", "gpt").report;
    assert!(found(gpt, "stacks-missing").is_none(), "7.8 %");
    for (folder, name) in [("torch", "cnn"), ("torch", "vision.default")] {
        let report = &any(folder, name).report;
        let finding = found(report, "stacks-missing").unwrap_or_else(|| panic!("{name}: nothing was found"));
        let device = &report.devices[0];
        let inferred: u64 = device.lines.iter().map(|line| line.figures.inferred_bytes).sum();
        assert_eq!((finding.severity, &finding.evidence["cause"]), ("info", &json!("backward")), "{name}");
        assert_eq!(finding.evidence["backward_inferred_bytes"], inferred, "{name}");
        assert!(!finding.lines.is_empty(), "{name}");
    }
    for name in ["gpt_cpp", "compiled"] {
        assert!(found(&analyzed("torch", name).report, "stacks-missing").is_none(), "{name} has C++ frames");
    }
    let named = &any("emitter", "cnn.msgpack").report;
    assert!(found(named, "stacks-missing").is_none(), "its modules are known");
}

#[test]
fn what_has_no_stack_because_it_came_before_says_so() {
    for name in ["no_events", "inference", "lm_forward"] {
        let report = &analyzed("public", name).report;
        let finding = found(report, "stacks-missing").unwrap_or_else(|| panic!("{name}: nothing was found"));
        assert_eq!((finding.severity, &finding.evidence["cause"]), ("info", &json!("before-recording")));
        assert_eq!(finding.bytes, report.devices[0].unattributed.held_at_peak_bytes, "{name}");
    }
}

#[test]
fn three_blocks_without_frames_have_three_causes() {
    let ghost = A - 8 * GIB;
    let mut tape = Tape::default();
    let forward = tape.keep("model.py", 100 * MIB);
    tape.note("backward", "START");
    tape.line = None;
    tape.event("segment_alloc", A + 4 * GIB, 60 * MIB);
    tape.event("alloc", A + 4 * GIB, 60 * MIB);
    tape.note("backward", "END");
    tape.event("segment_alloc", A + 5 * GIB, 40 * MIB);
    tape.event("alloc", A + 5 * GIB, 40 * MIB);
    let mut snapshot = tape.snapshot();
    let segment = |address: u64, mib: u64| {
        json!({ "device": 0, "address": address, "total_size": mib * MIB, "stream": 0, "segment_type": "large",
            "blocks": [{ "address": address, "size": mib * MIB, "requested_size": mib * MIB,
                "state": "active_allocated" }] })
    };
    snapshot["segments"] = json!([
        segment(ghost, 80),
        segment(forward, 100),
        segment(A + 4 * GIB, 60),
        segment(A + 5 * GIB, 40)
    ]);
    let report = report_of(&snapshot);
    let finding = found(&report, "stacks-missing").unwrap();
    let names = ["before_recording_bytes", "backward_bytes", "setting_bytes", "frameless_bytes"];
    let mib = names.map(|name| finding.evidence[name].as_u64().unwrap() / MIB);
    assert_eq!(mib, [80, 60, 40, 180]);
    assert_eq!(finding.evidence["cause"], "before-recording");
}

#[test]
fn impossible_values_are_reported_as_such() {
    let report = &analyzed("public", "impossible_values").report;
    let finding = found(report, "odd-schema").unwrap();
    assert_eq!(finding.severity, "warning");
    assert!(finding.title.contains("20 impossible values"), "{}", finding.title);
    assert_eq!(finding.evidence["impossible_value"], 20);
    let history = found(report, "history-incomplete").expect("it has no free_requested at all");
    assert_eq!(history.severity, "info", "{}", history.title);
}

#[test]
fn sound_files_are_not_odd() {
    for folder in ["torch", "gpu", "cases", "public"] {
        for path in crate::inputs::recordings(folder) {
            if path.to_string_lossy().contains("impossible_values") {
                continue;
            }
            let report = &analyzed_path(&path).report;
            assert!(found(report, "odd-schema").is_none(), "{}: {:?}", path.display(), report.warnings);
        }
    }
}

/// Every event of `snapshot` through `change`; events for which it says no are left out.
fn changed(snapshot: &Value, mut change: impl FnMut(&mut Value) -> bool) -> Value {
    let mut snapshot = snapshot.clone();
    snapshot["device_traces"][0].as_array_mut().unwrap().retain_mut(|event| change(event));
    snapshot
}

#[test]
fn drifting_shapes_of_one_content_give_the_same_findings() {
    let base = json_of("cases/C16_loss_kept.json");
    let first = report_of(&base);
    let expected = rules(&first);
    let mut newer = changed(&base, |event| {
        event["compile_context"] = json!("N/A");
        event["user_metadata"] = json!("");
        event["pool_id"] = json!([0, 0]);
        true
    });
    newer["trace_alloc_overflowed"] = json!(false);
    newer["trace_alloc_max_entries"] = json!(1_000_000);
    let older = changed(&base, |event| {
        event.as_object_mut().unwrap().remove("stream");
        true
    });
    for (name, snapshot) in [("newer", &newer), ("older", &older)] {
        assert_eq!(rules(&report_of(snapshot)), expected, "{name}");
    }
    let action = |event: &Value| event["action"].as_str().unwrap().to_owned();
    let mut without_traces = base.clone();
    without_traces.as_object_mut().unwrap().remove("device_traces");
    newer["trace_alloc_overflowed"] = json!(true);
    for (name, snapshot) in [
        ("no free_requested", changed(&base, |event| action(event) != "free_requested")),
        ("no alloc", changed(&base, |event| action(event) != "alloc")),
        ("no traces", without_traces),
        ("overflowed", newer),
    ] {
        assert!(found(&report_of(&snapshot), "history-incomplete").is_some(), "{name}");
    }
    let mut vendor = base.clone();
    vendor["vendor"] = json!(1);
    let report = report_of(&vendor);
    let mut with_schema = expected.clone();
    with_schema.insert("odd-schema");
    assert_eq!(rules(&report), with_schema);
    assert_eq!(found(&report, "odd-schema").unwrap().severity, "info");
}

#[test]
fn two_mib_on_device_0_beside_the_real_run_on_device_3_are_foreign() {
    for case in ["C16_loss_kept", "C21_checkpoint_kept", "C48_empty_cache_every_step"] {
        let mut snapshot = json_of(&format!("cases/{case}.json"));
        let own = snapshot["device_traces"][0].take();
        let stray = json!([
            { "action": "segment_alloc", "addr": 0x1000_0000, "size": 2 * MIB, "stream": 0, "time_us": 5 },
            { "action": "alloc", "addr": 0x1000_0000, "size": 2 * MIB, "stream": 0, "time_us": 6,
              "frames": [{ "filename": "train.py", "line": 3, "name": "main" }] }
        ]);
        snapshot["device_traces"] = json!([stray, [], [], own]);
        for segment in snapshot["segments"].as_array_mut().unwrap() {
            segment["device"] = json!(3);
        }
        let report = report_of(&snapshot);
        let finding = found(&report, "foreign-device").unwrap_or_else(|| panic!("{case}: nothing was found"));
        assert_eq!((finding.device, finding.bytes), (0, 2 * MIB), "{case}");
        assert_eq!(finding.evidence["own_device"], 3, "{case}");
        assert_eq!(finding.lines[0].file, "train.py", "{case}");
    }
}

#[test]
fn real_processes_on_two_devices_are_told_apart() {
    let stray = &analyzed("faults", "foreign_device").report;
    let finding = found(stray, "foreign-device").unwrap();
    assert_eq!((finding.severity, finding.device, finding.bytes), ("warning", 0, 2 * MIB));
    assert_eq!((&finding.evidence["own_device"], finding.lines[0].line), (&json!(1), 573));
    let staged = &analyzed("faults", "staged_model").report;
    assert!(found(staged, "foreign-device").is_none(), "a pipeline");
    let missing = staged.findings.iter().find(|f| f.rule == "stacks-missing" && f.device == 0).unwrap();
    assert_eq!(missing.evidence["cause"], "backward", "the pass was started on the other device");
}

#[test]
fn the_same_run_on_two_devices_is_a_pipeline() {
    let mut snapshot = json_of("cases/C16_loss_kept.json");
    let own = snapshot["device_traces"][0].clone();
    snapshot["device_traces"] = json!([own, own]);
    let mut twice = snapshot["segments"].as_array().unwrap().clone();
    for segment in snapshot["segments"].as_array().unwrap() {
        let mut other = segment.clone();
        other["device"] = json!(1);
        twice.push(other);
    }
    snapshot["segments"] = json!(twice);
    assert!(found(&report_of(&snapshot), "foreign-device").is_none());
}

/// What `memlab analyze --json` finds of `rule` over these files: file name and finding.
fn over_files(files: &[(String, Value)], rule: &str) -> Vec<(String, Value)> {
    let sandbox = Sandbox::new();
    let mut arguments = vec!["analyze".to_owned(), "--json".to_owned()];
    for (name, snapshot) in files {
        sandbox.put(name, &snapshot.to_string());
        arguments.push(name.clone());
    }
    let json = sandbox.run(&arguments).ends_with(0).json();
    let mut found = Vec::new();
    for trace in json["traces"].as_array().unwrap() {
        for finding in trace["findings"].as_array().unwrap() {
            if finding["rule"] == rule {
                found.push((trace["path"].as_str().unwrap().to_owned(), finding.clone()));
            }
        }
    }
    found
}

/// A rank that holds a base and, on request, more at a line of its own.
fn rank(base: u64, extra: u64) -> Value {
    let mut tape = Tape::default();
    tape.keep("model.py", base);
    if extra > 0 {
        tape.keep("gather.py", extra);
    }
    tape.snapshot()
}

#[test]
fn one_heavy_rank_of_a_job_is_named_with_its_line() {
    let files = |names: [&str; 3]| {
        let extra = [0, 0, 3 * GIB];
        names.map(str::to_owned).into_iter().zip(extra.map(|extra| rank(10 * GIB, extra))).collect::<Vec<_>>()
    };
    let found = over_files(&files(["rank0.json", "rank1.json", "rank2.json"]), "rank-imbalance");
    assert_eq!(found.len(), 1);
    let (path, finding) = &found[0];
    assert_eq!((path.as_str(), finding["bytes"].as_u64()), ("rank2.json", Some(3 * GIB)));
    assert_eq!(finding["lines"][0]["file"], "gather.py");
    assert_eq!(over_files(&files(["before.json", "after.json", "best.json"]), "rank-imbalance"), []);
    assert_eq!(over_files(&files(["a_rank0.json", "b_rank0.json", "c_rank0.json"]), "rank-imbalance"), []);
}

#[test]
fn a_difference_under_a_gib_is_no_imbalance() {
    // Rank 0 holds 768 MiB more, nearly twice as much.
    let sandbox = Sandbox::new();
    let mut arguments = vec!["analyze".to_owned(), "--json".to_owned()];
    for rank in 0..2 {
        let path = testdata("faults").join(format!("gathered_on_rank0.rank{rank}.pickle.gz"));
        arguments.push(path.display().to_string());
    }
    let json = sandbox.run(&arguments).ends_with(0).json();
    let findings =
        json["traces"].as_array().unwrap().iter().flat_map(|trace| trace["findings"].as_array().unwrap());
    assert!(findings.clone().count() > 0);
    assert!(findings.clone().all(|finding| finding["rule"] != "rank-imbalance"));
}

/// Sixteen GiB live; ten broadcasts of 512 MiB whose frees complete only after the last.
fn wrapped(has_broadcasts: bool) -> Value {
    let mut tape = Tape::default();
    tape.keep("model.py", 16 * GIB);
    let mut pending = Vec::new();
    for _ in 0..if has_broadcasts { 10 } else { 0 } {
        let address = tape.keep("broadcast.py", 512 * MIB);
        tape.event("free_requested", address, 512 * MIB);
        pending.push(address);
    }
    for address in pending {
        tape.event("free_completed", address, 512 * MIB);
    }
    tape.snapshot()
}

#[test]
fn rank_0_without_the_broadcasts_differs() {
    let files: Vec<_> = (0..4).map(|n| (format!("snapshot_rank_{n}.json"), wrapped(n > 0))).collect();
    let found = over_files(&files, "rank-imbalance");
    assert_eq!(found.len(), 1);
    let (path, finding) = &found[0];
    assert_eq!((path.as_str(), finding["severity"].as_str()), ("snapshot_rank_0.json", Some("info")));
    assert_eq!(finding["evidence"]["counter"], "active");
    assert_eq!(finding["evidence"]["median_bytes"], 21 * GIB);
    assert_eq!(finding["lines"][0]["file"], "broadcast.py");
}

/// Four steps; in step `heavy` two and a half times as much is dispatched.
fn routed(heavy: u64) -> Value {
    let mut tape = Tape::default();
    tape.keep("model.py", 4 * GIB);
    for step in 0..4 {
        tape.note(&format!("ProfilerStep#{step}"), "START");
        let size = if step == heavy { 1000 * MIB } else { 400 * MIB };
        let address = tape.keep("moe.py", size);
        tape.free(address, size);
        tape.event("segment_free", address, size);
        tape.note(&format!("ProfilerStep#{step}"), "END");
    }
    tape.snapshot()
}

#[test]
fn another_rank_is_overloaded_in_every_step() {
    let files: Vec<_> = (0..4).map(|n| (format!("moe_r{n}.json"), routed(n))).collect();
    let found = over_files(&files, "rank-imbalance");
    assert_eq!(found.len(), 1, "the peaks are all equal, so only the rule by steps fires");
    let finding = &found[0].1;
    assert_eq!(finding["evidence"]["steps_overloaded"], 4);
    assert_eq!(finding["evidence"]["ranks_overloaded"], 4);
    assert_eq!(
        (finding["bytes"].as_u64(), &finding["lines"][0]["file"]),
        (Some(600 * MIB), &json!("moe.py"))
    );
    let same: Vec<_> = (0..4).map(|n| (format!("moe_r{n}.json"), routed(9))).collect();
    assert_eq!(over_files(&same, "rank-imbalance"), []);
}
