//! Lines of two sides: which belong together, and their figures.
//!
//! Owns the bridge from a report's rows and a trace's fingerprints to `compare`, and what a missing line means.

use std::collections::BTreeMap;

use crate::compare::{Fingerprint, LinePair, LineTraits, match_lines};
use crate::report::{Change, DiffPlace, FiguresDiff, LineDiff, LinesSum, Sides};
use crate::tables::LineFingerprint;

use super::Pair;
use super::side::{DiffSide, SideDevice, SideFigures, SideLine};

/// Which lines of two devices are the same.
#[derive(Debug, Default)]
pub(super) struct Matching {
    pub(super) pairs: Vec<LinePair>,
    /// By side and place: which of `pairs`.
    index: Sides<BTreeMap<Place, usize>>,
}

type Place = (Option<String>, Option<u64>, Option<String>);

fn place(line: &SideLine) -> Place {
    (line.file.clone(), line.line, line.function.clone())
}

impl Matching {
    /// Matches the lines of a pair of devices; nothing where one side does not list lines.
    pub(super) fn of(pair: Pair<'_>, sides: Sides<&DiffSide>) -> Self {
        let (Some(before), Some(after)) = (listed(pair.before), listed(pair.after)) else {
            return Self::default();
        };
        let (one, other) = (prints(sides.before, pair.before), prints(sides.after, pair.after));
        let pairs = match_lines(&traits(one, before), &traits(other, after));
        let mut index = Sides::<BTreeMap<Place, usize>>::default();
        for (number, pair) in pairs.iter().enumerate() {
            if let Some(line) = pair.before.and_then(|at| before.get(at)) {
                index.before.entry(place(line)).or_insert(number);
            }
            if let Some(line) = pair.after.and_then(|at| after.get(at)) {
                index.after.entry(place(line)).or_insert(number);
            }
        }
        Self { pairs, index }
    }

    /// Which pair a line before is in.
    pub(super) fn of_before(&self, place: &Place) -> Option<usize> {
        self.index.before.get(place).copied()
    }

    /// Which pair a line after is in.
    pub(super) fn of_after(&self, place: &Place) -> Option<usize> {
        self.index.after.get(place).copied()
    }
}

/// The lines of a device, where its rows are lines.
pub(super) fn listed(device: Option<&SideDevice>) -> Option<&[SideLine]> {
    let device = device?;
    let is_by_line = device.group_by.as_deref().is_none_or(|by| by == "line");
    device.lines.as_deref().filter(|_| is_by_line)
}

fn prints<'a>(side: &'a DiffSide, device: Option<&SideDevice>) -> Option<&'a [LineFingerprint]> {
    side.of_trace.as_ref()?.fingerprints.get(&device?.device).map(Vec::as_slice)
}

/// What `lines` are known by; `prints` are those of their trace, `None` for a report.
pub(super) fn traits(prints: Option<&[LineFingerprint]>, lines: &[SideLine]) -> Vec<LineTraits> {
    let by_place: BTreeMap<Place, _> = prints
        .into_iter()
        .flatten()
        .map(|print| ((print.file.clone(), print.line, print.function.clone()), print))
        .collect();
    let row = |line: &SideLine| {
        let print = by_place.get(&place(line));
        // A line of a trace without stacks of its own has none, which is not the same as not known.
        let stacks = prints.map(|_| print.map(|print| print.stacks.clone()).unwrap_or_default());
        let sizes = prints.map(|_| print.map(|print| print.sizes.clone()).unwrap_or_default());
        LineTraits {
            file: line.file.clone(),
            line: line.line,
            function: line.function.clone(),
            fingerprint: Fingerprint {
                stacks,
                sizes,
                total_bytes: line.figures.total_bytes,
                allocations: line.figures.allocations,
            },
        }
    };
    lines.iter().map(row).collect()
}

/// Every line of both sides, largest change at the peak first.
pub(super) fn rows(pair: Pair<'_>, matching: &Matching) -> Vec<LineDiff> {
    let (Some(before), Some(after)) = (listed(pair.before), listed(pair.after)) else {
        return Vec::new();
    };
    let absent = Sides { before: absent(pair.before), after: absent(pair.after) };
    rows_of(&matching.pairs, Sides { before, after }, absent)
}

/// The lines that `pairs` pair, largest change at the peak first. A line that a side does not have held `absent`
/// there.
pub(super) fn rows_of(
    pairs: &[LinePair],
    lines: Sides<&[SideLine]>,
    absent: Sides<SideFigures>,
) -> Vec<LineDiff> {
    let row = |pair: &LinePair| {
        let one = pair.before.and_then(|at| lines.before.get(at));
        let other = pair.after.and_then(|at| lines.after.get(at));
        let before = one.map_or(absent.before, |line| line.figures);
        let after = other.map_or(absent.after, |line| line.figures);
        row(one, other, figures(before, after))
    };
    let mut rows: Vec<LineDiff> = pairs.iter().map(row).collect();
    rows.sort_by_cached_key(order);
    rows
}

/// The figures of a line that a side does not list: nothing, unless it lists only some.
fn absent(device: Option<&SideDevice>) -> SideFigures {
    let lists_all = device.is_some_and(|device| device.lines_left_out.unwrap_or(0) == 0);
    if lists_all { NOTHING } else { SideFigures::default() }
}

