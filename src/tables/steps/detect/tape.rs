//! The recording reduced to its allocations, each with a token for who asked.
//!
//! Owns what a stack says about its place in a training step. Does not own what counts as a period.

use std::collections::HashMap;

use crate::model::{Action, DeviceTrace, Frame, FrameId, StackId, Trace};
use crate::tables::inference::{StackFacts, stack_facts};
use crate::tables::user_code::{FrameClass, classify_frames, torch_path};

const UNKNOWN: u32 = u32::MAX;

/// What a frame says; several may hold.
#[derive(Clone, Copy, Debug, Default)]
struct FrameFacts(u8);

impl FrameFacts {
    const NATIVE: u8 = 1;
    /// In an optimizer's call, and in its `step`.
    const UPDATE: u8 = 2;
    const STEP: u8 = 4;
    /// In the autograd engine's Python part.
    const ENGINE: u8 = 8;
    /// The call of a module, and a module's forward pass outside PyTorch's own modules.
    const CALL: u8 = 16;
    const FORWARD: u8 = 32;

    fn any(self, what: u8) -> bool {
        self.0 & what != 0
    }
}

/// What a token says: a Python stack, whatever native frames stand beside it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TokenFacts {
    /// Number of its frames in the tape.
    stack: u32,
    /// Whether these are Python's.
    python: bool,
    /// Whether it stands in an optimizer's call, and in its `step`.
    pub(super) update: bool,
    step: bool,
}

/// The allocations of a device in order. Positions on the tape are indices into its columns.
pub(super) struct Tape {
    /// Event of each allocation.
    pub(super) events: Vec<u32>,
    pub(super) tokens: Vec<u32>,
    /// Requested bytes live before it, from an unknown beginning.
    pub(super) live: Vec<i64>,
    /// Positions at or before which a backward pass was opened, ascending; one entry per event that says so.
    pub(super) passes: Vec<u32>,
    /// The same for events of an optimizer, and behind those of its `step`.
    pub(super) updates: Vec<u32>,
    pub(super) steps: Vec<u32>,
    pub(super) facts: Vec<TokenFacts>,
    frames: Vec<FrameFacts>,
    /// Frames of the tokens, outermost first.
    stacks: Vec<Vec<FrameId>>,
}

impl Tape {
    /// Tokens are the Python part of stacks.
    pub(super) fn by_stack(trace: &Trace, device: &DeviceTrace) -> Self {
        let classes = classify_frames(trace);
        let rows = trace.frames.rows().iter().zip(&classes);
        let frames = rows.map(|(&frame, &class)| facts(trace, frame, class)).collect();
        let events = &device.events;
        let count = events.actions.iter().filter(|&&action| action == Action::Alloc).count();
        let mut tape = Self {
            events: Vec::with_capacity(count),
            tokens: Vec::with_capacity(count),
            live: Vec::with_capacity(count),
            passes: Vec::new(),
            updates: Vec::new(),
            steps: Vec::new(),
            facts: Vec::new(),
            frames,
            stacks: Vec::new(),
        };
        tape.record(trace, device, &stack_facts(trace, &classes));
        tape
    }

    fn record(&mut self, trace: &Trace, device: &DeviceTrace, passes: &[StackFacts]) {
        let mut known = HashMap::new();
        let mut of_stack = vec![UNKNOWN; trace.stacks.len()];
        let events = &device.events;
        let mut live = 0_i64;
        for event in 0..events.len() {
            let is_alloc = events.actions[event] == Action::Alloc;
            if !is_alloc && events.actions[event] != Action::FreeRequested {
                continue;
            }
            let stack = events.stacks[event].0 as usize;
            let token = match of_stack.get(stack) {
                Some(&token) if token != UNKNOWN => token,
                _ => self.token(trace, events.stacks[event], &mut known),
            };
            if let Some(entry) = of_stack.get_mut(stack) {
                *entry = token;
            }
            let position = self.events.len() as u32;
            let bytes = i64::try_from(events.sizes[event]).unwrap_or(i64::MAX);
            if is_alloc {
                self.events.push(event as u32);
                self.tokens.push(token);
                self.live.push(live);
                live = live.saturating_add(bytes);
            } else {
                live = live.saturating_sub(bytes);
            }
            let facts = self.facts[token as usize];
            if passes.get(stack).is_some_and(|facts| facts.opens_pass) {
                self.passes.push(position);
            }
            if facts.update {
                self.updates.push(position);
            }
            if facts.step {
                self.steps.push(self.events.len() as u32);
            }
        }
    }

