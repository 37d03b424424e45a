//! Chunks of named tensors: what the emitter's census found.

use std::io;

use crate::model::{DeviceId, NO_TIME, NamedTensor};

use super::budget::{self, DIMENSION, TENSOR};
use super::chunk::{Chunk, Kind};
use super::column::{Column, pack_offset, read_small};
use super::cursor::{Cursor, Fault, Parse};
use super::fields::{TextColumn, TextList, Texts, read_map, read_texts};
use super::marks::{NO_MOMENT, fitting, moment, pack_moments};
use super::packer::MapPacker;
use super::read::Context;
use super::write::Sink;

/// Writes all tensors.
pub(super) fn write(sink: &mut Sink<'_>, tensors: &[NamedTensor]) -> io::Result<()> {
    let mut rest = tensors;
    while !rest.is_empty() {
        let (rows, after) = rest.split_at(fitting(rest, |row| text_bytes(row) + 9 * row.shape.len()));
        rest = after;
        write_chunk(sink, rows)?;
    }
    Ok(())
}

fn text_bytes(tensor: &NamedTensor) -> usize {
    tensor.kind.len() + tensor.name.len() + tensor.dtype.len() + tensor.grad_fn.len()
}

fn write_chunk(sink: &mut Sink<'_>, rows: &[NamedTensor]) -> io::Result<()> {
    let column = |value: fn(&NamedTensor) -> u64| rows.iter().map(value).collect::<Vec<_>>();
    let shapes: Vec<u64> = rows.iter().flat_map(|row| row.shape.iter().copied()).collect();
    let mut facts = MapPacker::default();
    facts.uint("count", rows.len() as u64).uint("dimensions", shapes.len() as u64);
    let (mut payload, mut texts) = (MapPacker::default(), TextList::default());
    pack_offset(payload.key("device"), &column(|row| row.device.0.into()), 0);
    pack_offset(payload.key("address"), &column(|row| row.address), 0);
    pack_offset(payload.key("bytes"), &column(|row| row.bytes), 0);
    texts.column(&mut payload, "kind", rows.iter().map(|row| row.kind.as_str()));
    texts.column(&mut payload, "name", rows.iter().map(|row| row.name.as_str()));
    texts.column(&mut payload, "dtype", rows.iter().map(|row| row.dtype.as_str()));
    pack_offset(payload.key("rank"), &column(|row| row.shape.len() as u64), 0);
    pack_offset(payload.key("shape"), &shapes, 0);
    pack_offset(payload.key("time"), &column(|row| row.time_us as u64), 0);
    if rows.iter().any(|row| !row.grad_fn.is_empty()) {
        texts.column(&mut payload, "grad_fn", rows.iter().map(|row| row.grad_fn.as_str()));
    }
    pack_moments(&mut payload, rows.iter().map(|row| row.events));
    texts.pack(&mut payload);
    let bytes: usize = rows.iter().map(text_bytes).sum();
    let cost = cost(rows.len() as u64, shapes.len() as u64) + bytes as u64;
    sink.emit(Kind::Tensors, facts, payload, |_| cost)
}

fn cost(count: u64, dimensions: u64) -> u64 {
    budget::rows(count, TENSOR).saturating_add(budget::rows(dimensions, DIMENSION))
}

/// The columns of a chunk.
struct Columns<'a> {
    devices: Vec<u32>,
    addresses: Vec<u64>,
    bytes: Vec<u64>,
    kinds: TextColumn,
    names: TextColumn,
    dtypes: TextColumn,
    ranks: Vec<u32>,
    shapes: Vec<u64>,
    grad_fns: TextColumn,
    times: Vec<u64>,
    events: Vec<u64>,
    texts: Texts<'a>,
}

impl<'a> Columns<'a> {
    fn blank(count: usize) -> Self {
        Self {
            devices: vec![0; count],
            addresses: vec![0; count],
            bytes: vec![0; count],
            kinds: TextColumn::empty(),
            names: TextColumn::empty(),
            dtypes: TextColumn::empty(),
            ranks: vec![0; count],
            shapes: Vec::new(),
            grad_fns: TextColumn::empty(),
            times: vec![NO_TIME as u64; count],
            events: vec![NO_MOMENT; count],
            texts: Texts::new(),
        }
    }

