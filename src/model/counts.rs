//! Events of a device, counted.
//!
//! Owns what can be said of an event list without looking at single events. Does not know where the counts
//! come from: `format` takes them from a file without decoding its events, or they are counted here.

use super::{Action, Events, NO_TIME, Trace};

/// What the event list of one device holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// Events by the code of their action.
    pub actions: [u64; Action::ALL.len()],
    /// Distinct streams.
    pub streams: u64,
    /// Earliest time in Unix microseconds, if any event has one.
    pub first_time_us: Option<i64>,
    /// Latest time.
    pub last_time_us: Option<i64>,
}

impl EventCounts {
    /// Counts `events`.
    #[must_use]
    pub fn of(events: &Events) -> Self {
        let mut counts = Self { streams: events.stream_values.len() as u64, ..Self::default() };
        for &action in &events.actions {
            counts.actions[action as usize] += 1;
        }
        counts.include_times(&events.times_us);
        counts
    }

    /// Events in all.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.actions.iter().sum()
    }

    /// Takes in the times of further events; [`NO_TIME`] is none.
    pub fn include_times(&mut self, times_us: &[i64]) {
        for &time in times_us.iter().filter(|&&time| time != NO_TIME) {
            self.first_time_us = Some(self.first_time_us.map_or(time, |first| first.min(time)));
            self.last_time_us = Some(self.last_time_us.map_or(time, |last| last.max(time)));
        }
    }
}

/// A file's contents with its events counted.
#[derive(Clone, Debug, Default)]
pub struct Outline {
    /// Everything else. Its event lists may be empty.
    pub trace: Trace,
    /// Of each device of the trace, in the same order.
    pub counts: Vec<EventCounts>,
    /// Chunks of events of which only the facts were read: whether their bytes are whole is not known.
    pub unchecked_chunks: u64,
}

impl Outline {
    /// Counts the events of `trace`.
    #[must_use]
    pub fn of(trace: Trace) -> Self {
        let counts = trace.devices.iter().map(|device| EventCounts::of(&device.events)).collect();
        Self { trace, counts, unchecked_chunks: 0 }
    }

    /// Events on all devices.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.counts.iter().map(EventCounts::events).sum()
    }
}
