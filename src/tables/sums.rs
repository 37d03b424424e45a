//! Sums and counts of rows by group: the one group-by that the tables need, on Polars.

use polars::prelude::*;

/// Sum of column `bytes` per value of column `group`, as columns `group`, `name` (u64) and `name_count`
/// (u64). The order of the rows is not defined: join or sort them.
///
/// # Errors
/// When `frame` lacks one of the two columns.
pub(super) fn sum_by_group(frame: &DataFrame, name: &str) -> PolarsResult<DataFrame> {
    let groups = frame.group_by(["group"])?.select(["bytes"]);
    #[expect(deprecated, reason = "its successor is the lazy engine, which is not compiled in")]
    let mut sums = groups.sum()?;
    sums.rename("bytes_sum", name.into())?;
    let counts = groups.count()?.column("bytes_count")?.cast(&DataType::UInt64)?;
    sums.with_column(counts.with_name(format!("{name}_count").into()))?;
    Ok(sums)
}

/// Sums by group of pieces of a table, made one.
#[derive(Debug, Default)]
pub(super) struct PartialSums(Option<DataFrame>);

impl PartialSums {
    /// Takes in what [`sum_by_group`] gave for a further piece.
    ///
    /// # Errors
    /// When the columns are other ones than before.
    pub(super) fn add(&mut self, sums: DataFrame) -> PolarsResult<()> {
        match &mut self.0 {
            Some(parts) => _ = parts.vstack_mut(&sums)?,
            None => self.0 = Some(sums),
        }
        Ok(())
    }

    /// Sums and counts over all pieces, as [`sum_by_group`] gives them for `name`.
    ///
    /// # Errors
    /// When there was no piece, or the pieces are of another name.
    pub(super) fn whole(self, name: &str) -> PolarsResult<DataFrame> {
        let count = format!("{name}_count");
        let parts = self.0.unwrap_or_default();
        let groups = parts.group_by(["group"])?.select([name, &count]);
        #[expect(deprecated, reason = "its successor is the lazy engine, which is not compiled in")]
        let mut sums = groups.sum()?;
        sums.rename(&format!("{name}_sum"), name.into())?;
        sums.rename(&format!("{count}_sum"), count.into())?;
        Ok(sums)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_counts_stand_beside_their_group() {
        let frame = df!("group" => [1u32, 0, 1], "bytes" => [10u64, 7, 5]).unwrap();
        let sums =
            sum_by_group(&frame, "held").unwrap().sort(["group"], SortMultipleOptions::default()).unwrap();
        let expected = df!("group" => [0u32, 1], "held" => [7u64, 15], "held_count" => [1u64, 2]).unwrap();
        assert!(sums.equals(&expected), "{sums:?}");
    }

    #[test]
    fn pieces_give_the_sums_of_the_whole() {
        let frame = df!("group" => [1u32, 0, 1, 2], "bytes" => [10u64, 7, 5, u64::MAX / 8]).unwrap();
        let whole = sum_by_group(&frame, "held").unwrap();
        for cut in 0..5 {
            let mut parts = PartialSums::default();
            parts.add(sum_by_group(&frame.slice(0, cut), "held").unwrap()).unwrap();
            parts.add(sum_by_group(&frame.slice(cut as i64, 4), "held").unwrap()).unwrap();
            let sorted = |frame: &DataFrame| frame.sort(["group"], SortMultipleOptions::default()).unwrap();
            assert!(sorted(&parts.whole("held").unwrap()).equals(&sorted(&whole)), "cut at {cut}");
        }
    }

    #[test]
    fn no_rows_give_no_groups() {
        let frame = df!("group" => Vec::<u32>::new(), "bytes" => Vec::<u64>::new()).unwrap();
        assert_eq!(sum_by_group(&frame, "held").unwrap().height(), 0);
    }
}
