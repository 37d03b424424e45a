//! Who an allocation is charged to.
//!
//! Owns the groups of one device (lines, functions, files, modules or stacks) and the group of every stack,
//! frame and allocation. Does not own figures (`lines`).

use std::cmp::Ordering;

use crate::model::{DeviceTrace, Events, FrameId, StackId, StringId, Trace};
use crate::rebuild::{History, NONE};

use super::module::ModuleNames;
use super::module_groups::ModuleGroups;
use super::tags::{ForwardSums, ModuleTags};
use super::{FrameClass, GroupBy, Passes, StackFacts, classify_frames, stack_facts};

/// What a group is called. Which fields are filled follows from [`GroupBy`]; for [`GroupBy::Stack`] file,
/// line and function are those of the stack's line, or of the frame that says most where it has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupKey {
    /// File as recorded.
    pub file: Option<StringId>,
    /// Line number; `None` also where the recording does not know it.
    pub line: Option<u64>,
    /// Function.
    pub function: Option<StringId>,
    /// See [`GroupBy::Module`].
    pub module: Option<String>,
    /// The stack.
    pub stack: Option<StackId>,
}

impl GroupKey {
    /// File name as recorded.
    #[must_use]
    pub fn file<'t>(&self, trace: &'t Trace) -> Option<&'t str> {
        self.file.map(|id| trace.strings.get(id))
    }

    /// Name of the function.
    #[must_use]
    pub fn function<'t>(&self, trace: &'t Trace) -> Option<&'t str> {
        self.function.map(|id| trace.strings.get(id))
    }

    /// The stack's frames as text, innermost first: `train.py:100 step`.
    #[must_use]
    pub fn stack_text(&self, trace: &Trace) -> Option<Vec<String>> {
        let frames = trace.stacks.get(self.stack?);
        Some(frames.iter().map(|&id| position(trace, &Self::of_frame(trace, id))).collect())
    }

    /// How people read the group: `train.py:100 step`, a file, a module. A stack reads like its line.
    #[must_use]
    pub fn label(&self, trace: &Trace) -> String {
        self.module.clone().unwrap_or_else(|| position(trace, self))
    }

    /// The frame itself as a group.
    #[must_use]
    pub fn of_frame(trace: &Trace, id: FrameId) -> Self {
        let frame = trace.frames.get(id);
        Self {
            file: Some(frame.file),
            line: known_line(frame.line),
            function: Some(frame.function),
            ..Self::default()
        }
    }
}

fn position(trace: &Trace, key: &GroupKey) -> String {
    let file = key.file(trace).unwrap_or("");
    match (key.line, key.function(trace)) {
        (Some(line), Some(function)) => format!("{file}:{line} {function}"),
        (Some(line), None) => format!("{file}:{line}"),
        (None, Some(function)) => format!("{file} {function}"),
        (None, None) => file.to_owned(),
    }
}

/// Real files write 0 and 2^64-1 for a line that is not known.
fn known_line(line: u64) -> Option<u64> {
    (line != 0 && line != u64::MAX).then_some(line)
}

/// Groups of one device and who belongs to them. "No group" is [`NONE`] in every column.
#[derive(Clone, Debug)]
pub struct Grouping {
    /// What a group is.
    pub by: GroupBy,
    /// The groups, ordered by their text (file, line, function; or module; or frames), so the same input
    /// gives the same numbers whatever order it was recorded in. A line that only ever calls others is a
    /// group too: memory is held while it is on the stack.
    pub keys: Vec<GroupKey>,
    /// Group of every stack, by stack number, as its own frames say.
    pub of_stack: Vec<u32>,
    /// Group of every frame of the user's, by frame number. Empty for [`GroupBy::Stack`].
    pub of_frame: Vec<u32>,
    /// Group of every allocation, by row in the history; [`NONE`] is the unattributed remainder.
    pub of_allocation: Vec<u32>,
    /// Whether the group of that row was inferred (see [`super::INFERENCE_RULE`]).
    pub inferred: Vec<bool>,
    /// What every stack says, by stack number.
    pub facts: Vec<StackFacts>,
    /// Modules that the recorder named, and their groups.
    pub modules: ModuleGroups,
}

