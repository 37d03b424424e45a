//! A program that looks like training, for ever: what it asks the allocator for.
//!
//! Owns the stacks and the operations, in the shape of `testdata/generate.py`: parameters and optimizer state,
//! then steps of four batch sizes. The numbers are seeded: the same on every machine.

use memlab::model::{Frame, StackId, Trace};

use crate::allocator::Allocator;

const MIB: u64 = 1 << 20;
const LAYERS: usize = 24;
const OPS: usize = 30;
/// Slots of parameters; those of a step follow.
const PARAMETERS: usize = 1_500;
const FIRST_OF_STEP: usize = 10_000;
/// The stack of the second stream.
const SIDE_SITE: u32 = 50;
pub(crate) const SITES: usize = 200;

/// Seeded numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }

    fn choice(&mut self, values: &[u64]) -> u64 {
        values[self.below(values.len())]
    }
}

#[derive(Clone, Copy)]
enum Operation {
    Take { slot: usize, bytes: u64, site: u32 },
    Give { slot: usize, later: bool, site: u32 },
    Empty,
}

/// The program, at some place of its run.
pub(crate) struct Program {
    random: Random,
    tapes: Vec<Vec<Operation>>,
    tape: Vec<Operation>,
    at: usize,
    steps: u64,
}

impl Program {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let sizes = [256, 2_048, 147_456, 1_048_576, 2_359_296, 4_194_304];
        let take = |slot| Operation::Take { slot, bytes: random.choice(&sizes), site: 0 };
        let tape = (0..PARAMETERS).map(take).collect();
        let tapes = Vec::from([100, 137, 61, 193].map(|scale| step(&mut random, scale)));
        Self { random, tapes, tape, at: 0, steps: 0 }
    }

    /// Does the next operation.
    pub(crate) fn advance(&mut self, allocator: &mut Allocator) {
        if self.at == self.tape.len() {
            self.tape.clear();
            if self.steps > 0 && self.steps.is_multiple_of(200) {
                self.tape.push(Operation::Empty);
            }
            let next = self.random.below(self.tapes.len());
            self.tape.extend_from_slice(&self.tapes[next]);
            (self.at, self.steps) = (0, self.steps + 1);
        }
        match self.tape[self.at] {
            Operation::Take { slot, bytes, site } => allocator.take(slot, bytes, site == SIDE_SITE, site),
            Operation::Give { slot, later, site } => allocator.give(slot, later, site),
            Operation::Empty => allocator.empty_cache(2),
        }
        self.at += 1;
    }
}

/// One step at `scale` percent of the usual batch: forward keeps, backward gives back in reverse, then the
/// optimizer.
fn step(random: &mut Random, scale: u64) -> Vec<Operation> {
    let (mut tape, mut kept, mut next) = (Vec::new(), Vec::new(), FIRST_OF_STEP);
    let mut slot = || {
        next += 1;
        next - 1
    };
    for (layer, op) in (0..LAYERS).flat_map(|layer| (0..OPS).map(move |op| (layer, op))) {
        let site = (4 + (layer * 7 + op) % 196) as u32;
        let usual = random.choice(&[512, 3_000, 20_000, 65_536, 300_000, 900_000, 1_500_000]);
        let bytes = usual * scale / 100;
        kept.push(slot());
        tape.push(Operation::Take { slot: kept[kept.len() - 1], bytes, site });
        if op % 3 == 0 {
            let temporary = slot();
            tape.push(Operation::Take { slot: temporary, bytes: 2 * bytes, site });
            tape.push(Operation::Give { slot: temporary, later: op % 48 == 0, site });
        }
    }
    let (loss, logits) = (slot(), slot());
    tape.push(Operation::Take { slot: loss, bytes: 11 * MIB * scale / 100, site: 2 });
    tape.push(Operation::Take { slot: logits, bytes: 37 * MIB * scale / 100, site: 2 });
    tape.push(Operation::Give { slot: loss, later: false, site: 2 });
    kept.push(logits);
    let mut gradients = Vec::new();
    for (index, &held) in kept.iter().rev().enumerate() {
        if index % 4 == 0 {
            let bytes = random.choice(&[1_024, 40_000, 262_144, 1_048_576]);
            gradients.push(slot());
            tape.push(Operation::Take { slot: gradients[gradients.len() - 1], bytes, site: 3 });
        }
        tape.push(Operation::Give { slot: held, later: false, site: 3 });
    }
    for (index, gradient) in gradients.into_iter().enumerate() {
        let scratch = slot();
        tape.push(Operation::Take { slot: scratch, bytes: 8_192 + 512 * index as u64, site: 1 });
        tape.push(Operation::Give { slot: gradient, later: false, site: 1 });
        tape.push(Operation::Give { slot: scratch, later: false, site: 1 });
    }
    tape
}

/// Enters the stacks into `trace`, some hundred that share most of their frames; the id of each site's.
pub(crate) fn stacks(trace: &mut Trace) -> Vec<StackId> {
    const TORCH: &str = "/opt/venv/lib/python3.12/site-packages/torch/nn/modules/";
    const LEAVES: [(&str, u64); 4] =
        [("linear.py", 134), ("normalization.py", 217), ("activation.py", 816), ("dropout.py", 73)];
    let site = |number: usize| {
        let (module, container) = (format!("{TORCH}module.py"), format!("{TORCH}container.py"));
        let (leaf, line) = LEAVES[number % 4];
        let model = "/workspace/model.py";
        let inner =
            [(format!("{TORCH}{leaf}"), line + number as u64 / 100), (model.to_owned(), 40 + number as u64)];
        let outer = [(model.to_owned(), 300 + number as u64 % 24), (container, 253), (model.to_owned(), 420)];
        let mut frames = Vec::new();
        for (file, line) in inner.into_iter().chain(outer) {
            frames.push(("forward", file, line));
            frames.push(("_call_impl", module.clone(), 1790));
            frames.push(("_wrapped_call_impl", module.clone(), 1779));
        }
        let train = [("loss", 180 + number as u64 % 5), ("train", 212), ("main", 301), ("<module>", 344)];
        frames.extend(train.map(|(function, line)| (function, "/workspace/train.py".to_owned(), line)));
        frames
    };
    let mut stacks = Vec::with_capacity(SITES);
    for number in 0..SITES {
        // Site 3 is the backward pass: its allocations carry no Python frames.
        let frames = if number == 3 { Vec::new() } else { site(number) };
        let ids: Vec<_> = frames
            .into_iter()
            .map(|(function, file, line)| {
                let (function, file) = (trace.strings.intern(function), trace.strings.intern(&file));
                trace.frames.intern(Frame { function, file, line })
            })
            .collect();
        stacks.push(trace.stacks.intern(&ids));
    }
    stacks
}
