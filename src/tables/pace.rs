//! Steps that can be compared with one another, as ranges of events.
//!
//! Owns which steps these are: a step without events on the device says nothing, and a last step that asked
//! for less than any other, failed, or did far more than the others was cut off or has the end of the program
//! in it. Owns also the moment at
//! which a step is over: right after its last allocation, so that a program's tearing down is not part of it.

use std::ops::Range;

use crate::rebuild::{History, Moment, NONE};

use super::{StepRow, StepTable};

/// A sequence of steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// For each step: its events and those up to the next one.
    spans: Vec<Range<u64>>,
    /// Number of each step in the table of steps.
    rows: Vec<usize>,
    /// When the last of them is over.
    end: Moment,
}

impl Pace {
    /// All steps in a row; then, where their names say that there are several kinds (`train 3`, `eval 3`),
    /// those of each kind by themselves. Only sequences of at least `least` steps, the longest first.
    #[must_use]
    pub fn all(steps: &StepTable, history: &History, least: usize) -> Vec<Self> {
        let busy: Vec<usize> = (0..steps.rows.len()).filter(|&row| has_events(&steps.rows[row])).collect();
        let span = |at: usize| {
            let step = &steps.rows[busy[at]];
            let next = busy.get(at + 1).map_or(step.end.0, |&next| steps.rows[next].begin.0);
            step.begin.0..next.max(step.begin.0)
        };
        let spans: Vec<Range<u64>> = (0..busy.len()).map(span).collect();
        let whole: Vec<usize> = (0..busy.len()).collect();
        let mut found = vec![whole];
        let mut kinds: Vec<(&str, Vec<usize>)> = Vec::new();
        for (at, &row) in busy.iter().enumerate() {
            let kind = kind_of(&steps.rows[row].name);
            match kinds.iter().position(|(known, _)| *known == kind) {
                Some(known) => kinds[known].1.push(at),
                None if kinds.len() < MOST_NAMES => kinds.push((kind, vec![at])),
                None => {}
            }
        }
        if kinds.len() > 1 {
            kinds.sort_by_key(|(_, members)| std::cmp::Reverse(members.len()));
            found.extend(kinds.into_iter().take(MOST_KINDS).map(|(_, members)| members));
        }
        let pace = |members: Vec<usize>| {
            let rows = members.iter().map(|&at| busy[at]).collect();
            let spans = members.into_iter().map(|at| spans[at].clone()).collect();
            Self { spans, rows, end: Moment(0) }.closed(history)
        };
        found.into_iter().map(pace).filter(|pace| pace.len() >= least.max(1)).collect()
    }

    /// Leaves an odd last step out and finds the end.
    fn closed(mut self, history: &History) -> Self {
        let alloc_events = &history.allocations.alloc_events;
        let initial = alloc_events.iter().take_while(|&&event| event == NONE).count();
        let begun = &alloc_events[initial..];
        let before = |event: u64| begun.partition_point(|&alloc| u64::from(alloc) < event);
        let requests = |span: &Range<u64>| before(span.end).saturating_sub(before(span.start));
        let mut others: Vec<usize> = self.spans.iter().map(requests).collect();
        let last = others.pop().unwrap_or_default();
        others.sort_unstable();
        let (fewest, usual) = (others.first().copied(), others.get(others.len() / 2).copied());
        let failed = |span: &Range<u64>| history.ooms.iter().any(|oom| span.contains(&oom.event));
        if fewest.is_some_and(|fewest| last < fewest)
            || usual.is_some_and(|usual| last > usual.saturating_mul(2))
            || self.spans.last().is_some_and(failed)
        {
            self.spans.pop();
            self.rows.pop();
        }
        if let Some(span) = self.spans.last() {
            let last_alloc = before(span.end).checked_sub(1).map(|at| u64::from(begun[at]));
            let is_within = |event: &u64| span.contains(event);
            self.end = last_alloc.filter(is_within).map_or(Moment(span.end), Moment::after);
        }
        self
    }

