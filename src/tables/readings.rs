//! Readings of driver and allocator: what lies outside the allocator, and whether the history is right.
//!
//! Owns the comparison of [`crate::model::Sample`]s with the rebuilt counters. Decides nothing: what differs
//! is counted.

use crate::model::{Action, DeviceId, DeviceTrace, Sample, Trace};
use crate::rebuild::{History, Moment, Usage};

use super::clock::Clock;
use super::times::Times;
use super::usages::each_usage;

/// Most points of a series; of a stretch the highest is kept.
const MAX_POINTS: usize = 240;

/// The counters that are compared, by their names in `memory_stats()`.
const COUNTERS: [&str; 4] = [
    "requested_bytes.all.current",
    "allocated_bytes.all.current",
    "active_bytes.all.current",
    "reserved_bytes.all.current",
];
const RESERVED: &str = COUNTERS[3];
const ALLOCATIONS: &str = "allocation.all.allocated";

/// Bytes of the device that neither the allocator holds nor the driver has left, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutsidePoint {
    /// When, if it can be told.
    pub moment: Option<Moment>,
    /// Unix microseconds.
    pub time_us: i64,
    /// The bytes: contexts, libraries, other processes.
    pub bytes: u64,
    /// Bytes of the device.
    pub total_bytes: u64,
    /// What the driver had left.
    pub free_bytes: u64,
    /// What the allocator held.
    pub reserved_bytes: u64,
}

/// What lies outside the allocator, over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outside {
    /// The highest point, the first of equals.
    pub max: OutsidePoint,
    /// The last point.
    pub end: OutsidePoint,
    /// All points, or of many the highest of each stretch, and the last.
    pub series: Vec<OutsidePoint>,
}

/// Where recorded and rebuilt counters differ first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// When.
    pub moment: Moment,
    /// Name in `memory_stats()`.
    pub counter: &'static str,
    /// What the allocator said.
    pub recorded: i64,
    /// What the events give.
    pub rebuilt: u64,
}

/// The rebuilt counters against those that the allocator stated while it ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SelfCheck {
    /// Samples that could be compared.
    pub samples: u64,
    /// Those in which every counter is equal.
    pub equal: u64,
    /// The first that is not.
    pub first_difference: Option<Difference>,
    /// Allocations that the allocator counted between first and last sample and the recording does not have.
    pub missing_allocations: u64,
}

/// What the samples of one device say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readings {
    /// How many samples there are.
    pub samples: u64,
    /// `None` when no sample says what the driver has.
    pub outside: Option<Outside>,
    /// `None` when nothing could be compared.
    pub check: Option<SelfCheck>,
}

/// What the samples of `device` say; `None` when there are none. Of an excerpt only those count that were taken within.
#[must_use]
pub fn readings(trace: &Trace, device: &DeviceTrace, history: &History) -> Option<Readings> {
    let clock = Clock::of(&device.events);
    let (first, events) = (history.first_event, history.events);
    let last_us = device.events.times_us.last().copied().filter(|_| !device.reaches_the_end());
    let samples = Samples { all: &trace.samples, device: device.device, first, events, last_us };
    let mut rows = samples.rows(clock);
    let mut filling = Filling::of(&rows);
    filling.take(&mut rows, device, history, 0);
    told(&rows, history.events)
}

/// What the samples of a recording say that is read in pieces.
#[derive(Clone, Debug)]
pub struct ReadingsOfPieces<'a> {
    rows: Vec<Row<'a>>,
    filling: Filling,
    events: u64,
}

impl<'a> ReadingsOfPieces<'a> {
    /// Those of `samples` that are of `device`; `times` has seen all events.
    #[must_use]
    pub fn new(samples: &'a [Sample], device: DeviceId, times: &Times) -> Self {
        let events = times.events();
        let rows = Samples { all: samples, device, first: 0, events, last_us: None }.rows(times.clock());
        let filling = Filling::of(&rows);
        Self { rows, filling, events }
    }

    /// Takes in the next piece.
    pub fn take(&mut self, device: &DeviceTrace, history: &History) {
        self.filling.take(&mut self.rows, device, history, history.first_event);
    }

    /// What they say, after the last piece; `None` when there are none.
    #[must_use]
    pub fn readings(&self) -> Option<Readings> {
        told(&self.rows, self.events)
    }
}

fn told(rows: &[Row<'_>], events: u64) -> Option<Readings> {
    if rows.is_empty() {
        return None;
    }
    Some(Readings {
        samples: rows.len() as u64,
        outside: outside(rows),
        check: check(rows).filter(|_| events > 0),
    })
}

/// Samples of a device, and which of its events are looked at.
struct Samples<'a> {
    all: &'a [Sample],
    device: DeviceId,
    first: u64,
    events: u64,
    /// Time of the last event looked at, where more follow in the recording.
    last_us: Option<i64>,
}

