//! What-if replays: from a trace and wishes to the answer.
//!
//! Owns the order of the work: baseline first, then the settings side by side (rayon), then bounds and a
//! recommendation. Figures come from `simulate`; looks from `report`.

mod advice;
mod lines;

use rayon::prelude::*;

use super::chosen;
use crate::error::{Error, Result};
use crate::model::{DeviceTrace, Trace};
use crate::rebuild::{History, rebuild};
use crate::report::{
    BaselineRow, BoundsRow, ChangedLineRow, HelpRow, LimitRow, SCHEMA, SettingRow, WhatIfReport,
};
use crate::simulate::{
    self, Baseline, Bounds, Conf, Limit, Outcome, Placing, Release, Requests, STANDARD, baseline, bounds,
    replay,
};

pub use lines::LineChange;

/// Granule in which the driver's own pool (`backend:cudaMallocAsync`) holds memory.
const DRIVER_POOL_BYTES: u64 = 32 << 20;

/// What to try.
#[derive(Clone, Debug, Default)]
pub struct WhatIfOptions {
    /// Only this device; the one with most events without it.
    pub device: Option<u32>,
    /// Settings to try; the standard set when empty.
    pub sets: Vec<String>,
    /// Whether to go through splits and divisions as well.
    pub search: bool,
    /// Memory to fit into.
    pub memory_bytes: Option<u64>,
    /// Lines whose allocations are left out or scaled.
    pub changes: Vec<LineChange>,
    /// Release whose rules hold.
    pub release: Release,
}

/// Replays the requests of one device of `trace` under other settings; `path` is what the report calls it.
///
/// # Errors
/// [`Error::Shape`] when the device is not in the trace or asked for nothing, when PyTorch would refuse a
/// setting, or when no stack holds a line that is to change.
pub fn whatif(path: &str, trace: &Trace, options: &WhatIfOptions) -> Result<WhatIfReport> {
    let device = chosen(trace, options.device)?.into_iter().rev().max_by_key(|device| device.events.len());
    let Some(device) = device.filter(|device| !device.events.is_empty()) else {
        return shape("the trace holds no events to replay (it is a state only)".to_owned());
    };
    let history = rebuild(trace, device);
    answer(&Question { path, trace, device, history: &history, options, is_short: false })
}

/// The short answer that a report has room and time for.
pub(super) fn help(trace: &Trace, device: &DeviceTrace, history: &History) -> Option<HelpRow> {
    let sets =
        STANDARD.iter().filter(|text| !text.contains("backend")).map(|&text| text.to_owned()).collect();
    let options = WhatIfOptions { sets, ..WhatIfOptions::default() };
    let question = Question { path: "", trace, device, history, options: &options, is_short: true };
    answer(&question).ok().map(|report| HelpRow::of(&report))
}

/// What is asked, of which device.
struct Question<'a> {
    path: &'a str,
    trace: &'a Trace,
    device: &'a DeviceTrace,
    history: &'a History,
    options: &'a WhatIfOptions,
    /// Without bounds and bisection, which take longer than replays.
    is_short: bool,
}

fn answer(question: &Question<'_>) -> Result<WhatIfReport> {
    let Question { path, trace, device, history, options, is_short } = *question;
    let recorded_conf = Conf::recorded(&trace.settings);
    let confs = confs(options, &recorded_conf)?;
    let recorded = Requests::new(trace, device, history);
    if recorded.is_empty() {
        return shape("the trace holds no requests to replay".to_owned());
    }
    let (requests, changed) = lines::apply(trace, &recorded, &options.changes)?;
    let base = baseline(&recorded, &recorded_conf, history);
    let (limit, source) = match options.memory_bytes {
        Some(bytes) => (Some(Limit::cap(bytes)), "given"),
        None => (simulate::recorded_limit(&recorded, history, &base, &recorded_conf), "recorded"),
    };
    let scene = Scene { requests: &requests, limit, options, confs: &confs, is_short };
    let bounds = || if is_short { Bounds::default() } else { bounds(&requests) };
    let (bounds, settings) = rayon::join(bounds, || scene.settings());
    let mut report = WhatIfReport {
        schema: SCHEMA,
        path: path.to_owned(),
        device: device.device.0,
        events: device.events.len() as u64,
        baseline: baseline_row(&recorded_conf, &base),
        limit: limit.map(|limit| LimitRow { bytes: bytes_of(limit), source }),
        settings: scene.finish(settings, &bounds),
        bounds: bounds_row(&bounds),
        changed_lines: changed,
        notes: notes(device, &recorded, limit.is_none() && recorded_conf.collects()),
        ..WhatIfReport::default()
    };
    report.recommendation = advice::recommend(&report);
    Ok(report)
}

