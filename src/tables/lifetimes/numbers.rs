//! What an allocation belongs to, as numbers: module, stream, step of birth, size class.
//!
//! Owns these numbers and their names. Zero is "none" for modules and steps; streams begin with the main one.

use std::collections::BTreeMap;

use crate::model::DeviceTrace;
use crate::rebuild::{History, NONE};
use crate::tables::{Grouping, StepTable, streams};

use super::Texts;

/// More streams than this share the last number: only a damaged recording has them.
const MOST_STREAMS: usize = 1_000;

/// Block sizes that are shown together.
#[derive(Clone, Copy, Debug)]
pub struct SizeClass {
    /// The smallest block of the class, in bytes.
    pub from_bytes: u64,
    /// Its name.
    pub name: &'static str,
}

/// The classes, ascending: powers of four, the tiny and the huge taken together.
pub const SIZE_CLASSES: [SizeClass; 9] = [
    SizeClass { from_bytes: 0, name: "below 32 KiB" },
    SizeClass { from_bytes: 32 << 10, name: "32 - 128 KiB" },
    SizeClass { from_bytes: 128 << 10, name: "128 - 512 KiB" },
    SizeClass { from_bytes: 512 << 10, name: "512 KiB - 2 MiB" },
    SizeClass { from_bytes: 2 << 20, name: "2 - 8 MiB" },
    SizeClass { from_bytes: 8 << 20, name: "8 - 32 MiB" },
    SizeClass { from_bytes: 32 << 20, name: "32 - 128 MiB" },
    SizeClass { from_bytes: 128 << 20, name: "128 - 512 MiB" },
    SizeClass { from_bytes: 512 << 20, name: "512 MiB and more" },
];

/// The numbers of every allocation of a device.
pub struct Numbers<'a> {
    device: &'a DeviceTrace,
    history: &'a History,
    grouping: &'a Grouping,
    steps: &'a StepTable,
    /// First events of the steps.
    begins: Vec<u64>,
    /// Values by number, the main stream first.
    streams: Vec<u64>,
    /// Whether the last of them stands for several.
    streams_are_cut: bool,
    of_range: Vec<u32>,
    of_event_stream: Vec<u32>,
    /// Number of every module that the recorder named; 0 for those without room.
    pub(super) modules: Vec<u32>,
}

impl<'a> Numbers<'a> {
    pub(super) fn new(
        device: &'a DeviceTrace,
        history: &'a History,
        grouping: &'a Grouping,
        steps: &'a StepTable,
    ) -> Self {
        let main = streams(history).main;
        let ranges = &history.ranges;
        let mut known: BTreeMap<u64, u32> = BTreeMap::from([(main, 0)]);
        for &stream in ranges.streams.iter().chain(&device.events.stream_values) {
            known.entry(stream).or_insert(1);
        }
        let mut values = vec![main];
        for (&stream, number) in known.iter_mut().filter(|(stream, _)| **stream != main) {
            *number = values.len().min(MOST_STREAMS - 1) as u32;
            if values.len() < MOST_STREAMS {
                values.push(stream);
            }
        }
        Self {
            device,
            history,
            grouping,
            steps,
            begins: steps.rows.iter().map(|step| step.begin.0).collect(),
            streams_are_cut: known.len() > values.len(),
            streams: values,
            of_range: ranges.streams.iter().map(|stream| known[stream]).collect(),
            of_event_stream: device.events.stream_values.iter().map(|stream| known[stream]).collect(),
            modules: (1..=grouping.modules.tags.names.len() as u32).collect(),
        }
    }

