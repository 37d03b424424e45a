//! Chunks of segments: the state of the allocator's pools on one device.
//!
//! Owns writing and reading of segments and blocks as columns. A state may span several chunks, and a
//! recording may hold several states: which chunks make up which is `states`' business.

use std::io;

use crate::model::{Block, BlockState, DeviceId, PoolId, Segment, SegmentKind, StackId, Trace, Warnings};

use super::budget::{self, BLOCK, SEGMENT};
use super::chunk::{Chunk, Kind};
use super::codec::Unpacker;
use super::column::{Column, pack_offset};
use super::cursor::{Fault, Parse};
use super::fields::read_map;
use super::ids::Ids;
use super::packer::MapPacker;
use super::write::Sink;

/// Blocks after which a new chunk begins.
const CHUNK_BLOCKS: usize = 1 << 17;

/// Columns of a segment; the number is the index in a row.
const SEGMENT_KEYS: [&str; 12] = [
    "address",
    "bytes",
    "stream",
    "kind",
    "pool_first",
    "pool_second",
    "expandable",
    "stack",
    "allocated_bytes",
    "active_bytes",
    "requested_bytes",
    "blocks",
];

/// Columns of a block.
const BLOCK_KEYS: [&str; 5] =
    ["block_address", "block_bytes", "block_requested_bytes", "block_state", "block_stack"];

/// Writes the state of `device` before its event number `events`.
pub(super) fn write(
    sink: &mut Sink<'_>,
    device: DeviceId,
    events: u64,
    segments: &[Segment],
) -> io::Result<()> {
    let mut first = 0;
    loop {
        let end = chunk_end(segments, first);
        write_chunk(sink, (device, events), segments, first..end)?;
        first = end;
        if first >= segments.len() {
            return Ok(());
        }
    }
}

fn chunk_end(segments: &[Segment], first: usize) -> usize {
    let mut blocks = 0;
    for (index, segment) in segments.iter().enumerate().skip(first) {
        blocks += segment.blocks.len() + 4;
        if index > first && blocks > CHUNK_BLOCKS {
            return index;
        }
    }
    segments.len()
}

fn write_chunk(
    sink: &mut Sink<'_>,
    (device, events): (DeviceId, u64),
    segments: &[Segment],
    range: std::ops::Range<usize>,
) -> io::Result<()> {
    let part = &segments[range.clone()];
    let blocks: Vec<&Block> = part.iter().flat_map(|segment| &segment.blocks).collect();
    let mut facts = MapPacker::default();
    facts.uint("device", device.0.into()).uint("events", events);
    facts.uint("first", range.start as u64).uint("count", part.len() as u64);
    facts.uint("blocks", blocks.len() as u64);
    let mut payload = MapPacker::default();
    pack_rows(&mut payload, &SEGMENT_KEYS, part.iter().map(segment_row));
    pack_rows(&mut payload, &BLOCK_KEYS, blocks.iter().map(|block| block_row(block)));
    let cost = cost(part.len() as u64, blocks.len() as u64);
    sink.emit(Kind::Segments, facts, payload, |_| cost)
}

fn cost(segments: u64, blocks: u64) -> u64 {
    budget::rows(segments, SEGMENT).saturating_add(budget::rows(blocks, BLOCK))
}

fn segment_row(segment: &Segment) -> [u64; 12] {
    let [allocated, active, requested] = segment.stated_bytes;
    [
        segment.address,
        segment.bytes,
        segment.stream,
        segment.kind as u64,
        segment.pool.0,
        segment.pool.1,
        segment.is_expandable.into(),
        segment.stack.0.into(),
        allocated,
        active,
        requested,
        segment.blocks.len() as u64,
    ]
}

fn block_row(block: &Block) -> [u64; 5] {
    [block.address, block.bytes, block.requested_bytes, block.state as u64, block.stack.0.into()]
}

/// Rows as columns; a column of zeros is left out.
fn pack_rows<const N: usize>(
    payload: &mut MapPacker,
    keys: &[&str; N],
    rows: impl Iterator<Item = [u64; N]>,
) {
    let rows: Vec<[u64; N]> = rows.collect();
    for (column, key) in keys.iter().enumerate() {
        let values: Vec<u64> = rows.iter().map(|row| row[column]).collect();
        if values.iter().any(|&value| value != 0) {
            pack_offset(payload.key(key), &values, 0);
        }
    }
}

