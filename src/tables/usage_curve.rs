//! One device's course in few samples: what is kept of every rank for a picture of all of them.
//!
//! Owns which totals are drawn: allocated and reserved bytes. The samples are `m4`'s; bands by line and causes are the
//! timeline's.

use crate::model::DeviceTrace;
use crate::rebuild::{History, Usage};

use super::clock::Clock;
use super::m4;
use super::walk::Walk;

/// Allocated and reserved bytes over the recording.
#[derive(Clone, Debug, Default)]
pub struct UsageCurve {
    /// Whether `x` is in microseconds since the first event (true) or in events (false).
    pub is_time: bool,
    /// Time of the first event in microseconds, where events have times.
    pub start_us: Option<i64>,
    /// Largest possible `x`.
    pub end: u64,
    /// Position of each sample, ascending.
    pub x: Vec<u64>,
    /// Allocated bytes at each sample.
    pub allocated: Vec<u64>,
    /// Reserved bytes at each sample.
    pub reserved: Vec<u64>,
}

/// The course of `history` in `columns` columns, of at most five samples each.
#[must_use]
pub fn usage_curve(device: &DeviceTrace, history: &History, columns: usize) -> UsageCurve {
    let clock = Clock::of(&device.events);
    let (is_time, start_us, end) = (clock.is_time(), clock.start_us(), clock.end());
    let drawn = |usage: &Usage| [usage.allocated_bytes, usage.reserved_bytes];
    let samples = m4::samples(history, &Walk::new(history), clock, columns, drawn);
    UsageCurve {
        is_time,
        start_us,
        end,
        x: samples.iter().map(|sample| sample.x).collect(),
        allocated: samples.iter().map(|sample| sample.usage.allocated_bytes).collect(),
        reserved: samples.iter().map(|sample| sample.usage.reserved_bytes).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::walk::samples::history_of;
    use super::*;
    use crate::model::TraceBuilder;

    #[test]
    fn extremes_survive_and_samples_are_few() {
        let mut builder = TraceBuilder::new().segment_alloc(0, 1 << 30);
        for round in 0..300u64 {
            let size = 512 * (1 + (round * 7919) % 1000);
            builder = builder.alloc(0, size).free(0, size);
        }
        let (device, history) = history_of(&builder.build());
        let curve = usage_curve(&device, &history, 20);
        assert!(curve.x.len() <= 105 && curve.x.is_sorted(), "{}", curve.x.len());
        assert_eq!(curve.allocated.iter().max(), Some(&history.peaks.allocated.bytes));
        assert_eq!(curve.reserved.iter().max(), Some(&history.peaks.reserved.bytes));
        assert_eq!(curve.allocated.last(), Some(&history.end.allocated_bytes));
    }

    #[test]
    fn a_recording_without_events_has_its_beginning() {
        let (device, history) = history_of(&TraceBuilder::new().build());
        assert!(usage_curve(&device, &history, 100).x.len() <= 1);
    }
}
