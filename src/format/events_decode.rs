//! Chunks of events: decoding one.
//!
//! Owns the way from a chunk's columns to rows of the model's columns. Runs on any thread: it writes only to
//! the rows that the plan gave it, and hands back the rest.

use crate::model::{Action, Events, NO_TIME, StackId, Warnings};

use super::codec::Unpacker;
use super::column::{Column, read_small};
use super::cursor::{Cursor, Fault, Parse};
use super::events_plan::Part;
use super::fields::read_map;
use super::ids::Ids;

/// The same rows of every full column.
pub(super) struct Rows<'r> {
    actions: &'r mut [Action],
    times_us: &'r mut [i64],
    addresses: &'r mut [u64],
    sizes: &'r mut [u64],
    streams: &'r mut [u32],
    stacks: &'r mut [StackId],
}

impl<'r> Rows<'r> {
    pub(super) fn all(events: &'r mut Events) -> Self {
        Self {
            actions: &mut events.actions,
            times_us: &mut events.times_us,
            addresses: &mut events.addresses,
            sizes: &mut events.sizes,
            streams: &mut events.streams,
            stacks: &mut events.stacks,
        }
    }

    pub(super) fn split_at(self, count: usize) -> (Self, Self) {
        let (actions, actions_after) = self.actions.split_at_mut(count);
        let (times_us, times_after) = self.times_us.split_at_mut(count);
        let (addresses, addresses_after) = self.addresses.split_at_mut(count);
        let (sizes, sizes_after) = self.sizes.split_at_mut(count);
        let (streams, streams_after) = self.streams.split_at_mut(count);
        let (stacks, stacks_after) = self.stacks.split_at_mut(count);
        let before = Self { actions, times_us, addresses, sizes, streams, stacks };
        let after = Self {
            actions: actions_after,
            times_us: times_after,
            addresses: addresses_after,
            sizes: sizes_after,
            streams: streams_after,
            stacks: stacks_after,
        };
        (before, after)
    }
}

/// Keys of the columns that are usually absent, in the order of [`Decoded::optional`].
const OPTIONAL: [&str; 6] =
    ["pool", "compile_context", "user_metadata", "internal_metadata", "forward_frames", "other_action"];
pub(super) const OTHER_ACTION: usize = 5;

pub(super) struct Job<'a, 'r> {
    pub(super) part: &'a Part<'a>,
    pub(super) rows: Rows<'r>,
}

/// What a chunk gave beside the full columns.
#[derive(Default)]
pub(super) struct Decoded {
    pub(super) fault: Option<Fault>,
    /// Model ids per row; empty where the chunk has no such column.
    pub(super) optional: [Vec<u32>; 6],
    /// Rows with an action code that this version does not know.
    pub(super) unknown_actions: Vec<(usize, u64)>,
    pub(super) unknown_ids: u64,
    /// Whether the chunk's facts contradict its columns.
    pub(super) has_wrong_facts: bool,
    pub(super) warnings: Warnings,
}

impl Job<'_, '_> {
    pub(super) fn run(mut self, ids: &Ids, unpacker: &mut Unpacker) -> Decoded {
        let mut decoded = Decoded::default();
        decoded.fault = self.decode(ids, unpacker, &mut decoded).err();
        decoded
    }

    fn decode(&mut self, ids: &Ids, unpacker: &mut Unpacker, decoded: &mut Decoded) -> Parse<()> {
        let payload = self.part.chunk.unpack(unpacker)?;
        let count = self.part.rows;
        let (mut has_actions, mut has_times) = (false, false);
        self.rows.streams.fill(self.part.streams[0]);
        let mut warnings = Warnings::default();
        read_map(payload, &mut warnings, |key, cursor| {
            match key {
                "action" => {
                    self.actions(&Column::read(cursor, count)?, decoded);
                    has_actions = true;
                }
                "time" => {
                    Column::read(cursor, count)?.fill(self.rows.times_us, |time| time as i64);
                    has_times = true;
                }
                "address" => Column::read(cursor, count)?.fill(self.rows.addresses, |address| address),
                "size" => Column::read(cursor, count)?.fill(self.rows.sizes, |size| size),
                "stream" => self.streams(&Column::read(cursor, count)?, decoded),
                "stack" => Column::read(cursor, count)?.fill(self.rows.stacks, |id| {
                    StackId(ids.stacks.get_or_zero(id, &mut decoded.unknown_ids))
                }),
                _ => return self.optional(key, cursor, ids, decoded),
            }
            Ok(true)
        })?;
        decoded.warnings = warnings;
        if !has_times {
            self.rows.times_us.fill(NO_TIME);
        }
        let unknown = decoded.unknown_actions.len() as u64;
        decoded.has_wrong_facts = !self.part.stated.agrees(self.rows.actions, self.rows.times_us, unknown);
        if has_actions { Ok(()) } else { Err(Fault::Wrong("events without actions")) }
    }

    fn actions(&mut self, column: &Column<'_>, decoded: &mut Decoded) {
        let mut row = 0;
        column.fill(self.rows.actions, |code| {
            let known = u8::try_from(code).ok().and_then(Action::from_code);
            if known.is_none() {
                decoded.unknown_actions.push((row, code));
            }
            row += 1;
            known.unwrap_or(Action::Other)
        });
    }

    fn streams(&mut self, column: &Column<'_>, decoded: &mut Decoded) {
        let streams = &self.part.streams;
        column.fill(self.rows.streams, |index| {
            let known = usize::try_from(index).ok().and_then(|index| streams.get(index));
            decoded.unknown_ids += u64::from(known.is_none());
            known.copied().unwrap_or(0)
        });
    }

    fn optional(&self, key: &str, cursor: &mut Cursor<'_>, ids: &Ids, decoded: &mut Decoded) -> Parse<bool> {
        let Some(at) = OPTIONAL.iter().position(|&known| known == key) else {
            return Ok(false);
        };
        let map = if at == 0 { &ids.pools } else { &ids.strings };
        let mut values = read_small(cursor, self.part.rows)?;
        for value in &mut values {
            *value = map.get_or_zero((*value).into(), &mut decoded.unknown_ids);
        }
        decoded.optional[at] = values;
        Ok(true)
    }
}
