//! What the pictures over time show: who held how much at every moment that matters.
//!
//! Owns the choice of moments ([`sampling`]), the bands at these moments, and why reserved bytes were not
//! requested ones there ([`occupancy`]). Two passes over the events, memory by samples. Does not
//! own names, colours or pixels.

mod occupancy;
mod sampling;

use crate::model::DeviceTrace;
use crate::rebuild::{History, Moment, NONE, OomEvent, Peaks, Usage};

use super::causes::{Causes, Place};
use super::clock::Clock;
use super::steps::StepTable;
use super::times::{Axis, PieceClock};
use super::walk::{Tally, Totals, Walk};
use super::{Grouping, streams};
use occupancy::Occupancy;

/// Whose allocations a band shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Band {
    /// One group, by its number in the [`Grouping`].
    Group(u32),
    /// All groups that have no band of their own.
    OtherGroups,
    /// Allocations that belong to no group.
    NoGroup,
}

/// Why a moment is marked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkReason {
    /// Allocated bytes peak.
    AllocatedPeak(u64),
    /// Reserved bytes peak.
    ReservedPeak(u64),
    /// A request of this many bytes failed.
    Oom(u64),
    /// The step of this name begins.
    Step(String),
}

/// A moment to mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineDataMark {
    /// Position, in the unit of [`TimelineData::x`].
    pub x: u64,
    /// The moment itself.
    pub moment: Moment,
    /// Why.
    pub reason: MarkReason,
}

/// Curves at chosen moments, ascending. Every column of pixels keeps its first, last, lowest and highest
/// allocated total and its highest active and reserved total.
#[derive(Clone, Debug, Default)]
pub struct TimelineData {
    /// Whether `x` is in microseconds since the first event (true) or in events (false).
    pub x_is_time: bool,
    /// Where `x` is in events although there are times: the pause that would fill half of the axis and more, in
    /// microseconds; else 0.
    pub pause_us: u64,
    /// The moments.
    pub moments: Vec<Moment>,
    /// Position of each moment, ascending.
    pub x: Vec<u64>,
    /// Position of the last moment.
    pub x_end: u64,
    /// Bands, bottom first. Bands that hold nothing at any sample are left out.
    pub bands: Vec<Band>,
    /// `band_bytes[b][s]`: allocated bytes of band `b` at sample `s`; all bands sum to `allocated[s]`.
    pub band_bytes: Vec<Vec<u64>>,
    /// Allocated bytes at each sample.
    pub allocated: Vec<u64>,
    /// Active bytes at each sample.
    pub active: Vec<u64>,
    /// Reserved bytes at each sample.
    pub reserved: Vec<u64>,
    /// Reserved minus requested bytes by cause, at each sample. A free whose two events follow one another
    /// counts as complete with the first: nothing waits in between.
    pub causes: Vec<Causes>,
    /// Events per sample, rounded to the nearest; 1 when nothing was left out.
    pub events_per_sample: u64,
    /// Peaks, failed requests and steps; of many steps or failures only some.
    pub marks: Vec<TimelineDataMark>,
}

/// How much a timeline shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineExtent {
    /// Groups with a band of their own.
    pub bands: usize,
    /// Pixel columns.
    pub columns: usize,
}

impl Default for TimelineExtent {
    fn default() -> Self {
        Self { bands: 10, columns: 800 }
    }
}

/// More marks of a kind than this are thinned out evenly.
const MARKS_PER_KIND: usize = 48;

