//! The words of a comparison, shared by terminal, Markdown and HTML.
//!
//! Owns the verdict, the table of figures and how a line, a finding and a fact read. What is returned is raw
//! text: escaping belongs to the renderers.

use super::types::{
    CategoryDiff, Change, DeviceDiff, DiffReport, FactDiff, FindingDiff, LibraryDiff, LineDiff, LinesSum,
    ModuleDiff, OomFigures, Sides, StepFigures,
};
use crate::report::types::LineRow;
use crate::units::{Bytes, Count, SignedBytes};

/// Files that lie elsewhere, named up to this many.
const MOST_FILES: usize = 3;

/// What is shown for what a side does not know.
pub(super) const UNKNOWN: &str = "?";

/// A figure on both sides and its change, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::report) struct Figure {
    pub(super) name: &'static str,
    pub(super) before: String,
    pub(super) after: String,
    pub(super) change: String,
    pub(super) differs: bool,
}

/// `reserved peak 1.7 GiB lower (4.8 GiB → 3.1 GiB), allocated peak 15.0 MiB lower (2.8 GiB → 2.8 GiB)`.
pub(in crate::report) fn headline(device: &DeviceDiff) -> String {
    match (device.indices.before, device.indices.after) {
        (Some(_), None) => return format!("device {} is only before", device.device),
        (None, _) => return format!("device {} is only after", device.device),
        _ => {}
    }
    let reserved = peak("reserved", device.peak_of(|four| four.reserved_bytes));
    let allocated = peak("allocated", device.peak_of(|four| four.allocated_bytes));
    let text = format!("{reserved}, {allocated}");
    match failures(device) {
        Some(failures) => format!("{failures}; {text}"),
        None => text,
    }
}

fn failures(device: &DeviceDiff) -> Option<&'static str> {
    let (before, after) = (device.ooms.before.as_ref()?, device.ooms.after.as_ref()?);
    match (before.is_empty(), after.is_empty()) {
        (true, false) => Some("runs out of memory only after"),
        (false, true) => Some("ran out of memory only before"),
        (false, false) => Some("runs out of memory on both sides"),
        (true, true) => None,
    }
}

fn peak(counter: &str, peaks: Change) -> String {
    let (Some(before), Some(after), Some(delta)) = (peaks.before, peaks.after, peaks.delta()) else {
        return format!("{counter} peak not known on both sides");
    };
    match delta {
        0 => format!("{counter} peak unchanged ({})", Bytes(after)),
        delta => format!(
            "{counter} peak {} {} ({} → {})",
            Bytes(delta.unsigned_abs()),
            if delta < 0 { "lower" } else { "higher" },
            Bytes(before),
            Bytes(after)
        ),
    }
}

/// The figures of a device; most readers want those that differ.
pub(in crate::report) fn figures(device: &DeviceDiff) -> Vec<Figure> {
    let fragmentation = |of: fn(&super::FragmentationFigures) -> Option<u64>| Sides {
        before: device.fragmentation.before.as_ref().and_then(of),
        after: device.fragmentation.after.as_ref().and_then(of),
    };
    let step = |of: fn(&StepFigures) -> Option<u64>| Sides {
        before: device.steps.before.as_ref().and_then(of),
        after: device.steps.after.as_ref().and_then(of),
    };
    let bytes = [
        ("requested, peak", device.peak_of(|four| four.requested_bytes)),
        ("allocated, peak", device.peak_of(|four| four.allocated_bytes)),
        ("active, peak", device.peak_of(|four| four.active_bytes)),
        ("reserved, peak", device.peak_of(|four| four.reserved_bytes)),
        ("unused at the reserved peak", fragmentation(|row| Some(row.unused_bytes))),
        ("stranded of that", fragmentation(|row| row.stranded_bytes)),
        ("allocated at the end", device.end_of(|four| four.allocated_bytes)),
        ("reserved at the end", device.end_of(|four| four.reserved_bytes)),
        ("a step's peak, median", step(|steps| steps.median_peak_bytes)),
        ("a step's peak, highest", step(|steps| steps.max_peak_bytes)),
    ];
    let mut figures: Vec<Figure> = bytes.into_iter().map(|(name, change)| of_bytes(name, change)).collect();
    figures.insert(5, ratio(device));
    figures.push(growth(device));
    figures.push(of_text("steps", device.steps.before.as_ref(), device.steps.after.as_ref(), steps));
    let ooms = |ooms: &Vec<OomFigures>| failed(ooms);
    figures.push(of_text("failed requests", device.ooms.before.as_ref(), device.ooms.after.as_ref(), ooms));
    figures
}