/// The figures of what is known not to be there.
pub(super) const NOTHING: SideFigures = SideFigures {
    held_at_peak_bytes: Some(0),
    own_peak_bytes: Some(0),
    total_bytes: Some(0),
    allocations: Some(0),
    live_at_end_bytes: Some(0),
};

pub(super) fn figures(before: SideFigures, after: SideFigures) -> FiguresDiff {
    let change = |of: fn(&SideFigures) -> Option<u64>| Change { before: of(&before), after: of(&after) };
    let held = change(|figures| figures.held_at_peak_bytes);
    FiguresDiff {
        before_bytes: held.before,
        after_bytes: held.after,
        delta_bytes: held.delta(),
        own_peak_bytes: change(|figures| figures.own_peak_bytes),
        total_bytes: change(|figures| figures.total_bytes),
        allocations: change(|figures| figures.allocations),
        live_at_end_bytes: change(|figures| figures.live_at_end_bytes),
    }
}

fn row(before: Option<&SideLine>, after: Option<&SideLine>, figures: FiguresDiff) -> LineDiff {
    let named = after.or(before).cloned().unwrap_or_default();
    let place = |line: &SideLine| DiffPlace { file: line.file.clone(), line: line.line };
    let places = Sides { before: before.map(place), after: after.map(place) };
    LineDiff {
        file: named.file,
        line: named.line,
        function: named.function,
        figures,
        moved: matches!((&places.before, &places.after), (Some(one), Some(other)) if one.line != other.line),
        places,
    }
}

/// Lines that grew (`sign` 1) or shrank (-1) at the peak, together.
pub(super) fn sum(rows: &[LineDiff], sign: i64) -> LinesSum {
    let deltas = rows.iter().filter_map(|row| row.figures.delta_bytes).filter(|delta| delta.signum() == sign);
    deltas.fold(LinesSum::default(), |sum, delta| LinesSum {
        count: sum.count + 1,
        delta_bytes: sum.delta_bytes.saturating_add(delta),
    })
}

/// Files of the lines that each side has under another path.
pub(super) fn moved_files(rows: &[LineDiff]) -> Vec<Sides<String>> {
    let mut files: Vec<Sides<String>> = rows
        .iter()
        .filter_map(|row| {
            let (before, after) = (row.places.before.clone()?.file?, row.places.after.clone()?.file?);
            (before != after).then_some(Sides { before, after })
        })
        .collect();
    files.sort_by(|one, other| {
        let key = |file: &Sides<String>| file.before.clone().min(file.after.clone());
        key(one).cmp(&key(other))
    });
    files.dedup();
    files
}

/// Alike in both directions: nothing in it tells before from after.
fn order(row: &LineDiff) -> impl Ord + use<> {
    let figures = &row.figures;
    let size = |change: Change| std::cmp::Reverse(change.delta().map_or(0, i64::unsigned_abs));
    let known = figures.held();
    let most = known.before.max(known.after);
    let mut places = [row.places.before.clone(), row.places.after.clone()];
    places.sort();
    (
        size(known),
        std::cmp::Reverse(most),
        [size(figures.own_peak_bytes), size(figures.total_bytes), size(figures.live_at_end_bytes)],
        places,
        row.function.clone(),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn device(lines: &[(&str, u64, u64)], left_out: u64) -> SideDevice {
        let line = |&(file, line, held): &(&str, u64, u64)| SideLine {
            file: Some(file.to_owned()),
            line: Some(line),
            function: Some("f".to_owned()),
            figures: SideFigures { held_at_peak_bytes: Some(held), ..SideFigures::default() },
        };
        let lines = Some(lines.iter().map(line).collect());
        SideDevice { lines, lines_left_out: Some(left_out), ..SideDevice::default() }
    }

    fn rows_of(before: &SideDevice, after: &SideDevice) -> Vec<LineDiff> {
        let pair = Pair { before: Some(before), after: Some(after) };
        let side = DiffSide {
            path: String::new(),
            report: crate::analysis::diff::side::SideReport::default(),
            of_trace: None,
        };
        rows(pair, &Matching::of(pair, Sides { before: &side, after: &side }))
    }

    #[test]
    fn a_line_that_is_gone_held_nothing_unless_the_side_lists_only_some() {
        let before = device(&[("a.py", 1, 700), ("a.py", 2, 100)], 0);
        let rows = rows_of(&before, &device(&[("a.py", 2, 150)], 0));
        let told: Vec<_> =
            rows.iter().map(|row| (row.line, row.figures.after_bytes, row.figures.delta_bytes)).collect();
        assert_eq!(told, [(Some(1), Some(0), Some(-700)), (Some(2), Some(150), Some(50))]);
        assert_eq!((rows[0].places.after.clone(), rows[0].moved), (None, false));
        let rows = rows_of(&before, &device(&[("a.py", 2, 150)], 9));
        let gone = rows.iter().find(|row| row.line == Some(1)).unwrap();
        assert_eq!((gone.figures.after_bytes, gone.figures.delta_bytes), (None, None));
    }

    #[test]
    fn rows_of_another_kind_are_no_lines() {
        let mut by_function = device(&[("a.py", 1, 700)], 0);
        by_function.group_by = Some("function".to_owned());
        assert!(rows_of(&device(&[("a.py", 1, 700)], 0), &by_function).is_empty());
    }
}
