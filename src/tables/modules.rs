//! The table of modules: what each held at the peak, by phase, as the recorder named it.
//!
//! Owns figures per module and the share of the backward pass that has a name. Does not own the names
//! (`tags`) nor the grouping of lines (`group`).

use crate::model::{DeviceTrace, StackId};
use crate::rebuild::{History, Moment, NONE};

use super::tags::{ModuleTags, Tag};
use super::{GroupKey, Grouping, Passes, Phase};

/// Figures of one module in one phase, in bytes of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseFigures {
    /// Bytes live when allocated bytes peak.
    pub held_at_peak_bytes: u64,
    /// Bytes of all allocations.
    pub total_bytes: u64,
    /// Number of allocations.
    pub allocations: u64,
}

impl PhaseFigures {
    fn add(&mut self, bytes: u64, held: bool) {
        self.allocations += 1;
        self.total_bytes = self.total_bytes.saturating_add(bytes);
        if held {
            self.held_at_peak_bytes = self.held_at_peak_bytes.saturating_add(bytes);
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            held_at_peak_bytes: self.held_at_peak_bytes.saturating_add(other.held_at_peak_bytes),
            total_bytes: self.total_bytes.saturating_add(other.total_bytes),
            allocations: self.allocations + other.allocations,
        }
    }
}

/// One module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModuleRow {
    /// Its qualified name.
    pub module: String,
    /// The line that allocates most in its forward pass.
    pub forward_line: Option<GroupKey>,
    /// Forward, backward, optimizer.
    pub phases: [PhaseFigures; 3],
}

impl ModuleRow {
    /// All phases together.
    #[must_use]
    pub fn total(&self) -> PhaseFigures {
        self.phases.iter().fold(PhaseFigures::default(), |sum, &phase| sum.plus(phase))
    }
}

/// All modules of a device. `held_at_peak_bytes` of all rows plus [`ModuleTable::unnamed`] is the peak of
/// allocated bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModuleTable {
    /// Most bytes held at the peak first, then most bytes in all, then by name.
    pub rows: Vec<ModuleRow>,
    /// Allocations without a module's name, those from before the recording included.
    pub unnamed: PhaseFigures,
    /// Bytes of all allocations of backward passes: those that the recorder marked so, those made inside a
    /// call of `backward()`, and those of the engine's threads meanwhile.
    pub backward_bytes: u64,
    /// The part of them that carries a module's name.
    pub backward_named_bytes: u64,
}

/// The modules of `device`; `None` when the recorder named none.
#[must_use]
pub fn modules(device: &DeviceTrace, history: &History, grouping: &Grouping) -> Option<ModuleTable> {
    let tags = &grouping.modules.tags;
    if tags.is_empty() {
        return None;
    }
    let lines = &grouping.modules.forward_lines;
    let rows = tags.names.iter().zip(lines).map(|(name, line)| ModuleRow {
        module: name.clone(),
        forward_line: line.clone(),
        ..ModuleRow::default()
    });
    let mut table = ModuleTable { rows: rows.collect(), ..ModuleTable::default() };
    add_allocations(&mut table, device, history, tags);
    add_backward(&mut table, device, history, grouping);
    table.rows.retain(|row| row.total().allocations > 0);
    table.rows.sort_by(|a, b| {
        let key = |row: &ModuleRow| (row.total().held_at_peak_bytes, row.total().total_bytes);
        key(b).cmp(&key(a)).then_with(|| a.module.cmp(&b.module))
    });
    Some(table)
}

fn add_allocations(table: &mut ModuleTable, device: &DeviceTrace, history: &History, tags: &ModuleTags) {
    let peak: Moment = history.peaks.allocated.moment;
    let allocations = &history.allocations;
    for (row, &alloc) in allocations.alloc_events.iter().enumerate() {
        let tag = (alloc != NONE).then(|| tags.of_event(&device.events, alloc as usize)).flatten();
        let figures = match tag {
            Some(Tag { phase, module: Some(module) }) => {
                &mut table.rows[module as usize].phases[phase as usize]
            }
            _ => &mut table.unnamed,
        };
        figures.add(allocations.block_bytes[row], allocations.is_allocated_at(row, peak));
    }
}

fn add_backward(table: &mut ModuleTable, device: &DeviceTrace, history: &History, grouping: &Grouping) {
    let mut passes = Passes::new(&grouping.facts);
    let allocations = &history.allocations;
    for (event, (&stack, &row)) in device.events.stacks.iter().zip(&history.allocation_of_event).enumerate() {
        let pass = passes.next(stack);
        let Some(&alloc) = allocations.alloc_events.get(row as usize) else { continue };
        if alloc as usize != event {
            continue;
        }
        let tag = grouping.modules.tags.of_event(&device.events, event);
        let opens = grouping.facts.get(stack.0 as usize).is_some_and(|facts| facts.opens_pass);
        if pass != StackId::NONE || opens || tag.is_some_and(|tag| tag.phase == Phase::Backward) {
            let bytes = allocations.block_bytes[row as usize];
            table.backward_bytes = table.backward_bytes.saturating_add(bytes);
            if tag.is_some_and(|tag| tag.module.is_some()) {
                table.backward_named_bytes = table.backward_named_bytes.saturating_add(bytes);
            }
        }
    }
}
