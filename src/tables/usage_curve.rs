//! One device's course in few samples: what is kept of every rank for a picture of all of them.
//!
//! Owns the samples: per column the first, the last, the lowest and the highest allocated total and the highest
//! reserved one (M4), so that no peak is smoothed away. Bands by line and causes are the timeline's.

use crate::model::DeviceTrace;
use crate::rebuild::{History, Moment, Usage};

use super::clock::Clock;
use super::walk::{Tally, Totals, Walk};

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
    let width = clock.end() / columns.max(1) as u64 + 1;
    let curve = UsageCurve {
        is_time: clock.is_time(),
        start_us: clock.start_us(),
        end: clock.end(),
        ..UsageCurve::default()
    };
    let mut sampler = Sampler { totals: Totals::new(history), clock, width, next: 0, column: None, curve };
    Walk::new(history).run(&mut sampler);
    sampler.close();
    sampler.curve
}

/// A moment with its position and totals.
#[derive(Clone, Copy)]
struct Sample {
    moment: Moment,
    x: u64,
    usage: Usage,
}

/// Extremes of one column: first, last, lowest, highest, highest reserved.
struct Sampler<'a> {
    totals: Totals<'a>,
    clock: Clock<'a>,
    width: u64,
    /// First position behind the current column.
    next: u64,
    column: Option<[Sample; 5]>,
    curve: UsageCurve,
}

impl Sampler<'_> {
    fn close(&mut self) {
        let Some(mut samples) = self.column.take() else { return };
        samples.sort_unstable_by_key(|sample| sample.moment);
        let mut last = None;
        for sample in samples {
            if last.replace(sample.moment) != Some(sample.moment) {
                self.curve.x.push(sample.x);
                self.curve.allocated.push(sample.usage.allocated_bytes);
                self.curve.reserved.push(sample.usage.reserved_bytes);
            }
        }
    }
}

impl Tally for Sampler<'_> {
    #[inline]
    fn alloc(&mut self, row: usize) {
        self.totals.alloc(row);
    }

    #[inline]
    fn free(&mut self, row: usize) {
        self.totals.free(row);
    }

    #[inline]
    fn complete(&mut self, row: usize) {
        self.totals.complete(row);
    }

    fn hold(&mut self, range: usize) {
        self.totals.hold(range);
    }

    fn release(&mut self, range: usize) {
        self.totals.release(range);
    }

    #[inline]
    fn arrive(&mut self, moment: Moment) {
        let sample = Sample { moment, x: self.clock.position(moment), usage: self.totals.usage };
        match &mut self.column {
            Some([_, last, lowest, highest, reserved]) if sample.x < self.next => {
                *last = sample;
                if sample.usage.allocated_bytes < lowest.usage.allocated_bytes {
                    *lowest = sample;
                }
                if sample.usage.allocated_bytes > highest.usage.allocated_bytes {
                    *highest = sample;
                }
                if sample.usage.reserved_bytes > reserved.usage.reserved_bytes {
                    *reserved = sample;
                }
            }
            _ => {
                self.close();
                self.next = (sample.x / self.width + 1).saturating_mul(self.width);
                self.column = Some([sample; 5]);
            }
        }
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
