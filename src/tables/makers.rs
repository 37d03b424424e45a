//! Who made an allocation: an optimizer, a loader, a library's handle pool, the backward pass.
//!
//! Owns how the frames of a stack are weighed (the innermost that says anything decides), what is known of
//! allocations without frames (the recorder's tags; the thread of the autograd engine; the optimizer's spans
//! where nothing has frames), and nothing about what follows from it. What a single frame says is in
//! `maker_frames`. Nothing here is a guess: who is not known is [`Maker::Unknown`].

use crate::model::{DeviceTrace, FrameId, MarkKind, StackId, StringId, Trace};
use crate::rebuild::{History, NONE};

use super::clock::Clock;
use super::maker_frames::FrameText;
use super::{FrameClass, StackFacts, classify_frames};

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

/// The maker of every stack of a trace, and what is known of allocations without one.
#[derive(Clone, Debug, Default)]
pub struct Makers {
    of_stack: Vec<Maker>,
    /// By string: what the recorder's tag says.
    of_tag: Vec<Maker>,
    /// Whether any allocation has a Python frame: only then does a stack without one say something.
    has_frames: bool,
    /// Events of the optimizer's spans; filled only where no allocation has frames.
    optimizer_spans: Vec<(u64, u64)>,
}

impl Makers {
    /// Reads the stacks of `trace`; `facts` are those of its stacks.
    #[must_use]
    pub fn new(trace: &Trace, device: &DeviceTrace, history: &History, facts: &[StackFacts]) -> Self {
        let classes = classify_frames(trace);
        let of_frame: Vec<Evidence> =
            (0..trace.frames.len()).map(|id| evidence(trace, FrameId(id as u32), &classes)).collect();
        let of_stack = trace.stacks.iter().enumerate();
        let of_stack = of_stack.map(|(id, frames)| of_frames(frames, &of_frame, facts.get(id))).collect();
        let has_python = |stack: &StackId| facts.get(stack.0 as usize).is_some_and(|facts| facts.has_python);
        let has_frames = history.allocations.stacks.iter().any(has_python);
        let optimizer_spans = if has_frames { Vec::new() } else { optimizer_spans(trace, device) };
        Self { of_stack, of_tag: tags(trace, device), has_frames, optimizer_spans }
    }

    /// Who made allocation `row`.
    #[must_use]
    pub fn of(&self, device: &DeviceTrace, history: &History, row: usize) -> Maker {
        let Some(&stack) = history.allocations.stacks.get(row) else { return Maker::Unknown };
        let by_stack = self.of_stack.get(stack.0 as usize).copied().unwrap_or_default();
        let event = history.allocations.alloc_events[row];
        if event == NONE {
            // Frames of a block from before the recording may have been dropped for many a reason.
            return if by_stack == FRAMELESS { Maker::Unknown } else { by_stack };
        }
        if by_stack != Maker::Unknown && by_stack != FRAMELESS {
            return by_stack;
        }
        let tag = device.events.user_metadata.get(event as usize).0 as usize;
        let by_tag = self.of_tag.get(tag).copied().unwrap_or_default();
        if by_tag != Maker::Unknown {
            return by_tag;
        }
        let event = u64::from(event);
        let span = self.optimizer_spans.partition_point(|&(_, end)| end <= event);
        if self.optimizer_spans.get(span).is_some_and(|&(begin, _)| begin <= event) {
            return Maker::Optimizer;
        }
        if by_stack == FRAMELESS && self.has_frames { Maker::Backward } else { Maker::Unknown }
    }

    /// Whether allocations have Python frames at all.
    #[must_use]
    pub fn has_frames(&self) -> bool {
        self.has_frames
    }
}

/// How a stack without Python frames is noted: among stacks that have some, it is the autograd engine's.
const FRAMELESS: Maker = Maker::Backward;

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
fn of_frames(frames: &[FrameId], of_frame: &[Evidence], facts: Option<&StackFacts>) -> Maker {
    let mut is_innermost = true;
    for id in frames {
        let found = of_frame.get(id.0 as usize).copied().unwrap_or_default();
        if found.anywhere != Maker::Unknown {
            return found.anywhere;
        }
        if found.is_python && std::mem::take(&mut is_innermost) && found.innermost != Maker::Unknown {
            return found.innermost;
        }
    }
    match facts {
        Some(facts) if !facts.has_python => FRAMELESS,
        Some(facts) if facts.is_engine || facts.opens_pass => Maker::Backward,
        _ => Maker::Unknown,
    }
}

/// What the recorder's tags say, by string number.
fn tags(trace: &Trace, device: &DeviceTrace) -> Vec<Maker> {
    if device.events.user_metadata.is_default() {
        return Vec::new();
    }
    let maker = |id: usize| match trace.strings.get(StringId(id as u32)) {
        text if text.starts_with("memlab:optimizer:") => Maker::Optimizer,
        text if text.starts_with("memlab:backward:") => Maker::Backward,
        _ => Maker::Unknown,
    };
    (0..trace.strings.len()).map(maker).collect()
}

/// Events of the optimizer's spans, ascending: by the recorder's marks, else by PyTorch's annotations.
fn optimizer_spans(trace: &Trace, device: &DeviceTrace) -> Vec<(u64, u64)> {
    let clock = Clock::of(&device.events);
    let marks = trace.marks.iter().filter(|mark| mark.kind == MarkKind::Phase && mark.name == "optimizer");
    let mut edges: Vec<(i64, bool)> = marks.filter_map(|mark| Some((mark.time_us, mark.begins?))).collect();
    if edges.is_empty() {
        let is_step = |name: StringId| trace.strings.get(name).starts_with("Optimizer.step#");
        let annotations = trace.annotations.iter().filter(|annotation| is_step(annotation.name));
        edges = annotations.map(|annotation| (annotation.time_us, annotation.begins)).collect();
    }
    edges.sort_by_key(|&(time, _)| time);
    let mut spans: Vec<(u64, u64)> = Vec::new();
    let mut begin = None;
    for (time, begins) in edges {
        if begins {
            begin = Some(time);
        } else if let Some(from) = begin.take()
            && let (Some(from), Some(to)) = (clock.moment_before(from), clock.moment_after(time))
        {
            spans.push((from.0, to.0));
        }
    }
    spans
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::stack_facts;
    use super::*;
    use crate::model::{Annotation, DeviceId, TraceBuilder};
    use crate::rebuild::rebuild;

    const SITE: &str = "/opt/venv/lib/python3.12/site-packages/torch/";
    const A: u64 = 0x7f00_0000_0000;

    fn makers(trace: &Trace) -> Vec<Maker> {
        let device = &trace.devices[0];
        let history = rebuild(trace, device);
        let facts = stack_facts(trace, &classify_frames(trace));
        let makers = Makers::new(trace, device, &history, &facts);
        (0..history.allocations.len()).map(|row| makers.of(device, &history, row)).collect()
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
        trace = trace.alloc(A + 512, 512);
        let mut trace = trace.build();
        let tag = trace.strings.intern("memlab:optimizer:AdamW");
        trace.devices[0].events.user_metadata.set(2, tag);
        assert_eq!(makers(&trace), [Maker::Unknown, Maker::Optimizer]);
    }
}
