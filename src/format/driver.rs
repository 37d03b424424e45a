//! Chunks of driver calls.
//!
//! Owns their columns, both directions, and that rows are in their true order once all are read. Native stacks are
//! `native`'s, Python's are those of the tables. What calls amount to is not known here.

use std::io;

use crate::model::{DeviceId, DriverLayer, DriverRow, NativeStackId, StackId, Trace};

use super::budget::{self, DRIVER_ROW};
use super::chunk::{Chunk, Kind};
use super::column::{Column, pack_delta, pack_offset};
use super::cursor::{Fault, Parse};
use super::fields::read_map;
use super::packer::MapPacker;
use super::read::Context;
use super::write::Sink;
use super::{MAX_CHUNK_EVENTS, MAX_EVENT_NUMBER};

/// Rows in one chunk, as written here.
const CHUNK_ROWS: usize = 16_384;

/// Columns in the order in which they are written; the first three must be there.
const COLUMNS: [&str; 16] = [
    "call", "order", "time", "result", "device", "context", "stream", "address", "bytes", "handle", "offset",
    "flags", "thread", "depth", "native", "python",
];
const REQUIRED: usize = 3;
/// Columns that grow.
const GROWING: [&str; 2] = ["order", "time"];

/// Writes the layer.
pub(super) fn write(sink: &mut Sink<'_>, layer: &DriverLayer) -> io::Result<()> {
    for (piece, rows) in layer.rows.chunks(CHUNK_ROWS).enumerate() {
        let mut facts = MapPacker::default();
        facts.uint("first", (piece * CHUNK_ROWS) as u64).uint("count", rows.len() as u64);
        let times = || rows.iter().map(|row| row.time_us);
        facts.key("start_us").int(times().min().unwrap_or(0));
        facts.key("end_us").int(times().max().unwrap_or(0));
        let mut calls = vec![0u64; rows.iter().map(|row| usize::from(row.code) + 1).max().unwrap_or(0)];
        for row in rows {
            calls[usize::from(row.code)] += 1;
        }
        let packer = facts.key("calls").array(calls.len());
        for count in calls {
            packer.uint(count);
        }
        let cost = budget::rows(rows.len() as u64, DRIVER_ROW);
        sink.emit(Kind::Driver, facts, payload(rows), |_| cost)?;
    }
    Ok(())
}

fn payload(rows: &[DriverRow]) -> MapPacker {
    let mut payload = MapPacker::default();
    for (place, name) in COLUMNS.into_iter().enumerate() {
        let values: Vec<u64> = rows.iter().map(|row| cells(row)[place]).collect();
        if GROWING.contains(&name) {
            pack_delta(payload.key(name), &values);
        } else if place < REQUIRED || values.iter().any(|&value| value != 0) {
            pack_offset(payload.key(name), &values, usize::from(place == 0));
        }
    }
    payload
}

fn cells(row: &DriverRow) -> [u64; COLUMNS.len()] {
    [
        row.code.into(),
        row.order,
        row.time_us as u64,
        row.result.into(),
        row.device.0.into(),
        row.context,
        row.stream,
        row.address,
        row.bytes,
        row.handle,
        row.offset,
        row.flags,
        row.thread,
        row.depth.into(),
        row.native.0.into(),
        row.python.0.into(),
    ]
}

/// What a chunk says of its rows.
struct Facts {
    first: u64,
    count: usize,
}

