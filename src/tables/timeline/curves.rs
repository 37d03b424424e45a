//! The four counters at the moments that a picture of given width needs.
//!
//! Owns their exact values at moments chosen by [`sampling`], for whoever draws or writes curves without bands.
//! Does not own names, units or file formats.

use crate::model::DeviceTrace;
use crate::rebuild::{History, Moment, Usage};

use super::super::clock::Clock;
use super::super::usages::each_usage;
use super::super::walk::Walk;
use super::sampling;

/// The counters of one device at some of its moments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Curves {
    /// Whether every event has a time, none before that of its predecessor, and not all are equal.
    pub has_times: bool,
    /// The moments, ascending.
    pub moments: Vec<Moment>,
    /// The counters at each of them, in bytes.
    pub usages: Vec<Usage>,
}

/// The counters of `device` in `columns` columns of equal width (in time where events have times): of each column
/// its first, last, lowest and highest allocated total, its highest active and its highest reserved total. Each
/// counter's own peak and the `wanted` moments are always there. A recording with fewer events keeps them all.
#[must_use]
pub fn curves(device: &DeviceTrace, history: &History, columns: usize, wanted: &[Moment]) -> Curves {
    let clock = Clock::of(&device.events);
    let peaks = &history.peaks;
    let mut always = vec![peaks.requested, peaks.allocated, peaks.active, peaks.reserved]
        .into_iter()
        .map(|peak| peak.moment)
        .collect::<Vec<_>>();
    always.extend(wanted.iter().filter(|moment| moment.0 <= history.events));
    let moments = sampling::moments(history, &Walk::new(history), clock, columns, &always);
    let mut usages = Vec::with_capacity(moments.len());
    each_usage(history, |moment, usage| {
        if moments.get(usages.len()) == Some(&moment) {
            usages.push(usage);
        }
    });
    Curves { has_times: clock.is_time(), moments, usages }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Trace, TraceBuilder};
    use crate::rebuild::rebuild;

    const A: u64 = 0x7000_0000_0000;

    /// Requested bytes peak where allocated ones do not: many odd sizes first, one round block later.
    fn trace() -> Trace {
        let mut builder = TraceBuilder::new().segment_alloc(A, 20 << 20);
        for round in 0..200 {
            let size = 1000 + (round * 7919) % 40_000;
            builder = builder.alloc(A, size).alloc(A + (1 << 20), 512);
            builder = builder.free(A + (1 << 20), 512).free(A, size);
        }
        builder.build()
    }

    #[test]
    fn every_counter_keeps_its_peak_at_every_width() {
        let trace = trace();
        let history = rebuild(&trace, &trace.devices[0]);
        for columns in [1, 7, 100_000] {
            let curves = curves(&trace.devices[0], &history, columns, &[Moment(33), Moment(u64::MAX)]);
            assert!(curves.has_times && curves.moments.is_sorted());
            assert_eq!(curves.moments.len(), curves.usages.len());
            assert!(curves.moments.contains(&Moment(33)));
            let highest = |of: fn(&Usage) -> u64| curves.usages.iter().map(of).max();
            assert_eq!(highest(|usage| usage.requested_bytes), Some(history.peaks.requested.bytes));
            assert_eq!(highest(|usage| usage.allocated_bytes), Some(history.peaks.allocated.bytes));
            assert_eq!(highest(|usage| usage.active_bytes), Some(history.peaks.active.bytes));
            assert_eq!(highest(|usage| usage.reserved_bytes), Some(history.peaks.reserved.bytes));
            assert_eq!(curves.usages.last(), Some(&history.end));
            if columns == 100_000 {
                assert_eq!(curves.moments.len() as u64, history.events + 1, "nothing is left out");
            }
        }
    }
}
