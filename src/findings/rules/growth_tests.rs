//! Tests of `growth`: the public cases that are described in words, and near misses.
#![allow(clippy::unwrap_used)]

use crate::findings::scene::samples::found;
use crate::findings::{Finding, Severity};
use crate::model::{Annotation, DeviceId, Trace, TraceBuilder};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const A: u64 = 0x7f00_0000_0000;

/// A program: every block gets an address of its own, steps are annotated.
struct Story {
    builder: TraceBuilder,
    events: i64,
    next: u64,
    steps: Vec<(String, i64, i64)>,
}

impl Story {
    fn new() -> Self {
        Self { builder: TraceBuilder::new(), events: 0, next: A, steps: Vec::new() }
    }

    fn alloc(&mut self, line: u64, bytes: u64) -> (u64, u64) {
        let address = self.next;
        self.next += bytes.max(2 * MIB).next_multiple_of(2 * MIB);
        let builder = std::mem::take(&mut self.builder).at("train.py", line, "step");
        self.builder = builder.segment_alloc(address, self.next - address).alloc(address, bytes);
        self.events += 2;
        (address, bytes)
    }

    fn free(&mut self, (address, bytes): (u64, u64)) {
        self.builder = std::mem::take(&mut self.builder).free(address, bytes);
        self.events += 2;
    }

    /// Runs one annotated step.
    fn step(&mut self, name: &str, body: impl FnOnce(&mut Self)) {
        let now = |story: &Self| 1_000_000 + story.events * 10;
        let begin = now(self);
        body(self);
        let end = now(self) - 10;
        self.steps.push((name.to_owned(), begin, end));
    }

    /// Steps numbered from 0.
    fn steps(&mut self, count: u64, mut body: impl FnMut(&mut Self, u64)) {
        for step in 0..count {
            self.step(&format!("step{step}"), |story| body(story, step));
        }
    }

    fn scratch(&mut self, line: u64, bytes: u64) {
        let block = self.alloc(line, bytes);
        self.free(block);
    }

    fn trace(self) -> Trace {
        let mut trace = self.builder.build();
        for (name, begin, end) in self.steps {
            let name = trace.strings.intern(&name);
            for (begins, time_us) in [(true, begin), (false, end)] {
                trace.annotations.push(Annotation { name, begins, device: DeviceId(0), time_us });
            }
        }
        trace
    }

    fn found(self, total_bytes: Option<u64>) -> Vec<Finding> {
        found("growth", &self.trace(), total_bytes)
    }
}

/// C23: 33 GiB at the start, 2 MiB per step, 200 steps.
#[test]
fn a_slow_leak_over_a_large_model_is_found() {
    let mut story = Story::new();
    story.alloc(1, 33 * GIB);
    story.steps(200, |story, _| {
        story.scratch(2, 200 * MIB);
        story.alloc(3, 2 * MIB);
    });
    let found = story.found(Some(80 * GIB));
    let [finding] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(finding.severity, Severity::Error);
    assert_eq!((finding.lines[0].line, finding.lines[0].bytes), (3, 400 * MIB));
    assert_eq!(finding.evidence["slope_bytes_per_step"], 2 * MIB);
    assert_eq!(finding.evidence["floor_slope_bytes_per_step"], 2 * MIB);
    assert_eq!(finding.evidence["peak_slope_bytes_per_step"], 2 * MIB);
    // The last step's peak is 33 GiB + 199 * 2 MiB + 200 MiB.
    assert_eq!(finding.evidence["exhausted_in_steps"], (47 * 1024 - 598) / 2);
}

/// C18: hooks keep one block per layer per step.
#[test]
fn hooks_that_keep_activations_leak_as_many_blocks_as_layers() {
    let mut story = Story::new();
    let layers: Vec<_> = (0..24).map(|_| story.alloc(1, 32 * MIB)).collect();
    story.steps(50, |story, _| {
        for _ in &layers {
            story.alloc(7, 4 * MIB);
        }
    });
    let found = story.found(None);
    let finding = &found[0];
    assert_eq!(finding.evidence["blocks_per_step"], 24);
    assert_eq!(finding.evidence["slope_bytes_per_step"], 96 * MIB);
    assert_eq!((finding.lines.len(), finding.lines[0].line), (1, 7));
    assert!(finding.title.contains("24 blocks of every step"), "{}", finding.title);
    assert!(!finding.evidence.contains_key("exhausted_in_steps"), "the device's size is not known");
}

#[test]
fn one_block_per_step_is_found_within_ten_steps_whatever_its_size() {
    for (bytes, severity) in
        [(512, Severity::Info), (64 * KIB, Severity::Info), (24 * MIB, Severity::Warning)]
    {
        let mut story = Story::new();
        story.alloc(1, 512 * MIB);
        story.steps(10, |story, step| {
            story.scratch(2, (step * 7 % 5 + 1) * MIB);
            story.alloc(3, bytes);
        });
        let found = story.found(None);
        assert_eq!(found.len(), 1, "{bytes}");
        assert_eq!((found[0].severity, found[0].lines[0].line), (severity, 3), "{bytes}");
    }
}