/// The curves of one device. `group_order` lists groups by what they held at the peak, most first; the
/// first `extent.bands` of them get a band each.
#[must_use]
pub fn timeline(
    device: &DeviceTrace,
    history: &History,
    grouping: &Grouping,
    group_order: &[u32],
    steps: &StepTable,
    extent: TimelineExtent,
) -> TimelineData {
    let ((clock, pause_us), walk) = (Clock::of_picture(&device.events), Walk::new(history));
    let marks = marks(history, steps, clock);
    let wanted: Vec<Moment> = marks
        .iter()
        .filter(|mark| !matches!(mark.reason, MarkReason::Step(_)))
        .map(|mark| mark.moment)
        .collect();
    let moments = sampling::moments(history, &walk, clock, extent.columns, &wanted);
    let band_of_group = band_of_group(grouping.keys.len(), group_order, extent.bands);
    let main_stream = streams(history).main;
    let mut data = TimelineData::new(extent.bands);
    walk.run(&mut Painter::new(history, grouping, &band_of_group, main_stream, &moments, &mut data));
    data.pause_us = pause_us;
    data.x = moments.iter().map(|&moment| clock.position(moment)).collect();
    data.moments = moments;
    data.finish(clock, history.events, marks, group_order)
}

/// The timeline of a recording that is read in pieces. As each piece keeps its own first and last moment, there may be a
/// few samples more than [`timeline`] keeps; none is missing.
#[derive(Clone, Debug)]
pub struct TimelineOfPieces {
    axis: Axis,
    columns: usize,
    band_of_group: Vec<u32>,
    main_stream: u64,
    /// Position of the last moment so far.
    before: u64,
    events: u64,
    data: TimelineData,
}

impl TimelineOfPieces {
    /// Nothing so far; `group_order` as for [`timeline`], `main_stream` that of the whole recording.
    #[must_use]
    pub fn new(
        axis: Axis,
        grouping: &Grouping,
        group_order: &[u32],
        main_stream: u64,
        extent: TimelineExtent,
    ) -> Self {
        let mut data = TimelineData::new(extent.bands);
        data.pause_us = axis.pause_us;
        let band_of_group = band_of_group(grouping.keys.len(), group_order, extent.bands);
        Self { axis, columns: extent.columns, band_of_group, main_stream, before: 0, events: 0, data }
    }

    /// Takes in the next piece; `wanted` moments of the whole recording are always kept.
    pub fn take(&mut self, device: &DeviceTrace, history: &History, grouping: &Grouping, wanted: &[Moment]) {
        let first_event = history.first_event;
        let times = device.events.times_us.as_slice();
        let clock = Clock::Piece(PieceClock { axis: self.axis, times, first_event, before: self.before });
        let within = first_event..=first_event + history.events;
        let own: Vec<Moment> = wanted
            .iter()
            .filter(|moment| within.contains(&moment.0))
            .map(|moment| Moment(moment.0 - first_event))
            .collect();
        let walk = Walk::new(history);
        let moments = sampling::moments(history, &walk, clock, self.columns, &own);
        let bands = &self.band_of_group;
        walk.run(&mut Painter::new(history, grouping, bands, self.main_stream, &moments, &mut self.data));
        self.data.x.extend(moments.iter().map(|&moment| clock.position(moment)));
        self.data.moments.extend(moments.iter().map(|moment| Moment(first_event + moment.0)));
        self.before = clock.position(Moment(history.events));
        self.events += history.events;
    }

    /// The timeline, after the last piece, with its marks: moments and what they are.
    #[must_use]
    pub fn finish(self, marks: Vec<(Moment, MarkReason)>, group_order: &[u32]) -> TimelineData {
        let clock = Clock::Piece(PieceClock { axis: self.axis, times: &[], first_event: 0, before: 0 });
        let (data, axis) = (self.data, self.axis);
        let x_of = |moment: Moment| {
            let at = data.moments.partition_point(|&known| known < moment);
            data.x.get(at).copied().unwrap_or(axis.end)
        };
        let mut marks: Vec<TimelineDataMark> = marks
            .into_iter()
            .map(|(moment, reason)| TimelineDataMark { x: x_of(moment), moment, reason })
            .collect();
        marks.sort_by_key(|mark| mark.moment);
        data.finish(clock, self.events, marks, group_order)
    }
}

/// Band numbers: one per shown group, then one for other groups, then one for allocations without a group.
fn band_of_group(groups: usize, group_order: &[u32], bands: usize) -> Vec<u32> {
    let mut of_group = vec![bands as u32; groups];
    for (band, &group) in group_order.iter().take(bands).enumerate() {
        if let Some(slot) = of_group.get_mut(group as usize) {
            *slot = band as u32;
        }
    }
    of_group
}

