//! Which moments a picture needs: M4 sampling.
//!
//! For every pixel column the first, the last, the lowest and the highest allocated total, and the highest
//! reserved and active total. Drawn at that width, the curve covers the same pixels as all events would, so
//! no peak is smoothed away. Memory grows with columns, never with events.

use crate::rebuild::{History, Moment};

use super::super::clock::Clock;
use super::super::walk::{Tally, Totals, Walk};

/// The moments to draw in `columns` pixel columns, ascending; `wanted` ones are always among them. A `clock` that places
/// a piece of a recording chooses for that piece.
pub(super) fn moments(
    history: &History,
    walk: &Walk,
    clock: Clock,
    columns: usize,
    wanted: &[Moment],
) -> Vec<Moment> {
    // Wide enough that the end still falls into the last column.
    let width = clock.end() / columns.max(1) as u64 + 1;
    let totals = Totals::new(history);
    let mut sampler = Sampler { totals, clock, width, next: 0, column: Column::default(), kept: Vec::new() };
    walk.run(&mut sampler);
    sampler.close();
    let mut kept = sampler.kept;
    kept.extend_from_slice(wanted);
    kept.sort_unstable();
    kept.dedup();
    kept
}

/// The most samples that [`moments`] keeps per column.
pub(super) const PER_COLUMN: usize = 6;

/// Extremes of the events that fall into one pixel column.
#[derive(Clone, Copy, Default)]
struct Column {
    first: Moment,
    last: Moment,
    lowest: (u64, Moment),
    highest: (u64, Moment),
    highest_active: (u64, Moment),
    highest_reserved: (u64, Moment),
}

struct Sampler<'a> {
    totals: Totals<'a>,
    clock: Clock<'a>,
    width: u64,
    /// First position behind the current column.
    next: u64,
    column: Column,
    kept: Vec<Moment>,
}

impl Sampler<'_> {
    fn open(&mut self, moment: Moment, position: u64) {
        self.next = (position / self.width + 1).saturating_mul(self.width);
        let usage = self.totals.usage;
        self.column = Column {
            first: moment,
            last: moment,
            lowest: (usage.allocated_bytes, moment),
            highest: (usage.allocated_bytes, moment),
            highest_active: (usage.active_bytes, moment),
            highest_reserved: (usage.reserved_bytes, moment),
        };
    }

    fn close(&mut self) {
        let column = self.column;
        let mut moments: [Moment; PER_COLUMN] = [
            column.first,
            column.last,
            column.lowest.1,
            column.highest.1,
            column.highest_active.1,
            column.highest_reserved.1,
        ];
        moments.sort_unstable();
        for moment in moments {
            if self.kept.last() != Some(&moment) {
                self.kept.push(moment);
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
        let position = self.clock.position(moment);
        if position >= self.next {
            if moment.0 > 0 {
                self.close();
            }
            self.open(moment, position);
            return;
        }
        let (usage, column) = (self.totals.usage, &mut self.column);
        column.last = moment;
        if usage.allocated_bytes < column.lowest.0 {
            column.lowest = (usage.allocated_bytes, moment);
        }
        if usage.allocated_bytes > column.highest.0 {
            column.highest = (usage.allocated_bytes, moment);
        }
        if usage.active_bytes > column.highest_active.0 {
            column.highest_active = (usage.active_bytes, moment);
        }
        if usage.reserved_bytes > column.highest_reserved.0 {
            column.highest_reserved = (usage.reserved_bytes, moment);
        }
    }
}

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
