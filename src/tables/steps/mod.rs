//! Steps: the repeating unit of a training or inference job.
//!
//! Owns where steps begin and end, as marks or annotations say ([`boundaries`]) or as the allocations
//! themselves show ([`detect`]), and what memory did in each.

mod backward;
mod boundaries;
mod chunks;
mod detect;

use crate::model::{DeviceId, DeviceTrace, Trace};
use crate::rebuild::{History, Moment, Peak};

use super::clock::Clock;
use super::times::Times;
use super::walk::{Tally, Totals, Walk};
pub use backward::backward_steps;
use boundaries::Span;
pub use chunks::steps_by_chunks;

/// How steps were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StepSource {
    /// The emitter marked them.
    Marks,
    /// From `record_function` ranges: the profiler's steps, numbered ranges, or the optimizer's steps.
    Annotations,
    /// From a period of the allocations that was verified.
    Detected,
    /// They were not found.
    #[default]
    None,
}

impl StepSource {
    /// The name that the JSON contract uses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Marks => "marks",
            Self::Annotations => "annotations",
            Self::Detected => "detected",
            Self::None => "none",
        }
    }
}

/// One step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepRow {
    /// Name as recorded, or the step's number where only its end was recorded.
    pub name: String,
    /// Before its first event.
    pub begin: Moment,
    /// After its last event; equal to `begin` for a step without events on this device.
    pub end: Moment,
    /// Allocated bytes before its first event.
    pub begin_allocated_bytes: u64,
    /// The most allocated bytes within it, from `begin` to `end`, and where.
    pub peak_allocated: Peak,
    /// Allocated bytes after its last event.
    pub end_allocated_bytes: u64,
    /// By how much the allocated bytes at its end exceed those at the end of the step before; for the first
    /// step, those at its own beginning.
    pub growth_bytes: i64,
}

/// The steps of a device in order; none overlaps another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepTable {
    /// How they were found.
    pub source: StepSource,
    /// The steps.
    pub rows: Vec<StepRow>,
}

/// The steps of one device: from marks, or failing that from annotations (both are tied to events by time),
/// or failing that from a verified period of its allocations.
#[must_use]
pub fn steps(trace: &Trace, device: &DeviceTrace, history: &History) -> StepTable {
    let clock = Clock::of(&device.events);
    let (mut source, mut spans) = boundaries::find(trace, device.device, clock);
    if spans.is_empty() {
        (source, spans) = (StepSource::Detected, detect::find(trace, device));
    }
    if spans.is_empty() {
        return StepTable::default();
    }
    StepTable { source, rows: measured(history, spans) }
}

/// One walk over the events fills in the figures of all steps.
fn measured(history: &History, spans: Vec<Span>) -> Vec<StepRow> {
    let mut measure = Measure::new(spans);
    measure.take(history, 0);
    measure.rows()
}

/// The steps of a recording that is read in pieces: those that marks or annotations name. Such as only the allocations
/// show are not found.
#[derive(Clone, Debug)]
pub struct StepsOfPieces {
    source: StepSource,
    measure: Measure,
}

impl StepsOfPieces {
    /// The steps of `device` that `trace` names, not measured yet; `times` has seen all events.
    #[must_use]
    pub fn new(trace: &Trace, device: DeviceId, times: &Times) -> Self {
        let (source, spans) = boundaries::find(trace, device, times.clock());
        Self { source, measure: Measure::new(spans) }
    }

    /// Takes in the next piece.
    pub fn take(&mut self, history: &History) {
        self.measure.take(history, history.first_event);
    }

    /// The table, after the last piece; `None` when no step is named.
    #[must_use]
    pub fn table(self) -> Option<StepTable> {
        let rows = self.measure.rows();
        (!rows.is_empty()).then_some(StepTable { source: self.source, rows })
    }
}

/// Steps while they are measured, by the whole recording or piece by piece.
#[derive(Clone, Debug)]
struct Measure {
    rows: Vec<StepRow>,
    /// Steps that have begun, and those of them that have ended.
    begun: usize,
    ended: usize,
}

impl Measure {
    fn new(spans: Vec<Span>) -> Self {
        let row =
            |span: Span| StepRow { name: span.name, begin: span.begin, end: span.end, ..StepRow::default() };
        Self { rows: spans.into_iter().map(row).collect(), begun: 0, ended: 0 }
    }

    /// Takes in the whole `history`, or the next piece's, whose first event has number `first` where steps are counted.
    fn take(&mut self, history: &History, first: u64) {
        if self.ended < self.rows.len() {
            let mut meter = Meter { totals: Totals::new(history), measure: self, first };
            Walk::new(history).run(&mut meter);
        }
    }

    fn rows(mut self) -> Vec<StepRow> {
        let mut before = self.rows.first().map_or(0, |row| row.begin_allocated_bytes);
        for row in &mut self.rows {
            row.growth_bytes = row.end_allocated_bytes.wrapping_sub(before) as i64;
            before = row.end_allocated_bytes;
        }
        self.rows
    }
}

