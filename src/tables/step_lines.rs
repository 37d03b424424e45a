//! What each line holds at most within each step.
//!
//! Owns one walk over the events, and how many lines and steps are kept. A line that neither allocates nor
//! frees within a step is left out of that step: it holds what it held before.

use crate::rebuild::{History, Moment};

use super::walk::{Tally, Walk};
use super::{Grouping, StepTable};

/// Lines that are kept of a step, and steps that are looked at.
const MOST_LINES: usize = 16;
const MOST_STEPS: usize = 256;

/// For each of the first steps: the groups that hold most at any one moment of it, `(group, bytes)`, most first.
#[must_use]
pub fn step_lines(history: &History, grouping: &Grouping, steps: &StepTable) -> Vec<Vec<(u32, u64)>> {
    let spans: Vec<(Moment, Moment)> =
        steps.rows.iter().take(MOST_STEPS).map(|step| (step.begin, step.end)).collect();
    if spans.is_empty() {
        return Vec::new();
    }
    let groups = grouping.len();
    let mut meter = Meter {
        history,
        grouping,
        spans,
        live: vec![0; groups],
        most: vec![None; groups],
        touched: Vec::new(),
        is_open: false,
        done: Vec::new(),
    };
    Walk::new(history).run(&mut meter);
    meter.done
}

struct Meter<'a> {
    history: &'a History,
    grouping: &'a Grouping,
    spans: Vec<(Moment, Moment)>,
    /// Bytes of each group now.
    live: Vec<u64>,
    /// The most of each group in the open step, if it was touched there.
    most: Vec<Option<u64>>,
    touched: Vec<u32>,
    is_open: bool,
    done: Vec<Vec<(u32, u64)>>,
}

impl Meter<'_> {
    fn group(&self, row: usize) -> Option<usize> {
        let group = *self.grouping.of_allocation.get(row)? as usize;
        (group < self.live.len()).then_some(group)
    }

    fn note(&mut self, group: usize) {
        if self.is_open {
            let bytes = self.live[group];
            let most = &mut self.most[group];
            if most.is_none() {
                self.touched.push(group as u32);
            }
            *most = Some(most.map_or(bytes, |most| most.max(bytes)));
        }
    }

    fn close(&mut self) {
        let mut lines: Vec<(u32, u64)> = Vec::with_capacity(self.touched.len());
        for group in self.touched.drain(..) {
            lines.push((group, self.most[group as usize].take().unwrap_or_default()));
        }
        lines.sort_unstable_by_key(|&(group, bytes)| (std::cmp::Reverse(bytes), group));
        lines.truncate(MOST_LINES);
        self.done.push(lines);
        self.is_open = false;
    }
}

impl<'a> Tally<'a> for Meter<'a> {
    fn alloc(&mut self, row: usize) {
        let Some(group) = self.group(row) else { return };
        self.live[group] = self.live[group].saturating_add(self.history.allocations.block_bytes[row]);
        self.note(group);
    }

    fn free(&mut self, row: usize) {
        let Some(group) = self.group(row) else { return };
        self.note(group);
        self.live[group] = self.live[group].saturating_sub(self.history.allocations.block_bytes[row]);
    }

    fn arrive(&mut self, moment: Moment) {
        while let Some(&(begin, end)) = self.spans.get(self.done.len()) {
            if self.is_open && end <= moment {
                self.close();
            } else if !self.is_open && begin <= moment {
                self.is_open = true;
                if end > moment {
                    return;
                }
            } else {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::walk::samples::history_of;
    use super::super::{GroupBy, StepRow};
    use super::*;
    use crate::model::TraceBuilder;

    #[test]
    fn each_step_has_the_most_of_every_line_that_it_touched() {
        let trace = TraceBuilder::new()
            .at("a.py", 1, "f")
            .alloc(0x1000, 100)
            .alloc(0x2000, 50)
            .free(0x1000, 100)
            .at("b.py", 2, "g")
            .alloc(0x3000, 70)
            .free(0x3000, 70)
            .free(0x2000, 50)
            .build();
        let (device, history) = history_of(&trace);
        let grouping = Grouping::build(&trace, &device, &history, GroupBy::Line);
        let step = |begin, end| StepRow { begin: Moment(begin), end: Moment(end), ..StepRow::default() };
        let table = |rows: Vec<StepRow>| StepTable { rows, ..StepTable::default() };
        // Step 2 is empty; step 3 sees only the free of the first line, which held 50 until then.
        let steps = table(vec![step(1, 5), step(5, 5), step(7, 9)]);
        assert_eq!(step_lines(&history, &grouping, &steps), [vec![(0, 150), (1, 70)], vec![], vec![(0, 50)]]);
        assert!(step_lines(&history, &grouping, &table(Vec::new())).is_empty());
    }
}
