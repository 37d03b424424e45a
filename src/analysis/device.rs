//! One device, from its events to its part of the report.

use std::ops::Range;

use crate::error::Result;
use crate::findings::{self, DeviceFacts, Finding, JudgedOom, Scene, States, judge_all};
use crate::model::{DeviceId, DeviceTrace, Trace, Warnings};
use crate::rebuild::{History, Moment, NONE, OomEvent, State, rebuild};
use crate::report::html::blob::{Budget, PageDevice};
use crate::report::{
    CategoryTable, DeviceReport, Fragmentation, FragmentationRow, HelpRow, HistoryRow, OomRow, Pictures,
    RankCurve, Timeline,
};
use crate::tables::{
    self, Categories, GroupBy, Grouping, INFERENCE_RULE, LINE_RULE, LineTable, MODULE_RULE, StepTable,
    TimelineExtent, WindowUsage, pools,
};

use super::pictures::{self, Ranks};
use super::{Options, findings as told, page, part, ranks, recorded, rows, whatif};

/// What the analysis of one device gives.
pub(super) struct Analyzed {
    pub(super) report: DeviceReport,
    pub(super) findings: Vec<Finding>,
    /// For rules over several devices or files.
    pub(super) facts: DeviceFacts,
    /// Those of the rebuilding; those of reading are the trace's.
    pub(super) warnings: Warnings,
    /// Packed for a page, where one is wanted.
    pub(super) page: Option<PageDevice>,
    /// Its curves among those of other ranks, where a picture of them is wanted.
    pub(super) course: Option<RankCurve>,
}

/// Everything that is computed once and read by several parts of the report.
struct Work<'a> {
    trace: &'a Trace,
    device: &'a DeviceTrace,
    history: &'a History,
    grouping: &'a Grouping,
    /// The events that the report looks at.
    window: Range<u64>,
    usage: WindowUsage,
}

/// Analyses one device.
pub(super) fn analyze(trace: &Trace, device: &DeviceTrace, options: &Options) -> Result<Analyzed> {
    Ok(analyze_seen(trace, device, options, &|_, _| ())?.0)
}

/// As [`analyze`]; besides what `look` sees in the history.
pub(super) fn analyze_seen<T>(
    trace: &Trace,
    device: &DeviceTrace,
    options: &Options,
    look: &impl Fn(&DeviceTrace, &History) -> T,
) -> Result<(Analyzed, T)> {
    let history = rebuild(trace, device);
    let grouping = Grouping::build(trace, device, &history, options.group_by);
    Ok((analyze_rebuilt(trace, device, &history, &grouping, options)?, look(device, &history)))
}

/// As [`analyze`], for those who have the history, and the groups of `options`, already.
pub(super) fn analyze_rebuilt(
    trace: &Trace,
    device: &DeviceTrace,
    history: &History,
    grouping: &Grouping,
    options: &Options,
) -> Result<Analyzed> {
    let steps = steps_of(trace, device, history);
    let asked = part::asked(options, device, &steps);
    let window = asked.as_ref().map_or(0..history.events, |asked| clamp(asked, history.events));
    let usage = counters(history, &window);
    let work = Work { trace, device, history, grouping, window, usage };
    let facts = trace.process.devices.iter().find(|facts| facts.device == device.device);
    let total_bytes = total_bytes(trace, device.device);
    let readings = tables::readings(trace, device, history);
    let failed: Vec<OomEvent> = work.ooms().copied().collect();
    let ooms = judge_all(trace, device, history, total_bytes, &failed);
    let what_would_help = work.what_would_help(options);
    let by_line =
        (grouping.by != GroupBy::Line).then(|| Grouping::build(trace, device, history, GroupBy::Line));
    let scene = Scene {
        trace,
        device,
        history,
        lines: by_line.as_ref().unwrap_or(grouping),
        steps: &steps,
        ooms: &ooms,
        total_bytes,
        readings: readings.as_ref(),
        setting: what_would_help.as_ref().and_then(told::setting),
        states: States::default(),
    };
    let threads = threads(options, history.events);
    let lines = || tables::lines(trace, device, history, grouping, asked);
    let (table, found) = side_by_side(threads > 1, lines, || findings::of_device(&scene, threads));
    let (table, found) = (table?, found?);
    let order: Vec<u32> = table.entries.iter().map(|entry| entry.group).collect();
    let at_peak = scene.state_at(usage.peaks.reserved.moment);
    let first_event = history.first_event;
    let findings = found.into_iter().map(|found| found.numbered_from(first_event));
    let (findings, mut summed) = (findings.collect(), told::facts(&scene, options.several_files));
    let self_check = readings.as_ref().and_then(recorded::self_check);
    let mut report = DeviceReport {
        device: device.device.0,
        name: facts.map(|facts| facts.name.clone()).filter(|name| !name.is_empty()),
        total_bytes,
        events: device.recorded_events(),
        peak: rows::peak_bytes(&usage.peaks),
        peak_event: rows::peak_events(&usage.peaks),
        end: rows::usage(usage.end),
        initial: rows::usage(usage.initial),
        history: beginning(history),
        fragmentation: work.fragmentation(&scene, &at_peak)?,
        group_by: options.group_by.to_string(),
        line_rule: line_rule(grouping),
        lines: table.rows(trace, grouping, options.top).into_iter().map(rows::line).collect(),
        lines_left_out: options.top.map_or(0, |top| table.entries.len().saturating_sub(top)) as u64,
        unattributed: rows::figures(&table.unattributed),
        categories: work.categories(scene.categories()),
        ooms: ooms.iter().map(|judged| work.oom(judged)).collect(),
        steps: rows::steps(&steps),
        pools: pools(&at_peak).into_iter().map(|row| rows::pool(&row)).collect(),
        modules: tables::modules(device, history, grouping).map(|table| recorded::modules(trace, table)),
        census: scene.names().map(|names| recorded::census(trace, history, grouping, names)),
        outside: readings.as_ref().and_then(recorded::outside),
        self_check,
        what_would_help,
        timeline: if options.with_pictures { work.timeline(&order, &steps) } else { Timeline::default() },
        pictures: if options.with_pictures { work.pictures(&scene, &order) } else { Pictures::default() },
    };
    report.numbered_from(first_event);
    let mut warnings = history.warnings.clone();
    if let Some(check) = &report.self_check {
        recorded::warn_of_check(report.device, check, &mut warnings);
    }
    summed.warnings = warnings.clone();
    let page = match options.page {
        Some(budget) => Some(page_of(&scene, &work, &table, share(budget, trace, device))?),
        None => None,
    };
    let course = (options.several_files && options.with_pictures).then(|| ranks::course(device, history));
    Ok(Analyzed { report, findings, facts: summed, warnings, page, course })
}

