//! What became of the gates of `memlab check`: plain rows, and their looks as lines and as JUnit XML.
//!
//! Owns shapes and looks. Who passes is decided in `analysis`.

use serde::Serialize;

use super::escape::{terminal, xml};
use super::style::Style;
use crate::units::Count;

/// What became of a gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It holds.
    #[default]
    Passed,
    /// The recording does not show enough to say.
    Undecided,
    /// It does not hold.
    Failed,
}

/// What `memlab check --json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct CheckReport {
    /// Version of the JSON's meaning.
    pub schema: u32,
    /// Path as given.
    pub path: String,
    /// The worst of all gates: failed before undecided before passed.
    pub outcome: Outcome,
    /// The gates, in the order of the command's description.
    pub gates: Vec<GateRow>,
}

/// A gate over all devices.
#[derive(Clone, Debug, Serialize)]
pub struct GateRow {
    /// Name of the option, without dashes.
    pub gate: String,
    /// What was asked for, as people read it: a size, a rule, the path of a baseline.
    pub asked: String,
    /// The worst of its parts.
    pub outcome: Outcome,
    /// One for each device, or finding.
    pub parts: Vec<GatePart>,
}

/// A gate on one device.
#[derive(Clone, Debug, Default, Serialize)]
pub struct GatePart {
    /// Device.
    pub device: Option<u32>,
    /// What became of it.
    pub outcome: Outcome,
    /// What the recording shows, where the gate is about bytes.
    pub actual_bytes: Option<u64>,
    /// What is allowed, where the gate is about bytes.
    pub limit_bytes: Option<u64>,
    /// A sentence without a full stop.
    pub text: String,
}

impl GateRow {
    /// A gate with its parts; without any there was nothing to look at, which decides nothing.
    #[must_use]
    pub fn new(gate: &str, asked: impl Into<String>, parts: Vec<GatePart>) -> Self {
        let outcome = parts.iter().map(|part| part.outcome).max().unwrap_or(Outcome::Undecided);
        Self { gate: gate.to_owned(), asked: asked.into(), outcome, parts }
    }

    /// `max-peak 12.0 GiB`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} {}", self.gate, self.asked)
    }

    /// Why: the parts that made the outcome.
    #[must_use]
    pub fn reason(&self) -> String {
        let told = self.parts.iter().filter(|part| part.outcome == self.outcome);
        let texts: Vec<&str> = told.map(|part| part.text.as_str()).collect();
        if texts.is_empty() {
            "the trace has no device with an allocator's events".to_owned()
        } else {
            texts.join("; ")
        }
    }
}

impl CheckReport {
    /// The report on `gates`.
    #[must_use]
    pub fn new(path: &str, gates: Vec<GateRow>) -> Self {
        let outcome = gates.iter().map(|gate| gate.outcome).max().unwrap_or_default();
        Self { schema: super::SCHEMA, path: path.to_owned(), outcome, gates }
    }
}

/// One line for each gate that does not hold or is undecided; one for all when all hold.
#[must_use]
pub fn check_text(report: &CheckReport, style: Style) -> String {
    let mut text = String::new();
    for gate in report.gates.iter().filter(|gate| gate.outcome != Outcome::Passed) {
        let (word, line) = match gate.outcome {
            Outcome::Failed => ("FAILED", check_line(gate)),
            _ => ("UNDECIDED", check_line(gate)),
        };
        let word = if gate.outcome == Outcome::Failed { style.bad(word) } else { style.warn(word) };
        text.push_str(&format!("{word} {line}\n"));
    }
    if text.is_empty() {
        let count = report.gates.len() as u64;
        let gates = if count == 1 { "gate holds" } else { "gates hold" };
        text = format!("{} {gates}\n", Count(count));
    }
    text
}

/// A gate and why, on one line without control characters.
#[must_use]
pub fn check_line(gate: &GateRow) -> String {
    terminal(&format!("{}: {}", gate.name(), gate.reason())).into_owned()
}

/// The report as JUnit XML: a test case for each gate; an undecided one is an error, so that nobody takes it for
/// passed.
#[must_use]
pub fn check_junit(report: &CheckReport) -> String {
    let count = |wanted| report.gates.iter().filter(|gate| gate.outcome == wanted).count();
    let totals = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\"",
        report.gates.len(),
        count(Outcome::Failed),
        count(Outcome::Undecided)
    );
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"memlab check\" {totals}>\n  \
         <testsuite name=\"{}\" {totals}>\n",
        xml(&report.path)
    );
    for gate in &report.gates {
        let name = gate.name();
        let case = format!("    <testcase classname=\"memlab.check\" name=\"{}\"", xml(&name));
        let reason = gate.reason();
        let reason = xml(&reason);
        text.push_str(&match gate.outcome {
            Outcome::Passed => format!("{case}>\n      <system-out>{reason}</system-out>\n    </testcase>\n"),
            Outcome::Failed => format!("{case}>\n      <failure message=\"{reason}\"/>\n    </testcase>\n"),
            Outcome::Undecided => {
                format!("{case}>\n      <error type=\"undecided\" message=\"{reason}\"/>\n    </testcase>\n")
            }
        });
    }
    text + "  </testsuite>\n</testsuites>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{escape, fixtures};

    fn gate(name: &str, outcome: Outcome, text: &str) -> GateRow {
        let part = GatePart { device: Some(0), outcome, text: text.to_owned(), ..GatePart::default() };
        GateRow::new(name, "1.0 GiB", vec![part])
    }

    fn report(outcomes: &[Outcome]) -> CheckReport {
        let gates = outcomes.iter().map(|&outcome| gate("max-peak", outcome, "device 0 is so"));
        CheckReport::new("a.pickle", gates.collect())
    }

    #[test]
    fn the_worst_outcome_is_that_of_the_whole() {
        use Outcome::{Failed, Passed, Undecided};
        assert_eq!(report(&[Passed, Failed, Undecided]).outcome, Failed);
        assert_eq!(report(&[Passed, Undecided]).outcome, Undecided);
        assert_eq!(report(&[Passed]).outcome, Passed);
        assert_eq!(GateRow::new("max-peak", "1", Vec::new()).outcome, Undecided);
    }

    #[test]
    fn failed_gates_have_a_line_each() {
        use Outcome::{Failed, Passed, Undecided};
        let text = check_text(&report(&[Passed, Failed, Undecided]), Style::plain());
        assert_eq!(
            text,
            "FAILED max-peak 1.0 GiB: device 0 is so\nUNDECIDED max-peak 1.0 GiB: device 0 is so\n"
        );
        assert_eq!(check_text(&report(&[Passed, Passed]), Style::plain()), "2 gates hold\n");
    }

    #[test]
    fn hostile_names_stay_text_in_every_form() {
        let mut report =
            CheckReport::new(fixtures::HOSTILE, vec![gate("fail-on", Outcome::Failed, fixtures::HOSTILE)]);
        report.gates[0].asked = fixtures::HOSTILE.to_owned();
        let text = check_text(&report, Style::plain());
        assert_eq!(text.lines().count(), 1);
        assert!(!text.trim_end().chars().any(escape::is_invisible), "{text:?}");
        let junit = check_junit(&report);
        assert!(!junit.contains("<script") && !junit.chars().any(|c| c != '\n' && escape::is_invisible(c)));
    }
}
