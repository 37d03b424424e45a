//! What each line holds as each step ends, and by how much that is more than at the end of the step before.
//!
//! Owns one walk over the events. Only lines that did something are told, so there are never more rows than
//! events; what is not told has not changed, and the growth of a step is exactly the sum of its rows'.

use crate::rebuild::{History, Moment, NONE};

use super::walk::{Tally, Walk};
use super::{Grouping, StepTable};

/// One line in one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepLine {
    /// Number of the step.
    pub step: u32,
    /// The group's number in the [`Grouping`]; [`NONE`] for what has none.
    pub group: u32,
    /// What it holds at the step's end.
    pub end_bytes: u64,
    /// By how much that exceeds what it held at the end of the step before; for the first step, at its own
    /// beginning.
    pub growth_bytes: i64,
    /// What it allocated within the step.
    pub allocated_bytes: u64,
    /// In so many allocations.
    pub allocations: u64,
}

/// Calls `visit` with every line that allocated or freed anything since the step before, by step, then by group.
pub fn each_step_line(
    history: &History,
    grouping: &Grouping,
    steps: &StepTable,
    visit: impl FnMut(StepLine),
) {
    if steps.rows.is_empty() {
        return;
    }
    let spans = steps.rows.iter().map(|step| (step.begin, step.end)).collect();
    let lines = vec![Line::default(); grouping.len() + 1];
    let (touched, next, is_open) = (Vec::new(), 0, false);
    Walk::new(history).run(&mut Meter { history, grouping, spans, lines, touched, next, is_open, visit });
}

/// What is known of a line since the step before.
#[derive(Clone, Copy, Default)]
struct Line {
    /// Held now, and at the end of the step before.
    live: u64,
    before: u64,
    allocated: u64,
    allocations: u64,
    is_touched: bool,
}

struct Meter<'a, F> {
    history: &'a History,
    grouping: &'a Grouping,
    spans: Vec<(Moment, Moment)>,
    /// By group; the last is what has none.
    lines: Vec<Line>,
    touched: Vec<u32>,
    /// The step that is open, or comes next.
    next: usize,
    is_open: bool,
    visit: F,
}

impl<F: FnMut(StepLine)> Meter<'_, F> {
    fn touch(&mut self, row: usize) -> (&mut Line, u64) {
        let remainder = self.lines.len() - 1;
        let group = self.grouping.of_allocation.get(row).map_or(remainder, |&group| group as usize);
        let group = group.min(remainder);
        let line = &mut self.lines[group];
        if !std::mem::replace(&mut line.is_touched, true) {
            self.touched.push(group as u32);
        }
        (line, self.history.allocations.block_bytes[row])
    }

    /// Forgets what happened before the first step.
    fn begin(&mut self) {
        for group in self.touched.drain(..) {
            let line = &mut self.lines[group as usize];
            *line = Line { live: line.live, before: line.live, ..Line::default() };
        }
    }

    fn end(&mut self) {
        self.touched.sort_unstable();
        let remainder = self.lines.len() as u32 - 1;
        for group in self.touched.drain(..) {
            let line = &mut self.lines[group as usize];
            (self.visit)(StepLine {
                step: self.next as u32,
                group: if group == remainder { NONE } else { group },
                end_bytes: line.live,
                growth_bytes: line.live.wrapping_sub(line.before) as i64,
                allocated_bytes: line.allocated,
                allocations: line.allocations,
            });
            *line = Line { live: line.live, before: line.live, ..Line::default() };
        }
    }
}

impl<'a, F: FnMut(StepLine)> Tally<'a> for Meter<'a, F> {
    fn alloc(&mut self, row: usize) {
        let is_open = self.is_open;
        let (line, bytes) = self.touch(row);
        line.live = line.live.saturating_add(bytes);
        if is_open {
            line.allocated = line.allocated.saturating_add(bytes);
            line.allocations += 1;
        }
    }

    fn free(&mut self, row: usize) {
        let (line, bytes) = self.touch(row);
        line.live = line.live.saturating_sub(bytes);
    }

    fn arrive(&mut self, moment: Moment) {
        while let Some(&(begin, end)) = self.spans.get(self.next) {
            if !self.is_open && begin <= moment {
                self.is_open = true;
                if self.next == 0 {
                    self.begin();
                }
            }
            if !self.is_open || moment < end {
                return;
            }
            self.end();
            (self.is_open, self.next) = (false, self.next + 1);
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
    fn rows_are_what_changed_and_add_up_to_the_growth_of_the_step() {
        let trace = TraceBuilder::new()
            .at("a.py", 1, "f")
            .alloc(0x1000, 100)
            .at("b.py", 2, "g")
            .alloc(0x2000, 50)
            .stack(&[])
            .alloc(0x3000, 7)
            .free(0x2000, 50)
            .at("a.py", 1, "f")
            .alloc(0x4000, 30)
            .free(0x1000, 100)
            .build();
        let (device, history) = history_of(&trace);
        let grouping = Grouping::build(&trace, &device, &history, GroupBy::Line);
        let step = |begin, end| StepRow { begin: Moment(begin), end: Moment(end), ..StepRow::default() };
        // The second step has no events of its own; between it and the third lies an allocation.
        let steps = StepTable { rows: vec![step(1, 5), step(5, 5), step(6, 8)], ..StepTable::default() };
        let mut rows = Vec::new();
        each_step_line(&history, &grouping, &steps, |row| rows.push(row));
        let line = |step, group, end_bytes, growth_bytes, allocated_bytes, allocations| StepLine {
            step,
            group,
            end_bytes,
            growth_bytes,
            allocated_bytes,
            allocations,
        };
        assert_eq!(rows, [line(0, 1, 0, 0, 50, 1), line(0, NONE, 7, 7, 7, 1), line(2, 0, 30, -70, 0, 0)]);
        each_step_line(&history, &grouping, &StepTable::default(), |_| unreachable!("there are no steps"));
    }
}
