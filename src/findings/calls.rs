//! The call that a failed request belongs to, by the stacks around it.
//!
//! Owns one question: since when had the program been inside the call that failed? Two things answer it. The
//! next event after the failure shows how far the exception unwound: down to the frame that goes on. Going
//! back from the failure, the call began where an event lies outside that frame, or where the frame's own
//! line jumps back (a new turn of its loop). Does not own what was allocated there.

use std::collections::HashMap;

use crate::model::{Action, Frame, StackId};
use crate::rebuild::OomEvent;
use crate::tables::FrameClass;

use super::Scene;

/// The Python frames of a failed request, outermost first.
pub(super) struct Call<'a> {
    scene: &'a Scene<'a>,
    classes: &'a [FrameClass],
    frames: Vec<Frame>,
    /// How many of the frames a stack shares; see [`Call::inside`].
    known: HashMap<StackId, Option<usize>>,
}

impl<'a> Call<'a> {
    /// The first event of the call that failed with `oom`; never before `behind`.
    pub(super) fn that_failed(
        scene: &'a Scene<'a>,
        classes: &'a [FrameClass],
        oom: &OomEvent,
        behind: u64,
    ) -> u64 {
        let mut call = Self { scene, classes, frames: Vec::new(), known: HashMap::new() };
        let run = call.frameless_run(oom.event, behind);
        // The engine's thread has no frames: what the calling thread did last shows where it is.
        let caller = if run > behind { call.stack_of(run - 1) } else { None };
        call.frames = call.python_frames(oom.stack);
        let has_own_frames = !call.frames.is_empty();
        if !has_own_frames {
            call.frames = caller.map(|stack| call.python_frames(stack)).unwrap_or_default();
        }
        let depth = call.depth_after(oom.event);
        if call.frames.is_empty() || (depth == 0 && !has_own_frames) {
            return run;
        }
        let begin = call.begin(oom.event, behind, depth.clamp(1, call.frames.len()));
        if begin == behind && !has_own_frames { run } else { begin }
    }

    /// The beginning of the frame at `depth`, or of its last turn.
    fn begin(&mut self, oom: u64, behind: u64, depth: usize) -> u64 {
        let outside = self.last_outside(oom, behind);
        let entered = outside[depth - 1].map_or(behind, |event| event + 1);
        if let Some(turn) = self.last_turn(oom, entered, depth) {
            return turn;
        }
        if behind > 0 {
            return entered;
        }
        // A frame that has been there from the beginning says nothing: ask the next inner ones.
        outside[depth - 1..].iter().flatten().next().map_or(behind, |&event| event + 1)
    }

    fn python_frames(&self, stack: StackId) -> Vec<Frame> {
        let is_python = |id: &&crate::model::FrameId| {
            self.classes.get(id.0 as usize).is_some_and(|&class| class != FrameClass::Native)
        };
        let frames = self.scene.trace.stacks.get(stack).iter().rev().filter(is_python);
        frames.map(|&id| self.scene.trace.frames.get(id)).collect()
    }

    /// How deep inside the failed call a stack is: the frames that are the same from the outermost on, and
    /// one more where the next is the same function at another line. `None` for a stack without Python.
    fn inside(&mut self, stack: StackId) -> Option<usize> {
        if let Some(&known) = self.known.get(&stack) {
            return known;
        }
        let frames = self.python_frames(stack);
        let pairs = || frames.iter().zip(&self.frames);
        let same = pairs().take_while(|(a, b)| a == b).count();
        let is_same_function =
            pairs().nth(same).is_some_and(|(a, b)| (a.file, a.function) == (b.file, b.function));
        let inside = (!frames.is_empty()).then_some(same + usize::from(is_same_function));
        self.known.insert(stack, inside);
        inside
    }

    /// Allocations and frees only: the allocator itself calls for segments.
    fn stack_of(&self, event: u64) -> Option<StackId> {
        let events = &self.scene.device.events;
        let action = events.actions.get(event as usize)?;
        matches!(action, Action::Alloc | Action::FreeRequested | Action::FreeCompleted | Action::Oom)
            .then(|| events.stacks[event as usize])
    }

    /// How deep the program is inside the call when it next allocates or frees; asked no further than the
    /// next failure.
    fn depth_after(&mut self, oom: u64) -> usize {
        for event in oom + 1..self.scene.history.events {
            let inside = self.stack_of(event).and_then(|stack| self.inside(stack));
            let fails_again = self.scene.device.events.actions.get(event as usize) == Some(&Action::Oom);
            if inside.is_some() || fails_again {
                return inside.unwrap_or(0);
            }
        }
        0
    }

    /// For each depth, from 1: the last event before the failure that lies outside.
    fn last_outside(&mut self, oom: u64, behind: u64) -> Vec<Option<u64>> {
        let mut outside = vec![None; self.frames.len()];
        let mut open = outside.len();
        for event in (behind..oom).rev() {
            if open == 0 {
                break;
            }
            let Some(inside) = self.stack_of(event).and_then(|stack| self.inside(stack)) else { continue };
            while open > inside {
                open -= 1;
                outside[open] = Some(event);
            }
        }
        outside
    }

    /// Where the frame at `depth` last jumped back to an earlier line, between `begin` and the failure.
    fn last_turn(&mut self, oom: u64, begin: u64, depth: usize) -> Option<u64> {
        let mut lowest = self.frames[depth - 1].line;
        let mut lines: HashMap<StackId, u64> = HashMap::new();
        for event in (begin..oom).rev() {
            let Some(stack) = self.stack_of(event) else { continue };
            if self.inside(stack).is_none_or(|inside| inside < depth) {
                continue;
            }
            let line = *lines.entry(stack).or_insert_with(|| self.line_at(stack, depth));
            if line > lowest {
                return Some(event + 1);
            }
            lowest = lowest.min(line);
        }
        None
    }

    fn line_at(&self, stack: StackId, depth: usize) -> u64 {
        self.python_frames(stack).get(depth - 1).map_or(0, |frame| frame.line)
    }

    /// The beginning of the run of events without Python frames that ends with the failure.
    fn frameless_run(&self, oom: u64, behind: u64) -> u64 {
        let has_frames = |stack: StackId| {
            self.scene.lines.facts.get(stack.0 as usize).is_some_and(|facts| facts.has_python)
        };
        let mut earlier = (behind..oom).rev();
        earlier.find(|&event| self.stack_of(event).is_some_and(has_frames)).map_or(behind, |event| event + 1)
    }
}
