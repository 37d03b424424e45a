//! Chunks of marks: steps, phases, modules and what the user named.

use std::io;

use crate::model::{Mark, MarkKind, NO_TIME};

use super::budget::{self, NOTE};
use super::chunk::{Chunk, Kind};
use super::column::{Column, pack_delta, pack_offset, read_small};
use super::cursor::{Fault, Parse};
use super::fields::{TextColumn, TextList, Texts, read_map, read_texts};
use super::packer::MapPacker;
use super::read::{Context, read_count};
use super::write::Sink;

const CHUNK_ROWS: usize = 1 << 14;
/// Text bytes after which a new chunk begins.
pub(super) const CHUNK_TEXT: usize = 1 << 20;

/// Writes all marks.
pub(super) fn write(sink: &mut Sink<'_>, marks: &[Mark]) -> io::Result<()> {
    let mut rest = marks;
    while !rest.is_empty() {
        let (rows, after) = rest.split_at(fitting(rest, |mark| mark.name.len()));
        rest = after;
        let mut facts = MapPacker::default();
        facts.uint("count", rows.len() as u64);
        let column = |value: fn(&Mark) -> u64| rows.iter().map(value).collect::<Vec<_>>();
        let (mut payload, mut texts) = (MapPacker::default(), TextList::default());
        pack_offset(payload.key("kind"), &column(|mark| mark.kind as u64), 0);
        texts.column(&mut payload, "name", rows.iter().map(|mark| mark.name.as_str()));
        pack_delta(payload.key("time"), &column(|mark| mark.time_us as u64));
        // 0 a moment, 1 a beginning, 2 an end.
        let begins = column(|mark| mark.begins.map_or(0, |begins| if begins { 1 } else { 2 }));
        pack_offset(payload.key("begins"), &begins, 0);
        texts.pack(&mut payload);
        let bytes: usize = rows.iter().map(|mark| mark.name.len()).sum();
        let cost = budget::rows(rows.len() as u64, NOTE) + bytes as u64;
        sink.emit(Kind::Marks, facts, payload, |_| cost)?;
    }
    Ok(())
}

/// How many rows go into the next chunk: at least one.
pub(super) fn fitting<T>(rows: &[T], text_bytes: impl Fn(&T) -> usize) -> usize {
    let mut bytes = 0;
    for (count, row) in rows.iter().enumerate().take(CHUNK_ROWS) {
        bytes += text_bytes(row);
        if count > 0 && bytes > CHUNK_TEXT {
            return count;
        }
    }
    rows.len().min(CHUNK_ROWS)
}

/// Stands in a column for a moment that is not known.
pub(super) const NO_MOMENT: u64 = u64::MAX;

/// A moment as a column holds it.
pub(super) fn moment(stored: u64) -> Option<u64> {
    (stored != NO_MOMENT).then_some(stored)
}

/// Enters the column `events`, unless no row has a moment.
pub(super) fn pack_moments(payload: &mut MapPacker, moments: impl Iterator<Item = Option<u64>>) {
    let stored: Vec<u64> = moments.map(|moment| moment.unwrap_or(NO_MOMENT)).collect();
    if stored.iter().any(|&stored| stored != NO_MOMENT) {
        pack_offset(payload.key("events"), &stored, 0);
    }
}

/// Reads a chunk behind the marks so far.
pub(super) fn read(chunk: &Chunk<'_>, context: &mut Context) -> Parse<()> {
    let count = read_count(chunk, context)?;
    if !context.budget.spend(budget::rows(count as u64, NOTE), chunk.end) {
        return Err(Fault::Wrong("more marks than a file of this length may hold"));
    }
    let payload = chunk.unpack(&mut context.unpacker)?;
    let (mut kinds, mut begins) = (vec![MarkKind::User as u32; count], vec![0; count]);
    let (mut names, mut texts) = (TextColumn::empty(), Texts::new());
    let mut times = vec![NO_TIME as u64; count];
    read_map(payload, &mut context.trace.warnings, |key, cursor| {
        match key {
            "kind" => kinds = read_small(cursor, count)?,
            "name" => names = TextColumn::read(cursor, count)?,
            "time" => times = Column::read(cursor, count)?.values(count),
            "begins" => begins = read_small(cursor, count)?,
            "texts" => texts = read_texts(cursor)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    if !context.budget.spend(names.bytes(&texts), chunk.end) {
        return Err(Fault::Wrong("more text than a file of this length may hold"));
    }
    context.trace.marks.extend((0..count).map(|row| Mark {
        kind: match kinds[row] {
            0 => MarkKind::Step,
            1 => MarkKind::Phase,
            2 => MarkKind::Module,
            4 => MarkKind::Fault,
            _ => MarkKind::User,
        },
        name: names.get(row, &texts).to_owned(),
        time_us: times[row] as i64,
        begins: match begins[row] {
            1 => Some(true),
            2 => Some(false),
            _ => None,
        },
    }));
    context.trace.warnings.add_many("unknown-id", names.unknown(&texts), || {
        "marks name texts that their chunk does not hold".to_owned()
    });
    Ok(())
}
