//! The table of lines: the first rows, and at the bottom what is not among them.

use std::fmt::Write as _;

use crate::report::escape::xml;
use crate::report::html::table::{Cell, Row, Table, band_class, column};
use crate::report::html::text::{Name, visible_end};
use crate::report::lines_table::bytes_of_other_lines;
use crate::report::types::{DeviceReport, LineFigures, LineRow, SourceRow};
use crate::units::Count;

/// Frames of a stack that are listed under its row.
const MOST_FRAMES: usize = 40;
/// Characters of one of them.
const LONGEST_FRAME: usize = 200;
const COLUMNS: usize = 8;

/// The first `most` lines of `device`; the page's script adds the others.
pub(in crate::report::html) fn lines(device: &DeviceReport, place: usize, most: usize) -> Table {
    let shown = &device.lines[..most.min(device.lines.len())];
    let peak = device.peak.allocated_bytes;
    let columns = vec![
        column("words", "label", "line"),
        column("bytes", "held_at_peak_bytes", "held at peak").hint("Live when allocated bytes peak").sorted(),
        column("share", "held_at_peak_bytes", "share").hint("Of allocated bytes at their peak"),
        column("bytes", "own_peak_bytes", "own peak")
            .hint("The most that the line's allocations ever held at one moment"),
        column("bytes", "active_peak_on_stack_bytes", "active on stack")
            .hint("The highest total of active bytes while the line is on the stack"),
        column("count", "allocations", "allocations"),
        column("bytes", "total_bytes", "bytes in all").hint("Of all its allocations together"),
        column("bytes", "live_at_end_bytes", "live at end").hint("Live after the last event"),
    ];
    let rows = shown.iter().enumerate().map(|(rank, line)| row(line, rank, peak)).collect();
    let mut rest = Vec::new();
    let others = (device.lines.len() - shown.len()) as u64 + device.lines_left_out;
    if others > 0 {
        let held = bytes_of_other_lines(device, shown);
        let figures = vec![Cell::Bytes(held), share(held, peak, "other")];
        rest.push(Row::rest("more", &format!("{} more", Count(others)), figures, COLUMNS));
    }
    let figures = figures(&device.unattributed, Cell::Dash, "unknown", peak);
    rest.push(Row::rest("unknown", "no line known", figures, COLUMNS));
    let whole = vec![Cell::Bytes(peak), share(peak, peak, "track")];
    rest.push(Row::rest("total", "allocated at the peak", whole, COLUMNS));
    Table { kind: "lines", place, caption: "Memory by line of code", row_word: "line", columns, rows, rest }
}

fn share(part: u64, whole: u64, class: &str) -> Cell {
    Cell::Share { part, whole, class: class.to_owned() }
}

fn row(line: &LineRow, rank: usize, peak: u64) -> Row {
    let class = band_class(rank);
    let head = Cell::Swatch { name: Name::of_line(line), class: class.clone(), after: after(line) };
    let mut cells = vec![head];
    cells.extend(figures(&line.figures, Cell::Bytes(line.active_peak_on_stack_bytes), &class, peak));
    Row::new(cells)
}

fn figures(figures: &LineFigures, on_stack: Cell, class: &str, peak: u64) -> Vec<Cell> {
    vec![
        Cell::Bytes(figures.held_at_peak_bytes),
        share(figures.held_at_peak_bytes, peak, class),
        Cell::Bytes(figures.own_peak_bytes),
        on_stack,
        Cell::Count(figures.allocations),
        Cell::Bytes(figures.total_bytes),
        Cell::Bytes(figures.live_at_end_bytes),
    ]
}

/// What stands behind a line's name: the mark of inference, its stack, its source. Finished HTML.
fn after(line: &LineRow) -> String {
    let mut text = String::new();
    if line.figures.inferred_bytes > 0 {
        let exact = Count(line.figures.inferred_bytes);
        write!(text, " <span class=\"mark\" title=\"{exact} bytes of it are inferred\">inferred</span>")
            .expect("writing to a string does not fail");
    }
    if let Some(stack) = &line.stack {
        let frames =
            stack.iter().take(MOST_FRAMES).map(|frame| xml(&visible_end(frame, LONGEST_FRAME)).into_owned());
        let frames: Vec<String> = frames.collect();
        text += &format!("<details><summary>stack</summary><pre>{}</pre></details>", frames.join("\n"));
    }
    if let Some(source) = &line.source {
        text += &self::source(source, line.line);
    }
    text
}

/// The lines around; the line itself is marked.
fn source(source: &SourceRow, line: Option<u64>) -> String {
    let numbered = source.text.iter().zip(source.first..).map(|(text, number)| {
        let row = format!("{number:>6}  {}", xml(text));
        if Some(number) == line { format!("<mark>{row}</mark>") } else { row }
    });
    let rows: Vec<String> = numbered.collect();
    let file = Name::new(&source.file);
    format!(
        "<details class=\"source\"><summary>source: {file}</summary><pre>{}</pre></details>",
        rows.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use askama::Template as _;

    use super::*;
    use crate::report::fixtures;

    #[test]
    fn shown_rows_and_the_rest_add_up_to_the_peak() {
        let report = fixtures::normal();
        let device = &report.traces[0].devices[0];
        for most in [0, 3, 100] {
            let table = lines(device, 0, most);
            let held = |row: &Row| match row.cells[1] {
                Cell::Bytes(bytes) if row.rest != "total" => bytes,
                _ => 0,
            };
            let sum: u64 = table.rows.iter().chain(&table.rest).map(held).sum();
            assert_eq!(sum, device.peak.allocated_bytes, "{most}");
        }
    }

    #[test]
    fn source_text_stands_under_its_line_and_is_text() {
        let mut report = fixtures::normal();
        let device = &mut report.traces[0].devices[0];
        let text = ["a = 1", "if a < 2: # </pre><script>", "\tb = 3"].map(str::to_owned).to_vec();
        device.lines[0].source = Some(SourceRow { file: "train.py".to_owned(), first: 99, text });
        let shown = lines(device, 0, 5).render().unwrap();
        assert!(shown.contains("<mark>   100  if a &lt; 2: # &lt;/pre&gt;&lt;script&gt;</mark>"), "{shown}");
        assert!(shown.contains("    99  a = 1\n"), "{shown}");
    }
}
