//! `whatif.md`.

use super::table;
use super::text::advice;
use super::types::WhatIfReport;
use crate::report::escape;

/// The answer as a Markdown page. `picture` is the name of the picture beside it, if there is one.
#[must_use]
pub fn whatif_markdown(report: &WhatIfReport, picture: Option<&str>) -> String {
    let escaped = |text: &str| escape::markdown_text(text);
    let name = report.path.rsplit('/').next().unwrap_or_default();
    let mut parts = vec![
        format!("# What if: {}, device {}", escaped(name), report.device),
        format!("**{}**", escaped(&advice(report))),
        escaped(&table::trust(report)),
    ];
    for line in &report.changed_lines {
        let text = format!("{}: {} allocations scaled to {}", line.line, line.allocations, line.factor);
        parts.push(escaped(&text));
    }
    parts.extend(table::limit(report).map(|text| escaped(&text)));
    parts.push(settings(report));
    parts.push(escaped(&table::bounds(report)));
    parts.extend(picture.map(|picture| format!("![Reserved bytes over time under each setting]({picture})")));
    parts.extend(report.notes.iter().map(|note| format!("- {}", escaped(note))));
    parts.join("\n\n") + "\n"
}

fn settings(report: &WhatIfReport) -> String {
    let mut lines =
        vec![format!("| {} |", table::HEADER.join(" | ")), format!("|{}---|", "--:|".repeat(table::FIGURES))];
    for row in report.settings_for_people() {
        let cells: Vec<_> = table::cells(row, report.recorded_peak_bytes())
            .iter()
            .map(|cell| escape::markdown_text(cell))
            .collect();
        lines.push(format!("| {} |", cells.join(" | ")));
    }
    lines.join("\n")
}
