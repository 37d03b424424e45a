//! Chunks of live sets: what was live at the kept moments of a reduced recording.
//!
//! Owns their columns. One row per allocation, however many of the moments it was live at.

use std::io;

use crate::model::{DeviceId, LiveMoment, LiveRow, LiveSet, StackId, Trace};

use super::budget::{self, LIVE_ROW};
use super::chunk::{Chunk, Kind};
use super::column::{Column, pack_delta, pack_offset};
use super::cursor::{Cursor, Fault, Parse};
use super::fields::read_map;
use super::marks::{NO_MOMENT, moment};
use super::packer::MapPacker;
use super::read::Context;
use super::write::Sink;

/// Rows in one chunk, as written here.
const CHUNK_ROWS: usize = 1 << 16;
/// Longest name of a moment that is read.
const MAX_NAME: usize = 64;

const COLUMNS: [&str; 8] =
    ["address", "bytes", "requested_bytes", "stream", "alloc_event", "stack", "live", "pending"];

/// Writes all live sets, if there are any.
pub(super) fn write(sink: &mut Sink<'_>, trace: &Trace) -> io::Result<()> {
    let sets = trace.reduced.iter().flat_map(|reduced| &reduced.live);
    for set in sets {
        for rows in set.rows.chunks(CHUNK_ROWS) {
            let cost = budget::rows(rows.len() as u64, LIVE_ROW);
            sink.emit(Kind::Live, facts(set, rows.len()), payload(rows), |_| cost)?;
        }
    }
    Ok(())
}

fn facts(set: &LiveSet, count: usize) -> MapPacker {
    let mut facts = MapPacker::default();
    facts.uint("device", set.device.0.into()).uint("count", count as u64);
    let packer = facts.key("moments");
    packer.array(set.moments.len());
    for moment in &set.moments {
        packer.array(2).text(&moment.name);
        match moment.event {
            Some(event) => packer.uint(event),
            None => packer.nil(),
        };
    }
    facts
}

fn payload(rows: &[LiveRow]) -> MapPacker {
    let mut payload = MapPacker::default();
    for (place, name) in COLUMNS.into_iter().enumerate() {
        let values: Vec<u64> = rows.iter().map(|row| cells(row)[place]).collect();
        if name == "alloc_event" {
            pack_delta(payload.key(name), &values);
        } else {
            pack_offset(payload.key(name), &values, 0);
        }
    }
    payload
}

fn cells(row: &LiveRow) -> [u64; COLUMNS.len()] {
    let event = row.alloc_event.unwrap_or(NO_MOMENT);
    let stack = row.stack.0.into();
    [row.address, row.bytes, row.requested_bytes, row.stream, event, stack, row.live, row.pending]
}

/// Reads a chunk behind the rows of its device so far.
pub(super) fn read(chunk: &Chunk<'_>, context: &mut Context) -> Parse<()> {
    context.reduced.is_reduced = true;
    let (mut device, mut count, mut moments) = (0, 0, Vec::new());
    read_map(chunk.facts, &mut context.trace.warnings, |key, cursor| {
        match key {
            "device" => device = cursor.uint32()?,
            "count" => count = cursor.uint32()? as usize,
            "moments" => moments = read_moments(cursor)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    if !context.budget.spend(budget::rows(count as u64, LIVE_ROW), chunk.end) {
        return Err(Fault::Wrong("more live allocations than a file of this length may hold"));
    }
    let payload = chunk.unpack(&mut context.unpacker)?;
    let mut columns: [Vec<u64>; COLUMNS.len()] = Default::default();
    read_map(payload, &mut context.trace.warnings, |key, cursor| {
        let Some(place) = COLUMNS.iter().position(|name| *name == key) else { return Ok(false) };
        columns[place] = Column::read(cursor, count)?.values(count);
        Ok(true)
    })?;
    let mut unknown = 0;
    let stacks = &context.ids.stacks;
    let rows: Vec<LiveRow> = (0..count)
        .map(|row| {
            let at = |place: usize| columns[place].get(row).copied().unwrap_or(0);
            LiveRow {
                address: at(0),
                bytes: at(1),
                requested_bytes: at(2),
                stream: at(3),
                alloc_event: moment(at(4)),
                stack: StackId(stacks.get_or_zero(at(5), &mut unknown)),
                live: at(6),
                pending: at(7),
            }
        })
        .collect();
    context.trace.warnings.add_many("unknown-id", unknown, || {
        "live allocations name stacks that the trace does not define".to_owned()
    });
    enter(&mut context.reduced.live, LiveSet { device: DeviceId(device), moments, rows })
}

fn read_moments(cursor: &mut Cursor<'_>) -> Parse<Vec<LiveMoment>> {
    let count = cursor.array()? as usize;
    if count > LiveSet::MOST_MOMENTS {
        return Err(Fault::Wrong("more than 64 moments"));
    }
    let mut moments = Vec::new();
    for _ in 0..count {
        let length = cursor.array()?;
        let name = cursor.text()?.into_owned();
        let event = cursor.optional_uint()?;
        for _ in 2..length {
            cursor.skip()?;
        }
        if length < 2 || name.len() > MAX_NAME {
            return Err(Fault::Wrong("a moment without a proper name"));
        }
        moments.push(LiveMoment { name, event });
    }
    Ok(moments)
}

/// Adds `set` to those of the trace; chunks of one device must agree on the moments.
fn enter(sets: &mut Vec<LiveSet>, set: LiveSet) -> Parse<()> {
    match sets.binary_search_by_key(&set.device, |known| known.device) {
        Ok(at) if sets[at].moments == set.moments => sets[at].rows.extend(set.rows),
        Ok(_) => return Err(Fault::Wrong("live allocations of other moments than before")),
        Err(at) => sets.insert(at, set),
    }
    Ok(())
}
