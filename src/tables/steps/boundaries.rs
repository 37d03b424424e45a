//! Where steps begin and end, as marks or annotations say.
//!
//! In this order: the emitter's step marks; ranges called `ProfilerStep#n`; ranges whose names are a word for
//! a step and a number (`step0`, `eval 12`); ranges of one name that speaks of a step (`## train_step ##`);
//! ends of `Optimizer.step#...`. The first kind that is there is used. Steps that were over before the first
//! event are left out: nothing is known about them.

use crate::model::{Annotation, DeviceId, MarkKind, Trace};
use crate::rebuild::Moment;

use super::super::clock::Clock;
use super::StepSource;

/// A step before it is measured.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) name: String,
    pub(super) begin: Moment,
    pub(super) end: Moment,
}

/// Times of one step; `end` is open until something ends it.
struct Times<'a> {
    name: &'a str,
    begin: i64,
    end: Option<i64>,
}

/// Words that name a step when a number follows them.
const STEP_WORDS: [&str; 6] = ["step", "iter", "batch", "micro", "eval", "generate"];
const PROFILER: &str = "ProfilerStep#";
const OPTIMIZER: &str = "Optimizer.step#";

/// Steps of `device`, in order, none overlapping another.
pub(super) fn find(trace: &Trace, device: DeviceId, clock: Clock) -> (StepSource, Vec<Span>) {
    if !clock.is_time() {
        return (StepSource::None, Vec::new());
    }
    let marked = marked(trace);
    if !marked.is_empty() {
        return (StepSource::Marks, recorded(spans(marked, clock)));
    }
    let annotations = annotations_of(trace, device);
    let name = |annotation: &Annotation| trace.strings.get(annotation.name);
    let kinds: [&dyn Fn(&str) -> bool; 3] =
        [&|name| name.starts_with(PROFILER), &|name| is_numbered_step(name), &|name| {
            speaks_of_a_step(name) && !name.starts_with("Optimizer.")
        }];
    for is_step in kinds {
        let ranges = ranges(trace, annotations.iter().filter(|&&annotation| is_step(name(annotation))));
        if !ranges.is_empty() {
            return (StepSource::Annotations, recorded(spans(ranges, clock)));
        }
    }
    (StepSource::Annotations, recorded(optimizer_steps(trace, &annotations, clock)))
}

/// Without those that lie wholly before the first event, which a ring that overflowed has lost.
fn recorded(mut spans: Vec<Span>) -> Vec<Span> {
    spans.retain(|span| span.end > Moment(0));
    spans
}

fn is_numbered_step(name: &str) -> bool {
    let word = name.trim_end_matches(|c: char| c.is_ascii_digit());
    word.len() < name.len() && speaks_of(word, &STEP_WORDS)
}

fn speaks_of_a_step(name: &str) -> bool {
    speaks_of(name, &["step", "iteration"])
}

fn speaks_of(name: &str, words: &[&str]) -> bool {
    let name = name.to_ascii_lowercase();
    words.iter().any(|word| name.contains(word))
}

/// Annotations of threads that work on `device` or do not say on which; if there are none, all of them: one
/// thread may drive several devices.
fn annotations_of(trace: &Trace, device: DeviceId) -> Vec<&Annotation> {
    let concerns =
        |annotation: &&Annotation| annotation.device == device || annotation.device == DeviceId(u32::MAX);
    let own: Vec<&Annotation> = trace.annotations.iter().filter(concerns).collect();
    if own.is_empty() { trace.annotations.iter().collect() } else { own }
}

/// The emitter's marks. A mark without a span begins a step that lasts until the next.
fn marked(trace: &Trace) -> Vec<Times<'_>> {
    let mut steps: Vec<Times> = Vec::new();
    for mark in trace.marks.iter().filter(|mark| mark.kind == MarkKind::Step) {
        if mark.begins == Some(false) {
            if let Some(open) = steps.last_mut().filter(|step| step.end.is_none()) {
                open.end = Some(mark.time_us);
            }
        } else {
            steps.push(Times { name: &mark.name, begin: mark.time_us, end: None });
        }
    }
    steps
}

