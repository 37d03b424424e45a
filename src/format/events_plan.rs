//! Chunks of events: the plan for reading them.
//!
//! Owns which rows of which device each chunk fills, decided from the chunks' facts before any of them is
//! unpacked; then the chunks are decoded in parallel, straight into columns of their final length.

use std::collections::BTreeMap;
use std::ops::Range;

use rayon::prelude::*;

use crate::model::{Action, DeviceId, EventCounts, Events, Outline, StackId, Trace, Warnings};

use super::budget::{self, Budget, EVENT};
use super::chunk::Chunk;
use super::codec::Unpacker;
use super::cursor::{Fault, Parse};
use super::events_count::Counted;
use super::events_decode::{Decoded, Job, Rows};
use super::events_facts::{ActionCounts, Stated};
use super::events_settle::settle;
use super::fields::read_map;
use super::ids::Ids;
use super::read::damaged;
use super::walk::Checksums;
use super::{MAX_CHUNK_EVENTS, MAX_DEVICES, MAX_EVENT_NUMBER};

/// What a chunk of events says uncompressed. What it states of its columns is for those who pick chunks, or count
/// only; reading all needs none of that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EventFacts {
    pub(super) device: u32,
    pub(super) first: u64,
    pub(super) count: usize,
    pub(super) streams: Vec<u64>,
    pub(super) stated: Stated,
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
                "start_us" => facts.stated.start_us = Some(cursor.word()? as i64),
                "end_us" => facts.stated.end_us = Some(cursor.word()? as i64),
                "actions" => facts.stated.actions = Some(ActionCounts::read(cursor)?),
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
pub(super) struct Part<'a> {
    pub(super) chunk: Chunk<'a>,
    pub(super) rows: usize,
    /// Index in the device's stream list for each index in the chunk's.
    pub(super) streams: Vec<u32>,
    pub(super) stated: Stated,
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
    /// Whether any chunk of events has a place.
    pub(super) fn has_events(&self) -> bool {
        self.devices.values().any(|device| device.rows > 0)
    }

    /// Gives a chunk its place. Nothing is unpacked, no column allocated.
    pub(super) fn add(&mut self, chunk: &Chunk<'a>, budget: &mut Budget, trace: &mut Trace) -> Parse<()> {
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
        device.parts.push(Part { chunk: *chunk, rows: facts.count, streams, stated: facts.stated });
        Ok(())
    }

    /// Number behind the last event of `device` that any chunk states.
    pub(super) fn end_of(&self, device: u32) -> u64 {
        self.devices.get(&device).map_or(0, |device| device.next)
    }

    /// Decodes everything into `trace`.
    pub(super) fn decode(self, trace: &mut Trace, ids: &Ids) {
        for (&number, device) in &self.devices {
            let events = device.decoded(0..device.parts.len(), trace, ids);
            trace.device_mut(DeviceId(number)).events = events;
        }
    }

    /// Devices that have events, ascending.
    pub(super) fn devices(&self) -> impl Iterator<Item = u32> {
        self.devices.keys().copied()
    }

    /// How many events of `device` have a place.
    pub(super) fn rows_of(&self, device: u32) -> u64 {
        self.devices.get(&device).map_or(0, |device| device.rows as u64)
    }

    /// Decodes chunks of `device` from number `from` on, until there are `least` events or no more chunks; also gives
    /// the number of the next chunk. `None` when there is none from `from` on.
    pub(super) fn decode_some(
        &self,
        device: u32,
        from: usize,
        least: usize,
        trace: &mut Trace,
        ids: &Ids,
    ) -> Option<(Events, usize)> {
        let device = self.devices.get(&device).filter(|device| from < device.parts.len())?;
        let (mut to, mut rows) = (from, 0);
        while to < device.parts.len() && (to == from || rows < least) {
            rows += device.parts[to].rows;
            to += 1;
        }
        Some((device.decoded(from..to, trace, ids), to))
    }

    /// Whether events of `device` are known to be missing, so that its numbers are not its rows.
    pub(super) fn has_gaps(&self, device: u32) -> bool {
        self.rows_of(device) != self.end_of(device)
    }

    /// Chunks of `device`: number of events, and earliest and latest time where the chunk states them.
    pub(super) fn spans(&self, device: u32) -> Vec<(u64, Option<(i64, i64)>)> {
        let parts = self.devices.get(&device).into_iter().flat_map(|device| &device.parts);
        parts.map(|part| (part.rows as u64, part.stated.times_us())).collect()
    }

    /// Decodes the chunks of `device` that hold its events `range`, and cuts them there. `None` when a chunk has a
    /// fault, which is told in `trace`.
    pub(super) fn decode_range(
        &self,
        device: u32,
        range: Range<u64>,
        trace: &mut Trace,
        ids: &Ids,
    ) -> Option<Events> {
        let device = self.devices.get(&device)?;
        let (mut before, mut rows, mut parts) = (0, 0, 0..0);
        for (at, part) in device.parts.iter().enumerate() {
            let begin = before + rows;
            if begin >= range.end {
                break;
            }
            if begin + part.rows as u64 <= range.start {
                (before, parts) = (begin + part.rows as u64, at + 1..at + 1);
                continue;
            }
            rows += part.rows as u64;
            parts.end = at + 1;
        }
        let mut events = device.decoded(parts, trace, ids);
        if events.len() as u64 != rows {
            return None;
        }
        drop(events.split_off(range.end.saturating_sub(before) as usize));
        Some(events.split_off(range.start.saturating_sub(before) as usize))
    }

    /// Counts everything, and makes `trace` what is known of it. `checksums` are those that were computed.
    pub(super) fn count(self, checksums: Checksums, mut trace: Trace) -> Outline {
        let parts: Vec<&Part<'_>> = self.devices.values().flat_map(|device| &device.parts).collect();
        let done: Vec<Counted> = parts
            .par_iter()
            .map_init(Unpacker::default, |unpacker, part| Counted::of(part, checksums, unpacker))
            .collect();
        let unchecked_chunks = done.iter().filter(|chunk| chunk.is_unchecked).count() as u64;
        let mut done = done.into_iter();
        let mut counted = BTreeMap::new();
        for (&number, device) in &self.devices {
            trace.device_mut(DeviceId(number));
            let mut sum =
                EventCounts { streams: device.stream_values.len() as u64, ..EventCounts::default() };
            for (part, chunk) in device.parts.iter().zip(done.by_ref()) {
                add(&mut sum, part, chunk, &mut trace);
            }
            counted.insert(DeviceId(number), sum);
        }
        let counts = trace.devices.iter().map(|device| counted.remove(&device.device).unwrap_or_default());
        Outline { counts: counts.collect(), trace, unchecked_chunks }
    }
}