impl Grouping {
    /// Groups the allocations of one device. An allocation is charged by the stack of its own `alloc`
    /// event, never by that of its free; one from before the recording by the stack that the final
    /// segments show for it, where they do.
    #[must_use]
    pub fn build(trace: &Trace, device: &DeviceTrace, history: &History, by: GroupBy) -> Self {
        let mut seen = Seen::new(trace);
        seen.take(&device.events);
        seen.take_stacks(&history.allocations.stacks);
        if seen.tells_modules(trace) {
            seen.take_forward(device, history);
        }
        let mut grouping = Self::of_seen(trace, seen, by);
        grouping.go_on(device, history, &[], &mut { StackId::NONE });
        grouping
    }

    /// The groups of what was seen of a device, with no allocation in any of them yet: see [`Grouping::go_on`].
    #[must_use]
    pub fn of_seen(trace: &Trace, seen: Seen, by: GroupBy) -> Self {
        let Seen { classes, facts, stacks: used, tags, forward, .. } = seen;
        let (mut keys, mut of_frame, stacks) = if by == GroupBy::Stack {
            let (keys, of_stack) = stack_groups(trace, &classes, &used);
            (keys, Vec::new(), Some(of_stack))
        } else {
            let (keys, of_frame) = frame_groups(trace, &user_frames_of(trace, &classes, &used), by);
            (keys, of_frame, None)
        };
        let modules = ModuleGroups::join(trace, tags, &forward, by, &mut keys, &mut of_frame);
        let of_stack = stacks.unwrap_or_else(|| {
            let group = |facts: &StackFacts| facts.user_frame.map_or(NONE, |id| of_frame[id.0 as usize]);
            facts.iter().map(group).collect()
        });
        let (of_allocation, inferred) = (Vec::new(), Vec::new());
        Self { by, keys, of_stack, of_frame, of_allocation, inferred, facts, modules }
    }

    /// Number of groups, the unattributed remainder not counted.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no group at all: no stack was recorded, or none has a frame of the user's.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The group of allocation `row`, `None` when it is unattributed.
    #[must_use]
    pub fn key_of_allocation(&self, row: usize) -> Option<&GroupKey> {
        self.of_allocation.get(row).and_then(|&group| self.keys.get(group as usize))
    }

    /// The group of a stack by its own frames (of an OOM, of a segment), `None` when it has none.
    #[must_use]
    pub fn key_of_stack(&self, stack: StackId) -> Option<&GroupKey> {
        self.of_stack.get(stack.0 as usize).and_then(|&group| self.keys.get(group as usize))
    }

