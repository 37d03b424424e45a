//! Allocations of the backward pass, which carry no Python frames, and the line they belong to.
//!
//! Owns what a stack says about the thread it was recorded on, and the walk that knows at every event
//! whether a backward pass is open. Does not own groups: it names a stack, `group` says whose that is.

use crate::model::{FrameId, StackId, Trace};

use super::FrameClass;
use super::user_code::torch_path;

/// The inference in one sentence, printed where inferred bytes are shown.
pub const INFERENCE_RULE: &str = "The autograd engine allocates on a thread of its own, without Python \
    frames: what it allocates after an event inside torch.autograd's backward() or grad() is charged to the \
    line that called it, until the next event of the calling thread";

/// What one stack says.
///
/// The evidence is PyTorch's own frames, as recorded. A pass **opens** with an event whose stack holds a
/// frame of `torch/autograd/__init__.py` (`backward`, `grad`, `_make_grads`) or
/// `torch/autograd/graph.py` (`_engine_run_backward`): in practice the allocation of the first gradient
/// (`ones_like(loss)`). It **stays open** over events without any Python frame, and over those whose
/// outermost Python frame is one that the engine calls by itself (`torch/autograd/function.py`, saved
/// tensor hooks, checkpointing, backward hooks of modules, hooks of `torch/distributed`): these ran on the engine's thread. It
/// **closes** with any other event that has Python frames. A pass that allocated nothing before it reached
/// the engine was not recorded as open, and its allocations stay unattributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackFacts {
    /// Innermost frame of the user's own code.
    pub user_frame: Option<FrameId>,
    /// Whether any frame is Python.
    pub has_python: bool,
    /// Whether it is the calling thread's, inside a backward call.
    pub opens_pass: bool,
    /// Whether it was recorded on a thread of the autograd engine: Python code that the engine called.
    pub is_engine: bool,
}

/// The facts of every stack of `trace`, by stack number; `classes` are those of its frames.
#[must_use]
pub fn stack_facts(trace: &Trace, classes: &[FrameClass]) -> Vec<StackFacts> {
    let roles: Vec<Role> = (0..trace.frames.len()).map(|id| role(trace, FrameId(id as u32))).collect();
    trace.stacks.iter().map(|frames| facts_of(frames, classes, &roles)).collect()
}

/// What a frame of PyTorch's says about the pass.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    None,
    /// Called by the user's thread to run the engine.
    Starter,
    /// Called by the engine when it is the outermost Python frame.
    EngineEntry,
}

fn role(trace: &Trace, id: FrameId) -> Role {
    let frame = trace.frames.get(id);
    let file = trace.strings.get(frame.file).replace('\\', "/");
    let function = trace.strings.get(frame.function);
    match (torch_path(&file), function) {
        (Some("autograd/__init__.py"), "backward" | "grad" | "_make_grads")
        | (Some("autograd/graph.py"), "_engine_run_backward") => Role::Starter,
        (
            Some("autograd/function.py" | "autograd/graph.py" | "utils/checkpoint.py" | "utils/hooks.py"),
            _,
        ) => Role::EngineEntry,
        (Some(path), _) if path.starts_with("distributed/") || path.starts_with("_functorch/") => {
            Role::EngineEntry
        }
        _ => Role::None,
    }
}

fn facts_of(frames: &[FrameId], classes: &[FrameClass], roles: &[Role]) -> StackFacts {
    let class = |id: FrameId| classes.get(id.0 as usize).copied().unwrap_or(FrameClass::Native);
    let role = |id: FrameId| roles.get(id.0 as usize).copied().unwrap_or(Role::None);
    let outermost = frames.iter().rev().copied().find(|&id| class(id) != FrameClass::Native);
    let is_engine = outermost.is_some_and(|id| role(id) == Role::EngineEntry);
    StackFacts {
        user_frame: frames.iter().copied().find(|&id| class(id) == FrameClass::User),
        has_python: outermost.is_some(),
        opens_pass: !is_engine && frames.iter().any(|&id| role(id) == Role::Starter),
        is_engine,
    }
}

/// Walks the events of one device in order and knows the open backward pass.
#[derive(Clone, Debug)]
pub struct Passes<'a> {
    facts: &'a [StackFacts],
    open: StackId,
}

