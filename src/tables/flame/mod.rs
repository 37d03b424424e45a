//! What was live at one moment, by stack, as boxes within boxes: the data of a flame graph.
//!
//! Owns the tree of frames, the order of its boxes and what is too small for one. How a stack becomes a path of
//! frames is `path`'s. Knows no pixels and no colours. Everything is iterative: stacks may be as deep as a file likes.

mod path;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use crate::model::{DeviceTrace, FrameId, StackId, Trace};
use crate::rebuild::{History, Moment, NONE};

use super::{Grouping, Passes, classify_frames};
use path::Paths;

/// A frame, or what stands for several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FlamePart {
    /// One frame.
    Frame(FrameId),
    /// Python frames of libraries between lines of the user's.
    Library,
    /// Native frames.
    Native,
    /// The autograd engine, which allocates on a thread of its own: charged to the line that started it.
    Backward,
    /// No stack was recorded.
    NoStack,
    /// Frames below the deepest level that is kept.
    Deeper,
    /// Boxes too small to be kept, by their number.
    Smaller(u64),
}

/// A box of a flame graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlameNode {
    /// How many boxes it is within.
    pub level: u32,
    /// Bytes to the left of it, over all levels alike.
    pub begin_bytes: u64,
    /// Its bytes: those of the boxes within it, and its own.
    pub bytes: u64,
    /// Allocations in it.
    pub allocations: u64,
    /// What it is.
    pub part: FlamePart,
    /// How many frames a folded box stands for, fewest and most.
    pub frames: (u32, u32),
    /// Group of a frame of the user's; [`NONE`] for everything else.
    pub group: u32,
}

/// What was live, from the outermost frames inwards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flame {
    /// Bytes of all.
    pub total_bytes: u64,
    /// Whether stacks were folded.
    pub is_folded: bool,
    /// The least bytes of a box.
    pub least_bytes: u64,
    /// An outer box before those within it, larger ones before smaller ones.
    pub nodes: Vec<FlameNode>,
}

/// How much a flame graph shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlameExtent {
    /// Stacks that are no deeper stay as they are; deeper ones have their library frames folded.
    pub plain_levels: usize,
    /// Levels at most.
    pub levels: usize,
    /// A box needs at least the whole divided by this.
    pub columns: u64,
    /// Boxes at most, those of what is smaller not counted.
    pub boxes: usize,
}

impl Default for FlameExtent {
    fn default() -> Self {
        Self { plain_levels: 8, levels: 40, columns: 2_000, boxes: 1_000 }
    }
}

/// The flame graph of what is allocated at `moment`.
#[must_use]
pub fn flame(
    trace: &Trace,
    device: &DeviceTrace,
    history: &History,
    grouping: &Grouping,
    moment: Moment,
    extent: FlameExtent,
) -> Flame {
    let sums = sums(device, history, grouping, moment);
    let classes = classify_frames(trace);
    let paths = Paths::new(trace, &classes, sums.keys(), extent);
    let mut tree = Tree::default();
    let mut path = Vec::new();
    for (&(stack, pass), &(bytes, allocations)) in &sums {
        paths.write(stack, pass, &mut path);
        tree.add(&path, bytes, allocations);
    }
    let least_bytes = tree.least_bytes(extent);
    let mut nodes = tree.boxes(least_bytes);
    for node in &mut nodes {
        if let FlamePart::Frame(id) = node.part {
            node.group = grouping.of_frame.get(id.0 as usize).copied().unwrap_or(NONE);
        }
    }
    Flame { total_bytes: tree.total_bytes(), is_folded: paths.is_folded, least_bytes, nodes }
}

/// Bytes and number of what is live, by its stack and the stack that started its backward pass.
fn sums(
    device: &DeviceTrace,
    history: &History,
    grouping: &Grouping,
    moment: Moment,
) -> BTreeMap<(StackId, StackId), (u64, u64)> {
    let rows = &history.allocations;
    let mut sums: BTreeMap<(StackId, StackId), (u64, u64)> = BTreeMap::new();
    let mut add = |stack, pass, row: usize| {
        let (bytes, count) = sums.entry((stack, pass)).or_default();
        *bytes = bytes.saturating_add(rows.block_bytes[row]);
        *count += 1;
    };
    // Where the line was inferred, the stack that started the pass says more than the allocation's own.
    let mut inferred: Vec<(u32, usize)> = Vec::new();
    for row in (0..rows.len()).filter(|&row| rows.is_allocated_at(row, moment)) {
        if grouping.inferred.get(row) == Some(&true) && rows.alloc_events[row] != NONE {
            inferred.push((rows.alloc_events[row], row));
        } else {
            add(rows.stacks[row], StackId::NONE, row);
        }
    }
    inferred.sort_unstable();
    let mut passes = Passes::new(&grouping.facts);
    let mut next = inferred.iter().copied().peekable();
    for (event, &stack) in device.events.stacks.iter().enumerate() {
        if next.peek().is_none() {
            break;
        }
        let pass = passes.next(stack);
        while let Some((_, row)) = next.next_if(|&(alloc, _)| alloc as usize <= event) {
            add(rows.stacks[row], pass, row);
        }
    }
    next.for_each(|(_, row)| add(rows.stacks[row], StackId::NONE, row));
    sums
}

