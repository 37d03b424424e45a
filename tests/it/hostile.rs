//! A damaged or hostile file gives an error with its place or a partial result with a warning: never a
//! panic, never code that runs, never memory out of proportion.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use memlab::error::Error;
use memlab::format::{self, WriteOptions};
use memlab::import::{self, ReadOptions};
use memlab::model::Trace;
use rayon::prelude::*;

use crate::inputs::{Seeded, analyze, analyzed, read, recordings, testdata, unpacked};
use crate::pickles::{Pickle, absurd_lengths, executing};
use crate::program::{Run, run};

/// Files up to this size, unpacked, are analyzed after every cut and flip; larger ones after a few.
const SMALL: usize = 250_000;

fn read_bytes(bytes: &[u8]) -> Result<Trace, Error> {
    import::read_bytes(bytes, &ReadOptions::default())
}

/// Reads and analyzes; a panic anywhere fails the test with `what` was done to the file.
fn survive(what: &str, bytes: &[u8]) -> Result<Trace, Error> {
    let attempt = catch_unwind(AssertUnwindSafe(|| {
        let trace = read_bytes(bytes)?;
        let report = analyze(&trace);
        serde_json::to_string(&report).expect("a report is JSON");
        Ok(trace)
    }));
    attempt.unwrap_or_else(|_| panic!("panicked on {what}"))
}

/// Reads; a panic fails the test with `what` was done to the file.
fn survive_reading(what: &str, bytes: &[u8]) -> Result<Trace, Error> {
    catch_unwind(|| read_bytes(bytes)).unwrap_or_else(|_| panic!("panicked reading {what}"))
}

/// Whether an error says where in the file it stands.
fn has_offset(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. } | Error::LimitExceeded { .. } | Error::Refused { .. })
        && error.to_string().contains(" at byte ")
}

/// Every recording but the two largest: `big` and `kvcache` would take minutes in a debug build.
fn fixtures() -> Vec<PathBuf> {
    let is_moderate = |path: &PathBuf| {
        !path.to_string_lossy().contains("/big.") && !path.to_string_lossy().contains("kvcache")
    };
    ["torch", "gpu", "cases", "public"].into_iter().flat_map(recordings).filter(is_moderate).collect()
}

/// All recordings, the two large ones included.
fn every_fixture() -> Vec<PathBuf> {
    ["torch", "gpu", "cases", "public"].into_iter().flat_map(recordings).collect()
}

fn cuts_of(length: usize) -> impl Iterator<Item = usize> {
    let steps = if length <= SMALL { 64 } else { 4 };
    (0..steps).map(move |step| length * step / steps)
}

#[test]
fn a_cut_file_is_an_error_with_its_offset_or_a_partial_result_with_a_warning() {
    for path in every_fixture() {
        let bytes = unpacked(&path);
        let analyzed: BTreeSet<usize> = cuts_of(bytes.len()).collect();
        // All are read at every 64th; of the larger ones, a few cuts are analyzed too.
        (0..64).map(|step| bytes.len() * step / 64).par_bridge().for_each(|cut| {
            let what = format!("{} cut to {cut} of {} bytes", path.display(), bytes.len());
            let survive = if analyzed.contains(&cut) { survive } else { survive_reading };
            match survive(&what, &bytes[..cut]) {
                Ok(trace) => {
                    assert!(!trace.complete || !trace.warnings.is_empty(), "{what}: nothing was said");
                }
                Err(error) if cut == 0 => drop(error),
                Err(error) => assert!(has_offset(&error), "{what}: {error}"),
            }
        });
    }
}

#[test]
fn a_cut_compressed_file_is_no_surprise() {
    for path in fixtures().into_iter().filter(|path| path.extension() == Some("gz".as_ref())) {
        let bytes = fs::read(&path).expect("a file in testdata");
        for cut in cuts_of(bytes.len()).step_by(if bytes.len() > 50_000 { 2 } else { 4 }) {
            let what = format!("{} cut to {cut} of {} bytes", path.display(), bytes.len());
            if let Ok(trace) = survive(&what, &bytes[..cut]) {
                assert!(!trace.complete || !trace.warnings.is_empty(), "{what}: nothing was said");
            }
        }
    }
}