fn of_bytes(name: &'static str, change: Change) -> Figure {
    let text =
        |bytes: Option<u64>| bytes.map_or_else(|| UNKNOWN.to_owned(), |bytes| Bytes(bytes).to_string());
    Figure {
        name,
        before: text(change.before),
        after: text(change.after),
        change: signed(change.delta()),
        differs: change.differs(),
    }
}

fn of_text<T: PartialEq>(
    name: &'static str,
    before: Option<&T>,
    after: Option<&T>,
    text: impl Fn(&T) -> String,
) -> Figure {
    let shown = |side: Option<&T>| side.map_or_else(|| UNKNOWN.to_owned(), &text);
    Figure {
        name,
        before: shown(before),
        after: shown(after),
        change: String::new(),
        differs: Sides { before, after }.differs(),
    }
}

fn ratio(device: &DeviceDiff) -> Figure {
    let of = device.fragmentation;
    let text = |ratio: f64| format!("{:.1} %", ratio * 100.0);
    let shown =
        |side: Option<super::FragmentationFigures>| side.map_or(UNKNOWN.to_owned(), |row| text(row.ratio));
    let change = match (of.before, of.after) {
        (Some(before), Some(after)) => format!("{:+.1} points", (after.ratio - before.ratio) * 100.0),
        _ => UNKNOWN.to_owned(),
    };
    Figure {
        name: "as a share of reserved",
        before: shown(of.before),
        after: shown(of.after),
        differs: shown(of.before) != shown(of.after) && of.before.is_some() && of.after.is_some(),
        change,
    }
}

fn growth(device: &DeviceDiff) -> Figure {
    let of = |steps: &Option<StepFigures>| steps.as_ref().and_then(|steps| steps.median_growth_bytes);
    let sides = Sides { before: of(&device.steps.before), after: of(&device.steps.after) };
    let change = sides.before.zip(sides.after).map(|(before, after)| after.saturating_sub(before));
    Figure {
        name: "growth a step, median",
        before: signed(sides.before),
        after: signed(sides.after),
        change: signed(change),
        differs: sides.differs(),
    }
}

fn steps(steps: &StepFigures) -> String {
    match steps.count {
        0 => "none".to_owned(),
        count => format!("{} ({})", Count(count), steps.source),
    }
}

fn failed(ooms: &[OomFigures]) -> String {
    let Some(last) = ooms.last() else { return "none".to_owned() };
    let verdict = last.verdict.as_deref().unwrap_or("unknown");
    let asked = last.requested_bytes.map(|bytes| format!(", {} asked", Bytes(bytes))).unwrap_or_default();
    match ooms.len() {
        1 => format!("{verdict}{asked}"),
        count => format!("{}, last {verdict}{asked}", Count(count as u64)),
    }
}

/// `text` with a capital in front.
pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

pub(super) fn signed(delta: Option<i64>) -> String {
    delta.map_or_else(|| UNKNOWN.to_owned(), |delta| SignedBytes(delta).to_string())
}

pub(super) fn size(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| UNKNOWN.to_owned(), |bytes| Bytes(bytes).to_string())
}

/// How people read a line, and what it was before: `train.py:12 step` and `was line 10`.
pub(super) fn line(row: &LineDiff) -> (String, Option<String>) {
    let label = LineRow {
        file: row.file.clone(),
        line: row.line,
        function: row.function.clone(),
        ..LineRow::default()
    };
    let was = match (&row.places.before, &row.places.after) {
        (Some(before), Some(_)) if row.moved => {
            Some(before.line.map_or_else(|| "was elsewhere".to_owned(), |line| format!("was line {line}")))
        }
        (Some(_), Some(_)) => None,
        (None, _) => Some("new".to_owned()),
        (_, None) => Some("gone".to_owned()),
    };
    (label.label(), was)
}