impl<'a> Samples<'a> {
    fn rows(&self, clock: Clock<'_>) -> Vec<Row<'a>> {
        // Readings of a recorder of driver calls are by another measure (NVML's), and told with the calls.
        let is_own = |sample: &&Sample| sample.device == self.device && sample.driver_calls.is_none();
        let own = self.all.iter().filter(is_own);
        let mut rows: Vec<Row<'a>> = own.filter_map(|sample| self.row(sample, clock)).collect();
        // Stable: samples that say no moment stay where they were written, by time.
        rows.sort_by_key(|row| (row.sample.time_us, row.moment));
        rows
    }

    /// `None` for a sample from before the first event of an excerpt, or from behind its last.
    fn row(&self, sample: &'a Sample, clock: Clock<'_>) -> Option<Row<'a>> {
        let is_before = match sample.events {
            Some(stated) => stated < self.first,
            None => clock.start_us().is_some_and(|start| sample.time_us < start),
        };
        let is_behind = self.last_us.is_some_and(|last| match sample.events {
            Some(stated) => stated > self.first + self.events,
            None => sample.time_us > last,
        });
        if self.first > 0 && is_before || is_behind {
            return None;
        }
        let stated = sample.events.map(|stated| stated - self.first).filter(|&stated| stated <= self.events);
        let stated = stated.map(Moment);
        let moment = stated.or_else(|| clock.moment_after(sample.time_us));
        Some(Row { sample, moment, exact: stated.is_some(), usage: Usage::default(), alloc_events: 0 })
    }
}

/// A sample and what was rebuilt for its moment.
#[derive(Clone, Debug)]
struct Row<'a> {
    sample: &'a Sample,
    /// Moment by number of events, or else by time.
    moment: Option<Moment>,
    /// Whether the recorder vouches for the moment.
    exact: bool,
    usage: Usage,
    alloc_events: u64,
}

impl Row<'_> {
    fn rebuilt(&self) -> [u64; 4] {
        let usage = self.usage;
        [usage.requested_bytes, usage.allocated_bytes, usage.active_bytes, usage.reserved_bytes]
    }

    fn difference(&self) -> Option<Difference> {
        COUNTERS.into_iter().zip(self.rebuilt()).find_map(|(counter, rebuilt)| {
            let recorded = *self.sample.stats.get(counter)?;
            let moment = self.moment?;
            let same = u64::try_from(recorded) == Ok(rebuilt);
            (!same).then_some(Difference { moment, counter, recorded, rebuilt })
        })
    }

    fn outside(&self) -> Option<OutsidePoint> {
        let (total_bytes, free_bytes) = (self.sample.total_bytes?, self.sample.free_bytes?);
        let rebuilt = self.moment.map(|_| self.usage.reserved_bytes);
        let reserved_bytes = self.sample.stat(RESERVED).or(rebuilt)?;
        let bytes = total_bytes.saturating_sub(free_bytes).saturating_sub(reserved_bytes);
        let (moment, time_us) = (self.moment, self.sample.time_us);
        Some(OutsidePoint { moment, time_us, bytes, total_bytes, free_bytes, reserved_bytes })
    }
}

/// Walks for all samples at once, over the whole recording or its pieces.
#[derive(Clone, Debug)]
struct Filling {
    /// Samples whose moment is known, by moment.
    order: Vec<usize>,
    next: usize,
    allocs: u64,
}

