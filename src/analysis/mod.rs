//! Analysis: from a trace to its report, in one call.
//!
//! Owns the order of the work and the translation of results into the report's plain rows. Computes nothing
//! itself: figures come from `rebuild`, `tables` and `findings`; looks come from `report`. Devices are
//! analysed side by side (rayon); they are never added up.

mod check;
mod companion;
mod device;
mod diff;
mod driver;
mod export;
mod export_rows;
mod export_table;
mod findings;
mod histories;
mod naming;
mod oom;
mod page;
mod part;
mod partition;
mod pictures;
mod pieces;
mod ranks;
mod recorded;
mod reduce;
mod rows;
mod states;
mod whatif;

pub use whatif::{LineChange, WhatIfOptions, whatif};

pub use diff::{DiffOptions, DiffSide, GrowthLimit, diff, report_in};

pub use check::{Baseline, FailOn, Gates, check};
pub use companion::join_calls;
pub use export::Exporter;
pub use export_table::Table;
pub use histories::histories;
pub use naming::name_machine_code;
pub use oom::oom_rows;
pub use part::{Part, windows};
pub use partition::{DATASET_TABLES, Partition, rank_of};
pub use pieces::{Room, analyze_recording, rounds};
pub use ranks::{Analysis, Compared, Kept, compared, job_name, put_finding};
pub use reduce::{MOST_PERCENT, Reduction, reduce};
pub use states::{EVENTS_PER_STATE, write_with_states};

use std::collections::BTreeMap;
use std::ops::Range;

use rayon::prelude::*;

use crate::driver::Claims;
use crate::error::{Error, Result};
use crate::model::{DeviceTrace, Trace, Warnings};
use crate::rebuild::History;
use crate::report::TraceReport;
use crate::report::html::blob::Budget;
use crate::tables::GroupBy;

/// What to analyse and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only this device.
    pub device: Option<u32>,
    /// How many lines to keep; all without it.
    pub top: Option<usize>,
    /// What a row of the line table stands for.
    pub group_by: GroupBy,
    /// Only these events, by their numbers in the recording: peaks, ends, fragmentation, failures and lines are those
    /// of the window. The timeline is that of all events at hand.
    pub window: Option<Range<u64>>,
    /// Only the events of the step of this name, as if they were the window.
    pub step: Option<String>,
    /// Whether to compute the curves that pictures need.
    pub with_pictures: bool,
    /// Whether several files are analysed in one call, so that more is kept for comparing them.
    pub several_files: bool,
    /// Whether to pack each device for a page, and into how many bytes.
    pub page: Option<Budget>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            device: None,
            top: None,
            group_by: GroupBy::Line,
            window: None,
            step: None,
            with_pictures: false,
            several_files: false,
            page: None,
        }
    }
}

impl Options {
    /// Whether only some of the events are asked for.
    #[must_use]
    pub fn is_of_a_part(&self) -> bool {
        self.window.is_some() || self.step.is_some()
    }
}

/// Analyses `trace`; `path` is what the report calls it.
///
/// # Errors
/// [`Error::Shape`] when `options.device` is not in the trace or no device has `options.step`; [`Error::Table`] when a table cannot be built.
pub fn analyze(path: &str, trace: &Trace, options: &Options) -> Result<TraceReport> {
    Ok(analyze_file(path, trace, options)?.report)
}

/// As [`analyze`], with what comparisons with other files need: see [`compared`].
///
/// # Errors
/// Those of [`analyze`].
pub fn analyze_file(path: &str, trace: &Trace, options: &Options) -> Result<Analysis> {
    if let Some(reduced) = &trace.reduced {
        return reduce::analysis(path, trace, reduced, options);
    }
    Ok(analyze_seen(path, trace, options, &|_, _| ())?.0)
}

