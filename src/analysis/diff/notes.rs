//! What a comparison rests on, in sentences: what one side does not know or has only in part.

use crate::report::Sides;
use crate::units::{Bytes, Count};

use super::Pair;
use super::lines::listed;
use super::side::{DiffSide, SideDevice};

/// The notes of the whole comparison. What holds for both sides is said of both.
pub(super) fn of(sides: Sides<&DiffSide>, pairs: &[Pair<'_>]) -> Vec<String> {
    let mut notes = Vec::new();
    for (name, side) in [("BEFORE", sides.before), ("AFTER", sides.after)] {
        if side.report.complete == Some(false) {
            notes.push(format!("{name} is not whole: its figures are those of the part that was recorded"));
        }
        if side.report.findings.is_none() {
            notes.push(format!("{name} lists no findings: they are not compared"));
        }
        if side.report.allocator_conf.is_none() {
            notes.push(format!("{name} does not say its allocator settings: they are not compared"));
        }
        if side.report.process.is_none() {
            notes.push(format!("{name} says nothing of its process: that is not compared"));
        }
    }
    for pair in pairs {
        match (pair.before, pair.after) {
            (Some(before), Some(after)) => of_pair(before, after, &mut notes),
            (Some(alone), None) => notes.push(format!("device {} is only in BEFORE", alone.device)),
            (None, Some(alone)) => notes.push(format!("device {} is only in AFTER", alone.device)),
            (None, None) => {}
        }
    }
    let with_calls = [("BEFORE", sides.before), ("AFTER", sides.after)]
        .into_iter()
        .filter(|(_, side)| side.report.driver.is_some());
    match with_calls.map(|(name, _)| name).collect::<Vec<_>>().as_slice() {
        [] => {}
        [name] => notes.push(format!("only {name} has driver calls: they are not compared")),
        _ => notes.push("both sides have driver calls: only their findings are compared".to_owned()),
    }
    if pairs.is_empty() {
        notes.push(
            "neither side has a device with an allocator's events: no peaks or lines to compare".to_owned(),
        );
    }
    notes
}

fn of_pair(before: &SideDevice, after: &SideDevice, notes: &mut Vec<String>) {
    if before.device != after.device {
        let text =
            format!("device {} of BEFORE is compared with device {} of AFTER", before.device, after.device);
        notes.push(text);
    }
    for (name, device) in [("BEFORE", before), ("AFTER", after)] {
        of_device(&format!("device {} of {name}", device.device), device, notes);
    }
    let source = |device: &SideDevice| device.categories.as_ref().and_then(|found| found.source.clone());
    if let (Some(one), Some(other)) = (source(before), source(after))
        && one != other
    {
        notes.extend(
            [("BEFORE", one), ("AFTER", other)].map(|(name, how)| format!("categories are {how} in {name}")),
        );
    }
    let modules = "names modules: they are not compared, and only there a backward pass is charged to lines of the \
                   forward pass";
    match (&before.modules, &after.modules) {
        (Some(_), None) => notes.push(format!("only BEFORE {modules}")),
        (None, Some(_)) => notes.push(format!("only AFTER {modules}")),
        _ => {}
    }
}

fn of_device(name: &str, device: &SideDevice, notes: &mut Vec<String>) {
    let history = device.history.unwrap_or_default();
    if history.from_the_start == Some(false) {
        notes.push(format!(
            "{name} was recorded from a later moment on: what came before is not in its peaks"
        ));
    }
    if let Some(bytes) = history.uncertain_bytes.filter(|&bytes| bytes > 0) {
        notes.push(format!("{name} may hold up to {} more: not all sizes are proven", Bytes(bytes)));
    }
    if let Some(count) = device.lines_left_out.filter(|&count| count > 0) {
        notes.push(format!("{name} leaves out {} lines (--top): they have no figures there", Count(count)));
    }
    if device.lines.is_some() && listed(Some(device)).is_none() {
        let by = device.group_by.as_deref().unwrap_or_default();
        notes.push(format!("{name} is grouped by {by}: lines are not compared"));
    }
    let parts = [
        ("peaks", device.peak.is_none()),
        ("figures of the end", device.end.is_none()),
        ("lines", device.lines.is_none()),
        ("categories", device.categories.is_none()),
        ("fragmentation", super::figures::fragmentation(device).is_none()),
        ("steps", device.steps.is_none()),
        ("failed requests", device.ooms.is_none()),
    ];
    let missing: Vec<&str> = parts.iter().filter(|(_, missing)| *missing).map(|&(part, _)| part).collect();
    if !missing.is_empty() {
        notes.push(format!("{name} says nothing of {}: not compared", missing.join(", ")));
    }
}
