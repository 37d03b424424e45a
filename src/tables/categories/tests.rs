//! Categories of small programs.
#![allow(clippy::unwrap_used)]

use super::super::phases::samples::{Block, CALL, ENGINE, MODULE, OPENS, Program, STEPS, USER};
use super::super::{GroupBy, Grouping, names, phases};
use super::*;
use crate::model::{self, BlockState, NamedTensor, Segment};
use crate::rebuild::rebuild;

struct Found {
    history: History,
    categories: Categories,
}

fn found(trace: &Trace) -> Found {
    let device = &trace.devices[0];
    let history = rebuild(trace, device);
    let grouping = Grouping::build(trace, device, &history, GroupBy::Line);
    let phases = phases(trace, device, &history, &grouping);
    let names = names(trace, device, &history);
    let categories = categories(trace, device, &history, &phases, names.as_ref());
    for moment in [Moment(0), history.peaks.allocated.moment, Moment(history.events)] {
        let usage = history.usage_at(moment).allocated_bytes;
        assert_eq!(categories.at(&history, moment).total_bytes(), usage, "at {moment:?}");
    }
    Found { history, categories }
}

impl Found {
    /// Live KiB by category after the last event, without those that hold nothing.
    fn end(&self) -> Vec<(&'static str, u64)> {
        self.at(Moment(self.history.events))
    }

    fn at(&self, moment: Moment) -> Vec<(&'static str, u64)> {
        let sums = self.categories.at(&self.history, moment);
        let kib = sums.iter().map(|(category, sum)| (category.name(), sum.bytes >> 10));
        kib.filter(|&(_, kib)| kib > 0).collect()
    }

    fn at_oom(&self) -> Vec<(&'static str, u64)> {
        self.at(Moment(self.history.ooms.last().unwrap().event))
    }

    /// KiB of `category` handed out in all.
    fn ever(&self, category: Category) -> u64 {
        let rows = &self.history.allocations;
        let of = (0..rows.len()).filter(|&row| self.categories.of(row) == category);
        of.map(|row| rows.block_bytes[row] >> 10).sum()
    }
}

/// Parameters of 100 and 40 KiB.
const MODEL: [u64; 2] = [100, 40];

/// A loop that trains `MODEL`, step by step.
struct Training {
    program: Program,
    gradients: Vec<Block>,
    input: Vec<Block>,
}

impl Training {
    fn new() -> Self {
        let program = Program::new().at(&MODULE).keep(&MODEL);
        Self { program, gradients: Vec::new(), input: Vec::new() }
    }

    /// Input of 8 KiB (the last one is dropped once the new one stands), activations of 30 and 20 KiB with a
    /// temporary of 2 KiB.
    fn forward(mut self, saved: &mut Vec<Block>) -> Self {
        let mut old = std::mem::take(&mut self.input);
        let program = self.program.at(&[USER]).take(&[8], &mut self.input).drop(&mut old);
        self.program = program.at(&CALL).take(&[30], saved).brief(1).take(&[20], saved);
        self
    }

    /// Gradients take the place of the activations; 64 KiB are needed on the way.
    fn backward(mut self, saved: &mut Vec<Block>) -> Self {
        let mut on_the_way = Vec::new();
        let program = self.program.at(&OPENS).brief(1).at(&ENGINE).take(&[64], &mut on_the_way);
        self.program = program.take(&MODEL, &mut self.gradients).drop(&mut on_the_way).drop(saved);
        self
    }

    /// `state` is made by the step.
    fn optimize(mut self, state: &[u64]) -> Self {
        self.program = self.program.at(&STEPS).keep(state).brief(2);
        self
    }

    fn zero_grad(mut self) -> Self {
        let zero = [("T/optim/optimizer.py", "zero_grad"), USER];
        self.program = self.program.at(&zero).drop(&mut self.gradients);
        self
    }

    fn step(self, state: &[u64]) -> Self {
        let mut saved = Vec::new();
        self.zero_grad().forward(&mut saved).backward(&mut saved).optimize(state)
    }

    fn trained() -> Self {
        Self::new().step(&[100, 100, 40, 40]).step(&[]).step(&[])
    }

    fn found(self) -> Found {
        found(&self.program.builder.build())
    }
}

const TRAINED: [(&str, u64); 4] =
    [("parameter", 140), ("gradient", 140), ("optimizer_state", 280), ("input", 8)];

