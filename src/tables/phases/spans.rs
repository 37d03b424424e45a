//! Phases that a recording names itself, with times: the emitter's marks and `record_function` ranges.
//!
//! Owns what a name means and which of nested ranges counts. Both are tied to events by time; a recording
//! without times has no spans.

use std::collections::BTreeMap;

use crate::model::{DeviceId, DeviceTrace, MarkKind, StringId, Trace};

use super::super::clock::Clock;
use super::Phase;

/// Events of a named phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) phase: Phase,
}

/// Looks up spans of ascending events.
pub(super) struct Cursor<'a>(pub(super) &'a [Span]);

impl Cursor<'_> {
    /// The span of `event`, which is not before the event asked for last.
    #[inline]
    pub(super) fn at(&mut self, event: u64) -> Option<Span> {
        while let Some((first, rest)) = self.0.split_first() {
            if event < first.end {
                return (first.begin <= event).then_some(*first);
            }
            self.0 = rest;
        }
        None
    }
}

/// Ranges that are open at once; more are a sign of missing ends, and the further ones do not count.
const MOST_NESTED: usize = 64;

/// What is being put together: spans that do not overlap.
struct Spans<'a> {
    clock: Clock<'a>,
    list: Vec<Span>,
}

impl Spans<'_> {
    /// From after the events before `from` to after those at `to`, never back behind what is there.
    fn push(&mut self, from: i64, to: i64, phase: Phase) {
        let (Some(begin), Some(end)) = (self.clock.moment_before(from), self.clock.moment_after(to)) else {
            return;
        };
        let begin = begin.0.max(self.list.last().map_or(0, |span| span.end));
        if begin < end.0 {
            self.list.push(Span { begin, end: end.0, phase });
        }
    }
}

/// The emitter's phases.
pub(super) fn marked(trace: &Trace, device: &DeviceTrace) -> Vec<Span> {
    let mut spans = Spans { clock: Clock::of(&device.events), list: Vec::new() };
    if !spans.clock.is_time() {
        return spans.list;
    }
    let mut open: Option<(Phase, i64)> = None;
    for mark in trace.marks.iter().filter(|mark| mark.kind == MarkKind::Phase) {
        if let Some((phase, from)) = open.take() {
            spans.push(from, mark.time_us, phase);
        }
        open = (mark.begins != Some(false))
            .then(|| phase_of(&mark.name))
            .flatten()
            .map(|phase| (phase, mark.time_us));
    }
    if let Some((phase, from)) = open {
        spans.push(from, i64::MAX, phase);
    }
    spans.list
}

/// Phases that ranges name. Of nested ranges the innermost that names one counts, and evaluation around it
/// more than that: a forward pass within `validate` is evaluation.
pub(super) fn annotated(trace: &Trace, device: &DeviceTrace) -> Vec<Span> {
    let mut spans = Spans { clock: Clock::of(&device.events), list: Vec::new() };
    if !spans.clock.is_time() {
        return spans.list;
    }
    let mut known: BTreeMap<StringId, Option<Phase>> = BTreeMap::new();
    let mut open: Vec<(StringId, Phase)> = Vec::new();
    let mut since = 0;
    let concerns = |of: DeviceId| of == device.device || of == DeviceId(u32::MAX);
    let anyone = !trace.annotations.iter().any(|annotation| concerns(annotation.device));
    for annotation in trace.annotations.iter().filter(|annotation| anyone || concerns(annotation.device)) {
        let name = annotation.name;
        let Some(phase) = *known.entry(name).or_insert_with(|| phase_of(trace.strings.get(name))) else {
            continue;
        };
        if let Some(current) = current(&open) {
            spans.push(since, annotation.time_us, current);
        }
        since = annotation.time_us;
        if annotation.begins {
            if open.len() < MOST_NESTED {
                open.push((name, phase));
            }
        } else if let Some(at) = open.iter().rposition(|&(other, _)| other == name) {
            open.remove(at);
        }
    }
    if let Some(current) = current(&open) {
        spans.push(since, i64::MAX, current);
    }
    spans.list
}

fn current(open: &[(StringId, Phase)]) -> Option<Phase> {
    let is_evaluation = open.iter().any(|&(_, phase)| phase == Phase::Evaluation);
    if is_evaluation { Some(Phase::Evaluation) } else { open.last().map(|&(_, phase)| phase) }
}

