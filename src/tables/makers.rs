//! Who made an allocation: an optimizer, a loader, a library's handle pool, the backward pass.
//!
//! Owns how the frames of a stack are weighed (the innermost that says anything decides) and who is behind an
//! allocation without frames: the phase says. What a single frame says is in `maker_frames`. Nothing here is
//! a guess: who is not known is [`Maker::Unknown`].

use crate::model::{FrameId, StackId, Trace};
use crate::rebuild::{History, NONE};

use super::maker_frames::FrameText;
use super::{FrameClass, Phase, StackFacts, classify_frames};

/// Who made an allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Maker {
    /// No evidence.
    #[default]
    Unknown,
    /// A library's handle pool: the workspace of cuBLAS, cuBLASLt and their like.
    Workspace,
    /// What reads a file: `torch.load`, safetensors, a distributed checkpoint.
    Loader,
    /// The buckets of `DistributedDataParallel`.
    Reducer,
    /// An optimizer's `step`.
    Optimizer,
    /// `copy.deepcopy`, or the averaged model of `torch.optim.swa_utils`.
    Copy,
    /// What brings parameters and buffers to the device: `Module.to()`, or a layer made there.
    Placement,
    /// A cast: autocast's, or a call of `to`.
    Cast,
    /// The backward pass.
    Backward,
    /// The forward of one of PyTorch's layers.
    Compute,
}

/// The maker of every stack of a trace.
#[derive(Clone, Debug, Default)]
pub struct Makers {
    /// `None` for a stack without Python frames that says nothing.
    of_stack: Vec<Option<Maker>>,
    /// Whether any allocation has a Python frame: only then does a stack without one say something.
    has_frames: bool,
}

impl Makers {
    /// Reads the stacks of `trace`; `facts` are those of its stacks.
    #[must_use]
    pub fn new(trace: &Trace, history: &History, facts: &[StackFacts]) -> Self {
        let classes = classify_frames(trace);
        let of_frame: Vec<Evidence> =
            (0..trace.frames.len()).map(|id| evidence(trace, FrameId(id as u32), &classes)).collect();
        let of_stack = trace.stacks.iter().enumerate();
        let of_stack = of_stack.map(|(id, frames)| of_frames(frames, &of_frame, facts.get(id))).collect();
        let has_python = |stack: &StackId| facts.get(stack.0 as usize).is_some_and(|facts| facts.has_python);
        Self { of_stack, has_frames: history.allocations.stacks.iter().any(has_python) }
    }

    /// Who made allocation `row`; `phase` names the phase of an event, and is asked only where frames are
    /// missing.
    #[must_use]
    pub fn of(&self, history: &History, row: usize, phase: impl FnOnce(u64) -> Phase) -> Maker {
        let Some(&stack) = history.allocations.stacks.get(row) else { return Maker::Unknown };
        let Some(&by_stack) = self.of_stack.get(stack.0 as usize) else { return Maker::Unknown };
        if let Some(maker) = by_stack {
            return maker;
        }
        let event = history.allocations.alloc_events[row];
        if event == NONE {
            // Frames of a block from before the recording may have been dropped for many a reason.
            return Maker::Unknown;
        }
        match phase(event.into()) {
            Phase::Optimizer => Maker::Optimizer,
            Phase::Backward => Maker::Backward,
            _ if self.has_frames => Maker::Backward,
            _ => Maker::Unknown,
        }
    }
}

/// What a frame says anywhere on a stack, and as the innermost Python frame.
#[derive(Clone, Copy, Debug, Default)]
struct Evidence {
    anywhere: Maker,
    innermost: Maker,
    is_python: bool,
}

fn evidence(trace: &Trace, id: FrameId, classes: &[FrameClass]) -> Evidence {
    let frame = trace.frames.get(id);
    let file = trace.strings.get(frame.file).replace('\\', "/");
    let is_native = classes.get(id.0 as usize) == Some(&FrameClass::Native);
    let text = FrameText { file: &file, function: trace.strings.get(frame.function), is_native };
    let innermost = if is_native { Maker::Unknown } else { text.innermost_maker() };
    Evidence { anywhere: text.maker(), innermost, is_python: !is_native }
}

