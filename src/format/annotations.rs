//! Chunks of annotations: `record_function` ranges.

use std::io;

use crate::model::{Annotation, DeviceId, NO_TIME, StringId, Trace};

use super::budget::{self, ANNOTATION};
use super::chunk::{Chunk, Kind};
use super::column::{Column, pack_delta, pack_offset, read_small};
use super::cursor::{Fault, Parse};
use super::fields::read_map;
use super::packer::MapPacker;
use super::read::{Context, read_count};
use super::write::Sink;

const CHUNK_ROWS: usize = 1 << 16;

/// Writes all annotations. Their names are in the tables already.
pub(super) fn write(sink: &mut Sink<'_>, trace: &Trace) -> io::Result<()> {
    for rows in trace.annotations.chunks(CHUNK_ROWS) {
        let mut facts = MapPacker::default();
        facts.uint("count", rows.len() as u64);
        let column = |value: fn(&Annotation) -> u64| rows.iter().map(value).collect::<Vec<_>>();
        let mut payload = MapPacker::default();
        pack_offset(payload.key("name"), &column(|row| row.name.0.into()), 0);
        pack_offset(payload.key("begins"), &column(|row| row.begins.into()), 0);
        pack_offset(payload.key("device"), &column(|row| row.device.0.into()), 0);
        pack_delta(payload.key("time"), &column(|row| row.time_us as u64));
        let cost = budget::rows(rows.len() as u64, ANNOTATION);
        sink.emit(Kind::Annotations, facts, payload, |_| cost)?;
    }
    Ok(())
}

/// Reads a chunk behind the annotations so far.
pub(super) fn read(chunk: &Chunk<'_>, context: &mut Context) -> Parse<()> {
    let count = read_count(chunk, context)?;
    if !context.budget.spend(budget::rows(count as u64, ANNOTATION), chunk.end) {
        return Err(Fault::Wrong("more annotations than a file of this length may hold"));
    }
    let payload = chunk.unpack(&mut context.unpacker)?;
    let unknown_device = DeviceId(u32::MAX);
    let blank = Annotation { name: StringId(0), begins: false, device: unknown_device, time_us: NO_TIME };
    let mut rows = vec![blank; count];
    let (ids, mut unknown) = (&context.ids, 0);
    read_map(payload, &mut context.trace.warnings, |key, cursor| {
        match key {
            "name" => {
                for (row, id) in rows.iter_mut().zip(read_small(cursor, count)?) {
                    row.name = StringId(ids.strings.get_or_zero(id.into(), &mut unknown));
                }
            }
            "begins" => {
                for (row, begins) in rows.iter_mut().zip(read_small(cursor, count)?) {
                    row.begins = begins != 0;
                }
            }
            "device" => {
                for (row, device) in rows.iter_mut().zip(read_small(cursor, count)?) {
                    row.device = DeviceId(device);
                }
            }
            "time" => {
                for (row, time) in rows.iter_mut().zip(Column::read(cursor, count)?.values(count)) {
                    row.time_us = time as i64;
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    context.trace.annotations.extend(rows);
    context.trace.warnings.add_many("unknown-id", unknown, || {
        "annotations name strings that the trace does not define".to_owned()
    });
    Ok(())
}
