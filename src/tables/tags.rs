//! Modules and phases that a recorder wrote on events.
//!
//! Owns the reading of `memlab:PHASE:MODULE` in `user_metadata` (see `docs/trace-format.md`) and the line that
//! a module's forward pass stands for. Does not own who is charged (`group`) nor figures (`modules`).

use std::collections::BTreeMap;

use crate::model::{DeviceTrace, Events, FrameId, StringId, Trace};
use crate::rebuild::{History, NONE};

use super::{Phase, StackFacts};

/// The part of the module table's rule that concerns lines, printed where it was used.
pub const MODULE_RULE: &str = " Where the recorder noted the module, an allocation of its backward pass \
    without frames is charged to the line that allocates most in that module's forward pass instead.";

const PREFIX: &str = "memlab:";

/// What the recorder wrote on an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// When.
    pub phase: Phase,
    /// For which module: a number in [`ModuleTags::names`]; `None` outside every module.
    pub module: Option<u32>,
}

/// Every module that the events of one device name. Empty for a recording without such names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModuleTags {
    /// Qualified names, ascending.
    pub names: Vec<String>,
    /// By string number.
    of_string: Vec<Option<Tag>>,
}

impl ModuleTags {
    /// The tags among the strings that events have as their metadata: `used`, by string number.
    #[must_use]
    pub(super) fn of(trace: &Trace, used: &[bool]) -> Self {
        let parsed: Vec<Option<Parsed<'_>>> = (0..used.len())
            .map(|id| used[id].then(|| parse(trace.strings.get(StringId(id as u32)))).flatten())
            .collect();
        let mut numbers: BTreeMap<&str, u32> =
            parsed.iter().flatten().filter_map(|&(_, module)| Some((module?, 0))).collect();
        for (number, slot) in numbers.values_mut().enumerate() {
            *slot = number as u32;
        }
        let tag = |&(phase, module): &Parsed<'_>| Tag { phase, module: module.map(|name| numbers[name]) };
        let of_string = if numbers.is_empty() {
            Vec::new()
        } else {
            parsed.iter().map(|found| found.as_ref().map(tag)).collect()
        };
        Self { of_string, names: numbers.keys().map(|&name| name.to_owned()).collect() }
    }

    /// Whether no event names a module.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// What stands on event `event`.
    #[inline]
    #[must_use]
    pub fn of_event(&self, events: &Events, event: usize) -> Option<Tag> {
        if self.names.is_empty() {
            return None;
        }
        self.of_string.get(events.user_metadata.get(event).0 as usize).copied().flatten()
    }
}

/// What each line allocates in the forward pass of each module: who stands for the module's backward pass.
#[derive(Clone, Debug, Default)]
pub(super) struct ForwardSums(BTreeMap<(u32, FrameId), u64>);

impl ForwardSums {
    /// Takes in the allocations of `history`, of the whole recording or of its next piece.
    pub(super) fn take(
        &mut self,
        tags: &ModuleTags,
        device: &DeviceTrace,
        history: &History,
        facts: &[StackFacts],
    ) {
        let allocations = &history.allocations;
        for (row, &alloc) in allocations.alloc_events.iter().enumerate() {
            let tag = (alloc != NONE).then(|| tags.of_event(&device.events, alloc as usize)).flatten();
            let Some(Tag { phase: Phase::Forward, module: Some(module) }) = tag else { continue };
            let stack = allocations.stacks[row].0 as usize;
            if let Some(frame) = facts.get(stack).and_then(|facts| facts.user_frame) {
                let sum = self.0.entry((module, frame)).or_default();
                *sum = sum.saturating_add(allocations.block_bytes[row]);
            }
        }
    }

    /// By module of `tags`: the user's frame whose events in the module's forward pass allocate most; of equals the one
    /// recorded first.
    pub(super) fn frames(&self, tags: &ModuleTags) -> Vec<Option<FrameId>> {
        let mut most: Vec<Option<(u64, FrameId)>> = vec![None; tags.names.len()];
        for (&(module, frame), &bytes) in &self.0 {
            let slot = &mut most[module as usize];
            if slot.is_none_or(|(highest, _)| bytes > highest) {
                *slot = Some((bytes, frame));
            }
        }
        most.into_iter().map(|found| found.map(|(_, frame)| frame)).collect()
    }
}

/// Phase and module, if it is inside one.
type Parsed<'t> = (Phase, Option<&'t str>);

/// What a text of the recorder's says; `None` for a text of the user's own.
fn parse(text: &str) -> Option<Parsed<'_>> {
    let (phase, module) = text.strip_prefix(PREFIX)?.split_once(':')?;
    let phase = match phase {
        "forward" => Phase::Forward,
        "backward" => Phase::Backward,
        "optimizer" => Phase::Optimizer,
        _ => return None,
    };
    Some((phase, Some(module).filter(|name| !name.is_empty())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_recorders_own_texts_are_tags() {
        assert_eq!(parse("memlab:forward:blocks.3.mlp"), Some((Phase::Forward, Some("blocks.3.mlp"))));
        assert_eq!(parse("memlab:backward:a:b"), Some((Phase::Backward, Some("a:b"))));
        assert_eq!(parse("memlab:optimizer:"), Some((Phase::Optimizer, None)));
        for text in ["", "memlab", "memlab:", "memlab:forward", "memlab:sideways:x", "my memlab:forward:x"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
