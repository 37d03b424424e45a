//! Findings as rows of the report, and the facts that rules over several devices or files are handed.
//!
//! Owns the translation; what is found is `findings`'.

use crate::findings::{DeviceFacts, Finding, LineBytes, Scene, SettingHelp};
use crate::report::{FindingLine, FindingRow, HelpRow};

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

/// What rules over several devices are handed of this one.
pub(super) fn facts(scene: &Scene<'_>) -> DeviceFacts {
    let history = scene.history;
    let rows = &history.allocations;
    let at_peak = scene.live_at(history.peaks.allocated.moment);
    DeviceFacts {
        device: scene.id(),
        events: history.events,
        allocations: rows.len() as u64,
        peaks: history.peaks,
        end: history.end,
        from_the_start: history.from_the_start,
        lines_at_peak: scene.by_line(at_peak.map(|row| (row, rows.block_bytes[row]))),
        step_peaks: scene.steps.rows.iter().map(|step| step.peak_allocated.bytes).collect(),
    }
}
