//! Phases of small traces.
#![allow(clippy::unwrap_used)]

use super::super::{GroupBy, Grouping};
use super::samples::{CALL, ENGINE, MODULE, OPENS, Program, STEPS, USER};
use super::*;
use crate::model::{Annotation, DeviceId, Mark, MarkKind, TraceBuilder};
use crate::rebuild::rebuild;

/// Inputs, a forward pass of four activations, its backward pass, the optimizer.
fn train(program: Program) -> Program {
    let mut saved = Vec::new();
    let program = program.at(&[USER]).brief(1).at(&CALL).take(&[2; 4], &mut saved).brief(1);
    let program = program.at(&OPENS).brief(1).at(&ENGINE).brief(2).drop(&mut saved);
    program.at(&STEPS).brief(2)
}

/// Two forward passes that keep nothing.
fn evaluate(program: Program) -> Program {
    program.at(&[("T/nn/modules/module.py", "_call_impl"), ("train.py", "check")]).brief(10)
}

fn found(trace: &Trace) -> Phases {
    let device = &trace.devices[0];
    let history = rebuild(trace, device);
    let grouping = Grouping::build(trace, device, &history, GroupBy::Line);
    let phases = phases(trace, device, &history, &grouping);
    let mut end = 0;
    for run in &phases.runs {
        assert_eq!(run.events.start, end, "runs follow each other");
        assert!(!run.events.is_empty());
        end = run.events.end;
    }
    assert_eq!(end, device.events.len() as u64, "every event is in a run");
    phases
}

fn names(phases: &Phases) -> Vec<&'static str> {
    phases.runs.iter().map(|run| run.phase.name()).collect()
}

#[test]
fn a_training_loop_is_forward_backward_optimizer() {
    let program = Program::new().at(&MODULE).keep(&[2; 3]);
    let trace = train(train(program)).builder.build();
    let phases = found(&trace);
    let step = ["forward", "backward", "optimizer"];
    assert_eq!(names(&phases), [["unknown", "loading"].as_slice(), &step, &step].concat());
    assert_eq!(phases.of_event(1), Phase::Loading);
    assert_eq!(phases.of_event(4), Phase::Forward, "inputs belong to the forward pass");
    assert_eq!(phases.at(Moment(0)), Phase::Unknown);
    assert_eq!(phases.of_event(1 << 40), Phase::Unknown);
    assert_eq!(phases.calls.len(), 2);
    assert!(phases.has(Phase::Optimizer) && !phases.has(Phase::Evaluation));
}

#[test]
fn loading_without_frames_of_its_own_is_what_stays_from_the_first() {
    let program = Program::new().at(&[("train.py", "weights")]).keep(&[2; 3]);
    let phases = found(&train(train(program)).builder.build());
    assert_eq!(names(&phases)[..2], ["loading", "forward"]);
    assert_eq!(phases.runs[0].events, 0..4);
}

#[test]
fn evaluation_between_and_after_training_is_told() {
    let mut program = train(train(train(Program::new())));
    program = train(evaluate(program));
    program = train(train(program));
    let phases = found(&evaluate(program).builder.build());
    let step = ["forward", "backward", "optimizer"];
    let first = [step, step, step].concat();
    assert_eq!(
        names(&phases),
        [first, vec!["evaluation"], [step, step, step].concat(), vec!["evaluation"]].concat()
    );
}

#[test]
fn evaluation_on_the_lines_of_training_is_told_by_its_length() {
    let program = train(train(train(Program::new()))).at(&CALL).brief(12);
    assert_eq!(names(&found(&program.builder.build())).last(), Some(&"evaluation"));
    let program = train(train(train(Program::new()))).at(&CALL).brief(3);
    assert_eq!(names(&found(&program.builder.build())).last(), Some(&"forward"), "the next step was cut off");
}

#[test]
fn training_without_module_frames_is_told_by_its_backward_passes() {
    let mut program = Program::new().at(&[("model.py", "init")]).keep(&[2; 1]);
    for (steps, blocks) in [(5, 10), (1, 50)] {
        for _ in 0..steps {
            let mut up = Vec::new();
            program = program.at(&[("model.py", "block")]).take(&vec![2; blocks], &mut up);
            program =
                if blocks == 10 { program.at(&[("engine.py", "backward")]) } else { program }.drop(&mut up);
        }
    }
    let phases = found(&program.builder.build());
    let steps = ["forward", "backward"].repeat(5);
    assert_eq!(names(&phases), [vec!["loading"], steps, vec!["evaluation"]].concat());
}

#[test]
fn a_failed_request_ends_a_forward_pass_and_its_repetition_is_no_evaluation() {
    let mut failed = Vec::new();
    let mut program = train(train(train(Program::new()))).at(&CALL).take(&[2; 3], &mut failed);
    program.builder = program.builder.oom(1 << 20, 0);
    program = train(program.at(&[USER]).drop(&mut failed)).at(&CALL).take(&[2; 3], &mut failed);
    program.builder = program.builder.oom(1 << 20, 0);
    let phases = found(&program.builder.build());
    let ends: Vec<_> = phases.runs.iter().filter(|run| run.ends_in_oom).map(|run| run.phase).collect();
    assert_eq!(ends, [Phase::Forward, Phase::Forward]);
    assert!(!phases.has(Phase::Evaluation));
}

