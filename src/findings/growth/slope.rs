//! How fast something grows, and how surely.
//!
//! The slope is Theil and Sen's: the median of the slopes between any two points, which a few odd steps do not
//! move. Its interval is Sen's, at 95 %: from the ranks that Kendall's count of rises and falls may take by
//! chance. On an exact straight line all three are that line's slope, to the byte.

/// Growth per step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::findings) struct Slope {
    /// The median slope.
    pub(in crate::findings) per_step: f64,
    /// The lower end of the 95 % interval.
    pub(in crate::findings) low: f64,
    /// The upper end.
    pub(in crate::findings) high: f64,
    /// Kendall's tau: 1 when it only ever rises, -1 when it only ever falls.
    pub(in crate::findings) tau: f64,
}

/// More points than that are thinned out evenly: pairs are many.
const MOST_POINTS: usize = 200;
/// Of the normal distribution, both sides.
const Z_95: f64 = 1.96;

/// The slope of `values` over their numbers; `None` for fewer than two.
pub(in crate::findings) fn slope(values: &[u64]) -> Option<Slope> {
    let points = thinned(values);
    let count = points.len();
    let mut slopes = Vec::with_capacity(count * count.saturating_sub(1) / 2);
    let (mut rises, mut falls) = (0i64, 0i64);
    for (at, &(from, low)) in points.iter().enumerate() {
        for &(to, high) in &points[at + 1..] {
            rises += i64::from(high > low);
            falls += i64::from(high < low);
            slopes.push(difference(low, high) / (to - from) as f64);
        }
    }
    if slopes.is_empty() {
        return None;
    }
    slopes.sort_unstable_by(f64::total_cmp);
    let pairs = slopes.len();
    let n = count as f64;
    let spread = Z_95 * (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    let rank = |rank: f64| slopes[(rank.max(0.0) as usize).min(pairs - 1)];
    Some(Slope {
        per_step: f64::midpoint(slopes[(pairs - 1) / 2], slopes[pairs / 2]),
        low: rank(f64::midpoint(pairs as f64, -spread)),
        high: rank(f64::midpoint(pairs as f64, spread)),
        tau: (rises - falls) as f64 / pairs as f64,
    })
}

fn thinned(values: &[u64]) -> Vec<(usize, u64)> {
    let count = values.len().min(MOST_POINTS);
    let spread = |at: usize| if count < 2 { at } else { at * (values.len() - 1) / (count - 1) };
    (0..count).map(spread).map(|at| (at, values[at])).collect()
}

fn difference(from: u64, to: u64) -> f64 {
    let size = to.abs_diff(from) as f64;
    if to < from { -size } else { size }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_straight_line_is_exact() {
        let values: Vec<u64> = (0..20).map(|step| 1_000 + step * 25_165_824).collect();
        let exact = 25_165_824.0;
        assert_eq!(slope(&values), Some(Slope { per_step: exact, low: exact, high: exact, tau: 1.0 }));
        let long: Vec<u64> = (0..5_000).map(|step| step * 7).collect();
        assert_eq!(slope(&long).map(|slope| slope.per_step), Some(7.0));
    }

    #[test]
    fn a_stair_has_its_average_slope_and_one_odd_step_does_not_matter() {
        let mut values: Vec<u64> = (0..60).map(|step| (step / 2) * 16).collect();
        values[30] = 1 << 40;
        let found = slope(&values).unwrap();
        assert!((found.per_step - 8.0).abs() < 0.01, "{found:?}");
        assert!(found.low > 7.0 && found.high < 9.0, "{found:?}");
    }

    #[test]
    fn what_goes_up_and_down_has_an_interval_around_zero() {
        let values: Vec<u64> = (0..40).map(|step| 100 + (step * 17) % 13).collect();
        let found = slope(&values).unwrap();
        assert!(found.low < 0.0 && found.high > 0.0, "{found:?}");
        assert!(found.tau.abs() < 0.3);
    }

    #[test]
    fn extremes_do_not_overflow() {
        assert_eq!(slope(&[5]), None);
        assert!(slope(&[0, u64::MAX, 0]).unwrap().per_step.is_finite());
    }
}
