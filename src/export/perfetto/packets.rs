//! The stream of packets: numbers tracks, shares texts, writes one packet after the other.
//!
//! Owns numbers and bytes. Nothing is kept but the shared texts, so a file may be larger than memory.

use std::io::Write;

use prost::Message;
use prost::encoding::{WireType, encode_key};

use crate::error::Result;
use crate::model::{StackId, StringTable, Trace, visible};

use super::messages::{
    BOOTTIME, COUNTER, ClockReading, ClockSnapshot, DebugAnnotation, InternedData, InternedText, NEEDS_STATE,
    REALTIME, STATE_CLEARED, TracePacket, TrackDescriptor, TrackEvent,
};

/// All packets are of one writer: timestamps and shared texts are its own.
const SEQUENCE: u32 = 1;

/// Frames of a stack that are written out; of deeper ones the innermost.
const MOST_FRAMES: usize = 128;

/// The file in the making.
pub(super) struct Packets<'a> {
    trace: &'a Trace,
    output: &'a mut dyn Write,
    buffer: Vec<u8>,
    tracks: u64,
    names: StringTable,
    values: StringTable,
    /// By frame number: the number of its text in `values`; 0 until it is used.
    of_frame: Vec<u64>,
    /// Shared texts that go out with the next event.
    fresh: InternedData,
}

impl<'a> Packets<'a> {
    /// Begins the file. `start_us` is the Unix time of timestamp 0, where it is known.
    pub(super) fn begin(trace: &'a Trace, output: &'a mut dyn Write, start_us: Option<i64>) -> Result<Self> {
        let mut packets = Self {
            trace,
            output,
            buffer: Vec::new(),
            tracks: 0,
            names: StringTable::default(),
            values: StringTable::default(),
            of_frame: vec![0; trace.frames.len()],
            fresh: InternedData::default(),
        };
        let start_ns = start_us.and_then(|start| u64::try_from(start).ok()?.checked_mul(1000));
        packets.put(TracePacket {
            sequence_flags: Some(STATE_CLEARED),
            clock_snapshot: start_ns.map(clocks),
            ..TracePacket::default()
        })?;
        Ok(packets)
    }

    /// Enters a track and gives its number.
    pub(super) fn track(&mut self, descriptor: TrackDescriptor) -> Result<u64> {
        self.tracks += 1;
        let track_descriptor = Some(TrackDescriptor { uuid: Some(self.tracks), ..descriptor });
        self.put(TracePacket { track_descriptor, ..TracePacket::default() })?;
        Ok(self.tracks)
    }

    /// Writes `event`, which happens on `track` at `time_ns`.
    pub(super) fn event(&mut self, track: u64, time_ns: u64, event: TrackEvent) -> Result<()> {
        let fresh = std::mem::take(&mut self.fresh);
        self.put(TracePacket {
            timestamp: Some(time_ns),
            track_event: Some(TrackEvent { track_uuid: Some(track), ..event }),
            interned_data: (fresh != InternedData::default()).then_some(fresh),
            sequence_flags: Some(NEEDS_STATE),
            ..TracePacket::default()
        })
    }

    /// Writes a counter's value.
    pub(super) fn counter(&mut self, track: u64, time_ns: u64, value: u64) -> Result<()> {
        let counter_value = Some(i64::try_from(value).unwrap_or(i64::MAX));
        let event = TrackEvent { kind: Some(COUNTER), counter_value, ..TrackEvent::default() };
        self.event(track, time_ns, event)
    }

    /// The shared number of an event's name; of the empty name there is none.
    pub(super) fn name(&mut self, name: &str) -> Option<u64> {
        intern(&mut self.names, &mut self.fresh.event_names, &visible(name))
    }