/// The job dies in the step whose block no longer fits: that step has left nothing behind yet.
#[test]
fn a_leak_that_ends_in_an_oom_is_found() {
    let mut story = Story::new();
    story.steps(12, |story, step| {
        story.scratch(2, 64 * MIB);
        story.scratch(4, 64 * MIB);
        if step < 11 {
            story.alloc(3, 32 * MIB);
        } else {
            story.builder = std::mem::take(&mut story.builder).oom(32 * MIB, 0);
            story.events += 1;
        }
    });
    let found = story.found(Some(1 << 30));
    assert_eq!((found[0].lines[0].line, &found[0].evidence["steps"]), (3, &11.into()));
}

/// The batch grows step by step, and its input is carried into the next: no gathering.
#[test]
fn a_batch_that_is_ramped_up_is_no_growth() {
    let mut story = Story::new();
    let mut input = None;
    story.steps(24, |story, step| {
        let size = (step + 2) * 2 * MIB;
        let next = story.alloc(2, size);
        input.replace(next).into_iter().for_each(|old| story.free(old));
        let hidden = story.alloc(3, size);
        story.scratch(4, size);
        story.free(hidden);
    });
    assert!(story.found(None).is_empty());
}

/// A profiler names twelve steps of forty. What stops with them has stopped; what goes on is a leak.
#[test]
fn a_loop_that_goes_on_behind_the_named_steps_is_looked_at_too() {
    let run = |stop: u64| {
        let mut story = Story::new();
        story.steps(40, |story, step| {
            story.scratch(2, 64 * MIB);
            if step < stop {
                story.alloc(3, 8 * MIB);
            }
        });
        story.steps.truncate(12);
        story.found(None)
    };
    assert!(run(12).is_empty());
    assert_eq!(run(40)[0].lines[0].line, 3);
}

/// C19: autocast's copies of the weights, made once, gone when the context ends.
#[test]
fn copies_made_once_are_no_growth() {
    let mut story = Story::new();
    let mut copies = Vec::new();
    story.steps(100, |story, step| {
        if step == 0 {
            copies = (0..24).map(|_| story.alloc(5, 32 * MIB)).collect();
        }
        story.scratch(2, 64 * MIB);
    });
    for copy in copies {
        story.free(copy);
    }
    assert!(story.found(None).is_empty());
}

#[test]
fn a_warm_up_that_stops_is_no_growth() {
    for stop in [3, 10, 20, 28] {
        let mut story = Story::new();
        story.steps(30, |story, step| {
            story.scratch(2, 64 * MIB);
            if step < stop {
                story.alloc(3, 8 * MIB);
            }
        });
        assert!(story.found(None).is_empty(), "until {stop}");
    }
}

#[test]
fn a_cache_that_evicts_is_no_growth() {
    for bound in [1, 4, 15, 28] {
        let mut story = Story::new();
        let mut cache = std::collections::VecDeque::new();
        story.steps(30, |story, _| {
            cache.push_back(story.alloc(3, 8 * MIB));
            if cache.len() > bound {
                story.free(cache.pop_front().unwrap());
            }
        });
        assert!(story.found(None).is_empty(), "{bound} entries");
    }
}

/// One layer per step is freed and stored anew in another type: the floor does not rise.
#[test]
fn blocks_that_replace_others_are_no_growth() {
    let mut story = Story::new();
    let mut layers: Vec<_> = (0..40).map(|_| story.alloc(1, 8 * MIB)).collect();
    story.steps(40, |story, _| {
        story.alloc(2, 6 * MIB);
        story.free(layers.pop().unwrap());
    });
    assert!(story.found(None).is_empty());
}

/// C08: batches sorted by length. Each step's input is larger than the last, and is still there at its end.
#[test]
fn ascending_batches_are_no_growth() {
    let mut story = Story::new();
    story.alloc(1, 512 * MIB);
    let mut input = None;
    story.steps(20, |story, step| {
        let next = story.alloc(2, (step + 1) * 2 * MIB);
        input.replace(next).into_iter().for_each(|old| story.free(old));
        story.scratch(3, (step + 1) * 64 * MIB);
    });
    assert!(story.found(None).is_empty());
}

/// C17 in words: what is gathered is copied into a larger block in every step.
#[test]
fn gathering_by_concatenation_grows_by_the_part_of_each_step() {
    let mut story = Story::new();
    story.alloc(1, 1024 * MIB);
    let mut all = None;
    for step in 1..=16 {
        story.step(&format!("eval {step}"), |story| {
            let part = story.alloc(2, 64 * MIB);
            let next = story.alloc(3, step * 64 * MIB);
            all.replace(next).into_iter().for_each(|old| story.free(old));
            story.free(part);
        });
    }
    let found = story.found(None);
    assert_eq!((found[0].severity, found[0].lines[0].line), (Severity::Warning, 3));
    assert_eq!(found[0].evidence["slope_bytes_per_step"], 64 * MIB);
    assert_eq!(found[0].bytes, 1024 * MIB);
}

