//! Forward passes one by one: those that a backward pass follows, and those that none follows.
//!
//! Owns where a pass begins and ends and how high it rises. What that means is for the rules.

use std::ops::Range;

use crate::rebuild::NONE;
use crate::tables::{Phase, PhaseRun};

use super::Scene;

/// A rise that matters.
pub(crate) const LEAST_RISE_BYTES: u64 = 16 << 20;
/// A pass ends where its own bytes fall below this part of the highest of its stretch, in percent.
const FLOOR_PERCENT: u64 = 10;

/// A forward pass, and the backward pass that follows it if one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pass {
    /// Whether a backward pass follows.
    pub(crate) trains: bool,
    /// Its first event.
    pub(crate) begin: u64,
    /// The event after which allocated bytes are highest within it.
    pub(crate) peak_event: u64,
    /// Allocated bytes before it, and at its peak.
    begin_bytes: u64,
    peak_bytes: u64,
}

impl Pass {
    fn at(event: u64, bytes: u64, trains: bool) -> Self {
        Self { trains, begin: event, peak_event: event, begin_bytes: bytes, peak_bytes: bytes }
    }

    /// Takes in what `event` left; a pass that has not risen yet begins where it is lowest.
    fn take(&mut self, event: u64, bytes: u64) {
        if bytes > self.peak_bytes {
            (self.peak_bytes, self.peak_event) = (bytes, event);
        } else if self.rise() == 0 && bytes < self.begin_bytes {
            *self = Self::at(event + 1, bytes, self.trains);
        }
    }

    /// Bytes by which it rises above its beginning.
    pub(crate) fn rise(&self) -> u64 {
        self.peak_bytes.saturating_sub(self.begin_bytes)
    }
}

/// The passes of a device in order; none where nothing runs forward. Two passes over the events.
pub(crate) fn passes(scene: &Scene<'_>) -> Vec<Pass> {
    let stretches = stretches(&scene.phases().runs, scene.phases().has(Phase::Backward));
    if stretches.iter().all(|stretch| stretch.trains) {
        return Vec::new();
    }
    // One pass per stretch: its highest point.
    let highest = cut(scene, &stretches, |_, _, _, _| false);
    let mut steps = scene.steps.rows.iter().map(|step| step.begin.0).peekable();
    let is_cut = |event: u64, stretch: usize, above: u64, risen: u64| {
        let mut at_step = false;
        while steps.next_if(|&begin| begin <= event).is_some() {
            at_step = true;
        }
        let floor = highest.get(stretch).map_or(0, Pass::rise) / 100 * FLOOR_PERCENT;
        !stretches[stretch].trains && (at_step || (above <= floor && risen > floor))
    };
    cut(scene, &stretches, is_cut)
}

/// Events of one kind of work.
struct Stretch {
    events: Range<u64>,
    trains: bool,
}

/// A forward run with the backward run behind it trains; evaluation does not, nor does any forward run where
/// the recording has no backward pass.
fn stretches(runs: &[PhaseRun], trained: bool) -> Vec<Stretch> {
    let mut found: Vec<Stretch> = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        let next = runs.get(index + 1);
        match run.phase {
            Phase::Forward if trained => {
                let end = next
                    .filter(|next| next.phase == Phase::Backward)
                    .map_or(run.events.end, |next| next.events.end);
                found.push(Stretch { events: run.events.start..end, trains: true });
            }
            Phase::Evaluation | Phase::Forward => {
                found.push(Stretch { events: run.events.clone(), trains: false });
            }
            _ => {}
        }
    }
    found
}

/// Walks the events and cuts every stretch into passes: `ends(event, stretch, above, risen)` says whether a new
/// pass begins with `event`; `above` are the bytes above the stretch's beginning, `risen` those at the highest
/// point of the pass so far.
fn cut(
    scene: &Scene<'_>,
    stretches: &[Stretch],
    mut ends: impl FnMut(u64, usize, u64, u64) -> bool,
) -> Vec<Pass> {
    let rows = &scene.history.allocations;
    let mut bytes = scene.history.initial.allocated_bytes;
    let mut found: Vec<Pass> = Vec::with_capacity(stretches.len());
    let (mut at, mut base, mut open) = (0, 0, false);
    for (event, &row) in (0_u64..).zip(&scene.history.allocation_of_event) {
        while stretches.get(at).is_some_and(|stretch| stretch.events.end <= event) {
            at += 1;
            open = false;
        }
        let Some(stretch) = stretches.get(at) else { break };
        if event >= stretch.events.start {
            if !open {
                base = bytes;
            }
            let risen = found.last().map_or(0, |pass| pass.peak_bytes.saturating_sub(base));
            if !open || ends(event, at, bytes.saturating_sub(base), risen) {
                found.push(Pass::at(event, bytes, stretch.trains));
                open = true;
            }
        }
        if row != NONE {
            bytes = change(rows, row as usize, event as u32, bytes);
        }
        if let Some(pass) = found.last_mut().filter(|_| open) {
            pass.take(event, bytes);
        }
    }
    found
}

/// Allocated bytes after an event that concerns `row`.
fn change(rows: &crate::rebuild::Allocations, row: usize, event: u32, bytes: u64) -> u64 {
    if rows.alloc_events[row] == event {
        bytes.saturating_add(rows.block_bytes[row])
    } else if rows.given_back_event(row) == event {
        bytes.saturating_sub(rows.block_bytes[row])
    } else {
        bytes
    }
}
