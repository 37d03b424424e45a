//! Chunks of samples: what driver and allocator said while the recording ran.
//!
//! Owns their rows, written as maps: a recorder writes one at every drain, so columns would gain nothing.
//! Names of counters are kept once for the whole trace, however many samples repeat them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use crate::model::{DeviceId, NO_TIME, Sample, Warnings};

use super::budget::{Budget, SAMPLE, STAT};
use super::chunk::{Chunk, Kind};
use super::cursor::{Cursor, Fault, Parse};
use super::fields::{read_map, unknown_key};
use super::packer::{MapPacker, Packer};
use super::read::{Context, read_count};
use super::write::Sink;

/// Samples in one chunk, as written here.
const CHUNK_ROWS: usize = 256;
/// Longest name of a counter that is read.
const MAX_NAME: usize = 256;

const TOO_MANY: Fault = Fault::Wrong("more samples than a file of this length may hold");

/// Writes all samples.
pub(super) fn write(sink: &mut Sink<'_>, samples: &[Sample]) -> io::Result<()> {
    for rows in samples.chunks(CHUNK_ROWS) {
        let mut facts = MapPacker::default();
        facts.uint("count", rows.len() as u64);
        let mut payload = MapPacker::default();
        let packer = payload.key("samples");
        packer.array(rows.len());
        for row in rows {
            packer.raw(&packed(row));
        }
        let cost = rows.iter().map(cost).sum();
        sink.emit(Kind::Samples, facts, payload, |_| cost)?;
    }
    Ok(())
}

fn cost(sample: &Sample) -> u64 {
    SAMPLE + sample.stats.keys().map(|name| STAT + name.len() as u64).sum::<u64>()
}

fn packed(sample: &Sample) -> Vec<u8> {
    let mut row = MapPacker::default();
    row.uint("device", sample.device.0.into());
    row.key("time_us").int(sample.time_us);
    let known = [
        ("events", sample.events),
        ("free_bytes", sample.free_bytes),
        ("total_bytes", sample.total_bytes),
        ("process_bytes", sample.process_bytes),
        ("driver_calls", sample.driver_calls),
    ];
    for (key, value) in known {
        if let Some(value) = value {
            row.uint(key, value);
        }
    }
    if sample.unstable {
        row.key("unstable").bool(true);
    }
    if !sample.stats.is_empty() {
        let mut stats = Packer::default();
        stats.map(sample.stats.len());
        for (name, value) in &sample.stats {
            stats.text(name).int(*value);
        }
        row.key("stats").raw(stats.bytes());
    }
    row.into_bytes()
}

/// Reads a chunk behind the samples so far.
pub(super) fn read(chunk: &Chunk<'_>, context: &mut Context) -> Parse<()> {
    let count = read_count(chunk, context)?;
    let payload = chunk.unpack(&mut context.unpacker)?;
    let mut rows = Rows {
        budget: &mut context.budget,
        names: &mut context.stat_names,
        end: chunk.end,
        unknown: Warnings::default(),
    };
    let mut samples = Vec::new();
    read_map(payload, &mut context.trace.warnings, |key, cursor| {
        if key != "samples" {
            return Ok(false);
        }
        for _ in 0..cursor.array()? {
            samples.push(rows.sample(cursor)?);
        }
        Ok(true)
    })?;
    if samples.len() != count {
        return Err(Fault::Wrong("samples of another number than stated"));
    }
    context.trace.warnings.merge(rows.unknown);
    context.trace.samples.extend(samples);
    Ok(())
}

/// What reading rows needs.
struct Rows<'c> {
    budget: &'c mut Budget,
    names: &'c mut BTreeSet<Arc<str>>,
    end: usize,
    unknown: Warnings,
}