fn shape<T>(what: String) -> Result<T> {
    Err(Error::Shape { what })
}

/// A setting to try.
struct Try {
    conf: Conf,
    is_recorded: bool,
}

/// The settings to try, the recorded one among them: in its place if it was asked for, else last.
fn confs(options: &WhatIfOptions, recorded: &Conf) -> Result<Vec<Try>> {
    let mut texts = options.sets.clone();
    if options.search {
        texts.extend(simulate::search());
    } else if texts.is_empty() {
        texts.extend(STANDARD.map(str::to_owned));
    }
    let mut found: Vec<Try> = Vec::new();
    for text in texts {
        let conf = match Conf::parse(&text, options.release) {
            Ok(conf) => conf,
            Err(error) => return shape(format!("PyTorch would refuse `{text}`: {error}")),
        };
        if found.iter().all(|known| known.conf.text() != conf.text()) {
            let is_recorded = conf.text() == recorded.text();
            let conf = if is_recorded { recorded.clone() } else { conf };
            found.push(Try { conf, is_recorded });
        }
    }
    if found.iter().all(|known| !known.is_recorded) {
        found.push(Try { conf: recorded.clone(), is_recorded: true });
    }
    Ok(found)
}

/// All that a replay of settings needs.
struct Scene<'a> {
    requests: &'a Requests,
    limit: Option<Limit>,
    options: &'a WhatIfOptions,
    confs: &'a [Try],
    is_short: bool,
}

impl Scene<'_> {
    fn settings(&self) -> Vec<Outcome> {
        let one = |found: &Try| replay(self.requests, &found.conf, self.limit_of(&found.conf));
        self.confs.par_iter().map(one).collect()
    }

    /// The limit under `conf`: its own memory fraction holds unless a memory was asked for.
    fn limit_of(&self, conf: &Conf) -> Limit {
        let limit = self.limit.unwrap_or_default();
        let share =
            conf.memory_fraction().filter(|&share| share < 1.0 && self.options.memory_bytes.is_none());
        match (share, self.requests.device_bytes) {
            (Some(share), Some(total)) => Limit { cap: Some((share * total as f64) as u64), ..limit },
            _ => limit,
        }
    }

    /// Peaks over the other orders of addresses; of the recorded settings the order is known.
    fn range(&self, found: &Try, outcome: &Outcome) -> [u64; 2] {
        let peak = outcome.peak_reserved_bytes;
        if found.is_recorded || self.is_short || outcome.oom_event.is_some() {
            return [peak; 2];
        }
        let limit = self.limit_of(&found.conf);
        let peaks = [Placing::ByRank, Placing::Invented].map(|placing| {
            simulate::replay_placed(self.requests, &found.conf, limit, placing).peak_reserved_bytes
        });
        [peak.min(peaks[0]).min(peaks[1]), peak.max(peaks[0]).max(peaks[1])]
    }

    /// Rows of the outcomes; where memory is limited, with the least that would do.
    fn finish(&self, outcomes: Vec<Outcome>, bounds: &Bounds) -> Vec<SettingRow> {
        let recorded = self.confs.iter().zip(&outcomes).find(|(found, _)| found.is_recorded);
        let peak = recorded.map_or(0, |(_, outcome)| outcome.peak_reserved_bytes);
        self.confs
            .par_iter()
            .zip(outcomes)
            .map(|(found, outcome)| {
                if found.conf.is_asynchronous() {
                    return bound_row(found, bounds, peak, self.limit_of(&found.conf));
                }
                let range = self.range(found, &outcome);
                let least = self.limit.filter(|_| !self.is_short).and_then(|_| {
                    simulate::smallest_memory(self.requests, &found.conf, bounds.live_peak_bytes)
                });
                SettingRow {
                    smallest_memory_bytes: least,
                    peak_reserved_range: range,
                    ..row(found, outcome, peak)
                }
            })
            .collect()
    }
}