    /// Number of steps.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there is no step.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Number of step `step` in the table of steps.
    #[must_use]
    pub fn row(&self, step: usize) -> usize {
        self.rows[step]
    }

    /// When the first step begins.
    #[must_use]
    pub fn begin(&self) -> Moment {
        Moment(self.spans.first().map_or(0, |span| span.start))
    }

    /// When the last step is over.
    #[must_use]
    pub fn end(&self) -> Moment {
        self.end
    }

    /// The step during or after which `event` happened; `None` before the first. `hint` is a guess.
    #[inline]
    #[must_use]
    pub fn at_or_after(&self, event: u64, hint: usize) -> Option<usize> {
        let begins = |step: usize| self.spans.get(step).is_none_or(|span| span.start > event);
        if self.spans.get(hint).is_some_and(|span| span.start <= event) && begins(hint + 1) {
            return Some(hint);
        }
        self.spans.partition_point(|span| span.start <= event).checked_sub(1)
    }

    /// The step that `event` belongs to; `None` outside of these steps. `hint` is a guess.
    #[inline]
    #[must_use]
    pub fn within(&self, event: u64, hint: usize) -> Option<usize> {
        self.at_or_after(event, hint).filter(|&step| event < self.spans[step].end)
    }
}

/// Kinds that are looked at by themselves, of so many names: those of a program that names each step
/// differently are no kinds.
const MOST_KINDS: usize = 2;
const MOST_NAMES: usize = 16;

fn has_events(step: &StepRow) -> bool {
    step.begin < step.end
}

/// `eval` of `eval 12`.
fn kind_of(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;
    use crate::rebuild::rebuild;
    use crate::tables::StepSource;

    /// A history with allocations at the events named and frees right behind them.
    fn history(allocs: u64) -> History {
        let mut builder = TraceBuilder::new().segment_alloc(0, 2 << 20);
        for _ in 0..allocs {
            builder = builder.alloc(0, 512).free(0, 512);
        }
        let trace = builder.build();
        rebuild(&trace, &trace.devices[0])
    }

    fn table(steps: &[(&str, u64, u64)]) -> StepTable {
        let row = |&(name, begin, end): &(&str, u64, u64)| StepRow {
            name: name.to_owned(),
            begin: Moment(begin),
            end: Moment(end),
            ..StepRow::default()
        };
        StepTable { source: StepSource::Annotations, rows: steps.iter().map(row).collect() }
    }

    #[test]
    fn what_lies_between_steps_belongs_to_the_one_before() {
        let steps = table(&[("a", 1, 5), ("b", 7, 7), ("c", 7, 13)]);
        let paces = Pace::all(&steps, &history(4), 1);
        assert_eq!(paces[0].spans, [1..7, 7..13], "a step without events is left out");
        let pace = &paces[0];
        assert_eq!((pace.within(0, 0), pace.within(6, 1), pace.within(7, 0)), (None, Some(0), Some(1)));
        assert_eq!((pace.within(13, 1), pace.at_or_after(99, 0)), (None, Some(1)));
        assert_eq!(pace.end(), Moment(11), "right after the last allocation");
        assert_eq!(pace.row(1), 2);
    }

    #[test]
    fn kinds_of_steps_are_also_taken_by_themselves() {
        let steps = table(&[("train 1", 1, 4), ("eval 1", 4, 7), ("train 2", 7, 10), ("train 3", 10, 13)]);
        let paces = Pace::all(&steps, &history(4), 3);
        assert_eq!(paces.len(), 2);
        assert_eq!(paces[1].spans, [1..4, 7..10, 10..13]);
        assert_eq!((paces[1].within(5, 0), paces[1].at_or_after(5, 0)), (None, Some(0)));
    }

    #[test]
    fn a_last_step_that_was_cut_off_is_left_out() {
        let steps = table(&[("1", 1, 13), ("2", 13, 25), ("3", 25, 28)]);
        let paces = Pace::all(&steps, &history(9), 1);
        assert_eq!(paces[0].spans, [1..13, 13..25]);
        assert_eq!(paces[0].end(), Moment(23));
    }
}