/// Nodes by number; the first is the whole.
struct Tree {
    nodes: Vec<Node>,
    index: HashMap<(usize, FlamePart), usize>,
}

struct Node {
    part: FlamePart,
    frames: (u32, u32),
    bytes: u64,
    allocations: u64,
    children: Vec<usize>,
}

impl Default for Tree {
    fn default() -> Self {
        Self { nodes: vec![Node::new(FlamePart::NoStack)], index: HashMap::new() }
    }
}

impl Node {
    fn new(part: FlamePart) -> Self {
        Self { part, frames: (u32::MAX, 0), bytes: 0, allocations: 0, children: Vec::new() }
    }

    fn add(&mut self, frames: u32, bytes: u64, allocations: u64) {
        self.frames = (self.frames.0.min(frames), self.frames.1.max(frames));
        self.bytes = self.bytes.saturating_add(bytes);
        self.allocations = self.allocations.saturating_add(allocations);
    }
}

impl Tree {
    fn add(&mut self, path: &[(FlamePart, u32)], bytes: u64, allocations: u64) {
        let mut at = 0;
        self.nodes[at].add(0, bytes, allocations);
        for &(part, frames) in path {
            let next = self.nodes.len();
            let found = *self.index.entry((at, part)).or_insert(next);
            if found == next {
                self.nodes.push(Node::new(part));
                self.nodes[at].children.push(next);
            }
            at = found;
            self.nodes[at].add(frames, bytes, allocations);
        }
    }

    fn total_bytes(&self) -> u64 {
        self.nodes[0].bytes
    }

    /// The bytes that a box needs, so that there are no more boxes than the extent allows.
    fn least_bytes(&self, extent: FlameExtent) -> u64 {
        let mut sizes: Vec<u64> = self.nodes.iter().skip(1).map(|node| node.bytes).collect();
        sizes.sort_unstable_by_key(|&bytes| Reverse(bytes));
        let beyond = sizes.get(extent.boxes).map_or(0, |bytes| bytes.saturating_add(1));
        beyond.max(self.total_bytes() / extent.columns.max(1)).max(1)
    }

    fn boxes(&self, least_bytes: u64) -> Vec<FlameNode> {
        let mut boxes = Vec::new();
        // Boxes still to be written, the next one last: number, level, begin.
        let mut waiting: Vec<(usize, u32, u64)> = vec![(0, 0, 0)];
        while let Some((number, level, begin_bytes)) = waiting.pop() {
            let node = &self.nodes[number];
            if number > 0 {
                let Node { part, frames, bytes, allocations, .. } = *node;
                boxes.push(FlameNode {
                    level: level - 1,
                    begin_bytes,
                    bytes,
                    allocations,
                    part,
                    frames,
                    group: NONE,
                });
            }
            let (shown, smaller) = self.children(number, least_bytes);
            let mut begin = begin_bytes;
            let first = waiting.len();
            for child in shown {
                waiting.push((child, level + 1, begin));
                begin = begin.saturating_add(self.nodes[child].bytes);
            }
            waiting[first..].reverse();
            if smaller.bytes >= least_bytes {
                boxes.push(FlameNode { level, begin_bytes: begin, ..smaller });
            }
        }
        boxes
    }

    /// The children that get a box, largest first, and the others in one.
    fn children(&self, number: usize, least_bytes: u64) -> (Vec<usize>, FlameNode) {
        let mut shown = self.nodes[number].children.clone();
        shown.sort_by_key(|&child| Reverse(self.nodes[child].bytes));
        let kept = shown.partition_point(|&child| self.nodes[child].bytes >= least_bytes);
        let mut rest = Node::new(FlamePart::Smaller((shown.len() - kept) as u64));
        for child in shown.drain(kept..) {
            rest.add(1, self.nodes[child].bytes, self.nodes[child].allocations);
        }
        let Node { part, frames, bytes, allocations, .. } = rest;
        (shown, FlameNode { level: 0, begin_bytes: 0, bytes, allocations, part, frames, group: NONE })
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