/// The steps of the device. Of an excerpt that ends before the recording, those behind it are left out.
fn steps_of(trace: &Trace, device: &DeviceTrace, history: &History) -> StepTable {
    let mut steps = tables::steps(trace, device, history);
    if !device.reaches_the_end() {
        steps.rows.retain(|step| step.begin.0 < history.events);
    }
    steps
}

/// How many rules are looked at side by side. Of several files other ones are in work meanwhile, and of a very long
/// recording what each rule needs for itself adds up.
fn threads(options: &Options, events: u64) -> usize {
    const MOST: usize = 4;
    const MOST_EVENTS: u64 = 20_000_000;
    if options.several_files || events > MOST_EVENTS {
        return 1;
    }
    std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get).min(MOST)
}

/// Does both, `one` on a thread of its own if `apart`.
fn side_by_side<A: Send, B>(
    apart: bool,
    one: impl FnOnce() -> A + Send,
    other: impl FnOnce() -> B,
) -> (A, B) {
    if !apart {
        return (one(), other());
    }
    std::thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        (one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), other)
    })
}

/// The device for a page: always by line and always whole, whatever the report looks at.
fn page_of(scene: &Scene<'_>, work: &Work<'_>, table: &LineTable, budget: u64) -> Result<PageDevice> {
    let (trace, device, history) = (scene.trace, scene.device, scene.history);
    let is_that = work.grouping.by == GroupBy::Line && table.window == (0..history.events);
    let own = if is_that { None } else { Some(tables::lines(trace, device, history, scene.lines, None)?) };
    let sources = tables::Sources {
        trace,
        device,
        history,
        lines: scene.lines,
        table: own.as_ref().unwrap_or(table),
        categories: scene.categories(),
        steps: scene.steps,
    };
    Ok(page::page_device(sources, scene.total_bytes, budget))
}

/// What of a page's `budget` is the device's.
fn share(budget: Budget, trace: &Trace, device: &DeviceTrace) -> u64 {
    let (events, devices) = (device.events.len() as u64, trace.devices.len() as u64);
    budget.of_device(events, trace.event_count() as u64, devices)
}

/// The device's memory, when recorded.
pub(super) fn total_bytes(trace: &Trace, device: DeviceId) -> Option<u64> {
    let facts = trace.process.devices.iter().find(|facts| facts.device == device);
    facts.and_then(|facts| facts.total_bytes).or_else(|| sampled_total(trace, device))
}

/// The device's memory as a sample states it, for recordings without facts of their devices.
fn sampled_total(trace: &Trace, device: DeviceId) -> Option<u64> {
    trace.samples.iter().filter(|sample| sample.device == device).find_map(|sample| sample.total_bytes)
}

