//! How likely it is that blocks which merely live a while look like a leak.
//!
//! The assumption to be refuted: blocks of this origin that outlive their step are released sooner or later,
//! after a fifth of the time looked at on the average, each step as likely as the next. Every kept block had
//! a *chance* to be released in each step that it lived through. That so few chances were taken then has a
//! probability of at most `exp(-l) * (e * l / released)^released`, with `l = 5 / steps * chances` (Chernoff's
//! bound on a Poisson count; `exp(-l)` when none was released).

/// The assumed average life is the number of steps looked at, divided by this.
const LIVES_PER_RECORDING: f64 = 5.0;

/// The probability, for one origin, that of `chances` only `released` were taken within `steps` steps.
pub(super) fn probability(chances: u64, released: u64, steps: usize) -> f64 {
    let expected = LIVES_PER_RECORDING / steps.max(1) as f64 * chances as f64;
    let released = released as f64;
    if released >= expected {
        return 1.0;
    }
    let log =
        if released > 0.0 { -expected + released * (1.0 + (expected / released).ln()) } else { -expected };
    log.exp().clamp(f64::MIN_POSITIVE, 1.0)
}

/// The probability that at least one of `tried` origins looks so by luck (Bonferroni's bound).
pub(super) fn of_any(probability: f64, tried: u64) -> f64 {
    (probability * tried.max(1) as f64).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The chances of one block kept in each of `steps` steps.
    fn chances(steps: u64) -> u64 {
        (1..steps).map(|age| age - 1).sum()
    }

    #[test]
    fn one_block_in_each_of_ten_steps_is_no_luck_and_in_each_of_five_may_be() {
        let of = |steps: u64, tried| of_any(probability(chances(steps), 0, steps as usize), tried);
        assert!(of(10, 1_000) < 0.001, "{}", of(10, 1_000));
        assert!(of(8, 2_000) < 0.01, "{}", of(8, 2_000));
        assert!(of(5, 10) > 0.02, "{}", of(5, 10));
    }

    #[test]
    fn blocks_that_are_released_as_often_as_assumed_are_no_evidence() {
        assert!((probability(100, 25, 20) - 1.0).abs() < f64::EPSILON);
        assert!(probability(100, 2, 20) > probability(100, 0, 20));
        assert!(probability(0, 0, 0) > 0.99);
        assert!(probability(u64::MAX, 0, 1) > 0.0);
    }
}
