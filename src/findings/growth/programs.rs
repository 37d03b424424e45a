//! Generated programs: what a training job does with memory, with and without a leak. Everything follows from a
//! seed.

use crate::model::{Action, Annotation, DeviceId, Trace, TraceBuilder};

const MIB: u64 = 1 << 20;

/// A seeded generator (SplitMix64): the same numbers on every machine.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit.max(1) as u64) as usize
    }
}

/// The line that leaks.
pub(super) const LEAK: u64 = 999;

/// A leak: one block of `bytes` in every `every`th step from `from` on.
#[derive(Debug)]
pub(super) struct Leak {
    every: u64,
    from: u64,
    bytes: u64,
}

/// A program in the making. Everything follows from its seed.
pub(super) struct Program {
    pub(super) seed: u64,
    random: Seeded,
    pub(super) steps: u64,
}

impl Program {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Seeded(seed);
        let steps = 10 + random.below(51) as u64;
        Self { seed, random, steps }
    }

    pub(super) fn without_leak(&self) -> Trace {
        self.with(&Leak { every: 1, from: u64::MAX, bytes: 0 })
    }

    /// Chooses a leak; a rarer one needs more steps.
    pub(super) fn leaks_every(&mut self, every: u64) -> Leak {
        self.steps = self.steps.max(12 * every - 2);
        let from = if self.steps >= 12 * every { self.random.below(3) as u64 } else { 0 };
        let sizes = [512, 4_096, 65_536, MIB, 6 * MIB, 24 * MIB];
        Leak { every, from, bytes: sizes[self.random.below(sizes.len())] }
    }

    /// Runs it.
    pub(super) fn with(&self, leak: &Leak) -> Trace {
        let mut run = Run::new(Seeded(self.seed ^ 0x5eed));
        let mut habits = Habits::new(self.steps, &mut run);
        for step in 0..self.steps {
            run.begin();
            habits.step(step, &mut run);
            if step >= leak.from && step % leak.every == 0 {
                run.alloc(LEAK, leak.bytes);
            }
            habits.end_of_step(step, &mut run);
            run.end(step);
        }
        if run.random.below(3) == 0 {
            run.tear_down();
        }
        run.trace()
    }
}

/// A block: line, address, bytes.
type Block = (u64, u64, u64);

/// A recording in the making: hands out addresses as an allocator with one segment per size would.
struct Run {
    random: Seeded,
    /// Line, action, address, bytes.
    events: Vec<(u64, Action, u64, u64)>,
    next: u64,
    free: std::collections::BTreeMap<u64, Vec<u64>>,
    live: std::collections::BTreeMap<u64, Block>,
    begun: usize,
    steps: Vec<(u64, usize, usize)>,
}

impl Run {
    fn new(random: Seeded) -> Self {
        let (free, live) = Default::default();
        Self { random, events: Vec::new(), next: 0x7f00_0000_0000, free, live, begun: 0, steps: Vec::new() }
    }

    fn alloc(&mut self, line: u64, bytes: u64) -> Block {
        let size = bytes.next_multiple_of(2 * MIB);
        let address = self.free.get_mut(&size).and_then(Vec::pop).unwrap_or_else(|| {
            self.events.push((line, Action::SegmentAlloc, self.next, size));
            self.next += size;
            self.next - size
        });
        self.events.push((line, Action::Alloc, address, bytes));
        self.live.insert(address, (line, address, bytes));
        (line, address, bytes)
    }

    fn free(&mut self, (line, address, bytes): Block) {
        self.events.push((line, Action::FreeRequested, address, bytes));
        self.events.push((line, Action::FreeCompleted, address, bytes));
        self.live.remove(&address);
        self.free.entry(bytes.next_multiple_of(2 * MIB)).or_default().push(address);
    }

    fn begin(&mut self) {
        self.begun = self.events.len();
    }

    fn end(&mut self, step: u64) {
        self.steps.push((step, self.begun, self.events.len() - 1));
    }

    fn tear_down(&mut self) {
        for block in self.live.values().copied().collect::<Vec<_>>() {
            self.free(block);
        }
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.random.below(100) < percent
    }

    fn trace(self) -> Trace {
        let mut builder = TraceBuilder::new();
        let mut at = 0;
        for (line, action, address, bytes) in self.events {
            if line != at {
                builder = builder.at("train.py", line, "step");
                at = line;
            }
            builder = builder.event(action, address, bytes);
        }
        let mut trace = builder.build();
        for (step, begin, end) in self.steps {
            let name = trace.strings.intern(&format!("step{step}"));
            for (begins, event) in [(true, begin), (false, end)] {
                let time_us = 1_000_000 + event as i64 * 10;
                trace.annotations.push(Annotation { name, begins, device: DeviceId(0), time_us });
            }
        }
        trace
    }
}

