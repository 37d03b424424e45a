use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::*;
use crate::analysis::{analyze, write_with_states};
use crate::format::WriteOptions;
use crate::import::{ReadOptions, read_path};
use crate::model::{Excerpt, Trace};
use crate::rebuild::rebuild;
use crate::report::TraceReport;

/// Recordings from the start and late ones, with several streams, private pools, expandable segments and failures.
const RECORDINGS: [&str; 7] =
    ["cnn", "gpt", "ring", "streams", "oom", "varlen.expandable", "kvcache.default"];

fn recordings() -> Vec<(String, Trace)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/torch");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let is_wanted = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        RECORDINGS.iter().any(|wanted| name.starts_with(&format!("{wanted}.pickle")))
    };
    let read = |path: &PathBuf| read_path(path, &ReadOptions::default(), &|_, _| ()).unwrap();
    paths.iter().filter(|path| is_wanted(path)).map(|path| (path.display().to_string(), read(path))).collect()
}

fn with_states(trace: &Trace, every: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let options = WriteOptions { chunk_events: 500, ..WriteOptions::default() };
    write_with_states(trace, every, &options, &mut bytes).unwrap();
    bytes
}

fn part_of(bytes: &[u8], part: &Part) -> Trace {
    let recording = Recording::open(bytes).unwrap();
    let wanted = windows(&recording, part);
    recording.part(&wanted)
}

fn report(trace: &Trace, part: &Part) -> TraceReport {
    let mut options = Options::default();
    match part {
        Part::Events(window) => options.window = Some(window.clone()),
        Part::Step(name) => options.step = Some(name.clone()),
    }
    analyze("x", trace, &options).unwrap()
}

/// What must be the same of a window, however much else was read.
fn figures(report: &TraceReport) -> Vec<Value> {
    let device = |device: &crate::report::DeviceReport| {
        let all = serde_json::to_value(device).unwrap();
        let keys = [
            "events",
            "peak",
            "peak_event",
            "end",
            "initial",
            "fragmentation",
            "lines",
            "unattributed",
            "pools",
        ];
        let mut kept: Map<String, Value> =
            keys.iter().map(|key| ((*key).to_owned(), all[key].clone())).collect();
        let failure = |oom: &Value| json!([oom["event"], oom["requested_bytes"], oom["free_bytes"]]);
        kept.insert("ooms".to_owned(), all["ooms"].as_array().unwrap().iter().map(failure).collect());
        Value::Object(kept)
    };
    report.devices.iter().map(device).collect()
}

/// Puts sums over all lines in place of the lines, some of which may be lost: those that follow from earlier events.
fn without_names(figures: &mut Value) {
    let mut rows = figures["lines"].as_array().unwrap().clone();
    rows.push(figures["unattributed"].take());
    let sum = |key: &str| rows.iter().map(|row| row[key].as_u64().unwrap()).sum::<u64>();
    let sums = ["held_at_peak_bytes", "total_bytes", "allocations", "live_at_end_bytes"].map(sum);
    figures["lines"] = json!(sums);
    for row in figures["fragmentation"].as_object_mut().unwrap().values_mut().filter(|row| row.is_object()) {
        row["pins"] = Value::Null;
    }
}

fn has_inferred_lines(trace: &Trace) -> bool {
    trace.devices.iter().any(|device| {
        let history = rebuild(trace, device);
        let grouping = tables::Grouping::build(trace, device, &history, tables::GroupBy::Line);
        grouping.inferred.contains(&true) || !grouping.modules.tags.is_empty()
    })
}

#[test]
fn a_part_gives_the_figures_of_the_same_window_of_the_whole() {
    let (mut compared, mut with_lines) = (0, 0);
    for (name, original) in recordings() {
        let bytes = with_states(&original, 700);
        let whole = crate::format::read(&bytes).unwrap();
        let loses_lines = has_inferred_lines(&whole);
        let events = whole.devices.iter().map(|device| device.events.len() as u64).max().unwrap();
        for window in [0, 1, 3, 5, 7, 9].map(|tenth| events * tenth / 10..events * (tenth + 1) / 10) {
            let part = Part::Events(window.clone());
            let excerpt = part_of(&bytes, &part);
            let (one, other) = (figures(&report(&whole, &part)), figures(&report(&excerpt, &part)));
            assert_eq!(one.len(), other.len());
            with_lines += usize::from(!loses_lines);
            for (mut one, mut other) in one.into_iter().zip(other) {
                if loses_lines {
                    without_names(&mut one);
                    without_names(&mut other);
                }
                for key in one.as_object().unwrap().keys() {
                    assert_eq!(one[key], other[key], "{name}, {window:?}, {key}");
                }
            }
            compared += usize::from(excerpt.devices.iter().any(|device| device.excerpt.is_some()));
        }
    }
    assert!(compared > 25 && with_lines > 10, "{compared} excerpts, {with_lines} with lines");
}

