//! From a stack to its path in a flame graph: outermost frame first, libraries folded where stacks are deep.
//!
//! Owns what is folded. A deep stack is mostly PyTorch calling itself; of that a picture keeps, below the user's
//! innermost line, the last Python frame of a library: it names the operation.

use crate::model::{FrameId, StackId, Trace};

use super::super::FrameClass;
use super::{FlameExtent, FlamePart};

/// Writes paths. A path is a list of parts, each with the number of frames that it stands for.
pub(super) struct Paths<'a> {
    trace: &'a Trace,
    classes: &'a [FrameClass],
    levels: usize,
    /// Whether library frames are folded.
    pub(super) is_folded: bool,
}

impl<'a> Paths<'a> {
    /// For these pairs of stacks: an allocation's, and that of its backward pass.
    pub(super) fn new<'k>(
        trace: &'a Trace,
        classes: &'a [FrameClass],
        stacks: impl Iterator<Item = &'k (StackId, StackId)>,
        extent: FlameExtent,
    ) -> Self {
        let depth = |stack: StackId| trace.stacks.get(stack).len();
        let deepest =
            stacks.map(|&(stack, pass)| depth(stack).saturating_add(depth(pass))).max().unwrap_or(0);
        let is_folded = deepest > extent.plain_levels;
        Self { trace, classes, levels: extent.levels.max(2), is_folded }
    }

    /// The path of what `stack` allocated, in a backward pass that `pass` started where that is one.
    pub(super) fn write(&self, stack: StackId, pass: StackId, path: &mut Vec<(FlamePart, u32)>) {
        path.clear();
        if pass != StackId::NONE {
            let frames = self.trace.stacks.get(pass);
            let line = frames.iter().position(|&id| self.class(id) == FrameClass::User).unwrap_or(0);
            self.append(&frames[line..], path);
            path.push((FlamePart::Backward, 0));
        }
        let frames = self.trace.stacks.get(stack);
        if frames.is_empty() && path.is_empty() {
            path.push((FlamePart::NoStack, 0));
        }
        self.append(frames, path);
        if path.len() > self.levels {
            let cut = path.drain(self.levels - 1..).map(|(_, frames)| frames.max(1));
            let frames = cut.fold(0u32, u32::saturating_add);
            path.push((FlamePart::Deeper, frames));
        }
    }

    fn class(&self, id: FrameId) -> FrameClass {
        self.classes.get(id.0 as usize).copied().unwrap_or(FrameClass::Native)
    }

    /// Appends `frames`, which are innermost first.
    fn append(&self, frames: &[FrameId], path: &mut Vec<(FlamePart, u32)>) {
        if !self.is_folded {
            path.extend(frames.iter().rev().map(|&id| (FlamePart::Frame(id), 1)));
            return;
        }
        let line = frames.iter().position(|&id| self.class(id) == FrameClass::User);
        let (inner, outer) = frames.split_at(line.unwrap_or(frames.len()));
        self.fold(outer.iter().rev().copied(), path);
        let Some(last) = inner.iter().position(|&id| self.class(id) == FrameClass::Library) else {
            self.fold(inner.iter().rev().copied(), path);
            return;
        };
        self.fold(inner[last + 1..].iter().rev().copied(), path);
        path.push((FlamePart::Frame(inner[last]), 1));
        self.fold(inner[..last].iter().rev().copied(), path);
    }

    /// Appends frames, outermost first: those of the user's as they are, runs of others as one part.
    fn fold(&self, frames: impl Iterator<Item = FrameId>, path: &mut Vec<(FlamePart, u32)>) {
        let mut run: Vec<FrameId> = Vec::new();
        for id in frames {
            if self.class(id) == FrameClass::User {
                self.close(&mut run, path);
                path.push((FlamePart::Frame(id), 1));
            } else {
                run.push(id);
            }
        }
        self.close(&mut run, path);
    }

    fn close(&self, run: &mut Vec<FrameId>, path: &mut Vec<(FlamePart, u32)>) {
        match run.as_slice() {
            [] => {}
            [only] => path.push((FlamePart::Frame(*only), 1)),
            several => {
                let is_native = several.iter().all(|&id| self.class(id) == FrameClass::Native);
                let part = if is_native { FlamePart::Native } else { FlamePart::Library };
                path.push((part, several.len() as u32));
            }
        }
        run.clear();
    }
}