#[test]
fn flipped_bytes_are_no_surprise() {
    for (number, path) in fixtures().into_iter().enumerate() {
        let whole = unpacked(&path);
        let mut seeded = Seeded(number as u64);
        for round in 0..if whole.len() <= SMALL { 48 } else { 3 } {
            let mut bytes = whole.clone();
            let flips = 1 + seeded.below(8);
            for _ in 0..flips {
                let at = seeded.below(bytes.len());
                bytes[at] ^= 1 << seeded.below(8);
            }
            // Either answer is right; only a panic, an abort or a hang would be wrong.
            let _answer = survive(&format!("{} flip round {round}", path.display()), &bytes);
        }
    }
}

fn converted(folder: &'static str, name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    // Small chunks, so that a cut or flip meets every kind of value.
    let options = WriteOptions { chunk_events: 64, ..WriteOptions::default() };
    format::write(&analyzed(folder, name).trace, &options, &mut out).expect("memory takes every byte");
    out
}

#[test]
fn a_cut_trace_keeps_its_whole_chunks_and_says_so() {
    for name in ["cnn", "streams", "annotated", "leak_cycle"] {
        let bytes = converted("torch", name);
        let mut most = 0;
        for cut in cuts_of(bytes.len()) {
            let what = format!("trace of {name} cut to {cut} of {} bytes", bytes.len());
            match survive(&what, &bytes[..cut]) {
                Ok(trace) => {
                    assert!(!trace.complete, "{what}: passes for whole");
                    assert!(!trace.warnings.is_empty(), "{what}: nothing was said");
                    assert!(trace.event_count() >= most, "{what}: fewer events from a longer file");
                    most = trace.event_count();
                }
                Err(error) => assert_eq!(most, 0, "{what}: {error}, though chunks had been whole before"),
            }
        }
        let events = analyzed("torch", name).trace.event_count();
        assert!(most * 10 >= events * 7, "{name}: {most} of {events} events were kept at 63/64 of the file");
    }
}

#[test]
fn a_damaged_trace_is_no_surprise() {
    for name in ["cnn", "streams"] {
        let whole = converted("torch", name);
        let mut seeded = Seeded(7);
        for round in 0..200 {
            let mut bytes = whole.clone();
            for _ in 0..=seeded.below(3) {
                let at = seeded.below(bytes.len());
                bytes[at] ^= 1 << seeded.below(8);
            }
            let what = format!("trace of {name}, flip round {round}");
            if let Ok(trace) = survive(&what, &bytes) {
                let events = analyzed("torch", name).trace.event_count();
                assert!(trace.event_count() <= events + 64, "{what}: events out of nothing");
            }
        }
    }
}

#[test]
fn random_bytes_are_no_trace() {
    let mut seeded = Seeded(11);
    for _ in 0..300 {
        let length = seeded.below(300);
        let mut bytes: Vec<u8> = (0..length).map(|_| seeded.below(256) as u8).collect();
        assert!(survive("random bytes", &bytes).is_err());
        bytes.splice(0..0, [0x80, 4]);
        assert!(survive("random bytes after a pickle's head", &bytes).is_err());
    }
}

#[test]
fn nothing_in_a_pickle_is_executed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let marker = folder.path().join("executed");
    let command = format!("touch {}", marker.display());
    for (opcode, bytes) in executing(&command) {
        match survive(opcode, &bytes) {
            Err(Error::Refused { opcode: named, offset, .. }) => {
                assert!(
                    named == opcode || opcode == "REDUCE" && named == "GLOBAL",
                    "{opcode}: refused {named}"
                );
                assert!((offset as usize) < bytes.len(), "{opcode}: offset {offset}");
            }
            other => panic!("{opcode}: not refused but {:?}", other.map(|trace| trace.event_count())),
        }
    }
    // The same through the program, and hidden inside an otherwise fine snapshot.
    let inside = Pickle::snapshot_with_event(|p| {
        p.alloc_event(|p| p.raw(b"cos\nsystem\n").text(&command).raw(b"\x85R"))
    });
    for (name, bytes) in executing(&command).into_iter().chain([("inside", inside)]) {
        let path = folder.path().join("evil.pickle");
        fs::write(&path, bytes).expect("a writable folder");
        let done = analyze_with_the_program(&path);
        assert_eq!(done.code, Some(2), "{name}: {}", done.stderr);
        assert!(done.stderr.contains("refused"), "{name}: {}", done.stderr);
    }
    assert!(!marker.exists(), "a pickle's code was executed");
}

