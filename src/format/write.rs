//! Writing a whole trace.
//!
//! Owns the order of chunks and the sink that counts them. Table rows go out just before the chunk that first
//! names them, so the file can be read, or cut, anywhere. The same trace and options give the same bytes.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::error::Result;
use crate::model::{DeviceId, Segment, Trace};

use super::budget::Budget;
use super::chunk::{Kind, pack};
use super::codec::Codec;
use super::packer::MapPacker;
use super::tables_write::{Position, write_until};
use super::{
    MAX_CHUNK_EVENTS, annotations, driver, events_write, header, holders, live, marks, native, notes,
    process, reduced, sample_rows, segments, settings, tensors,
};

/// How to write a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteOptions {
    /// Compression.
    pub codec: Codec,
    /// Level of the codec: 1 to 22 for Zstandard, 0 to 9 for zlib.
    pub level: i32,
    /// Events per chunk, 1 to 1,048,576. Smaller chunks lose less when a job is killed, larger ones take a
    /// little less room.
    pub chunk_events: usize,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self { codec: Codec::Zstd, level: 3, chunk_events: 16_384 }
    }
}

/// Writes `trace` in the current version of the format.
///
/// Everything that a [`Trace`] carries is written, its warnings included; [`Trace::format`] is not, as the
/// file is a memlab trace whatever its source was.
///
/// # Errors
/// What `out` says, or that one text or one process fact is longer than a chunk may be (16 MiB).
pub fn write(trace: &Trace, options: &WriteOptions, out: &mut dyn Write) -> Result<()> {
    let mut writer = Writer::begin(trace, options, out)?;
    writer.events(trace)?;
    writer.finish(trace)
}

/// Writes a trace whose events come in pieces, so that they need not be held all at once.
///
/// Each call is given the same trace: its tables may only have grown since the call before, and its events
/// are the next ones of each device. Events that go out device by device, in one piece each, give the bytes
/// of [`write()`].
pub struct Writer<'w> {
    sink: Sink<'w>,
    written: Position,
    /// Events of each device so far.
    ends: BTreeMap<DeviceId, u64>,
}

impl<'w> Writer<'w> {
    /// Writes what stands before the events: header, process and settings.
    ///
    /// # Errors
    /// As [`write()`].
    pub fn begin(trace: &Trace, options: &'w WriteOptions, out: &'w mut dyn Write) -> Result<Self> {
        let (position, chunks) = (0, 0);
        let (budget, table_budget) = (Budget::default(), Budget::default());
        let mut sink = Sink { out, options, position, chunks, budget, table_budget };
        header::write_header(&mut sink, trace)?;
        reduced::write(&mut sink, trace)?;
        process::write(&mut sink, &trace.process)?;
        settings::write(&mut sink, &trace.settings)?;
        Ok(Self { sink, written: Position::START, ends: BTreeMap::new() })
    }

    /// Writes the events of `trace` behind those that are written, with the table rows that they name.
    ///
    /// # Errors
    /// As [`write()`].
    pub fn events(&mut self, trace: &Trace) -> Result<()> {
        for device in &trace.devices {
            let end = self.ends.entry(device.device).or_default();
            events_write::write_device(&mut self.sink, trace, device, *end, &mut self.written)?;
            *end += device.events.len() as u64;
        }
        Ok(())
    }

    /// Writes the state of `device` before its event number `event`: segments with all their blocks, by address. So a
    /// reader may begin there ([`super::Recording::part`]). States are written in the order of their events; the final
    /// one is written by [`Writer::finish`].
    ///
    /// # Errors
    /// As [`write()`].
    pub fn state(&mut self, trace: &Trace, device: DeviceId, event: u64, segments: &[Segment]) -> Result<()> {
        write_until(&mut self.sink, trace, &mut self.written, Position::end(trace))?;
        segments::write(&mut self.sink, device, event, segments)?;
        Ok(())
    }

    /// Writes what stands behind the events, all but the events of `trace`, and closes the file.
    ///
    /// # Errors
    /// As [`write()`].
    pub fn finish(self, trace: &Trace) -> Result<()> {
        let Self { mut sink, mut written, ends } = self;
        let sink = &mut sink;
        write_until(sink, trace, &mut written, Position::end(trace))?;
        live::write(sink, trace)?;
        annotations::write(sink, trace)?;
        marks::write(sink, &trace.marks)?;
        tensors::write(sink, &trace.tensors)?;
        holders::write(sink, &trace.holders)?;
        sample_rows::write(sink, &trace.samples)?;
        for device in &trace.devices {
            let end = ends.get(&device.device).copied().unwrap_or(0);
            if let Some(state) = &device.segments {
                segments::write(sink, device.device, end, state)?;
            }
        }
        if let Some(layer) = &trace.driver {
            native::write(sink, &layer.native)?;
            driver::write(sink, layer)?;
        }
        notes::write(sink, &trace.warnings)?;
        header::write_trailer(sink, trace, &ends)?;
        sink.out.flush()?;
        Ok(())
    }
}

/// Where chunks go.
pub(super) struct Sink<'w> {
    out: &'w mut dyn Write,
    options: &'w WriteOptions,
    position: usize,
    chunks: u64,
    budget: Budget,
    table_budget: Budget,
}

impl Sink<'_> {
    /// Writes one chunk. `cost` gives its cost against the file's budget from the length of the payload.
    pub(super) fn emit(
        &mut self,
        kind: Kind,
        facts: MapPacker,
        payload: MapPacker,
        cost: impl FnOnce(usize) -> u64,
    ) -> io::Result<()> {
        let (facts, payload) = (facts.into_bytes(), payload.into_payload());
        let mut chunk = pack(kind, &facts, &payload, self.options.codec, self.options.level)?;
        let cost = cost(payload.len());
        let budget = if matches!(kind, Kind::Tables | Kind::Native) {
            &mut self.table_budget
        } else {
            &mut self.budget
        };
        if !budget.spend(cost, self.position + chunk.len()) {
            // So regular that it compresses to nearly nothing. Readers bound what a short file may unpack
            // to, so it goes out at its full length.
            chunk = pack(kind, &facts, &payload, Codec::None, 0)?;
            if !budget.spend(cost, self.position + chunk.len()) {
                let what = "the trace is more regular than its format can hold";
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
            }
        }
        self.out.write_all(&chunk)?;
        self.position += chunk.len();
        self.chunks += 1;
        Ok(())
    }

    /// Chunks so far.
    pub(super) fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Events per chunk, within the format's bounds.
    pub(super) fn chunk_events(&self) -> usize {
        self.options.chunk_events.clamp(1, MAX_CHUNK_EVENTS)
    }
}