#[test]
fn chunks_that_are_not_needed_are_not_unpacked() {
    let (_, original) = recordings().into_iter().find(|(name, _)| name.contains("/gpt.")).unwrap();
    let bytes = with_states(&original, 700);
    let events = original.devices[0].events.len() as u64;
    let part = Part::Events(events / 2..events / 2 + 300);
    let excerpt = part_of(&bytes, &part);
    let held = excerpt.devices[0].excerpt.clone().unwrap();
    assert!(held.first_event > events / 2 - 1400 && held.first_event <= events / 2);
    assert_eq!(held.recorded_events, events);
    let spoiled = crate::format::with_payloads_that_do_not_decode(&bytes, |first, count| {
        first + count <= held.first_event || first > events / 2 + 300 + 16
    });
    assert_ne!(spoiled, bytes);
    assert!(crate::format::read(&spoiled).unwrap().warnings.count("damaged-chunk") > 4);
    let again = part_of(&spoiled, &part);
    assert_eq!(again.warnings.count("damaged-chunk"), 0);
    let json = |trace: &Trace| serde_json::to_value(report(trace, &part)).unwrap();
    assert_eq!(json(&again), json(&excerpt));
}

#[test]
fn a_step_is_found_by_times_and_read_alone() {
    let (_, mut original) = recordings().into_iter().find(|(name, _)| name.contains("/gpt.")).unwrap();
    original.marks.clear();
    let times = original.devices[0].events.times_us.clone();
    for (number, at) in (0..times.len()).step_by(900).enumerate() {
        original.marks.push(crate::model::Mark {
            kind: crate::model::MarkKind::Step,
            name: format!("s{number}"),
            time_us: times[at],
            begins: None,
        });
    }
    let bytes = with_states(&original, 400);
    let whole = crate::format::read(&bytes).unwrap();
    let steps = tables::steps(&whole, &whole.devices[0], &rebuild(&whole, &whole.devices[0]));
    assert!(steps.rows.len() > 5);
    for row in &steps.rows {
        let part = Part::Step(row.name.clone());
        let excerpt = part_of(&bytes, &part);
        assert!(excerpt.event_count() < 4000.min(whole.event_count()), "{} events", excerpt.event_count());
        let other = report(&excerpt, &part);
        let one = report(&whole, &part);
        assert_eq!(figures(&one)[0]["peak"], figures(&other)[0]["peak"], "{}", row.name);
        assert_eq!(figures(&one)[0]["peak_event"], figures(&other)[0]["peak_event"], "{}", row.name);
        assert_eq!(one.devices[0].end, other.devices[0].end);
        let window = Part::Events(row.begin.0..row.end.0);
        assert_eq!(figures(&one), figures(&report(&whole, &window)), "{}", row.name);
    }
    let options = Options { step: Some("s999".to_owned()), ..Options::default() };
    let error = analyze("x", &whole, &options).unwrap_err().to_string();
    assert!(error.contains("no step `s999`") && error.contains("s0, s1"), "{error}");
}

#[test]
fn without_a_state_before_it_everything_is_read() {
    let (_, original) = recordings().into_iter().find(|(name, _)| name.contains("/cnn.")).unwrap();
    let mut bytes = Vec::new();
    crate::format::write(&original, &WriteOptions::default(), &mut bytes).unwrap();
    let trace = part_of(&bytes, &Part::Events(10..20));
    assert_eq!(trace.event_count(), original.event_count());
    assert!(trace.devices.iter().all(|device| device.excerpt.is_none()));
    let warned = report(&trace, &Part::Events(10..20));
    assert!(warned.warnings.iter().all(|warning| warning.kind != "excerpt"));
}

/// Adds `first` to every number of an event in `value`, which stands under `key`.
fn shift(key: &str, value: &mut Value, first: u64) {
    let is_event = key == "event" || key == "burst_events" || key.ends_with("_event");
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| shift(key, item, first)),
        Value::Object(entries) => {
            for (own, value) in entries.iter_mut() {
                shift(if is_event { key } else { own }, value, first);
            }
        }
        Value::Number(number) if is_event => *value = (number.as_u64().unwrap() + first).into(),
        // Before the first event is after the one before it, for what tells a moment.
        Value::Null if key == "event" || key == "peak_event" => *value = (first - 1).into(),
        _ => {}
    }
}

/// Every number of an event differs by the first one, and nothing else does.
#[test]
fn events_are_numbered_as_in_the_recording() {
    const FIRST: u64 = 1_000_000_000;
    for (name, trace) in recordings() {
        let mut late = trace.clone();
        let mut here = trace;
        for device in &mut here.devices {
            let history = rebuild(&late, late.device(device.device).unwrap());
            let nothing = history.from_the_start && device.segments.is_some();
            let count = device.events.len() as u64;
            let excerpt = |first_event| Excerpt { first_event, recorded_events: count, segments: Vec::new() };
            device.excerpt = nothing.then(|| excerpt(0));
            late.device_mut(device.device).excerpt = nothing.then(|| excerpt(FIRST));
        }
        if here.devices.iter().any(|device| device.excerpt.is_none()) {
            continue;
        }
        let value = |trace: &Trace| {
            let mut report = serde_json::to_value(analyze("x", trace, &Options::default()).unwrap()).unwrap();
            report["warnings"] = Value::Null;
            report["events"] = Value::Null;
            for device in report["devices"].as_array_mut().unwrap() {
                device["events"] = Value::Null;
            }
            report
        };
        let (mut one, other) = (value(&here), value(&late));
        shift("", &mut one, FIRST);
        for key in ["devices", "findings"] {
            for (one, other) in one[key].as_array().unwrap().iter().zip(other[key].as_array().unwrap()) {
                for part in one.as_object().unwrap().keys() {
                    assert_eq!(one[part], other[part], "{name}, {key}, {part}");
                }
            }
        }
        assert_eq!(one, other, "{name}");
    }
}
