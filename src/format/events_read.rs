//! Chunks of events: reading, in parallel.
//!
//! Owns the plan (which rows of which device each chunk fills, before any chunk is unpacked), the decoding
//! of chunks straight into the pre-sized columns, and the removal of rows whose chunk turns out to be bad.

use std::collections::BTreeMap;

use rayon::prelude::*;

use crate::model::{Action, DeviceId, Events, NO_TIME, OptionalColumn, StackId, StringId, Trace, Warnings};

use super::budget::{self, Budget, EVENT};
use super::chunk::Chunk;
use super::codec::Unpacker;
use super::column::{Column, read_small};
use super::cursor::{Cursor, Fault, Parse};
use super::fields::read_map;
use super::ids::Ids;
use super::{MAX_CHUNK_EVENTS, MAX_DEVICES, MAX_EVENT_NUMBER};

/// What a chunk of events says uncompressed. The times are for tools that pick chunks; reading all needs
/// none of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EventFacts {
    pub(super) device: u32,
    pub(super) first: u64,
    pub(super) count: usize,
    pub(super) streams: Vec<u64>,
    /// Earliest time, if any event has one.
    pub(super) start_us: Option<i64>,
    /// Latest time.
    pub(super) end_us: Option<i64>,
}

impl EventFacts {
    pub(super) fn read(chunk: &Chunk<'_>, warnings: &mut Warnings) -> Parse<Self> {
        let mut facts = Self::default();
        read_map(chunk.facts, warnings, |key, cursor| {
            match key {
                "device" => facts.device = cursor.uint32()?,
                "first" => facts.first = cursor.uint()?,
                "count" => facts.count = cursor.uint32()? as usize,
                "streams" => {
                    facts.streams = (0..cursor.array()?).map(|_| cursor.uint()).collect::<Parse<_>>()?;
                }
                "start_us" => facts.start_us = Some(cursor.word()? as i64),
                "end_us" => facts.end_us = Some(cursor.word()? as i64),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        if facts.count > MAX_CHUNK_EVENTS {
            return Err(Fault::Wrong("more than 1,048,576 events in one chunk"));
        }
        if facts.first > MAX_EVENT_NUMBER {
            return Err(Fault::Wrong("an event number over 2^48"));
        }
        Ok(facts)
    }
}

/// A chunk whose rows have their place.
struct Part<'a> {
    chunk: &'a Chunk<'a>,
    rows: usize,
    /// Index in the device's stream list for each index in the chunk's.
    streams: Vec<u32>,
}

/// One device while it is read.
#[derive(Default)]
struct Device<'a> {
    parts: Vec<Part<'a>>,
    rows: usize,
    /// Number of the event that should come next.
    next: u64,
    stream_values: Vec<u64>,
    stream_index: BTreeMap<u64, u32>,
}

/// All chunks of events of a file, in order.
#[derive(Default)]
pub(super) struct Plan<'a> {
    devices: BTreeMap<u32, Device<'a>>,
}

impl<'a> Plan<'a> {
    /// Gives a chunk its place. Nothing is unpacked, no column allocated.
    pub(super) fn add(&mut self, chunk: &'a Chunk<'a>, budget: &mut Budget, trace: &mut Trace) -> Parse<()> {
        let facts = EventFacts::read(chunk, &mut trace.warnings)?;
        if self.devices.len() >= MAX_DEVICES && !self.devices.contains_key(&facts.device) {
            return Err(Fault::Wrong("more than 256 devices"));
        }
        if !budget.spend(budget::rows(facts.count as u64, EVENT), chunk.end) {
            return Err(Fault::Wrong("more events than a file of this length may hold"));
        }
        let device = self.devices.entry(facts.device).or_default();
        let Some(missing) = facts.first.checked_sub(device.next) else {
            return Err(Fault::Wrong("event numbers that go back"));
        };
        lost(trace, missing, facts.device);
        device.next = facts.first + facts.count as u64;
        device.rows += facts.count;
        let stated = if facts.streams.is_empty() { &[0][..] } else { &facts.streams };
        let streams = stated.iter().map(|&stream| device.stream(stream)).collect();
        device.parts.push(Part { chunk, rows: facts.count, streams });
        Ok(())
    }