    /// The token of a stack that is met for the first time.
    fn token(&mut self, trace: &Trace, stack: StackId, known: &mut HashMap<Vec<FrameId>, u32>) -> u32 {
        let facts = |frame: &FrameId| self.frames.get(frame.0 as usize).copied().unwrap_or_default();
        let mut frames: Vec<FrameId> = trace.stacks.get(stack).iter().rev().copied().collect();
        // Without Python the native frames stand for themselves.
        let python = frames.iter().any(|frame| !facts(frame).any(FrameFacts::NATIVE));
        if python {
            frames.retain(|frame| !facts(frame).any(FrameFacts::NATIVE));
        }
        if let Some(&token) = known.get(&frames) {
            return token;
        }
        let token = self.facts.len() as u32;
        let update = frames.iter().any(|frame| facts(frame).any(FrameFacts::UPDATE));
        let step = frames.iter().any(|frame| facts(frame).any(FrameFacts::STEP));
        self.facts.push(TokenFacts { stack: token, python, update, step });
        self.stacks.push(frames.clone());
        known.insert(frames, token);
        token
    }

    /// How many allocations there are.
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    /// How many different tokens allocate.
    pub(super) fn tokens_used(&self) -> usize {
        let mut seen = vec![false; self.facts.len()];
        for &token in &self.tokens {
            seen[token as usize] = true;
        }
        seen.iter().filter(|&&seen| seen).count()
    }

    /// The same tape with pairs of stack and size for tokens; `None` if these say no more.
    pub(super) fn by_size(mut self, device: &DeviceTrace) -> Option<Self> {
        let mut known: HashMap<(u32, u64), u32> = HashMap::new();
        let mut facts = Vec::new();
        for (token, &event) in self.tokens.iter_mut().zip(&self.events) {
            let key = (*token, device.events.sizes[event as usize]);
            *token = *known.entry(key).or_insert_with(|| {
                facts.push(self.facts[key.0 as usize]);
                facts.len() as u32 - 1
            });
        }
        self.facts = facts;
        (self.facts.len() >= super::FEWEST_TOKENS).then_some(self)
    }

    /// Whether everything that these tokens do happens within one call of a module that another module
    /// called, of an optimizer, or of the autograd engine: a loop inside a step.
    pub(super) fn is_within_a_call(&self, tokens: impl Iterator<Item = u32>) -> bool {
        let mut common: Option<&[FrameId]> = None;
        for token in tokens {
            let facts = &self.facts[token as usize];
            let Some(stack) = self.stacks.get(facts.stack as usize).filter(|_| facts.python) else {
                continue;
            };
            let shared = common.map_or(stack.len(), |common| {
                common.iter().zip(stack).take_while(|(one, other)| one == other).count()
            });
            common = Some(&stack[..shared]);
        }
        let frames = || {
            common
                .unwrap_or_default()
                .iter()
                .map(|frame| self.frames.get(frame.0 as usize).copied().unwrap_or_default())
        };
        frames().any(|frame| frame.any(FrameFacts::UPDATE | FrameFacts::ENGINE | FrameFacts::FORWARD))
            || frames().filter(|frame| frame.any(FrameFacts::CALL)).count() >= 2
    }
}

/// PyTorch's own frames, and optimizers of other packages by the name of their folder or file.
fn facts(trace: &Trace, frame: Frame, class: FrameClass) -> FrameFacts {
    if class == FrameClass::Native {
        return FrameFacts(FrameFacts::NATIVE);
    }
    let file = trace.strings.get(frame.file).replace('\\', "/");
    let function = trace.strings.get(frame.function);
    let torch = torch_path(&file).filter(|_| class == FrameClass::Library);
    let of_torch = torch.is_some_and(|path| path.starts_with("optim/"));
    let of_others = file.contains("optim") && matches!(function, "step" | "zero_grad");
    let updates = (of_torch || of_others) && !file.contains("scheduler");
    let facts = [
        (updates, FrameFacts::UPDATE),
        (updates && function == "step", FrameFacts::STEP),
        (torch.is_some_and(|path| path.starts_with("autograd/")), FrameFacts::ENGINE),
        (torch == Some("nn/modules/module.py") && function == "_call_impl", FrameFacts::CALL),
        (torch.is_none() && function == "forward", FrameFacts::FORWARD),
    ];
    FrameFacts(facts.iter().filter(|(holds, _)| *holds).fold(0, |all, (_, one)| all | one))
}