#[test]
fn absurd_lengths_are_errors_and_cost_nothing() {
    for (name, bytes) in absurd_lengths() {
        let error = survive(name, &bytes).expect_err(name);
        assert!(!error.to_string().is_empty(), "{name}");
    }
}

/// Structures without end or bottom, bare and at places where a snapshot has lists.
fn endless() -> Vec<(&'static str, Vec<u8>)> {
    let in_frames = |frames: fn(Pickle) -> Pickle| Pickle::snapshot_with_event(|p| p.alloc_event(frames));
    let tuples = Pickle::new().raw(b"N").raw(&vec![0x85; 1_000_000]).raw(b".");
    let json = [vec![b'['; 1_000_000], vec![b']'; 1_000_000]].concat();
    let json_object = [br#"{"segments":"#.repeat(100_000), b"[]".to_vec(), b"}".repeat(100_000)].concat();
    vec![
        ("a million nested lists", Pickle::new().nested_lists(1_000_000).raw(b".").0),
        ("a million nested lists as an event", Pickle::snapshot_with_event(|p| p.nested_lists(1_000_000))),
        ("a million nested lists as frames", in_frames(|p| p.nested_lists(1_000_000))),
        ("a million nested tuples", tuples.0),
        ("a million marks", Pickle::new().raw(&vec![b'('; 1_000_000]).raw(b".").0),
        ("a list in itself", Pickle::new().list_in_itself().raw(b".").0),
        ("a list in itself as an event", Pickle::snapshot_with_event(Pickle::list_in_itself)),
        ("a list in itself as frames", in_frames(Pickle::list_in_itself)),
        ("a sharing bomb", Pickle::new().sharing_bomb(60).raw(b".").0),
        ("a sharing bomb as an event", Pickle::snapshot_with_event(|p| p.sharing_bomb(60))),
        ("a sharing bomb as frames", in_frames(|p| p.sharing_bomb(60))),
        ("a million nested arrays in JSON", json),
        ("nested objects in JSON", json_object),
        ("a million nested arrays in MessagePack", vec![0x91; 1_000_000]),
        ("a MessagePack array of 2^32 entries", vec![0xdd, 0xff, 0xff, 0xff, 0xff, 0x01]),
        ("a MessagePack text of 2^32 bytes", vec![0x81, 0xdb, 0xff, 0xff, 0xff, 0xff, b'a']),
    ]
}

#[test]
fn endless_structures_end() {
    for (name, bytes) in endless() {
        // A frame list of the wrong shape may cost the event its stack; everything else is no snapshot.
        if let Ok(trace) = survive(name, &bytes) {
            assert!(!trace.warnings.is_empty(), "{name}: read without a word");
        }
    }
}

fn analyze_with_the_program(path: &Path) -> Run {
    run(&["analyze", &path.to_string_lossy(), "--json"])
}

/// What `bytes` may cost at most: ten times the file plus 64 MiB. These hold the program itself, too: a release
/// build takes 25 MiB for a file of a few events. The pages of an unoptimised program are more, and grow with its
/// code; by what it takes more than that for such a file, and by no more, the limit is higher here.
fn allowed_memory(bytes: usize) -> u64 {
    const RELEASE_BUILD: u64 = 25 << 20;
    let few_events = analyze_with_the_program(&testdata("public/small.pickle")).peak_bytes;
    10 * bytes as u64 + (64 << 20) + few_events.saturating_sub(RELEASE_BUILD)
}

#[test]
fn the_program_survives_within_its_memory() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("hostile.bin");
    let mut inputs = endless();
    inputs.extend(absurd_lengths());
    for fixture in ["torch/gpt.pickle.gz", "public/small.pickle", "cases/C07_comb_50MiB.json.gz"] {
        let bytes = unpacked(&testdata(fixture));
        inputs.push(("a cut fixture", bytes[..bytes.len() / 2].to_vec()));
    }
    let trace = converted("torch", "annotated");
    inputs.push(("a cut trace", trace[..trace.len() / 2].to_vec()));
    for (name, bytes) in inputs {
        fs::write(&path, &bytes).expect("a writable folder");
        let done = analyze_with_the_program(&path);
        assert!(matches!(done.code, Some(0 | 2)), "{name}: {:?} {}", done.code, done.stderr);
        assert_eq!(done.code == Some(2), done.stdout.is_empty(), "{name}: data or an error, not both");
        if done.code == Some(2) {
            assert!(done.stderr.starts_with("error: "), "{name}: {}", done.stderr);
        }
        let allowed = allowed_memory(bytes.len());
        assert!(done.peak_bytes <= allowed, "{name}: {} of {allowed} bytes", done.peak_bytes);
    }
}