/// The driver's own pool has no model: what it cannot do without.
fn bound_row(found: &Try, bounds: &Bounds, recorded_peak: u64, limit: Limit) -> SettingRow {
    let least = bounds.live_peak_bytes.div_ceil(DRIVER_POOL_BYTES).saturating_mul(DRIVER_POOL_BYTES);
    SettingRow {
        conf: found.conf.text().to_owned(),
        is_recorded: found.is_recorded,
        is_bound: true,
        fits: (bounds.live_peak_bytes > bytes_of(limit)).then_some(false),
        peak_reserved_bytes: least,
        peak_reserved_range: [least; 2],
        peak_allocated_bytes: bounds.live_peak_bytes,
        saved_bytes: difference(recorded_peak, least),
        ..SettingRow::default()
    }
}

fn row(found: &Try, outcome: Outcome, recorded_peak: u64) -> SettingRow {
    SettingRow {
        conf: found.conf.text().to_owned(),
        is_recorded: found.is_recorded,
        is_bound: false,
        peak_reserved_bytes: outcome.peak_reserved_bytes,
        peak_reserved_range: [outcome.peak_reserved_bytes; 2],
        peak_allocated_bytes: outcome.peak_allocated_bytes,
        end_reserved_bytes: outcome.end_reserved_bytes,
        saved_bytes: difference(recorded_peak, outcome.peak_reserved_bytes),
        fragmentation_at_peak: outcome.fragmentation_at_peak(),
        oom_event: outcome.oom_event,
        fits: Some(outcome.oom_event.is_none()),
        retries: outcome.retries,
        smallest_memory_bytes: None,
        course: outcome.course,
    }
}

fn difference(before: u64, after: u64) -> i64 {
    before.cast_signed().saturating_sub(after.cast_signed())
}

fn bytes_of(limit: Limit) -> u64 {
    limit.cap.into_iter().chain(limit.physical).min().unwrap_or(u64::MAX)
}

fn bounds_row(bounds: &Bounds) -> BoundsRow {
    BoundsRow {
        live_peak_bytes: bounds.live_peak_bytes,
        packed_bytes: bounds.packed_bytes,
        packing: bounds.method,
    }
}

fn baseline_row(conf: &Conf, base: &Baseline) -> BaselineRow {
    BaselineRow {
        conf: conf.text().to_owned(),
        recorded_peak_reserved_bytes: base.recorded_peak_reserved_bytes,
        replayed_peak_reserved_bytes: base.outcome.peak_reserved_bytes,
        exact: base.is_exact(),
        first_divergence_event: base.first_divergence.as_ref().map(|found| found.event),
        cause: base.first_divergence.as_ref().map(|found| found.cause.clone()),
        differing_requests: base.differing_requests,
    }
}

fn notes(device: &DeviceTrace, requests: &Requests, collects_under_unknown: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if collects_under_unknown && requests.has_returns() {
        notes.push(
            "Garbage was collected under a cap that the recording does not state; without --memory the settings are replayed without one."
                .to_owned(),
        );
    }
    if requests.starts_late() {
        notes.push(
            "The recording starts late: every replay begins with the blocks and segments that were there, as the recorded settings had left them."
                .to_owned(),
        );
    }
    if requests.has_failure() {
        notes.push("The request that failed is among the requests.".to_owned());
    }
    if requests.has_private_pools() {
        notes.push("Private pools (CUDA graphs) are replayed as never given up.".to_owned());
    }
    if device.segments.is_none() {
        notes.push("The file holds no final state.".to_owned());
    }
    notes
}

