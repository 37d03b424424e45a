//! `memlab whatif` on a terminal.

use super::table;
use super::types::WhatIfReport;
use crate::report::columns::{Align, aligned};
use crate::report::escape::terminal;
use crate::report::style::Style;

const ALIGN: [Align; 7] =
    [Align::Right, Align::Right, Align::Right, Align::Right, Align::Right, Align::Right, Align::Left];

/// The answer as text, ready to print.
#[must_use]
pub fn whatif_text(report: &WhatIfReport, style: Style) -> String {
    let mut out = Vec::new();
    let title = format!("What if: {}, device {}", report.path, report.device);
    out.push(style.bold(terminal(&title)));
    let trust = table::trust(report);
    let trust = terminal(&trust);
    out.push(if report.baseline.exact { trust.into_owned() } else { style.warn(trust) });
    for line in &report.changed_lines {
        let what =
            if line.factor == 0.0 { "left out".to_owned() } else { format!("scaled to {}", line.factor) };
        out.push(terminal(&format!("{}: {} allocations {what}.", line.line, line.allocations)).into_owned());
    }
    out.extend(table::limit(report));
    out.push(String::new());
    out.extend(rows(report, style));
    out.push(String::new());
    out.push(table::bounds(report));
    for note in &report.notes {
        out.push(style.dim(terminal(note)));
    }
    out.push(String::new());
    out.push(style.bold(terminal(&advice(report))));
    out.join("\n") + "\n"
}

fn rows(report: &WhatIfReport, style: Style) -> Vec<String> {
    let recorded = report.recorded_peak_bytes();
    let mut rows = vec![table::HEADER.map(str::to_owned).to_vec()];
    for row in report.settings_for_people() {
        let mut cells = table::cells(row, recorded);
        if let Some(name) = cells.last_mut() {
            *name = terminal(name).into_owned();
        }
        rows.push(cells);
    }
    let mut lines = aligned(&ALIGN, &rows);
    lines[0] = style.bold(&lines[0]);
    for (line, row) in lines[1..].iter_mut().zip(report.settings_for_people()) {
        if row.oom_event.is_some() {
            *line = style.bad(&line);
        }
    }
    lines
}

/// The recommendation in words.
pub(super) fn advice(report: &WhatIfReport) -> String {
    let found = &report.recommendation;
    match &found.conf {
        Some(conf) if conf.is_empty() => {
            format!("Use the defaults (unset PYTORCH_CUDA_ALLOC_CONF). {}", found.reason)
        }
        Some(conf) => format!("Use PYTORCH_CUDA_ALLOC_CONF={conf}. {}", found.reason),
        None => format!("Leave the settings as they are. {}", found.reason),
    }
}
