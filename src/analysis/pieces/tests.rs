use std::path::{Path, PathBuf};

use super::*;
use crate::format::{WriteOptions, write};
use crate::import::{ReadOptions, read_path};
use crate::model::Trace;

fn recordings() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut paths: Vec<PathBuf> = ["torch", "emitter"]
        .iter()
        .flat_map(|part| std::fs::read_dir(folder.join(part)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            (name.contains(".pickle") || name.ends_with(".msgpack")) && !name.starts_with("big")
        })
        .collect();
    paths.sort();
    paths
}

/// As a trace file, so that it can be read in pieces.
fn written(trace: &Trace) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(trace, &WriteOptions::default(), &mut bytes).unwrap();
    bytes
}

fn json(analysis: &Analysis) -> serde_json::Value {
    let mut report = serde_json::to_value(&analysis.report).unwrap();
    // What a file of the other format says differs in these alone.
    for key in ["format", "path"] {
        report[key] = serde_json::Value::Null;
    }
    report
}

#[test]
fn a_recording_in_pieces_gives_the_report_of_the_whole() {
    for path in recordings() {
        let name = path.display().to_string();
        let original = read_path(&path, &ReadOptions::default(), &|_, _| ()).unwrap();
        if original.reduced.is_some() {
            continue;
        }
        let bytes = written(&original);
        let trace = crate::format::read(&bytes).unwrap();
        let options = Options { with_pictures: true, ..Options::default() };
        let whole = analyze_file("x", &trace, &options).unwrap();
        for piece_events in [701, 20_000] {
            let recording = Recording::open(&bytes).unwrap();
            let room = Room { piece_events, last_events: usize::MAX };
            let pieces = analyze_recording("x", recording, &options, room).unwrap();
            let (mut one, mut many) = (json(&whole), json(&pieces));
            for device in 0..whole.report.devices.len() {
                let (one, many) = (&mut one["devices"][device], &mut many["devices"][device]);
                for key in one.as_object().unwrap().keys() {
                    assert_eq!(
                        one[key], many[key],
                        "{name}, device {device}, {key}, pieces of {piece_events}"
                    );
                }
            }
            for key in ["devices", "findings", "warnings", "complete", "events", "process", "reduced"] {
                assert_eq!(one[key].take(), many[key].take(), "{name}, {key}, pieces of {piece_events}");
            }
        }
    }
}

/// Keys that hold figures of the last events where not all are kept.
const OF_THE_LAST: [&str; 4] = ["categories", "modules", "census", "what_would_help"];

#[test]
fn with_little_room_the_figures_stay_and_findings_are_of_the_last_events() {
    let mut seen = 0;
    for path in recordings() {
        let name = path.display().to_string();
        let original = read_path(&path, &ReadOptions::default(), &|_, _| ()).unwrap();
        if original.reduced.is_some() || original.event_count() < 4_000 {
            continue;
        }
        seen += 1;
        let bytes = written(&original);
        let trace = crate::format::read(&bytes).unwrap();
        let options = Options::default();
        let whole = analyze_file("x", &trace, &options).unwrap();
        let room = Room { piece_events: 500, last_events: 1500 };
        let pieces = analyze_recording("x", Recording::open(&bytes).unwrap(), &options, room).unwrap();
        let (one, many) = (json(&whole), json(&pieces));
        for device in 0..whole.report.devices.len() {
            let (one, many) = (&one["devices"][device], &many["devices"][device]);
            for (key, value) in one.as_object().unwrap() {
                let detected =
                    key == "steps" && value["source"] == "detected" || many[key]["source"] == "detected";
                if !OF_THE_LAST.contains(&key.as_str()) && !detected {
                    assert_eq!(value, &many[key], "{name}, device {device}, {key}");
                }
            }
        }
        let told = pieces.report.warnings.iter().find(|warning| warning.kind == "read-in-pieces").unwrap();
        assert!(told.text.contains("findings, categories"), "{}", told.text);
        assert_eq!(one["events"], many["events"]);
        let first = |finding: &crate::report::FindingRow| {
            finding.evidence.get("event").and_then(serde_json::Value::as_u64)
        };
        for finding in pieces.report.findings.iter().filter(|finding| finding.rule.starts_with("oom")) {
            let same = whole.report.findings.iter().find(|other| other.rule == finding.rule).unwrap();
            assert_eq!(first(finding), first(same), "{name}, {}", finding.rule);
        }
    }
    assert!(seen > 5, "{seen}");
}

#[test]
fn the_timeline_of_pieces_has_every_extreme() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/torch");
    let original =
        read_path(&folder.join("varlen.default.pickle.gz"), &ReadOptions::default(), &|_, _| ()).unwrap();
    let bytes = written(&original);
    let options = Options { with_pictures: true, ..Options::default() };
    let whole = analyze_file("x", &crate::format::read(&bytes).unwrap(), &options).unwrap();
    let room = Room { piece_events: 3_000, last_events: 5_000 };
    let pieces = analyze_recording("x", Recording::open(&bytes).unwrap(), &options, room).unwrap();
    let (one, many) = (&whole.report.devices[0].timeline, &pieces.report.devices[0].timeline);
    assert_eq!((one.x_is_time, one.x_end), (many.x_is_time, many.x_end));
    assert_eq!(one.band_names, many.band_names);
    for (place, x) in one.x.iter().enumerate() {
        let same = (0..many.x.len()).any(|at| {
            many.x[at] == *x
                && many.allocated[at] == one.allocated[place]
                && many.reserved[at] == one.reserved[place]
        });
        assert!(same, "sample {place} at {x}");
    }
    assert_eq!(one.marks.len(), many.marks.len());
    for (one, many) in one.marks.iter().zip(&many.marks) {
        assert_eq!((one.x, one.kind, &one.label), (many.x, many.kind, &many.label));
    }
    let segments =
        |analysis: &Analysis| format!("{:?}", analysis.report.devices[0].pictures.segments.segments);
    assert!(segments(&whole) == segments(&pieces), "the picture of segments differs");
}

#[test]
fn driver_calls_are_joined_with_the_segments_of_all_events() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/driver/layers");
    for name in ["varlen", "varlen_expandable"] {
        let read = |file: &str| read_path(&folder.join(file), &ReadOptions::default(), &|_, _| ()).unwrap();
        let mut trace = read(&format!("{name}.msgpack"));
        assert!(crate::analysis::join_calls(&mut trace, read(&format!("{name}.driver.msgpack"))));
        let bytes = written(&trace);
        let options = Options::default();
        let room = Room { piece_events: 500, last_events: 1500 };
        let pieces = analyze_recording("x", Recording::open(&bytes).unwrap(), &options, room).unwrap();
        let whole = analyze_file("x", &crate::format::read(&bytes).unwrap(), &options).unwrap();
        assert!(whole.report.driver.as_ref().unwrap().devices[0].join.unwrap().matched > 60, "{name}");
        assert_eq!(json(&pieces)["driver"], json(&whole)["driver"], "{name}");
    }
}