/// The rules by which lines were found, as far as they were used.
fn line_rule(grouping: &Grouping) -> String {
    let modules = if grouping.modules.tags.is_empty() { "" } else { MODULE_RULE };
    format!("{LINE_RULE}. {INFERENCE_RULE}.{modules}")
}

fn clamp(window: &Range<u64>, events: u64) -> Range<u64> {
    let end = window.end.min(events);
    window.start.min(end)..end
}

/// The counters over the window: without a narrower one, those that the rebuilding found on its way.
fn counters(history: &History, window: &Range<u64>) -> WindowUsage {
    if *window == (0..history.events) {
        return WindowUsage { initial: history.initial, end: history.end, peaks: history.peaks };
    }
    tables::window_usage(history, window)
}

/// What is known of the beginning.
pub(super) fn beginning(history: &History) -> HistoryRow {
    let begun = &history.allocations.alloc_events;
    HistoryRow {
        from_the_start: history.from_the_start,
        initial_allocations: begun.iter().take_while(|&&event| event == NONE).count() as u64,
        uncertain_allocations: history.uncertain_allocations,
        uncertain_bytes: history.uncertain_bytes,
    }
}

impl Work<'_> {
    fn ooms(&self) -> impl Iterator<Item = &OomEvent> {
        self.history.ooms.iter().filter(|oom| self.window.contains(&oom.event))
    }

    fn fragmentation(&self, scene: &Scene<'_>, at_peak: &State) -> Result<FragmentationRow> {
        let last_oom = self.ooms().last().map(|oom| Moment(oom.event));
        let (end, main_stream) = (Moment(self.window.end), scene.streams().main);
        let row = |state: &State, moment| self.fragmentation_of(state, moment, main_stream);
        Ok(FragmentationRow {
            at_peak: row(at_peak, self.usage.peaks.reserved.moment)?,
            at_end: row(&scene.state_at(end), end)?,
            at_oom: last_oom.map(|at| row(&scene.state_at(at), at)).transpose()?,
        })
    }

    fn fragmentation_of(&self, state: &State, moment: Moment, main_stream: u64) -> Result<Fragmentation> {
        let figures = tables::fragmentation(state, moment, self.grouping)?;
        let causes = tables::causes(state, main_stream);
        Ok(rows::fragmentation(self.trace, self.grouping, figures, causes, main_stream))
    }

    fn categories(&self, categories: &Categories) -> CategoryTable {
        let oom = self.ooms().last().map(|oom| Moment(oom.event));
        let peak = self.usage.peaks.allocated.moment;
        let figures = tables::category_figures(categories, self.history, &self.window, peak, oom);
        rows::categories(categories, &figures)
    }

    /// Replays other settings where memory ran out or much of it lay unused, and where that is quick.
    fn what_would_help(&self, options: &Options) -> Option<HelpRow> {
        const MOST_EVENTS: u64 = 2_000_000;
        const LEAST_UNUSED_BYTES: u64 = 64 << 20;
        let peak = self.history.peaks.reserved;
        // The segment is counted before the request that it was obtained for: look behind that.
        let served = Moment((peak.moment.0 + 1).min(self.history.events));
        let active = self.history.usage_at(served).active_bytes;
        let unused = peak.bytes.saturating_sub(active);
        let is_of_interest =
            !self.history.ooms.is_empty() || (unused >= LEAST_UNUSED_BYTES && unused >= peak.bytes / 10);
        let is_asked = !options.is_of_a_part() && is_of_interest && self.history.events <= MOST_EVENTS;
        is_asked.then(|| whatif::help(self.trace, self.device, self.history)).flatten()
    }

    fn oom(&self, judged: &JudgedOom) -> OomRow {
        let line = self.grouping.key_of_stack(judged.oom.stack).map(|key| key.label(self.trace));
        rows::oom(judged, line)
    }

    fn timeline(&self, order: &[u32], steps: &StepTable) -> Timeline {
        let extent = TimelineExtent::default();
        let data = tables::timeline(self.device, self.history, self.grouping, order, steps, extent);
        rows::timeline(self.trace, self.grouping, order, data)
    }

    fn pictures(&self, scene: &Scene<'_>, order: &[u32]) -> Pictures {
        let ranks = Ranks::new(self.trace, self.grouping, order);
        let last_oom = self.ooms().last();
        let moment = last_oom.map_or(self.usage.peaks.reserved.moment, |oom| Moment(oom.event));
        let mut segments = ranks.segments(&scene.state_at(moment), moment);
        match last_oom {
            Some(oom) => (segments.event, segments.asked_bytes) = (Some(oom.event), Some(oom.size)),
            None => segments.just_obtained_bytes = pictures::just_obtained(self.device, moment),
        }
        Pictures {
            segments,
            flame: ranks.flame(self.device, self.history, self.usage.peaks.allocated.moment),
            steps: ranks.steps(self.history, scene.steps),
            line_names: ranks.names(),
        }
    }
}