    /// Names of the streams by number.
    #[must_use]
    pub fn stream_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.streams.iter().map(|stream| format!("{stream:#x}")).collect();
        if self.streams_are_cut
            && let Some(last) = names.last_mut()
        {
            "others".clone_into(last);
        }
        names
    }

    /// How many streams there are.
    #[must_use]
    pub fn stream_count(&self) -> usize {
        self.streams.len()
    }

    /// The stream that the block of allocation `row` belongs to.
    #[inline]
    #[must_use]
    pub fn stream(&self, row: usize) -> u32 {
        let rows = &self.history.allocations;
        if let Some(&stream) = self.of_range.get(rows.ranges[row] as usize) {
            return stream;
        }
        let event = self.device.events.streams.get(rows.alloc_events[row] as usize);
        event.and_then(|&stream| self.of_event_stream.get(stream as usize)).copied().unwrap_or(0)
    }

    /// The stream that range `range` serves.
    #[must_use]
    pub fn stream_of_range(&self, range: usize) -> u32 {
        self.of_range[range]
    }

    /// Whether the recorder named any module.
    #[must_use]
    pub fn has_modules(&self) -> bool {
        !self.modules.is_empty()
    }

    /// The module that the recorder named for allocation `row`, plus one.
    #[inline]
    #[must_use]
    pub fn module(&self, row: usize) -> u32 {
        let event = self.history.allocations.alloc_events[row];
        if self.modules.is_empty() || event == NONE {
            return 0;
        }
        let tag = self.grouping.modules.tags.of_event(&self.device.events, event as usize);
        tag.and_then(|tag| self.modules.get(tag.module? as usize).copied()).unwrap_or(0)
    }

    /// The step in which allocation `row` was made, plus one. `hint` is the answer for a row near by.
    #[inline]
    #[must_use]
    pub fn step(&self, row: usize, hint: u32) -> u32 {
        let event = self.history.allocations.alloc_events[row];
        if self.begins.is_empty() || event == NONE {
            return 0;
        }
        let contains = |step: &crate::tables::StepRow| (step.begin.0..step.end.0).contains(&u64::from(event));
        if hint > 0 && self.steps.rows.get(hint as usize - 1).is_some_and(contains) {
            return hint;
        }
        // Of several that begin here the last: the ones before are empty.
        let behind = self.begins.partition_point(|&begin| begin <= u64::from(event));
        let found = behind.checked_sub(1).and_then(|at| self.steps.rows.get(at)).is_some_and(contains);
        if found { behind as u32 } else { 0 }
    }

    /// The class of allocation `row` in [`SIZE_CLASSES`].
    #[inline]
    #[must_use]
    pub fn size_class(&self, row: usize) -> u32 {
        let bytes = self.history.allocations.block_bytes[row];
        // The powers of four from 32 KiB on: half the position of the highest bit.
        let quarter = (u64::BITS - (bytes >> 15).leading_zeros()).div_ceil(2);
        quarter.min(SIZE_CLASSES.len() as u32 - 1)
    }

    /// Keeps the `most` modules that allocated most; gives their names as texts and how many were left out.
    pub(super) fn limit_modules(&mut self, most: usize, texts: &mut Texts) -> (Vec<u32>, u64) {
        let names = &self.grouping.modules.tags.names;
        let mut kept: Vec<usize> = (0..names.len()).collect();
        if kept.len() > most {
            let mut totals = vec![0u64; names.len() + 1];
            for row in 0..self.history.allocations.len() {
                let slot = &mut totals[self.module(row) as usize];
                *slot = slot.saturating_add(self.history.allocations.block_bytes[row]);
            }
            kept.sort_by_key(|&module| (std::cmp::Reverse(totals[module + 1]), module));
            kept.truncate(most);
            kept.sort_unstable();
        }
        self.modules.fill(0);
        for (number, &module) in kept.iter().enumerate() {
            self.modules[module] = number as u32 + 1;
        }
        let left_out = (names.len() - kept.len()) as u64;
        (kept.iter().map(|&module| texts.text(&names[module])).collect(), left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_in_the_class_that_its_bounds_say() {
        let mut history = History::default();
        for shift in 0..64 {
            for bytes in [(1u64 << shift) - 1, 1 << shift, (1 << shift) + 1] {
                history.allocations.block_bytes.push(bytes);
            }
        }
        let (device, grouping, steps) = (
            DeviceTrace::default(),
            Grouping::build(
                &crate::model::Trace::default(),
                &DeviceTrace::default(),
                &History::default(),
                crate::tables::GroupBy::Line,
            ),
            StepTable::default(),
        );
        let numbers = Numbers::new(&device, &history, &grouping, &steps);
        for (row, &bytes) in history.allocations.block_bytes.iter().enumerate() {
            let expected = SIZE_CLASSES.iter().rposition(|class| class.from_bytes <= bytes).unwrap_or(0);
            assert_eq!(numbers.size_class(row) as usize, expected, "{bytes}");
        }
    }
}
