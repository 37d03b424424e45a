//! Chunks of holders: who keeps a storage alive.

use std::io;

use crate::model::{DeviceId, Holder, NO_TIME};

use super::budget::{self, NOTE};
use super::chunk::{Chunk, Kind};
use super::column::{Column, pack_offset, read_small};
use super::cursor::{Fault, Parse};
use super::fields::{TextColumn, TextList, Texts, read_map, read_texts};
use super::marks::{NO_MOMENT, fitting, moment, pack_moments};
use super::packer::MapPacker;
use super::read::{Context, read_count};
use super::write::Sink;

/// Writes all holders.
pub(super) fn write(sink: &mut Sink<'_>, holders: &[Holder]) -> io::Result<()> {
    let mut rest = holders;
    while !rest.is_empty() {
        let (rows, after) = rest.split_at(fitting(rest, |holder| holder.path.len()));
        rest = after;
        let mut facts = MapPacker::default();
        facts.uint("count", rows.len() as u64);
        let column = |value: fn(&Holder) -> u64| rows.iter().map(value).collect::<Vec<_>>();
        let (mut payload, mut texts) = (MapPacker::default(), TextList::default());
        pack_offset(payload.key("device"), &column(|holder| holder.device.0.into()), 0);
        pack_offset(payload.key("address"), &column(|holder| holder.address), 0);
        texts.column(&mut payload, "path", rows.iter().map(|holder| holder.path.as_str()));
        pack_offset(payload.key("time"), &column(|holder| holder.time_us as u64), 0);
        pack_moments(&mut payload, rows.iter().map(|holder| holder.events));
        texts.pack(&mut payload);
        let bytes: usize = rows.iter().map(|holder| holder.path.len()).sum();
        let cost = budget::rows(rows.len() as u64, NOTE) + bytes as u64;
        sink.emit(Kind::Holders, facts, payload, |_| cost)?;
    }
    Ok(())
}

/// Reads a chunk behind the holders so far.
pub(super) fn read(chunk: &Chunk<'_>, context: &mut Context) -> Parse<()> {
    let count = read_count(chunk, context)?;
    if !context.budget.spend(budget::rows(count as u64, NOTE), chunk.end) {
        return Err(Fault::Wrong("more holders than a file of this length may hold"));
    }
    let payload = chunk.unpack(&mut context.unpacker)?;
    let (mut devices, mut addresses) = (vec![0; count], vec![0; count]);
    let (mut paths, mut texts) = (TextColumn::empty(), Texts::new());
    let (mut times, mut events) = (vec![NO_TIME as u64; count], vec![NO_MOMENT; count]);
    read_map(payload, &mut context.trace.warnings, |key, cursor| {
        match key {
            "device" => devices = read_small(cursor, count)?,
            "address" => addresses = Column::read(cursor, count)?.values(count),
            "path" => paths = TextColumn::read(cursor, count)?,
            "time" => times = Column::read(cursor, count)?.values(count),
            "events" => events = Column::read(cursor, count)?.values(count),
            "texts" => texts = read_texts(cursor)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    if !context.budget.spend(paths.bytes(&texts), chunk.end) {
        return Err(Fault::Wrong("more text than a file of this length may hold"));
    }
    context.trace.holders.extend((0..count).map(|row| Holder {
        device: DeviceId(devices[row]),
        address: addresses[row],
        path: paths.get(row, &texts).to_owned(),
        time_us: times[row] as i64,
        events: moment(events[row]),
    }));
    context.trace.warnings.add_many("unknown-id", paths.unknown(&texts), || {
        "holders name texts that their chunk does not hold".to_owned()
    });
    Ok(())
}
