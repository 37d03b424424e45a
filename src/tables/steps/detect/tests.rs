use super::*;
use crate::model::TraceBuilder;

/// What a loop body does: allocations at lines, by address slot.
struct Story {
    builder: Option<TraceBuilder>,
    live: Vec<(u64, u64)>,
    next: u64,
}

const SITE: &str = "/opt/venv/lib/python3.12/site-packages/torch/";

impl Story {
    fn new() -> Self {
        Self { builder: Some(TraceBuilder::new()), live: Vec::new(), next: 0x1000 }
    }

    fn with(&mut self, change: impl FnOnce(TraceBuilder) -> TraceBuilder) {
        self.builder = self.builder.take().map(change);
    }

    fn stack(&mut self, frames: &[(&str, u64, &str)]) {
        self.with(|builder| builder.stack(frames));
    }

    /// Allocates at `line` of the training script.
    fn alloc(&mut self, line: u64, bytes: u64) -> u64 {
        self.stack(&[("train.py", line, "main")]);
        self.take(bytes)
    }

    fn take(&mut self, bytes: u64) -> u64 {
        let address = self.next;
        self.next += 1 << 20;
        self.live.push((address, bytes));
        self.with(|builder| builder.alloc(address, bytes));
        address
    }

    fn free(&mut self, address: u64) {
        let at = self.live.iter().position(|&(live, _)| live == address).unwrap();
        let (_, bytes) = self.live.remove(at);
        self.with(|builder| builder.free(address, bytes));
    }

    fn free_all(&mut self, addresses: impl Iterator<Item = u64>) {
        for address in addresses {
            self.free(address);
        }
    }

    /// One step: a batch, three activations, a loss; all freed at the end.
    fn step(&mut self, scale: u64) {
        let held: Vec<u64> = [(10, 3), (11, 8), (12, 8), (13, 8), (14, 1)]
            .map(|(line, size)| self.alloc(line, size * scale))
            .into();
        self.free_all(held.into_iter().rev());
    }

    fn evaluation(&mut self) {
        let held: Vec<u64> = (20..32).map(|line| self.alloc(line, 4_000)).collect();
        self.free_all(held.into_iter());
    }

    /// `(first event, past the last)` of every step.
    fn steps(mut self) -> Vec<(u64, u64)> {
        let trace = self.builder.take().unwrap().build();
        find(&trace, &trace.devices[0]).iter().map(|span| (span.begin.0, span.end.0)).collect()
    }
}

#[test]
fn a_plain_loop_is_cut_at_its_first_line() {
    let mut story = Story::new();
    for layer in 0..6 {
        story.alloc(1 + layer % 2, 10_000);
    }
    for _ in 0..5 {
        story.step(100);
    }
    let expected: Vec<(u64, u64)> = (0..5).map(|step| (6 + 15 * step, 21 + 15 * step)).collect();
    assert_eq!(story.steps(), expected);
}

#[test]
fn batches_of_changing_size_do_not_matter_and_times_are_not_needed() {
    let mut story = Story::new();
    for step in 0..7 {
        story.step(100 + 37 * (step * 5 % 7));
    }
    let mut trace = story.builder.take().unwrap().build();
    trace.devices[0].events.times_us.fill(crate::model::NO_TIME);
    assert_eq!(find(&trace, &trace.devices[0]).len(), 7);
}

#[test]
fn a_thousand_steps_with_noise_and_evaluations_are_counted() {
    let mut story = Story::new();
    let mut random = 12_345_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut prefetched = None;
    for step in 0..1_000 {
        story.step(50 + next(100));
        if next(3) == 0 {
            if let Some(address) = prefetched.take() {
                story.free(address);
            }
            story.stack(&[("loader.py", 5 + next(3), "worker")]);
            prefetched = Some(story.take(100 + next(500)));
        }
        if step % 10 == 9 {
            story.evaluation();
        }
    }
    assert_eq!(story.steps().len(), 1_000);
}

