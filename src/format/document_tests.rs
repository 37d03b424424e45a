//! The document and the sample writer are held to what the reader does.
#![allow(clippy::unwrap_used)]

use crate::model::{Action, DeviceId, StackId};

use super::read;
use super::samples::{assert_same, packed, tiny};

const DOCUMENT: &str = include_str!("../../docs/trace-format.md");
const WRITER: &str = include_str!("../../testdata/format/write.py");
const WRITTEN: &[u8] = include_bytes!("../../testdata/format/python-writer.msgpack");

fn block<'t>(text: &'t str, start: &str, end: &str) -> &'t str {
    let from = text.find(start).expect("the block begins") + start.len();
    let length = text[from..].find(end).expect("the block ends");
    &text[from..from + length]
}

/// Bytes of the annotated example: what stands before the semicolons.
fn example() -> Vec<u8> {
    block(DOCUMENT, "```hex\n", "```")
        .lines()
        .flat_map(|line| line.split(';').next().unwrap().split_whitespace())
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect()
}

#[test]
fn the_documented_example_reads() {
    let bytes = example();
    assert_same(&tiny(), &read(&bytes).unwrap());
    for cut in [20, 100, bytes.len() - 1] {
        assert!(!read(&bytes[..cut]).is_ok_and(|trace| trace.complete));
    }
}

#[test]
fn the_documented_writer_is_the_one_that_is_tested() {
    let documented = block(DOCUMENT, "```python\n", "```");
    assert_eq!(documented, block(WRITER, "# --- sample writer ---\n", "# --- end of the sample writer ---"));
}

#[test]
fn what_python_writes_is_read() {
    let trace = read(WRITTEN).unwrap();
    assert!(trace.complete && trace.warnings.is_empty(), "{:?}", trace.warnings);
    let events = &trace.device(DeviceId(0)).unwrap().events;
    assert_eq!(events.len(), 3_001);
    let base = 0x7f00_0000_0000;
    let first = events.get(0);
    assert_eq!((first.action, first.address, first.size), (Action::SegmentAlloc, base, 2 << 20));
    for step in 0..1_000u64 {
        let row = 1 + 3 * step as usize;
        let (alloc, completed) = (events.get(row), events.get(row + 2));
        assert_eq!(alloc.action, Action::Alloc);
        assert_eq!((alloc.address, alloc.size), (base + 512 * (step % 64), 500 + step % 9));
        assert_eq!(alloc.stream, 0x5555 * (step % 2));
        assert_eq!(alloc.time_us, 1_795_962_240_274_936 + 20 * step as i64);
        assert_eq!(completed.action, Action::FreeCompleted);
        assert_eq!((completed.time_us, completed.stack), (alloc.time_us + 8, StackId::NONE));
        let frame = trace.frames.get(trace.stacks.get(alloc.stack)[0]);
        let place = (trace.strings.get(frame.file), frame.line, trace.strings.get(frame.function));
        assert_eq!(place, if step % 2 == 0 { ("train.py", 12, "forward") } else { ("run.py", 3, "main") });
    }
    assert_same(&trace, &read(&packed(&trace)).unwrap());
}

#[test]
fn every_bound_and_kind_of_the_code_stands_in_the_document() {
    use super::{MAX_CHUNK_EVENTS, MAX_DEVICES, MAX_FACTS, MAX_RAW, VERSION, budget};
    for (number, (_, name)) in (1..).zip(crate::model::DriverCall::ALL) {
        assert!(DOCUMENT.contains(&format!("| {number} | `{name}` |")), "{number} {name}");
    }
    for row in ["| 11 | [samples](#samples-11)", "| 12 | [reduced](#reduced-12)", "| 13 | [live](#live-13)"] {
        assert!(DOCUMENT.contains(row), "{row}");
    }
    assert!(DOCUMENT.contains(&format!("`[{}, {}]`", VERSION.0, VERSION.1)));
    let budget_rule = format!("**{} MiB plus {} times the bytes", budget::FREE >> 20, budget::PER_BYTE);
    assert!(DOCUMENT.contains(&budget_rule), "{budget_rule}");
    for (what, bound) in [
        ("`raw_len`, length of the payload", format!("{} MiB", MAX_RAW >> 20)),
        ("length of the facts", format!("{} KiB", MAX_FACTS >> 10)),
        ("devices in a file", MAX_DEVICES.to_string()),
        ("events in a chunk", crate::units::Count(MAX_CHUNK_EVENTS as u64).to_string()),
        ("events", format!("{} × `count`", budget::EVENT)),
        ("annotations", format!("{} × `count`", budget::ANNOTATION)),
        ("segments", format!("{} × `count` + {} × `blocks`", budget::SEGMENT, budget::BLOCK)),
        (
            "samples",
            format!(
                "{} × `count` + for each entry of `stats` {} + bytes of its name",
                budget::SAMPLE,
                budget::STAT
            ),
        ),
        ("reduced", format!("{} × `raw_len`", budget::REPORT_BYTE)),
        ("live", format!("{} × `count`", budget::LIVE_ROW)),
        ("driver", format!("{} × `count`", budget::DRIVER_ROW)),
        ("rows of driver calls in a chunk", crate::units::Count(MAX_CHUNK_EVENTS as u64).to_string()),
        ("settings, process, warnings", format!("{} × `raw_len`", budget::PLAIN_BYTE)),
    ] {
        assert!(DOCUMENT.contains(&format!("| {what} | {bound} |")), "{what}: {bound}");
    }
}
