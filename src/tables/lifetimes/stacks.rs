//! The stacks of a device's allocations as one tree, with what each very stack allocated.
//!
//! Owns the tree, the frames on it, and which stacks stay when there are too many: those that held most. The
//! others share one named node, so that the sums stay exact.

use std::cmp::Reverse;

use hashbrown::HashMap;

use crate::model::{FrameId, StackId, Trace};
use crate::rebuild::History;

use super::{Limits, Texts};

/// What allocations with one stack did, in bytes of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackFigures {
    /// Live when allocated bytes peak.
    pub held_bytes: u64,
    /// Of all allocations.
    pub total_bytes: u64,
    /// Number of allocations.
    pub allocations: u64,
}

impl StackFigures {
    fn add(&mut self, other: Self) {
        self.held_bytes = self.held_bytes.saturating_add(other.held_bytes);
        self.total_bytes = self.total_bytes.saturating_add(other.total_bytes);
        self.allocations += other.allocations;
    }
}

/// Source positions, by number.
#[derive(Clone, Debug, Default)]
pub struct FrameColumns {
    /// Number of the file's name in the texts.
    pub file: Vec<u32>,
    /// Line; 0 when unknown.
    pub line: Vec<u64>,
    /// Number of the function's name in the texts.
    pub function: Vec<u32>,
}

impl FrameColumns {
    fn push(&mut self, file: u32, line: u64, function: u32) -> u32 {
        self.file.push(file);
        self.line.push(line);
        self.function.push(function);
        (self.file.len() - 1) as u32
    }
}

/// Stacks as nodes: a frame on top of the stack of the parent. Parents come before their children.
#[derive(Clone, Debug, Default)]
pub struct StackTree {
    /// Number of the parent node plus one; 0 for an outermost frame.
    pub parent: Vec<u32>,
    /// Number of the frame in [`StackTree::frames`].
    pub frame: Vec<u32>,
    /// What the allocations of this very stack did.
    pub own: Vec<StackFigures>,
    /// Allocations without a stack.
    pub no_stack: StackFigures,
    /// The frames.
    pub frames: FrameColumns,
    /// Stacks that share the remainder's node.
    pub left_out: u64,
    /// By stack number of the trace: node plus one, 0 for none.
    of_stack: Vec<u32>,
}

impl StackTree {
    /// The node of `stack` plus one; 0 when it has no frames.
    #[inline]
    #[must_use]
    pub fn of(&self, stack: StackId) -> u32 {
        self.of_stack.get(stack.0 as usize).copied().unwrap_or(0)
    }

    /// The tree of the stacks of all allocations. One pass over these.
    pub(super) fn build(trace: &Trace, history: &History, limits: &Limits, texts: &mut Texts) -> Self {
        let figures = figures(trace, history);
        let mut order: Vec<u32> =
            (1..figures.len() as u32).filter(|&id| figures[id as usize].allocations > 0).collect();
        let weight = |id: &u32| {
            let figures = figures[*id as usize];
            (Reverse((figures.held_bytes, figures.total_bytes)), *id)
        };
        order.sort_unstable_by_key(weight);
        let mut tree = Self { of_stack: vec![0; figures.len()], ..Self::default() };
        tree.no_stack = figures[0];
        let mut planter =
            Planter { trace, limits, texts, children: HashMap::new(), frame_of: HashMap::new(), tree };
        let left_out: Vec<u32> = order.into_iter().filter(|&id| !planter.plant(id, &figures)).collect();
        planter.remainder(&left_out, &figures);
        planter.tree
    }
}

fn figures(trace: &Trace, history: &History) -> Vec<StackFigures> {
    let rows = &history.allocations;
    let peak = history.peaks.allocated.moment;
    let mut figures = vec![StackFigures::default(); trace.stacks.len().max(1)];
    for row in 0..rows.len() {
        let at = rows.stacks[row].0 as usize;
        let at = if at < figures.len() { at } else { 0 };
        let bytes = rows.block_bytes[row];
        let held_bytes = if rows.is_allocated_at(row, peak) { bytes } else { 0 };
        figures[at].add(StackFigures { held_bytes, total_bytes: bytes, allocations: 1 });
    }
    figures
}

