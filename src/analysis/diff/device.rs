//! One device of each side, compared, and whether they are the same.

use crate::report::{CategoryDiff, Change, DeviceDiff, Four, ModuleDiff, Sides};

use super::lines::{self, Matching};
use super::side::{DiffSide, SideDevice};
use super::{Pair, figures, libraries};

/// The comparison of a pair of devices; with `all`, lines without a difference stay in it.
pub(super) fn compared(
    pair: Pair<'_>,
    sides: Sides<&DiffSide>,
    matching: &Matching,
    all: bool,
) -> DeviceDiff {
    let mut rows = lines::rows(pair, matching);
    let lines_moved = rows.iter().filter(|row| row.moved).count() as u64;
    let lines_unchanged = rows.iter().filter(|row| !row.figures.differs() && is_known(row)).count() as u64;
    let (grown, shrunk) = (lines::sum(&rows, 1), lines::sum(&rows, -1));
    let files_moved = lines::moved_files(&rows);
    if !all {
        rows.retain(|row| row.figures.differs() || !is_known(row));
    }
    let both = pair.before.zip(pair.after);
    let remainder = |device: Option<&SideDevice>| {
        device
            .filter(|_| lines::listed(device).is_some())
            .and_then(|device| device.unattributed)
            .unwrap_or_default()
    };
    let of = Sides { before: pair.before, after: pair.after };
    DeviceDiff {
        device: pair.after.or(pair.before).map_or(0, |device| device.device),
        indices: each(of, |device| Some(device.device)),
        peak: each(of, |device| device.peak),
        end: each(of, |device| device.end),
        lines: rows,
        lines_unchanged: if all { 0 } else { lines_unchanged },
        lines_moved,
        files_moved,
        grown,
        shrunk,
        lines_left_out: 0,
        unattributed: lines::figures(remainder(pair.before), remainder(pair.after)),
        library_lines: libraries::compared(pair, sides, all),
        categories: both.and_then(|(before, after)| figures::categories(before, after)),
        modules: both.and_then(|(before, after)| figures::modules(before, after)),
        fragmentation: each(of, figures::fragmentation),
        steps: each(of, figures::steps),
        ooms: each(of, figures::ooms),
        timelines: Sides::default(),
    }
}

/// Whether both sides know what the line held.
fn is_known(row: &crate::report::LineDiff) -> bool {
    row.figures.delta_bytes.is_some()
}

fn each<T>(of: Sides<Option<&SideDevice>>, read: impl Fn(&SideDevice) -> Option<T>) -> Sides<Option<T>> {
    Sides { before: of.before.and_then(&read), after: of.after.and_then(&read) }
}

/// Whether nothing that both sides know differs.
pub(super) fn is_same(device: &DeviceDiff) -> bool {
    let lines = device.lines.iter().all(|line| !line.figures.differs()) && !device.unattributed.differs();
    let libraries = device.library_lines.as_ref().is_none_or(libraries::is_same);
    let categories = device.categories.iter().flatten().all(is_same_category);
    let modules = device.modules.iter().flatten().all(is_same_module);
    let is_on_both = device.indices.before.is_some() && device.indices.after.is_some();
    let parts = !device.fragmentation.differs() && !device.steps.differs() && !device.ooms.differs();
    is_on_both
        && is_same_four(&device.peak)
        && is_same_four(&device.end)
        && lines
        && libraries
        && categories
        && modules
        && parts
}

fn is_same_four(of: &Sides<Option<Four<Option<u64>>>>) -> bool {
    let each = |four: &Option<Four<Option<u64>>>| {
        let four = four.unwrap_or_default();
        [four.requested_bytes, four.allocated_bytes, four.active_bytes, four.reserved_bytes]
    };
    let pairs = each(&of.before).into_iter().zip(each(&of.after));
    !pairs.into_iter().any(|(before, after)| Change { before, after }.differs())
}

fn is_same_category(row: &CategoryDiff) -> bool {
    let held = Change { before: row.before_bytes, after: row.after_bytes };
    ![held, row.own_peak_bytes, row.live_at_end_bytes].iter().any(Sides::differs)
}

fn is_same_module(row: &ModuleDiff) -> bool {
    let held = Change { before: row.before_bytes, after: row.after_bytes };
    !held.differs() && !row.total_bytes.differs()
}
