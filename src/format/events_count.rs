//! Chunks of events: counting them without decoding them.
//!
//! Owns what `memlab info` wants to know of events. Number, streams, times and, since version 1.3, the actions
//! stand in a chunk's facts: nothing is unpacked. In older files the actions are a chunk's first column, so
//! unpacking ends there. A writer may have another order, or not state the times: then the whole payload is
//! unpacked. No column outlives its chunk.

use crate::model::{Action, EventCounts, NO_TIME, Warnings};

use super::codec::Unpacker;
use super::column::Column;
use super::cursor::{Cursor, Fault, Parse};
use super::events_facts::ActionCounts;
use super::events_plan::Part;
use super::fields::read_map;
use super::walk::Checksums;

/// Bytes before the first column's data: a map's head, the key, and the column's own head.
const HEAD: usize = 64;

/// What one chunk gave.
#[derive(Default)]
pub(super) struct Counted {
    pub(super) fault: Option<Fault>,
    pub(super) counts: EventCounts,
    /// Events with an action that this version does not know; they count as [`Action::Other`].
    pub(super) unknown_actions: u64,
    /// Whether the chunk's facts contradict each other.
    pub(super) has_wrong_facts: bool,
    /// Whether the facts were taken for it, its checksum not computed.
    pub(super) is_unchecked: bool,
    pub(super) warnings: Warnings,
}

impl Counted {
    /// Counts the events of a chunk. `checksums` are those that were computed.
    pub(super) fn of(part: &Part<'_>, checksums: Checksums, unpacker: &mut Unpacker) -> Self {
        let mut counted = Self::default();
        if let Some(stated) = part.stated.counts_of(part.rows) {
            counted.by_the_facts(stated, part.stated.times_us());
            counted.is_unchecked = checksums == Checksums::AllButEvents;
        } else {
            counted.has_wrong_facts = part.stated.actions.is_some();
            counted.fault = counted.by_the_columns(part, checksums, unpacker).err();
        }
        counted
    }

    fn by_the_facts(&mut self, stated: ActionCounts, times_us: Option<(i64, i64)>) {
        self.counts.actions = stated.known;
        self.unknown_actions = stated.unknown;
        self.include_range(times_us);
    }

    fn include_range(&mut self, times_us: Option<(i64, i64)>) {
        if let Some((first, last)) = times_us {
            self.counts.include_times(&[first, last]);
        }
    }

    fn by_the_columns(
        &mut self,
        part: &Part<'_>,
        checksums: Checksums,
        unpacker: &mut Unpacker,
    ) -> Parse<()> {
        if checksums == Checksums::AllButEvents {
            part.chunk.check()?;
        }
        let times_us = part.stated.times_us();
        self.include_range(times_us);
        if times_us.is_some() { self.by_the_start(part, unpacker) } else { self.by_all(part, unpacker, true) }
    }

    fn by_the_start(&mut self, part: &Part<'_>, unpacker: &mut Unpacker) -> Parse<()> {
        let start = part.chunk.unpack_start(part.rows + HEAD, unpacker)?;
        match first_column(start, part.rows) {
            Ok(actions) => {
                self.actions(&actions, part.rows);
                Ok(())
            }
            Err(_) => self.by_all(part, unpacker, false),
        }
    }

    fn by_all(&mut self, part: &Part<'_>, unpacker: &mut Unpacker, with_times: bool) -> Parse<()> {
        let payload = part.chunk.unpack(unpacker)?;
        let mut has_actions = false;
        let mut warnings = Warnings::default();
        read_map(payload, &mut warnings, |key, cursor| {
            match key {
                "action" => {
                    self.actions(&Column::read(cursor, part.rows)?, part.rows);
                    has_actions = true;
                }
                "time" if with_times => {
                    let mut times = vec![NO_TIME; part.rows];
                    Column::read(cursor, part.rows)?.fill(&mut times, |time| time as i64);
                    self.counts.include_times(&times);
                }
                // What is not counted is not looked at; unknown keys are `read`'s to tell.
                _ => cursor.skip()?,
            }
            Ok(true)
        })?;
        self.warnings = warnings;
        if has_actions { Ok(()) } else { Err(Fault::Wrong("events without actions")) }
    }

    fn actions(&mut self, column: &Column<'_>, rows: usize) {
        let mut actions = vec![Action::Other; rows];
        let mut unknown = 0;
        column.fill(&mut actions, |code| {
            let known = u8::try_from(code).ok().and_then(Action::from_code);
            unknown += u64::from(known.is_none());
            known.unwrap_or(Action::Other)
        });
        for action in actions {
            self.counts.actions[action as usize] += 1;
        }
        self.unknown_actions += unknown;
    }
}

/// The column `action`, if the payload begins with it.
fn first_column(start: &[u8], rows: usize) -> Parse<Column<'_>> {
    let mut cursor = Cursor::new(start, 0);
    cursor.map()?;
    if cursor.text()? == "action" { Column::read(&mut cursor, rows) } else { Err(Fault::Incomplete) }
}
