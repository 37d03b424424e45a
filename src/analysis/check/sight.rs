//! What a trace does not show, as far as gates are concerned.

use crate::findings::faults::{Fault, fault};
use crate::report::{DeviceReport, TraceReport};
use crate::units::Count;

/// Doubts about a device, in words that follow "but"; none when everything is seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sight {
    /// What is shown may itself be too high or too low: events between others are missing, or the file contradicts
    /// itself.
    pub(super) figures: Option<String>,
    /// What is shown is right, but not all: more came before or after it.
    pub(super) rest: Option<String>,
}

impl Sight {
    /// What is not seen of `device`; with `recorded_part` what came before and after is not asked for.
    pub(super) fn of(report: &TraceReport, device: &DeviceReport, recorded_part: bool) -> Self {
        let figures = doubt_of_figures(report);
        let rest = if recorded_part { None } else { doubt_of_rest(report, device, figures.is_some()) };
        Self { figures, rest }
    }

    /// Any of the doubts.
    pub(super) fn doubt(&self) -> Option<&str> {
        self.figures.as_deref().or(self.rest.as_deref())
    }
}

fn count(report: &TraceReport, wanted: Fault) -> u64 {
    let counts = report.warnings.iter().filter(|warning| fault(&warning.kind) == Some(wanted));
    counts.fold(0, |sum: u64, warning| sum.saturating_add(warning.count))
}

fn doubt_of_figures(report: &TraceReport) -> Option<String> {
    let missing = count(report, Fault::Gap);
    if missing > 0 {
        return Some(format!("events are missing from the trace ({} faults)", Count(missing)));
    }
    let impossible = count(report, Fault::Impossible);
    if impossible > 0 {
        return Some(format!("the file has {} impossible values", Count(impossible)));
    }
    let contradictions = count(report, Fault::Contradiction);
    let many = u128::from(contradictions) * 100 >= u128::from(report.events);
    (contradictions > 0 && many).then(|| {
        format!(
            "the file contradicts itself ({} times in {} events)",
            Count(contradictions),
            Count(report.events)
        )
    })
}

fn doubt_of_rest(report: &TraceReport, device: &DeviceReport, has_gap: bool) -> Option<String> {
    if !device.history.from_the_start {
        return Some("the recording begins late: what came before is not seen".to_owned());
    }
    if count(report, Fault::Overwritten) > 0 {
        return Some("the recording's oldest events were overwritten".to_owned());
    }
    let is_cut = count(report, Fault::Cut) > 0 || (!report.complete && !has_gap);
    is_cut.then(|| "the file is cut: what came later is not seen".to_owned())
}
