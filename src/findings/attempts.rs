//! Steps that failed for want of memory and were followed by others.
//!
//! Owns where a failed step began and which rounds came after it. Steps say both where they are known.
//! Where they are not, stacks do: the program is back where the failed call was made, and the stack of the
//! call's first request comes again. What was kept of a failed step is for the rule.

use std::collections::HashMap;

use crate::model::StackId;
use crate::rebuild::{Moment, NONE, OomEvent};
use crate::tables::{FrameClass, classify_frames};

use super::Scene;
use super::calls::Call;

/// As many failed requests are looked at.
const MOST_ATTEMPTS: usize = 64;

/// A step that failed.
#[derive(Debug)]
pub(super) struct Attempt {
    /// Its first event.
    pub(super) begin: u64,
    /// Its failed request.
    pub(super) oom: OomEvent,
    /// Ends of the rounds that came after it, ascending.
    pub(super) later: Vec<Moment>,
    /// Whether these rounds are known steps; else they are new attempts at the same call.
    pub(super) by_steps: bool,
}

/// The failed steps that at least two rounds came after.
pub(super) fn failed_attempts(scene: &Scene<'_>) -> Vec<Attempt> {
    let last_alloc = scene.history.allocations.alloc_events.iter().rev().find(|&&event| event != NONE);
    let last = last_alloc.map_or(0, |&event| u64::from(event));
    let last = last.max(scene.ooms.last().map_or(0, |oom| oom.oom.event));
    let ooms = scene.ooms.iter().map(|judged| judged.oom).take(MOST_ATTEMPTS);
    let ooms: Vec<OomEvent> = ooms.filter(|oom| oom.event < last).collect();
    if ooms.is_empty() {
        return Vec::new();
    }
    let classes = classify_frames(scene.trace);
    let mut behind = 0;
    let mut begun = Vec::new();
    for oom in &ooms {
        begun.push(beginning(scene, &classes, oom, behind));
        behind = oom.event + 1;
    }
    let repeats = Repeats::of(scene, &ooms, &begun);
    let attempt = |(index, oom): (usize, &OomEvent)| {
        let steps = later_steps(scene, oom.event);
        let by_steps = steps.len() >= 2;
        let later = if by_steps { steps } else { repeats.rounds(scene, index) };
        Attempt { begin: begun[index], oom: *oom, later, by_steps }
    };
    ooms.iter().enumerate().map(attempt).filter(|attempt| attempt.later.len() >= 2).collect()
}

/// Where the step that failed with `oom` began: never before event `behind`.
fn beginning(scene: &Scene<'_>, classes: &[FrameClass], oom: &OomEvent, behind: u64) -> u64 {
    let steps = &scene.steps.rows;
    let at = steps.partition_point(|step| step.begin.0 <= oom.event);
    let by_steps = at.checked_sub(1).and_then(|at| steps.get(at)).map(|step| {
        let is_inside = oom.event < step.end.0;
        if is_inside { step.begin.0 } else { step.end.0 }
    });
    by_steps.map_or_else(|| Call::that_failed(scene, classes, oom, behind), |begin| begin.max(behind))
}

/// Ends of the steps that began after event `event`.
fn later_steps(scene: &Scene<'_>, event: u64) -> Vec<Moment> {
    let later = scene.steps.rows.iter().filter(|step| step.begin.0 > event && step.end > step.begin);
    later.map(|step| step.end).collect()
}

/// Where the first stack of each attempt comes again.
struct Repeats {
    /// The first stack of each attempt, and how often the attempt itself has it.
    anchors: Vec<Option<(StackId, usize)>>,
    /// Requests, failed ones too, by stack: only those of anchors, after the first attempt's end.
    requests: HashMap<StackId, Vec<u64>>,
    after: Vec<u64>,
}

impl Repeats {
    /// One pass over the events.
    fn of(scene: &Scene<'_>, ooms: &[OomEvent], begun: &[u64]) -> Self {
        let events = &scene.device.events;
        let anchor = |from: u64, to: u64| {
            let has_frames = |event: &usize| {
                let stack = events.stacks[*event];
                is_request(scene, *event)
                    && scene.lines.facts.get(stack.0 as usize).is_some_and(|facts| facts.has_python)
            };
            // A step that the engine's thread failed in may have no frames of its own.
            let first = (from as usize..to as usize).find(has_frames);
            let first = first.or_else(|| (0..from as usize).rev().find(has_frames))?;
            let stack = events.stacks[first];
            let own = (first..to as usize).filter(|&event| events.stacks[event] == stack);
            Some((stack, own.filter(|&event| is_request(scene, event)).count()))
        };
        let spans = ooms.iter().zip(begun);
        let anchors: Vec<_> = spans.map(|(oom, &begin)| anchor(begin, oom.event + 1)).collect();
        let mut requests: HashMap<StackId, Vec<u64>> =
            anchors.iter().flatten().map(|&(stack, _)| (stack, Vec::new())).collect();
        let first = ooms.first().map_or(0, |oom| oom.event as usize + 1);
        for event in first..events.len() {
            if is_request(scene, event)
                && let Some(found) = requests.get_mut(&events.stacks[event])
            {
                found.push(event as u64);
            }
        }
        Self { anchors, requests, after: ooms.iter().map(|oom| oom.event).collect() }
    }

    /// Ends of the rounds after attempt `index`: each begins when its stack has come as often as in the
    /// attempt, and ends where the next begins.
    fn rounds(&self, scene: &Scene<'_>, index: usize) -> Vec<Moment> {
        let Some((stack, each)) = self.anchors[index] else { return Vec::new() };
        let Some(requests) = self.requests.get(&stack) else { return Vec::new() };
        let later = &requests[requests.partition_point(|&event| event <= self.after[index])..];
        let begun: Vec<u64> = later.chunks_exact(each.max(1)).map(|round| round[0]).collect();
        let next = begun.iter().skip(1).map(|&event| Moment(event));
        let end = Moment(scene.history.events);
        next.chain(std::iter::once(end)).take(begun.len()).collect()
    }
}

fn is_request(scene: &Scene<'_>, event: usize) -> bool {
    use crate::model::Action;
    matches!(scene.device.events.actions.get(event), Some(Action::Alloc | Action::Oom))
}