/// Second pass: notes every curve at the chosen moments.
struct Painter<'a> {
    totals: Totals<'a>,
    occupancy: Occupancy<'a>,
    history: &'a History,
    /// By how much blocks handed out are larger than what was asked for, now.
    rounding_bytes: u64,
    group_of_row: &'a [u32],
    band_of_group: &'a [u32],
    /// Allocated bytes per band, now.
    held: Vec<u64>,
    moments: &'a [Moment],
    next: usize,
    data: &'a mut TimelineData,
}

impl<'a> Painter<'a> {
    fn new(
        history: &'a History,
        grouping: &'a Grouping,
        band_of_group: &'a [u32],
        main_stream: u64,
        moments: &'a [Moment],
        data: &'a mut TimelineData,
    ) -> Self {
        Self {
            totals: Totals::new(history),
            occupancy: Occupancy::new(history, main_stream),
            history,
            rounding_bytes: 0,
            group_of_row: &grouping.of_allocation,
            band_of_group,
            held: vec![0; data.band_bytes.len()],
            moments,
            next: 0,
            data,
        }
    }

    #[inline]
    fn band(&mut self, row: usize) -> &mut u64 {
        let group = self.group_of_row.get(row).copied().unwrap_or(NONE);
        let last = self.held.len() - 1;
        let band = self.band_of_group.get(group as usize).map_or(last, |&band| band as usize);
        &mut self.held[band]
    }

    fn rounding_of(&self, row: usize) -> u64 {
        let rows = &self.history.allocations;
        rows.block_bytes[row].saturating_sub(rows.requested_bytes[row])
    }

    fn paint(&mut self, moment: Moment) {
        let Usage { allocated_bytes, active_bytes, reserved_bytes, .. } = self.totals.usage;
        self.data.allocated.push(allocated_bytes);
        self.data.active.push(active_bytes);
        self.data.reserved.push(reserved_bytes);
        for (curve, &bytes) in self.data.band_bytes.iter_mut().zip(&self.held) {
            curve.push(bytes);
        }
        let passing = passing(self.history, moment);
        if let Some(row) = passing {
            self.totals.complete(row);
            self.occupancy.complete(row);
        }
        let causes = self.causes();
        self.data.causes.push(causes);
        if let Some(row) = passing {
            self.totals.usage.active_bytes = active_bytes;
            self.occupancy.alloc(row);
        }
    }

    /// What is left of the free bytes after each cause is the next one's: a damaged recording may count
    /// more in a place than is free in all.
    fn causes(&mut self) -> Causes {
        let Usage { allocated_bytes, active_bytes, reserved_bytes, .. } = self.totals.usage;
        let mut free = reserved_bytes.saturating_sub(active_bytes);
        let mut part = |bytes: u64| {
            let bytes = bytes.min(free);
            free -= bytes;
            bytes
        };
        Causes {
            rounding_bytes: self.rounding_bytes,
            pending_free_bytes: active_bytes.saturating_sub(allocated_bytes),
            private_pool_bytes: part(self.occupancy.free_bytes(Place::PrivatePool)),
            other_stream_bytes: part(self.occupancy.free_bytes(Place::OtherStream)),
            releasable_cache_bytes: part(self.occupancy.wholly_free_bytes(Place::Main)),
            split_remainder_bytes: free,
        }
    }
}

/// The allocation that is between the two events of an ordinary free at `moment`.
fn passing(history: &History, moment: Moment) -> Option<usize> {
    let event = moment.event()?;
    let row = history.allocation_of_event.get(event as usize).copied().filter(|&row| row != NONE)? as usize;
    let rows = &history.allocations;
    let requested = u64::from(rows.free_requested_events[row]) == event;
    let completes_next = u64::from(rows.free_completed_events[row]) == event + 1;
    (requested && completes_next).then_some(row)
}

