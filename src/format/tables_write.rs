//! Chunks of tables: writing what is new, in pieces.
//!
//! Owns the position up to which each table has been written. Rows go out in the order of their numbers, so
//! the ids in the file are the ids of the model.

use std::io;

use crate::model::{FrameId, StackId, StringId, Trace};

use super::chunk::Kind;
use super::column::pack_offset;
use super::packer::MapPacker;
use super::tables::TableFacts;
use super::write::Sink;

/// Text bytes and rows after which a new chunk begins.
const CHUNK_BYTES: usize = 1 << 20;
const CHUNK_ROWS: usize = 1 << 16;

/// How many rows of each table have been written, or are to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    strings: usize,
    frames: usize,
    stacks: usize,
    pools: usize,
}

impl Position {
    /// Nothing but what every reader knows: string 0 and stack 0.
    pub(super) const START: Self = Self { strings: 1, frames: 0, stacks: 1, pools: 0 };

    /// The end of all tables.
    pub(super) fn end(trace: &Trace) -> Self {
        Self {
            strings: trace.strings.len(),
            frames: trace.frames.len(),
            stacks: trace.stacks.len(),
            pools: trace.pools.len(),
        }
    }

    /// Moves on so that `string` is included.
    pub(super) fn include_string(&mut self, string: StringId) {
        self.strings = self.strings.max(string.0 as usize + 1);
    }

    /// Moves on so that the first `pools` pools are included.
    pub(super) fn include_pools(&mut self, pools: u32) {
        self.pools = self.pools.max(pools as usize);
    }

    /// Moves on so that `stack` is included, without its frames: see [`Position::include_parts`].
    pub(super) fn include_stack(&mut self, stack: StackId) {
        self.stacks = self.stacks.max(stack.0 as usize + 1);
    }

    /// Moves on so that the frames of all stacks, and their strings, are included. `written` is what need
    /// not be looked at again.
    fn include_parts(&mut self, trace: &Trace, written: &Self) {
        self.stacks = self.stacks.min(trace.stacks.len());
        for stack in written.stacks..self.stacks {
            let frames = trace.stacks.get(StackId(stack as u32));
            let end = frames.iter().map(|frame| frame.0 as usize + 1).max().unwrap_or(0);
            self.frames = self.frames.max(end);
        }
        self.frames = self.frames.min(trace.frames.len());
        for frame in written.frames..self.frames {
            let frame = trace.frames.get(FrameId(frame as u32));
            self.include_string(frame.function);
            self.include_string(frame.file);
        }
        self.strings = self.strings.min(trace.strings.len());
        self.pools = self.pools.min(trace.pools.len());
    }
}

/// Writes all rows from `written` to `wanted`, and moves `written`.
pub(super) fn write_until(
    sink: &mut Sink<'_>,
    trace: &Trace,
    written: &mut Position,
    mut wanted: Position,
) -> io::Result<()> {
    wanted.include_parts(trace, written);
    while written.strings < wanted.strings
        || written.frames < wanted.frames
        || written.stacks < wanted.stacks
        || written.pools < wanted.pools
    {
        write_piece(sink, trace, written, &wanted)?;
    }
    Ok(())
}

fn write_piece(
    sink: &mut Sink<'_>,
    trace: &Trace,
    written: &mut Position,
    wanted: &Position,
) -> io::Result<()> {
    let mut facts = TableFacts::default();
    let mut payload = MapPacker::default();
    let strings = strings_that_fit(trace, written.strings, wanted.strings);
    if strings > 0 {
        facts.strings = (written.strings as u64, strings as u64);
        let packer = payload.key("strings");
        packer.array(strings);
        for id in written.strings..written.strings + strings {
            packer.text(trace.strings.get(StringId(id as u32)));
        }
        written.strings += strings;
    }
    // A frame goes out with or after its strings, a stack with or after its frames.
    if written.strings >= wanted.strings {
        facts.frames = pack_frames(trace, &mut payload, written, wanted);
    }
    if written.frames >= wanted.frames && written.strings >= wanted.strings {
        (facts.stacks, facts.stack_frames) = pack_stacks(trace, &mut payload, written, wanted);
        facts.pools = pack_pools(trace, &mut payload, written, wanted);
    }
    sink.emit(Kind::Tables, facts.pack(), payload, |raw_len| facts.cost(raw_len))
}