/// Rows that hold more after, and rows that hold less, each with the sum of all such lines and a title.
pub(super) fn grown_and_shrunk(device: &DeviceDiff) -> [(Vec<&LineDiff>, LinesSum, String); 2] {
    [(1, device.grown, "more"), (-1, device.shrunk, "less")].map(
        |(sign, sum, what): (i64, LinesSum, &str)| {
            let is_such =
                |row: &&LineDiff| row.figures.delta_bytes.is_some_and(|delta| delta.signum() == sign);
            let title = format!("{what} at the peak: {}", signed(Some(sum.delta_bytes)));
            (device.lines.iter().filter(is_such).collect(), sum, title)
        },
    )
}

/// Rows that neither grew nor shrank at the peak, as far as is known.
pub(super) fn other_lines(device: &DeviceDiff) -> (usize, usize) {
    let unknown = device.lines.iter().filter(|row| row.figures.delta_bytes.is_none()).count();
    let level = device.lines.iter().filter(|row| row.figures.delta_bytes == Some(0) && row.figures.differs());
    (level.count(), unknown)
}

/// Sentences about lines that no table shows.
pub(super) fn line_notes(device: &DeviceDiff) -> Vec<String> {
    let lines = |count: u64, one: &str, many: &str| match count {
        1 => format!("1 line {one}"),
        count => format!("{} lines {many}", Count(count)),
    };
    let (level, unknown) = other_lines(device);
    let mut notes = Vec::new();
    if level > 0 {
        let differ = "in the own peak, in all bytes or at the end";
        let one = format!("holds the same at the peak, but differs {differ}");
        notes.push(lines(level as u64, &one, &format!("hold the same at the peak, but differ {differ}")));
    }
    if unknown > 0 {
        notes.push(lines(unknown as u64, "is known on one side only", "are known on one side only"));
    }
    if device.lines_left_out > 0 {
        notes.push(lines(device.lines_left_out, "is left out by --top", "are left out by --top"));
    }
    if device.lines_moved > 0 {
        let how = "moved: matched by function and stack";
        notes.push(lines(device.lines_moved, how, how));
    }
    let files = device.files_moved.iter().take(MOST_FILES);
    notes.extend(files.map(|file| format!("{} is taken for {}", file.after, file.before)));
    if device.files_moved.len() > MOST_FILES {
        let rest = (device.files_moved.len() - MOST_FILES) as u64;
        notes.push(format!("{} more files lie elsewhere", Count(rest)));
    }
    notes
}

/// Rows within libraries that hold more or less at the peak, the number of all such rows, and a title.
pub(super) fn changed_within(libraries: &LibraryDiff) -> (Vec<&LineDiff>, u64, String) {
    let (grown, shrunk) = (libraries.grown, libraries.shrunk);
    let rows = libraries.rows.iter().filter(|row| row.figures.held().differs());
    let delta = grown.delta_bytes.saturating_add(shrunk.delta_bytes);
    (rows.collect(), grown.count + shrunk.count, format!("within libraries: {}", signed(Some(delta))))
}

/// As [`line()`], with a file named from its package on: `transformers/activations.py:103 forward`.
pub(super) fn library_line(row: &LineDiff) -> (String, Option<String>) {
    let file = row.file.as_deref().unwrap_or_default();
    let folders = ["site-packages", "dist-packages"];
    let ends = folders.iter().filter_map(|folder| file.rfind(folder).map(|at| at + folder.len()));
    let path = &file[ends.max().unwrap_or(0)..];
    let file = Some(path.trim_start_matches(['/', '\\']).to_owned());
    line(&LineDiff { file, ..row.clone() })
}

/// Sentences about lines, the user's and those of libraries, that no table shows.
pub(super) fn all_notes(device: &DeviceDiff) -> Vec<String> {
    let mut notes = line_notes(device);
    notes.extend(device.library_lines.iter().flat_map(library_notes));
    notes
}

