//! Bursts: runs of frees without an allocation in between.
//!
//! Owns the pass that finds them, and which of their blocks were released together although they were made
//! apart. Why that happened is for the rules to say.

use std::ops::Range;

use crate::rebuild::{History, NONE};

use super::{Origins, Pace};

/// Blocks of one origin that a burst releases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Together {
    /// The origin.
    pub origin: u32,
    /// Rows, in the order in which they are released.
    pub rows: Vec<u32>,
    /// In how many different steps they were made; how many they are where no steps are given.
    pub spread: u32,
    /// How many blocks of the origin are live after the burst.
    pub left: u64,
}

/// A run of frees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Burst {
    /// From its first free to the one behind its last.
    pub events: Range<u64>,
    /// Allocated bytes before it.
    pub live_bytes: u64,
    /// Blocks that were made apart, by origin.
    pub together: Vec<Together>,
}

/// All bursts of a device that release blocks which were made apart.
#[derive(Clone, Debug, Default)]
pub struct Bursts {
    /// In order.
    pub bursts: Vec<Burst>,
    /// For each origin: the event of its last allocation; [`NONE`] for one without.
    pub last_alloc: Vec<u32>,
}

/// Looks at every event once. Blocks are made apart when they are of at least `least` different steps of
/// `pace`; without a pace, when they are at least `least`.
#[must_use]
pub fn bursts(history: &History, origins: &Origins, pace: Option<&Pace>, least: u32) -> Bursts {
    let rows = &history.allocations;
    let mut pass = Pass {
        history,
        origins,
        pace,
        least,
        run: Run::default(),
        live: vec![0; origins.len()],
        live_bytes: 0,
        found: Bursts { bursts: Vec::new(), last_alloc: vec![NONE; origins.len()] },
    };
    for row in (0..rows.len()).filter(|&row| rows.alloc_events[row] == NONE) {
        pass.enter(row);
    }
    for (event, &row) in history.allocation_of_event.iter().enumerate() {
        let row = row as usize;
        let Some(&alloc) = rows.alloc_events.get(row) else { continue };
        if alloc as usize == event {
            pass.close();
            pass.enter(row);
            pass.found.last_alloc[origins.of(row) as usize] = alloc;
        } else if rows.given_back_event(row) as usize == event {
            pass.leave(row, event as u64);
        }
    }
    pass.close();
    pass.found
}

/// The frees since the last allocation.
#[derive(Default)]
struct Run {
    events: Range<u64>,
    rows: Vec<u32>,
    bytes: u64,
    /// The earliest and latest allocation among them; those from before the recording do not count.
    oldest: u32,
    newest: u32,
}

struct Pass<'a> {
    history: &'a History,
    origins: &'a Origins,
    pace: Option<&'a Pace>,
    least: u32,
    run: Run,
    /// Live blocks by origin.
    live: Vec<u64>,
    live_bytes: u64,
    found: Bursts,
}

impl Pass<'_> {
    fn enter(&mut self, row: usize) {
        self.live[self.origins.of(row) as usize] += 1;
        self.live_bytes = self.live_bytes.saturating_add(self.history.allocations.block_bytes[row]);
    }

    fn leave(&mut self, row: usize, event: u64) {
        let live = &mut self.live[self.origins.of(row) as usize];
        *live = live.saturating_sub(1);
        let bytes = self.history.allocations.block_bytes[row];
        self.live_bytes = self.live_bytes.saturating_sub(bytes);
        let alloc = self.history.allocations.alloc_events[row];
        if self.run.rows.is_empty() {
            self.run.events.start = event;
            (self.run.oldest, self.run.newest) = (NONE, 0);
        }
        self.run.events.end = event + 1;
        self.run.rows.push(row as u32);
        self.run.bytes = self.run.bytes.saturating_add(bytes);
        if alloc != NONE {
            self.run.oldest = self.run.oldest.min(alloc);
            self.run.newest = self.run.newest.max(alloc);
        }
    }

    /// The run is over: keeps what was made apart.
    fn close(&mut self) {
        if self.run.rows.len() >= self.least as usize && self.spans_enough() {
            let together = self.together();
            if !together.is_empty() {
                let live_bytes = self.live_bytes.saturating_add(self.run.bytes);
                self.found.bursts.push(Burst { events: self.run.events.clone(), live_bytes, together });
            }
        }
        self.run.rows.clear();
        self.run.bytes = 0;
    }

    /// Most runs release what one step made: that is seen without sorting them.
    fn spans_enough(&self) -> bool {
        let Some(pace) = self.pace else { return true };
        let newest = pace.at_or_after(self.run.newest.into(), 0);
        let oldest = pace.at_or_after(self.run.oldest.into(), 0);
        self.run.oldest != NONE
            && newest.is_some_and(|newest| newest + 1 >= self.least as usize + oldest.unwrap_or_default())
    }

    fn together(&self) -> Vec<Together> {
        let mut rows: Vec<(u32, u32)> = self.run.rows.iter().map(|&row| (self.origin(row), row)).collect();
        rows.sort_by_key(|&(origin, _)| origin);
        let group = |group: &[(u32, u32)]| {
            let origin = group.first()?.0;
            let rows: Vec<u32> = group.iter().map(|&(_, row)| row).collect();
            let (spread, left) = (self.spread(&rows), self.live[origin as usize]);
            (spread >= self.least).then_some(Together { origin, rows, spread, left })
        };
        rows.chunk_by(|a, b| a.0 == b.0).filter_map(group).collect()
    }

    fn origin(&self, row: u32) -> u32 {
        self.origins.of(row as usize)
    }

    fn spread(&self, rows: &[u32]) -> u32 {
        let Some(pace) = self.pace else { return rows.len() as u32 };
        let alloc = |row: &u32| self.history.allocations.alloc_events[*row as usize];
        let made = rows.iter().map(alloc).filter(|&alloc| alloc != NONE);
        let mut steps: Vec<usize> = made.filter_map(|alloc| pace.at_or_after(alloc.into(), 0)).collect();
        steps.sort_unstable();
        steps.dedup();
        steps.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;
    use crate::rebuild::rebuild;
    use crate::tables::{GroupBy, Grouping};

    #[test]
    fn frees_in_a_row_are_a_burst_and_one_origin_is_released_together() {
        let mut builder = TraceBuilder::new().segment_alloc(0, 2 << 20);
        for at in 0..4u64 {
            builder = builder.at("a.py", 1, "kept").alloc(at * 1024, 512);
            builder = builder.at("a.py", 2, "gone").alloc(at * 1024 + 512, 512).free(at * 1024 + 512, 512);
        }
        for at in 0..3u64 {
            builder = builder.free(at * 1024, 512);
        }
        let trace = builder.alloc(0, 512).build();
        let history = rebuild(&trace, &trace.devices[0]);
        let lines = Grouping::build(&trace, &trace.devices[0], &history, GroupBy::Line);
        let origins = Origins::by_stack(&lines, &history);
        let found = bursts(&history, &origins, None, 3);
        assert_eq!(found.bursts.len(), 1);
        let burst = &found.bursts[0];
        // The free of the fourth `gone` block is part of the run, and its own group is too small.
        assert_eq!((burst.events.clone(), burst.live_bytes), (15..22, 5 * 512));
        assert_eq!(burst.together.len(), 1);
        assert_eq!((burst.together[0].rows.as_slice(), burst.together[0].left), ([0, 2, 4].as_slice(), 1));
        assert_eq!(found.last_alloc[origins.of(1) as usize], 23);
    }
}
