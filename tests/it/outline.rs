//! What `memlab info` says of a trace without decoding its events is what reading the whole file gives.

use std::path::PathBuf;

use memlab::format::{self, Checksums, Codec, WriteOptions};
use memlab::import::{self, ReadOptions};
use memlab::model::{Outline, Trace, TraceBuilder};
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
        let (counted, whole) = (format::outline(&damaged, Checksums::All), format::read(&damaged));
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

/// A trace over 16 MiB, by two large stack frames that `info` reads as well.
fn long_trace() -> Vec<u8> {
    let long = ["x", "y"].map(|letter| letter.repeat(9 << 20));
    let mut builder = TraceBuilder::new().segment_alloc(0x1000_0000, 20 << 20);
    for event in 0..5_000u64 {
        let name = long.get(event as usize).map_or("f", String::as_str);
        builder = builder.stack(&[("a.py", event % 9, name)]).alloc(0x1000_0000 + 512 * event, 512);
    }
    let options = WriteOptions { codec: Codec::None, chunk_events: 1_000, ..WriteOptions::default() };
    let mut bytes = Vec::new();
    format::write(&builder.build(), &options, &mut bytes).unwrap();
    assert!(bytes.len() > 16 << 20);
    bytes
}

#[test]
fn info_of_a_long_file_reads_no_events_and_says_so() {
    let sandbox = Sandbox::new();
    let mut bytes = long_trace();
    std::fs::write(sandbox.path("long.msgpack"), &bytes).unwrap();
    // Where all sizes are equal, their column is width 0 and the addresses are the events' longest bytes.
    let last = bytes.windows(7).rposition(|window| window == b"address").unwrap();
    bytes[last + 40] ^= 1;
    std::fs::write(sandbox.path("poisoned.msgpack"), &bytes).unwrap();
    let info = |arguments: &[&str]| -> Value {
        let mut info = sandbox.run(&[&["info", "--json"], arguments].concat()).ends_with(0).json();
        let mut trace = info["traces"][0].take();
        trace.as_object_mut().unwrap().remove("path");
        trace
    };
    let (good, poisoned) = (info(&["long.msgpack"]), info(&["poisoned.msgpack"]));
    assert_eq!(good, poisoned);
    assert_eq!(
        (&good["events"], &good["unchecked_chunks"], &good["complete"]),
        (&5_001.into(), &6.into(), &true.into())
    );
    let shown = sandbox.run(&["info", "poisoned.msgpack"]).ends_with(0).stdout;
    assert!(shown.contains("not checked  6 chunks of events"), "{shown}");
    let verified = info(&["--verify", "poisoned.msgpack"]);
    assert_eq!((&verified["unchecked_chunks"], &verified["complete"]), (&0.into(), &false.into()));
    assert_eq!(verified["warnings"][0]["kind"], "damaged-chunk");
    let mut whole = info(&["--verify", "long.msgpack"]);
    whole["unchecked_chunks"] = 6.into();
    assert_eq!(whole, good);
    let analyzed = sandbox.run(&["analyze", "--json", "poisoned.msgpack"]).ends_with(0).json();
    assert_eq!(analyzed["traces"][0]["complete"], false);
}

#[test]
fn a_converted_trace_states_what_its_source_did_not() {
    let sandbox = Sandbox::new();
    let older = testdata("emitter/gpt.msgpack");
    assert!(!unpacked(&older).windows(7).any(|window| window == b"actions"), "a recording of format 1.1");
    sandbox.run(&["convert", older.to_str().unwrap(), "newer.msgpack"]).ends_with(0);
    let newer = std::fs::read(sandbox.path("newer.msgpack")).unwrap();
    assert!(newer.windows(7).any(|window| window == b"actions"));
    let counts = |bytes: &[u8]| format::outline(bytes, Checksums::AllButEvents).unwrap();
    let (older, newer) = (counts(&unpacked(&older)), counts(&newer));
    assert_eq!(older.counts, newer.counts);
    assert!(older.unchecked_chunks == 0 && newer.unchecked_chunks > 0);
}
