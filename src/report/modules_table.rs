//! The table of modules under that of lines: who held the memory, as people name it.
//!
//! Owns columns and remainders, like `lines_table`.

use super::columns::{Align, aligned};
use super::escape::{keep_end, terminal};
use super::recorded::{ModuleRow, PhaseRow};
use super::style::Style;
use super::types::DeviceReport;
use crate::units::{Bytes, percent};

const ALIGN: [Align; 7] =
    [Align::Right, Align::Right, Align::Right, Align::Right, Align::Right, Align::Left, Align::Left];
/// Characters of a module's name and of its line.
const NAME: usize = 60;

/// The modules of `device` with at most `top` rows, ready to print; empty when the recording names none.
#[must_use]
pub fn modules_table(device: &DeviceReport, top: usize, style: Style) -> String {
    let Some(modules) = &device.modules else { return String::new() };
    let peak = device.peak.allocated_bytes;
    let shown = &modules.rows[..top.min(modules.rows.len())];
    let mut rows = vec![header()];
    rows.extend(shown.iter().map(|row| module_row(row, peak)));
    let hidden = &modules.rows[shown.len()..];
    if !hidden.is_empty() {
        let held = hidden.iter().fold(0u64, |sum, row| sum.saturating_add(row.total.held_at_peak_bytes));
        let figures = PhaseRow { held_at_peak_bytes: held, ..PhaseRow::default() };
        rows.push(remainder(&figures, peak, format!("({} more)", hidden.len())));
    }
    rows.push(remainder(&modules.unnamed, peak, "(no module named)".to_owned()));
    let mut lines = aligned(&ALIGN, &rows);
    lines[0] = style.bold(&lines[0]);
    lines.push(style.dim(format!(
        "backward passes allocated {}, of which {} ({}) carry a module's name",
        Bytes(modules.backward_bytes),
        Bytes(modules.backward_named_bytes),
        percent(modules.backward_named_bytes, modules.backward_bytes)
    )));
    lines.join("\n") + "\n"
}

fn header() -> Vec<String> {
    ["held at peak", "share", "forward", "backward", "optimizer", "module", "forward line"]
        .map(str::to_owned)
        .to_vec()
}

fn module_row(row: &ModuleRow, peak: u64) -> Vec<String> {
    let held = row.total.held_at_peak_bytes;
    let mut cells = vec![Bytes(held).to_string(), percent(held, peak)];
    let phases = [row.forward, row.backward, row.optimizer];
    cells.extend(phases.map(|phase| Bytes(phase.held_at_peak_bytes).to_string()));
    let line = row.forward_line.as_ref().map(super::PlaceRow::label).unwrap_or_default();
    cells.extend([&row.module, &line].map(|text| keep_end(&terminal(text), NAME).into_owned()));
    cells
}

fn remainder(figures: &PhaseRow, peak: u64, label: String) -> Vec<String> {
    let held = figures.held_at_peak_bytes;
    let mut cells = vec![Bytes(held).to_string(), percent(held, peak)];
    cells.extend(vec!["-".to_owned(); 3]);
    cells.extend([label, String::new()]);
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{escape, fixtures};

    #[test]
    fn the_table_is_as_agreed_and_absent_without_modules() {
        let report = fixtures::recorded();
        insta::assert_snapshot!(modules_table(&report.traces[0].devices[0], 2, Style::plain()));
        let plain = fixtures::normal();
        assert_eq!(modules_table(&plain.traces[0].devices[0], 9, Style::plain()), "");
    }

    #[test]
    fn hostile_names_stay_in_their_line() {
        let report = fixtures::hostile();
        let device = &report.traces[0].devices[0];
        let table = modules_table(device, 100, Style::plain());
        assert!(!table.chars().any(|c| c != '\n' && escape::is_invisible(c)));
        let rows = device.modules.as_ref().map_or(0, |modules| modules.rows.len());
        assert_eq!(table.lines().count(), rows + 3);
    }
}