#[test]
fn what_is_given_back_after_the_last_step_is_no_error() {
    let mut story = Story::new();
    let mut kept = Vec::new();
    story.steps(40, |story, _| {
        story.scratch(2, 8 * MIB);
        kept.push(story.alloc(3, 8 * MIB));
    });
    for block in kept {
        story.free(block);
    }
    let mut ended = Story { builder: story.builder.clone(), steps: story.steps.clone(), ..Story::new() };
    ended.events = story.events;
    story.alloc(5, 8 * MIB);
    let found = story.found(None);
    assert_eq!(found[0].severity, Severity::Warning);
    assert_eq!(found[0].evidence["released_after_bytes"], 320 * MIB);
    assert!(found[0].title.ends_with("given back after the last step"), "{}", found[0].title);
    // The end of the program gives everything back.
    let found = ended.found(None);
    assert_eq!((found[0].severity, &found[0].evidence["released_after_bytes"]), (Severity::Error, &0.into()));
}

/// Nothing names the steps and no two passes are alike, but each begins with a call of `backward()`.
#[test]
fn backward_passes_tell_steps_where_nothing_else_does() {
    let torch = "/opt/venv/lib/python3.12/site-packages/torch/autograd/__init__.py";
    let mut story = Story::new();
    for step in 0..16 {
        story.alloc(3, 8 * MIB);
        let address = A + (1 << 40) + step * 2 * MIB;
        let builder = std::mem::take(&mut story.builder)
            .stack(&[(torch, 374, "backward"), ("train.py", 9, "step")])
            .segment_alloc(address, 2 * MIB)
            .alloc(address, 512);
        story.builder = builder.free(address, 512);
        for _ in 0..step {
            story.scratch(7, 4 * MIB);
        }
    }
    let found = story.found(None);
    let [finding] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((finding.severity, finding.lines[0].line), (Severity::Warning, 3));
    assert_eq!(finding.evidence["step_source"], "backward");
    assert_eq!(finding.evidence["slope_bytes_per_step"], 8 * MIB);
}

/// The evaluation's steps leak, the training's do not; training goes on in between.
#[test]
fn a_leak_in_steps_of_one_kind_is_found() {
    let mut story = Story::new();
    for epoch in 0..3u64 {
        for step in 0..20 {
            story.step(&format!("train {}", epoch * 20 + step), |story| story.scratch(2, 64 * MIB));
        }
        for step in 0..10 {
            story.step(&format!("eval {}", epoch * 10 + step), |story| {
                story.scratch(2, 32 * MIB);
                story.alloc(9, 4 * MIB);
            });
        }
    }
    let found = story.found(None);
    assert_eq!((found.len(), found[0].lines[0].line), (1, 9));
    assert_eq!((&found[0].evidence["steps"], found[0].bytes), (&30.into(), 120 * MIB));
}

/// One line, called from a different place each time: no stack leaks twice.
#[test]
fn a_leak_whose_stacks_all_differ_is_found_by_its_line() {
    let mut story = Story::new();
    story.steps(20, |story, step| {
        let block = story.alloc(2, 8 * MIB);
        story.free(block);
        let builder = std::mem::take(&mut story.builder);
        story.builder = builder
            .stack(&[("cache.py", 5, "put"), ("train.py", 100 + step, "step")])
            .segment_alloc(A + GIB + step * 2 * MIB, 2 * MIB)
            .alloc(A + GIB + step * 2 * MIB, 2 * MIB);
        story.events += 2;
    });
    let found = story.found(None);
    assert_eq!((found.len(), found[0].lines[0].line, found[0].bytes), (1, 5, 40 * MIB));
}

#[test]
fn without_steps_nothing_is_said() {
    let mut story = Story::new();
    for _ in 0..50 {
        story.scratch(2, 8 * MIB);
        story.alloc(3, 8 * MIB);
    }
    let mut trace = story.trace();
    trace.devices[0].events.times_us.fill(crate::model::NO_TIME);
    assert!(found("growth", &trace, None).iter().all(|finding| finding.severity != Severity::Error));
}

#[test]
fn the_finding_states_its_figures() {
    let mut story = Story::new();
    story.alloc(1, 512 * MIB);
    story.steps(60, |story, step| {
        story.scratch(2, 16 * MIB);
        if step % 2 == 0 {
            story.alloc(3, 16 * MIB);
        }
    });
    let found = story.found(Some(8 * GIB));
    let finding = &found[0];
    assert_eq!(finding.severity, Severity::Error);
    assert_eq!(finding.evidence["blocks_per_step"], 0.5);
    assert_eq!(finding.evidence["kept_bytes"], 480 * MIB);
    assert_eq!(finding.evidence["live_end_bytes"], 992 * MIB);
    let slope = finding.evidence["slope_bytes_per_step"].as_u64().unwrap();
    assert!(slope.abs_diff(8 * MIB) < MIB / 8, "{slope}");
    assert!(finding.evidence["p_value"].as_f64().unwrap() < 1e-6);
    assert!(finding.title.contains("train.py:3 step keeps 1 block of every 2nd step"), "{}", finding.title);
}
