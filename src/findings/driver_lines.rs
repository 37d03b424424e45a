//! Lines of driver memory, for rules that name them.
//!
//! Owns adding up takings by the place that asked. Which takings, is the rule's concern.

use std::collections::BTreeMap;

use crate::driver::{Claims, Places, Taking};
use crate::model::{NativeStackId, StackId, Trace};

use super::LineBytes;

/// A line, and how many of the takings are its.
pub(super) struct DriverLine {
    pub(super) line: LineBytes,
    pub(super) count: u64,
}

/// The lines of `takings`, given with their indices, most bytes first. A taking without a stack has its holder's name.
pub(super) fn driver_lines<'t>(
    trace: &Trace,
    claims: &Claims<'_>,
    takings: impl Iterator<Item = (usize, &'t Taking)>,
) -> Vec<DriverLine> {
    // By stack first, which is cheap; different stacks may be one line.
    let mut by_stack: BTreeMap<(NativeStackId, StackId, u32), (u64, u64)> = BTreeMap::new();
    for (index, taking) in takings {
        let row = &claims.layer.rows[taking.row as usize];
        let (bytes, count) = by_stack.entry((row.native, row.python, claims.of_taking(index))).or_default();
        (*bytes, *count) = (bytes.saturating_add(taking.bytes), *count + 1);
    }
    let mut places = Places::new(trace, claims.layer);
    let mut lines: BTreeMap<(String, u64, String), (u64, u64)> = BTreeMap::new();
    for ((native, python, holder), (bytes, count)) in by_stack {
        let place = places.of_stacks(native, python);
        let holder = || claims.holder(holder).name.clone();
        let file = place.file.clone().or_else(|| place.module.clone()).unwrap_or_else(holder);
        let function = place.function.clone().unwrap_or_else(holder);
        let sum = lines.entry((file, place.line.unwrap_or(0), function)).or_default();
        *sum = (sum.0.saturating_add(bytes), sum.1 + count);
    }
    let line = |((file, line, function), (bytes, count))| DriverLine {
        line: LineBytes { file, line, function, bytes },
        count,
    };
    let mut lines: Vec<DriverLine> = lines.into_iter().map(line).collect();
    lines.sort_by_key(|found| std::cmp::Reverse(found.line.bytes));
    lines
}