    /// Every group that is on `stack`, callers included; a group may come more than once.
    pub(super) fn groups_on<'a>(
        &'a self,
        trace: &'a Trace,
        stack: StackId,
    ) -> impl Iterator<Item = u32> + 'a {
        let own = (self.by == GroupBy::Stack).then(|| self.group_of(stack));
        let frames = trace.stacks.get(stack).iter();
        let of_frames = frames.filter_map(|id| self.of_frame.get(id.0 as usize).copied());
        own.into_iter().chain(of_frames).filter(|&group| group != NONE)
    }

    /// Walks the events once and gives every allocation its group. Goes on from one piece of a recording to the next: the
    /// first rows of `history` are the rows `carried` of the piece before ([`crate::rebuild::Carried::rows`]) and keep
    /// their groups. `open` is the stack of the backward pass that is open between the pieces.
    pub fn go_on(&mut self, device: &DeviceTrace, history: &History, carried: &[u32], open: &mut StackId) {
        let allocations = &history.allocations;
        let (groups_before, inferred_before) =
            (std::mem::take(&mut self.of_allocation), std::mem::take(&mut self.inferred));
        self.of_allocation = allocations.stacks.iter().map(|&stack| self.group_of(stack)).collect();
        self.inferred = vec![false; allocations.len()];
        for (row, &old) in carried.iter().enumerate() {
            self.of_allocation[row] = groups_before.get(old as usize).copied().unwrap_or(NONE);
            self.inferred[row] = inferred_before.get(old as usize).copied().unwrap_or(false);
        }
        let mut passes = Passes::within(&self.facts, *open);
        for (event, (&stack, &row)) in
            device.events.stacks.iter().zip(&history.allocation_of_event).enumerate()
        {
            let pass = passes.next(stack);
            let Some(&alloc) = allocations.alloc_events.get(row as usize) else { continue };
            let row = row as usize;
            if alloc as usize != event {
                continue;
            }
            let tag = self.modules.tags.of_event(&device.events, event);
            let stated = self.modules.stated(tag);
            if stated != NONE {
                self.of_allocation[row] = stated;
            } else if self.of_allocation[row] == NONE {
                let group = match self.modules.inferred(tag) {
                    NONE => self.group_of_pass(pass),
                    group => group,
                };
                self.of_allocation[row] = group;
                self.inferred[row] = group != NONE;
            }
        }
        *open = passes.open();
    }

    fn group_of_pass(&self, pass: StackId) -> u32 {
        if pass == StackId::NONE { NONE } else { self.group_of(pass) }
    }

    fn group_of(&self, stack: StackId) -> u32 {
        self.of_stack.get(stack.0 as usize).copied().unwrap_or(NONE)
    }
}

/// Which stacks the device's events and allocations use: other devices' lines are none of its groups.
pub(super) fn stacks_in_use(trace: &Trace, device: &DeviceTrace, history: &History) -> Vec<bool> {
    let mut used = vec![false; trace.stacks.len()];
    mark(&mut used, &device.events.stacks);
    mark(&mut used, &history.allocations.stacks);
    used
}

fn mark(used: &mut [bool], stacks: &[StackId]) {
    for stack in stacks {
        if let Some(slot) = used.get_mut(stack.0 as usize) {
            *slot = true;
        }
    }
}

/// What was seen of a device, as far as its groups depend on it: gathered over the whole recording, or piece by piece.
#[derive(Clone, Debug)]
pub struct Seen {
    classes: Vec<FrameClass>,
    facts: Vec<StackFacts>,
    /// By stack number: whether the device uses it.
    stacks: Vec<bool>,
    /// By string number: whether an event has it as its metadata.
    texts: Vec<bool>,
    tags: ModuleTags,
    forward: ForwardSums,
}

impl Seen {
    /// Nothing so far, of a device of `trace`.
    #[must_use]
    pub fn new(trace: &Trace) -> Self {
        let classes = classify_frames(trace);
        let facts = stack_facts(trace, &classes);
        let stacks = vec![false; trace.stacks.len()];
        let texts = vec![false; trace.strings.len()];
        let (tags, forward) = (ModuleTags::default(), ForwardSums::default());
        Self { classes, facts, stacks, texts, tags, forward }
    }

    /// Takes in the next events.
    pub fn take(&mut self, events: &Events) {
        self.take_stacks(&events.stacks);
        for id in events.user_metadata.values() {
            if let Some(slot) = self.texts.get_mut(id.0 as usize) {
                *slot = true;
            }
        }
    }

    /// Takes in stacks of allocations.
    pub fn take_stacks(&mut self, stacks: &[StackId]) {
        mark(&mut self.stacks, stacks);
    }

    /// Once all events were seen: whether the recorder names modules, so that the allocations of all pieces have to be
    /// shown to [`Seen::take_forward`].
    pub fn tells_modules(&mut self, trace: &Trace) -> bool {
        self.tags = ModuleTags::of(trace, &self.texts);
        !self.tags.is_empty()
    }

    /// Takes in the allocations of the next piece.
    pub fn take_forward(&mut self, device: &DeviceTrace, history: &History) {
        self.forward.take(&self.tags, device, history, &self.facts);
    }
}