/// Pairs of START and END. Of ranges inside one another the outermost counts.
fn ranges<'t, 'a>(trace: &'t Trace, annotations: impl Iterator<Item = &'a &'t Annotation>) -> Vec<Times<'t>>
where
    't: 'a,
{
    let mut steps: Vec<Times> = Vec::new();
    let mut open: Option<(crate::model::StringId, u32)> = None;
    for annotation in annotations {
        match &mut open {
            Some((name, depth)) if *name == annotation.name => {
                *depth = if annotation.begins { *depth + 1 } else { *depth - 1 };
                if *depth == 0 {
                    open = None;
                    if let Some(step) = steps.last_mut() {
                        step.end = Some(annotation.time_us);
                    }
                }
            }
            None if annotation.begins => {
                open = Some((annotation.name, 1));
                let name = trace.strings.get(annotation.name);
                steps.push(Times { name, begin: annotation.time_us, end: None });
            }
            _ => {}
        }
    }
    steps
}

/// A step reaches from the end of one optimizer step to the end of the next. With several optimizers the one
/// that steps first sets the pace. What follows the last optimizer step is no step.
fn optimizer_steps(trace: &Trace, annotations: &[&Annotation], clock: Clock) -> Vec<Span> {
    let is_optimizer = |annotation: &&&Annotation| {
        !annotation.begins && trace.strings.get(annotation.name).starts_with(OPTIMIZER)
    };
    let Some(first) = annotations.iter().find(is_optimizer) else { return Vec::new() };
    let mut begin = Moment(0);
    let mut steps = Vec::new();
    for annotation in annotations.iter().filter(is_optimizer) {
        if annotation.name == first.name
            && let Some(end) = clock.moment_after(annotation.time_us).filter(|&end| end >= begin)
        {
            steps.push(Span { name: (steps.len() + 1).to_string(), begin, end });
            begin = end;
        }
    }
    steps
}

/// Times to moments. An open step lasts until the next one, the last until the end of the recording; a step
/// that would reach into its predecessor begins where that one ends.
fn spans(mut steps: Vec<Times>, clock: Clock) -> Vec<Span> {
    steps.sort_by_key(|step| step.begin);
    let mut spans: Vec<Span> = Vec::with_capacity(steps.len());
    for (index, step) in steps.iter().enumerate() {
        let next = steps.get(index + 1).map(|next| next.begin);
        let behind = spans.last().map_or(Moment(0), |span| span.end);
        let begin = clock.moment_before(step.begin).unwrap_or_default().max(behind);
        let until_next = |next: Option<i64>| match next {
            Some(next) => clock.moment_before(next),
            None => clock.moment_after(i64::MAX),
        };
        let end = step.end.map_or_else(|| until_next(next), |end| clock.moment_after(end));
        spans.push(Span { name: step.name.to_owned(), begin, end: end.unwrap_or_default().max(begin) });
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_steps_are_told_from_other_names() {
        for name in ["step0", "eval 12", "micro3", "Iteration_7", "batch#1"] {
            assert!(is_numbered_step(name), "{name}");
        }
        for name in ["step", "layer3", "0", "", "forward2"] {
            assert!(!is_numbered_step(name), "{name}");
        }
        assert!(speaks_of_a_step("## train_step ##"));
        assert!(!speaks_of_a_step("## forward ##"));
    }

    #[test]
    fn of_nested_ranges_the_outermost_counts() {
        let mut trace = Trace::default();
        let name = trace.strings.intern("step");
        for (begins, time_us) in [(true, 1), (true, 2), (false, 3), (false, 4), (true, 5)] {
            trace.annotations.push(Annotation { name, begins, device: DeviceId(0), time_us });
        }
        let annotations: Vec<&Annotation> = trace.annotations.iter().collect();
        let found: Vec<_> =
            ranges(&trace, annotations.iter()).iter().map(|step| (step.begin, step.end)).collect();
        assert_eq!(found, [(1, Some(4)), (5, None)]);
    }
}