impl<'a> Passes<'a> {
    /// Before the first event: no pass is known to be open.
    #[must_use]
    pub fn new(facts: &'a [StackFacts]) -> Self {
        Self::within(facts, StackId::NONE)
    }

    /// Before an event in the middle of a recording, with the pass open that the stack `open` opened, if any.
    #[must_use]
    pub fn within(facts: &'a [StackFacts], open: StackId) -> Self {
        Self { facts, open }
    }

    /// The stack that opened the pass which is open now.
    #[must_use]
    pub fn open(&self) -> StackId {
        self.open
    }

    /// Takes the next event's stack and names the pass that the event belongs to, by the stack that opened
    /// it; [`StackId::NONE`] for an event of the calling thread (its own stack says all) and while no pass
    /// is open.
    #[inline]
    pub fn next(&mut self, stack: StackId) -> StackId {
        let facts = self.facts.get(stack.0 as usize).copied().unwrap_or_default();
        if !facts.has_python || facts.is_engine {
            return self.open;
        }
        self.open = if facts.opens_pass { stack } else { StackId::NONE };
        StackId::NONE
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::classify_frames;
    use super::*;
    use crate::model::TraceBuilder;

    const SITE: &str = "/opt/venv/lib/python3.12/site-packages/";
    type Frames<'a> = &'a [(&'a str, u64, &'a str)];

    /// For each stack: the index of the event whose stack opened the pass it belongs to.
    fn passes(stacks: &[Frames]) -> Vec<Option<usize>> {
        let mut builder = TraceBuilder::new();
        for frames in stacks {
            builder = builder.stack(frames).alloc(0x1000, 512);
        }
        let trace = builder.build();
        let facts = stack_facts(&trace, &classify_frames(&trace));
        let mut walk = Passes::new(&facts);
        let ids = &trace.devices[0].events.stacks;
        let named: Vec<_> = ids.iter().map(|&id| walk.next(id)).collect();
        named
            .iter()
            .map(|&id| (id != StackId::NONE).then(|| ids.iter().position(|&s| s == id).unwrap()))
            .collect()
    }

    fn site(path: &str) -> String {
        format!("{SITE}{path}")
    }

    #[test]
    fn frameless_events_belong_to_the_line_that_called_backward() {
        let autograd = site("torch/autograd/__init__.py");
        let tensor = site("torch/_tensor.py");
        let forward: Frames = &[("train.py", 9, "step")];
        let opening: Frames =
            &[(&autograd, 231, "_make_grads"), (&autograd, 374, "backward"), ("train.py", 10, "step")];
        let closing: Frames = &[(&tensor, 631, "backward"), ("train.py", 10, "step")];
        let found = passes(&[&[], forward, &[], opening, &[], &[], closing, &[]]);
        assert_eq!(found, [None, None, None, None, Some(3), Some(3), None, None]);
    }

    #[test]
    fn native_frames_alone_count_as_frameless() {
        let autograd = site("torch/autograd/__init__.py");
        let opening: Frames = &[("??", 0, "malloc"), (&autograd, 374, "backward"), ("train.py", 10, "step")];
        let native: Frames = &[("??", 0, "torch::unwind::unwind()"), ("engine.cpp", 0, "thread_main")];
        assert_eq!(passes(&[opening, native]), [None, Some(0)]);
    }

    #[test]
    fn python_code_called_by_the_engine_keeps_the_pass_open() {
        let autograd = site("torch/autograd/__init__.py");
        let function = site("torch/autograd/function.py");
        let library = site("bitsandbytes/autograd/_functions.py");
        let opening: Frames = &[(&autograd, 374, "backward"), ("train.py", 10, "step")];
        let custom: Frames = &[(&library, 540, "backward"), (&function, 288, "apply")];
        let found = passes(&[opening, &[], custom, &[], custom]);
        assert_eq!(found, [None, Some(0), Some(0), Some(0), Some(0)]);
    }

    #[test]
    fn a_forward_through_a_custom_function_is_no_engine_event() {
        let function = site("torch/autograd/function.py");
        let forward: Frames = &[(&function, 596, "apply"), ("model.py", 4, "forward")];
        assert_eq!(passes(&[forward, &[]]), [None, None]);
    }
}