#[test]
fn a_training_loop_is_told_from_phases_and_lives() {
    let found = Training::trained().found();
    assert_eq!(found.end(), TRAINED);
    assert_eq!(found.ever(Category::Activation), 3 * 50);
    assert_eq!(found.ever(Category::Input), 3 * 8);
    assert_eq!(found.ever(Category::Temporary), 3 * (2 + 2 + 64 + 4));
    assert_eq!(found.ever(Category::Gradient), 3 * 140);
    assert_eq!((found.categories.source(), found.ever(Category::Unknown)), ("derived", 0));
    assert_eq!(found.categories.of(1 << 40), Category::Unknown);
}

#[test]
fn gradients_that_are_zeroed_in_place_stay_gradients() {
    let mut saved = Vec::new();
    let mut training = Training::new().step(&[]);
    for _ in 0..3 {
        training = training.forward(&mut saved);
        training.program = training.program.at(&OPENS).brief(1).at(&ENGINE).brief(3).drop(&mut saved);
        training = training.optimize(&[]);
    }
    assert_eq!(training.found().end(), [("parameter", 140), ("gradient", 140), ("input", 8)]);
}

#[test]
fn parameters_without_frames_of_a_module_are_told_by_the_size_of_their_gradients() {
    let program = Program::new().at(&[("mine.py", "weights")]).keep(&[500, 100, 40]);
    let training = Training { program, gradients: Vec::new(), input: Vec::new() };
    let expected =
        [("parameter", 140), ("gradient", 140), ("optimizer_state", 140), ("input", 8), ("unknown", 500)];
    assert_eq!(training.step(&MODEL).step(&[]).step(&[]).found().end(), expected);
}

#[test]
fn state_that_is_loaded_is_state_and_tells_parameters() {
    let load = [("optimizer.py", "load_state_dict"), USER];
    let program =
        Program::new().at(&[("model.py", "init")]).keep(&[100, 40]).at(&load).keep(&[100, 100, 40, 40]);
    let found = found(&program.at(&[USER]).brief(3).builder.build());
    assert_eq!(found.end(), [("parameter", 140), ("optimizer_state", 280)]);
}

#[test]
fn state_without_a_visible_backward_pass_tells_parameters_too() {
    let state = [("adam.py", "_init_group"), USER];
    let program = Program::new().at(&[("model.py", "init")]).keep(&MODEL).at(&[USER]).brief(3);
    let program = program.at(&state).keep(&[100, 100, 40, 40]).at(&[USER]).brief(3);
    assert_eq!(found(&program.builder.build()).end(), [("parameter", 140), ("optimizer_state", 280)]);
}

#[test]
fn a_step_that_replaces_its_state_keeps_state() {
    let (mut old, mut new) = (Vec::new(), Vec::new());
    let mut training = Training::new();
    for _ in 0..4 {
        let mut saved = Vec::new();
        training = training.zero_grad().forward(&mut saved).backward(&mut saved);
        training.program = training.program.at(&STEPS).take(&MODEL, &mut new).drop(&mut old);
        std::mem::swap(&mut old, &mut new);
    }
    let found = training.found();
    assert_eq!(found.ever(Category::OptimizerState), 4 * 140);
    assert_eq!(found.end()[2], ("optimizer_state", 140));
}

#[test]
fn a_forward_pass_that_fails_holds_activations_and_its_input() {
    let mut saved = Vec::new();
    let mut training = Training::trained().zero_grad().forward(&mut saved);
    training.program.builder = training.program.builder.oom(1 << 30, 0);
    let expected = [("parameter", 140), ("optimizer_state", 280), ("activation", 50), ("input", 8)];
    assert_eq!(training.found().at_oom(), expected);
}

#[test]
fn a_backward_pass_that_fails_holds_gradients_and_what_it_needs_on_the_way() {
    let (mut saved, mut held) = (Vec::new(), Vec::new());
    let mut training = Training::trained().zero_grad().forward(&mut saved);
    training.program = training.program.at(&OPENS).brief(1).at(&ENGINE).take(&[64, 40, 300], &mut held);
    training.program.builder = training.program.builder.oom(1 << 30, 0);
    training.program = training.program.at(&[USER]).drop(&mut held).drop(&mut saved);
    let found = training.found();
    assert!(found.at_oom().contains(&("temporary", 364)), "{:?}", found.at_oom());
    assert!(found.at_oom().contains(&("gradient", 40)));
    assert!(found.at_oom().contains(&("activation", 50)), "{:?}", found.at_oom());
}

#[test]
fn a_first_step_that_fails_tells_state_by_its_frames() {
    let mut saved = Vec::new();
    let state = [("T/optim/adam.py", "_init_group"), ("T/optim/optimizer.py", "wrapper"), USER];
    let mut training = Training::new().forward(&mut saved).backward(&mut saved);
    training.program = training.program.at(&state).keep(&[100, 100]).at(&STEPS).keep(&[100]);
    training.program.builder = training.program.builder.oom(1 << 30, 0);
    let expected =
        [("parameter", 140), ("gradient", 140), ("optimizer_state", 200), ("input", 8), ("temporary", 100)];
    assert_eq!(training.found().at_oom(), expected);
}