impl Rows<'_> {
    fn spend(&mut self, cost: u64) -> Parse<()> {
        if self.budget.spend(cost, self.end) { Ok(()) } else { Err(TOO_MANY) }
    }

    fn sample(&mut self, cursor: &mut Cursor<'_>) -> Parse<Sample> {
        self.spend(SAMPLE)?;
        let mut sample = Sample { time_us: NO_TIME, ..Sample::default() };
        for _ in 0..cursor.map()? {
            let key = cursor.text()?;
            match key.as_ref() {
                "device" => sample.device = DeviceId(cursor.uint32()?),
                "time_us" => sample.time_us = cursor.word()? as i64,
                "events" => sample.events = cursor.optional_uint()?,
                "free_bytes" => sample.free_bytes = cursor.optional_uint()?,
                "total_bytes" => sample.total_bytes = cursor.optional_uint()?,
                "process_bytes" => sample.process_bytes = cursor.optional_uint()?,
                "driver_calls" => sample.driver_calls = cursor.optional_uint()?,
                "unstable" => sample.unstable = cursor.bool()?,
                "stats" => sample.stats = self.stats(cursor)?,
                _ => {
                    cursor.skip()?;
                    unknown_key(&mut self.unknown, &key);
                }
            }
        }
        Ok(sample)
    }

    /// The one copy of a counter's name.
    fn kept(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return Arc::clone(known);
        }
        let name: Arc<str> = name.into();
        self.names.insert(Arc::clone(&name));
        name
    }

    fn stats(&mut self, cursor: &mut Cursor<'_>) -> Parse<BTreeMap<Arc<str>, i64>> {
        let mut stats = BTreeMap::new();
        for _ in 0..cursor.map()? {
            let name = cursor.text()?;
            let value = cursor.word()? as i64;
            if name.len() > MAX_NAME {
                return Err(Fault::Wrong("a counter's name over 256 bytes"));
            }
            self.spend(STAT + name.len() as u64)?;
            let name = self.kept(&name);
            stats.insert(name, value);
        }
        Ok(stats)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::read as read_trace;
    use super::super::samples::{packed as packed_trace, tiny};
    use super::*;

    fn many(count: u64) -> Vec<Sample> {
        let stats = |n: u64| {
            (0..120)
                .map(|key| (format!("reserved_bytes.large_pool.{key}").into(), (n * key) as i64))
                .collect()
        };
        (0..count).map(|n| Sample { events: Some(n), stats: stats(n), ..Sample::default() }).collect()
    }

    #[test]
    fn thousands_of_full_samples_stay_within_the_budget() {
        let mut trace = tiny();
        trace.samples = many(5_000);
        let bytes = packed_trace(&trace);
        let again = read_trace(&bytes).unwrap();
        assert!(again.complete && again.warnings.is_empty(), "{:?}", again.warnings);
        assert_eq!(again.samples, trace.samples);
    }

    #[test]
    fn names_of_counters_are_kept_once() {
        let mut trace = tiny();
        trace.samples = many(600);
        let again = read_trace(&packed_trace(&trace)).unwrap();
        let first = again.samples[0].stats.keys().next().unwrap();
        let last = again.samples[599].stats.keys().next().unwrap();
        assert!(Arc::ptr_eq(first, last));
    }

    #[test]
    fn keys_of_later_versions_are_skipped_and_lies_about_counts_are_damage() {
        let mut row = MapPacker::default();
        row.uint("device", 1).key("later").array(0);
        let chunk = |count: u64| {
            let (mut facts, mut payload) = (MapPacker::default(), MapPacker::default());
            facts.uint("count", count);
            payload.key("samples").array(1).raw(&row.clone().into_bytes());
            let packed = super::super::chunk::pack(
                Kind::Samples,
                &facts.into_bytes(),
                &payload.into_payload(),
                super::super::Codec::None,
                0,
            );
            let mut bytes = packed_trace(&tiny());
            let header = Chunk::parse(&bytes, 0).unwrap().end;
            bytes.splice(header..header, packed.unwrap());
            read_trace(&bytes).unwrap()
        };
        let right = chunk(1);
        assert_eq!((right.samples.len(), right.warnings.count("unknown-key")), (1, 1));
        assert_eq!((right.samples[0].device, right.samples[0].time_us), (DeviceId(1), NO_TIME));
        let wrong = chunk(2);
        assert_eq!((wrong.samples.len(), wrong.warnings.count("damaged-chunk")), (0, 1));
    }
}
