//! One device: who holds its memory, and what it says itself.

use crate::driver::{
    Curve, DriverUsage, Figures, HolderKind, Join, Obtained, Places, Reading, Sum, Taking, counts_on,
    figures, sums,
};
use crate::model::{Action, DeviceId, NO_TIME};
use crate::report::{
    DriverDeviceRow, DriverHolderRow, DriverJoinRow, DriverPartRow, DriverSumRow, Timeline, TimelineMark,
};
use crate::units::Bytes;

use super::{Work, failed_requests};

/// Holders with a band of their own in the timeline.
const BANDS: usize = 8;
/// Stretches of the timeline.
const COLUMNS: usize = 800;

/// A device's takings, each with its holder.
struct Share<'w, 'a> {
    work: &'w Work<'a>,
    device: DeviceId,
    /// Of each taking; those that do not count have none.
    holders: Vec<Option<u32>>,
    usage: DriverUsage,
}

impl Work<'_> {
    pub(super) fn device(&self, device: DeviceId, places: &mut Places<'_>) -> DriverDeviceRow {
        let join = self.join(device);
        let share = Share {
            work: self,
            device,
            holders: self.charged(device, join.as_ref()),
            usage: DriverUsage::of(&self.takings.all, device),
        };
        let usage = share.usage;
        let collapsed = self.holders.allocator().filter(|_| self.has_events(device));
        let holder = |index: usize, _: &Taking| share.holders[index];
        let (lines, lines_left_out) = self.lines(places, usage.peak_calls, collapsed, holder);
        let holders = share.holder_rows();
        DriverDeviceRow {
            device: device.0,
            total_bytes: self.total_bytes(device),
            peak_bytes: usage.peak_bytes,
            peak_time_us: usage.peak_calls.checked_sub(1).map(|row| self.layer.rows[row as usize].time_us),
            end_bytes: usage.end_bytes,
            sums: share.sums(),
            timeline: share.timeline(&holders),
            holders,
            kinds: self.kinds(|taking| taking.device == device),
            lines,
            lines_left_out,
            join: join.map(|join| joined(&join, self, device)),
        }
    }

    /// Bytes that takings hold on `device` before call `index`.
    pub(super) fn held(&self, device: DeviceId, index: u32) -> u64 {
        let held =
            self.takings.all.iter().filter(|taking| taking.is_held_after(index) && counts_on(taking, device));
        held.fold(0, |sum, taking| sum.saturating_add(taking.bytes))
    }

    /// The allocator's segments in the driver's memory; `None` without its events and segments.
    fn join(&self, device: DeviceId) -> Option<Join> {
        let entry = self.trace.device(device)?;
        let events = &entry.events;
        let is_obtained =
            |&event: &usize| matches!(events.actions[event], Action::SegmentAlloc | Action::SegmentMap);
        let obtained: Vec<Obtained> = (0..events.len())
            .filter(is_obtained)
            .map(|event| Obtained {
                address: events.addresses[event],
                bytes: events.sizes[event],
                time_us: Some(events.times_us[event]).filter(|&time| time != NO_TIME),
            })
            .collect();
        let live = entry.segments.as_deref().unwrap_or_default();
        let is_known = !obtained.is_empty() || !live.is_empty();
        is_known.then(|| Join::of(&self.layer.rows, &self.takings, device, &obtained, live))
    }

    /// The holder of every taking that counts: the allocator's, where it is one of its segments, else whose stack it is.
    fn charged(&self, device: DeviceId, join: Option<&Join>) -> Vec<Option<u32>> {
        let allocator = self.holders.allocator();
        let takings = self.takings.all.iter().enumerate();
        let holder = |(index, taking): (usize, &Taking)| {
            if !counts_on(taking, device) {
                return None;
            }
            let is_segment = join.is_some_and(|join| join.is_segment[index]);
            let by_stack = || self.holders.of_stack(self.layer.rows[taking.row as usize].native);
            Some(allocator.filter(|_| is_segment).unwrap_or_else(by_stack))
        };
        takings.map(holder).collect()
    }

    fn total_bytes(&self, device: DeviceId) -> Option<u64> {
        let of_samples = self.trace.samples.iter().rev().filter(|sample| sample.device == device);
        let of_facts = self.trace.process.devices.iter().filter(|facts| facts.device == device);
        of_samples
            .filter_map(|sample| sample.total_bytes)
            .chain(of_facts.filter_map(|facts| facts.total_bytes))
            .next()
    }

    /// Readings of `device`: those of the recorder of calls, which knows the process; without them the emitter's.
    fn readings(&self, device: DeviceId) -> Vec<Reading> {
        let with = |is_of_calls: bool| {
            let samples =
                self.trace.samples.iter().filter(move |sample| sample.driver_calls.is_some() == is_of_calls);
            let mut found: Vec<Reading> = samples.filter_map(|sample| Reading::of(sample, device)).collect();
            found.sort_by_key(|reading| reading.time_us);
            found
        };
        let of_calls = with(true);
        if of_calls.is_empty() { with(false) } else { of_calls }
    }
}

impl Share<'_, '_> {
    fn figures(&self) -> Vec<(u32, Figures)> {
        let mut index = 0;
        let of_holders = figures(&self.work.takings.all, self.usage.peak_calls, |_| {
            index += 1;
            self.holders[index - 1]
        });
        let mut rows: Vec<_> = of_holders.into_iter().collect();
        rows.sort_by_key(|(holder, figures)| {
            (std::cmp::Reverse((figures.at_peak_bytes, figures.own_peak_bytes)), *holder)
        });
        rows
    }

