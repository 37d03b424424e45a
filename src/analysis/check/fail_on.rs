//! The gate on findings: rules, or severities, that must not be there.

use crate::findings::{RULES, Rule, Severity, rule};
use crate::report::{DeviceReport, DriverReport, FindingRow, GatePart, GateRow, Outcome, TraceReport};

use super::Sight;

/// A finding that must not be there.
#[derive(Clone, Copy, Debug)]
pub enum FailOn {
    /// Of this rule.
    Rule(&'static Rule),
    /// Of this severity or a worse one.
    Severity(Severity),
}

/// Rules that speak of the file itself: where they do not fire, nothing unseen can make them.
const ABOUT_THE_FILE: [&str; 4] =
    ["history-incomplete", "stacks-missing", "odd-schema", "conflicting-settings"];
/// Rules that need steps: without steps their silence says nothing.
const BY_STEP: [&str; 1] = ["growth"];
/// Rules that are looked for over several files.
const BY_FILES: [&str; 1] = ["rank-imbalance"];

impl FailOn {
    /// Every name that can be given.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        let severities = [Severity::Error, Severity::Warning].map(Severity::name);
        RULES.iter().map(|rule| rule.name).chain(severities).collect()
    }

    /// What is called `name`: a rule, `error` or `warning`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let severity =
            [Severity::Error, Severity::Warning].into_iter().find(|severity| severity.name() == name);
        severity.map(Self::Severity).or_else(|| rule(name).map(Self::Rule))
    }

    /// The name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rule(rule) => rule.name,
            Self::Severity(severity) => severity.name(),
        }
    }

    fn means(self, finding: &FindingRow) -> bool {
        match self {
            Self::Rule(rule) => finding.rule == rule.name,
            Self::Severity(severity) => {
                finding.severity == severity.name() || finding.severity == Severity::Error.name()
            }
        }
    }
}

pub(super) fn gate(asked: FailOn, report: &TraceReport, sights: &[(&DeviceReport, Sight)]) -> GateRow {
    let found = report.findings.iter().filter(|finding| asked.means(finding));
    let mut parts: Vec<GatePart> = found.map(failed).collect();
    if parts.is_empty() {
        parts = sights.iter().map(|(device, sight)| silent(asked, device, sight)).collect();
        if sights.is_empty() {
            parts.extend(report.driver.as_ref().map(|driver| silent_driver(asked, driver)));
        }
    }
    GateRow::new("fail-on", asked.name(), parts)
}

fn failed(finding: &FindingRow) -> GatePart {
    GatePart {
        device: Some(finding.device),
        outcome: Outcome::Failed,
        actual_bytes: Some(finding.bytes),
        limit_bytes: None,
        text: format!("{} on device {}: {}", finding.rule, finding.device, finding.title),
    }
}

/// Rules that need driver calls and nothing else.
const BY_CALLS: [&str; 3] = ["driver-leak", "driver-refused", "preallocation"];

/// Nothing was found in a trace of driver calls alone.
fn silent_driver(asked: FailOn, driver: &DriverReport) -> GatePart {
    let name = asked.name();
    let needs_events = matches!(asked, FailOn::Rule(rule)
        if !BY_CALLS.contains(&rule.name) && !ABOUT_THE_FILE.contains(&rule.name));
    let doubt = if needs_events {
        Some("the trace has driver calls only")
    } else if !driver.complete {
        Some("the recording of calls was not closed")
    } else {
        None
    };
    let (outcome, text) = match doubt {
        Some(doubt) => (Outcome::Undecided, format!("no {name} was found, but {doubt}")),
        None => (Outcome::Passed, format!("no {name} among the driver calls")),
    };
    GatePart { outcome, text, ..GatePart::default() }
}

/// Nothing was found: does that mean that there is nothing?
fn silent(asked: FailOn, device: &DeviceReport, sight: &Sight) -> GatePart {
    let name = asked.name();
    let number = device.device;
    let doubt = match asked {
        FailOn::Rule(rule) if ABOUT_THE_FILE.contains(&rule.name) => None,
        FailOn::Rule(rule) if BY_FILES.contains(&rule.name) => {
            Some("it is looked for over several files only")
        }
        FailOn::Rule(rule) if BY_STEP.contains(&rule.name) && device.steps.count == 0 => {
            Some("the recording has no steps")
        }
        _ => sight.doubt(),
    };
    let (outcome, text) = match doubt {
        Some(doubt) => (Outcome::Undecided, format!("no {name} was found on device {number}, but {doubt}")),
        None => (Outcome::Passed, format!("no {name} on device {number}")),
    };
    GatePart { device: Some(number), outcome, text, ..GatePart::default() }
}
