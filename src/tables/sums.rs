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
    fn no_rows_give_no_groups() {
        let frame = df!("group" => Vec::<u32>::new(), "bytes" => Vec::<u64>::new()).unwrap();
        assert_eq!(sum_by_group(&frame, "held").unwrap().height(), 0);
    }
}
