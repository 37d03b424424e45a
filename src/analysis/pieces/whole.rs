//! What is gathered from the pieces of one device, and the part of the report that it is.
//!
//! Owns the sums over pieces. Rows are made by the same functions as for a recording in one piece.

use crate::analysis::pictures::Ranks;
use crate::analysis::{Options, ranks, recorded, rows};
use crate::driver::AllocatorEvents;
use crate::error::Result;
use crate::findings::{self, DeviceFacts, Failure, LineBytes};
use crate::model::{DeviceId, DeviceTrace, Sample, Trace, Warnings};
use crate::rebuild::{History, Moment, NONE, OomEvent, Peak, Peaks, State, Usage};
use crate::report::{
    DeviceReport, Fragmentation, FragmentationRow, HistoryRow, LineFigures, LineRow, OomRow, OutsideRow,
    PoolRow, SegmentMap, SelfCheckRow, Timeline,
};
use crate::tables::{
    self, Grouping, LinesOfPieces, MainStream, ReadingsOfPieces, StepTable, StepsOfPieces, Times, pools,
};

use super::survey::Survey;

/// The allocator at a moment of the whole recording.
struct Kept {
    moment: Moment,
    state: State,
    figures: tables::Fragmentation,
    /// Groups of the allocations in `state`, which numbers them from 0 on.
    groups: Vec<u32>,
}

impl Kept {
    /// At `moment` of a piece.
    fn of(history: &History, moment: Moment, grouping: &Grouping) -> Result<Self> {
        let mut state = history.state_at(moment);
        let global = Moment(history.first_event + moment.0);
        let figures = tables::fragmentation(&state, global, grouping)?;
        let mut groups = Vec::new();
        let blocks = state.segments.iter_mut().flat_map(|segment| &mut segment.blocks);
        for block in blocks.filter(|block| block.allocation != NONE) {
            groups.push(grouping.of_allocation.get(block.allocation as usize).copied().unwrap_or(NONE));
            block.allocation = groups.len() as u32 - 1;
        }
        Ok(Self { moment: global, state, figures, groups })
    }

    fn row(&self, trace: &Trace, grouping: &Grouping, main_stream: u64) -> Fragmentation {
        let causes = tables::causes(&self.state, main_stream);
        rows::fragmentation(trace, grouping, self.figures.clone(), causes, main_stream)
    }
}

/// What was gathered so far.
pub(super) struct Gathered<'a> {
    device: DeviceId,
    events: u64,
    history: HistoryRow,
    initial: Usage,
    end: Usage,
    peaks: Peaks,
    allocations: u64,
    at_peak: Option<Kept>,
    at_oom: Option<Kept>,
    at_end: Option<Kept>,
    failures: Vec<Failure>,
    /// Time of the first event, and of the first failed request.
    times_us: [Option<i64>; 2],
    is_state_known: bool,
    lines: LinesOfPieces,
    streams: MainStream,
    steps: StepsOfPieces,
    readings: ReadingsOfPieces<'a>,
    warnings: Warnings,
}

impl<'a> Gathered<'a> {
    pub(super) fn new(trace: &Trace, device: DeviceId, times: &Times, samples: &'a [Sample]) -> Self {
        Self {
            device,
            events: 0,
            history: HistoryRow::default(),
            initial: Usage::default(),
            end: Usage::default(),
            peaks: Peaks::default(),
            allocations: 0,
            at_peak: None,
            at_oom: None,
            at_end: None,
            failures: Vec::new(),
            times_us: [None; 2],
            is_state_known: false,
            lines: LinesOfPieces::default(),
            streams: MainStream::default(),
            steps: StepsOfPieces::new(trace, device, times),
            readings: ReadingsOfPieces::new(samples, device, times),
            warnings: Warnings::default(),
        }
    }