    fn holder_rows(&self) -> Vec<DriverHolderRow> {
        let row = |(number, figures): (u32, Figures)| {
            let holder = &self.work.holders.all[number as usize];
            DriverHolderRow {
                holder: holder.name.clone(),
                kind: holder.kind.name().to_owned(),
                modules: holder.modules.clone(),
                at_peak_bytes: figures.at_peak_bytes,
                own_peak_bytes: figures.own_peak_bytes,
                end_bytes: figures.end_bytes,
                total_bytes: figures.total_bytes,
                taken: figures.taken,
                given_back: figures.taken - figures.kept,
                note: holder.note.map(str::to_owned),
            }
        };
        self.figures().into_iter().map(row).collect()
    }

    fn sums(&self) -> Vec<DriverSumRow> {
        let work = self.work;
        let (rows, takings) = (&work.layer.rows, &work.takings.all);
        let readings = work.readings(self.device);
        let of_failures = |(time_us, free): (i64, u64)| {
            let used_bytes = self.allocators_total()?.checked_sub(free)?;
            Some(Reading { time_us, order: None, used_bytes, process_bytes: None })
        };
        let ooms: Vec<Reading> =
            failed_requests(work.trace, self.device).into_iter().filter_map(of_failures).collect();
        let found = sums(rows, takings, self.device, &readings, &ooms);
        found.into_iter().map(|sum| self.sum(&sum)).collect()
    }

    /// What CUDA says that the device has: the measure of the free bytes in a failed request.
    fn allocators_total(&self) -> Option<u64> {
        let trace = self.work.trace;
        let of_emitter = trace
            .samples
            .iter()
            .filter(|sample| sample.device == self.device && sample.driver_calls.is_none());
        of_emitter
            .filter_map(|sample| sample.total_bytes)
            .last()
            .or_else(|| self.work.total_bytes(self.device))
    }

    fn sum(&self, sum: &Sum) -> DriverSumRow {
        DriverSumRow {
            at: sum.moment.name().to_owned(),
            time_us: sum.reading.time_us,
            used_bytes: sum.reading.used_bytes,
            process_bytes: sum.reading.process_bytes,
            parts: self.parts(sum.calls),
            context_bytes: sum.context_bytes,
            others_bytes: sum.others_bytes,
            unknown_bytes: sum.unknown_bytes,
        }
    }

    /// Who holds what after so many calls, most bytes first.
    fn parts(&self, calls: u32) -> Vec<DriverPartRow> {
        let mut bytes = vec![0u64; self.work.holders.all.len()];
        for (taking, holder) in self.work.takings.all.iter().zip(&self.holders) {
            if let Some(holder) = holder.filter(|_| taking.is_held_after(calls)) {
                let sum = &mut bytes[holder as usize];
                *sum = sum.saturating_add(taking.bytes);
            }
        }
        let held = self.work.holders.all.iter().zip(bytes).filter(|(_, bytes)| *bytes > 0);
        let mut parts: Vec<DriverPartRow> =
            held.map(|(holder, bytes)| DriverPartRow { holder: holder.name.clone(), bytes }).collect();
        parts.sort_by_key(|part| std::cmp::Reverse(part.bytes));
        parts
    }

    fn timeline(&self, rows: &[DriverHolderRow]) -> Timeline {
        let work = self.work;
        let names: Vec<String> = rows
            .iter()
            .filter(|row| row.kind != "unknown")
            .take(BANDS)
            .map(|row| row.holder.clone())
            .chain(["other holders".to_owned(), "no stack known".to_owned()])
            .collect();
        let (others, unknown) = (names.len() - 2, names.len() - 1);
        // Of each holder its band; holder 0 is the unknown one.
        let band_of = |holder: usize| match names[..others]
            .iter()
            .position(|name| *name == work.holders.all[holder].name)
        {
            Some(band) => band,
            None if holder == 0 => unknown,
            None => others,
        };
        let bands: Vec<usize> = (0..work.holders.all.len()).map(band_of).collect();
        let of_row: std::collections::HashMap<u32, usize> = (work.takings.all.iter().zip(&self.holders))
            .filter_map(|(taking, holder)| Some((taking.row, bands[(*holder)? as usize])))
            .collect();
        let band = |taking: &Taking| of_row.get(&taking.row).copied().unwrap_or(unknown);
        let curve = Curve::of(&work.layer.rows, &work.takings.all, self.device, names.len(), COLUMNS, band);
        self.drawn(curve, names)
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
        let rows = self.work.layer.rows.len() as u64;
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
            reserved: curve.total.clone(),
            allocated: curve.total,
            by_cause: Vec::new(),
        }
    }
}

fn joined(join: &Join, work: &Work<'_>, device: DeviceId) -> DriverJoinRow {
    let by_stack = |taking: &Taking| {
        let holder = work.holders.of_stack(work.layer.rows[taking.row as usize].native);
        work.holders.all[holder as usize].kind == HolderKind::Allocator
    };
    let takings = work.takings.all.iter().zip(&join.is_segment);
    let without =
        takings.filter(|(taking, is_segment)| !**is_segment && counts_on(taking, device) && by_stack(taking));
    DriverJoinRow {
        segments: join.segments,
        matched: join.matched,
        matched_bytes: join.matched_bytes,
        live_segments: join.live_segments,
        live_bytes: join.live_bytes,
        live_matched: join.live_matched,
        live_matched_bytes: join.live_matched_bytes,
        takings_without_segment: without.count() as u64,
    }
}
