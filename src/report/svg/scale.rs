//! A chart axis whose units are pixels: outlines arrive reduced to the pixel grid, and must land exactly on
//! it.
//!
//! Owns the bridge between our ticks and plotters' coordinates.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use super::axis::Ticks;

/// One axis of a chart.
pub(super) struct Scale {
    pixels: i32,
    /// Pixel of each tick, with its text.
    ticks: Vec<(i32, String)>,
}

impl Scale {
    /// An axis of so many `pixels` for values up to `end`.
    pub(super) fn new(pixels: i32, end: f64, ticks: &Ticks) -> Self {
        let place = |at: f64| (at / end * f64::from(pixels)).round() as i32;
        Self { pixels, ticks: ticks.at.iter().map(|&at| (place(at), ticks.text(at))).collect() }
    }

    /// An axis with ticks that know their texts. Ticks of one pixel would be drawn over each other: the first stays.
    pub(super) fn labelled(pixels: i32, end: f64, labels: &[(u64, String)]) -> Self {
        let place = |at: u64| (at as f64 / end * f64::from(pixels)).round() as i32;
        let mut ticks: Vec<_> = labels.iter().map(|(at, text)| (place(*at), text.clone())).collect();
        ticks.dedup_by_key(|tick| tick.0);
        Self { pixels, ticks }
    }
}

impl Ranged for Scale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = i32;

    fn map(&self, value: &i32, limit: (i32, i32)) -> i32 {
        if limit.0 <= limit.1 { limit.0.saturating_add(*value) } else { limit.0.saturating_sub(*value) }
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<i32> {
        self.ticks.iter().map(|tick| tick.0).collect()
    }

    fn range(&self) -> Range<i32> {
        0..self.pixels
    }
}

impl ValueFormatter<i32> for Scale {
    fn format_ext(&self, value: &i32) -> String {
        let tick = self.ticks.iter().find(|tick| tick.0 == *value);
        tick.map(|tick| tick.1.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_a_pixel_in_both_directions() {
        let scale = Scale::new(400, 2048.0, &Ticks::bytes(2048.0));
        assert_eq!((scale.map(&30, (72, 472)), scale.map(&30, (472, 72))), (102, 442));
        assert_eq!(scale.format_ext(&200), "1.0 KiB");
        assert_eq!(scale.format_ext(&201), "");
    }
}