/// As [`analyze_file`] for a recording with its events; besides what `look` sees in the history of each device.
fn analyze_seen<T: Send>(
    path: &str,
    trace: &Trace,
    options: &Options,
    look: &(impl Fn(&DeviceTrace, &History) -> T + Sync),
) -> Result<(Analysis, Vec<T>)> {
    let devices = chosen(trace, options.device)?;
    let analysed: Vec<_> = devices
        .par_iter()
        .map(|device| device::analyze_seen(trace, device, options, look))
        .collect::<Result<_>>()?;
    let (analysed, seen): (Vec<_>, Vec<_>) = analysed.into_iter().unzip();
    part::require_step(&analysed, options)?;
    let mut warnings: Warnings = trace.warnings.clone();
    let mut complete = recorded::is_whole(trace, &mut warnings) && trace.complete;
    for device in &devices {
        part::warn_of_excerpt(device, &mut warnings);
    }
    let mut reports = Vec::with_capacity(analysed.len());
    let (mut found, mut facts, mut pages) = (Vec::new(), Vec::new(), Vec::new());
    let mut curves = Vec::new();
    for device in analysed {
        warnings.merge(device.warnings);
        let check = device.report.self_check.as_ref();
        complete &= check.is_none_or(|check| check.missing_allocations == 0);
        reports.push(device.report);
        found.extend(device.findings);
        facts.push(device.facts);
        pages.extend(device.page);
        curves.extend(device.course);
    }
    let claims = Claims::of(trace);
    found.extend(crate::findings::of_trace(trace, &facts, claims.as_ref()));
    found.sort_by_key(|finding| finding.severity);
    let findings = found.into_iter().map(findings::row).collect();
    let report = TraceReport {
        path: path.to_owned(),
        format: trace.format.name(),
        events: trace.recorded_events(),
        complete,
        warnings: warnings.iter().map(rows::warning).collect(),
        allocator_conf: trace.settings.conf().to_owned(),
        process: rows::process(&trace.process),
        devices: reports,
        findings,
        driver: claims.map(|claims| driver::report(trace, &claims, options)),
        reduced: None,
    };
    let facts = ranks::facts(path, trace, facts);
    let row = options.several_files.then(|| ranks::row(trace, &report, &facts.devices, curves, facts.rank));
    Ok((Analysis { report, facts, pages, row }, seen))
}

/// The allocator's own counters, by device; see [`crate::rebuild::stats`].
///
/// # Errors
/// [`Error::Shape`] when `device` is not in the trace, or `at` is beyond its last event.
pub fn stats(
    trace: &Trace,
    device: Option<u32>,
    at: Option<u64>,
) -> Result<Vec<(u32, BTreeMap<String, u64>)>> {
    let devices = chosen(trace, device)?;
    if let Some(event) = at
        && devices.iter().all(|device| event >= device.events.len() as u64)
    {
        let last = devices.iter().map(|device| device.events.len()).max().unwrap_or(0);
        return Err(Error::Shape { what: format!("there is no event {event}: the trace has {last} events") });
    }
    Ok(devices.par_iter().map(|device| (device.device.0, crate::rebuild::stats(trace, device, at))).collect())
}

/// Refuses a reduced recording, for what only events can tell.
fn require_events(trace: &Trace) -> Result<()> {
    let Some(reduced) = &trace.reduced else { return Ok(()) };
    let what =
        format!("a reduced recording has no events: they are in the original, {}", reduced.origin.name);
    Err(Error::Shape { what })
}

fn chosen(trace: &Trace, device: Option<u32>) -> Result<Vec<&DeviceTrace>> {
    require_events(trace)?;
    let chosen: Vec<_> =
        trace.devices.iter().filter(|entry| device.is_none_or(|wanted| entry.device.0 == wanted)).collect();
    if let Some(wanted) = device.filter(|_| chosen.is_empty()) {
        let there: Vec<_> = trace.devices.iter().map(|entry| entry.device.0.to_string()).collect();
        let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
        return Err(Error::Shape {
            what: format!("device {wanted} is not in the trace (devices there: {there})"),
        });
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;

    #[test]
    fn devices_stay_apart() {
        let trace = TraceBuilder::new()
            .segment_alloc(0x1000_0000, 2 << 20)
            .alloc(0x1000_0000, 512)
            .device(3)
            .segment_alloc(0x1000_0000, 20 << 20)
            .alloc(0x1000_0000, 4 << 20)
            .build();
        let report = analyze("x", &trace, &Options::default()).unwrap();
        let peaks: Vec<_> = report.devices.iter().map(|d| (d.device, d.peak.allocated_bytes)).collect();
        assert_eq!(peaks, [(0, 512), (3, 4 << 20)]);
    }

    #[test]
    fn an_absent_device_is_an_error_that_names_those_there() {
        let trace = TraceBuilder::new().segment_alloc(0x1000_0000, 2 << 20).build();
        let options = Options { device: Some(7), ..Options::default() };
        assert!(analyze("x", &trace, &options).unwrap_err().to_string().contains("devices there: 0"));
        assert!(stats(&trace, None, Some(5)).unwrap_err().to_string().contains("no event 5"));
    }
}