/// A gzip file of `head` and then `times` MiB of `byte`, and its size when it is unpacked.
fn gzip(head: &[u8], byte: u8, times: usize) -> (Vec<u8>, usize) {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let chunk = vec![byte; 1 << 20];
    encoder.write_all(head).expect("memory takes every byte");
    for _ in 0..times {
        encoder.write_all(&chunk).expect("memory takes every byte");
    }
    (encoder.finish().expect("memory takes every byte"), head.len() + times * chunk.len())
}

#[test]
fn a_decompression_bomb_is_stopped() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("bomb.pickle.gz");
    // A gigabyte of nothing: stopped while it is unpacked, long before its end.
    let (bomb, _) = gzip(b"", 0, 1024);
    fs::write(&path, &bomb).expect("a writable folder");
    let done = analyze_with_the_program(&path);
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    assert!(done.peak_bytes <= 256 << 20, "{} bytes", done.peak_bytes);
    // A pickle that never ends, just not suspicious enough: no more than its unpacked size allows.
    let (endless, unpacked) = gzip(&[0x80, 4, b'('], b'N', 48);
    fs::write(&path, &endless).expect("a writable folder");
    let done = analyze_with_the_program(&path);
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    assert!(done.peak_bytes <= allowed_memory(unpacked), "{} bytes", done.peak_bytes);
}

#[test]
fn every_command_refuses_a_hostile_file_alike() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let evil = folder.path().join("evil.pickle");
    fs::write(&evil, &executing("true")[0].1).expect("a writable folder");
    let (evil, out) = (evil.to_string_lossy(), folder.path().join("out.msgpack"));
    let out_text = out.to_string_lossy();
    let calls: [&[&str]; 5] = [
        &["analyze", &evil],
        &["info", &evil],
        &["lines", &evil],
        &["summary", &evil],
        &["convert", &evil, &out_text],
    ];
    for call in calls {
        let done = run(call);
        assert_eq!(done.code, Some(2), "{call:?}: {}", done.stderr);
        assert!(done.stdout.is_empty(), "{call:?}: {}", done.stdout);
        assert!(done.stderr.contains("GLOBAL"), "{call:?}: {}", done.stderr);
    }
    assert!(!out.exists(), "a failed conversion leaves nothing behind");
}

#[test]
fn a_large_fixture_cut_in_the_middle_of_a_trace_is_read_by_the_program() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("killed.msgpack");
    let trace = converted("torch", "llama");
    fs::write(&path, &trace[..trace.len() * 2 / 3]).expect("a writable folder");
    let done = analyze_with_the_program(&path);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let report: serde_json::Value = serde_json::from_str(&done.stdout).expect("JSON on stdout");
    assert_eq!(report["traces"][0]["complete"], false);
    assert_ne!(report["traces"][0]["warnings"].as_array().map(Vec::len), Some(0));
    assert!(report["traces"][0]["events"].as_u64() > Some(0));
}

#[test]
fn snapshots_from_memory_and_from_files_are_the_same() {
    for path in recordings("gpu") {
        let bytes = fs::read(&path).expect("a file in testdata");
        let from_memory = read_bytes(&bytes).expect("a whole recording");
        assert_eq!(from_memory.event_count(), read(&path).event_count(), "{}", path.display());
    }
}
