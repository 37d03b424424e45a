//! Reading a trace whose events are not to be in memory all at once.
//!
//! Owns where each device's reading is: chunks are decoded when they are asked for, in order, and dropped by whoever
//! asked. Everything else of the trace is read at once. Faults are told as by [`super::read()`].

use std::collections::BTreeMap;

use crate::error::Result;
use crate::model::{DeviceId, Events, Trace, Warnings};

use super::events_plan::Plan;
use super::ids::Ids;
use super::read::read_but_events;
use super::walk::Checksums;

/// A trace, its events still packed.
pub struct Recording<'a> {
    trace: Trace,
    /// Warnings that the file holds.
    recorded: Warnings,
    ids: Ids,
    plan: Plan<'a>,
    places: BTreeMap<DeviceId, Place>,
    handed_out: u64,
    tell: Option<Box<dyn Fn(u64) + 'a>>,
}

/// How far a device has been read.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// Number of the next chunk.
    chunk: usize,
    /// Whether faults of its chunks have been told, in an earlier round.
    told: bool,
}

impl<'a> Recording<'a> {
    /// Reads everything but the events.
    ///
    /// # Errors
    /// As [`super::read()`].
    pub fn open(bytes: &'a [u8]) -> Result<Self> {
        let (plan, mut trace, ids, recorded) = read_but_events(bytes, Checksums::All)?;
        for device in plan.devices() {
            trace.device_mut(DeviceId(device));
        }
        let places = BTreeMap::new();
        Ok(Self { trace, recorded, ids, plan, places, handed_out: 0, tell: None })
    }

    /// The trace without events, and without the warnings that the file itself holds.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The trace without events, for those who are done. Its warnings are all only when every device was read to its
    /// end.
    #[must_use]
    pub fn into_trace(self) -> Trace {
        let mut trace = self.trace;
        trace.warnings.merge(self.recorded);
        trace
    }

    /// How many events `device` has, as far as chunks say; those of damaged chunks count.
    #[must_use]
    pub fn events(&self, device: DeviceId) -> u64 {
        self.plan.rows_of(device.0)
    }

    /// The next events of `device`: whole chunks, with `least` events together unless fewer are left. `None` when all
    /// have been read.
    pub fn next(&mut self, device: DeviceId, least: usize) -> Option<Events> {
        let place = self.places.entry(device).or_default();
        let before = place.told.then(|| self.trace.warnings.clone());
        let found = self.plan.decode_some(device.0, place.chunk, least, &mut self.trace, &self.ids);
        if let Some(before) = before {
            self.trace.warnings = before;
        }
        let (events, chunk) = found?;
        place.chunk = chunk;
        self.handed_out += events.len() as u64;
        if let Some(tell) = &self.tell {
            tell(self.handed_out);
        }
        Some(events)
    }

    /// Has `tell` called whenever events were handed out, with the number of all so far; those of every round count.
    pub fn on_progress(&mut self, tell: impl Fn(u64) + 'a) {
        self.tell = Some(Box::new(tell));
    }

    /// Goes back to the first event of `device`.
    pub fn rewind(&mut self, device: DeviceId) {
        let place = self.places.entry(device).or_default();
        *place = Place { chunk: 0, told: place.told || place.chunk > 0 };
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::format::{WriteOptions, read, write};
    use crate::model::TraceBuilder;

    fn bytes() -> Vec<u8> {
        let mut builder = TraceBuilder::new().segment_alloc(0, 1 << 30);
        for number in 0..20_000 {
            builder = builder.alloc(512 * number, 512);
        }
        let trace = builder.device(3).alloc(512, 512).build();
        let mut bytes = Vec::new();
        write(&trace, &WriteOptions::default(), &mut bytes).unwrap();
        bytes
    }

    fn all(recording: &mut Recording<'_>, device: u32, least: usize) -> (Events, usize) {
        let (mut events, mut pieces) = (Events::default(), 0);
        while let Some(piece) = recording.next(DeviceId(device), least) {
            events.append(piece);
            pieces += 1;
        }
        (events, pieces)
    }

    #[test]
    fn pieces_are_the_whole() {
        let bytes = bytes();
        let whole = read(&bytes).unwrap();
        let mut recording = Recording::open(&bytes).unwrap();
        assert_eq!(recording.events(DeviceId(0)), 20_001);
        for least in [1, 17_000, 1 << 20] {
            for device in &whole.devices {
                let (events, pieces) = all(&mut recording, device.device.0, least);
                assert_eq!(format!("{events:?}"), format!("{:?}", device.events));
                assert_eq!(pieces, if device.device.0 == 0 && least == 1 { 2 } else { 1 });
                recording.rewind(device.device);
            }
        }
        assert!(recording.next(DeviceId(7), 1).is_none());
        assert_eq!(recording.trace().event_count(), 0);
    }

    #[test]
    fn a_fault_is_told_once() {
        let trace = TraceBuilder::new().alloc(512, 512).build();
        let mut bytes = Vec::new();
        write(&trace, &WriteOptions::default(), &mut bytes).unwrap();
        let mut trace = read(&bytes).unwrap();
        trace.devices[0].events.stacks[0] = crate::model::StackId(99);
        bytes.clear();
        write(&trace, &WriteOptions::default(), &mut bytes).unwrap();
        let mut recording = Recording::open(&bytes).unwrap();
        for _ in 0..2 {
            assert_eq!(all(&mut recording, 0, 1).0.len(), 1);
            let warned = read(&bytes).unwrap().warnings;
            assert_eq!(format!("{:?}", recording.trace().warnings), format!("{warned:?}"));
            recording.rewind(DeviceId(0));
        }
    }
}
