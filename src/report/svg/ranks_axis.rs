//! The one axis of all ranks, and each rank's place on it.
//!
//! Owns how recordings of different processes are aligned: by Unix time where that makes sense, else each from its own
//! first event. Knows no pixels but those of the grid it is asked for.

use crate::report::ranks::{RankCurve, RankRow};

/// A rank on the axis.
pub(super) struct Placed<'a> {
    pub(super) row: &'a RankRow,
    /// Where its first event stands.
    pub(super) offset: u64,
}

/// The axis and who is on it.
pub(super) struct Axis<'a> {
    pub(super) is_time: bool,
    /// What it counts from.
    pub(super) name: &'static str,
    pub(super) end: u64,
    pub(super) ranks: Vec<Placed<'a>>,
    /// Ranks whose curves count something else.
    pub(super) left_out: usize,
}

impl<'a> Axis<'a> {
    /// The axis of `rows`; ranks without a curve are not on it.
    pub(super) fn of(rows: &'a [RankRow]) -> Self {
        let drawn: Vec<&RankRow> = rows.iter().filter(|row| !row.curve.x.is_empty()).collect();
        let timed = drawn.iter().filter(|row| row.curve.is_time).count();
        let is_time = timed * 2 >= drawn.len() && timed > 0;
        let there: Vec<&RankRow> = drawn.iter().copied().filter(|row| row.curve.is_time == is_time).collect();
        let starts = starts(&there).filter(|_| is_time);
        let name = match (&starts, is_time) {
            (Some(_), _) => "time since the first event of any rank",
            (None, true) => "time since each rank's own first event",
            (None, false) => "events of each rank, from its own first",
        };
        let left_out = drawn.len() - there.len();
        let starts = starts.unwrap_or_else(|| vec![0; there.len()]);
        let ranks: Vec<Placed<'a>> =
            there.into_iter().zip(starts).map(|(row, offset)| Placed { row, offset }).collect();
        let end = ranks.iter().map(Placed::end).max().unwrap_or(0);
        Self { is_time, name, end, ranks, left_out }
    }
}

/// Offsets by Unix time, if every rank has one and they began within the length of the longest.
fn starts(rows: &[&RankRow]) -> Option<Vec<u64>> {
    let starts = rows.iter().map(|row| row.curve.start_us).collect::<Option<Vec<i64>>>()?;
    let first = starts.iter().copied().min()?;
    let longest = rows.iter().map(|row| row.curve.end).max()?;
    let offsets: Vec<u64> = starts.iter().map(|start| start.abs_diff(first)).collect();
    offsets.iter().all(|&offset| offset <= longest).then_some(offsets)
}

impl Placed<'_> {
    /// Where its last event stands.
    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(self.row.curve.end)
    }

    fn curve(&self) -> &RankCurve {
        &self.row.curve
    }

    /// Its samples' places on the axis.
    pub(super) fn x(&self) -> Vec<u64> {
        self.curve().x.iter().map(|&x| self.offset.saturating_add(x)).collect()
    }

    /// Where its first failed request stands.
    pub(super) fn failed_at(&self, is_time: bool) -> Option<u64> {
        let oom = self.row.oom.as_ref()?;
        if !is_time {
            return Some(oom.event.saturating_add(1));
        }
        Some(self.offset.saturating_add(oom.time_us?.abs_diff(self.curve().start_us?)))
    }

    /// The most reserved in each of `columns` equal parts of `end`; `None` where it is not recording.
    pub(super) fn columns(&self, columns: usize, end: u64) -> Vec<Option<u64>> {
        let mut most: Vec<Option<u64>> = vec![None; columns];
        let at = |x: u64| {
            ((x as f64 / end.max(1) as f64 * columns as f64) as usize).min(columns.saturating_sub(1))
        };
        for (x, &bytes) in self.x().into_iter().zip(&self.curve().reserved) {
            if let Some(slot) = most.get_mut(at(x)) {
                *slot = (*slot).max(Some(bytes));
            }
        }
        // Between samples the last value holds.
        let (mut last, mut samples) = (None, self.x().into_iter().zip(&self.curve().reserved).peekable());
        for (column, slot) in most.iter_mut().enumerate().take(at(self.end()) + 1) {
            if slot.is_none() {
                *slot = last;
            }
            while let Some((_, &bytes)) = samples.next_if(|(x, _)| at(*x) <= column) {
                last = Some(bytes);
            }
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(start_us: Option<i64>, is_time: bool, end: u64) -> RankRow {
        let curve = RankCurve {
            is_time,
            start_us,
            end,
            x: vec![0, end / 2, end],
            allocated: vec![0, 5, 1],
            reserved: vec![2, 6, 4],
        };
        RankRow { curve, ..RankRow::default() }
    }

    fn offsets(rows: &[RankRow]) -> (bool, Vec<u64>, u64) {
        let axis = Axis::of(rows);
        (axis.is_time, axis.ranks.iter().map(|rank| rank.offset).collect(), axis.end)
    }

    #[test]
    fn ranks_of_one_hour_stand_by_their_times_and_others_each_by_itself() {
        assert_eq!(
            offsets(&[row(Some(1_050), true, 100), row(Some(1_000), true, 80)]),
            (true, vec![50, 0], 150)
        );
        assert_eq!(
            offsets(&[row(Some(9_000), true, 100), row(Some(1_000), true, 80)]),
            (true, vec![0, 0], 100)
        );
        assert_eq!(offsets(&[row(None, true, 100), row(Some(1_000), true, 80)]).1, [0, 0]);
        let mixed = [row(Some(1_000), true, 80), row(None, false, 900), row(Some(1_000), true, 80)];
        assert_eq!((offsets(&mixed).2, Axis::of(&mixed).left_out), (80, 1));
        assert_eq!(offsets(&[row(None, false, 900)]), (false, vec![0], 900));
        assert!(Axis::of(&[RankRow::default()]).ranks.is_empty());
    }

    #[test]
    fn a_column_holds_the_most_and_ends_with_the_recording() {
        let rows = [row(Some(1_000), true, 100), row(Some(1_000), true, 40)];
        let axis = Axis::of(&rows);
        assert_eq!(axis.ranks[0].columns(4, 100), [Some(2), Some(2), Some(6), Some(4)]);
        assert_eq!(axis.ranks[1].columns(4, 100), [Some(6), Some(4), None, None]);
    }
}
