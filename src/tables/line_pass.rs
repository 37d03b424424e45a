//! The pass over events behind the table of lines.
//!
//! Owns what needs every event in order: each group's own maximum and the highest active total per stack.
//! One pass over columns with dense arrays, a few nanoseconds an event. What can be said from rows of
//! allocations alone is Polars' work (`lines`).

use std::ops::Range;

use crate::model::{DeviceTrace, StackId};
use crate::rebuild::{History, Moment, NONE, Peak};

use super::{Grouping, ModuleGroups, Passes};

/// What the pass found.
#[derive(Clone, Debug, Default)]
pub(super) struct PassFigures {
    /// The most each group held at one moment of the window; the last entry is the unattributed remainder.
    pub(super) own_peak: Vec<u64>,
    /// By stack number: the highest active total right before or right after an event of that stack. An
    /// event of a backward pass counts for the stack that opened the pass too: its lines are still running.
    pub(super) active_on_stack: Vec<u64>,
    /// By group: the same over events whose recorder names the group outright; empty where none does.
    pub(super) active_in_module: Vec<u64>,
    /// Highest allocated total of the window.
    pub(super) peak: Peak,
}

/// Runs over the events up to the end of `window`; maxima are taken within it.
pub(super) fn run(
    device: &DeviceTrace,
    history: &History,
    grouping: &Grouping,
    window: &Range<u64>,
) -> PassFigures {
    let mut state = PassState::new(history, grouping);
    let mut pass = Pass::new(device, history, grouping, &mut state);
    let (start, end) = (window.start as usize, window.end as usize);
    for event in 0..start {
        pass.apply(event);
    }
    pass.state.begin_maxima(Moment(window.start));
    for event in start..end {
        pass.apply(event);
    }
    state.figures
}

/// What the pass knows between two events. It goes on through the pieces of a recording.
#[derive(Clone, Debug)]
pub(super) struct PassState {
    /// By group, and behind them the remainder: allocated bytes.
    held: Vec<u64>,
    allocated: u64,
    active: u64,
    /// The stack of the backward pass that is open.
    open: StackId,
    pub(super) figures: PassFigures,
}

impl PassState {
    /// Before the first event of `history`.
    pub(super) fn new(history: &History, grouping: &Grouping) -> Self {
        let groups = grouping.len();
        let mut held = vec![0u64; groups + 1];
        let allocations = &history.allocations;
        for (row, &alloc) in allocations.alloc_events.iter().enumerate() {
            if alloc == NONE && !allocations.is_initially_pending(row) {
                let slot = &mut held[slot(grouping.of_allocation[row], groups)];
                *slot = slot.saturating_add(allocations.block_bytes[row]);
            }
        }
        Self {
            held,
            allocated: history.initial.allocated_bytes,
            active: history.initial.active_bytes,
            open: StackId::NONE,
            figures: PassFigures {
                own_peak: vec![0; groups + 1],
                active_on_stack: vec![0; grouping.facts.len()],
                active_in_module: vec![0; if grouping.modules.tags.is_empty() { 0 } else { groups }],
                peak: Peak::default(),
            },
        }
    }

    /// Maxima are those from `moment`, which is now, on.
    pub(super) fn begin_maxima(&mut self, moment: Moment) {
        let figures = &mut self.figures;
        figures.own_peak.clone_from(&self.held);
        figures.peak = Peak { bytes: self.allocated, moment };
        figures.active_on_stack.fill(0);
        figures.active_in_module.fill(0);
    }

    /// Goes on through the whole of `history`, the next piece.
    pub(super) fn go_on(&mut self, device: &DeviceTrace, history: &History, grouping: &Grouping) {
        let mut pass = Pass::new(device, history, grouping, self);
        for event in 0..history.events as usize {
            pass.apply(event);
        }
        self.open = pass.passes.open();
    }
}

struct Pass<'a> {
    device: &'a DeviceTrace,
    history: &'a History,
    /// Groups plus one: the remainder's slot.
    groups: usize,
    of_allocation: &'a [u32],
    modules: &'a ModuleGroups,
    passes: Passes<'a>,
    state: &'a mut PassState,
}

impl<'a> Pass<'a> {
    fn new(
        device: &'a DeviceTrace,
        history: &'a History,
        grouping: &'a Grouping,
        state: &'a mut PassState,
    ) -> Self {
        Self {
            device,
            history,
            groups: grouping.len(),
            of_allocation: &grouping.of_allocation,
            modules: &grouping.modules,
            passes: Passes::within(&grouping.facts, state.open),
            state,
        }
    }

    /// Sizes come from the file, hence the saturation.
    #[inline]
    fn apply(&mut self, event: usize) {
        let before = self.state.active;
        let row = self.history.allocation_of_event[event];
        if row != NONE {
            self.change(event as u32, row as usize);
        }
        let highest = before.max(self.state.active);
        let stack = self.device.events.stacks[event];
        let pass = self.passes.next(stack);
        self.raise(stack, highest);
        self.raise_module(event, highest);
        if pass != StackId::NONE {
            self.raise(pass, highest);
        }
    }

    #[inline]
    fn change(&mut self, event: u32, row: usize) {
        let allocations = &self.history.allocations;
        let bytes = allocations.block_bytes[row];
        let slot = slot(self.of_allocation[row], self.groups);
        let completed = allocations.free_completed_events[row];
        if allocations.alloc_events[row] == event {
            let held = self.state.held[slot].saturating_add(bytes);
            self.state.held[slot] = held;
            self.state.figures.own_peak[slot] = self.state.figures.own_peak[slot].max(held);
            self.state.allocated = self.state.allocated.saturating_add(bytes);
            self.state.active = self.state.active.saturating_add(bytes);
            self.state.figures.peak.raise(self.state.allocated, Moment::after(u64::from(event)));
            return;
        }
        if allocations.given_back_event(row) == event && !allocations.is_initially_pending(row) {
            self.state.held[slot] = self.state.held[slot].saturating_sub(bytes);
            self.state.allocated = self.state.allocated.saturating_sub(bytes);
        }
        if completed == event {
            self.state.active = self.state.active.saturating_sub(bytes);
        }
    }

    #[inline]
    fn raise_module(&mut self, event: usize, active: u64) {
        let tag = self.modules.tags.of_event(&self.device.events, event);
        let group = self.modules.stated(tag) as usize;
        if let Some(highest) = self.state.figures.active_in_module.get_mut(group) {
            *highest = (*highest).max(active);
        }
    }

    #[inline]
    fn raise(&mut self, stack: StackId, active: u64) {
        if let Some(highest) = self.state.figures.active_on_stack.get_mut(stack.0 as usize) {
            *highest = (*highest).max(active);
        }
    }
}

/// Where a group's figures stand: its number, or behind the last group for the remainder.
#[inline]
pub(super) fn slot(group: u32, groups: usize) -> usize {
    (group as usize).min(groups)
}