struct Meter<'a> {
    totals: Totals<'a>,
    measure: &'a mut Measure,
    /// Number of the first event: steps of pieces count moments from the first of the recording on.
    first: u64,
}

impl<'a> Tally<'a> for Meter<'a> {
    #[inline]
    fn totals(&mut self) -> Option<&mut Totals<'a>> {
        Some(&mut self.totals)
    }

    #[inline]
    fn arrive(&mut self, moment: Moment) {
        let moment = Moment(self.first + moment.0);
        let bytes = self.totals.usage.allocated_bytes;
        let Measure { rows, begun, ended } = &mut *self.measure;
        while let Some(row) = rows.get_mut(*begun).filter(|row| row.begin == moment) {
            row.begin_allocated_bytes = bytes;
            row.peak_allocated = Peak { bytes, moment };
            *begun += 1;
        }
        for row in &mut rows[*ended..*begun] {
            row.peak_allocated.raise(bytes, moment);
        }
        while let Some(row) = rows[..*begun].get_mut(*ended).filter(|row| row.end == moment) {
            row.end_allocated_bytes = bytes;
            *ended += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::walk::samples::history_of;
    use super::*;
    use crate::model::{Annotation, DeviceId, Mark, MarkKind, TraceBuilder};

    fn range(trace: &mut Trace, name: &str, from: i64, to: i64) {
        let name = trace.strings.intern(name);
        for (begins, time_us) in [(true, from), (false, to)] {
            trace.annotations.push(Annotation { name, begins, device: DeviceId(0), time_us });
        }
    }

    /// Events at 1,000,000 us and every 10 us after it; each of three rounds keeps 100 and drops 1,000.
    fn three_rounds() -> Trace {
        let mut builder = TraceBuilder::new().segment_alloc(0, 1 << 20);
        for round in 0..3 {
            builder =
                builder.alloc(round * 4096, 1000).alloc(512 + round * 4096, 100).free(round * 4096, 1000);
        }
        builder.build()
    }

    fn table(trace: &Trace) -> StepTable {
        let (device, history) = history_of(trace);
        steps(trace, &device, &history)
    }

    fn figures(table: &StepTable) -> Vec<(&str, u64, u64, u64, i64)> {
        let row = |row: &'_ StepRow| {
            (row.begin.0, row.peak_allocated.bytes, row.end_allocated_bytes, row.growth_bytes)
        };
        table
            .rows
            .iter()
            .map(|step| {
                let (begin, peak, end, growth) = row(step);
                (step.name.as_str(), begin, peak, end, growth)
            })
            .collect()
    }

    #[test]
    fn profiler_steps_are_preferred_and_measured() {
        let mut trace = three_rounds();
        for round in 0..3 {
            let from = 1_000_010 + round * 40;
            range(&mut trace, &format!("ProfilerStep#{round}"), from, from + 39);
            range(&mut trace, "Optimizer.step#AdamW.step", from + 10, from + 20);
        }
        let table = table(&trace);
        assert_eq!(table.source, StepSource::Annotations);
        assert_eq!(
            figures(&table),
            [
                ("ProfilerStep#0", 1, 1100, 100, 100),
                ("ProfilerStep#1", 5, 1200, 200, 100),
                ("ProfilerStep#2", 9, 1300, 300, 100),
            ]
        );
    }

    #[test]
    fn an_optimizer_step_ends_a_step() {
        let mut trace = three_rounds();
        for round in 0..3 {
            let end = 1_000_045 + round * 40;
            range(&mut trace, "Optimizer.step#AdamW.step", end - 5, end);
        }
        let table = table(&trace);
        assert_eq!(
            figures(&table),
            [("1", 0, 1100, 100, 100), ("2", 5, 1200, 200, 100), ("3", 9, 1300, 300, 100)]
        );
    }

    #[test]
    fn marks_come_before_annotations() {
        let mut trace = three_rounds();
        range(&mut trace, "ProfilerStep#0", 1_000_000, 1_000_050);
        for (name, time_us) in [("7", 1_000_005), ("8", 1_000_045)] {
            trace.marks.push(Mark { kind: MarkKind::Step, name: name.to_owned(), time_us, begins: None });
        }
        let table = table(&trace);
        assert_eq!(table.source, StepSource::Marks);
        assert_eq!(figures(&table), [("7", 1, 1100, 100, 100), ("8", 5, 1300, 300, 200)]);
    }

    #[test]
    fn a_step_without_events_has_no_growth() {
        let mut trace = three_rounds();
        range(&mut trace, "ProfilerStep#0", 1_000_001, 1_000_002);
        range(&mut trace, "ProfilerStep#1", 1_000_003, 1_000_045);
        let table = table(&trace);
        assert_eq!(figures(&table), [("ProfilerStep#0", 1, 0, 0, 0), ("ProfilerStep#1", 1, 1100, 100, 100)]);
    }

    #[test]
    fn without_times_there_are_no_steps() {
        let mut trace = three_rounds();
        range(&mut trace, "ProfilerStep#0", 1_000_000, 1_000_050);
        trace.devices[0].events.times_us.fill(crate::model::NO_TIME);
        assert_eq!(table(&trace), StepTable::default());
    }
}