    fn read_key(
        &mut self,
        key: &str,
        cursor: &mut Cursor<'a>,
        count: usize,
        dimensions: usize,
    ) -> Parse<bool> {
        match key {
            "device" => self.devices = read_small(cursor, count)?,
            "address" => self.addresses = Column::read(cursor, count)?.values(count),
            "bytes" => self.bytes = Column::read(cursor, count)?.values(count),
            "kind" => self.kinds = TextColumn::read(cursor, count)?,
            "name" => self.names = TextColumn::read(cursor, count)?,
            "dtype" => self.dtypes = TextColumn::read(cursor, count)?,
            "rank" => self.ranks = read_small(cursor, count)?,
            "shape" => self.shapes = Column::read(cursor, dimensions)?.values(dimensions),
            "time" => self.times = Column::read(cursor, count)?.values(count),
            "grad_fn" => self.grad_fns = TextColumn::read(cursor, count)?,
            "events" => self.events = Column::read(cursor, count)?.values(count),
            "texts" => self.texts = read_texts(cursor)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn text_columns(&self) -> [&TextColumn; 4] {
        [&self.kinds, &self.names, &self.dtypes, &self.grad_fns]
    }
}

/// Reads a chunk behind the tensors so far.
pub(super) fn read(chunk: &Chunk<'_>, context: &mut Context) -> Parse<()> {
    let (count, dimensions) = read_facts(chunk, context)?;
    if !context.budget.spend(cost(count as u64, dimensions as u64), chunk.end) {
        return Err(Fault::Wrong("more tensors than a file of this length may hold"));
    }
    let payload = chunk.unpack(&mut context.unpacker)?;
    let mut columns = Columns::blank(count);
    read_map(payload, &mut context.trace.warnings, |key, cursor| {
        columns.read_key(key, cursor, count, dimensions)
    })?;
    let text_bytes = columns.text_columns().into_iter().map(|column| column.bytes(&columns.texts)).sum();
    if !context.budget.spend(text_bytes, chunk.end) {
        return Err(Fault::Wrong("more text than a file of this length may hold"));
    }
    let in_shapes: u64 = columns.ranks.iter().map(|&rank| u64::from(rank)).sum();
    if in_shapes != columns.shapes.len() as u64 {
        return Err(Fault::Wrong("shapes of another length than stated"));
    }
    let mut shapes = columns.shapes.as_slice();
    for row in 0..count {
        let (shape, after) = shapes.split_at(columns.ranks[row] as usize);
        shapes = after;
        context.trace.tensors.push(tensor(&columns, row, shape));
    }
    let unknown = columns.text_columns().into_iter().map(|column| column.unknown(&columns.texts)).sum();
    context
        .trace
        .warnings
        .add_many("unknown-id", unknown, || "tensors name texts that their chunk does not hold".to_owned());
    Ok(())
}

fn tensor(columns: &Columns<'_>, row: usize, shape: &[u64]) -> NamedTensor {
    NamedTensor {
        device: DeviceId(columns.devices[row]),
        address: columns.addresses[row],
        bytes: columns.bytes[row],
        kind: columns.kinds.get(row, &columns.texts).to_owned(),
        name: columns.names.get(row, &columns.texts).to_owned(),
        dtype: columns.dtypes.get(row, &columns.texts).to_owned(),
        shape: shape.to_vec(),
        grad_fn: columns.grad_fns.get(row, &columns.texts).to_owned(),
        time_us: columns.times[row] as i64,
        events: moment(columns.events[row]),
    }
}

fn read_facts(chunk: &Chunk<'_>, context: &mut Context) -> Parse<(usize, usize)> {
    let (mut count, mut dimensions) = (0, 0);
    read_map(chunk.facts, &mut context.trace.warnings, |key, cursor| {
        match key {
            "count" => count = cursor.uint32()? as usize,
            "dimensions" => dimensions = cursor.uint32()? as usize,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok((count, dimensions))
}
