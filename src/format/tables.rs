//! Chunks of tables: strings, frames, stacks and pools that are new in the file. Reading.
//!
//! Owns checking a chunk as a whole before any of it enters the model, and the maps from file ids to model
//! ids. Writing is in `tables_write`.

use std::collections::BTreeMap;

use crate::model::{Frame, FrameId, PoolId, StringId, Trace, Warnings};

use super::budget::{self, STACK_FRAME, TABLE_ROW};
use super::chunk::Chunk;
use super::codec::Unpacker;
use super::column::{Column, read_small};
use super::cursor::{Cursor, Fault, Parse};
use super::fields::{Texts, read_map, read_pair, read_texts};
use super::ids::{IdMap, Ids};

/// First id and number of rows of each table in one chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TableFacts {
    pub(super) strings: (u64, u64),
    pub(super) frames: (u64, u64),
    pub(super) stacks: (u64, u64),
    /// Frames of all stacks together.
    pub(super) stack_frames: u64,
    pub(super) pools: (u64, u64),
}

impl TableFacts {
    pub(super) fn read(chunk: &Chunk<'_>, warnings: &mut Warnings) -> Parse<Self> {
        let mut facts = Self::default();
        read_map(chunk.facts, warnings, |key, cursor| {
            match key {
                "strings" => facts.strings = read_pair(cursor)?,
                "frames" => facts.frames = read_pair(cursor)?,
                "stacks" => facts.stacks = read_pair(cursor)?,
                "stack_frames" => facts.stack_frames = cursor.uint()?,
                "pools" => facts.pools = read_pair(cursor)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(facts)
    }

    /// Cost of the chunk against the file's budget.
    pub(super) fn cost(&self, raw_len: usize) -> u64 {
        [self.strings.1, self.frames.1, self.stacks.1, self.pools.1]
            .into_iter()
            .map(|count| budget::rows(count, TABLE_ROW))
            .fold(raw_len as u64, u64::saturating_add)
            .saturating_add(budget::rows(self.stack_frames, STACK_FRAME))
    }
}

/// What one chunk holds, checked for shape.
#[derive(Default)]
struct Rows<'a> {
    strings: Texts<'a>,
    functions: Vec<u32>,
    files: Vec<u32>,
    lines: Vec<u64>,
    stack_lengths: Vec<u32>,
    stack_frames: Vec<u32>,
    pool_first: Vec<u64>,
    pool_second: Vec<u64>,
}

impl<'a> Rows<'a> {
    /// The budget has bounded every count in `facts`.
    fn read(payload: &'a [u8], facts: &TableFacts, warnings: &mut Warnings) -> Parse<Self> {
        let mut rows = Self::default();
        let (frames, stacks, pools) =
            (facts.frames.1 as usize, facts.stacks.1 as usize, facts.pools.1 as usize);
        let values = |cursor: &mut Cursor<'a>, count| Ok(Column::read(cursor, count)?.values(count));
        read_map(payload, warnings, |key, cursor| {
            match key {
                "strings" => rows.strings = read_texts(cursor)?,
                "frame_function" => rows.functions = read_small(cursor, frames)?,
                "frame_file" => rows.files = read_small(cursor, frames)?,
                "frame_line" => rows.lines = values(cursor, frames)?,
                "stack_length" => rows.stack_lengths = read_small(cursor, stacks)?,
                "stack_frame" => rows.stack_frames = read_small(cursor, facts.stack_frames as usize)?,
                "pool_first" => rows.pool_first = values(cursor, pools)?,
                "pool_second" => rows.pool_second = values(cursor, pools)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        rows.check(facts)?;
        Ok(rows)
    }

    fn check(&self, facts: &TableFacts) -> Parse<()> {
        let stated = [facts.strings.1, facts.frames.1, facts.frames.1, facts.frames.1, facts.stacks.1];
        let found = [
            self.strings.len(),
            self.functions.len(),
            self.files.len(),
            self.lines.len(),
            self.stack_lengths.len(),
        ];
        let pools = [self.pool_first.len(), self.pool_second.len()];
        let in_stacks: u64 = self.stack_lengths.iter().map(|&length| u64::from(length)).sum();
        let all_match = stated.into_iter().zip(found).all(|(stated, found)| stated == found as u64)
            && pools.into_iter().all(|found| found as u64 == facts.pools.1)
            && in_stacks == self.stack_frames.len() as u64;
        if all_match { Ok(()) } else { Err(Fault::Wrong("tables of another length than stated")) }
    }
}

/// Enters a chunk of tables into the model.
pub(super) fn read(
    chunk: &Chunk<'_>,
    facts: &TableFacts,
    trace: &mut Trace,
    ids: &mut Ids,
    unpacker: &mut Unpacker,
) -> Parse<()> {
    let payload = chunk.unpack(unpacker)?;
    let rows = Rows::read(payload, facts, &mut trace.warnings)?;
    let mut missing = start(&mut ids.strings, facts.strings)?;
    missing += start(&mut ids.frames, facts.frames)?;
    missing += start(&mut ids.stacks, facts.stacks)?;
    missing += start(&mut ids.pools, facts.pools)?;
    if missing > 0 {
        trace.complete = false;
        trace.warnings.add("missing-table", || {
            format!(
                "rows of the tables are missing before byte {}: what names them shows as unknown",
                chunk.offset
            )
        });
    }
    for text in &rows.strings {
        ids.strings.push(trace.strings.intern(text).0);
    }
    let unknown = enter_frames(&rows, trace, ids) + enter_stacks(&rows, trace, ids);
    enter_pools(&rows, trace, ids);
    trace.warnings.add_many("unknown-id", unknown, || {
        "frames or stacks name strings or frames that the trace does not define".to_owned()
    });
    Ok(())
}

fn start(map: &mut IdMap, (first, count): (u64, u64)) -> Parse<u64> {
    if count == 0 { Ok(0) } else { Ok(map.start(first)?.min(u64::from(u32::MAX))) }
}

fn enter_frames(rows: &Rows<'_>, trace: &mut Trace, ids: &mut Ids) -> u64 {
    let mut unknown = 0;
    for (row, &line) in rows.lines.iter().enumerate() {
        let frame = Frame {
            function: StringId(ids.strings.get_or_zero(rows.functions[row].into(), &mut unknown)),
            file: StringId(ids.strings.get_or_zero(rows.files[row].into(), &mut unknown)),
            line,
        };
        ids.frames.push(trace.frames.intern(frame).0);
    }
    unknown
}

fn enter_stacks(rows: &Rows<'_>, trace: &mut Trace, ids: &mut Ids) -> u64 {
    let (mut unknown, mut at) = (0, 0);
    let mut stack = Vec::new();
    for &length in &rows.stack_lengths {
        let frames = &rows.stack_frames[at..at + length as usize];
        at += length as usize;
        stack.clear();
        for &frame in frames {
            let known = ids.frames.get(frame.into());
            unknown += u64::from(known.is_none());
            stack.push(known.map_or_else(|| trace.frames.intern(Frame::default()), FrameId));
        }
        ids.stacks.push(trace.stacks.intern(&stack).0);
    }
    unknown
}

fn enter_pools(rows: &Rows<'_>, trace: &mut Trace, ids: &mut Ids) {
    if rows.pool_first.is_empty() {
        return;
    }
    // `Trace::pool_index` scans, which a crafted file could make slow.
    let mut known: BTreeMap<PoolId, u32> =
        trace.pools.iter().enumerate().map(|(index, &pool)| (pool, index as u32 + 1)).collect();
    for (&first, &second) in rows.pool_first.iter().zip(&rows.pool_second) {
        let pool = PoolId(first, second);
        let number = *known.entry(pool).or_insert_with(|| {
            trace.pools.push(pool);
            trace.pools.len() as u32
        });
        ids.pools.push(number);
    }
}