#[test]
fn a_recording_may_begin_within_a_backward_pass() {
    let program = Program::new().at(&ENGINE).brief(3).at(&STEPS).brief(1);
    assert_eq!(names(&found(&program.builder.build())), ["unknown", "optimizer"]);
    let program = train(Program::new().at(&ENGINE).brief(3).at(&STEPS).brief(1));
    // The segment before it has no frames either, and goes with them.
    assert_eq!(names(&found(&program.builder.build()))[..2], ["backward", "optimizer"]);
}

#[test]
fn networks_that_take_turns_are_not_evaluated() {
    let mut program = Program::new();
    for _ in 0..6 {
        // The first network's graph is used twice: the second backward pass frees what it made.
        let (mut first, mut second) = (Vec::new(), Vec::new());
        program = program.at(&CALL).take(&[2; 8], &mut first).take(&[2; 3], &mut second);
        program = program.at(&OPENS).brief(1).at(&ENGINE).drop(&mut second).at(&STEPS).brief(1);
        program = program.at(&CALL).take(&[2; 3], &mut second);
        program = program.at(&OPENS).brief(1).at(&ENGINE).drop(&mut second).drop(&mut first);
        program = program.at(&STEPS).brief(1);
    }
    assert!(!found(&program.builder.build()).has(Phase::Evaluation));
}

#[test]
fn a_pass_that_no_event_opens_is_told_by_blocks_without_frames() {
    let mut saved = Vec::new();
    let program = Program::new().at(&CALL).take(&[2; 3], &mut saved).at(&ENGINE).brief(2).drop(&mut saved);
    let trace = program.at(&STEPS).brief(2).builder.build();
    assert_eq!(names(&found(&trace)), ["forward", "backward", "optimizer"]);
}

#[test]
fn a_closure_is_forward_within_the_optimizers_range() {
    let program = Program::new().at(&STEPS).brief(1);
    let mut trace =
        program.at(&[("model.py", "forward"), ("T/optim/lbfgs.py", "step")]).brief(2).builder.build();
    let name = trace.strings.intern("Optimizer.step#LBFGS.step");
    trace.annotations.push(Annotation { name, begins: true, device: DeviceId(0), time_us: 1_000_005 });
    assert_eq!(names(&found(&trace)), ["unknown", "optimizer", "forward"]);
}

#[test]
fn gradients_clipped_by_the_users_own_code_belong_to_the_step() {
    let mut saved = Vec::new();
    let program =
        Program::new().at(&CALL).take(&[2; 2], &mut saved).at(&OPENS).brief(1).at(&ENGINE).drop(&mut saved);
    let program = program.at(&[("train.py", "clip")]).brief(2).at(&STEPS).brief(2);
    assert_eq!(names(&found(&program.builder.build())), ["forward", "backward", "optimizer"]);
}

#[test]
fn inference_is_forward_and_what_lies_between_is_unknown() {
    let program = (0..3).fold(Program::new(), |program, _| program.at(&CALL).brief(2).at(&[USER]).brief(1));
    let phases = found(&program.builder.build());
    assert_eq!(names(&phases), ["unknown", "forward", "unknown", "forward", "unknown", "forward", "unknown"]);
    let nothing = found(&Program::new().at(&[USER]).brief(9).builder.build());
    assert_eq!(names(&nothing), ["unknown"]);
    assert_eq!(found(&TraceBuilder::new().segment_alloc(0, 512).build()).runs.len(), 1);
}

#[test]
fn ranges_and_marks_name_phases_where_frames_do_not() {
    let mut trace = Program::new().at(&[USER]).brief(10).builder.build();
    let mut range = |name: &str, from: i64, to: i64| {
        let name = trace.strings.intern(name);
        for (begins, time_us) in [(true, 1_000_000 + from), (false, 1_000_000 + to)] {
            trace.annotations.push(Annotation { name, begins, device: DeviceId(0), time_us });
        }
    };
    range("forward", 5, 75);
    range("backward", 75, 145);
    range("validate", 195, 245);
    // What leads up to the forward pass belongs to it; so does what looks like the next one, cut off.
    assert_eq!(names(&found(&trace)), ["forward", "backward", "unknown", "evaluation", "forward"]);
    for (name, from) in [("optimizer", 5), ("forward", 200)] {
        let time_us = 1_000_000 + from;
        trace.marks.push(Mark { kind: MarkKind::Phase, name: name.to_owned(), time_us, begins: Some(true) });
    }
    assert_eq!(names(&found(&trace)), ["unknown", "optimizer", "forward"]);
}

#[test]
fn frames_of_the_optimizer_count_for_more_than_a_range_around_them() {
    let mut trace = Program::new().at(&STEPS).brief(2).builder.build();
    let name = trace.strings.intern("forward");
    trace.annotations.push(Annotation { name, begins: true, device: DeviceId(0), time_us: 1 });
    assert_eq!(names(&found(&trace)), ["forward", "optimizer"]);
}