/// Six steps of four micro-batches; gradients live from the first of them to the update.
fn micro_batches(once_per_step: bool) -> Vec<(u64, u64)> {
    let mut story = Story::new();
    for _ in 0..6 {
        let mut gradients = Vec::new();
        for micro in 0..4 {
            let held: Vec<u64> = (10..20).map(|line| story.alloc(line, 2_000)).collect();
            if micro == 0 {
                gradients.extend((0..4).map(|_| story.take(3_000)));
            }
            story.free_all(held.into_iter());
        }
        for gradient in gradients {
            let update = story.alloc(20, 500);
            story.free(update);
            story.free(gradient);
        }
        if once_per_step {
            let norm = story.alloc(30, 500);
            story.free(norm);
        }
    }
    story.steps()
}

#[test]
fn micro_batches_are_no_steps_where_memory_returns_only_after_the_update() {
    assert_eq!(micro_batches(true).len(), 6);
}

#[test]
fn micro_batches_are_the_finest_period_if_nothing_marks_the_step() {
    assert_eq!(micro_batches(false).len(), 24);
}

#[test]
fn a_step_ends_behind_the_optimizer() {
    let (adam, autograd) = (format!("{SITE}optim/adam.py"), format!("{SITE}autograd/__init__.py"));
    let mut story = Story::new();
    for _ in 0..4 {
        for _ in 0..3 {
            let held: Vec<u64> = (10..14).map(|line| story.alloc(line, 2_000)).collect();
            story.stack(&[(&autograd, 374, "backward"), ("train.py", 15, "main")]);
            let seed = story.take(4);
            story.free_all(held.into_iter());
            story.free(seed);
        }
        story.stack(&[(&adam, 200, "adam"), (&adam, 100, "step"), ("train.py", 17, "main")]);
        let update = story.take(500);
        story.free(update);
    }
    // Three micro-batches of 15 events and an update of 3 make a step, although each micro-batch has its pass.
    let expected: Vec<(u64, u64)> = (0..4).map(|step| (48 * step, 48 + 48 * step)).collect();
    assert_eq!(story.steps(), expected);
}

#[test]
fn a_second_loop_behind_the_first_has_steps_too() {
    let mut story = Story::new();
    for _ in 0..5 {
        story.step(100);
    }
    for _ in 0..5 {
        story.evaluation();
    }
    let steps = story.steps();
    assert_eq!(steps.len(), 10);
    assert_eq!((steps[4], steps[5]), ((60, 75), (75, 111)));
}

#[test]
fn without_stacks_sizes_tell_the_rounds() {
    let mut story = Story::new();
    for _ in 0..8 {
        story.step(100);
    }
    let mut trace = story.builder.take().unwrap().build();
    trace.devices[0].events.stacks.fill(crate::model::StackId::NONE);
    assert_eq!(find(&trace, &trace.devices[0]).len(), 8);
}

#[test]
fn what_is_not_periodic_or_says_too_little_has_no_steps() {
    let mut pair = Story::new();
    for _ in 0..500 {
        let held = pair.alloc(10, 100);
        pair.free(held);
    }
    assert_eq!(pair.steps(), [], "a single pair in turn");

    let mut growing = Story::new();
    for _ in 0..50 {
        for line in 10..16 {
            growing.alloc(line, 1_000);
        }
    }
    assert_eq!(growing.steps(), [], "a loop that builds a model");

    let mut twice = Story::new();
    for _ in 0..2 {
        twice.step(100);
    }
    assert_eq!(twice.steps(), [], "two rounds");
    assert_eq!(Story::new().builder.unwrap().build().devices.len(), 0);
}

#[test]
fn layers_of_one_forward_pass_are_no_steps() {
    let (module, mut story) = (format!("{SITE}nn/modules/module.py"), Story::new());
    for _ in 0..24 {
        for line in 40..46 {
            let call = (module.as_str(), 1790, "_call_impl");
            story.stack(&[
                ("net.py", line, "forward"),
                call,
                ("net.py", 80, "forward"),
                call,
                ("train.py", 9, "main"),
            ]);
            let held = story.take(1_000);
            story.free(held);
        }
    }
    assert_eq!(story.steps(), []);
}