impl<'a> Tally<'a> for Painter<'a> {
    #[inline]
    fn alloc(&mut self, row: usize) {
        self.totals.alloc(row);
        self.occupancy.alloc(row);
        self.rounding_bytes = self.rounding_bytes.saturating_add(self.rounding_of(row));
        let bytes = self.history.allocations.block_bytes[row];
        let band = self.band(row);
        *band = band.saturating_add(bytes);
    }

    #[inline]
    fn free(&mut self, row: usize) {
        self.totals.free(row);
        self.rounding_bytes = self.rounding_bytes.saturating_sub(self.rounding_of(row));
        let bytes = self.history.allocations.block_bytes[row];
        let band = self.band(row);
        *band = band.saturating_sub(bytes);
    }

    #[inline]
    fn complete(&mut self, row: usize) {
        self.totals.complete(row);
        self.occupancy.complete(row);
    }

    fn hold(&mut self, range: usize) {
        self.totals.hold(range);
        self.occupancy.hold(range);
    }

    fn release(&mut self, range: usize) {
        self.totals.release(range);
        self.occupancy.release(range);
    }

    #[inline]
    fn arrive(&mut self, moment: Moment) {
        if self.moments.get(self.next) == Some(&moment) {
            self.next += 1;
            self.paint(moment);
        }
    }
}

impl TimelineData {
    fn new(bands: usize) -> Self {
        Self { band_bytes: vec![Vec::new(); bands + 2], ..Self::default() }
    }

    /// Names the bands, drops the empty ones, and adds what needs no walk.
    fn finish(
        mut self,
        clock: Clock,
        events: u64,
        marks: Vec<TimelineDataMark>,
        group_order: &[u32],
    ) -> Self {
        let shown = self.band_bytes.len() - 2;
        let mut bands: Vec<Option<Band>> = (0..shown)
            .map(|band| group_order.get(band).map(|&group| Band::Group(group)))
            .chain([Some(Band::OtherGroups), Some(Band::NoGroup)])
            .collect();
        for (band, curve) in bands.iter_mut().zip(&self.band_bytes) {
            if curve.iter().all(|&bytes| bytes == 0) {
                *band = None;
            }
        }
        let mut kept = bands.iter();
        self.band_bytes.retain(|_| kept.next().is_some_and(Option::is_some));
        self.bands = bands.into_iter().flatten().collect();
        self.x_is_time = clock.is_time();
        self.x_end = clock.end();
        let samples = self.moments.len().max(1) as u64;
        self.events_per_sample = ((events + samples / 2) / samples).max(1);
        self.marks = marks;
        self
    }
}

/// Marks in order of their moments.
fn marks(history: &History, steps: &StepTable, clock: Clock) -> Vec<TimelineDataMark> {
    let wanted = mark_reasons(&history.peaks, &history.ooms, steps);
    let at = |(moment, reason)| TimelineDataMark { x: clock.position(moment), moment, reason };
    let mut marks: Vec<TimelineDataMark> = wanted.into_iter().map(at).collect();
    marks.sort_by_key(|mark| mark.moment);
    marks
}

/// What is marked: peaks, failed requests and steps; of many only some.
#[must_use]
pub fn mark_reasons(peaks: &Peaks, ooms: &[OomEvent], steps: &StepTable) -> Vec<(Moment, MarkReason)> {
    let mut marks = Vec::new();
    let (allocated, reserved) = (peaks.allocated, peaks.reserved);
    if allocated.bytes > 0 {
        marks.push((allocated.moment, MarkReason::AllocatedPeak(allocated.bytes)));
    }
    if reserved.bytes > 0 {
        marks.push((reserved.moment, MarkReason::ReservedPeak(reserved.bytes)));
    }
    marks.extend(thinned(ooms).map(|oom| (Moment::after(oom.event), MarkReason::Oom(oom.size))));
    marks.extend(thinned(&steps.rows).map(|step| (step.begin, MarkReason::Step(step.name.clone()))));
    marks
}

/// Every `n`-th of many, counted from the end: the last one always stays.
fn thinned<T>(all: &[T]) -> impl Iterator<Item = &T> {
    let every = all.len().div_ceil(MARKS_PER_KIND).max(1);
    all.iter().rev().step_by(every)
}

#[cfg(test)]
mod tests;
