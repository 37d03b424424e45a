//! Findings as every output tells them: in which order, and which of their figures in which words.
//!
//! Owns order and words; looks and escaping belong to the renderers. What is returned is raw text.

use serde_json::Value;

use super::types::{FindingLine, FindingRow, LineRow, TraceReport};
use crate::units::{Bytes, Count, SignedBytes};

/// How many figures of one finding are told.
const MOST_FIGURES: usize = 10;

/// Findings about `device`, or all of them: most serious first, otherwise as they came.
pub(super) fn in_order(trace: &TraceReport, device: Option<u32>) -> Vec<&FindingRow> {
    let concerns = |finding: &&FindingRow| device.is_none_or(|device| finding.device == device);
    let mut findings: Vec<_> = trace.findings.iter().filter(concerns).collect();
    findings.sort_by_key(|finding| rank(finding.severity));
    findings
}

fn rank(severity: &str) -> u8 {
    match severity {
        "error" => 0,
        "warning" => 1,
        _ => 2,
    }
}

/// Whether something should be done about it.
pub(super) fn is_serious(finding: &FindingRow) -> bool {
    rank(finding.severity) < 2
}

/// How people read the line of a finding; a line number of 0 is one that is not known.
pub(crate) fn line_label(line: &FindingLine) -> String {
    let row = LineRow {
        file: Some(line.file.clone()),
        line: Some(line.line).filter(|&number| number > 0),
        function: Some(line.function.clone()).filter(|function| !function.is_empty()),
        ..LineRow::default()
    };
    row.label()
}

/// The figures that prove `finding`, as words with their value: `stranded 900.0 MiB`, sizes first. Sizes of
/// nothing, lists and tables are left to the JSON.
pub(super) fn figures(finding: &FindingRow) -> Vec<String> {
    let is_size = |name: &str| name.ends_with("_bytes") || name.contains("_bytes_");
    let sizes = finding.evidence.iter().filter(|(name, _)| is_size(name));
    let others = finding.evidence.iter().filter(|(name, _)| !is_size(name));
    let told = |(name, value): (&String, &Value)| {
        if is_size(name) && value.as_u64() == Some(0) {
            return None;
        }
        let label = name.strip_suffix("_bytes").unwrap_or(name).replace("_bytes_", "_").replace('_', " ");
        Some(format!("{label} {}", shown(value, is_size(name))?))
    };
    sizes.chain(others).filter_map(told).take(MOST_FIGURES).collect()
}

fn shown(value: &Value, is_size: bool) -> Option<String> {
    match value {
        Value::Bool(true) => Some("yes".to_owned()),
        Value::Bool(false) => Some("no".to_owned()),
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (Some(bytes), _, _) if is_size => Bytes(bytes).to_string(),
            (_, Some(bytes), _) if is_size => SignedBytes(bytes).to_string(),
            (Some(count), _, _) => Count(count).to_string(),
            (_, Some(count), _) => count.to_string(),
            (_, _, number) => format!("{:.2}", number?),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixtures;

    #[test]
    fn errors_come_first_and_each_device_has_its_own() {
        let report = fixtures::oom();
        let trace = &report.traces[0];
        let rules = |device| in_order(trace, device).iter().map(|f| f.rule.clone()).collect::<Vec<_>>();
        assert_eq!(rules(None), ["fragmentation", "rounding-waste"]);
        assert_eq!(rules(Some(0)).len(), 2);
        assert!(rules(Some(1)).is_empty());
    }

    #[test]
    fn figures_are_words_and_sizes_come_first() {
        let mut report = fixtures::oom();
        let finding = &mut report.traces[0].findings[0];
        for (name, value) in [
            ("blocks", Value::from(1_204)),
            ("fits", true.into()),
            ("lists", vec![1].into()),
            ("share", 0.5.into()),
            ("slope_bytes_per_step", 1024.into()),
            ("saved_bytes", (-2048).into()),
            ("wasted_bytes", 0.into()),
            ("conf", "a:b".into()),
        ] {
            finding.evidence.insert(name.to_owned(), value);
        }
        let sizes = ["largest free block 220.0 MiB", "saved -2.0 KiB", "slope per step 1.0 KiB"];
        let figures = figures(finding);
        assert_eq!(figures[..3], sizes);
        assert_eq!(figures[3..], ["blocks 1,204", "conf a:b", "fits yes", "share 0.50"]);
    }

    #[test]
    fn a_line_without_a_number_is_named_without_one() {
        let line = |number| FindingLine { file: "a.py".into(), line: number, function: "f".into(), bytes: 1 };
        assert_eq!(line_label(&line(3)), "a.py:3 f");
        assert_eq!(line_label(&line(0)), "a.py f");
    }
}