impl TableFacts {
    fn pack(&self) -> MapPacker {
        let mut map = MapPacker::default();
        let tables = [
            ("strings", self.strings),
            ("frames", self.frames),
            ("stacks", self.stacks),
            ("pools", self.pools),
        ];
        for (key, (first, count)) in tables {
            if count > 0 {
                map.key(key).array(2).uint(first).uint(count);
            }
        }
        if self.stacks.1 > 0 {
            map.uint("stack_frames", self.stack_frames);
        }
        map
    }
}

fn strings_that_fit(trace: &Trace, from: usize, to: usize) -> usize {
    let mut bytes = 0;
    for (count, id) in (from..to).enumerate() {
        bytes += trace.strings.get(StringId(id as u32)).len() + 5;
        // The first always goes, however long: a chunk may be larger than the usual.
        if count > 0 && (bytes > CHUNK_BYTES || count == CHUNK_ROWS) {
            return count;
        }
    }
    to.saturating_sub(from)
}

fn pack_frames(
    trace: &Trace,
    payload: &mut MapPacker,
    written: &mut Position,
    wanted: &Position,
) -> (u64, u64) {
    let first = written.frames;
    let end = wanted.frames.min(first + CHUNK_ROWS);
    if end <= first {
        return (0, 0);
    }
    let rows = &trace.frames.rows()[first..end];
    let functions: Vec<u64> = rows.iter().map(|frame| frame.function.0.into()).collect();
    let files: Vec<u64> = rows.iter().map(|frame| frame.file.0.into()).collect();
    let lines: Vec<u64> = rows.iter().map(|frame| frame.line).collect();
    pack_offset(payload.key("frame_function"), &functions, 1);
    pack_offset(payload.key("frame_file"), &files, 1);
    pack_offset(payload.key("frame_line"), &lines, 1);
    written.frames = end;
    (first as u64, rows.len() as u64)
}

fn pack_stacks(
    trace: &Trace,
    payload: &mut MapPacker,
    written: &mut Position,
    wanted: &Position,
) -> ((u64, u64), u64) {
    let first = written.stacks;
    let (mut lengths, mut frames) = (Vec::new(), Vec::new());
    while written.stacks < wanted.stacks && frames.len() < 8 * CHUNK_ROWS && lengths.len() < CHUNK_ROWS {
        let stack = trace.stacks.get(StackId(written.stacks as u32));
        lengths.push(stack.len() as u64);
        frames.extend(stack.iter().map(|frame| u64::from(frame.0)));
        written.stacks += 1;
    }
    if lengths.is_empty() {
        return ((0, 0), 0);
    }
    pack_offset(payload.key("stack_length"), &lengths, 1);
    pack_offset(payload.key("stack_frame"), &frames, 1);
    ((first as u64, lengths.len() as u64), frames.len() as u64)
}

fn pack_pools(
    trace: &Trace,
    payload: &mut MapPacker,
    written: &mut Position,
    wanted: &Position,
) -> (u64, u64) {
    let first = written.pools;
    let end = wanted.pools.min(first + CHUNK_ROWS);
    if end <= first {
        return (0, 0);
    }
    let pools = &trace.pools[first..end];
    pack_offset(payload.key("pool_first"), &pools.iter().map(|pool| pool.0).collect::<Vec<_>>(), 1);
    pack_offset(payload.key("pool_second"), &pools.iter().map(|pool| pool.1).collect::<Vec<_>>(), 1);
    written.pools = end;
    // Pool 0 in the file is "no pool"; the first pool is number 1.
    (first as u64 + 1, pools.len() as u64)
}
