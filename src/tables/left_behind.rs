//! What steps leave behind: allocations that are still there when later steps are over.
//!
//! Owns one pass over the allocations of a device. An allocation is *kept* when it is live as the last step
//! ends, and *released late* when it lived through at least one whole step after its own and was given back.
//! Whether that is a leak is for the rules to say.

use crate::rebuild::{Allocations, History, NONE};

use super::{Origins, Pace};

/// An allocation of a step that is live when the last step is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kept {
    /// Its origin.
    pub origin: u32,
    /// The step that made it.
    pub step: u32,
    /// Its row in the history.
    pub row: u32,
}

/// Of one origin: allocations that were released late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReleasedLate {
    /// How many.
    pub blocks: u64,
    /// The most steps that one of them lived, from its own to the one that released it.
    pub oldest_steps: u32,
    /// The first step that released one.
    pub first_step: u32,
}

/// What the steps of a [`Pace`] left behind.
#[derive(Clone, Debug, Default)]
pub struct LeftBehind {
    /// What is kept, by origin, then by step.
    pub kept: Vec<Kept>,
    /// By origin.
    pub released: Vec<ReleasedLate>,
    /// Origins that allocated anything within a step: so many were looked at.
    pub origins: u64,
    /// For each step: bytes of what lives through all of it, from before its first event to its end.
    pub floor_bytes: Vec<u64>,
}

/// Looks at every allocation once.
#[must_use]
pub fn left_behind(history: &History, pace: &Pace, origins: &Origins) -> LeftBehind {
    let rows = &history.allocations;
    let end = pace.end().0;
    let mut found =
        LeftBehind { released: vec![ReleasedLate::default(); origins.len()], ..LeftBehind::default() };
    let mut seen = vec![false; origins.len()];
    let mut floors = Floors(vec![0; pace.len() + 1]);
    let mut hint = 0;
    for row in 0..rows.len() {
        let (alloc, free) = (rows.alloc_events[row], given_back(rows, row));
        if alloc == NONE {
            if rows.initially_pending.binary_search(&(row as u32)).is_err() {
                floors.add(0, lives_through(pace, free, end, 0), rows.block_bytes[row]);
            }
            continue;
        }
        if u64::from(alloc) >= end {
            continue;
        }
        let after = pace.at_or_after(alloc.into(), hint);
        hint = after.unwrap_or_default();
        let until = lives_through(pace, free, end, hint);
        floors.add(after.map_or(0, |step| step + 1), until, rows.block_bytes[row]);
        let Some(step) = after.filter(|_| pace.within(alloc.into(), hint).is_some()) else { continue };
        let origin = origins.of(row);
        found.origins += u64::from(!std::mem::replace(&mut seen[origin as usize], true));
        if u64::from(free) >= end {
            found.kept.push(Kept { origin, step: step as u32, row: row as u32 });
        } else if until > step + 1 {
            note(&mut found.released[origin as usize], step as u32, until as u32);
        }
    }
    found.kept.sort_unstable();
    found.floor_bytes = floors.summed();
    found
}

fn given_back(rows: &Allocations, row: usize) -> u32 {
    rows.given_back_event(row)
}

/// The number of steps, from the first on, at whose end what is given back at event `free` is still there.
fn lives_through(pace: &Pace, free: u32, end: u64, hint: usize) -> usize {
    if u64::from(free) >= end {
        return pace.len();
    }
    pace.at_or_after(free.into(), hint).unwrap_or_default()
}

fn note(late: &mut ReleasedLate, step: u32, until: u32) {
    late.first_step = if late.blocks == 0 { until } else { late.first_step.min(until) };
    late.blocks += 1;
    late.oldest_steps = late.oldest_steps.max(until - step);
}

/// Differences between a step's floor and that of the one before; sums wrap, so no order overflows.
struct Floors(Vec<u64>);

impl Floors {
    /// Adds `bytes` to the steps `from..until`.
    fn add(&mut self, from: usize, until: usize, bytes: u64) {
        if from < until {
            self.0[from] = self.0[from].wrapping_add(bytes);
            self.0[until] = self.0[until].wrapping_sub(bytes);
        }
    }

    fn summed(mut self) -> Vec<u64> {
        self.0.pop();
        let mut sum = 0u64;
        for floor in &mut self.0 {
            sum = sum.wrapping_add(*floor);
            *floor = sum;
        }
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;
    use crate::rebuild::{Moment, rebuild};
    use crate::tables::{GroupBy, Grouping, StepRow, StepSource, StepTable};

    /// Four steps of four allocations: `keep` stays, `next` is freed in the step after, `late` in the one after
    /// that, `gone` at once. A model of 4,096 bytes is there before.
    #[test]
    fn what_stays_what_goes_late_and_what_lies_below() {
        let mut builder = TraceBuilder::new().segment_alloc(0, 2 << 20).at("m.py", 1, "m").alloc(0, 4096);
        let mut steps = Vec::new();
        let mut events = 2;
        for step in 0..4u64 {
            let begin = events;
            let at = |of: u64, what: u64| 8192 + of * 4096 + what * 512;
            builder = builder.at("a.py", 1, "keep").alloc(at(step, 0), 512).at("a.py", 2, "next");
            builder = builder.alloc(at(step, 1), 512).at("a.py", 3, "late").alloc(at(step, 2), 512);
            builder = builder.at("a.py", 4, "gone").alloc(at(step, 3), 512).free(at(step, 3), 512);
            events += 6;
            for (age, what) in [(1, 1), (2, 2)] {
                if let Some(of) = step.checked_sub(age) {
                    builder = builder.free(at(of, what), 512);
                    events += 2;
                }
            }
            let (begin, end) = (Moment(begin), Moment(events));
            steps.push(StepRow { name: step.to_string(), begin, end, ..StepRow::default() });
        }
        let trace = builder.build();
        let history = rebuild(&trace, &trace.devices[0]);
        let lines = Grouping::build(&trace, &trace.devices[0], &history, GroupBy::Line);
        let origins = Origins::by_stack(&lines, &history);
        let table = StepTable { source: StepSource::Marks, rows: steps };
        let pace = Pace::all(&table, &history, 2).remove(0);
        let found = left_behind(&history, &pace, &origins);
        let row = |step: usize, what: usize| 1 + step * 4 + what;
        let kept = |what| {
            let origin = origins.of(row(0, what));
            found.kept.iter().filter(|kept| kept.origin == origin).map(|kept| kept.step).collect::<Vec<_>>()
        };
        assert_eq!((kept(0), kept(1), kept(2)), (vec![0, 1, 2, 3], vec![2, 3], vec![1, 2, 3]));
        let late = found.released[origins.of(row(0, 2)) as usize];
        assert_eq!(late, ReleasedLate { blocks: 1, oldest_steps: 2, first_step: 2 });
        assert_eq!(found.released[origins.of(row(0, 1)) as usize], ReleasedLate::default());
        assert_eq!(found.origins, 4);
        assert_eq!(found.floor_bytes, [4096, 4096 + 2 * 512, 4096 + 3 * 512, 4096 + 6 * 512]);
    }
}
