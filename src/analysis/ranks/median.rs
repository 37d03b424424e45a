//! Medians over ranks, and how far ranks usually are from them.
//!
//! Owns the arithmetic. Which figures are compared is its callers'.

/// The median of `values` and as many zeros as there are more of `count`; of two the lower, of an even number the
/// mean of the two in the middle; 0 of none.
pub(super) fn median_with_zeros(values: &mut [u64], count: usize) -> u64 {
    values.sort_unstable();
    let zeros = count.saturating_sub(values.len());
    let count = count.max(values.len());
    let at =
        |place: usize| place.checked_sub(zeros).and_then(|place| values.get(place)).copied().unwrap_or(0);
    match count {
        0 => 0,
        1 | 2 => at(0),
        count if count % 2 == 1 => at(count / 2),
        count => at(count / 2 - 1).midpoint(at(count / 2)),
    }
}

/// The median of `values`.
pub(super) fn median(values: &[u64]) -> u64 {
    median_with_zeros(&mut values.to_vec(), values.len())
}

/// The median of the distances of `values` from `median`.
pub(super) fn deviation(values: &[u64], from: u64) -> u64 {
    median(&values.iter().map(|value| value.abs_diff(from)).collect::<Vec<_>>())
}

/// `value` less `from`, as far as 64 bits reach.
pub(super) fn difference(value: u64, from: u64) -> i64 {
    let size = i64::try_from(value.abs_diff(from)).unwrap_or(i64::MAX);
    if value >= from { size } else { -size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_and_of_two_the_lower() {
        assert_eq!([median(&[]), median(&[7]), median(&[9, 4])], [0, 7, 4]);
        assert_eq!([median(&[9, 1, 5]), median(&[9, 1, 5, 6])], [5, 5]);
        assert_eq!(median(&[u64::MAX; 4]), u64::MAX);
        assert_eq!(deviation(&[10, 11, 12, 90], 11), 1);
    }

    #[test]
    fn what_a_rank_does_not_have_counts_as_nothing() {
        assert_eq!(median_with_zeros(&mut [8, 6], 5), 0);
        assert_eq!(median_with_zeros(&mut [8, 6, 7], 5), 6);
        assert_eq!(median_with_zeros(&mut [8, 6], 4), 3);
        assert_eq!(median_with_zeros(&mut [8], 2), 0);
    }

    #[test]
    fn differences_have_a_sign_and_an_end() {
        assert_eq!((difference(3, 5), difference(5, 3)), (-2, 2));
        assert_eq!((difference(0, u64::MAX), difference(u64::MAX, 0)), (-i64::MAX, i64::MAX));
    }
}
