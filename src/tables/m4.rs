//! Which moments of a course are enough to draw it: M4 sampling.
//!
//! For every column the first, the last and the lowest allocated total, and the highest of each total that is drawn.
//! At that width the curve covers the same pixels as all events would, so no peak is smoothed away. Memory grows with
//! columns, never with events.

use crate::rebuild::{History, Moment, Usage};

use super::clock::Clock;
use super::walk::{Tally, Totals, Walk};

/// A moment with its position and totals.
#[derive(Clone, Copy)]
pub(super) struct Sample {
    pub(super) moment: Moment,
    /// Position by the clock.
    pub(super) x: u64,
    /// Requested bytes are left out.
    pub(super) usage: Usage,
}

/// The samples of `columns` columns, ascending: at most 3 + `N` of each, for the `N` totals that `drawn` names.
pub(super) fn samples<const N: usize>(
    history: &History,
    walk: &Walk,
    clock: Clock,
    columns: usize,
    drawn: impl Fn(&Usage) -> [u64; N],
) -> Vec<Sample> {
    // Wide enough that the end still falls into the last column.
    let width = clock.end() / columns.max(1) as u64 + 1;
    let totals = Totals::new(history);
    let mut sampler = Sampler { totals, clock, width, drawn, next: 0, column: None, kept: Vec::new() };
    walk.run(&mut sampler);
    sampler.close();
    sampler.kept
}

/// Extremes of the events that fall into one column.
struct Column<const N: usize> {
    first: Sample,
    last: Sample,
    lowest: Sample,
    /// By total.
    highest: [(u64, Sample); N],
}

struct Sampler<'a, F, const N: usize> {
    totals: Totals<'a>,
    clock: Clock<'a>,
    width: u64,
    drawn: F,
    /// First position behind the current column.
    next: u64,
    column: Option<Column<N>>,
    kept: Vec<Sample>,
}

impl<F: Fn(&Usage) -> [u64; N], const N: usize> Sampler<'_, F, N> {
    fn open(&mut self, sample: Sample) {
        self.next = (sample.x / self.width + 1).saturating_mul(self.width);
        let highest = (self.drawn)(&sample.usage).map(|bytes| (bytes, sample));
        self.column = Some(Column { first: sample, last: sample, lowest: sample, highest });
    }

    fn close(&mut self) {
        let Some(column) = self.column.take() else { return };
        let mut samples = vec![column.first, column.last, column.lowest];
        samples.extend(column.highest.map(|(_, sample)| sample));
        samples.sort_unstable_by_key(|sample| sample.moment);
        samples.dedup_by_key(|sample| sample.moment);
        self.kept.append(&mut samples);
    }
}

impl<'a, F: Fn(&Usage) -> [u64; N], const N: usize> Tally<'a> for Sampler<'a, F, N> {
    #[inline]
    fn totals(&mut self) -> Option<&mut Totals<'a>> {
        Some(&mut self.totals)
    }

    #[inline]
    fn arrive(&mut self, moment: Moment) {
        let usage = self.totals.usage;
        let sample = Sample { moment, x: self.clock.position(moment), usage };
        let Some(column) = self.column.as_mut().filter(|_| sample.x < self.next) else {
            self.close();
            self.open(sample);
            return;
        };
        column.last = sample;
        if usage.allocated_bytes < column.lowest.usage.allocated_bytes {
            column.lowest = sample;
        }
        for (highest, bytes) in column.highest.iter_mut().zip((self.drawn)(&usage)) {
            if bytes > highest.0 {
                *highest = (bytes, sample);
            }
        }
    }
}