/// What the chunk says uncompressed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts {
    pub(super) device: u32,
    /// Events of the device before the state was taken; `None` means all.
    pub(super) events: Option<u64>,
    pub(super) first: u64,
    pub(super) count: u64,
    blocks: u64,
}

impl Facts {
    /// What the chunk costs of a file's budget.
    pub(super) fn cost(&self) -> u64 {
        cost(self.count, self.blocks)
    }
}

/// Reads what the chunk says uncompressed.
pub(super) fn read_facts(chunk: &Chunk<'_>, warnings: &mut Warnings) -> Parse<Facts> {
    let mut facts = Facts::default();
    read_map(chunk.facts, warnings, |key, cursor| {
        match key {
            "device" => facts.device = cursor.uint32()?,
            "events" => facts.events = Some(cursor.uint()?),
            "first" => facts.first = cursor.uint()?,
            "count" => facts.count = cursor.uint()?,
            "blocks" => facts.blocks = cursor.uint()?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(facts)
}

/// Decodes the chunk whose facts are `facts`.
pub(super) fn read_segments(
    chunk: &Chunk<'_>,
    facts: &Facts,
    trace: &mut Trace,
    ids: &Ids,
    unpacker: &mut Unpacker,
) -> Parse<Vec<Segment>> {
    let payload = chunk.unpack(unpacker)?;
    let (count, blocks) = (facts.count as usize, facts.blocks as usize);
    let mut of_segments: [Vec<u64>; 12] = Default::default();
    let mut of_blocks: [Vec<u64>; 5] = Default::default();
    read_map(payload, &mut trace.warnings, |key, cursor| {
        if let Some(at) = SEGMENT_KEYS.iter().position(|&known| known == key) {
            of_segments[at] = Column::read(cursor, count)?.values(count);
        } else if let Some(at) = BLOCK_KEYS.iter().position(|&known| known == key) {
            of_blocks[at] = Column::read(cursor, blocks)?.values(blocks);
        } else {
            return Ok(false);
        }
        Ok(true)
    })?;
    let stated = of_segments[11].iter().fold(0u64, |sum, &blocks| sum.saturating_add(blocks));
    if stated != facts.blocks {
        return Err(Fault::Wrong("blocks of another number than stated"));
    }
    let mut unknown = 0;
    let mut rest = (0..blocks).map(|row| block(&of_blocks, row, ids, &mut unknown)).collect::<Vec<_>>();
    let mut segments: Vec<Segment> = Vec::with_capacity(count);
    // From the back, so that each segment's blocks split off without moving the others.
    for row in (0..count).rev() {
        let own = rest.split_off(rest.len() - cell(&of_segments, 11, row) as usize);
        segments.push(segment(&of_segments, row, own, ids, &mut unknown));
    }
    segments.reverse();
    trace.warnings.add_many("unknown-id", unknown, || {
        "segments or blocks name stacks or states that the trace does not define".to_owned()
    });
    Ok(segments)
}

/// The value of a column that may be absent.
fn cell<const N: usize>(columns: &[Vec<u64>; N], column: usize, row: usize) -> u64 {
    columns[column].get(row).copied().unwrap_or(0)
}

fn segment(
    columns: &[Vec<u64>; 12],
    row: usize,
    blocks: Vec<Block>,
    ids: &Ids,
    unknown: &mut u64,
) -> Segment {
    let at = |column| cell(columns, column, row);
    Segment {
        address: at(0),
        bytes: at(1),
        stream: at(2),
        kind: if at(3) == 0 { SegmentKind::Small } else { SegmentKind::Large },
        pool: PoolId(at(4), at(5)),
        is_expandable: at(6) != 0,
        stack: StackId(ids.stacks.get_or_zero(at(7), unknown)),
        stated_bytes: [at(8), at(9), at(10)],
        blocks,
    }
}

fn block(columns: &[Vec<u64>; 5], row: usize, ids: &Ids, unknown: &mut u64) -> Block {
    let at = |column| cell(columns, column, row);
    let state = match at(3) {
        0 => BlockState::Inactive,
        1 => BlockState::ActiveAllocated,
        2 => BlockState::ActivePendingFree,
        _ => {
            *unknown += 1;
            BlockState::Inactive
        }
    };
    Block {
        address: at(0),
        bytes: at(1),
        requested_bytes: at(2),
        state,
        stack: StackId(ids.stacks.get_or_zero(at(4), unknown)),
    }
}