impl Facts {
    fn read(chunk: &Chunk<'_>, context: &mut Context) -> Parse<Self> {
        let mut facts = Self { first: 0, count: 0 };
        read_map(chunk.facts, &mut context.trace.warnings, |key, cursor| {
            match key {
                "first" => facts.first = cursor.uint()?,
                "count" => facts.count = cursor.uint32()? as usize,
                // For those who count without reading.
                "start_us" | "end_us" | "calls" => cursor.skip()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        if facts.count > MAX_CHUNK_EVENTS || facts.first > MAX_EVENT_NUMBER {
            return Err(Fault::Wrong("more driver calls than a chunk may hold"));
        }
        Ok(facts)
    }
}

/// Reads a chunk behind the rows so far.
pub(super) fn read(chunk: &Chunk<'_>, context: &mut Context) -> Parse<()> {
    let facts = Facts::read(chunk, context)?;
    if !context.budget.spend(budget::rows(facts.count as u64, DRIVER_ROW), chunk.end) {
        return Err(Fault::Wrong("more driver calls than a file of this length may hold"));
    }
    let payload = chunk.unpack(&mut context.unpacker)?;
    let mut columns: [Vec<u64>; COLUMNS.len()] = Default::default();
    read_map(payload, &mut context.trace.warnings, |key, cursor| {
        let Some(place) = COLUMNS.iter().position(|name| *name == key) else { return Ok(false) };
        let column = Column::read(cursor, facts.count)?;
        if place == 0 && column.width() == 0 && facts.count > 0 {
            return Err(Fault::Wrong("calls in less than a byte each"));
        }
        columns[place] = column.values(facts.count);
        Ok(true)
    })?;
    if columns[..REQUIRED].iter().any(|column| column.len() != facts.count) {
        return Err(Fault::Wrong("driver calls without call, order or time"));
    }
    let mut unknown = 0;
    let rows: Vec<DriverRow> =
        (0..facts.count).map(|row| read_row(&columns, row, context, &mut unknown)).collect::<Parse<_>>()?;
    context.trace.warnings.add_many("unknown-id", unknown, || {
        "driver calls name stacks that the trace does not define".to_owned()
    });
    enter(facts.first, rows, &mut context.trace);
    Ok(())
}

fn read_row(
    columns: &[Vec<u64>; COLUMNS.len()],
    row: usize,
    context: &Context,
    unknown: &mut u64,
) -> Parse<DriverRow> {
    let at = |place: usize| columns[place].get(row).copied().unwrap_or(0);
    let small = |place: usize| {
        u32::try_from(at(place)).map_err(|_| Fault::Wrong("a number over 32 bits in a driver call"))
    };
    Ok(DriverRow {
        // A code that is not known means nothing; those over a byte are of no version.
        code: u8::try_from(at(0)).unwrap_or(u8::MAX),
        order: at(1),
        time_us: at(2) as i64,
        result: small(3)?,
        device: DeviceId(small(4)?),
        context: at(5),
        stream: at(6),
        address: at(7),
        bytes: at(8),
        handle: at(9),
        offset: at(10),
        flags: at(11),
        thread: at(12),
        depth: small(13)?,
        native: NativeStackId(context.native_ids.stacks.get_or_zero(at(14), unknown)),
        python: StackId(context.ids.stacks.get_or_zero(at(15), unknown)),
    })
}

fn enter(first: u64, rows: Vec<DriverRow>, trace: &mut Trace) {
    let layer = trace.driver.get_or_insert_default();
    let before = layer.rows.len() as u64;
    layer.rows.extend(rows);
    lost(trace, first.saturating_sub(before));
}

/// Counts rows that should be there, those included that are counted already.
fn lost(trace: &mut Trace, missing: u64) {
    let rows = missing.saturating_sub(trace.warnings.count("missing-driver-calls"));
    if rows == 0 {
        return;
    }
    trace.complete = false;
    trace.warnings.add_many("missing-driver-calls", rows.min(MAX_EVENT_NUMBER), || {
        "rows of driver calls are missing: chunks of them are damaged or lost".to_owned()
    });
}

/// Puts the rows into their order, once all chunks have been read. `stated` is how many the trailer counts.
pub(super) fn finish(trace: &mut Trace, stated: Option<u64>) {
    let found = trace.driver.as_ref().map_or(0, |layer| layer.rows.len() as u64);
    lost(trace, stated.unwrap_or(0).saturating_sub(found));
    let complete = trace.complete;
    if let Some(layer) = &mut trace.driver {
        layer.rows.sort_by_key(|row| row.order);
        layer.complete = complete;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use super::super::samples::{assert_same, packed, tiny};
    use super::super::{Codec, WriteOptions, read as read_trace};
    use super::*;
    use crate::format::samples::packed_with;
    use crate::model::{NativeFrame, NativeModule};

    /// `count` calls of all codes with all columns in use, after their order.
    pub(in crate::format) fn layer(count: u64) -> DriverLayer {
        let mut layer = DriverLayer { complete: true, ..DriverLayer::default() };
        let module =
            NativeModule { path: "/opt/liba.so".to_owned(), build_id: "0aff".to_owned(), bias: 1 << 40 };
        layer.native.push_module(module);
        for frame in 0..40u64 {
            layer.native.push_frame(NativeFrame { module: (frame % 2) as u32, offset: 16 * frame });
        }
        for stack in 0..20u32 {
            layer.native.push_stack(stack..2 * stack);
        }
        layer.rows = (0..count).map(|number| row(number + 1)).collect();
        layer
    }

    fn row(order: u64) -> DriverRow {
        DriverRow {
            code: (order % 29) as u8 + if order.is_multiple_of(5) { 64 } else { 1 },
            order: 3 * order,
            time_us: 1_795_962_240_000_000 + order as i64,
            result: (order % 7) as u32,
            device: DeviceId(if order.is_multiple_of(9) { u32::MAX } else { (order % 3) as u32 }),
            context: 0x5555_0000 + order % 4,
            stream: order % 3,
            address: u64::MAX - order,
            bytes: order << 20,
            handle: order % 11,
            offset: order % 2,
            flags: order % 5,
            thread: 4000 + order % 8,
            depth: (order % 3) as u32,
            native: NativeStackId((order % 21) as u32),
            python: StackId((order % 2) as u32),
        }
    }

    fn with_calls(count: u64) -> Trace {
        Trace { driver: Some(Box::new(layer(count))), ..tiny() }
    }

    #[test]
    fn calls_and_native_stacks_survive_in_every_codec() {
        for codec in [Codec::None, Codec::Zstd, Codec::Zlib] {
            for count in [0, 1, 40_000] {
                let trace = with_calls(count);
                let again =
                    read_trace(&packed_with(&trace, &WriteOptions { codec, ..Default::default() })).unwrap();
                assert_same(&trace, &again);
                assert_eq!(again.driver.unwrap().native, trace.driver.unwrap().native);
            }
        }
    }

    #[test]
    fn rows_come_back_in_their_true_order() {
        let mut trace = with_calls(100);
        trace.driver.as_mut().unwrap().rows.reverse();
        let again = read_trace(&packed(&trace)).unwrap();
        assert_eq!(again.driver.unwrap().rows, layer(100).rows);
    }

    #[test]
    fn a_damaged_chunk_costs_its_rows_and_is_said() {
        let bytes =
            packed_with(&with_calls(40_000), &WriteOptions { codec: Codec::None, ..Default::default() });
        let chunks: Vec<_> = super::super::hostile_tests::chunks(&bytes)
            .into_iter()
            .filter(|&(_, _, kind)| kind == Kind::Driver as u64)
            .collect();
        assert_eq!(chunks.len(), 3);
        for (number, &(from, to, _)) in chunks.iter().enumerate() {
            let mut damaged = bytes.clone();
            damaged[usize::midpoint(from, to)] ^= 0xff;
            let again = read_trace(&damaged).unwrap();
            let lost = [16_384, 16_384, 40_000 - 2 * 16_384][number];
            let layer = again.driver.unwrap();
            assert_eq!(layer.rows.len() as u64, 40_000 - lost);
            assert_eq!((again.complete, layer.complete), (false, false));
            assert_eq!(again.warnings.count("missing-driver-calls"), lost);
        }
    }

    #[test]
    fn lies_about_counts_and_missing_columns_are_damage() {
        for (count, with_order) in [(2u64, true), (1, false), (1 << 30, true)] {
            let (mut facts, mut payload) = (MapPacker::default(), MapPacker::default());
            facts.uint("first", 0).uint("count", count);
            pack_offset(payload.key("call"), &[1], 1);
            pack_delta(payload.key("time"), &[1]);
            if with_order {
                pack_delta(payload.key("order"), &[1]);
            }
            let chunk = super::super::chunk::pack(
                Kind::Driver,
                &facts.into_bytes(),
                &payload.into_payload(),
                Codec::None,
                0,
            );
            let mut bytes = packed(&tiny());
            let header = Chunk::parse(&bytes, 0).unwrap().end;
            bytes.splice(header..header, chunk.unwrap());
            let again = read_trace(&bytes).unwrap();
            assert!(again.driver.is_none_or(|layer| layer.rows.is_empty()));
            assert_eq!(again.warnings.count("damaged-chunk"), 1);
        }
    }
}