struct Planter<'a> {
    trace: &'a Trace,
    limits: &'a Limits,
    texts: &'a mut Texts,
    /// Parent (plus one) and frame of the trace → node.
    children: HashMap<(u32, FrameId), u32>,
    frame_of: HashMap<FrameId, u32>,
    tree: StackTree,
}

impl Planter<'_> {
    /// Enters stack `id`; false when there is no room for it.
    fn plant(&mut self, id: u32, figures: &[StackFigures]) -> bool {
        let frames = self.trace.stacks.get(StackId(id));
        let (mut parent, mut depth) = (0, 0);
        for &frame in frames.iter().rev() {
            let Some(&node) = self.children.get(&(parent, frame)) else { break };
            (parent, depth) = (node + 1, depth + 1);
        }
        let missing = frames.len() - depth;
        let is_full = self.tree.parent.len() + missing > self.limits.nodes;
        if missing > 0 && (is_full || self.texts.bytes() > self.limits.text_bytes) {
            return false;
        }
        for &frame in frames.iter().rev().skip(depth) {
            let number = self.frame(frame);
            let node = self.push(parent, number);
            self.children.insert((parent, frame), node);
            parent = node + 1;
        }
        self.tree.own[parent as usize - 1].add(figures[id as usize]);
        self.tree.of_stack[id as usize] = parent;
        true
    }

    fn frame(&mut self, id: FrameId) -> u32 {
        if let Some(&known) = self.frame_of.get(&id) {
            return known;
        }
        let frame = self.trace.frames.get(id);
        let line = if frame.line == u64::MAX { 0 } else { frame.line };
        let (file, function) =
            (self.texts.path(self.trace, frame.file), self.texts.name(self.trace, frame.function));
        let number = self.tree.frames.push(file, line, function);
        self.frame_of.insert(id, number);
        number
    }

    fn push(&mut self, parent: u32, frame: u32) -> u32 {
        self.tree.parent.push(parent);
        self.tree.frame.push(frame);
        self.tree.own.push(StackFigures::default());
        (self.tree.parent.len() - 1) as u32
    }

    /// One node for all of `stacks`, with their sums.
    fn remainder(&mut self, stacks: &[u32], figures: &[StackFigures]) {
        if stacks.is_empty() {
            return;
        }
        let (file, name) =
            (self.texts.text(""), self.texts.text(&format!("… {} stacks left out", stacks.len())));
        let frame = self.tree.frames.push(file, 0, name);
        let node = self.push(0, frame);
        for &id in stacks {
            self.tree.own[node as usize].add(figures[id as usize]);
            self.tree.of_stack[id as usize] = node + 1;
        }
        self.tree.left_out = stacks.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;
    use crate::rebuild::rebuild;

    fn tree(limits: &Limits) -> (StackTree, Vec<String>, History) {
        let trace = TraceBuilder::new()
            .segment_alloc(0, 2 << 20)
            .stack(&[("a.py", 2, "f"), ("a.py", 1, "main")])
            .alloc(0, 512)
            .stack(&[("a.py", 3, "g"), ("a.py", 1, "main")])
            .alloc(512, 1024)
            .stack(&[])
            .alloc(1536, 512)
            .build();
        let history = rebuild(&trace, &trace.devices[0]);
        let mut texts = Texts::default();
        let tree = StackTree::build(&trace, &history, limits, &mut texts);
        (tree, texts.texts().to_vec(), history)
    }

    #[test]
    fn stacks_share_their_outer_frames() {
        let (tree, _, _) = tree(&Limits::default());
        assert_eq!(tree.parent, [0, 1, 1]);
        assert_eq!(tree.own.iter().map(|own| own.total_bytes).collect::<Vec<_>>(), [0, 1024, 512]);
        assert_eq!((tree.no_stack.total_bytes, tree.left_out), (512, 0));
    }

    #[test]
    fn stacks_without_room_are_one_named_node_with_their_sums() {
        let (tree, texts, history) = tree(&Limits { nodes: 2, ..Limits::default() });
        assert_eq!((tree.parent.as_slice(), tree.left_out), ([0, 1, 0].as_slice(), 1));
        let name = tree.frames.function[tree.frame[2] as usize];
        assert_eq!(texts[name as usize], "… 1 stacks left out");
        let held: u64 = tree.own.iter().map(|own| own.held_bytes).sum();
        assert_eq!(held + tree.no_stack.held_bytes, history.peaks.allocated.bytes);
    }
}
