//! Chunks of events: writing.

use std::collections::BTreeSet;
use std::io;

use crate::model::{DeviceTrace, Events, OptionalColumn, StringId, Trace};

use super::budget::{self, EVENT};
use super::chunk::Kind;
use super::column::{pack_delta, pack_offset};
use super::events_facts::{ActionCounts, range_of};
use super::packer::MapPacker;
use super::tables_write::{Position, write_until};
use super::write::Sink;

/// Most streams in the facts of one chunk.
const MAX_STREAMS: usize = 4096;

/// Writes the events of one device, each chunk behind the table rows that it needs. The first is number
/// `base` of its device.
pub(super) fn write_device(
    sink: &mut Sink<'_>,
    trace: &Trace,
    device: &DeviceTrace,
    base: u64,
    written: &mut Position,
) -> io::Result<()> {
    let events = &device.events;
    let mut first = 0;
    while first < events.len() {
        let part = Part { events, first, end: part_end(events, first, sink.chunk_events()) };
        let mut wanted = *written;
        part.include(&mut wanted);
        write_until(sink, trace, written, wanted)?;
        let (facts, payload) = part.pack(device.device.0, base);
        let cost = budget::rows((part.end - part.first) as u64, EVENT);
        sink.emit(Kind::Events, facts, payload, |_| cost)?;
        first = part.end;
    }
    Ok(())
}

/// Where the chunk that begins at `first` ends: a chunk's facts have room for so many streams only.
fn part_end(events: &Events, first: usize, chunk_events: usize) -> usize {
    let end = events.len().min(first + chunk_events);
    if events.stream_values.len() <= MAX_STREAMS {
        return end;
    }
    let mut seen = BTreeSet::new();
    let full = |&row: &usize| {
        seen.insert(events.streams[row]);
        seen.len() > MAX_STREAMS
    };
    (first..end).find(full).unwrap_or(end)
}

/// Rows `first..end` of one device.
struct Part<'e> {
    events: &'e Events,
    first: usize,
    end: usize,
}

impl Part<'_> {
    fn column<T: Copy>(&self, values: &[T], as_word: impl Fn(T) -> u64) -> Vec<u64> {
        values[self.first..self.end].iter().map(|&value| as_word(value)).collect()
    }

    fn optional<T: Copy + Default + PartialEq>(
        &self,
        column: &OptionalColumn<T>,
        as_word: fn(T) -> u64,
    ) -> Vec<u64> {
        (self.first..self.end).map(|row| as_word(column.get(row))).collect()
    }

    fn text_columns(&self) -> [(&'static str, &OptionalColumn<StringId>); 4] {
        let events = self.events;
        [
            ("compile_context", &events.compile_contexts),
            ("user_metadata", &events.user_metadata),
            ("internal_metadata", &events.internal_metadata),
            ("forward_frames", &events.forward_frames),
        ]
    }

    /// Names of actions that this version does not know, one per row; 0 elsewhere.
    fn other_actions(&self) -> Vec<u64> {
        let known = &self.events.other_actions;
        let from = known.partition_point(|&(row, _)| row < self.first as u64);
        let to = known.partition_point(|&(row, _)| row < self.end as u64);
        if from == to {
            return Vec::new();
        }
        let mut names = vec![0; self.end - self.first];
        for &(row, name) in &known[from..to] {
            names[row as usize - self.first] = name.0.into();
        }
        names
    }

    /// Moves `wanted` on to all that these events name.
    fn include(&self, wanted: &mut Position) {
        if let Some(&stack) = self.events.stacks[self.first..self.end].iter().max() {
            wanted.include_stack(stack);
        }
        for (_, column) in self.text_columns() {
            let values = column.values();
            let end = self.end.min(values.len());
            for &string in &values[self.first.min(end)..end] {
                wanted.include_string(string);
            }
        }
        for name in self.other_actions() {
            wanted.include_string(StringId(name as u32));
        }
        for row in self.first..self.end.min(self.events.pools.values().len()) {
            wanted.include_pools(self.events.pools.get(row));
        }
    }

    /// The chunk's own list of streams, and each event's index into it.
    fn streams(&self) -> (Vec<u64>, Vec<u64>) {
        let mut list = Vec::new();
        let mut number_of: Vec<Option<u64>> = vec![None; self.events.stream_values.len()];
        let mut numbers = Vec::with_capacity(self.end - self.first);
        for &stream in &self.events.streams[self.first..self.end] {
            let known = number_of.get(stream as usize).copied().flatten();
            let number = known.unwrap_or_else(|| {
                list.push(self.events.stream_values.get(stream as usize).copied().unwrap_or(0));
                list.len() as u64 - 1
            });
            if let Some(slot) = number_of.get_mut(stream as usize) {
                *slot = Some(number);
            }
            numbers.push(number);
        }
        (list, numbers)
    }

    fn pack(&self, device: u32, base: u64) -> (MapPacker, MapPacker) {
        let (streams, stream_numbers) = self.streams();
        let facts = self.facts(device, base, &streams);
        let events = self.events;
        let mut payload = MapPacker::default();
        let actions: Vec<u64> = self.column(&events.actions, |action| action as u64);
        pack_offset(payload.key("action"), &actions, 1);
        if facts.1 {
            pack_delta(payload.key("time"), &self.column(&events.times_us, |time| time as u64));
        }
        pack_offset(payload.key("address"), &self.column(&events.addresses, |address| address), 0);
        pack_offset(payload.key("size"), &self.column(&events.sizes, |size| size), 0);
        pack_offset(payload.key("stream"), &stream_numbers, 0);
        pack_offset(payload.key("stack"), &self.column(&events.stacks, |stack| stack.0.into()), 0);
        pack_used(&mut payload, "pool", &self.optional(&events.pools, u64::from));
        for (key, column) in self.text_columns() {
            pack_used(&mut payload, key, &self.optional(column, |string| string.0.into()));
        }
        pack_used(&mut payload, "other_action", &self.other_actions());
        (facts.0, payload)
    }

    /// Also answers whether any event has a time.
    fn facts(&self, device: u32, base: u64, streams: &[u64]) -> (MapPacker, bool) {
        let mut facts = MapPacker::default();
        facts.uint("device", device.into());
        facts.uint("first", base + self.first as u64).uint("count", (self.end - self.first) as u64);
        let packer = facts.key("streams");
        packer.array(streams.len());
        for &stream in streams {
            packer.uint(stream);
        }
        let range = range_of(&self.events.times_us[self.first..self.end]);
        if let Some((start, end)) = range {
            facts.key("start_us").int(start);
            facts.key("end_us").int(end);
        }
        ActionCounts::of(&self.events.actions[self.first..self.end], 0).pack(&mut facts);
        (facts, range.is_some())
    }
}

/// A column that is left out where all its rows are 0.
fn pack_used(payload: &mut MapPacker, key: &str, values: &[u64]) {
    if values.iter().any(|&value| value != 0) {
        pack_offset(payload.key(key), values, 0);
    }
}
