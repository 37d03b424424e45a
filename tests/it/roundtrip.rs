//! Converting there and back loses no event and changes no figure; the same input gives the same bytes.

use std::collections::{BTreeMap, BTreeSet};

use memlab::export;
use memlab::format::{self, WriteOptions};
use memlab::import::{self, ReadOptions};
use memlab::model::{Action, DeviceTrace, StackId, Trace};
use memlab::report::TraceReport;
use serde_json::Value;

use crate::inputs::{EXACT, analyze, analyzed, analyzed_path, read, recording, recordings, unpacked};

fn to_trace_format(trace: &Trace) -> Vec<u8> {
    let mut out = Vec::new();
    format::write(trace, &WriteOptions::default(), &mut out).expect("memory takes every byte");
    out
}

fn to_snapshot(trace: &Trace) -> Vec<u8> {
    let mut out = Vec::new();
    export::write_snapshot(trace, &mut out).expect("memory takes every byte");
    out
}

fn reread(bytes: &[u8]) -> Trace {
    import::read_bytes(bytes, &ReadOptions::default()).expect("what memlab writes, memlab reads")
}

/// Everything that `analyze` says, but for the kind of file.
fn figures(report: &TraceReport) -> Value {
    let mut value = serde_json::to_value(report).expect("a report is JSON");
    value.as_object_mut().expect("a report is an object").remove("format");
    // Warnings of one kind may come in another order: they are counted per subject, and sorted by it.
    let texts = |warning: &Value| warning.to_string();
    value["warnings"].as_array_mut().expect("a report has warnings").sort_by_key(texts);
    value
}

/// Where two values differ: `path: left, right`.
fn differences(path: &str, left: &Value, right: &Value, found: &mut Vec<String>) {
    match (left, right) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<_> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let (left, right) = (a.get(key).unwrap_or(&Value::Null), b.get(key).unwrap_or(&Value::Null));
                differences(&format!("{path}.{key}"), left, right, found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (left, right)) in a.iter().zip(b).enumerate() {
                differences(&format!("{path}[{index}]"), left, right, found);
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            found.push(format!("{path}: {} entries, {} entries", a.len(), b.len()));
        }
        _ if left != right => found.push(format!("{path}: {left}, {right}")),
        _ => {}
    }
}

fn assert_same_figures(what: &str, before: &TraceReport, after: &TraceReport) {
    let mut found = Vec::new();
    differences("", &figures(before), &figures(after), &mut found);
    found.truncate(20);
    assert!(found.is_empty(), "{what}, before and after: {found:#?}");
}

fn frames(trace: &Trace, stack: StackId) -> Vec<(&str, u64, &str)> {
    let resolve = |frame| {
        let frame = trace.frames.get(frame);
        (trace.strings.get(frame.file), frame.line, trace.strings.get(frame.function))
    };
    trace.stacks.get(stack).iter().map(|&frame| resolve(frame)).collect()
}

fn assert_same_events(what: &str, before: (&Trace, &DeviceTrace), after: (&Trace, &DeviceTrace)) {
    let ((trace, device), (trace_again, device_again)) = (before, after);
    let (events, again) = (&device.events, &device_again.events);
    assert_eq!(events.len(), again.len(), "{what}: events");
    // Stacks may be renumbered, but each number must stand for one stack only.
    let mut seen: BTreeMap<StackId, StackId> = BTreeMap::new();
    for row in 0..events.len() {
        let (a, b) = (events.get(row), again.get(row));
        if seen.insert(a.stack, b.stack) != Some(b.stack) {
            assert_eq!(frames(trace, a.stack), frames(trace_again, b.stack), "{what}: stack of event {row}");
        }
        let plain = |event: memlab::model::Event| {
            (event.action, event.time_us, event.address, event.size, event.stream)
        };
        assert_eq!(plain(a), plain(b), "{what}: event {row}");
        assert_eq!(
            trace.event_pool(device, row),
            trace_again.event_pool(device_again, row),
            "{what}: pool of event {row}"
        );
        for (column, column_again) in [
            (&events.user_metadata, &again.user_metadata),
            (&events.compile_contexts, &again.compile_contexts),
            (&events.forward_frames, &again.forward_frames),
        ] {
            let text = trace.strings.get(column.get(row));
            assert_eq!(text, trace_again.strings.get(column_again.get(row)), "{what}: event {row}");
        }
    }
}

fn assert_same_trace(what: &str, before: &Trace, after: &Trace) {
    assert_eq!(before.devices.len(), after.devices.len(), "{what}: devices");
    for (device, again) in before.devices.iter().zip(&after.devices) {
        assert_same_events(what, (before, device), (after, again));
        let shape = |device: &DeviceTrace| {
            let segments = device.segments.as_deref().unwrap_or_default();
            let blocks = |segment: &memlab::model::Segment| {
                segment.blocks.iter().map(|b| (b.address, b.bytes, b.state)).collect::<Vec<_>>()
            };
            segments
                .iter()
                .map(|s| (s.address, s.bytes, s.stream, s.kind, s.pool, s.is_expandable, blocks(s)))
                .collect::<Vec<_>>()
        };
        assert_eq!(shape(device), shape(again), "{what}: segments");
    }
    assert_eq!(before.settings, after.settings, "{what}: settings");
    let notes = |trace: &Trace| {
        let text = |note: &memlab::model::Annotation| {
            (trace.strings.get(note.name).to_owned(), note.begins, note.device, note.time_us)
        };
        trace.annotations.iter().map(text).collect::<Vec<_>>()
    };
    assert_eq!(notes(before), notes(after), "{what}: annotations");
}