impl ChangedLineRow {
    fn of(change: &LineChange, allocations: u64) -> Self {
        Self { line: format!("{}:{}", change.file, change.line), factor: change.factor, allocations }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;

    const MIB: u64 = 1 << 20;

    fn staircase() -> Trace {
        let mut builder = TraceBuilder::new();
        for step in 0..4u64 {
            let (address, bytes) = (0x10_0000_0000 * (step + 1), (100 + 20 * step) * MIB);
            builder = builder.at("train.py", 7 + step, "step");
            builder = builder.segment_alloc(address, bytes).alloc(address, bytes).free(address, bytes);
        }
        builder.segments(vec![]).build()
    }

    fn answer(options: &WhatIfOptions) -> WhatIfReport {
        whatif("x", &staircase(), options).unwrap()
    }

    #[test]
    fn the_recorded_settings_are_always_among_the_rows() {
        let sets = vec!["expandable_segments:True".to_owned()];
        let found = answer(&WhatIfOptions { sets, ..WhatIfOptions::default() });
        let confs: Vec<_> = found.settings.iter().map(|row| (row.conf.as_str(), row.is_recorded)).collect();
        assert_eq!(confs, [("expandable_segments:True", false), ("", true)]);
        assert_eq!(found.settings[0].peak_reserved_bytes, 160 * MIB);
        assert_eq!(found.settings[1].peak_reserved_bytes, 520 * MIB);
        assert_eq!(found.recommendation.conf.as_deref(), Some("expandable_segments:True"));
        assert_eq!(found.bounds.live_peak_bytes, 160 * MIB);
    }

    #[test]
    fn a_line_can_be_left_out_or_scaled() {
        let change = |factor| LineChange { file: "train.py".to_owned(), line: 10, factor };
        let gone = answer(&WhatIfOptions { changes: vec![change(0.0)], ..WhatIfOptions::default() });
        assert_eq!(gone.settings[0].peak_reserved_bytes, 360 * MIB);
        assert_eq!(gone.changed_lines[0].allocations, 1);
        let half = answer(&WhatIfOptions { changes: vec![change(0.5)], ..WhatIfOptions::default() });
        assert_eq!(half.bounds.live_peak_bytes, 140 * MIB);
        assert!(gone.baseline.exact, "the baseline is that of the recording as it is");
    }

    #[test]
    fn wishes_that_cannot_be_granted_are_errors() {
        let sets = vec!["max_split_size_mb:3".to_owned()];
        let refused = whatif("x", &staircase(), &WhatIfOptions { sets, ..WhatIfOptions::default() });
        assert!(refused.unwrap_err().to_string().contains("at least 20"));
        let nowhere = LineChange { file: "train.py".to_owned(), line: 99, factor: 0.0 };
        let options = WhatIfOptions { changes: vec![nowhere], ..WhatIfOptions::default() };
        assert!(whatif("x", &staircase(), &options).unwrap_err().to_string().contains("train.py:99"));
        assert!(whatif("x", &Trace::default(), &WhatIfOptions::default()).is_err());
    }

    #[test]
    fn memory_that_is_asked_for_is_a_cap_with_the_least_that_would_do() {
        let found = answer(&WhatIfOptions { memory_bytes: Some(200 * MIB), ..WhatIfOptions::default() });
        let recorded = found.settings.iter().find(|row| row.is_recorded).unwrap();
        assert_eq!(
            (recorded.oom_event, recorded.retries),
            (None, 3),
            "each step returns what the last one kept"
        );
        assert_eq!(recorded.smallest_memory_bytes, Some(160 * MIB));
        let small = answer(&WhatIfOptions { memory_bytes: Some(150 * MIB), ..WhatIfOptions::default() });
        assert!(small.settings.iter().all(|row| row.oom_event.is_some() || row.is_bound));
        assert_eq!(small.recommendation.conf, None);
    }
}
