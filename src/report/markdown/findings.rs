//! Findings in the Markdown page: what should be done something about in full, the rest compact.

use super::table::Page;
use super::{code, prose};
use crate::report::told;
use crate::report::types::{FindingRow, TraceReport};
use crate::units::{Bytes, Count};

/// What findings may take of the page.
const SHARE: usize = 16_000;
/// Room that the remark about findings left out takes.
const NOTE: usize = 80;
/// Lines that are named per finding.
const MOST_LINES: usize = 3;

/// Adds the section, unless there is nothing to say.
pub(super) fn section(page: &mut Page, trace: &TraceReport) {
    let findings = told::in_order(trace, None);
    if findings.is_empty() {
        return;
    }
    let serious = findings.iter().take_while(|finding| told::is_serious(finding)).count();
    let mut part = Page::new(SHARE.min(page.room()).saturating_sub(NOTE));
    part.heading(2, "Findings");
    let shown = findings[..serious].iter().take_while(|finding| part.block(&in_full(finding))).count();
    if shown < serious {
        part.note(&format!("{} more findings: see report.json.", Count((findings.len() - shown) as u64)));
    } else if serious < findings.len() {
        part.heading(3, "Worth knowing");
        let items: Vec<String> = findings[serious..].iter().map(|finding| in_short(finding)).collect();
        part.list(&items, usize::MAX);
    }
    page.append(part);
}

fn in_full(finding: &FindingRow) -> String {
    let mut text = format!(
        "### {}: {}, device {}, {}\n\n{}.\n\n",
        finding.severity,
        prose(&finding.rule),
        finding.device,
        Bytes(finding.bytes),
        title(finding)
    );
    for (name, what) in [("Lines", lines(finding)), ("Figures", figures(finding))] {
        if !what.is_empty() {
            text.push_str(&format!("- {name}: {what}\n"));
        }
    }
    if !finding.remedy.is_empty() {
        text.push_str(&format!("- What to do: {}\n", prose(&finding.remedy)));
    }
    text.push_str(&format!("- More: {}", explained(finding)));
    text
}

fn in_short(finding: &FindingRow) -> String {
    let mut text = format!(
        "**{}** (device {}, {}): {}.",
        prose(&finding.rule),
        finding.device,
        Bytes(finding.bytes),
        title(finding)
    );
    let lines = lines(finding);
    if !lines.is_empty() {
        text.push_str(&format!(" Lines: {lines}."));
    }
    if !finding.remedy.is_empty() {
        text.push_str(&format!(" {}", prose(&finding.remedy)));
    }
    text.push_str(&format!(" More: {}", explained(finding)));
    text
}

fn title(finding: &FindingRow) -> String {
    prose(finding.title.trim_end_matches('.'))
}

fn lines(finding: &FindingRow) -> String {
    let lines = finding.lines.iter().take(MOST_LINES);
    let named = lines.map(|line| format!("{} {}", code(&told::line_label(line)), Bytes(line.bytes)));
    named.collect::<Vec<_>>().join(", ")
}

fn figures(finding: &FindingRow) -> String {
    told::figures(finding).iter().map(|figure| prose(figure)).collect::<Vec<_>>().join("; ")
}

fn explained(finding: &FindingRow) -> String {
    code(&format!("memlab explain {}", finding.rule))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixtures;

    fn text(trace: &TraceReport) -> String {
        let mut page = Page::new(50_000);
        section(&mut page, trace);
        page.into_text()
    }

    #[test]
    fn no_finding_is_no_section() {
        assert_eq!(text(&fixtures::normal().traces[0]), "");
    }

    #[test]
    fn errors_are_told_in_full_and_infos_in_short() {
        let report = fixtures::oom();
        let text = text(&report.traces[0]);
        let places =
            ["### error: fragmentation", "- What to do: Set", "### Worth knowing", "- **rounding-waste**"]
                .map(|part| text.find(part));
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{text}");
        assert!(
            text.contains("- Figures: largest free block 220.0 MiB") && text.contains("`memlab explain ")
        );
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let mut report = fixtures::oom();
        let trace = &mut report.traces[0];
        trace.findings = vec![trace.findings[1].clone(); 500];
        let text = text(trace);
        assert!(text.len() <= SHARE && text.contains(" more findings: see report.json."), "{}", text.len());
        trace.findings.iter_mut().for_each(|finding| finding.severity = "info");
        assert!(self::text(trace).contains(" more entries."));
    }
}
