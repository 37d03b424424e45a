//! The promise on the page of `growth`, held against generated programs: of a thousand without a leak at most ten
//! seem to leak; of a thousand that leak a block per step at least 990 are found, on the right line.

use super::programs::{LEAK, Leak, Program};
use crate::findings::Finding;
use crate::findings::scene::samples::found;
use crate::model::Trace;

#[test]
fn of_a_thousand_programs_without_a_leak_at_most_ten_seem_to_leak() {
    let wrong: Vec<String> = over_seeds(1_000, |seed| {
        let found = both(&Program::new(seed).without_leak());
        found.into_iter().next().map(|finding| format!("seed {seed}: {}", finding.title))
    });
    assert!(wrong.len() <= 10, "{} of 1000: {wrong:#?}", wrong.len());
}

/// Steps found in the events cover a part of such a recording, or none of it.
#[test]
fn where_nothing_names_the_steps_hardly_any_seems_to_leak_either() {
    let wrong: Vec<String> = over_seeds(300, |seed| {
        let mut trace = Program::new(seed).without_leak();
        trace.annotations.clear();
        let found = both(&trace).into_iter().next();
        found.map(|finding| format!("seed {seed}: {}", finding.title))
    });
    assert!(wrong.len() <= 3, "{} of 300: {wrong:#?}", wrong.len());
}

#[test]
fn of_a_thousand_programs_that_leak_a_block_per_step_at_least_990_are_found_on_the_right_line() {
    let missed: Vec<String> = over_seeds(1_000, |seed| {
        let mut program = Program::new(1_000_000 + seed);
        let leak = program.leaks_every(1);
        miss(&program, &leak)
    });
    assert!(missed.len() <= 10, "{} of 1000: {missed:#?}", missed.len());
}

#[test]
fn a_block_in_every_second_or_third_step_is_found_alike() {
    let missed: Vec<String> = over_seeds(200, |seed| {
        let mut program = Program::new(2_000_000 + seed);
        let leak = program.leaks_every(2 + seed % 2);
        miss(&program, &leak)
    });
    assert!(missed.len() <= 2, "{} of 200: {missed:#?}", missed.len());
}

fn miss(program: &Program, leak: &Leak) -> Option<String> {
    let found = found("growth", &program.with(leak), None);
    let seen = found.first().and_then(|finding| finding.lines.first()).map(|line| line.line);
    (seen != Some(LEAK)).then(|| {
        let title = found.first().map(|finding| finding.title.as_str());
        format!("seed {}, {} steps, {leak:?}: {title:?}", program.seed, program.steps)
    })
}

/// Runs `of` for many seeds, on two threads.
fn over_seeds(count: u64, of: impl Fn(u64) -> Option<String> + Sync) -> Vec<String> {
    let half = |from: u64| (from..count).step_by(2).filter_map(&of).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| half(1));
        let mut all = half(0);
        all.extend(other.join().expect("no test thread panics"));
        all
    })
}

fn both(trace: &Trace) -> Vec<Finding> {
    let mut all = found("growth", trace, None);
    all.extend(found("reference-cycle", trace, None));
    all
}