/// Groups made of frames: their keys, and the group of every frame.
pub(super) fn frame_groups(trace: &Trace, frames: &[FrameId], by: GroupBy) -> (Vec<GroupKey>, Vec<u32>) {
    let modules = ModuleNames::new(frames.iter().map(|&id| trace.strings.get(trace.frames.get(id).file)));
    let mut named: Vec<(GroupKey, FrameId)> =
        frames.iter().map(|&id| (frame_key(trace, id, by, &modules), id)).collect();
    named.sort_by(|a, b| compare_keys(trace, &a.0, &b.0).then(a.1.cmp(&b.1)));
    let mut of_frame = vec![NONE; trace.frames.len()];
    let mut keys: Vec<GroupKey> = Vec::new();
    for (key, id) in named {
        if keys.last() != Some(&key) {
            keys.push(key);
        }
        of_frame[id.0 as usize] = keys.len() as u32 - 1;
    }
    (keys, of_frame)
}

/// Every frame of the user's on a stack in use, ascending.
fn user_frames_of(trace: &Trace, classes: &[FrameClass], used: &[bool]) -> Vec<FrameId> {
    let mut wanted = vec![false; classes.len()];
    for (stack, frames) in trace.stacks.iter().enumerate() {
        for id in frames.iter().filter(|_| used[stack]) {
            if let Some(slot) = wanted.get_mut(id.0 as usize) {
                *slot = true;
            }
        }
    }
    let is_wanted = |&id: &usize| wanted[id] && classes[id] == FrameClass::User;
    (0..classes.len()).filter(is_wanted).map(|id| FrameId(id as u32)).collect()
}

fn frame_key(trace: &Trace, id: FrameId, by: GroupBy, modules: &ModuleNames) -> GroupKey {
    let mut key = GroupKey::of_frame(trace, id);
    match by {
        GroupBy::Line | GroupBy::Stack => {}
        GroupBy::Function => key.line = None,
        GroupBy::File => (key.line, key.function) = (None, None),
        GroupBy::Module => {
            let name = modules.name(key.file(trace).unwrap_or(""));
            key = GroupKey { module: Some(name), ..GroupKey::default() };
        }
    }
    key
}

fn compare_keys(trace: &Trace, a: &GroupKey, b: &GroupKey) -> Ordering {
    a.module
        .cmp(&b.module)
        .then_with(|| a.file(trace).cmp(&b.file(trace)))
        .then_with(|| a.line.cmp(&b.line))
        .then_with(|| a.function(trace).cmp(&b.function(trace)))
}

/// One group for every recorded stack: its key, and the group of every stack.
fn stack_groups(trace: &Trace, classes: &[FrameClass], used: &[bool]) -> (Vec<GroupKey>, Vec<u32>) {
    let ranks = frame_ranks(trace);
    let text_order = |a: &StackId, b: &StackId| {
        let ranks_of = |id: StackId| trace.stacks.get(id).iter().map(|frame| ranks[frame.0 as usize]);
        ranks_of(*a).cmp(ranks_of(*b))
    };
    let is_group = |&id: &u32| used[id as usize] && !trace.stacks.get(StackId(id)).is_empty();
    let mut stacks: Vec<StackId> = (0..trace.stacks.len() as u32).filter(is_group).map(StackId).collect();
    stacks.sort_by(text_order);
    let mut of_stack = vec![NONE; trace.stacks.len()];
    for (group, stack) in stacks.iter().enumerate() {
        of_stack[stack.0 as usize] = group as u32;
    }
    let key = |&stack: &StackId| {
        let frame = naming_frame(trace, classes, trace.stacks.get(stack));
        let named = frame.map(|id| GroupKey::of_frame(trace, id)).unwrap_or_default();
        GroupKey { stack: Some(stack), ..named }
    };
    (stacks.iter().map(key).collect(), of_stack)
}