#[test]
fn activations_kept_step_after_step_are_activations_and_one_is_not() {
    let mut training = Training::trained();
    for step in 0..6 {
        let mut saved = Vec::new();
        training = training.zero_grad().forward(&mut saved);
        let stack = [("T/nn/functional.py", "relu"), USER];
        training.program = training.program.at(&stack).keep(&[7]);
        let table = [("T/nn/functional.py", "table"), USER];
        training.program = training.program.at(&table).keep(if step == 0 { &[11] } else { &[] });
        training = training.backward(&mut saved).optimize(&[]);
    }
    let end = training.found().end();
    assert!(end.contains(&("activation", 6 * 7)) && end.contains(&("unknown", 11)), "{end:?}");
}

#[test]
fn what_a_loop_collects_between_steps_is_no_input() {
    let mut training = Training::trained();
    for _ in 0..6 {
        training.program = training.program.at(&[("train.py", "collect")]).keep(&[7]);
        training = training.step(&[]);
    }
    let end = training.found().end();
    assert!(end.contains(&("unknown", 6 * 7)) && end.contains(&("input", 8)), "{end:?}");
}

#[test]
fn a_cache_that_inference_grows_is_unknown() {
    let mut program = Program::new().at(&MODULE).keep(&MODEL);
    let mut cache: Vec<Block> = Vec::new();
    for token in 1..20 {
        let (mut new, mut hidden) = (Vec::new(), Vec::new());
        program =
            program.at(&CALL).brief(6).take(&[16 * token], &mut new).drop(&mut cache).take(&[2], &mut hidden);
        program = program.at(&[USER]).drop(&mut hidden);
        cache = new;
    }
    let found = found(&program.builder.build());
    assert_eq!(found.end(), [("parameter", 140), ("unknown", 16 * 19)]);
    for category in [Category::Gradient, Category::OptimizerState, Category::Activation, Category::Input] {
        assert_eq!(found.ever(category), 0, "{category:?}");
    }
}

#[test]
fn a_forward_pass_that_keeps_a_graph_holds_activations_even_without_a_backward_pass() {
    let mut saved = Vec::new();
    let program = Program::new().at(&MODULE).keep(&MODEL).at(&CALL).brief(3).take(&[30; 4], &mut saved);
    let program = program.at(&[USER]).brief(1).drop(&mut saved);
    assert_eq!(found(&program.builder.build()).ever(Category::Activation), 120);
}

/// 32 MiB, as cuBLAS asks on Hopper.
const WORKSPACE: u64 = 32 << 10;

#[test]
fn a_workspace_is_told_by_size_if_it_comes_once() {
    let blas = |program: Program, blocks: &[u64]| {
        program.at(&[("T/nn/modules/linear.py", "forward"), USER]).keep(blocks).brief(4)
    };
    let mut training = Training::trained();
    training.program = blas(training.program, &[WORKSPACE]);
    assert!(training.step(&[]).found().end().contains(&("workspace", WORKSPACE)));
    let mut training = Training::trained();
    training.program = blas(training.program, &[WORKSPACE, WORKSPACE]);
    assert!(!training.step(&[]).found().end().iter().any(|row| row.0 == "workspace"));
}

#[test]
fn a_workspace_of_the_engine_is_no_gradient_unless_a_parameter_is_as_large() {
    let backward_with = |model: &[u64]| {
        let program = Program::new().at(&MODULE).keep(model);
        let mut training = Training { program, gradients: Vec::new(), input: Vec::new() };
        for step in 0..4 {
            let mut saved = Vec::new();
            training = training.zero_grad().forward(&mut saved);
            training.program = training.program.at(&OPENS).brief(1).at(&ENGINE);
            let program = training.program.keep(if step == 0 { &[WORKSPACE] } else { &[] });
            training.program = program.take(&MODEL, &mut training.gradients).drop(&mut saved);
        }
        training.found().end()
    };
    let end = backward_with(&MODEL);
    assert!(end.contains(&("workspace", WORKSPACE)) && end.contains(&("gradient", 140)), "{end:?}");
    let end = backward_with(&[100, 40, WORKSPACE]);
    assert!(end.contains(&("gradient", 140 + WORKSPACE)), "it may be the gradient that stays: {end:?}");
}

#[test]
fn frames_of_a_handle_pool_tell_a_workspace_whatever_its_size() {
    let pool = [("CublasHandlePool.cpp", "getCurrentCUDABlasHandle"), ("f.py", "linear")];
    let program = Program::new().at(&pool).keep(&[3]).at(&[USER]).brief(2);
    assert_eq!(found(&program.builder.build()).end(), [("workspace", 3)]);
}

