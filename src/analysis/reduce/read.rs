//! A reduced recording's report, read back.
//!
//! Owns what options may ask of it, and the checks that a report from a file must pass before it is drawn.

use std::collections::BTreeMap;

use serde::Deserialize as _;

use crate::error::{Error, Result};
use crate::model::{DeviceId, Reduced, Trace};
use crate::report::{ReducedRow, SCHEMA, StepCurve, Timeline};
use crate::tables::GroupBy;

use super::super::{Analysis, Options, ranks, rows};
use super::{Kept, KeptDevice, shown};

/// Nesting of the packed report: evidence of findings is the deepest part.
const MAX_DEPTH: usize = 64;

/// The analysis that was kept, as `options` ask for it.
///
/// # Errors
/// [`Error::Shape`] when the options need events, the device is not there, or the report is damaged.
pub(in crate::analysis) fn analysis(
    path: &str,
    trace: &Trace,
    reduced: &Reduced,
    options: &Options,
) -> Result<Analysis> {
    if options.window.is_some() || options.group_by != GroupBy::Line {
        let what = "a reduced recording has its report by line and over all events only".to_owned();
        return Err(Error::Shape { what });
    }
    let Kept { mut report, devices, .. } = unpacked(reduced)?;
    let (mut facts, mut curves) = (Vec::with_capacity(devices.len()), Vec::with_capacity(devices.len()));
    let mut times = BTreeMap::new();
    for (device, kept) in report.devices.iter_mut().zip(devices) {
        facts.push(kept.facts.facts(device));
        let known = kept.times.unwrap_or_default();
        curves.push((device.device, ranks::course_of(&kept.timeline, known.first_us)));
        times.insert(device.device, known);
        (device.timeline, device.pictures) = (kept.timeline, kept.pictures);
        if let Some(top) = options.top.filter(|&top| top < device.lines.len()) {
            let left_out = (device.lines.len() - top) as u64;
            device.lines_left_out = device.lines_left_out.saturating_add(left_out);
            device.lines.truncate(top);
        }
    }
    if let Some(wanted) = options.device {
        report.devices.retain(|device| device.device == wanted);
        report.findings.retain(|finding| finding.device == wanted);
        facts.retain(|facts| facts.device == DeviceId(wanted));
        curves.retain(|(device, _)| *device == wanted);
        if report.devices.is_empty() {
            return Err(Error::Shape { what: format!("device {wanted} is not in the reduced recording") });
        }
    }
    path.clone_into(&mut report.path);
    report.format = trace.format.name();
    report.complete &= trace.complete;
    report.warnings.extend(trace.warnings.iter().map(rows::warning));
    report.warnings.sort_by(|one, other| one.kind.cmp(&other.kind));
    let live = shown::moments(trace, reduced, options.device);
    report.reduced = Some(ReducedRow { live, ..origin(reduced) });
    let facts = ranks::facts(path, trace, facts);
    let row = options.several_files.then(|| {
        let curves = curves.into_iter().map(|(_, curve)| curve).filter(|_| options.with_pictures).collect();
        let mut row = ranks::row(trace, &report, &facts.devices, curves, facts.rank);
        if let (Some(oom), Some(times)) = (&mut row.oom, times.get(&row.device)) {
            oom.time_us = times.oom_us;
        }
        row
    });
    Ok(Analysis { facts, report, pages: Vec::new(), row })
}

fn origin(reduced: &Reduced) -> ReducedRow {
    let origin = reduced.origin.clone();
    ReducedRow {
        name: origin.name,
        format: origin.format,
        bytes: origin.bytes,
        events: origin.events,
        sha256: origin.sha256,
        reduced_by: origin.reduced_by,
        live: Vec::new(),
    }
}

fn damaged(what: impl std::fmt::Display) -> Error {
    Error::Shape { what: format!("the report of this reduced recording is damaged: {what}") }
}

fn unpacked(reduced: &Reduced) -> Result<Kept> {
    let mut packed = rmp_serde::Deserializer::from_read_ref(reduced.report.as_slice());
    packed.set_max_depth(MAX_DEPTH);
    let kept = Kept::deserialize(&mut packed).map_err(damaged)?;
    if kept.schema != SCHEMA {
        return Err(damaged(format!("its schema is {}, and this memlab reads {SCHEMA}", kept.schema)));
    }
    if kept.devices.len() != kept.report.devices.len() {
        return Err(damaged("devices without figures"));
    }
    let is_whole = |device: &KeptDevice| is_drawable(&device.timeline) && is_even(&device.pictures.steps);
    if !kept.devices.iter().all(is_whole) {
        return Err(damaged("curves whose parts do not belong together"));
    }
    Ok(kept)
}

/// Whether all curves have a value at every sample, and samples and marks lie on the axis in order.
fn is_drawable(timeline: &Timeline) -> bool {
    let length = timeline.x.len();
    let curves = [&timeline.allocated, &timeline.active, &timeline.reserved];
    curves.into_iter().chain(&timeline.bands).all(|curve| curve.len() == length)
        && timeline.band_names.len() == timeline.bands.len()
        && (timeline.by_cause.len() == length || timeline.by_cause.is_empty())
        && timeline.x.is_sorted()
        && timeline.x.last().is_none_or(|&last| last <= timeline.x_end)
        && timeline.marks.iter().all(|mark| mark.x <= timeline.x_end)
}

/// Whether every band has a value in every column.
fn is_even(steps: &StepCurve) -> bool {
    steps.bands.iter().all(|band| band.len() == steps.columns.len())
}
