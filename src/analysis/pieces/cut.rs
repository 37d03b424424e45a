//! Pieces of one device's events.
//!
//! Owns where a piece ends; chunks are the file's, and end anywhere.

use crate::format::Recording;
use crate::model::{DeviceId, DeviceTrace, Events, Excerpt, Segment};
use crate::rebuild::piece_end;

/// Hands out a device's events in pieces.
pub(super) struct Cutter {
    device: DeviceId,
    most: usize,
    segments: Option<Vec<Segment>>,
    rest: Events,
    next_event: u64,
    is_read: bool,
}

impl Cutter {
    /// From the first event of `device` on, at most `most` events at a time.
    pub(super) fn new(recording: &mut Recording<'_>, device: DeviceId, most: usize) -> Self {
        recording.rewind(device);
        let segments = recording.trace().device(device).and_then(|entry| entry.segments.clone());
        Self { device, most: most.max(1), segments, rest: Events::default(), next_event: 0, is_read: false }
    }

    /// The next piece, with the device's final state, and whether it is the last.
    pub(super) fn next(&mut self, recording: &mut Recording<'_>) -> Option<(DeviceTrace, bool)> {
        self.fill(recording, self.most);
        if self.rest.is_empty() {
            return None;
        }
        let is_all = self.is_read && self.rest.len() <= self.most;
        let end = if is_all { self.rest.len() } else { piece_end(&self.rest, self.most) };
        let behind = self.rest.split_off(end);
        let events = std::mem::replace(&mut self.rest, behind);
        self.fill(recording, 1);
        let excerpt = Some(Excerpt { first_event: self.next_event, ..Excerpt::default() });
        self.next_event += events.len() as u64;
        let piece = DeviceTrace { device: self.device, events, segments: self.segments.clone(), excerpt };
        Some((piece, self.rest.is_empty()))
    }

    /// Reads on until `least` events wait, or all are read.
    fn fill(&mut self, recording: &mut Recording<'_>, least: usize) {
        while !self.is_read && self.rest.len() < least {
            match recording.next(self.device, least - self.rest.len()) {
                Some(more) => self.rest.append(more),
                None => self.is_read = true,
            }
        }
    }
}
