//! Tests of reading as a whole: files of every kind, and files made to hurt.

#![allow(clippy::unwrap_used)]

mod hostile;
mod pickles;
mod real;
mod shapes;
mod sources;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::model::{StackId, Trace};

use super::ReadOptions;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
}

/// A file of `testdata`, unpacked if it is gzip.
fn bytes(name: &str) -> Vec<u8> {
    let bytes = std::fs::read(path(name)).unwrap();
    match super::unpack::unpack(&bytes, &ReadOptions::default()).unwrap() {
        Some(unpacked) => unpacked.bytes,
        None => bytes,
    }
}

fn read(bytes: &[u8]) -> crate::error::Result<Trace> {
    super::read_bytes(bytes, &ReadOptions::default())
}

fn read_file(name: &str) -> Trace {
    super::read_path(&path(name), &ReadOptions::default(), &|_, _| {}).unwrap()
}

fn json(text: &str) -> Trace {
    read(text.as_bytes()).unwrap()
}

fn stack(trace: &Trace, id: StackId) -> String {
    let mut out = String::new();
    for &frame in trace.stacks.get(id) {
        let frame = trace.frames.get(frame);
        let (file, function) = (trace.strings.get(frame.file), trace.strings.get(frame.function));
        write!(out, "{file}:{} {function} < ", frame.line).unwrap();
    }
    out
}

/// Everything that a trace says, in words: independent of the numbering of its tables.
fn words(trace: &Trace) -> String {
    let mut out = String::new();
    for device in &trace.devices {
        let events = &device.events;
        writeln!(out, "device {}", device.device.0).unwrap();
        for row in 0..events.len() {
            let event = events.get(row);
            let text = |id| trace.strings.get(id);
            let other = events.other_actions.iter().find(|&&(at, _)| at == row as u64);
            writeln!(
                out,
                "{:?} {} {} {} {} {:?} {:?} {:?} {:?} {:?} {:?} {}",
                event.action,
                event.time_us,
                event.address,
                event.size,
                event.stream,
                trace.event_pool(device, row),
                text(events.compile_contexts.get(row)),
                text(events.user_metadata.get(row)),
                text(events.internal_metadata.get(row)),
                text(events.forward_frames.get(row)),
                other.map(|&(_, name)| text(name)),
                stack(trace, event.stack),
            )
            .unwrap();
        }
        for segment in device.segments.iter().flatten() {
            let plain = crate::model::Segment { blocks: Vec::new(), stack: StackId(0), ..segment.clone() };
            writeln!(out, "{plain:?} {}", stack(trace, segment.stack)).unwrap();
            for block in &segment.blocks {
                let plain = crate::model::Block { stack: StackId(0), ..*block };
                writeln!(out, "{plain:?} {}", stack(trace, block.stack)).unwrap();
            }
        }
        writeln!(out, "segments known: {}", device.segments.is_some()).unwrap();
    }
    for note in &trace.annotations {
        let name = trace.strings.get(note.name);
        writeln!(out, "{name} {} {} {}", note.begins, note.device.0, note.time_us).unwrap();
    }
    writeln!(out, "{:?} {:?} {:?}", trace.settings, trace.process, trace.complete).unwrap();
    writeln!(out, "{:?} {:?} {:?} {:?}", trace.marks, trace.tensors, trace.holders, trace.samples).unwrap();
    for warning in trace.warnings.iter() {
        writeln!(out, "{warning:?}").unwrap();
    }
    out
}
