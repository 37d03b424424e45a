//! Tests of `reference-cycle`: bursts that are the collector's, and those that are not.
#![allow(clippy::unwrap_used)]

use crate::findings::scene::samples::found;
use crate::findings::{Finding, Severity};
use crate::model::{Annotation, DeviceId, TraceBuilder};

const MIB: u64 = 1 << 20;
const A: u64 = 0x7f00_0000_0000;

/// Rounds of a program, with or without annotations around them.
struct Rounds {
    builder: TraceBuilder,
    events: i64,
    next: u64,
    steps: Vec<(i64, i64)>,
}

impl Rounds {
    fn new() -> Self {
        Self { builder: TraceBuilder::new(), events: 0, next: A, steps: Vec::new() }
    }

    fn alloc(&mut self, line: u64, bytes: u64) -> (u64, u64) {
        let address = self.next;
        self.next += bytes.next_multiple_of(2 * MIB);
        let builder = std::mem::take(&mut self.builder).at("train.py", line, "step");
        self.builder = builder.segment_alloc(address, self.next - address).alloc(address, bytes);
        self.events += 2;
        (address, bytes)
    }

    fn free_at(&mut self, line: u64, blocks: impl IntoIterator<Item = (u64, u64)>) {
        let mut builder = std::mem::take(&mut self.builder).at("train.py", line, "step");
        for (address, bytes) in blocks {
            builder = builder.free(address, bytes);
            self.events += 2;
        }
        self.builder = builder;
    }

    fn step(&mut self, body: impl FnOnce(&mut Self)) {
        let begin = self.events;
        body(self);
        self.steps.push((begin, self.events - 1));
    }

    fn found(self, are_annotated: bool) -> Vec<Finding> {
        let mut trace = self.builder.build();
        let steps = if are_annotated { self.steps } else { Vec::new() };
        for (step, (begin, end)) in steps.into_iter().enumerate() {
            let name = trace.strings.intern(&format!("step{step}"));
            for (begins, event) in [(true, begin), (false, end)] {
                let time_us = 1_000_000 + event * 10;
                trace.annotations.push(Annotation { name, begins, device: DeviceId(0), time_us });
            }
        }
        found("reference-cycle", &trace, None)
    }
}

/// `blocks` per step; everything that waits goes after every `every` steps, in the order that `order` makes.
fn waits(
    steps: usize,
    every: usize,
    blocks: u64,
    order: impl Fn(&mut Vec<(u64, u64)>),
    mut extra: impl FnMut(&mut Rounds, usize),
) -> Rounds {
    let mut rounds = Rounds::new();
    let mut waiting = Vec::new();
    for step in 0..steps {
        rounds.step(|rounds| {
            let scratch = rounds.alloc(1, 64 * MIB);
            waiting.extend((0..blocks).map(|_| rounds.alloc(2, 16 * MIB)));
            rounds.free_at(3, [scratch]);
            extra(rounds, step);
            if step % every == every - 1 {
                order(&mut waiting);
                rounds.free_at(9, waiting.drain(..));
            }
        });
    }
    rounds
}

fn as_made(_: &mut Vec<(u64, u64)>) {}

fn nothing(_: &mut Rounds, _: usize) {}

#[test]
fn blocks_of_many_steps_that_go_at_once_waited_for_the_collector() {
    let found = waits(25, 10, 2, as_made, nothing).found(true);
    let [finding] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((finding.severity, finding.bytes), (Severity::Warning, 320 * MIB));
    assert_eq!((finding.lines[0].line, finding.lines[0].bytes), (2, 320 * MIB));
    let evidence = |name: &str| finding.evidence[name].as_u64().unwrap();
    assert_eq!((evidence("bursts"), evidence("blocks")), (2, 40));
    assert_eq!((evidence("largest_burst_steps"), evidence("waiting_at_end_bytes")), (10, 160 * MIB));
    assert_eq!(finding.evidence["released_at"], "train.py:9 step");
}

/// #46386: whole models, of several lines, go in one burst.
#[test]
fn whole_models_that_go_at_once_waited_too() {
    let mut rounds = Rounds::new();
    let mut models = Vec::new();
    for step in 0..12 {
        rounds.step(|rounds| {
            for line in [11, 12, 13] {
                models.push(rounds.alloc(line, 8 * MIB));
            }
            if step == 7 {
                rounds.free_at(20, models.drain(..));
            }
        });
    }
    let found = rounds.found(true);
    assert_eq!((found.len(), found[0].bytes, found[0].lines.len()), (1, 8 * 3 * 8 * MIB, 3));
}

#[test]
fn without_steps_a_stack_must_be_emptied_twice() {
    assert_eq!(waits(40, 15, 1, as_made, nothing).found(false).len(), 1);
    assert!(waits(25, 15, 1, as_made, nothing).found(false).is_empty());
}

#[test]
fn a_list_that_is_cleared_drops_its_last_element_first() {
    for are_annotated in [true, false] {
        let found = waits(40, 15, 1, |blocks| blocks.reverse(), nothing).found(are_annotated);
        assert!(found.is_empty(), "{found:?}");
    }
}

#[test]
fn an_epoch_that_ends_with_other_work_drops_its_cache() {
    let evaluate = |rounds: &mut Rounds, step: usize| {
        if step % 10 == 9 {
            let logits = rounds.alloc(30, 4 * MIB);
            rounds.free_at(31, [logits]);
        }
    };
    assert!(waits(45, 10, 1, as_made, evaluate).found(true).is_empty());
}

#[test]
fn the_end_of_the_program_is_not_the_collector() {
    assert!(waits(20, 20, 2, as_made, nothing).found(true).is_empty());
}

/// `zero_grad(set_to_none=True)`: one step made them all. An evicting cache: one goes at a time.
#[test]
fn gradients_and_evictions_are_not_the_collectors() {
    let mut rounds = Rounds::new();
    let (mut gradients, mut cache) = (Vec::new(), std::collections::VecDeque::new());
    for _ in 0..30 {
        rounds.step(|rounds| {
            rounds.free_at(5, gradients.drain(..));
            gradients.extend((0..20).map(|_| rounds.alloc(4, 4 * MIB)));
            cache.push_back(rounds.alloc(6, 4 * MIB));
            if cache.len() > 10 {
                rounds.free_at(7, cache.pop_front());
            }
        });
    }
    assert!(rounds.found(true).is_empty());
}

/// Three batches that a loader keeps ahead, and a result that lives into the next step.
#[test]
fn what_is_used_later_is_not_the_collectors() {
    let mut rounds = Rounds::new();
    let mut ahead = std::collections::VecDeque::new();
    for _ in 0..30 {
        rounds.step(|rounds| {
            ahead.push_back(rounds.alloc(4, 32 * MIB));
            let result = rounds.alloc(5, 4 * MIB);
            if ahead.len() > 3 {
                rounds.free_at(6, ahead.pop_front().into_iter().chain([result]));
            }
        });
    }
    assert!(rounds.found(true).is_empty());
}
