//! Findings that only one side has.
//!
//! Owns when two findings are the same: rule, device and first line, where the line may have moved. What a
//! finding says in figures may differ: the lines' own figures tell that.

use std::collections::BTreeMap;

use crate::report::{FindingDiff, FindingLine, FindingsDiff, Sides, line_label};

use super::Pair;
use super::lines::Matching;
use super::side::{DiffSide, SideFinding};

/// What a finding is known by on both sides.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Identity {
    rule: String,
    device: Device,
    line: Line,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Device {
    /// A pair of compared devices.
    Pair(usize),
    /// A device that has no report of its own.
    Other(Option<u32>),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    None,
    /// A pair of lines.
    Pair(usize),
    /// A line that is not in the tables.
    Other(Option<String>, Option<u64>, Option<String>),
}

/// Those of `after` that `before` does not have, and the other way round; nothing where a side lists none.
pub(super) fn compared(sides: Sides<&DiffSide>, pairs: &[Pair<'_>], matchings: &[Matching]) -> FindingsDiff {
    let (Some(before), Some(after)) = (&sides.before.report.findings, &sides.after.report.findings) else {
        return FindingsDiff::default();
    };
    let identity = |finding: &SideFinding, is_after: bool| {
        let device = pairs.iter().position(|pair| {
            let own = if is_after { pair.after } else { pair.before };
            own.is_some_and(|own| Some(own.device) == finding.device)
        });
        Identity {
            rule: finding.rule.clone(),
            device: device.map_or(Device::Other(finding.device), Device::Pair),
            line: line(finding, device.and_then(|at| matchings.get(at)), is_after),
        }
    };
    let mut balance: BTreeMap<Identity, i64> = BTreeMap::new();
    for (findings, is_after, sign) in [(before, false, -1), (after, true, 1)] {
        for finding in findings {
            *balance.entry(identity(finding, is_after)).or_default() += sign;
        }
    }
    let mut surplus = |findings: &[SideFinding], is_after: bool, sign: i64| {
        let mut rows = Vec::new();
        // Of several alike the last ones are those that the other side does not have.
        for finding in findings.iter().rev() {
            let left = balance.entry(identity(finding, is_after)).or_default();
            if *left * sign > 0 {
                *left -= sign;
                rows.push(row(finding));
            }
        }
        rows.reverse();
        rows
    };
    FindingsDiff { appeared: surplus(after, true, 1), vanished: surplus(before, false, -1) }
}

fn line(finding: &SideFinding, matching: Option<&Matching>, is_after: bool) -> Line {
    let Some(first) = finding.lines.as_ref().and_then(|lines| lines.first()) else { return Line::None };
    let known = first.line.filter(|&number| number > 0);
    let place = (first.file.clone(), known, first.function.clone());
    let pair = matching
        .and_then(|matching| if is_after { matching.of_after(&place) } else { matching.of_before(&place) });
    pair.map_or(Line::Other(place.0, place.1, place.2), Line::Pair)
}

fn row(finding: &SideFinding) -> FindingDiff {
    let first = finding.lines.as_ref().and_then(|lines| lines.first());
    let label = first.map(|line| {
        line_label(&FindingLine {
            file: line.file.clone().unwrap_or_default(),
            line: line.line.unwrap_or(0),
            function: line.function.clone().unwrap_or_default(),
            bytes: 0,
        })
    });
    FindingDiff {
        rule: finding.rule.clone(),
        severity: finding.severity.clone().unwrap_or_else(|| "info".to_owned()),
        title: finding.title.clone().unwrap_or_default(),
        bytes: finding.bytes,
        device: finding.device,
        line: label,
    }
}
