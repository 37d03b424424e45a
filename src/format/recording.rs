//! Reading a trace whose events are not to be in memory all at once.
//!
//! Owns where each device's reading is: chunks are decoded when they are asked for, in order, and dropped by whoever
//! asked. Everything else of the trace is read at once. Faults are told as by [`super::read()`]. Also owns reading a
//! part of the events, where a state in the file says how the allocator was before them.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::Result;
use crate::model::{DeviceId, Events, Excerpt, Trace, Warnings};

use super::events_plan::Plan;
use super::ids::Ids;
use super::read::{Unread, read_but_events};
use super::states::States;
use super::walk::Checksums;

/// Events that are kept behind the end of a part: what a segment was obtained for is told by the allocation that
/// follows it, a few events later.
const EVENTS_BEHIND: u64 = 16;

/// A trace, its events still packed.
pub struct Recording<'a> {
    trace: Trace,
    /// Warnings that the file holds.
    recorded: Warnings,
    ids: Ids,
    plan: Plan<'a>,
    states: States<'a>,
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
        let Unread { plan, mut trace, recorded, ids, states } = read_but_events(bytes, Checksums::All)?;
        for device in plan.devices() {
            trace.device_mut(DeviceId(device));
        }
        let places = BTreeMap::new();
        Ok(Self { trace, recorded, ids, plan, states, places, handed_out: 0, tell: None })
    }

    /// The trace without events, and without the warnings that the file itself holds.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Has `add` put into the trace what comes from elsewhere. Its tables may grow; what is in them must stay.
    pub fn add(&mut self, add: impl FnOnce(&mut Trace)) {
        add(&mut self.trace);
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

    /// The chunks of `device`, in order: how many events each has, and their earliest and latest time in Unix
    /// microseconds where the chunk states them.
    #[must_use]
    pub fn chunks(&self, device: DeviceId) -> Vec<(u64, Option<(i64, i64)>)> {
        self.plan.spans(device.0)
    }

    /// The trace with only the events `windows` of its devices (those of others are all read) and what is between them
    /// and the state before them. Chunks in front of that state, and those behind the window, are not unpacked; a fault
    /// in them is not seen. Where the file has no state at or before a window, where events are missing, or where a
    /// chunk that is needed has a fault, all events of the device are read: see [`crate::model::DeviceTrace::excerpt`]
    /// for what came of it.
    #[must_use]
    pub fn part(mut self, windows: &BTreeMap<DeviceId, Range<u64>>) -> Trace {
        let devices: Vec<u32> = self.plan.devices().collect();
        for device in devices {
            let window = windows.get(&DeviceId(device));
            let found = window.and_then(|window| self.excerpt(device, window));
            let (events, excerpt) = if let Some((events, excerpt)) = found {
                (events, Some(excerpt))
            } else {
                let all = self.plan.decode_some(device, 0, usize::MAX, &mut self.trace, &self.ids);
                (all.map(|all| all.0).unwrap_or_default(), None)
            };
            let entry = self.trace.device_mut(DeviceId(device));
            (entry.events, entry.excerpt) = (events, excerpt);
        }
        self.into_trace()
    }

    /// The events of `window` from the state before it on, if that is less than all.
    fn excerpt(&mut self, device: u32, window: &Range<u64>) -> Option<(Events, Excerpt)> {
        let all = self.plan.end_of(device);
        if self.plan.has_gaps(device) {
            return None;
        }
        let (from, to) = (window.start.min(all), window.end.min(all));
        let end = to.max(from).saturating_add(EVENTS_BEHIND).min(all);
        let before = self.trace.warnings.clone();
        let (first, segments) = self.states.decode_before(device, from, &mut self.trace, &self.ids)?;
        let events = if (first, end) == (0, all) {
            None
        } else {
            self.plan.decode_range(device, first..end, &mut self.trace, &self.ids)
        };
        if events.is_none() {
            self.trace.warnings = before;
        }
        Some((events?, Excerpt { first_event: first, recorded_events: all, segments }))
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