/// What a program without a leak does with memory, step by step. A cache or warm-up is over after three
/// quarters of the steps at the latest: one that never ends cannot be told from a leak.
struct Habits {
    steps: u64,
    /// Batch size, correlated from step to step.
    batch: u64,
    carried: Vec<Block>,
    gradients: Vec<Block>,
    of_step: Vec<Block>,
    warm_up: u64,
    bounded: (usize, usize, usize),
    shapes: Vec<bool>,
    evicting: (usize, usize, bool),
    entries: Vec<Block>,
    noise: Vec<(u64, usize, u64)>,
    living: Vec<(u64, Block)>,
    evaluates_every: u64,
    best: Option<Block>,
    ahead: Vec<Block>,
    accumulates: u64,
}

impl Habits {
    fn new(steps: u64, run: &mut Run) -> Self {
        for layer in 0..6 {
            run.alloc(10, (1 + layer % 3) * 4 * MIB);
        }
        let full = steps * 3 / 4;
        let below = |limit: u64, run: &mut Run| run.random.below(limit.max(1) as usize) as u64;
        let fills = [100, 100, 80, 50][run.random.below(4)];
        let bound = 1 + below(full * fills as u64 * 8 / 1_000, run) as usize;
        let enters = [100, 70][run.random.below(2)];
        let most = 1 + below(full * enters as u64 * 8 / 1_000, run) as usize;
        let mut noise = Vec::new();
        for line in 700..704 {
            noise.push((line, [20, 50, 100, 200][run.random.below(4)], below(steps, run)));
        }
        Self {
            steps,
            batch: 32,
            carried: Vec::new(),
            gradients: Vec::new(),
            of_step: Vec::new(),
            warm_up: below(full, run),
            bounded: (bound, fills, 0),
            shapes: vec![false; 1 + below(steps / 4, run) as usize],
            evicting: (most, enters, run.chance(70)),
            entries: Vec::new(),
            living: Vec::new(),
            evaluates_every: 4 + below(7, run),
            best: None,
            ahead: Vec::new(),
            accumulates: 1 + below(4, run),
            noise,
        }
    }

    fn step(&mut self, step: u64, run: &mut Run) {
        self.batch = (self.batch * 3 + 1 + run.random.below(128) as u64) / 4;
        let batch = run.alloc(20, self.batch * 16_384);
        self.ahead.push(batch);
        if self.ahead.len() > 2 {
            self.carried.push(self.ahead.remove(0));
        }
        for layer in 0..4 {
            let block = run.alloc(30 + layer, self.batch * 65_536);
            self.of_step.push(block);
        }
        self.caches(step, run);
        self.noise(step, run);
        if step % self.evaluates_every == self.evaluates_every - 1 {
            let logits = run.alloc(60, 12 * MIB);
            let metric = run.alloc(61, 512);
            run.free(logits);
            self.best.replace(metric).into_iter().for_each(|old| run.free(old));
        }
    }

    fn caches(&mut self, step: u64, run: &mut Run) {
        if step < self.warm_up {
            run.alloc(40, 8 * MIB);
        }
        let (bound, fills, entries) = &mut self.bounded;
        if entries < bound && run.chance(*fills) {
            *entries += 1;
            run.alloc(41, 2 * MIB);
        }
        let shape = run.random.below(self.shapes.len());
        if !std::mem::replace(&mut self.shapes[shape], true) {
            run.alloc(42, 3 * MIB);
        }
        let (most, enters, is_oldest) = self.evicting;
        if run.chance(enters) {
            let bytes = self.batch * 8_192;
            self.entries.push(run.alloc(43, bytes));
            if self.entries.len() > most {
                let at = if is_oldest { 0 } else { run.random.below(self.entries.len()) };
                let block = self.entries.remove(at);
                run.free(block);
            }
        }
    }

    /// Blocks that live by chance, up to as long as the recording.
    fn noise(&mut self, step: u64, run: &mut Run) {
        for (line, rate, life) in self.noise.clone() {
            let blocks = rate / 100 + usize::from(run.chance(rate % 100));
            for _ in 0..blocks {
                let bytes = 512 << run.random.below(12);
                let block = run.alloc(line, bytes);
                // Two tosses: short lives are more frequent than long ones.
                let of = run.random.below(life as usize + 1);
                self.living.push((step + run.random.below(of + 1) as u64, block));
            }
        }
        let dead: Vec<_> =
            self.living.iter().filter(|(until, _)| *until <= step).map(|entry| entry.1).collect();
        self.living.retain(|(until, _)| *until > step);
        for block in dead {
            run.free(block);
        }
    }

    fn end_of_step(&mut self, step: u64, run: &mut Run) {
        if step.is_multiple_of(self.accumulates) {
            self.gradients.drain(..).for_each(|block| run.free(block));
            self.gradients = (0..6).map(|layer| run.alloc(50, (1 + layer % 3) * 4 * MIB)).collect();
        }
        while let Some(block) = self.of_step.pop() {
            run.free(block);
        }
        if step == 0 {
            for layer in 0..12 {
                run.alloc(51, (1 + layer % 3) * 4 * MIB);
            }
        }
        self.carried.drain(..).for_each(|block| run.free(block));
        debug_assert!(step < self.steps);
    }
}