    /// Takes in the next piece, of whose rows the first `carried` were in the one before.
    pub(super) fn take(
        &mut self,
        trace: &Trace,
        piece: &DeviceTrace,
        history: &History,
        (grouping, carried): (&Grouping, usize),
        is_last: bool,
    ) -> Result<()> {
        let is_first = self.events == 0;
        if is_first {
            self.begin(piece, history);
        }
        self.lines.take(piece, history, grouping, is_last)?;
        self.streams.take(history, carried);
        self.steps.take(history);
        self.readings.take(piece, history);
        self.warnings.merge(history.warnings.clone());
        let rises = history.peaks.reserved.bytes > self.peaks.reserved.bytes;
        if is_first || rises {
            self.at_peak = Some(Kept::of(history, history.peaks.reserved.moment, grouping)?);
        }
        self.raise(&history.peaks, history.first_event, is_first);
        if let Some(oom) = history.ooms.last() {
            self.at_oom = Some(Kept::of(history, Moment(oom.event), grouping)?);
            let mut failures = findings::failures(trace, piece, history, &history.ooms);
            self.times_us[1] =
                self.times_us[1].or_else(|| ranks::unix_time(&piece.events, history.ooms[0].event));
            for failure in &mut failures {
                failure.oom.event += history.first_event;
            }
            self.failures.extend(failures);
        }
        if is_last {
            self.at_end = Some(Kept::of(history, Moment(history.events), grouping)?);
        }
        self.end = history.end;
        self.allocations += (history.allocations.len() - if is_first { 0 } else { carried }) as u64;
        self.events += history.events;
        Ok(())
    }

    fn begin(&mut self, piece: &DeviceTrace, history: &History) {
        self.history = crate::analysis::device::beginning(history);
        self.initial = history.initial;
        self.times_us[0] = ranks::unix_time(&piece.events, 0);
        let from_the_start = history.from_the_start;
        self.is_state_known = piece.segments.is_some() || from_the_start;
    }

    fn raise(&mut self, own: &Peaks, first: u64, is_first: bool) {
        let raise = |peak: &mut Peak, own: Peak| {
            if is_first || own.bytes > peak.bytes {
                *peak = Peak { bytes: own.bytes, moment: Moment(first + own.moment.0) };
            }
        };
        raise(&mut self.peaks.requested, own.requested);
        raise(&mut self.peaks.allocated, own.allocated);
        raise(&mut self.peaks.active, own.active);
        raise(&mut self.peaks.reserved, own.reserved);
    }

    /// The part of the report, after the last piece.
    pub(super) fn finish(self, trace: &Trace, survey: &mut Survey, options: &Options) -> Result<Whole> {
        let grouping = &mut survey.grouping;
        let total_bytes = crate::analysis::device::total_bytes(trace, self.device);
        let table = self.lines.table(trace, grouping)?;
        let order: Vec<u32> = table.entries.iter().map(|entry| entry.group).collect();
        let readings = self.readings.readings();
        let main_stream = self.streams.main();
        let row = |kept: &Option<Kept>| kept.as_ref().map(|kept| kept.row(trace, grouping, main_stream));
        let fragmentation = FragmentationRow {
            at_peak: row(&self.at_peak).unwrap_or_default(),
            at_end: row(&self.at_end).unwrap_or_default(),
            at_oom: row(&self.at_oom),
        };
        let known = (self.peaks.reserved, self.is_state_known);
        let judged = findings::judge(trace, self.device, self.failures, known, total_bytes);
        let line = |stack| grouping.key_of_stack(stack).map(|key| key.label(trace));
        let ooms = judged.iter().map(|judged| rows::oom(judged, line(judged.oom.stack))).collect();
        let mut warnings = self.warnings;
        let self_check = readings.as_ref().and_then(recorded::self_check);
        if let Some(check) = &self_check {
            recorded::warn_of_check(self.device.0, check, &mut warnings);
        }
        let top = options.top;
        let at_peak = |entry: &tables::LineEntry| {
            let (key, bytes) = (grouping.keys.get(entry.group as usize)?, entry.figures.held_at_peak_bytes);
            findings::line_bytes(trace, key, bytes).filter(|_| bytes > 0)
        };
        let mut whole = Whole {
            of_driver: AllocatorEvents::default(),
            lines_at_peak: table.entries.iter().filter_map(at_peak).collect(),
            times_us: self.times_us,
            device: self.device,
            events: self.events,
            allocations: self.allocations,
            history: self.history,
            initial: self.initial,
            end: self.end,
            peaks: self.peaks,
            fragmentation,
            lines: table.rows(trace, grouping, top).into_iter().map(rows::line).collect(),
            lines_left_out: top.map_or(0, |top| table.entries.len().saturating_sub(top)) as u64,
            unattributed: rows::figures(&table.unattributed),
            ooms,
            pools: self
                .at_peak
                .iter()
                .flat_map(|kept| pools(&kept.state))
                .map(|row| rows::pool(&row))
                .collect(),
            outside: readings.as_ref().and_then(recorded::outside),
            self_check,
            steps: self.steps.table(),
            main_stream,
            oom_events: judged.iter().map(|judged| judged.oom).collect(),
            timeline: None,
            segments: None,
            warnings,
            order,
        };
        if let Some(kept) = self.at_oom.or(self.at_peak).filter(|_| options.with_pictures) {
            grouping.of_allocation.clone_from(&kept.groups);
            let ranks = Ranks::new(trace, grouping, &whole.order);
            let mut map = ranks.segments(&kept.state, kept.moment);
            if let Some(oom) = whole.ooms.last() {
                (map.event, map.asked_bytes) = (Some(oom.event), Some(oom.requested_bytes));
            }
            whole.segments = Some((map, ranks.names()));
        }
        Ok(whole)
    }
}