#[test]
fn converting_a_snapshot_changes_no_figure() {
    for name in EXACT.iter().chain(&["ring", "oom"]) {
        let before = analyzed("torch", name);
        let again = reread(&to_trace_format(&before.trace));
        assert_same_trace(name, &before.trace, &again);
        assert_same_figures(name, &before.report, &analyze(&again));
    }
}

#[test]
fn converting_other_peoples_files_and_cases_changes_no_figure() {
    for folder in ["public", "gpu", "faults", "cases"] {
        for path in recordings(folder) {
            let before = analyzed_path(&path);
            let again = reread(&to_trace_format(&before.trace));
            assert_same_trace(&path.display().to_string(), &before.trace, &again);
            assert_same_figures(&path.display().to_string(), &before.report, &analyze(&again));
        }
    }
}

#[test]
fn a_trace_is_at_most_a_fifth_of_the_pickle() {
    for name in EXACT.iter().chain(&["ring", "oom"]) {
        let pickle = unpacked(&recording("torch", name)).len();
        let trace = to_trace_format(&analyzed("torch", name).trace).len();
        assert!(trace * 5 <= pickle, "{name}: {trace} bytes of {pickle}");
    }
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    for name in ["cnn", "streams", "annotated", "gpt_cpp", "varlen.expandable"] {
        let path = recording("torch", name);
        // Read twice: the interners' hash seeds differ from one table to the next.
        let (first, second) = (read(&path), read(&path));
        assert_eq!(to_trace_format(&first), to_trace_format(&second), "{name}: trace");
        assert_eq!(to_snapshot(&first), to_snapshot(&second), "{name}: snapshot");
        let json = |trace| serde_json::to_string(&analyze(trace)).expect("a report is JSON");
        assert_eq!(json(&first), json(&second), "{name}: report");
    }
}

#[test]
fn a_trace_of_a_trace_is_the_same_file() {
    for name in ["cnn", "streams", "gpt_cpp"] {
        let first = to_trace_format(&analyzed("torch", name).trace);
        assert_eq!(to_trace_format(&reread(&first)), first, "{name}");
    }
}

#[test]
fn there_and_back_to_a_snapshot_changes_no_figure() {
    let names =
        ["cnn", "gpt", "gpt_cpp", "ring", "oom", "streams", "annotated", "compiled", "varlen.expandable"];
    for name in names {
        let before = analyzed("torch", name);
        let trace = reread(&to_trace_format(&before.trace));
        let snapshot = reread(&to_snapshot(&trace));
        assert_same_trace(name, &before.trace, &snapshot);
        assert_same_figures(name, &before.report, &analyze(&snapshot));
    }
}

/// CPython reads what memlab writes. Where there is no Python this has nothing to ask.
#[test]
fn python_loads_an_exported_snapshot() {
    let python =
        |arguments: &[&std::ffi::OsStr]| std::process::Command::new("python3").args(arguments).output();
    if python(&["--version".as_ref()]).is_err() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("again.pickle");
    std::fs::write(&path, to_snapshot(&analyzed("torch", "gpt_cpp").trace)).expect("a writable folder");
    let program = "
import gzip, pickle, sys
again = pickle.load(open(sys.argv[1], 'rb'))
first = pickle.load(gzip.open(sys.argv[2]))
for mine, theirs in zip(again['device_traces'], first['device_traces'], strict=True):
    assert mine == theirs
for mine, theirs in zip(again['segments'], first['segments'], strict=True):
    for key in ('device', 'address', 'total_size', 'stream', 'segment_type', 'is_expandable'):
        assert mine[key] == theirs[key], key
";
    let original = recording("torch", "gpt_cpp");
    assert_eq!(original.extension(), Some("gz".as_ref()));
    let arguments = ["-c".as_ref(), program.as_ref(), path.as_os_str(), original.as_os_str()];
    let output = python(&arguments).expect("python3 runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn an_action_from_the_future_survives() {
    let mut trace = analyzed("public", "small").trace.clone();
    let name = trace.strings.intern("user_defined");
    let events = &mut trace.devices[0].events;
    events.actions[5] = Action::Other;
    events.other_actions = vec![(5, name)];
    let again = reread(&to_trace_format(&trace));
    let other = &again.devices[0].events.other_actions;
    assert_eq!(other.len(), 1);
    assert_eq!((other[0].0, again.strings.get(other[0].1)), (5, "user_defined"));
}