/// The innermost frame that says anything decides.
fn of_frames(frames: &[FrameId], of_frame: &[Evidence], facts: Option<&StackFacts>) -> Option<Maker> {
    let mut is_innermost = true;
    for id in frames {
        let found = of_frame.get(id.0 as usize).copied().unwrap_or_default();
        if found.anywhere != Maker::Unknown {
            return Some(found.anywhere);
        }
        if found.is_python && std::mem::take(&mut is_innermost) && found.innermost != Maker::Unknown {
            return Some(found.innermost);
        }
    }
    let facts = facts.filter(|facts| facts.has_python)?;
    Some(if facts.is_engine || facts.opens_pass { Maker::Backward } else { Maker::Unknown })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::{GroupBy, Grouping, phases};
    use super::*;
    use crate::model::{Annotation, DeviceId, TraceBuilder};
    use crate::rebuild::rebuild;

    const SITE: &str = "/opt/venv/lib/python3.12/site-packages/torch/";
    const A: u64 = 0x7f00_0000_0000;

    fn makers(trace: &Trace) -> Vec<Maker> {
        let device = &trace.devices[0];
        let history = rebuild(trace, device);
        let lines = Grouping::build(trace, device, &history, GroupBy::Line);
        let phases = phases(trace, device, &history, &lines);
        let makers = Makers::new(trace, &history, &lines.facts);
        let of = |row| makers.of(&history, row, |event| phases.of_event(event));
        (0..history.allocations.len()).map(of).collect()
    }

    fn at<'a>(path: &'a str, function: &'a str) -> (&'a str, u64, &'a str) {
        (path, 7, function)
    }

    #[test]
    fn the_innermost_frame_that_says_anything_decides() {
        let site = |path: &str| format!("{SITE}{path}");
        let (linear, wrapper) = (site("nn/modules/linear.py"), site("optim/optimizer.py"));
        let (module, autograd) = (site("nn/modules/module.py"), site("autograd/__init__.py"));
        let user = at("/home/me/train.py", "main");
        let trace = TraceBuilder::new()
            .segment_alloc(A, 2 << 20)
            // A closure that the optimizer calls is no optimizer.
            .stack(&[at(&linear, "forward"), user, at(&wrapper, "wrapper"), user])
            .alloc(A, 512)
            .stack(&[at("/home/me/lion.py", "update"), at(&wrapper, "wrapper"), user])
            .alloc(A + 512, 512)
            .stack(&[at(&module, "_call_impl"), user])
            .alloc(A + 1024, 512)
            .stack(&[at(&autograd, "_make_grads"), at(&wrapper, "wrapper"), user])
            .alloc(A + 1536, 512)
            .stack(&[])
            .alloc(A + 2048, 512)
            .at("train.py", 3, "backward")
            .alloc(A + 2560, 512)
            .at("train.py", 3, "forward_backward")
            .alloc(A + 3072, 512);
        let expected = [
            Maker::Compute,
            Maker::Optimizer,
            Maker::Unknown,
            Maker::Backward,
            Maker::Backward,
            Maker::Backward,
            Maker::Unknown,
        ];
        assert_eq!(makers(&trace.build()), expected);
    }

    #[test]
    fn without_any_frames_the_optimizers_spans_speak() {
        let mut trace = TraceBuilder::new().segment_alloc(A, 2 << 20).alloc(A, 512).alloc(A + 512, 512);
        trace = trace.alloc(A + 1024, 512);
        let mut trace = trace.build();
        assert_eq!(makers(&trace), [Maker::Unknown; 3]);
        let name = trace.strings.intern("Optimizer.step#SGD.step");
        for (begins, time_us) in [(true, 1_000_015), (false, 1_000_025)] {
            trace.annotations.push(Annotation { name, begins, device: DeviceId(0), time_us });
        }
        assert_eq!(makers(&trace), [Maker::Unknown, Maker::Optimizer, Maker::Unknown]);
    }

    #[test]
    fn the_recorders_tags_speak_where_frames_do_not() {
        let mut trace = TraceBuilder::new().segment_alloc(A, 2 << 20).at("train.py", 1, "main").alloc(A, 512);
        trace = trace.stack(&[]).alloc(A + 512, 512);
        let mut trace = trace.build();
        let tag = trace.strings.intern("memlab:optimizer:AdamW");
        trace.devices[0].events.user_metadata.set(2, tag);
        assert_eq!(makers(&trace), [Maker::Unknown, Maker::Optimizer]);
    }
}