    /// Number behind the last event of `device` that any chunk states.
    pub(super) fn end_of(&self, device: u32) -> u64 {
        self.devices.get(&device).map_or(0, |device| device.next)
    }

    /// Decodes everything into `trace`.
    pub(super) fn decode(self, trace: &mut Trace, ids: &Ids) {
        let mut columns: Vec<Events> = self.devices.values().map(sized).collect();
        let mut jobs = Vec::new();
        for (device, events) in self.devices.values().zip(&mut columns) {
            let mut rest = Rows::all(events);
            for part in &device.parts {
                let (rows, after) = rest.split_at(part.rows);
                rest = after;
                jobs.push(Job { part, rows });
            }
        }
        let mut done: Vec<Decoded> = jobs
            .into_par_iter()
            .map_init(Unpacker::default, |unpacker, job| job.run(ids, unpacker))
            .collect();
        let mut done = done.drain(..);
        for ((number, device), mut events) in self.devices.into_iter().zip(columns) {
            let results: Vec<Decoded> = done.by_ref().take(device.parts.len()).collect();
            settle(&mut events, &device.parts, results, trace);
            events.stream_values = device.stream_values;
            trace.device_mut(DeviceId(number)).events = events;
        }
    }
}

/// Says that events are missing.
pub(super) fn lost(trace: &mut Trace, missing: u64, device: u32) {
    if missing > 0 {
        trace.complete = false;
    }
    trace.warnings.add_about("missing-events", &device.to_string(), missing, || {
        format!("events of device {device} are missing from the trace")
    });
}

impl Device<'_> {
    fn stream(&mut self, value: u64) -> u32 {
        let next = self.stream_values.len() as u32;
        let index = *self.stream_index.entry(value).or_insert(next);
        if index == next {
            self.stream_values.push(value);
        }
        index
    }
}

/// Columns of their final length. Zeroed memory comes from the system as it is touched, so the pages are
/// paid for by the threads that fill them.
fn sized(device: &Device<'_>) -> Events {
    let rows = device.rows;
    Events {
        actions: vec![Action::Alloc; rows],
        times_us: vec![0; rows],
        addresses: vec![0; rows],
        sizes: vec![0; rows],
        streams: vec![0; rows],
        stacks: vec![StackId::NONE; rows],
        ..Events::default()
    }
}

/// The same rows of every full column.
struct Rows<'r> {
    actions: &'r mut [Action],
    times_us: &'r mut [i64],
    addresses: &'r mut [u64],
    sizes: &'r mut [u64],
    streams: &'r mut [u32],
    stacks: &'r mut [StackId],
}

impl<'r> Rows<'r> {
    fn all(events: &'r mut Events) -> Self {
        Self {
            actions: &mut events.actions,
            times_us: &mut events.times_us,
            addresses: &mut events.addresses,
            sizes: &mut events.sizes,
            streams: &mut events.streams,
            stacks: &mut events.stacks,
        }
    }

