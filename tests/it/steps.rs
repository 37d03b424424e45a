//! Steps of real recordings: what is found when nothing names them, against what the program did.

use memlab::model::{NO_TIME, Trace};
use memlab::rebuild::rebuild;
use memlab::tables::{StepSource, StepTable, steps};

use crate::inputs::{read, recording, recordings, testdata};

/// The recording without what names its steps.
fn unnamed(folder: &str, name: &str) -> Trace {
    let mut trace = read(&recording(folder, name));
    trace.annotations.clear();
    trace.marks.clear();
    trace
}

fn table(trace: &Trace) -> StepTable {
    let device = &trace.devices[0];
    steps(trace, device, &rebuild(trace, device))
}

fn count(folder: &str, name: &str) -> usize {
    let table = table(&unnamed(folder, name));
    assert_eq!(table.source == StepSource::None, table.rows.is_empty());
    assert!(table.rows.is_empty() || table.source == StepSource::Detected, "{name}");
    assert!(table.rows.windows(2).all(|pair| pair[0].end <= pair[1].begin), "{name}: steps overlap");
    table.rows.len()
}

#[test]
fn steps_of_training_runs_are_counted() {
    let expected = [
        ("gpt", 4),
        ("gpt_cpp", 4),
        ("annotated", 3),
        ("cnn", 3),
        ("llama", 3),
        ("leak_loss", 60),
        ("leak_cache", 60),
        ("noleak", 60),
        ("big", 600),
        ("varlen.default", 40),
        ("varlen.expandable", 40),
        ("vision.default", 36),
        ("vision.split64_cap85", 36),
        ("routed.default", 150),
        // The 67th batch did not fit.
        ("routed.expandable_cap90", 67),
        ("streams", 30),
        // The fourth batch did not fit.
        ("oom", 4),
    ];
    for (name, steps) in expected {
        assert_eq!(count("torch", name), steps, "{name}");
    }
}

#[test]
fn steps_of_faulty_runs_are_counted() {
    let expected = [
        ("cache_flush_every_step", 12),
        ("lazy_optimizer", 5),
        ("logits_spike", 5),
        // One step before the checkpoint was loaded, five after it.
        ("resume_duplicate", 5),
        ("eval_concat", 24),
        ("capacity_oom", 4),
    ];
    for (name, steps) in expected {
        assert_eq!(count("gpu", name), steps, "{name}");
    }
}

#[test]
fn what_is_not_periodic_has_no_steps() {
    // Requests that come and go; a ring that holds little more than one step; one allocation in turn.
    for name in ["kvcache.default", "ring", "leak_cycle"] {
        assert_eq!(count("torch", name), 0, "{name}");
    }
    // Loops of one or two allocations, and pools of graphs that stay.
    for name in ["fragmentation_oom", "one_shot_stream", "workspace_only", "graph_pools", "kept_by_exception"]
    {
        assert_eq!(count("gpu", name), 0, "{name}");
    }
    // Single passes: their layers are no steps.
    for path in recordings("public") {
        let name = path.file_name().unwrap().to_string_lossy();
        let name = name.split('.').next().unwrap();
        let steps = if name == "small" { 17 } else { 0 };
        assert_eq!(count("public", name), steps, "{name}");
    }
}

#[test]
fn a_step_begins_where_the_loop_does() {
    for (folder, name, lines) in [
        ("torch", "gpt", [138].as_slice()),
        ("torch", "noleak", &[310]),
        ("torch", "leak_loss", &[252]),
        ("torch", "cnn", &[95]),
        ("gpu", "lazy_optimizer", &[45, 184]),
        ("gpu", "cache_flush_every_step", &[219]),
    ] {
        let trace = unnamed(folder, name);
        let begins = table(&trace).rows;
        for step in &begins {
            let stack = trace.devices[0].events.stacks[step.begin.0 as usize];
            let frames = trace.stacks.get(stack).iter().map(|&frame| trace.frames.get(frame).line);
            let found: Vec<u64> = frames.collect();
            assert!(lines.iter().any(|line| found.contains(line)), "{name}: {found:?}");
        }
    }
}

#[test]
fn times_are_not_needed() {
    let mut trace = unnamed("torch", "noleak");
    let with_times = table(&trace);
    trace.devices[0].events.times_us.fill(NO_TIME);
    assert_eq!(table(&trace), with_times);
}

#[test]
fn sizes_tell_the_steps_where_stacks_are_missing() {
    let mut trace = unnamed("torch", "leak_loss");
    trace.devices[0].events.stacks.fill(memlab::model::StackId::NONE);
    // The last layer's gradient tells the rounds; the layer itself, of the same size, begins one more.
    assert_eq!(table(&trace).rows.len(), 61);
}

#[test]
fn names_come_before_detection() {
    let named = |path: &std::path::Path| {
        let table = table(&read(path));
        (table.source, table.rows.len())
    };
    assert_eq!(named(&recording("torch", "noleak")), (StepSource::Annotations, 60));
    assert_eq!(named(&testdata("emitter/leak_loss.msgpack")).0, StepSource::Marks);
}

#[test]
fn growth_at_detected_boundaries_is_the_leak() {
    let table = table(&unnamed("torch", "leak_loss"));
    let steady = table.rows.iter().filter(|step| step.growth_bytes == 4_729_344).count();
    assert!(steady >= 50, "the kept graph is the same in nearly every step");
    let table = self::table(&unnamed("torch", "noleak"));
    let settled: Vec<i64> = table.rows[1..].iter().map(|step| step.growth_bytes).collect();
    assert!(settled.iter().sum::<i64>().abs() < 1 << 20, "{settled:?}");
}