/// The phase that a name speaks of, if it speaks of one. Names are taken apart into words: `latest` is no
/// `test`, `train_step` no phase, `forward-backward` neither.
fn phase_of(name: &str) -> Option<Phase> {
    const EVALUATION: [&str; 13] = [
        "eval",
        "evaluate",
        "evaluation",
        "evaluating",
        "valid",
        "validate",
        "validation",
        "val",
        "inference",
        "infer",
        "predict",
        "generate",
        "generation",
    ];
    if name.starts_with("autograd::engine") {
        return Some(Phase::Backward);
    }
    let lower = name.to_ascii_lowercase();
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty()).collect();
    let has = |wanted: &[&str]| words.iter().any(|word| wanted.contains(word));
    let forward = has(&["forward", "fwd"]);
    let backward = has(&["backward", "bwd", "backprop"]);
    if has(&EVALUATION) {
        Some(Phase::Evaluation)
    } else if forward != backward {
        Some(if forward { Phase::Forward } else { Phase::Backward })
    } else if !forward && has(&["optimizer", "optim", "opt"]) && !has(&["zero", "load", "init"]) {
        Some(Phase::Optimizer)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Annotation, Mark, TraceBuilder};

    #[test]
    fn names_are_told_apart_by_words() {
        for (name, phase) in [
            ("## forward ##", Some(Phase::Forward)),
            ("DistributedDataParallel.forward", Some(Phase::Forward)),
            ("Optimizer.step#AdamW.step", Some(Phase::Optimizer)),
            ("optimizer_step", Some(Phase::Optimizer)),
            ("Optimizer.zero_grad#AdamW.zero_grad", None),
            ("loss.backward", Some(Phase::Backward)),
            ("autograd::engine::evaluate_function: MulBackward0", Some(Phase::Backward)),
            ("forward-backward", None),
            ("eval3", Some(Phase::Evaluation)),
            ("validation_step", Some(Phase::Evaluation)),
            ("## train_step ##", None),
            ("step7", None),
            ("latest", None),
        ] {
            assert_eq!(phase_of(name), phase, "{name}");
        }
    }

    /// Ten events at 1,000,000 us and every 10 us after.
    fn ten() -> Trace {
        (0..10).fold(TraceBuilder::new(), |builder, n| builder.alloc(n * 512, 512)).build()
    }

    fn range(trace: &mut Trace, name: &str, begins: bool, time_us: i64) {
        let name = trace.strings.intern(name);
        trace.annotations.push(Annotation { name, begins, device: DeviceId(0), time_us });
    }

    fn found(spans: &[Span]) -> Vec<(u64, u64, Phase)> {
        spans.iter().map(|span| (span.begin, span.end, span.phase)).collect()
    }

    #[test]
    fn nested_ranges_give_the_innermost_and_evaluation_holds_for_all_within() {
        let mut trace = ten();
        range(&mut trace, "train_step", true, 1_000_000);
        range(&mut trace, "forward", true, 1_000_005);
        range(&mut trace, "forward", false, 1_000_025);
        range(&mut trace, "train_step", false, 1_000_030);
        range(&mut trace, "eval", true, 1_000_055);
        range(&mut trace, "forward", true, 1_000_065);
        range(&mut trace, "forward", false, 1_000_075);
        let spans = annotated(&trace, &trace.devices[0]);
        let expected = [
            (1, 3, Phase::Forward),
            (6, 7, Phase::Evaluation),
            (7, 8, Phase::Evaluation),
            (8, 10, Phase::Evaluation),
        ];
        assert_eq!(found(&spans), expected);
        let mut cursor = Cursor(&spans);
        let at: Vec<_> = (0..10).map(|event| cursor.at(event).is_some()).collect();
        assert_eq!(at, [false, true, true, false, false, false, true, true, true, true]);
    }

    #[test]
    fn marks_end_one_another() {
        let mut trace = ten();
        let mark = |name: &str, begins, time_us| Mark {
            kind: MarkKind::Phase,
            name: name.to_owned(),
            time_us,
            begins: Some(begins),
        };
        trace.marks = vec![
            mark("forward", true, 1_000_005),
            mark("backward", true, 1_000_025),
            mark("backward", false, 1_000_045),
            mark("optimizer", true, 1_000_075),
        ];
        let spans = marked(&trace, &trace.devices[0]);
        assert_eq!(
            found(&spans),
            [(1, 3, Phase::Forward), (3, 5, Phase::Backward), (8, 10, Phase::Optimizer)]
        );
        trace.devices[0].events.times_us.fill(crate::model::NO_TIME);
        assert!(marked(&trace, &trace.devices[0]).is_empty());
    }

    #[test]
    fn ranges_that_never_end_do_not_pile_up() {
        let mut trace = ten();
        for _ in 0..1000 {
            range(&mut trace, "forward", true, 1_000_005);
        }
        assert_eq!(found(&annotated(&trace, &trace.devices[0])), [(1, 10, Phase::Forward)]);
    }
}