impl Filling {
    fn of(rows: &[Row<'_>]) -> Self {
        let mut order: Vec<usize> = (0..rows.len()).filter(|&row| rows[row].moment.is_some()).collect();
        order.sort_by_key(|&row| rows[row].moment);
        Self { order, next: 0, allocs: 0 }
    }

    /// Takes in the next piece, whose first event is number `first`.
    fn take(&mut self, rows: &mut [Row<'_>], device: &DeviceTrace, history: &History, first: u64) {
        if self.next == self.order.len() {
            return;
        }
        each_usage(history, |moment, usage| {
            let event = moment.event().and_then(|event| device.events.actions.get(event as usize));
            self.allocs += u64::from(event == Some(&Action::Alloc));
            let moment = Moment(first + moment.0);
            while let Some(&row) = self.order.get(self.next).filter(|&&row| rows[row].moment == Some(moment))
            {
                rows[row].usage = usage;
                rows[row].alloc_events = self.allocs;
                self.next += 1;
            }
        });
    }
}

fn outside(rows: &[Row<'_>]) -> Option<Outside> {
    let points: Vec<OutsidePoint> = rows.iter().filter_map(Row::outside).collect();
    let end = *points.last()?;
    // `max_by_key` takes the last of equals, and the first is wanted.
    let max = points.iter().rev().max_by_key(|point| point.bytes).copied().unwrap_or(end);
    Some(Outside { max, end, series: thinned(points) })
}

fn thinned(points: Vec<OutsidePoint>) -> Vec<OutsidePoint> {
    if points.len() <= MAX_POINTS {
        return points;
    }
    let Some((last, before)) = points.split_last() else { return points };
    let stretch = before.len().div_ceil(MAX_POINTS - 1);
    let highest = |part: &[OutsidePoint]| part.iter().rev().max_by_key(|point| point.bytes).copied();
    before.chunks(stretch).filter_map(highest).chain([*last]).collect()
}

fn check(rows: &[Row<'_>]) -> Option<SelfCheck> {
    let comparable =
        |row: &&Row<'_>| row.exact && COUNTERS.iter().any(|&counter| row.sample.stats.contains_key(counter));
    let compared: Vec<&Row<'_>> = rows.iter().filter(comparable).collect();
    let (first, last) = (compared.first()?, compared.last()?);
    let differences: Vec<Difference> = compared.iter().filter_map(|row| row.difference()).collect();
    let counted = match (first.sample.stat(ALLOCATIONS), last.sample.stat(ALLOCATIONS)) {
        (Some(first), Some(last)) => last.saturating_sub(first),
        _ => 0,
    };
    Some(SelfCheck {
        samples: compared.len() as u64,
        equal: (compared.len() - differences.len()) as u64,
        first_difference: differences.first().copied(),
        missing_allocations: counted.saturating_sub(last.alloc_events.saturating_sub(first.alloc_events)),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;
    use crate::rebuild::rebuild;

    const A: u64 = 0x7f00_0000_0000;
    const MIB: u64 = 1 << 20;

    fn sample(events: Option<u64>, free: u64, stats: &[(&str, i64)]) -> Sample {
        Sample {
            time_us: 1_000_000 + 10 * events.unwrap_or(9) as i64,
            events,
            free_bytes: Some(free),
            total_bytes: Some(100 * MIB),
            stats: stats.iter().map(|&(name, value)| (name.into(), value)).collect(),
            ..Sample::default()
        }
    }

    fn read(samples: Vec<Sample>) -> Readings {
        let mut trace =
            TraceBuilder::new().segment_alloc(A, 2 * MIB).alloc(A, 1000).free_requested(A, 1000).build();
        trace.samples = samples;
        readings(&trace, &trace.devices[0], &rebuild(&trace, &trace.devices[0])).unwrap()
    }

    #[test]
    fn equal_counters_are_counted_and_the_first_difference_is_named() {
        let right: &[(&str, i64)] = &[
            ("requested_bytes.all.current", 1000),
            ("allocated_bytes.all.current", 1024),
            ("active_bytes.all.current", 1024),
            ("reserved_bytes.all.current", 2 << 20),
            ("allocation.all.allocated", 41),
        ];
        let pending: &[(&str, i64)] =
            &[("allocated_bytes.all.current", 512), ("allocation.all.allocated", 44)];
        let check = read(vec![
            sample(Some(0), 0, &[("allocated_bytes.all.current", 0), ("allocation.all.allocated", 40)]),
            sample(Some(2), 0, right),
            sample(Some(3), 0, pending),
            sample(None, 0, &[("allocated_bytes.all.current", 77)]),
        ])
        .check
        .unwrap();
        assert_eq!((check.samples, check.equal, check.missing_allocations), (3, 2, 3));
        let difference = check.first_difference.unwrap();
        let counter = "allocated_bytes.all.current";
        assert_eq!(difference, Difference { moment: Moment(3), counter, recorded: 512, rebuilt: 0 });
    }

    #[test]
    fn what_neither_driver_nor_allocator_has_is_outside() {
        let read = read(vec![
            sample(Some(0), 95 * MIB, &[]),
            sample(Some(1), 60 * MIB, &[]),
            sample(Some(3), 70 * MIB, &[("reserved_bytes.all.current", 4 << 20)]),
        ]);
        let outside = read.outside.unwrap();
        let bytes: Vec<u64> = outside.series.iter().map(|point| point.bytes / MIB).collect();
        assert_eq!((bytes, outside.max.bytes / MIB), (vec![5, 38, 26], 38));
        assert_eq!((outside.max.moment, outside.end.bytes / MIB), (Some(Moment(1)), 26));
    }

    #[test]
    fn a_long_series_keeps_its_maximum_and_its_end() {
        let mut samples: Vec<Sample> =
            (0..5_000).map(|n| Sample { time_us: n, ..sample(Some(0), 90 * MIB, &[]) }).collect();
        samples[777].free_bytes = Some(MIB);
        let outside = read(samples).outside.unwrap();
        assert!(outside.series.len() <= MAX_POINTS);
        assert_eq!(outside.series.iter().max_by_key(|point| point.bytes), Some(&outside.max));
        assert_eq!(outside.series.last(), Some(&outside.end));
    }

    #[test]
    fn numbers_without_events_check_nothing() {
        let mut trace = TraceBuilder::new().build();
        trace.device_mut(crate::model::DeviceId(0));
        trace.samples = vec![sample(Some(0), 0, &[("allocated_bytes.all.current", 5)])];
        let read = readings(&trace, &trace.devices[0], &rebuild(&trace, &trace.devices[0])).unwrap();
        assert_eq!((read.samples, read.check), (1, None));
    }
}
