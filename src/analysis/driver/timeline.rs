//! Who held a device's memory over time.
//!
//! Owns which holders have a band, and the curve above them: what the device said to be in use.

use crate::driver::{Curve, Holder, counts_on};
use crate::report::{DriverHolderRow, Timeline, TimelineMark};
use crate::units::Bytes;

use super::device::Share;

/// Holders with a band of their own.
const BANDS: usize = 8;
/// Stretches of the timeline.
const COLUMNS: usize = 800;

impl Share<'_, '_> {
    pub(super) fn timeline(&self, rows: &[DriverHolderRow]) -> Timeline {
        let work = self.work;
        let names: Vec<String> = rows
            .iter()
            .filter(|row| row.kind != "unknown")
            .take(BANDS)
            .map(|row| row.holder.clone())
            .chain(["other holders".to_owned(), "unknown".to_owned()])
            .collect();
        let (others, unknown) = (names.len() - 2, names.len() - 1);
        // Of each holder its band; holder 0 is the unknown one.
        let claims = &work.claims;
        let band_of = |(number, holder): (usize, &Holder)| match names[..others]
            .iter()
            .position(|name| *name == holder.name)
        {
            Some(band) => band,
            None if number == 0 => unknown,
            None => others,
        };
        let bands: Vec<usize> = claims.holders.all.iter().enumerate().map(band_of).collect();
        let of_taking = |index: usize| bands[claims.of_taking(index) as usize];
        let curve =
            Curve::of(&claims.layer.rows, &claims.takings.all, self.device, names.len(), COLUMNS, of_taking);
        self.drawn(curve, names)
    }

    /// What the device said to be in use at each moment: from a reading on, what it said beyond the calls stays as it is until
    /// the next. Before the first reading, and without any, what calls hold.
    fn in_use(&self, curve: &Curve) -> Vec<u64> {
        let (rows, readings) = (&self.work.claims.layer.rows, self.work.readings(self.device));
        if readings.is_empty() {
            return curve.total.clone();
        }
        let held = self.held_after_each_call();
        let beyond = |calls: u32, used: u64| (calls, used.saturating_sub(held[calls as usize]));
        let known: Vec<(u32, u64)> =
            readings.iter().map(|reading| beyond(reading.calls(rows), reading.used_bytes)).collect();
        let at = |(&calls, &total): (&u32, &u64)| {
            let before = known.partition_point(|(known, _)| *known <= calls);
            let beyond = before.checked_sub(1).map_or(0, |place| known[place].1);
            total.saturating_add(beyond)
        };
        curve.calls.iter().zip(&curve.total).map(at).collect()
    }

    /// Bytes held after so many calls, from none on: readings may be many, so one walk serves all.
    fn held_after_each_call(&self) -> Vec<u64> {
        let mut held = vec![0u64; self.work.claims.layer.rows.len() + 1];
        for taking in self.work.claims.takings.all.iter().filter(|taking| counts_on(taking, self.device)) {
            // Differences first: what is taken away is below zero until all are added up.
            held[taking.row as usize + 1] = held[taking.row as usize + 1].wrapping_add(taking.bytes);
            if let Some(end) = held.get_mut(taking.until as usize + 1) {
                *end = end.wrapping_sub(taking.bytes);
            }
        }
        let mut sum = 0u64;
        for bytes in &mut held {
            sum = sum.wrapping_add(*bytes);
            *bytes = sum;
        }
        held
    }

    fn drawn(&self, curve: Curve, band_names: Vec<String>) -> Timeline {
        let first = curve.times_us.first().copied().unwrap_or(0);
        let pause_us = curve.times_us.windows(2).map(|pair| pair[1].abs_diff(pair[0])).max().unwrap_or(0);
        let last = curve.times_us.last().map_or(0, |&last| last.abs_diff(first));
        let x_is_time = last > 0 && pause_us < last / 2;
        let x: Vec<u64> = if x_is_time {
            curve.times_us.iter().map(|&time| time.abs_diff(first)).collect()
        } else {
            curve.calls.iter().map(|&calls| calls.into()).collect()
        };
        let peak = curve.calls.iter().position(|&calls| calls == self.usage.peak_calls);
        let mark = |at: usize| TimelineMark {
            x: x[at],
            kind: "peak",
            label: format!("peak {}", Bytes(self.usage.peak_bytes)),
        };
        let rows = self.work.claims.layer.rows.len() as u64;
        let reserved = self.in_use(&curve);
        Timeline {
            x_is_time,
            marks: peak.map(mark).into_iter().collect(),
            x_end: if x_is_time { last } else { rows },
            pause_us: if x_is_time { 0 } else { pause_us },
            events_per_sample: (rows / x.len().max(1) as u64).max(1),
            x,
            band_names,
            band_ranks: Vec::new(),
            bands: curve.bands,
            active: curve.total.clone(),
            reserved,
            allocated: curve.total,
            by_cause: Vec::new(),
        }
    }
}
