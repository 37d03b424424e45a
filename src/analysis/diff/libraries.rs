//! Where within libraries the bytes of two recordings are.
//!
//! Owns that both sides must be traces, for a report does not say. Lines are matched by the same rule as the
//! user's own: a package lies elsewhere on another machine, and its lines move with its version.

use crate::compare::match_lines;
use crate::error::Result;
use crate::model::{DeviceTrace, Trace};
use crate::rebuild::rebuild;
use crate::report::{LibraryDiff, Sides};
use crate::tables::{Figures, LineFingerprint, LineTableRow, library_lines};

use super::Pair;
use super::lines::{NOTHING, figures, rows_of, sum, traits};
use super::side::{DiffSide, SideDevice, SideFigures, SideLine};

/// Lines of libraries on one device of a trace.
#[derive(Clone, Debug, Default)]
pub(super) struct SideLibraries {
    lines: Vec<SideLine>,
    no_library: SideFigures,
    fingerprints: Vec<LineFingerprint>,
}

/// Those of `device`.
pub(super) fn of(trace: &Trace, device: &DeviceTrace) -> Result<SideLibraries> {
    let table = library_lines(trace, device, &rebuild(trace, device))?;
    Ok(SideLibraries {
        lines: table.rows.into_iter().map(line).collect(),
        no_library: known(table.no_library),
        fingerprints: table.fingerprints,
    })
}

fn line(row: LineTableRow) -> SideLine {
    SideLine { file: row.file, line: row.line, function: row.function, figures: known(row.figures) }
}

fn known(figures: Figures) -> SideFigures {
    SideFigures {
        held_at_peak_bytes: Some(figures.held_at_peak_bytes),
        own_peak_bytes: Some(figures.own_peak_bytes),
        total_bytes: Some(figures.total_bytes),
        allocations: Some(figures.allocations),
        live_at_end_bytes: Some(figures.live_at_end_bytes),
    }
}

/// The comparison; `None` where a side is a report, or neither is in any library.
pub(super) fn compared(pair: Pair<'_>, sides: Sides<&DiffSide>, all: bool) -> Option<LibraryDiff> {
    let (before, after) = (known_of(sides.before, pair.before)?, known_of(sides.after, pair.after)?);
    if before.lines.is_empty() && after.lines.is_empty() {
        return None;
    }
    let known_by = |side: &SideLibraries| traits(Some(&side.fingerprints), &side.lines);
    let pairs = match_lines(&known_by(before), &known_by(after));
    let lines = Sides { before: before.lines.as_slice(), after: after.lines.as_slice() };
    let mut rows = rows_of(&pairs, lines, Sides { before: NOTHING, after: NOTHING });
    let (grown, shrunk) = (sum(&rows, 1), sum(&rows, -1));
    let listed = rows.len();
    rows.retain(|row| all || row.figures.differs());
    Some(LibraryDiff {
        rows_unchanged: (listed - rows.len()) as u64,
        rows,
        rows_left_out: 0,
        grown,
        shrunk,
        no_library: figures(before.no_library, after.no_library),
    })
}

fn known_of<'a>(side: &'a DiffSide, device: Option<&SideDevice>) -> Option<&'a SideLibraries> {
    side.of_trace.as_ref()?.libraries.get(&device?.device)
}

/// Whether no figure differs.
pub(super) fn is_same(libraries: &LibraryDiff) -> bool {
    !libraries.no_library.differs() && libraries.rows.iter().all(|row| !row.figures.differs())
}
