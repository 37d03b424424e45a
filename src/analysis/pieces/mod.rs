//! Analysis of a recording that is read in pieces, in memory that grows with what is live and not with the events.
//!
//! Owns the order of the rounds and what the report says of the whole: counters, lines, fragmentation, failures, named
//! steps, readings, the timeline. All of it is exact, and the same as of the recording in one piece. What looks at
//! events to and fro (findings, categories, steps that nobody named) is made of the last events, as many as there is
//! room for, and the report says so. Its figures come from `rebuild` and `tables`, as elsewhere.

mod cut;
mod rounds;
mod survey;
mod whole;

use crate::driver::Claims;
use crate::error::{Error, Result};
use crate::format::Recording;
use crate::model::{DeviceId, DeviceTrace, Trace, Warnings};
use crate::report::RankRow;
use crate::units::Count;

use super::{Analysis, Options, analyze_file, driver, ranks, recorded, rows};
use whole::Whole;

/// How much of a recording may be in memory at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Most events of a piece.
    pub piece_events: usize,
    /// Last events, on all devices together, that are kept for findings.
    pub last_events: usize,
}

/// How often the events of a recording are looked at, if nothing from before it has to be found out.
#[must_use]
pub fn rounds(options: &Options) -> u64 {
    2 + u64::from(options.with_pictures)
}

/// Analyses `recording` in pieces; `path` is what the report calls it.
///
/// # Errors
/// Those of [`super::analyze`], and [`Error::Shape`] when only a part of the events is asked for.
pub fn analyze_recording(
    path: &str,
    mut recording: Recording<'_>,
    options: &Options,
    room: Room,
) -> Result<Analysis> {
    if recording.trace().reduced.is_some() {
        return analyze_file(path, &recording.into_trace(), options);
    }
    if options.is_of_a_part() {
        return Err(Error::Shape { what: "a part of a recording is not read in pieces".to_owned() });
    }
    let devices: Vec<DeviceId> = recording.trace().devices.iter().map(|entry| entry.device).collect();
    let chosen = |device: &DeviceId| options.device.is_none_or(|wanted| device.0 == wanted);
    let chosen: Vec<DeviceId> = devices.into_iter().filter(chosen).collect();
    let share = Room { last_events: room.last_events / chosen.len().max(1), ..room };
    let mut found = Vec::with_capacity(chosen.len());
    for device in chosen {
        found.push(rounds::run(&mut recording, device, options, share)?);
    }
    let mut trace = recording.into_trace();
    let mut wholes = Vec::with_capacity(found.len());
    for (whole, last) in found {
        let entry = trace.device_mut(whole.device);
        (entry.events, entry.excerpt) = last;
        wholes.push(whole);
    }
    let mut analysis = analyze_file(path, &trace, &Options { several_files: false, ..options.clone() })?;
    let mut warnings: Warnings = trace.warnings.clone();
    let complete = recorded::is_whole(&trace, &mut warnings) && trace.complete;
    analysis.report.complete = complete && wholes.iter().all(Whole::has_all_allocations);
    analysis.report.events = wholes.iter().map(|whole| whole.events).sum();
    let events = wholes.iter_mut().map(|whole| (whole.device, std::mem::take(&mut whole.of_driver)));
    let claims = Claims::with(&trace, events.collect());
    analysis.report.driver = claims.map(|claims| driver::report(&trace, &claims, options));
    let times: Vec<_> = wholes.iter().map(|whole| (whole.device, whole.times_us)).collect();
    for (place, whole) in wholes.into_iter().enumerate() {
        warnings.merge(whole.warnings.clone());
        say_what_is_of_the_last(&trace.devices, &whole, &mut warnings);
        if let Some(facts) = analysis.facts.devices.get_mut(place) {
            whole.correct_facts(facts);
        }
        if let Some(report) = analysis.report.devices.get_mut(place) {
            whole.fill(report);
        }
    }
    analysis.report.warnings = warnings.iter().map(rows::warning).collect();
    if options.several_files {
        analysis.row = Some(row_of(&trace, &analysis, &times, options.with_pictures));
    }
    Ok(analysis)
}

/// The row among other files.
fn row_of(
    trace: &Trace,
    analysis: &Analysis,
    times: &[(DeviceId, [Option<i64>; 2])],
    with_pictures: bool,
) -> RankRow {
    let devices = analysis.report.devices.iter().zip(times).filter(|_| with_pictures);
    let curves = devices.map(|(device, (_, [first_us, _]))| ranks::course_of(&device.timeline, *first_us));
    let facts = &analysis.facts;
    let mut row = ranks::row(trace, &analysis.report, &facts.devices, curves.collect(), facts.rank);
    let known = times.iter().find(|(device, _)| device.0 == row.device);
    if let (Some(oom), Some((_, [_, oom_us]))) = (&mut row.oom, known) {
        oom.time_us = *oom_us;
    }
    row
}

/// Tells where findings begin to look, unless they saw everything.
fn say_what_is_of_the_last(devices: &[DeviceTrace], whole: &Whole, warnings: &mut Warnings) {
    let Some(last) = devices.iter().find(|entry| entry.device == whole.device) else { return };
    let (device, first) = (whole.device.0, last.first_event());
    if first == 0 {
        return;
    }
    warnings.add_about("read-in-pieces", &device.to_string(), 1, || {
        let steps = if whole.has_named_steps() { "" } else { ", steps" };
        format!(
            "the {} events of device {device} were read in pieces: counters, lines, fragmentation, failures and the \
             timeline are of all; findings, categories{steps} and the page's views are of the last {}, from event {} \
             on",
            Count(whole.events),
            Count(last.events.len() as u64),
            Count(first)
        )
    });
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
