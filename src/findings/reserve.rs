//! What rules about reserved memory share: whose segments they are, and what to advise.
//!
//! Owns no threshold and no rule.

use std::collections::BTreeMap;

use crate::model::StackId;
use crate::rebuild::{Moment, NONE, StateSegment};
use crate::tables::obtained_for;
use crate::units::Bytes;

use super::oom::torch_version;
use super::{Finding, LineBytes, Scene};

/// Whether `part` is at least `percent` of `whole`.
pub(super) fn is_share(part: u64, whole: u64, percent: u64) -> bool {
    u128::from(part) * 100 >= u128::from(whole) * u128::from(percent)
}

/// The lines whose requests the `segments` were obtained for, most bytes first. `segments` are some of the
/// state's at `moment`.
pub(super) fn lines_of_segments<'s>(
    scene: &Scene<'_>,
    moment: Moment,
    segments: impl IntoIterator<Item = &'s StateSegment>,
) -> Vec<LineBytes> {
    let ranges = &scene.history.ranges;
    let held = (0..ranges.len()).filter(|&range| ranges.is_held_at(range, moment));
    let by_address: BTreeMap<u64, usize> = held.map(|range| (ranges.addresses[range], range)).collect();
    let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
    for segment in segments {
        let range = by_address.get(&segment.address).copied();
        let row = range.and_then(|range| obtained_for(scene.device, scene.history, range));
        let of_row = row.and_then(|row| scene.lines.of_allocation.get(row).copied());
        let of_stack = scene.lines.of_stack.get(segment.stack.0 as usize).copied();
        if let Some(group) = of_row.or(of_stack).filter(|&group| group != NONE) {
            let sum = sums.entry(group).or_default();
            *sum = sum.saturating_add(segment.bytes);
        }
    }
    most_first(scene, sums)
}

/// The lines of `stacks`, most bytes first.
pub(super) fn lines_of_stacks(
    scene: &Scene<'_>,
    stacks: impl IntoIterator<Item = (StackId, u64)>,
) -> Vec<LineBytes> {
    let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
    for (stack, bytes) in stacks {
        if let Some(&group) = scene.lines.of_stack.get(stack.0 as usize) {
            let sum = sums.entry(group).or_default();
            *sum = sum.saturating_add(bytes);
        }
    }
    most_first(scene, sums)
}

fn most_first(scene: &Scene<'_>, sums: BTreeMap<u32, u64>) -> Vec<LineBytes> {
    let lines = sums.into_iter().filter_map(|(group, bytes)| scene.line_of_group(group, bytes));
    let mut lines: Vec<LineBytes> = lines.collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.bytes));
    lines
}

/// Sum of the segments' bytes.
pub(super) fn bytes_of<'s>(segments: impl IntoIterator<Item = &'s StateSegment>) -> u64 {
    segments.into_iter().fold(0, |sum, segment| sum.saturating_add(segment.bytes))
}

/// A stream as people read it: small numbers as they are, pointers in hexadecimal.
pub(super) fn stream_name(stream: u64) -> String {
    match stream {
        0 => "0, the default stream".to_owned(),
        1..=0xffff => stream.to_string(),
        _ => format!("{stream:#x}"),
    }
}

/// What a replay recommends, as figures and as a sentence; nothing where nothing was replayed or it saves
/// nothing.
pub(super) fn with_replayed_setting(scene: &Scene<'_>, finding: Finding) -> (Finding, Option<String>) {
    let Some(setting) = scene.setting.as_ref().filter(|setting| setting.saved_bytes > 0) else {
        return (finding, None);
    };
    let sentence = format!(
        "A replay of the recorded requests under PYTORCH_CUDA_ALLOC_CONF={} peaks at {} reserved, {} less.",
        setting.conf,
        Bytes(setting.peak_reserved_bytes),
        Bytes(setting.saved_bytes.unsigned_abs())
    );
    (finding.with_setting(setting), Some(sentence))
}

/// What expandable segments can do here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expandable {
    /// They are in use.
    On,
    /// They are asked for, but no segment is one.
    WithoutEffect,
    /// This version of PyTorch does not have them.
    TooOld,
    /// They can be tried.
    Off,
}

/// What expandable segments can do on this device.
pub(super) fn expandable(scene: &Scene<'_>) -> Expandable {
    let ranges = &scene.history.ranges;
    if !scene.settings().expandable_segments() {
        return match torch_version(scene.trace) {
            Some(version) if version < (2, 1) => Expandable::TooOld,
            _ => Expandable::Off,
        };
    }
    let has_effect = ranges.is_empty() || ranges.expandable.contains(&true);
    if has_effect { Expandable::On } else { Expandable::WithoutEffect }
}

/// A sentence on expandable segments that fits the settings and version in force.
pub(super) fn expandable_advice(scene: &Scene<'_>) -> String {
    match expandable(scene) {
        Expandable::On => {
            "Expandable segments are on already: no allocator setting is left to try for this.".to_owned()
        }
        Expandable::WithoutEffect => {
            "expandable_segments:True is set but has no effect here (no segment is expandable); where the platform \
             can have them, they would let segments grow in place."
                .to_owned()
        }
        Expandable::TooOld => format!(
            "PyTorch {} has no expandable segments; from 2.1 on they let segments grow in place.",
            scene.trace.process.torch_version.as_deref().unwrap_or_default()
        ),
        Expandable::Off => "With PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (PyTorch 2.1 and later) segments \
             grow in place, so that free pieces at their ends are used."
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_do_not_overflow() {
        assert!(is_share(u64::MAX, u64::MAX, 100));
        assert!(is_share(2, 10, 20));
        assert!(!is_share(1, 10, 20));
    }
}
