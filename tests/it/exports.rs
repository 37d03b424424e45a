//! Exports for other tools, read back as these tools read them: their totals are the report's.

use std::collections::BTreeMap;

use memlab::analysis;
use memlab::export::{self, Profile};
use memlab::format::{self, WriteOptions};
use memlab::model::{Trace, TraceBuilder};
use memlab::report::DeviceReport;
use serde_json::Value;

use crate::inputs::{Analyzed, analyzed, analyzed_path, testdata};
use crate::sandbox::Sandbox;

const A: u64 = 0x7000_0000_0000;
const HOSTILE: &str = "</script><b>\"'`;\u{1b}[31m\u{202e}gpj\n 12";

fn folded(trace: &Trace, profile: Profile) -> String {
    let devices = analysis::histories(trace, None).unwrap();
    let mut out = Vec::new();
    export::write_folded(trace, &devices, profile, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn speedscope(trace: &Trace, profiles: &[Profile]) -> Value {
    let devices = analysis::histories(trace, None).unwrap();
    let mut out = Vec::new();
    export::write_speedscope("x", trace, &devices, profiles, &mut out).unwrap();
    serde_json::from_slice(&out).unwrap()
}

fn chrome(trace: &Trace) -> Value {
    let devices = analysis::histories(trace, None).unwrap();
    let mut out = Vec::new();
    export::write_chrome(trace, &devices, &mut out).unwrap();
    serde_json::from_slice(&out).unwrap()
}

/// As flame graph tools read it: the last word is the value, the rest is frames between semicolons.
fn parse(folded: &str) -> BTreeMap<Vec<&str>, u64> {
    let mut stacks = BTreeMap::new();
    for line in folded.lines() {
        let (stack, bytes) = line.rsplit_once(' ').unwrap();
        let frames: Vec<&str> = stack.split(';').collect();
        assert!(frames.iter().all(|frame| !frame.is_empty()), "{line}");
        assert!(stacks.insert(frames, bytes.parse().unwrap()).is_none(), "twice: {line}");
    }
    stacks
}

fn sum(folded: &str) -> u64 {
    parse(folded).values().sum()
}

fn of_all_allocations(device: &DeviceReport) -> u64 {
    device.lines.iter().map(|row| row.figures.total_bytes).sum::<u64>() + device.unattributed.total_bytes
}

fn recordings() -> [(&'static str, &'static Analyzed); 7] {
    let torch = |name: &'static str| (name, analyzed("torch", name));
    let emitted = analyzed_path(&testdata("emitter/oom.msgpack"));
    [
        torch("gpt"),
        torch("gpt_cpp"),
        torch("ring"),
        torch("oom"),
        torch("varlen.default"),
        torch("big"),
        ("emitted oom", emitted),
    ]
}

#[test]
fn folded_stacks_add_up_to_the_report() {
    for (name, recording) in recordings() {
        let device = &recording.report.devices[0];
        let of = |profile| sum(&folded(&recording.trace, profile));
        assert_eq!(of(Profile::Peak), device.peak.allocated_bytes, "{name}: at the peak");
        assert_eq!(of(Profile::End), device.end.allocated_bytes, "{name}: at the end");
        assert_eq!(of(Profile::Total), of_all_allocations(device), "{name}: in all");
        if let Some(oom) = device.ooms.last() {
            assert_eq!(of(Profile::Oom), oom.allocated_bytes, "{name}: at the OOM");
        }
    }
}

#[test]
fn a_profile_of_any_event_is_what_was_allocated_there() {
    let trace = &analyzed("torch", "ring").trace;
    for event in [0, 7, 100, trace.devices[0].events.len() as u64 - 1] {
        let stats = memlab::rebuild::stats(trace, &trace.devices[0], Some(event));
        assert_eq!(
            sum(&folded(trace, Profile::Event(event))),
            stats["allocated_bytes.all.current"],
            "{event}"
        );
    }
}

/// The keys that speedscope's published schema requires, their types, and numbers that lead somewhere.
fn assert_speedscope(name: &str, file: &Value) {
    assert_eq!(file["$schema"], "https://www.speedscope.app/file-format-schema.json", "{name}");
    let frames = file["shared"]["frames"].as_array().unwrap();
    for frame in frames {
        assert!(frame["name"].is_string(), "{name}: {frame}");
        assert!(frame.get("file").is_none_or(Value::is_string), "{name}: {frame}");
        assert!(frame.get("line").is_none_or(Value::is_u64), "{name}: {frame}");
    }
    for profile in file["profiles"].as_array().unwrap() {
        assert_eq!((&profile["type"], &profile["unit"]), (&"sampled".into(), &"bytes".into()), "{name}");
        assert!(profile["name"].is_string() && profile["startValue"] == 0, "{name}");
        let (samples, weights) =
            (profile["samples"].as_array().unwrap(), profile["weights"].as_array().unwrap());
        assert_eq!(samples.len(), weights.len(), "{name}");
        let sum: u64 = weights.iter().map(|weight| weight.as_u64().unwrap()).sum();
        assert_eq!(profile["endValue"], sum, "{name}");
        for frame in samples.iter().flat_map(|sample| sample.as_array().unwrap()) {
            assert!((frame.as_u64().unwrap() as usize) < frames.len(), "{name}: no frame {frame}");
        }
    }
}

#[test]
fn speedscope_profiles_keep_their_schema_and_add_up() {
    for (name, recording) in recordings() {
        let file = speedscope(&recording.trace, &[Profile::Peak, Profile::Total]);
        assert_speedscope(name, &file);
        let device = &recording.report.devices[0];
        assert_eq!(file["profiles"][0]["endValue"], device.peak.allocated_bytes, "{name}");
        assert_eq!(file["profiles"][1]["endValue"], of_all_allocations(device), "{name}");
    }
}

#[test]
fn speedscope_has_the_stacks_of_the_folded_text() {
    let trace = &analyzed("torch", "gpt_cpp").trace;
    let file = speedscope(trace, &[Profile::Peak]);
    let name = |number: &Value| {
        let frame = &file["shared"]["frames"][number.as_u64().unwrap() as usize];
        let at = frame["line"].as_u64().map_or(String::new(), |line| format!(":{line}"));
        let name = frame["name"].as_str().unwrap();
        frame["file"].as_str().map_or(name.to_owned(), |file| format!("{name} ({file}{at})"))
    };
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    let profile = &file["profiles"][0];
    for (at, sample) in profile["samples"].as_array().unwrap().iter().enumerate() {
        let path: Vec<String> = sample.as_array().unwrap().iter().map(name).collect();
        *stacks.entry(path.join(";")).or_default() += profile["weights"][at].as_u64().unwrap();
    }
    let text = folded(trace, Profile::Peak);
    let lines: BTreeMap<String, u64> =
        parse(&text).into_iter().map(|(stack, bytes)| (stack.join(";"), bytes)).collect();
    assert_eq!(stacks, lines);
}

fn events<'a>(file: &'a Value, ph: &str) -> Vec<&'a Value> {
    file["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == ph).collect()
}

#[test]
fn the_highest_counters_are_the_peaks_and_the_last_the_end() {
    for (name, recording) in recordings() {
        let (device, file) = (&recording.report.devices[0], chrome(&recording.trace));
        let counters = events(&file, "C");
        let curve = |counter: &str| -> Vec<(u64, u64)> {
            let of_it = counters.iter().filter(|event| event["name"] == counter);
            of_it
                .map(|event| (event["ts"].as_u64().unwrap(), event["args"]["bytes"].as_u64().unwrap()))
                .collect()
        };
        for (counter, peak, end) in [
            ("requested", device.peak.requested_bytes, device.end.requested_bytes),
            ("allocated", device.peak.allocated_bytes, device.end.allocated_bytes),
            ("active", device.peak.active_bytes, device.end.active_bytes),
            ("reserved", device.peak.reserved_bytes, device.end.reserved_bytes),
        ] {
            let curve = curve(counter);
            assert_eq!(curve.iter().map(|point| point.1).max(), Some(peak), "{name}: peak of {counter}");
            assert_eq!(curve.last().unwrap().1, end, "{name}: end of {counter}");
            assert!(curve.is_sorted_by_key(|point| point.0), "{name}: {counter} runs backwards");
        }
        let marks = events(&file, "i");
        let ooms = marks.iter().filter(|mark| mark["name"] == "CUDA out of memory").count();
        assert_eq!(ooms, device.ooms.len(), "{name}");
        assert_eq!(events(&file, "X").len(), device.steps.rows.len(), "{name}: steps");
        assert!(counters.len() <= 4 * 4 * 4000, "{name}: {} points", counters.len());
    }
}

fn several_devices() -> Trace {
    TraceBuilder::new()
        .at("a.py", 1, "f")
        .segment_alloc(A, 2 << 20)
        .alloc(A, 1024)
        .device(3)
        .at(HOSTILE, 7, HOSTILE)
        .segment_alloc(A, 2 << 20)
        .alloc(A, 4096)
        .oom(1 << 40, 0)
        .build()
}

fn sandbox(trace: &Trace) -> Sandbox {
    let sandbox = Sandbox::new();
    let mut file = std::fs::File::create(sandbox.path("t.msgpack")).unwrap();
    format::write(trace, &WriteOptions::default(), &mut file).unwrap();
    sandbox
}

#[test]
fn hostile_names_stay_in_their_line_and_in_their_string() {
    let trace = several_devices();
    let text = folded(&trace, Profile::Peak);
    let spelled = "</script><b>\"'`\\x3b\\x1b[31m\\u{202e}gpj\\n 12";
    let expected = format!("device 0;f (a.py:1) 1024\ndevice 3;{spelled} ({spelled}:7) 4096\n");
    assert_eq!(text, expected);
    let file = speedscope(&trace, &[Profile::Peak]);
    assert_speedscope("hostile", &file);
    assert_eq!(
        file["shared"]["frames"][1],
        serde_json::json!({ "name": HOSTILE, "file": HOSTILE, "line": 7 })
    );
    for bytes in [serde_json::to_string(&file).unwrap(), chrome(&trace).to_string()] {
        assert!(!bytes.contains('\u{1b}') && !bytes.contains('\n'), "control characters are escaped");
    }
}

#[test]
fn the_name_of_the_file_says_what_is_written() {
    let sandbox = sandbox(&several_devices());
    for name in [
        "a.folded",
        "a.speedscope.json",
        "a.chrome.json",
        "a.trace.json",
        "a.pickle",
        "a.pickle.gz",
        "a.pb.gz",
        "a.pftrace",
        "a.perfetto-trace",
    ] {
        let run = sandbox.run(&["export", "t.msgpack", "-o", name]).ends_with(0);
        assert_eq!(run.stdout, "");
        assert!(run.stderr.starts_with(&format!("Wrote {name} (")), "{run:?}");
    }
    assert_eq!(sandbox.read("a.folded"), folded(&several_devices(), Profile::Peak));
    let speedscope: Value = serde_json::from_str(&sandbox.read("a.speedscope.json")).unwrap();
    assert_eq!(speedscope["name"], "t");
    assert_eq!(speedscope["profiles"].as_array().unwrap().len(), 4, "two profiles for each of two devices");
    assert_eq!(sandbox.read("a.chrome.json"), sandbox.read("a.trace.json"));
    sandbox.run(&["convert", "t.msgpack", "b.pickle"]).ends_with(0);
    let bytes = |name: &str| std::fs::read(sandbox.path(name)).unwrap();
    assert_eq!(bytes("a.pickle"), bytes("b.pickle"), "the snapshot is that of convert");
    assert!(bytes("a.pickle.gz").starts_with(&[0x1f, 0x8b]));
    assert!(bytes("a.pb.gz").starts_with(&[0x1f, 0x8b]) && bytes("a.pftrace") == bytes("a.perfetto-trace"));
    let again = sandbox.run(&["export", "t.msgpack", "-o", "a.folded"]).ends_with(2);
    assert!(again.stderr.contains("a.folded exists already"), "{again:?}");
    let odd = sandbox.run(&["export", "t.msgpack", "-o", "a.json"]).ends_with(2);
    assert!(odd.stderr.contains("hint: end OUT in .folded, .speedscope.json,"), "{odd:?}");
}

#[test]
fn a_profile_for_pprof_shows_the_moment_that_is_asked_for() {
    let sandbox = sandbox(&several_devices());
    let comments = |what: &str| {
        sandbox.run(&["export", "t.msgpack", "-o", "x.pb.gz", "-f", "--what", what]).ends_with(0);
        String::from_utf8_lossy(&crate::inputs::unpacked(&sandbox.path("x.pb.gz"))).into_owned()
    };
    assert!(comments("0").contains("Device 0: live is after 1 of 2 events"));
    // Device 0 has no failed request and is left out.
    let oom = comments("oom");
    assert!(oom.contains("Device 3: live is after 3 of 3 events") && !oom.contains("Device 0:"), "{oom}");
}

#[test]
fn text_goes_to_standard_output_and_nothing_else_with_it() {
    let sandbox = sandbox(&several_devices());
    let words = ["export", "t.msgpack", "-o", "-", "--format", "folded", "--device", "3"];
    let run = sandbox.run(&words).ends_with(0);
    assert_eq!((run.stdout.lines().count(), run.stderr.as_str()), (1, ""), "{run:?}");
    assert!(!run.stdout.starts_with("device"), "one device needs no root frame: {run:?}");
    for format in ["speedscope", "chrome"] {
        sandbox.run(&["export", "t.msgpack", "-o", "-", "--format", format]).ends_with(0).json();
    }
    let binary = sandbox.run(&["export", "t.msgpack", "-o", "-", "--format", "snapshot"]).ends_with(2);
    assert!(binary.stderr.contains("only text goes to standard output"), "{binary:?}");
    assert_eq!(sandbox.files(), ["t.msgpack"]);
}

#[test]
fn a_moment_that_is_not_there_is_refused_and_nothing_is_written() {
    let sandbox = sandbox(&several_devices());
    let run = |more: &[&str]| {
        let words = [&["export", "t.msgpack", "-o", "x.folded", "--what"], more].concat();
        sandbox.run(&words)
    };
    // Device 0 has no failed request and fewer events than device 3.
    let oom = run(&["oom", "--device", "0"]).ends_with(2);
    assert!(oom.stderr.contains("no request failed in this recording"), "{oom:?}");
    let event = run(&["3"]).ends_with(2);
    assert!(event.stderr.contains("there is no event 3 in the trace"), "{event:?}");
    let word = run(&["middle"]).ends_with(2);
    assert!(word.stderr.contains("use peak, total, end, oom or the number of an event"), "{word:?}");
    let device = run(&["peak", "--device", "1"]).ends_with(2);
    assert!(device.stderr.contains("the trace has device 0, 3"), "{device:?}");
    assert_eq!(sandbox.files(), ["t.msgpack"]);
    run(&["oom"]).ends_with(0);
    let text = sandbox.read("x.folded");
    assert!(text.starts_with("device 3;") && text.lines().count() == 1, "{text}");
}

#[test]
fn the_same_trace_gives_the_same_bytes() {
    let trace = &analyzed("torch", "gpt_cpp").trace;
    let again = crate::inputs::read(&crate::inputs::recording("torch", "gpt_cpp"));
    assert_eq!(folded(trace, Profile::Total), folded(&again, Profile::Total));
    let both = [Profile::Peak, Profile::Total];
    assert_eq!(speedscope(trace, &both), speedscope(&again, &both));
    assert_eq!(chrome(trace), chrome(&again));
}