/// The trace without its first `lost` events, as a ring leaves it: what they made shows at the end only.
fn late(mut trace: Trace, lost: usize) -> Trace {
    let history = rebuild(&trace, &trace.devices[0]);
    let rows = &history.allocations;
    let live = (0..rows.len()).filter(|&row| rows.is_allocated_at(row, Moment(history.events)));
    let mut live: Vec<model::Block> = live
        .map(|row| model::Block {
            address: rows.addresses[row],
            bytes: rows.block_bytes[row],
            requested_bytes: rows.requested_bytes[row],
            state: BlockState::ActiveAllocated,
            ..model::Block::default()
        })
        .collect();
    live.sort_by_key(|block| block.address);
    let events = std::mem::take(&mut trace.devices[0].events);
    let (mut end, bytes) = (events.addresses[0], events.sizes[0]);
    let mut segment = Segment { address: end, bytes, ..Segment::default() };
    for block in live {
        if end < block.address {
            let bytes = block.address - end;
            segment.blocks.push(model::Block { address: end, bytes, ..model::Block::default() });
        }
        end = block.address + block.bytes;
        segment.blocks.push(block);
    }
    let bytes = segment.end() - end;
    segment.blocks.push(model::Block { address: end, bytes, ..model::Block::default() });
    for index in lost..events.len() {
        trace.devices[0].events.push(events.get(index));
    }
    trace.devices[0].segments = Some(vec![segment]);
    trace
}

#[test]
fn what_was_there_before_the_recording_is_told_by_sizes() {
    let trained = Training::trained().program.builder.build();
    let lost = trained.devices[0].events.len();
    let whole = Training::trained().step(&[]).step(&[]).program.builder.build();
    let found = found(&late(whole, lost));
    let rows = &found.history.allocations;
    assert!(rows.alloc_events.iter().filter(|&&event| event == crate::rebuild::NONE).count() >= 6);
    assert_eq!(found.end(), TRAINED);
    assert_eq!(found.ever(Category::Gradient), 3 * 140, "those that the first step drops too");
}

#[test]
fn a_census_has_the_last_word() {
    let mut trace = Training::trained().program.builder.build();
    let events = trace.devices[0].events.len() as u64;
    let address = trace.devices[0].events.addresses[0];
    let tensor = |kind: &str, offset: u64| NamedTensor {
        address: address + offset,
        kind: kind.to_owned(),
        bytes: 1,
        events: Some(events),
        ..NamedTensor::default()
    };
    trace.tensors = vec![tensor("buffer", 0), tensor("other", 100 << 10)];
    let found = found(&trace);
    assert_eq!(found.categories.source(), "named");
    assert!(found.categories.rule().starts_with("Where a census"));
    assert_eq!(found.end()[..2], [("parameter", 40), ("buffer", 100)]);
    let sums = found.categories.at(&found.history, Moment(events));
    let named = (sums.of(Category::Buffer).named_bytes, sums.of(Category::Parameter).named_bytes);
    assert_eq!(named, (100 << 10, 0), "`other` says nothing");
}

#[test]
fn figures_stand_at_their_moments_and_within_their_window() {
    let found = Training::trained().found();
    let (history, events) = (&found.history, found.history.events);
    let peak = history.peaks.allocated;
    let rows = category_figures(&found.categories, history, &(0..events), peak.moment, None);
    let held: u64 = rows.iter().map(|row| row.held_at_peak_bytes).sum();
    assert_eq!(held, peak.bytes);
    let of = |rows: &[CategoryFigures], category| *rows.iter().find(|row| row.category == category).unwrap();
    let activation = of(&rows, Category::Activation);
    assert_eq!((activation.own_peak_bytes, activation.allocations), (50 << 10, 6));
    assert_eq!((activation.live_at_end_bytes, activation.held_at_oom_bytes), (0, None));
    assert!(rows.is_sorted_by_key(|row| std::cmp::Reverse(row.held_at_peak_bytes)));
    let few = category_figures(&found.categories, history, &(0..3), Moment(3), Some(Moment(2)));
    assert_eq!(few.len(), 1);
    let parameter = of(&few, Category::Parameter);
    assert_eq!((parameter.own_peak_bytes, parameter.allocations), (140 << 10, 2));
    assert_eq!(parameter.held_at_oom_bytes, Some(100 << 10));
}

#[test]
fn nothing_gives_no_rows() {
    let found = found(&Program::new().builder.build());
    assert!(category_figures(&found.categories, &found.history, &(0..1), Moment(0), None).is_empty());
}
