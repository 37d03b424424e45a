//! Findings as rows of the report, and the facts that rules over several devices or files are handed.
//!
//! Owns the translation; what is found is `findings`'.

use crate::findings::{DeviceFacts, Finding, LineBytes, Scene, SettingHelp};
use crate::report::{FindingLine, FindingRow, HelpRow};
use crate::tables;

/// A finding in the report's words.
pub(super) fn row(finding: Finding) -> FindingRow {
    FindingRow {
        rule: finding.rule.name.to_owned(),
        severity: finding.severity.name(),
        title: finding.title,
        bytes: finding.bytes,
        device: finding.device.0,
        lines: finding.lines.into_iter().map(line).collect(),
        evidence: finding.evidence,
        remedy: finding.remedy,
    }
}

fn line(line: LineBytes) -> FindingLine {
    FindingLine { file: line.file, line: line.line, function: line.function, bytes: line.bytes }
}

/// What a replay recommends, if it recommends a setting.
pub(super) fn setting(help: &HelpRow) -> Option<SettingHelp> {
    let conf = help.recommendation.conf.as_deref().filter(|conf| !conf.is_empty())?;
    let setting = help.settings.iter().find(|setting| setting.conf == conf)?;
    Some(SettingHelp {
        conf: conf.to_owned(),
        reason: help.recommendation.reason.clone(),
        fits: setting.oom_event.is_none(),
        peak_reserved_bytes: setting.peak_reserved_bytes,
        saved_bytes: setting.saved_bytes,
    })
}

/// What rules over several devices are handed of this one; what only those over several files look at is left out
/// unless there are several.
pub(super) fn facts(scene: &Scene<'_>, several_files: bool) -> DeviceFacts {
    let history = scene.history;
    let rows = &history.allocations;
    let by_line = |rows: &mut dyn Iterator<Item = usize>| {
        scene.by_line(rows.map(|row| (row, history.allocations.block_bytes[row])))
    };
    let (active, allocated) = (history.peaks.active, history.peaks.allocated);
    let is_pending = several_files && active.bytes - active.bytes.min(allocated.bytes) >= active.bytes / 20;
    let at_active_peak = |row: &usize| is_pending && history.allocations.is_active_at(*row, active.moment);
    let steps =
        if several_files { tables::step_lines(history, scene.lines, scene.steps) } else { Vec::new() };
    let named = |lines: Vec<(u32, u64)>| {
        lines.into_iter().filter_map(|(group, bytes)| scene.line_of_group(group, bytes)).collect()
    };
    DeviceFacts {
        device: scene.id(),
        events: history.events,
        allocations: rows.len() as u64,
        peaks: history.peaks,
        end: history.end,
        from_the_start: history.from_the_start,
        lines_at_peak: by_line(&mut scene.live_at(allocated.moment)),
        lines_at_active_peak: is_pending.then(|| by_line(&mut (0..rows.len()).filter(at_active_peak))),
        step_peaks: scene.steps.rows.iter().map(|step| step.peak_allocated.bytes).collect(),
        step_ends: scene.steps.rows.iter().map(|step| step.end_allocated_bytes).collect(),
        step_lines: steps.into_iter().map(named).collect(),
        warnings: history.warnings.clone(),
    }
}