    fn split_at(self, count: usize) -> (Self, Self) {
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
const OTHER_ACTION: usize = 5;

struct Job<'a, 'r> {
    part: &'a Part<'a>,
    rows: Rows<'r>,
}

/// What a chunk gave beside the full columns.
#[derive(Default)]
struct Decoded {
    fault: Option<Fault>,
    /// Model ids per row; empty where the chunk has no such column.
    optional: [Vec<u32>; 6],
    /// Rows with an action code that this version does not know.
    unknown_actions: Vec<(usize, u64)>,
    unknown_ids: u64,
    warnings: Warnings,
}

impl Job<'_, '_> {
    fn run(mut self, ids: &Ids, unpacker: &mut Unpacker) -> Decoded {
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

/// Joins what the chunks of one device gave, and takes out the rows of bad chunks.
fn settle(events: &mut Events, parts: &[Part<'_>], results: Vec<Decoded>, trace: &mut Trace) {
    let mut optional: [Vec<u32>; 6] = Default::default();
    let (mut read_at, mut write_at) = (0, 0);
    for (part, mut decoded) in parts.iter().zip(results) {
        let rows = read_at..read_at + part.rows;
        read_at = rows.end;
        if let Some(fault) = decoded.fault {
            super::read::damaged(trace, part.chunk, fault);
            continue;
        }
        if rows.start != write_at {
            move_rows(events, rows.clone(), write_at);
        }
        trace.warnings.merge(std::mem::take(&mut decoded.warnings));
        trace.warnings.add_many("unknown-id", decoded.unknown_ids, || {
            "events name stacks, streams, pools or strings that the trace does not define".to_owned()
        });
        name_other_actions(&mut decoded, trace, part.rows);
        events.other_actions.extend(other_actions(events, &decoded, write_at, part.rows));
        for (joined, values) in optional.iter_mut().zip(decoded.optional) {
            if values.iter().any(|&value| value != 0) {
                joined.resize(write_at, 0);
                joined.extend(values);
            }
        }
        write_at += part.rows;
    }
    truncate(events, write_at);
    let [pools, compile_contexts, user_metadata, internal_metadata, forward_frames, _] = optional;
    events.pools = OptionalColumn::from_values(trimmed(pools));
    events.compile_contexts = strings(compile_contexts);
    events.user_metadata = strings(user_metadata);
    events.internal_metadata = strings(internal_metadata);
    events.forward_frames = strings(forward_frames);
}

/// Gives codes that this version does not know a name that says which code it was.
fn name_other_actions(decoded: &mut Decoded, trace: &mut Trace, rows: usize) {
    trace.warnings.add_many("unknown-action", decoded.unknown_actions.len() as u64, || {
        "events have an action that is not known to this version".to_owned()
    });
    if decoded.unknown_actions.is_empty() {
        return;
    }
    let names = &mut decoded.optional[OTHER_ACTION];
    names.resize(rows, 0);
    for &(row, code) in &decoded.unknown_actions {
        if names[row] == 0 {
            names[row] = trace.strings.intern(&format!("action {code}")).0;
        }
    }
}

fn other_actions(events: &Events, decoded: &Decoded, at: usize, rows: usize) -> Vec<(u64, StringId)> {
    let actions = events.actions[at..at + rows].iter().enumerate();
    let names = &decoded.optional[OTHER_ACTION];
    actions
        .filter(|&(_, &action)| action == Action::Other)
        .map(|(row, _)| ((at + row) as u64, StringId(names.get(row).copied().unwrap_or(0))))
        .collect()
}

fn trimmed(mut values: Vec<u32>) -> Vec<u32> {
    values.truncate(values.iter().rposition(|&value| value != 0).map_or(0, |last| last + 1));
    values
}

fn strings(values: Vec<u32>) -> OptionalColumn<StringId> {
    OptionalColumn::from_values(trimmed(values).into_iter().map(StringId).collect())
}

fn move_rows(events: &mut Events, rows: std::ops::Range<usize>, to: usize) {
    events.actions.copy_within(rows.clone(), to);
    events.times_us.copy_within(rows.clone(), to);
    events.addresses.copy_within(rows.clone(), to);
    events.sizes.copy_within(rows.clone(), to);
    events.streams.copy_within(rows.clone(), to);
    events.stacks.copy_within(rows, to);
}

fn truncate(events: &mut Events, rows: usize) {
    events.actions.truncate(rows);
    events.times_us.truncate(rows);
    events.addresses.truncate(rows);
    events.sizes.truncate(rows);
    events.streams.truncate(rows);
    events.stacks.truncate(rows);
}
