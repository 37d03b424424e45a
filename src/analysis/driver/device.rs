//! One device: who holds its memory, and what it says itself.

use super::Work;
use crate::driver::{
    Claims, DriverUsage, Figures, HolderKind, Join, Places, Reading, Sum, Taking, counts_on, figures, sums,
};
use crate::model::{DeviceId, Sample};
use crate::report::{DriverDeviceRow, DriverHolderRow, DriverJoinRow, DriverPartRow, DriverSumRow};

/// A device's takings, each with its holder.
pub(super) struct Share<'w, 'a> {
    pub(super) work: &'w Work<'a>,
    pub(super) device: DeviceId,
    pub(super) usage: DriverUsage,
}

impl Work<'_> {
    pub(super) fn device(&self, device: DeviceId, places: &mut Places<'_>) -> DriverDeviceRow {
        let share = Share { work: self, device, usage: DriverUsage::of(&self.claims.takings.all, device) };
        let usage = share.usage;
        let collapsed = self.claims.holders.allocator().filter(|_| self.has_events(device));
        let holder =
            |index: usize, taking: &Taking| (taking.device == device).then(|| self.claims.of_taking(index));
        let (lines, lines_left_out) = self.lines(places, usage.peak_calls, collapsed, holder);
        let holders = share.holder_rows();
        DriverDeviceRow {
            device: device.0,
            total_bytes: self.total_bytes(device),
            peak_bytes: usage.peak_bytes,
            peak_time_us: usage
                .peak_calls
                .checked_sub(1)
                .map(|row| self.claims.layer.rows[row as usize].time_us),
            end_bytes: usage.end_bytes,
            sums: share.sums(),
            timeline: share.timeline(&holders),
            holders,
            kinds: self.kinds(|taking| taking.device == device),
            lines,
            lines_left_out,
            join: self.claims.join(device).map(|join| joined(join, self.claims, device)),
        }
    }

    /// Bytes that takings hold on `device` before call `index`.
    pub(super) fn held(&self, device: DeviceId, index: u32) -> u64 {
        self.claims.held(device, index).fold(0, |sum, (_, taking)| sum.saturating_add(taking.bytes))
    }

    fn total_bytes(&self, device: DeviceId) -> Option<u64> {
        let of_samples = self.trace.samples.iter().rev().filter(|sample| sample.device == device);
        let of_facts = self.trace.process.devices.iter().filter(|facts| facts.device == device);
        of_samples
            .filter_map(|sample| sample.total_bytes)
            .chain(of_facts.filter_map(|facts| facts.total_bytes))
            .next()
    }

    /// Readings of `device`: those of the recorder of calls, which knows the process; without them the emitter's. What was
    /// read while calls were under way counts only if there is nothing else.
    pub(super) fn readings(&self, device: DeviceId) -> Vec<Reading> {
        let is_of_calls = |sample: &&Sample| sample.driver_calls.is_some();
        let choices: [&dyn Fn(&&Sample) -> bool; 3] =
            [&|sample| is_of_calls(sample) && !sample.unstable, &is_of_calls, &|sample| !is_of_calls(sample)];
        let found = choices.into_iter().map(|is_wanted| {
            let samples = self.trace.samples.iter().filter(is_wanted);
            samples.filter_map(|sample| Reading::of(sample, device)).collect::<Vec<_>>()
        });
        let mut readings = found.into_iter().find(|readings| !readings.is_empty()).unwrap_or_default();
        readings.sort_by_key(|reading| reading.time_us);
        readings
    }
}

impl Share<'_, '_> {
    /// The holder of a taking, if it counts on this device.
    fn holder(&self, index: usize, taking: &Taking) -> Option<u32> {
        counts_on(taking, self.device).then(|| self.work.claims.of_taking(index))
    }

    fn figures(&self) -> Vec<(u32, Figures)> {
        let mut index = 0;
        let of_holders = figures(&self.work.claims.takings.all, self.usage.peak_calls, |taking| {
            index += 1;
            self.holder(index - 1, taking)
        });
        let mut rows: Vec<_> = of_holders.into_iter().collect();
        rows.sort_by_key(|(holder, figures)| {
            (std::cmp::Reverse((figures.at_peak_bytes, figures.own_peak_bytes)), *holder)
        });
        rows
    }

    fn holder_rows(&self) -> Vec<DriverHolderRow> {
        let row = |(number, figures): (u32, Figures)| {
            let holder = self.work.claims.holder(number);
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
        let (rows, takings) = (&work.claims.layer.rows, &work.claims.takings.all);
        let readings = work.readings(self.device);
        let of_failures = |&(time_us, free): &(i64, u64)| {
            let used_bytes = self.allocators_total()?.checked_sub(free)?;
            Some(Reading { time_us, order: None, used_bytes, process_bytes: None })
        };
        let failed =
            work.claims.events.get(&self.device).map(|events| events.failed.as_slice()).unwrap_or_default();
        let ooms: Vec<Reading> = failed.iter().filter_map(of_failures).collect();
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
        of_emitter.rev().find_map(|sample| sample.total_bytes).or_else(|| self.work.total_bytes(self.device))
    }

    fn sum(&self, sum: &Sum) -> DriverSumRow {
        DriverSumRow {
            at: sum.moment.name().to_owned(),
            time_us: sum.reading.time_us,
            used_bytes: sum.reading.used_bytes,
            process_bytes: sum.reading.process_bytes,
            parts: self.parts(sum.calls),
            context_bytes: sum.context_bytes,
            loaded_bytes: sum.loaded_bytes,
            others_bytes: sum.others_bytes,
            unknown_bytes: sum.unknown_bytes,
        }
    }

    /// Who holds what after so many calls, most bytes first.
    fn parts(&self, calls: u32) -> Vec<DriverPartRow> {
        let claims = &self.work.claims;
        let part = |(holder, bytes)| DriverPartRow { holder: claims.holder(holder).name.clone(), bytes };
        claims.held_by(self.device, calls).into_iter().map(part).collect()
    }
}

fn joined(join: &Join, claims: &Claims<'_>, device: DeviceId) -> DriverJoinRow {
    let by_stack = |taking: &Taking| {
        let holder = claims.holders.of_stack(claims.layer.rows[taking.row as usize].native);
        claims.holder(holder).kind == HolderKind::Allocator
    };
    let takings = claims.takings.all.iter().zip(&join.is_segment);
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