/// The frame that says most about a stack: its line; else its innermost Python frame; else, as native
/// stacks begin with the unwinder and the allocator itself, the first frame behind these.
fn naming_frame(trace: &Trace, classes: &[FrameClass], frames: &[FrameId]) -> Option<FrameId> {
    const OWN_MACHINERY: [&str; 4] = ["unwind", "CapturedTraceback", "gather_with_cpp", "CachingAllocator"];
    let class = |id: FrameId| classes.get(id.0 as usize).copied().unwrap_or(FrameClass::Native);
    let of_class = |wanted| frames.iter().copied().find(|&id| class(id) == wanted);
    let is_telling = |id: &FrameId| {
        let function = trace.strings.get(trace.frames.get(*id).function);
        !OWN_MACHINERY.iter().any(|part| function.contains(part))
    };
    of_class(FrameClass::User)
        .or_else(|| of_class(FrameClass::Library))
        .or_else(|| frames.iter().copied().find(is_telling))
        .or_else(|| frames.first().copied())
}

/// Position of every frame in the order of (file, line, function).
fn frame_ranks(trace: &Trace) -> Vec<u32> {
    let mut order: Vec<u32> = (0..trace.frames.len() as u32).collect();
    order.sort_by_key(|&id| {
        let frame = trace.frames.get(FrameId(id));
        (trace.strings.get(frame.file), frame.line, trace.strings.get(frame.function))
    });
    let mut ranks = vec![0; order.len()];
    for (rank, id) in order.into_iter().enumerate() {
        ranks[id as usize] = rank as u32;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;

    fn labels(trace: &Trace, device: usize, by: GroupBy) -> Vec<String> {
        let grouping = Grouping::build(trace, &trace.devices[device], &History::default(), by);
        grouping.keys.iter().map(|key| key.label(trace)).collect()
    }

    #[test]
    fn groups_are_ordered_by_text_not_by_appearance() {
        let trace = TraceBuilder::new()
            .at("b.py", 1, "f")
            .oom(1, 1)
            .stack(&[("a.py", 10, "g"), ("a.py", 9, "f")])
            .oom(1, 1)
            .build();
        assert_eq!(labels(&trace, 0, GroupBy::Line), ["a.py:9 f", "a.py:10 g", "b.py:1 f"]);
        assert_eq!(labels(&trace, 0, GroupBy::Function), ["a.py f", "a.py g", "b.py f"]);
        assert_eq!(labels(&trace, 0, GroupBy::File), ["a.py", "b.py"]);
        assert_eq!(labels(&trace, 0, GroupBy::Stack), ["a.py:10 g", "b.py:1 f"]);
    }

    #[test]
    fn a_line_of_another_device_is_no_group() {
        let trace =
            TraceBuilder::new().at("a.py", 1, "f").oom(1, 1).device(1).at("b.py", 2, "g").oom(1, 1).build();
        assert_eq!(labels(&trace, 0, GroupBy::Line), ["a.py:1 f"]);
        assert_eq!(labels(&trace, 1, GroupBy::Line), ["b.py:2 g"]);
    }

    #[test]
    fn both_spellings_of_an_unknown_line_are_one_group() {
        let trace = TraceBuilder::new().at("a.py", 0, "f").oom(1, 1).at("a.py", u64::MAX, "f").oom(1, 1);
        assert_eq!(labels(&trace.build(), 0, GroupBy::Line), ["a.py f"]);
    }

    #[test]
    fn a_stack_is_named_after_the_frame_that_says_most() {
        let linear = "/opt/lib/python3.12/site-packages/torch/nn/modules/linear.py";
        let trace = TraceBuilder::new().stack(&[(linear, 134, "forward"), ("a.py", 2, "f")]).oom(1, 1);
        let trace = trace.stack(&[("??", 0, "torch::unwind::unwind()"), (linear, 99, "hook")]).oom(1, 1);
        let native = [("??", 0, "torch::unwind::unwind()"), ("Blas.cpp", 0, "at::native::addmm_out")];
        let trace = trace.stack(&native).oom(1, 1).build();
        let keys = labels(&trace, 0, GroupBy::Stack);
        assert_eq!(
            keys,
            ["a.py:2 f".to_owned(), format!("{linear}:99 hook"), "Blas.cpp at::native::addmm_out".to_owned()]
        );
    }
}
