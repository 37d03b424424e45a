//! Ticks: where they stand and what they say.
//!
//! Owns binary steps for bytes (256 MiB, 512 MiB, 1 GiB, ...) and decimal steps for seconds and events.
//! Knows no pixels.

use crate::units::Count;

/// Positions with their texts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ticks {
    /// Positions, ascending from 0.
    pub(super) at: Vec<f64>,
    /// Distance of two ticks.
    step: f64,
    /// Size of the unit that the texts are in.
    unit: f64,
    /// Name of the unit, behind every number; empty for counts.
    suffix: &'static str,
}

const SIZES: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

impl Ticks {
    fn new(end: f64, step: f64, unit: f64, suffix: &'static str) -> Self {
        let count = (end / step * (1.0 + 1e-9)).floor().min(100.0) as u32;
        Self { at: (0..=count).map(|n| f64::from(n) * step).collect(), step, unit, suffix }
    }

    /// Ticks for `0..=end` bytes: steps are powers of two, 4 to 8 of them.
    pub(super) fn bytes(end: f64) -> Self {
        let mut step = 1.0;
        while end / step >= 8.0 {
            step *= 2.0;
        }
        // A quarter of a unit would be 256, 512, 768, 1024 of the smaller one.
        let unit = 1024f64.powf((end.max(1.0).log2() / 10.0).floor());
        if (step * 4.0 - unit).abs() < 0.5 {
            step *= 2.0;
        }
        // Half a unit still reads better than 512 of the smaller one.
        let size = ((step * 2.0).log2() / 10.0).floor().clamp(0.0, 6.0);
        Self::new(end, step, 1024f64.powf(size), SIZES[size as usize])
    }

    /// Ticks for `0..=end` microseconds, in the unit that suits.
    pub(super) fn time(end: f64) -> Self {
        let (unit, suffix) = match end {
            end if end >= 1e6 => (1e6, "s"),
            end if end >= 1e3 => (1e3, "ms"),
            _ => (1.0, "us"),
        };
        Self::new(end, decimal_step(end / unit) * unit, unit, suffix)
    }

    /// Ticks for `0..=end` events.
    pub(super) fn events(end: f64) -> Self {
        Self::new(end, decimal_step(end).max(1.0), 1.0, "")
    }

    /// The text at position `at`.
    pub(super) fn text(&self, at: f64) -> String {
        if at == 0.0 {
            return "0".to_owned();
        }
        if self.suffix.is_empty() {
            return Count(at.round() as u64).to_string();
        }
        let step = self.step / self.unit;
        let decimals = (0..3).find(|&digits| (step * 10f64.powi(digits)).fract() < 1e-6).unwrap_or(3);
        format!("{:.*} {}", decimals as usize, at / self.unit, self.suffix)
    }
}

/// The step of 1, 2 or 5 times a power of ten that gives 5 to 12 parts.
fn decimal_step(end: f64) -> f64 {
    let rough = end / 11.0;
    let power = 10f64.powf(rough.max(1e-9).log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * power).find(|&step| step >= rough).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(ticks: &Ticks) -> Vec<String> {
        ticks.at.iter().map(|&at| ticks.text(at)).collect()
    }

    const MIB: f64 = 1_048_576.0;

    #[test]
    fn bytes_step_in_powers_of_two() {
        assert_eq!(texts(&Ticks::bytes(274.0 * MIB)), ["0", "64 MiB", "128 MiB", "192 MiB", "256 MiB"]);
        assert_eq!(texts(&Ticks::bytes(1500.0 * MIB)), ["0", "0.5 GiB", "1.0 GiB"]);
        assert_eq!(texts(&Ticks::bytes(1000.0 * MIB))[1], "128 MiB");
        assert_eq!(texts(&Ticks::bytes(2300.0 * MIB)), ["0", "0.5 GiB", "1.0 GiB", "1.5 GiB", "2.0 GiB"]);
        assert_eq!(texts(&Ticks::bytes(80.0 * 1024.0 * MIB))[1], "16 GiB");
        assert_eq!(Ticks::bytes(u64::MAX as f64).at.len(), 5);
        assert_eq!(texts(&Ticks::bytes(1.0)), ["0", "1 B"]);
    }

    #[test]
    fn times_and_events_step_in_ones_twos_and_fives() {
        assert_eq!(texts(&Ticks::time(2_450_000.0))[..3], ["0", "0.5 s", "1.0 s"]);
        assert_eq!(texts(&Ticks::time(90_000.0))[1], "10 ms");
        assert_eq!(texts(&Ticks::events(592_258.0))[1], "100,000");
        assert_eq!(texts(&Ticks::events(3.0)), ["0", "1", "2", "3"]);
        assert_eq!(texts(&Ticks::time(1.0)).last().unwrap(), "1.0 us");
    }
}
