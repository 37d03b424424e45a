//! Figures of one device that are no lines: counters, categories, modules, fragmentation, steps, failures.
//!
//! Owns what of a side's report is compared. Adds nothing up that a report does not say, but medians of steps.

use std::collections::BTreeMap;

use crate::report::{CategoryDiff, Change, FragmentationFigures, ModuleDiff, OomFigures, StepFigures};

use super::side::{SideCategory, SideDevice, SideFigures, SideModules};

/// Categories of both sides, largest change first. One that a side does not have held nothing there.
pub(super) fn categories(before: &SideDevice, after: &SideDevice) -> Option<Vec<CategoryDiff>> {
    let (before, after) = (before.categories.as_ref()?, after.categories.as_ref()?);
    let mut by_name: BTreeMap<&str, [Option<&SideCategory>; 2]> = BTreeMap::new();
    for (side, rows) in [&before.rows, &after.rows].into_iter().enumerate() {
        for row in rows {
            by_name.entry(&row.category).or_default()[side] = Some(row);
        }
    }
    let row = |(name, [one, other]): (&str, [Option<&SideCategory>; 2])| {
        let change = |of: fn(&SideCategory) -> Option<u64>| Change {
            before: one.map_or(Some(0), of),
            after: other.map_or(Some(0), of),
        };
        let held = change(|row| row.held_at_peak_bytes);
        CategoryDiff {
            category: name.to_owned(),
            before_bytes: held.before,
            after_bytes: held.after,
            delta_bytes: held.delta(),
            own_peak_bytes: change(|row| row.own_peak_bytes),
            live_at_end_bytes: change(|row| row.live_at_end_bytes),
        }
    };
    let mut rows: Vec<_> = by_name.into_iter().map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.delta_bytes.map_or(0, i64::unsigned_abs)));
    Some(rows)
}

/// Modules of both sides, largest change first, and what carries no name last.
pub(super) fn modules(before: &SideDevice, after: &SideDevice) -> Option<Vec<ModuleDiff>> {
    let (before, after) = (before.modules.as_ref()?, after.modules.as_ref()?);
    let mut by_name: BTreeMap<Option<&str>, [Option<SideFigures>; 2]> = BTreeMap::new();
    for (side, modules) in [before, after].into_iter().enumerate() {
        for (name, figures) in named(modules) {
            by_name.entry(name).or_default()[side] = Some(figures);
        }
    }
    let row = |(name, [one, other]): (Option<&str>, [Option<SideFigures>; 2])| {
        let change = |of: fn(SideFigures) -> Option<u64>| Change {
            before: one.map_or(Some(0), of),
            after: other.map_or(Some(0), of),
        };
        let held = change(|figures| figures.held_at_peak_bytes);
        ModuleDiff {
            module: name.map(str::to_owned),
            before_bytes: held.before,
            after_bytes: held.after,
            delta_bytes: held.delta(),
            total_bytes: change(|figures| figures.total_bytes),
        }
    };
    let mut rows: Vec<_> = by_name.into_iter().map(row).collect();
    let size = |row: &ModuleDiff| row.delta_bytes.map_or(0, i64::unsigned_abs);
    rows.sort_by_key(|row| (row.module.is_none(), std::cmp::Reverse(size(row))));
    Some(rows)
}

fn named(modules: &SideModules) -> impl Iterator<Item = (Option<&str>, SideFigures)> {
    let rows = modules.rows.iter().map(|row| (Some(row.module.as_str()), row.figures));
    rows.chain(modules.unnamed.map(|figures| (None, figures)))
}

pub(super) fn fragmentation(device: &SideDevice) -> Option<FragmentationFigures> {
    let at_peak = device.fragmentation.as_ref()?.at_peak?;
    let (reserved, active) = (at_peak.reserved_bytes?, at_peak.active_bytes?);
    let unused_bytes = reserved.saturating_sub(active);
    // From the bytes, not from the report's `ratio`: text loses the last digit of it.
    let ratio = if reserved == 0 { 0.0 } else { unused_bytes as f64 / reserved as f64 };
    Some(FragmentationFigures {
        unused_bytes,
        stranded_bytes: at_peak.stranded_bytes,
        releasable_bytes: at_peak.releasable_bytes,
        ratio,
    })
}

pub(super) fn steps(device: &SideDevice) -> Option<StepFigures> {
    let steps = device.steps.as_ref()?;
    let rows = steps.rows.as_deref().unwrap_or_default();
    let mut peaks: Vec<u64> = rows.iter().map(|row| row.peak_allocated_bytes).collect();
    // The first step's growth is from its own beginning, which may lie in the setting up.
    let mut growth: Vec<i64> = rows.iter().skip(1).map(|row| row.growth_bytes).collect();
    Some(StepFigures {
        source: steps.source.clone(),
        count: steps.count,
        median_peak_bytes: median(&mut peaks),
        max_peak_bytes: peaks.last().copied(),
        median_growth_bytes: median(&mut growth),
    })
}

/// The one in the middle, of two the lower; `values` are sorted afterwards.
fn median<T: Ord + Copy>(values: &mut [T]) -> Option<T> {
    values.sort_unstable();
    let middle = values.len().checked_sub(1)? / 2;
    values.get(middle).copied()
}

pub(super) fn ooms(device: &SideDevice) -> Option<Vec<OomFigures>> {
    let row = |oom: &super::side::SideOom| OomFigures {
        event: oom.event,
        requested_bytes: oom.requested_bytes,
        verdict: oom.verdict.clone(),
        line: oom.line.clone(),
    };
    device.ooms.as_ref().map(|ooms| ooms.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::diff::side::{SideCategories, SideStep, SideSteps};

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median(&mut [3, 1, 2]), Some(2));
        assert_eq!(median(&mut [4, 1, 2, 3]), Some(2));
        assert_eq!(median::<u64>(&mut []), None);
    }

    #[test]
    fn the_first_step_grows_from_nowhere() {
        let row = |peak, growth| SideStep { peak_allocated_bytes: peak, growth_bytes: growth };
        let rows = vec![row(5, 900), row(9, 2), row(7, -4), row(8, 3)];
        let steps = Some(SideSteps { source: "marks".to_owned(), count: 4, rows: Some(rows) });
        let found = super::steps(&SideDevice { steps, ..SideDevice::default() }).unwrap_or_default();
        assert_eq!((found.median_peak_bytes, found.max_peak_bytes), (Some(7), Some(9)));
        assert_eq!(found.median_growth_bytes, Some(2));
    }

    #[test]
    fn a_category_of_one_side_held_nothing_on_the_other() {
        let device = |name: &str, held| {
            let row = SideCategory {
                category: name.to_owned(),
                held_at_peak_bytes: Some(held),
                ..SideCategory::default()
            };
            let categories = Some(SideCategories { source: None, rows: vec![row] });
            SideDevice { categories, ..SideDevice::default() }
        };
        let rows = categories(&device("input", 3), &device("gradient", 8)).unwrap_or_default();
        let told: Vec<_> = rows.iter().map(|row| (row.category.as_str(), row.delta_bytes)).collect();
        assert_eq!(told, [("gradient", Some(8)), ("input", Some(-3))]);
        assert!(categories(&device("input", 3), &SideDevice::default()).is_none());
    }
}
