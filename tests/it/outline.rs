//! What `memlab info` says of a trace without decoding its events is what reading the whole file gives.

use std::path::PathBuf;

use memlab::format;
use memlab::import::{self, ReadOptions};
use memlab::model::{Outline, Trace};
use serde_json::Value;

use crate::inputs::{read, testdata, unpacked};
use crate::sandbox::Sandbox;

/// Every trace that the emitter wrote, killed jobs' included.
fn traces() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(testdata("emitter")).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|ending| ending == "msgpack")).collect();
    found.sort();
    assert!(found.len() > 5);
    found
}

fn lengths(trace: &Trace) -> [usize; 10] {
    [
        trace.strings.len(),
        trace.frames.len(),
        trace.stacks.len(),
        trace.pools.len(),
        trace.annotations.len(),
        trace.marks.len(),
        trace.tensors.len(),
        trace.holders.len(),
        trace.samples.len(),
        trace.devices.len(),
    ]
}

fn assert_same(counted: &Outline, whole: &Outline, what: &str) {
    assert_eq!(counted.counts, whole.counts, "{what}");
    assert_eq!(lengths(&counted.trace), lengths(&whole.trace), "{what}");
    assert_eq!(counted.trace.complete, whole.trace.complete, "{what}");
    assert!(counted.trace.warnings.iter().eq(whole.trace.warnings.iter()), "{what}");
    for (counted, whole) in counted.trace.devices.iter().zip(&whole.trace.devices) {
        assert_eq!((counted.device, &counted.segments), (whole.device, &whole.segments), "{what}");
    }
}

#[test]
fn counting_gives_what_reading_gives() {
    for path in traces() {
        let counted = import::outline_path(&path, &ReadOptions::default(), &|_, _| {}).unwrap();
        assert!(counted.events() > 0, "{}", path.display());
        assert!(counted.trace.devices.iter().all(|device| device.events.is_empty()), "nothing is decoded");
        assert_same(&counted, &Outline::of(read(&path)), &path.display().to_string());
    }
}

#[test]
fn a_damaged_trace_is_counted_as_it_is_read() {
    let bytes = unpacked(&testdata("emitter/gpt.msgpack"));
    for at in (100..bytes.len()).step_by(bytes.len() / 40) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x55;
        let (counted, whole) = (format::outline(&damaged), format::read(&damaged));
        match (counted, whole) {
            (Ok(counted), Ok(whole)) => assert_same(&counted, &Outline::of(whole), &format!("byte {at}")),
            (counted, whole) => assert_eq!(counted.is_ok(), whole.is_ok(), "byte {at}"),
        }
    }
}

#[test]
fn a_snapshot_and_its_trace_have_the_same_facts() {
    let sandbox = Sandbox::with_snapshot("cnn.pickle");
    sandbox.run(&["convert", "cnn.pickle", "cnn.msgpack"]).ends_with(0);
    let facts = |name: &str| -> Value {
        let mut info = sandbox.run(&["info", name, "--json"]).ends_with(0).json();
        let mut trace = info["traces"][0].take();
        for key in ["path", "format", "file_bytes"] {
            assert!(trace.as_object_mut().unwrap().remove(key).is_some(), "{key}");
        }
        trace
    };
    let (snapshot, trace) = (facts("cnn.pickle"), facts("cnn.msgpack"));
    assert!(snapshot["devices"][0]["first_time_us"].is_i64(), "{snapshot}");
    assert_eq!(snapshot, trace);
}