/// Sentences about lines of libraries that no table shows.
pub(super) fn library_notes(libraries: &LibraryDiff) -> Vec<String> {
    let lines = |count: u64, one: &str, many: &str| match count {
        0 => None,
        1 => Some(format!("1 line of a library {one}")),
        count => Some(format!("{} lines of libraries {many}", Count(count))),
    };
    let level = |row: &&LineDiff| row.figures.delta_bytes == Some(0) && row.figures.differs();
    let level = libraries.rows.iter().filter(level).count() as u64;
    let one = "holds the same at the peak, but differs otherwise";
    let level = lines(level, one, "hold the same at the peak, but differ otherwise");
    let left_out = lines(libraries.rows_left_out, "is left out by --top", "are left out by --top");
    level.into_iter().chain(left_out).collect()
}

/// `not in a library: -128.0 KiB (241.4 MiB → 241.3 MiB)`, where it differs.
pub(super) fn no_library(libraries: &LibraryDiff) -> Option<String> {
    let rest = &libraries.no_library;
    let (before, after) = (size(rest.before_bytes), size(rest.after_bytes));
    let text = format!("not in a library: {} ({before} → {after})", signed(rest.delta_bytes));
    rest.held().differs().then_some(text)
}

/// `activation -350.9 MiB (457.2 MiB → 106.3 MiB)`.
pub(super) fn category(row: &CategoryDiff) -> String {
    let (name, change) = (row.category.replace('_', " "), signed(row.delta_bytes));
    format!("{name} {change} ({} → {})", size(row.before_bytes), size(row.after_bytes))
}

/// A module's name, or that it has none.
pub(super) fn module(row: &ModuleDiff) -> String {
    row.module.clone().unwrap_or_else(|| "(no module named)".to_owned())
}

/// Categories that differ at the peak.
pub(super) fn changed_categories(device: &DeviceDiff) -> Vec<&CategoryDiff> {
    device.categories.iter().flatten().filter(|row| row.delta_bytes != Some(0)).collect()
}

/// Modules that differ at the peak.
pub(super) fn changed_modules(device: &DeviceDiff) -> Vec<&ModuleDiff> {
    device.modules.iter().flatten().filter(|row| row.delta_bytes != Some(0)).collect()
}

/// `warning growth: TITLE`.
pub(super) fn finding(row: &FindingDiff) -> String {
    format!("{} {}: {}", row.severity, row.rule, row.title)
}

/// `PyTorch: 2.10.0 → 2.11.0`.
pub(super) fn fact(row: &FactDiff) -> String {
    let text =
        |value: &Option<String>| value.clone().unwrap_or_else(|| "(not set or not recorded)".to_owned());
    format!("{}: {} → {}", row.name, text(&row.before), text(&row.after))
}

/// Findings that only one side has, settings and facts that differ: what stands before each, and the rows.
pub(super) fn lists(report: &DiffReport) -> Vec<(&'static str, Vec<String>)> {
    let findings = |rows: &[FindingDiff]| rows.iter().map(finding).collect::<Vec<_>>();
    let facts = |rows: &[FactDiff]| rows.iter().map(fact).collect::<Vec<_>>();
    let lists = vec![
        ("Findings that appeared", findings(&report.findings.appeared)),
        ("Findings that vanished", findings(&report.findings.vanished)),
        ("Settings that differ", facts(&report.settings)),
        ("Facts that differ", facts(&report.process)),
    ];
    lists.into_iter().filter(|(_, rows)| !rows.is_empty()).collect()
}

/// Why there is no picture of a device; `None` where there is one.
pub(in crate::report) fn picture_note(device: &DeviceDiff) -> Option<&'static str> {
    let (before, after) = (&device.timelines.before, &device.timelines.after);
    match (before.x.is_empty(), after.x.is_empty()) {
        (false, false) if before.x_is_time != after.x_is_time => {
            Some("no picture: one recording has times and the other has none")
        }
        (false, false) => None,
        _ => Some("no picture: a report has no curve, only a recording has"),
    }
}