/// What all events of a device say.
pub(super) struct Whole {
    /// What all events say of the driver's memory, where its calls were recorded.
    pub(super) of_driver: AllocatorEvents,
    pub(super) device: DeviceId,
    pub(super) events: u64,
    allocations: u64,
    history: HistoryRow,
    initial: Usage,
    end: Usage,
    pub(super) peaks: Peaks,
    fragmentation: FragmentationRow,
    lines: Vec<LineRow>,
    lines_left_out: u64,
    /// What each line held when allocated bytes peaked, most first.
    lines_at_peak: Vec<LineBytes>,
    /// Time of the first event, and of the first failed request.
    pub(super) times_us: [Option<i64>; 2],
    unattributed: LineFigures,
    ooms: Vec<OomRow>,
    pools: Vec<PoolRow>,
    outside: Option<OutsideRow>,
    self_check: Option<SelfCheckRow>,
    /// Steps that the recording names.
    pub(super) steps: Option<StepTable>,
    pub(super) main_stream: u64,
    /// Failed requests, with the recording's event numbers.
    pub(super) oom_events: Vec<OomEvent>,
    /// Groups as the table of lines lists them.
    pub(super) order: Vec<u32>,
    pub(super) timeline: Option<Timeline>,
    /// The picture of segments, and the names of lines in it.
    segments: Option<(SegmentMap, Vec<String>)>,
    pub(super) warnings: Warnings,
}

impl Whole {
    pub(super) fn has_all_allocations(&self) -> bool {
        self.self_check.as_ref().is_none_or(|check| check.missing_allocations == 0)
    }

    pub(super) fn has_named_steps(&self) -> bool {
        self.steps.is_some()
    }

    /// Puts the figures of the whole where `facts` has those of the last events.
    pub(super) fn correct_facts(&self, facts: &mut DeviceFacts) {
        facts.events = self.events;
        facts.allocations = self.allocations;
        facts.peaks = self.peaks;
        facts.end = self.end;
        facts.from_the_start = self.history.from_the_start;
        facts.lines_at_peak.clone_from(&self.lines_at_peak);
        if let Some(steps) = &self.steps {
            facts.step_peaks = steps.rows.iter().map(|step| step.peak_allocated.bytes).collect();
            facts.step_ends = steps.rows.iter().map(|step| step.end_allocated_bytes).collect();
        }
        facts.warnings = self.warnings.clone();
    }

    /// Puts the figures of the whole where `report` has those of the last events.
    pub(super) fn fill(self, report: &mut DeviceReport) {
        report.events = self.events;
        report.peak = rows::peak_bytes(&self.peaks);
        report.peak_event = rows::peak_events(&self.peaks);
        report.end = rows::usage(self.end);
        report.initial = rows::usage(self.initial);
        report.history = self.history;
        report.fragmentation = self.fragmentation;
        report.lines = self.lines;
        report.lines_left_out = self.lines_left_out;
        report.unattributed = self.unattributed;
        report.ooms = self.ooms;
        report.pools = self.pools;
        report.outside = self.outside;
        report.self_check = self.self_check;
        if let Some(steps) = self.steps {
            report.steps = rows::steps(&steps);
        }
        if let Some(timeline) = self.timeline {
            report.timeline = timeline;
        }
        if let Some((segments, names)) = self.segments {
            report.pictures.segments = segments;
            report.pictures.line_names = names;
        }
    }
}