    /// The frames of `stack` as a list of texts, innermost first; `None` where no stack was recorded.
    pub(super) fn stack(&mut self, stack: StackId) -> Option<DebugAnnotation> {
        let trace = self.trace;
        let frames = trace.stacks.get(stack);
        if frames.is_empty() {
            return None;
        }
        let mut array_values = Vec::with_capacity(frames.len().min(MOST_FRAMES) + 1);
        for &id in frames.iter().take(MOST_FRAMES) {
            let known = self.of_frame.get(id.0 as usize).copied().unwrap_or(0);
            let iid = if known == 0 { self.frame(id) } else { known };
            let string_value_iid = Some(iid);
            array_values.push(DebugAnnotation { string_value_iid, ..DebugAnnotation::default() });
        }
        if frames.len() > MOST_FRAMES {
            let string_value = Some(format!("({} outer frames are left out)", frames.len() - MOST_FRAMES));
            array_values.push(DebugAnnotation { string_value, ..DebugAnnotation::default() });
        }
        Some(DebugAnnotation { name: Some("stack".to_owned()), array_values, ..DebugAnnotation::default() })
    }

    fn frame(&mut self, id: crate::model::FrameId) -> u64 {
        let frame = self.trace.frames.get(id);
        let (file, function) = (self.trace.strings.get(frame.file), self.trace.strings.get(frame.function));
        let text = match frame.line {
            0 | u64::MAX => format!("{file} {function}"),
            line => format!("{file}:{line} {function}"),
        };
        let fresh = &mut self.fresh.debug_annotation_string_values;
        let iid = intern(&mut self.values, fresh, &visible(&text)).unwrap_or_default();
        if let Some(slot) = self.of_frame.get_mut(id.0 as usize) {
            *slot = iid;
        }
        iid
    }

    fn put(&mut self, packet: TracePacket) -> Result<()> {
        let packet = TracePacket { trusted_packet_sequence_id: Some(SEQUENCE), ..packet };
        self.buffer.clear();
        encode_key(1, WireType::LengthDelimited, &mut self.buffer);
        packet.encode_length_delimited(&mut self.buffer).expect("a vector takes every packet");
        self.output.write_all(&self.buffer)?;
        Ok(())
    }
}

/// The number of `text`, noted as fresh when it is new.
fn intern(table: &mut StringTable, fresh: &mut Vec<InternedText>, text: &str) -> Option<u64> {
    let known = table.len() as u32;
    let id = table.intern(text).0;
    if id >= known {
        fresh.push(InternedText { iid: Some(u64::from(id)), text: Some(text.to_owned()) });
    }
    (id != 0).then_some(u64::from(id))
}

/// Timestamp 0 in Unix time.
fn clocks(start_ns: u64) -> ClockSnapshot {
    let reading = |clock, timestamp| ClockReading { clock_id: Some(clock), timestamp: Some(timestamp) };
    ClockSnapshot {
        clocks: vec![reading(BOOTTIME, 0), reading(REALTIME, start_ns)],
        primary_trace_clock: Some(BOOTTIME as i32),
    }
}

/// Shorthands for the values beside an event.
pub(super) mod values {
    use super::DebugAnnotation;

    /// A count or an amount.
    pub(in super::super) fn count(name: &str, value: u64) -> DebugAnnotation {
        DebugAnnotation { name: Some(name.to_owned()), uint_value: Some(value), ..DebugAnnotation::default() }
    }

    /// A difference.
    pub(in super::super) fn signed(name: &str, value: i64) -> DebugAnnotation {
        DebugAnnotation { name: Some(name.to_owned()), int_value: Some(value), ..DebugAnnotation::default() }
    }

    /// Whether something is so.
    pub(in super::super) fn flag(name: &str, value: bool) -> DebugAnnotation {
        DebugAnnotation { name: Some(name.to_owned()), bool_value: Some(value), ..DebugAnnotation::default() }
    }

    /// A text of memlab's own, or one that was made visible.
    pub(in super::super) fn text(name: &str, value: String) -> DebugAnnotation {
        DebugAnnotation {
            name: Some(name.to_owned()),
            string_value: Some(value),
            ..DebugAnnotation::default()
        }
    }
}
