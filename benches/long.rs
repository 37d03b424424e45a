//! Writes a trace of any length while it is made, with its right values beside it.
//!
//!     cargo bench --bench long -- EVENTS OUT.msgpack
//!
//! 100 million events take a minute and no more room than one piece of them. OUT.json says what an analyzer
//! must find, in the keys of `torch.cuda.memory_stats()`, as `testdata/generate.py` does for pickles. Without
//! arguments (`cargo bench`) it does nothing. `benches/long_runs.py` measures with what it wrote.
#![allow(missing_docs, clippy::print_stderr, reason = "a program for the bench folder")]

#[path = "support/allocator.rs"]
mod allocator;
#[path = "support/program.rs"]
mod program;

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use memlab::format::{WriteOptions, Writer};
use memlab::model::{
    Block, BlockState, DeviceId, Event, Events, Segment, SegmentKind, SettingValue, StackId, Trace,
};
use serde_json::{Value, json};

use allocator::{Allocator, Counter, Held};
use program::Program;

const SIDE_STREAM: u64 = 140_500_000_001_024;
/// Events that are held at once: whole chunks of the usual length.
const PIECE: usize = 64 * 16_384;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.as_slice() {
        [] => {}
        [events, out] => {
            let events = events.parse().expect("a number of events");
            generate(events, Path::new(out)).expect("a folder with room for the trace");
        }
        _ => eprintln!("usage: cargo bench --bench long -- EVENTS OUT.msgpack"),
    }
}

fn generate(events: u64, out: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut trace = Trace { complete: true, ..Trace::default() };
    trace.settings.values.insert("expandable_segments".to_owned(), SettingValue::Bool(false));
    trace.settings.values.insert("max_split_size".to_owned(), SettingValue::Int(-1));
    trace.device_mut(DeviceId(0));
    let stacks = program::stacks(&mut trace);
    let (mut program, mut allocator) = (Program::new(0), Allocator::default());
    let (options, mut file) = (WriteOptions::default(), BufWriter::new(File::create(out)?));
    let mut writer = Writer::begin(&trace, &options, &mut file)?;
    let mut clock = Clock { time_us: 1_795_962_434_000_000, number: 0 };
    while clock.number + (allocator.log.len() as u64) < events {
        program.advance(&mut allocator);
        if allocator.log.len() >= PIECE {
            let rest = allocator.log.split_off(PIECE);
            piece(
                &mut trace,
                &mut writer,
                &std::mem::replace(&mut allocator.log, rest),
                &stacks,
                &mut clock,
            )?;
        }
    }
    piece(&mut trace, &mut writer, &std::mem::take(&mut allocator.log), &stacks, &mut clock)?;
    let segments = allocator.segments.values().map(|held| segment(&allocator, held, &stacks)).collect();
    trace.device_mut(DeviceId(0)).segments = Some(segments);
    writer.finish(&trace)?;
    let mut values = File::create(out.with_extension("json"))?;
    writeln!(values, "{:#}", right_values(clock.number, &allocator))?;
    Ok(())
}

/// When the next event is, and its number.
struct Clock {
    time_us: i64,
    number: u64,
}

/// Writes the next events, and forgets them.
fn piece(
    trace: &mut Trace,
    writer: &mut Writer<'_>,
    rows: &[allocator::Logged],
    stacks: &[StackId],
    clock: &mut Clock,
) -> Result<(), memlab::error::Error> {
    let events = &mut trace.device_mut(DeviceId(0)).events;
    // Streams keep their numbers.
    *events = Events { stream_values: std::mem::take(&mut events.stream_values), ..Events::default() };
    events.reserve(rows.len());
    for row in rows {
        // Pauses of 1 to 59 us that look random and depend on nothing but the number.
        clock.time_us += 1 + ((clock.number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 59) as i64;
        clock.number += 1;
        events.push(Event {
            action: row.action,
            time_us: clock.time_us,
            address: row.address,
            size: row.bytes,
            stream: if row.side { SIDE_STREAM } else { 0 },
            stack: stacks[row.site as usize],
        });
    }
    writer.events(trace)
}

fn segment(allocator: &Allocator, held: &Held, stacks: &[StackId]) -> Segment {
    let first = allocator.blocks[held.first];
    let list = std::iter::successors(Some(first), |block| block.after.map(|after| allocator.blocks[after]));
    let mut segment = Segment {
        address: first.address,
        bytes: held.bytes,
        stream: if first.home.side { SIDE_STREAM } else { 0 },
        kind: if first.home.small { SegmentKind::Small } else { SegmentKind::Large },
        ..Segment::default()
    };
    for block in list {
        let state = match (block.free, block.pending) {
            (true, _) => BlockState::Inactive,
            (false, true) => BlockState::ActivePendingFree,
            (false, false) => BlockState::ActiveAllocated,
        };
        let [allocated, active, requested] = &mut segment.stated_bytes;
        if !block.free {
            *allocated += if block.pending { 0 } else { block.bytes };
            *active += block.bytes;
            *requested += block.requested;
        }
        let stack = if block.free { StackId::NONE } else { stacks[block.site as usize] };
        let requested_bytes = if block.free { 0 } else { block.requested };
        segment.blocks.push(Block {
            address: block.address,
            bytes: block.bytes,
            requested_bytes,
            state,
            stack,
        });
    }
    segment
}

/// What an analyzer must find.
fn right_values(events: u64, allocator: &Allocator) -> Value {
    let counters = &allocator.counters;
    let named: [(&str, Counter); 7] = [
        ("active", counters.active),
        ("active_bytes", counters.active_bytes),
        ("allocated_bytes", counters.allocated_bytes),
        ("allocation", counters.allocation),
        ("requested_bytes", counters.requested_bytes),
        ("reserved_bytes", counters.reserved_bytes),
        ("segment", counters.segment),
    ];
    let mut stats = serde_json::Map::new();
    for (name, Counter { current, peak, allocated, freed }) in named {
        for (part, value) in
            [("allocated", allocated), ("current", current), ("freed", freed), ("peak", peak)]
        {
            stats.insert(format!("{name}.all.{part}"), value.into());
        }
    }
    json!({ "events": events, "segments": allocator.segments.len(), "stats": stats })
}
