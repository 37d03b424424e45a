//! A part of a recording: which events are asked for, and what the report says where only they were read.
//!
//! Owns the way from a step's name to events, before these are decoded and after. Reading them is `format`'s.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::{Error, Result};
use crate::format::Recording;
use crate::model::{DeviceId, DeviceTrace, Warnings};
use crate::tables::{self, StepTable};
use crate::units::Count;

use super::Options;
use super::device::Analyzed;

/// What part of a recording is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// These events of every device, by their numbers in the recording.
    Events(Range<u64>),
    /// The step of this name on every device.
    Step(String),
}

/// For each device the events that have to be read for `part`, for [`Recording::part`]. A step is looked for by the
/// times of marks and annotations, and found somewhat too large: chunks of events state only when they begin and end.
/// Devices on which it is not found so are left out: all their events have to be read, as its steps may be detected.
#[must_use]
pub fn windows(recording: &Recording<'_>, part: &Part) -> BTreeMap<DeviceId, Range<u64>> {
    let devices = recording.trace().devices.iter().map(|entry| entry.device);
    let window = |device: DeviceId| match part {
        Part::Events(window) => Some(window.clone()),
        Part::Step(name) => {
            let steps = tables::steps_by_chunks(recording.trace(), device, &recording.chunks(device));
            steps.into_iter().find(|(found, _)| found == name).map(|(_, events)| events)
        }
    };
    devices.filter_map(|device| Some((device, window(device)?))).collect()
}

/// The window that `options` ask for on `device`, whose steps are `steps`, counted from its first event at hand. A
/// device that does not have the step has an empty one.
pub(super) fn asked(options: &Options, device: &DeviceTrace, steps: &StepTable) -> Option<Range<u64>> {
    if let Some(name) = &options.step {
        let row = steps.rows.iter().find(|row| row.name == *name);
        return Some(row.map_or(0..0, |row| row.begin.0..row.end.0));
    }
    let first = device.first_event();
    options.window.as_ref().map(|window| window.start.saturating_sub(first)..window.end.saturating_sub(first))
}

/// Refuses a step that no device has, and says which there are.
pub(super) fn require_step(analysed: &[Analyzed], options: &Options) -> Result<()> {
    const SHOWN: usize = 8;
    let Some(name) = &options.step else { return Ok(()) };
    let steps = || analysed.iter().flat_map(|device| &device.report.steps.rows);
    if steps().any(|step| step.name == *name) {
        return Ok(());
    }
    let mut names: Vec<&str> = Vec::new();
    for step in steps() {
        if !names.contains(&step.name.as_str()) && names.len() <= SHOWN {
            names.push(&step.name);
        }
    }
    let there = match names.as_slice() {
        [] => "no steps were found".to_owned(),
        few if few.len() <= SHOWN => format!("steps there: {}", few.join(", ")),
        many => format!("steps there: {}, ...", many[..SHOWN].join(", ")),
    };
    Err(Error::Shape { what: format!("there is no step `{name}` in the trace ({there})") })
}

/// Says that only a part of the events of `device` was read, and what cannot be known from it.
pub(super) fn warn_of_excerpt(device: &DeviceTrace, warnings: &mut Warnings) {
    let Some(excerpt) = &device.excerpt else { return };
    let (number, first) = (device.device.0, excerpt.first_event);
    let end = first + device.events.len() as u64;
    warnings.add_about("excerpt", &number.to_string(), 1, || {
        format!(
            "of the {} events of device {number}, {} to {} were read, from the state of the allocator that is recorded \
             before them: sizes and totals are exact; ages, steps, categories and survivors of what was allocated \
             before are cut off, and lines that follow only from earlier events are not known",
            Count(device.recorded_events()),
            Count(first),
            Count(end.saturating_sub(1).max(first))
        )
    });
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "part_tests.rs"]
mod tests;
