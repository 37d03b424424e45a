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
