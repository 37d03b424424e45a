//! From samples to the outline of a curve, as fine as pixels and no finer.
//!
//! Owns the reduction that keeps pictures small: memory changes in steps, so a curve is a staircase; within
//! one pixel column only the lowest, the highest and the last value can be seen, so only they are kept.
//! Peaks survive exactly. Knows pixels as a grid, but nothing of SVG.

/// The grid that a curve is drawn on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    /// Extent of `x` in the trace's unit, at least 1.
    pub(super) x_end: f64,
    /// Extent of the bytes, at least 1.
    pub(super) y_end: f64,
    /// Pixel columns.
    pub(super) columns: f64,
    /// Pixel rows.
    pub(super) rows: f64,
}

impl Grid {
    fn column(&self, x: u64) -> i64 {
        (x as f64 / self.x_end * self.columns).round().min(self.columns) as i64
    }

    fn row(&self, bytes: u64) -> i64 {
        (bytes as f64 / self.y_end * self.rows).round() as i64
    }
}

/// The part of a staircase that one pixel column shows.
#[derive(Clone, Copy)]
struct Column {
    at: i64,
    lowest: i64,
    highest: i64,
    last: i64,
    highest_first: bool,
}

impl Column {
    fn new(at: i64, row: i64) -> Self {
        Self { at, lowest: row, highest: row, last: row, highest_first: false }
    }

    fn add(&mut self, row: i64) {
        if row > self.highest {
            self.highest = row;
            self.highest_first = false;
        }
        if row < self.lowest {
            self.lowest = row;
            self.highest_first = true;
        }
        self.last = row;
    }
}

/// The staircase of `values` over `x` as points in grid units, ascending in `x`, from the first sample to
/// the right edge. Points that no pixel would show are left out.
pub(super) fn outline(x: &[u64], values: &[u64], grid: &Grid) -> Vec<(i64, i64)> {
    let mut points = Vec::new();
    let mut current: Option<Column> = None;
    for (&x, &bytes) in x.iter().zip(values) {
        let (at, row) = (grid.column(x), grid.row(bytes));
        match &mut current {
            Some(column) if column.at == at => column.add(row),
            _ => {
                if let Some(done) = current {
                    finish(&mut points, done);
                }
                lead(&mut points, at);
                current = Some(Column::new(at, row));
            }
        }
    }
    if let Some(done) = current {
        finish(&mut points, done);
        lead(&mut points, grid.columns as i64);
    }
    points
}

/// Holds the last value up to column `at`: nothing changes between samples.
fn lead(points: &mut Vec<(i64, i64)>, at: i64) {
    if let Some(&(_, row)) = points.last() {
        push(points, (at, row));
    }
}

fn finish(points: &mut Vec<(i64, i64)>, column: Column) {
    let (first, second) =
        if column.highest_first { (column.highest, column.lowest) } else { (column.lowest, column.highest) };
    for row in [first, second, column.last] {
        push(points, (column.at, row));
    }
}

/// Adds a point; one that continues a straight line replaces the end of that line.
fn push(points: &mut Vec<(i64, i64)>, point: (i64, i64)) {
    if points.last() == Some(&point) {
        return;
    }
    if let [.., before, last] = points.as_slice() {
        let level = before.1 == last.1 && last.1 == point.1;
        let plumb = before.0 == last.0
            && last.0 == point.0
            && (last.1 - before.1).signum() == (point.1 - last.1).signum();
        if level || plumb {
            points.pop();
        }
    }
    points.push(point);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GRID: Grid = Grid { x_end: 100.0, y_end: 10.0, columns: 100.0, rows: 10.0 };

    #[test]
    fn memory_is_a_staircase_up_to_the_right_edge() {
        let points = outline(&[0, 40, 60], &[2, 8, 8], &GRID);
        assert_eq!(points, [(0, 2), (40, 2), (40, 8), (100, 8)]);
    }

    #[test]
    fn a_peak_within_one_column_survives() {
        let grid = Grid { columns: 10.0, ..GRID };
        let points = outline(&[50, 51, 52, 53], &[3, 9, 1, 4], &grid);
        assert_eq!(points, [(5, 9), (5, 1), (5, 4), (10, 4)]);
    }

    #[test]
    fn without_samples_there_is_no_outline() {
        assert!(outline(&[], &[], &GRID).is_empty());
        assert_eq!(outline(&[0], &[5], &GRID), [(0, 5), (100, 5)]);
    }

    proptest! {
        #[test]
        fn extremes_are_kept_and_columns_stay_small(
            values in prop::collection::vec(0u64..1_000, 1..400),
            columns in 1u32..50,
        ) {
            let x: Vec<u64> = (0..values.len() as u64).collect();
            let grid = Grid {
                x_end: values.len() as f64, y_end: 1_000.0, columns: f64::from(columns), rows: 1_000.0,
            };
            let points = outline(&x, &values, &grid);
            let rows = || points.iter().map(|point| point.1);
            prop_assert_eq!(rows().max(), values.iter().max().map(|&v| v as i64));
            prop_assert_eq!(rows().min(), values.iter().min().map(|&v| v as i64));
            prop_assert!(points.is_sorted_by_key(|point| point.0));
            prop_assert!(points.len() <= 4 * (columns as usize + 2));
        }
    }
}
