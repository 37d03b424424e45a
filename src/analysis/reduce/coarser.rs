//! A timeline with fewer pixel columns.
//!
//! Owns which samples stay: those that the analysis itself would keep at this width, as every wide column is made of
//! whole narrow ones. So the picture at the smaller width is as exact.

use std::collections::BTreeSet;

use crate::report::Timeline;

use super::Reduction;

/// `whole` in `columns` pixel columns; its device has `events`.
pub(super) fn coarser(whole: &Timeline, columns: u64, events: u64) -> Timeline {
    let kept: Vec<usize> = kept(whole, columns).into_iter().collect();
    if kept.len() == whole.x.len() {
        return whole.clone();
    }
    let of = |values: &[u64]| kept.iter().map(|&at| values[at]).collect::<Vec<u64>>();
    let count = kept.len().max(1) as u64;
    Timeline {
        x: of(&whole.x),
        bands: whole.bands.iter().map(|band| of(band)).collect(),
        allocated: of(&whole.allocated),
        active: of(&whole.active),
        reserved: of(&whole.reserved),
        by_cause: kept.iter().filter_map(|&at| whole.by_cause.get(at).copied()).collect(),
        events_per_sample: (events.saturating_add(count / 2) / count).max(1),
        ..whole.clone()
    }
}

fn kept(whole: &Timeline, columns: u64) -> BTreeSet<usize> {
    // A column of the finer timeline, and how many of them make one of these.
    let (narrow, times) =
        (whole.x_end / Reduction::MOST_COLUMNS + 1, Reduction::MOST_COLUMNS / columns.max(1));
    let column = |x: u64| x / narrow / times.max(1);
    let mut kept = BTreeSet::new();
    let mut from = 0;
    while from < whole.x.len() {
        let here = column(whole.x[from]);
        let length = whole.x[from..].iter().take_while(|&&x| column(x) == here).count();
        let samples = from..from + length;
        kept.extend([from, samples.end - 1]);
        kept.extend(samples.clone().min_by_key(|&at| whole.allocated[at]));
        for curve in [&whole.allocated, &whole.active, &whole.reserved] {
            // Of equal ones the first, as everywhere.
            kept.extend(samples.clone().rev().max_by_key(|&at| curve[at]));
        }
        from = samples.end;
    }
    for mark in whole.marks.iter().filter(|mark| mark.kind != "step") {
        kept.extend(whole.x.binary_search(&mark.x));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saw(samples: u64) -> Timeline {
        let values: Vec<u64> =
            (0..samples).map(|at| if at % 97 == 13 { 1000 + at } else { at % 7 }).collect();
        Timeline {
            x: (0..samples).collect(),
            x_end: samples,
            bands: vec![values.clone()],
            reserved: values.iter().rev().copied().collect(),
            active: values.clone(),
            allocated: values,
            ..Timeline::default()
        }
    }

    #[test]
    fn every_wide_column_keeps_its_extremes_and_its_ends() {
        let whole = saw(5_000);
        let small = coarser(&whole, 50, 80_000);
        assert!(small.x.len() <= 50 * 6 + 6 && small.x.is_sorted(), "{}", small.x.len());
        let width = (5_000 / 800 + 1) * 16;
        let extremes = |timeline: &Timeline, column: u64| {
            let at = |x: &u64| x / width == column;
            let places: Vec<usize> = (0..timeline.x.len()).filter(|&place| at(&timeline.x[place])).collect();
            let of = |curve: &[u64]| {
                let values = places.iter().map(|&place| curve[place]);
                (values.clone().min(), values.max())
            };
            (of(&timeline.allocated), of(&timeline.active).1, of(&timeline.reserved).1, places.len())
        };
        for column in 0..5_000 / width {
            let (before, after) = (extremes(&whole, column), extremes(&small, column));
            assert_eq!((before.0, before.1, before.2), (after.0, after.1, after.2), "{column}");
            assert!(after.3 <= 6);
        }
        assert_eq!(small.bands[0], small.allocated);
        assert_eq!(small.events_per_sample, (80_000 + small.x.len() as u64 / 2) / small.x.len() as u64);
    }

    #[test]
    fn marks_stay_and_what_is_small_stays_whole() {
        let mut whole = saw(5_000);
        let mark = |x, kind| crate::report::TimelineMark { x, kind, label: String::new() };
        whole.marks = vec![mark(2_222, "oom"), mark(3_333, "step")];
        let small = coarser(&whole, 50, 5_000);
        assert!(small.x.contains(&2_222) && !small.x.contains(&3_333));
        let few = saw(20);
        assert_eq!(coarser(&few, 400, 20).x, few.x);
        assert!(coarser(&Timeline::default(), 50, 0).x.is_empty());
    }
}
