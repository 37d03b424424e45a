//! What is held after every step, by line, as columns of a picture.
//!
//! Owns the merging of steps into columns, of which each keeps the highest peak and the highest end, and one walk
//! over the events for what each line holds at the ends. Knows no names and no colours.

use crate::rebuild::{History, Moment, NONE};

use super::walk::{Tally, Walk};
use super::{Grouping, StepRow, StepTable};

/// Steps in columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepCurve {
    /// Steps in one column; the last may have fewer.
    pub per_column: usize,
    /// In order.
    pub columns: Vec<StepColumn>,
    /// What each shown group, the other groups, and what has no group hold at the end that a column shows; together
    /// they are that column's `end_bytes`.
    pub bands: Vec<Vec<u64>>,
}

/// One step, or several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepColumn {
    /// Number of the first step.
    pub first: usize,
    /// Allocated before the first.
    pub begin_bytes: u64,
    /// The highest peak.
    pub peak_bytes: u64,
    /// The highest end: the most held after any of the steps.
    pub end_bytes: u64,
    /// When that is.
    pub end: Moment,
    /// Growth of all the steps together.
    pub growth_bytes: i64,
}

/// The steps of `table` in at most `columns` columns; the first `bands` groups of `group_order` get a band each.
#[must_use]
pub fn step_curve(
    history: &History,
    grouping: &Grouping,
    group_order: &[u32],
    table: &StepTable,
    bands: usize,
    columns: usize,
) -> StepCurve {
    let per_column = table.rows.len().div_ceil(columns.max(1)).max(1);
    let columns: Vec<StepColumn> =
        table.rows.chunks(per_column).enumerate().map(|(n, steps)| column(n * per_column, steps)).collect();
    if columns.is_empty() {
        return StepCurve::default();
    }
    let mut band_of_group = vec![bands; grouping.len()];
    for (band, &group) in group_order.iter().take(bands).enumerate() {
        if let Some(slot) = band_of_group.get_mut(group as usize) {
            *slot = band;
        }
    }
    // Ends need not ascend: steps of a damaged recording may overlap.
    let mut order: Vec<usize> = (0..columns.len()).collect();
    order.sort_by_key(|&at| columns[at].end);
    let mut meter = Meter {
        history,
        grouping,
        band_of_group: &band_of_group,
        held: vec![0; bands + 2],
        ends: order.iter().map(|&at| (columns[at].end, at)).collect(),
        next: 0,
        bands: vec![vec![0; columns.len()]; bands + 2],
    };
    Walk::new(history).run(&mut meter);
    StepCurve { per_column, bands: meter.bands, columns }
}

fn column(first: usize, steps: &[StepRow]) -> StepColumn {
    let mut column = StepColumn { first, ..StepColumn::default() };
    column.begin_bytes = steps.first().map_or(0, |step| step.begin_allocated_bytes);
    for (at, step) in steps.iter().enumerate() {
        column.peak_bytes = column.peak_bytes.max(step.peak_allocated.bytes);
        column.growth_bytes = column.growth_bytes.saturating_add(step.growth_bytes);
        if at == 0 || step.end_allocated_bytes > column.end_bytes {
            (column.end_bytes, column.end) = (step.end_allocated_bytes, step.end);
        }
    }
    column
}

struct Meter<'a> {
    history: &'a History,
    grouping: &'a Grouping,
    band_of_group: &'a [usize],
    /// Bytes of each band now.
    held: Vec<u64>,
    /// When the columns want to know, ascending, and which ones.
    ends: Vec<(Moment, usize)>,
    next: usize,
    bands: Vec<Vec<u64>>,
}

impl Meter<'_> {
    fn band(&mut self, row: usize) -> &mut u64 {
        let group = self.grouping.of_allocation.get(row).copied().unwrap_or(NONE);
        let last = self.held.len() - 1;
        &mut self.held[self.band_of_group.get(group as usize).copied().unwrap_or(last)]
    }
}

impl<'a> Tally<'a> for Meter<'a> {
    fn alloc(&mut self, row: usize) {
        let bytes = self.history.allocations.block_bytes[row];
        let band = self.band(row);
        *band = band.saturating_add(bytes);
    }

    fn free(&mut self, row: usize) {
        let bytes = self.history.allocations.block_bytes[row];
        let band = self.band(row);
        *band = band.saturating_sub(bytes);
    }

    fn arrive(&mut self, moment: Moment) {
        while let Some(&(_, column)) = self.ends.get(self.next).filter(|(end, _)| *end <= moment) {
            self.next += 1;
            for (band, &held) in self.bands.iter_mut().zip(&self.held) {
                band[column] = held;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::GroupBy;
    use super::super::walk::samples::history_of;
    use super::*;
    use crate::model::TraceBuilder;
    use crate::rebuild::Peak;

    /// `count` steps that each keep 512 bytes of `a.py` and use 1024 of `b.py` in between.
    fn curve_of(count: u64, columns: usize) -> StepCurve {
        let mut builder = TraceBuilder::new().segment_alloc(0, 2 << 20);
        for step in 0..count {
            builder = builder.at("a.py", 1, "keep").alloc(step * 4096, 512);
            builder =
                builder.at("b.py", 2, "use").alloc(step * 4096 + 1024, 1024).free(step * 4096 + 1024, 1024);
        }
        let trace = builder.build();
        let (device, history) = history_of(&trace);
        let grouping = Grouping::build(&trace, &device, &history, GroupBy::Line);
        let row = |step: u64| StepRow {
            name: step.to_string(),
            begin: Moment(1 + 4 * step),
            end: Moment(5 + 4 * step),
            begin_allocated_bytes: 512 * step,
            peak_allocated: Peak { bytes: 512 * step + 1536, moment: Moment(3 + 4 * step) },
            end_allocated_bytes: 512 * step + 512,
            growth_bytes: 512,
        };
        let table = StepTable { rows: (0..count).map(row).collect(), ..StepTable::default() };
        step_curve(&history, &grouping, &[0, 1], &table, 1, columns)
    }

    #[test]
    fn a_column_is_a_step_and_its_bands_add_up() {
        let curve = curve_of(4, 100);
        assert_eq!(curve.per_column, 1);
        let figures: Vec<_> =
            curve.columns.iter().map(|c| (c.begin_bytes, c.peak_bytes, c.end_bytes)).collect();
        assert_eq!(figures, [(0, 1536, 512), (512, 2048, 1024), (1024, 2560, 1536), (1536, 3072, 2048)]);
        assert_eq!(curve.bands, [vec![512, 1024, 1536, 2048], vec![0; 4], vec![0; 4]]);
    }

    #[test]
    fn merged_columns_keep_the_highest() {
        let curve = curve_of(10, 4);
        assert_eq!((curve.per_column, curve.columns.len()), (3, 4));
        let last = curve.columns[3];
        let figures = (last.first, last.begin_bytes, last.end_bytes, last.growth_bytes);
        assert_eq!(figures, (9, 9 * 512, 5120, 512));
        assert_eq!(curve.columns[0].peak_bytes, 2 * 512 + 1536);
        assert_eq!(curve.bands[0][0], 3 * 512);
    }
}
