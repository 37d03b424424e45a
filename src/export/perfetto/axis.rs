//! Moments and times as timestamps: nanoseconds since the first event of any device of the file.
//!
//! Owns the common beginning. A device whose events have no usable times counts its events instead, one event
//! to the microsecond; its track says so.

use crate::model::{DeviceTrace, NO_TIME};
use crate::rebuild::Moment;
use crate::tables::Clock;

/// Timestamps are signed in Perfetto's tables.
const LAST_NS: u64 = i64::MAX as u64;

/// When the file begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    /// Unix microseconds of timestamp 0; `None` when no device has times.
    pub(super) start_us: Option<i64>,
    /// The last timestamp of any device.
    pub(super) end_ns: u64,
}

/// Timestamps of one device.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeviceAxis<'a> {
    pub(super) clock: Clock<'a>,
    /// By how much the device begins later than the file.
    offset_us: u64,
}

impl Axis {
    pub(super) fn of<'a>(devices: impl Iterator<Item = &'a DeviceTrace> + Clone) -> Self {
        let clocks = || devices.clone().map(|device| Clock::of(&device.events));
        let mut axis = Self { start_us: clocks().filter_map(Clock::start_us).min(), end_ns: 0 };
        let end = |device| {
            let axis = axis.device(device);
            nanoseconds(axis.offset_us.saturating_add(axis.clock.end()))
        };
        axis.end_ns = devices.clone().map(end).max().unwrap_or(0);
        axis
    }

    pub(super) fn device<'a>(&self, device: &'a DeviceTrace) -> DeviceAxis<'a> {
        let clock = Clock::of(&device.events);
        let offset = clock.start_us().zip(self.start_us).map(|(own, first)| own.abs_diff(first));
        DeviceAxis { clock, offset_us: offset.unwrap_or(0) }
    }

    /// The timestamp of a Unix time, moved to the nearest end where it lies outside; `None` when it is not known
    /// or the file has no times.
    pub(super) fn time_ns(&self, time_us: i64) -> Option<u64> {
        let start = self.start_us.filter(|_| time_us != NO_TIME)?;
        let since = if time_us < start { 0 } else { time_us.abs_diff(start) };
        Some(nanoseconds(since).min(self.end_ns))
    }
}

impl DeviceAxis<'_> {
    /// The timestamp of `moment`.
    #[inline]
    pub(super) fn ns(&self, moment: Moment) -> u64 {
        nanoseconds(self.offset_us.saturating_add(self.clock.position(moment)))
    }
}

fn nanoseconds(microseconds: u64) -> u64 {
    microseconds.saturating_mul(1000).min(LAST_NS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Trace, TraceBuilder};

    fn trace() -> Trace {
        // Events 10 us apart from 1,000,000 us on: device 1 begins 20 us after device 0.
        TraceBuilder::new()
            .alloc(0, 512)
            .free_requested(0, 512)
            .device(1)
            .alloc(0, 512)
            .alloc(512, 512)
            .build()
    }

    #[test]
    fn devices_share_one_beginning() {
        let trace = trace();
        let axis = Axis::of(trace.devices.iter());
        let starts = |at: usize, moment| axis.device(&trace.devices[at]).ns(Moment(moment));
        assert_eq!((starts(0, 0), starts(0, 2), starts(1, 1), starts(1, 2)), (0, 10_000, 20_000, 30_000));
        assert_eq!((axis.start_us, axis.end_ns), (Some(1_000_000), 30_000));
        assert_eq!(axis.time_ns(1_000_007), Some(7_000));
        assert_eq!((axis.time_ns(0), axis.time_ns(i64::MAX)), (Some(0), Some(30_000)));
        assert_eq!(axis.time_ns(NO_TIME), None);
    }

    #[test]
    fn without_times_events_are_counted() {
        let mut trace = trace();
        for device in &mut trace.devices {
            device.events.times_us.fill(NO_TIME);
        }
        let axis = Axis::of(trace.devices.iter());
        assert_eq!((axis.start_us, axis.end_ns, axis.time_ns(5)), (None, 2_000, None));
        assert_eq!(axis.device(&trace.devices[1]).ns(Moment(1)), 1_000);
    }

    #[test]
    fn extreme_times_stay_within_what_perfetto_can_count() {
        let mut trace = trace();
        trace.devices[0].events.times_us = vec![i64::MIN + 1, i64::MAX];
        let axis = Axis::of(trace.devices.iter());
        assert_eq!(axis.end_ns, LAST_NS);
        assert_eq!(axis.device(&trace.devices[1]).ns(Moment(2)), LAST_NS);
    }
}