/// Adds what a chunk gave to the counts of its device.
fn add(sum: &mut EventCounts, part: &Part<'_>, chunk: Counted, trace: &mut Trace) {
    if let Some(fault) = chunk.fault {
        damaged(trace, &part.chunk, fault);
        return;
    }
    trace.warnings.merge(chunk.warnings);
    warn_of_actions(trace, chunk.unknown_actions);
    warn_of_facts(trace, chunk.has_wrong_facts);
    for (sum, count) in sum.actions.iter_mut().zip(chunk.counts.actions) {
        *sum += count;
    }
    for time in [chunk.counts.first_time_us, chunk.counts.last_time_us].into_iter().flatten() {
        sum.include_times(&[time]);
    }
}

/// Says that events have actions of a newer version.
pub(super) fn warn_of_actions(trace: &mut Trace, unknown: u64) {
    trace.warnings.add_many("unknown-action", unknown, || {
        "events have an action that is not known to this version".to_owned()
    });
}

/// Says that a chunk's facts contradict its events, if they do.
pub(super) fn warn_of_facts(trace: &mut Trace, are_wrong: bool) {
    trace.warnings.add_many("wrong-fact", are_wrong.into(), || {
        "chunks of events state other actions or times than they hold; what they hold was taken".to_owned()
    });
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
    /// The events of the chunks `parts`, decoded side by side.
    fn decoded(&self, parts: Range<usize>, trace: &mut Trace, ids: &Ids) -> Events {
        let parts = &self.parts[parts];
        let mut events = sized(parts.iter().map(|part| part.rows).sum());
        let mut jobs = Vec::with_capacity(parts.len());
        let mut rest = Rows::all(&mut events);
        for part in parts {
            let (rows, after) = rest.split_at(part.rows);
            rest = after;
            jobs.push(Job { part, rows });
        }
        let done: Vec<Decoded> = jobs
            .into_par_iter()
            .map_init(Unpacker::default, |unpacker, job| job.run(ids, unpacker))
            .collect();
        settle(&mut events, parts, done, trace);
        events.stream_values.clone_from(&self.stream_values);
        events
    }

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
fn sized(rows: usize) -> Events {
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
