//! Which moments a picture needs: M4 samples of what it draws, and those that it names.

use crate::rebuild::{History, Moment, Usage};

use super::super::clock::Clock;
use super::super::m4;
use super::super::walk::Walk;

/// The moments to draw in `columns` pixel columns, ascending; `wanted` ones are always among them. A `clock` that places
/// a piece of a recording chooses for that piece.
pub(super) fn moments(
    history: &History,
    walk: &Walk,
    clock: Clock,
    columns: usize,
    wanted: &[Moment],
) -> Vec<Moment> {
    let drawn = |usage: &Usage| [usage.allocated_bytes, usage.active_bytes, usage.reserved_bytes];
    let samples = m4::samples(history, walk, clock, columns, drawn);
    let mut kept: Vec<Moment> = samples.iter().map(|sample| sample.moment).collect();
    kept.extend_from_slice(wanted);
    kept.sort_unstable();
    kept.dedup();
    kept
}

/// The most samples that [`moments`] keeps per column.
#[cfg(test)]
pub(super) const PER_COLUMN: usize = 6;

#[cfg(test)]
mod tests {
    use super::super::super::walk::samples::{history_of, usage};
    use super::*;
    use crate::model::{DeviceTrace, Trace, TraceBuilder};

    fn sawtooth(rounds: u64) -> Trace {
        let mut builder = TraceBuilder::new().segment_alloc(0, 1 << 30);
        for round in 0..rounds {
            let size = 512 * (1 + (round * 7919) % 1000);
            builder = builder.alloc(0, size).alloc(1 << 20, 512).free(1 << 20, 512).free(0, size);
        }
        builder.build()
    }

    fn sampled(device: &DeviceTrace, history: &History, columns: usize) -> Vec<Moment> {
        moments(history, &Walk::new(history), Clock::of(&device.events), columns, &[])
    }

    #[test]
    fn every_column_keeps_its_extremes() {
        let (device, history) = history_of(&sawtooth(300));
        let (clock, columns) = (Clock::of(&device.events), 13);
        let kept = sampled(&device, &history, columns);
        assert!(kept.len() <= columns * PER_COLUMN, "{} samples", kept.len());
        let width = clock.end() / columns as u64 + 1;
        for column in 0..columns as u64 {
            let inside: Vec<u64> = (0..=history.events)
                .filter(|&moment| clock.position(Moment(moment)) / width == column)
                .map(|moment| usage(&history, Moment(moment)).allocated_bytes)
                .collect();
            let kept_inside: Vec<u64> = kept
                .iter()
                .filter(|&&moment| clock.position(moment) / width == column)
                .map(|&moment| usage(&history, moment).allocated_bytes)
                .collect();
            assert_eq!(inside.iter().max(), kept_inside.iter().max(), "column {column}");
            assert_eq!(inside.iter().min(), kept_inside.iter().min(), "column {column}");
            assert_eq!(inside.first(), kept_inside.first(), "column {column}");
            assert_eq!(inside.last(), kept_inside.last(), "column {column}");
        }
    }

    #[test]
    fn a_short_recording_keeps_every_moment() {
        let (device, history) = history_of(&sawtooth(2));
        let kept = sampled(&device, &history, 800);
        assert_eq!(kept, (0..=history.events).map(Moment).collect::<Vec<_>>());
    }

    #[test]
    fn no_events_leave_the_one_moment_there_is() {
        let (device, history) = history_of(&Trace::default());
        assert_eq!(sampled(&device, &history, 800), [Moment(0)]);
    }
}
