//! Flushes: runs of segments returned to the driver, and who returned them.
//!
//! Owns where a run begins and ends and the evidence for who made it. Whether it matters is for a rule.
//! (`simulate` has a reading of its own: a replay needs an answer for every single return, a rule may say that
//! it is a guess.)

use crate::model::{Action, DeviceTrace, StackId, Trace};
use crate::rebuild::{History, Moment};

use super::StepTable;
use super::usages::each_usage;
use super::user_code::torch_path;

/// Who returned the segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushKind {
    /// The program called `empty_cache()`.
    EmptyCache,
    /// The allocator made room for a request.
    Allocator,
    /// The allocator made room for a request, which failed all the same.
    BeforeOom,
    /// PyTorch emptied the cache before it captured a CUDA graph.
    Capture,
}

/// A run of returned segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// Its first event.
    pub event: u64,
    /// Segments, or pieces of expandable segments, returned.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Who returned them.
    pub kind: FlushKind,
    /// Stack of the call.
    pub stack: StackId,
    /// Whether neither stacks nor steps say who: told from how much was in use.
    pub is_guessed: bool,
}

/// All flushes of `device`, in order. One look at every event's action; one pass over the history where nothing
/// else tells who made them.
#[must_use]
pub fn flushes(trace: &Trace, device: &DeviceTrace, history: &History, steps: &StepTable) -> Vec<Flush> {
    let mut flushes: Vec<Flush> = runs(device).iter().map(|run| run.judged(trace, device, steps)).collect();
    if flushes.iter().any(|flush| flush.is_guessed) {
        guess(history, &mut flushes);
    }
    flushes
}

/// A run of returns and what stands right behind it.
#[derive(Clone, Copy)]
struct Run {
    first: usize,
    last: usize,
    segments: u64,
    bytes: u64,
    /// The event behind it, completions of frees passed over; `None` when it ends the recording.
    next: Option<usize>,
}

fn runs(device: &DeviceTrace) -> Vec<Run> {
    let events = &device.events;
    let mut found = Vec::new();
    let mut open: Option<Run> = None;
    for (event, &action) in events.actions.iter().enumerate() {
        let returns = matches!(action, Action::SegmentFree | Action::SegmentUnmap);
        match &mut open {
            Some(run) if returns && events.stacks[run.last] == events.stacks[event] => {
                run.last = event;
                run.segments += 1;
                run.bytes = run.bytes.saturating_add(events.sizes[event]);
                continue;
            }
            // Streams that finish meanwhile complete their frees within the same call.
            Some(_) if matches!(action, Action::FreeCompleted | Action::Snapshot) => continue,
            // Another call's returns begin another run: the cache was emptied, and then a request flushed.
            Some(run) => {
                run.next = Some(event);
                found.push(*run);
                open = None;
            }
            None => {}
        }
        if returns {
            open =
                Some(Run { first: event, last: event, segments: 1, bytes: events.sizes[event], next: None });
        }
    }
    found.extend(open);
    found
}

impl Run {
    fn judged(&self, trace: &Trace, device: &DeviceTrace, steps: &StepTable) -> Flush {
        let stack = device.events.stacks[self.last];
        let (kind, is_guessed) = match by_name(trace, stack) {
            Some(kind) => (kind, false),
            None => self.by_order(device, steps),
        };
        let Self { first, segments, bytes, .. } = *self;
        Flush { event: first as u64, segments, bytes, kind, stack, is_guessed }
    }

    /// A request that returns segments goes on to obtain one, or fails, within the same call.
    fn by_order(&self, device: &DeviceTrace, steps: &StepTable) -> (FlushKind, bool) {
        let events = &device.events;
        let Some(next) = self.next else { return (FlushKind::EmptyCache, false) };
        match events.actions[next] {
            Action::Oom => return (FlushKind::BeforeOom, false),
            Action::SegmentAlloc | Action::SegmentMap => {}
            _ => return (FlushKind::EmptyCache, false),
        }
        let (of, stack) = (events.stacks[self.last], events.stacks[next]);
        if of != StackId::NONE && stack != StackId::NONE {
            let kind = if of == stack { FlushKind::Allocator } else { FlushKind::EmptyCache };
            return (kind, false);
        }
        if steps.rows.is_empty() {
            return (FlushKind::Allocator, true);
        }
        // Does a step end or begin between the return and the request?
        let (after, before) = (Moment::after(self.last as u64), Moment(next as u64));
        let lies_between = |moment| after <= moment && moment <= before;
        let is_parted = steps.rows.iter().any(|step| lies_between(step.begin) || lies_between(step.end));
        (if is_parted { FlushKind::EmptyCache } else { FlushKind::Allocator }, false)
    }
}

/// Without stacks and steps: a program empties the cache when it is done with something, the allocator when
/// memory is short. So with less than half of the highest active bytes in use, the program did it.
fn guess(history: &History, flushes: &mut [Flush]) {
    let half = history.peaks.active.bytes / 2;
    let mut at = 0;
    each_usage(history, |moment, usage| {
        while let Some(flush) = flushes.get_mut(at).filter(|flush| Moment(flush.event) <= moment) {
            if flush.is_guessed && usage.active_bytes < half {
                flush.kind = FlushKind::EmptyCache;
            }
            at += 1;
        }
    });
}

/// Whether the allocator of `device` returns segments on its way to obtain others: the events of one call show
/// it, by their stack.
#[must_use]
pub fn is_collecting(device: &DeviceTrace) -> bool {
    let events = &device.events;
    let has_stacks = events.stacks.iter().any(|&stack| stack != StackId::NONE);
    let obtains = |&event: &usize| events.actions[event] == Action::SegmentAlloc;
    let is_one_call = |run: &Run, next: usize| events.stacks[run.last] == events.stacks[next];
    has_stacks
        && runs(device).iter().any(|run| run.next.filter(obtains).is_some_and(|next| is_one_call(run, next)))
}

/// Who calls `empty_cache`, if the stack shows that somebody does.
fn by_name(trace: &Trace, stack: StackId) -> Option<FlushKind> {
    let frames = trace.stacks.get(stack);
    let text = |at: usize| frames.get(at).map(|&id| trace.frames.get(id));
    let at = (0..frames.len())
        .find(|&at| text(at).is_some_and(|frame| trace.strings.get(frame.function) == "empty_cache"))?;
    let caller = text(at + 1).map(|frame| trace.strings.get(frame.file).replace('\\', "/"));
    let is_capture = caller.is_some_and(|file| torch_path(&file) == Some("cuda/graphs.py"));
    Some(if is_capture { FlushKind::Capture } else { FlushKind::EmptyCache })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;
    use crate::rebuild::rebuild;
    use crate::tables::{StepRow, StepSource};

    const MIB: u64 = 1 << 20;
    const A: u64 = 0x7000_0000_0000;
    const B: u64 = 0x7100_0000_0000;

    fn found_with(builder: TraceBuilder, steps: &[(u64, u64)]) -> Vec<(u64, u64, FlushKind)> {
        let trace = builder.build();
        let history = rebuild(&trace, &trace.devices[0]);
        let row = |&(begin, end)| StepRow { begin: Moment(begin), end: Moment(end), ..StepRow::default() };
        let steps = StepTable { source: StepSource::Marks, rows: steps.iter().map(row).collect() };
        let found = flushes(&trace, &trace.devices[0], &history, &steps);
        found.iter().map(|flush| (flush.event, flush.segments, flush.kind)).collect()
    }

    fn found(builder: TraceBuilder) -> Vec<(u64, u64, FlushKind)> {
        found_with(builder, &[])
    }

    /// Two free segments, and a live block of `live` MiB in a third.
    fn held(live: u64) -> TraceBuilder {
        let free = TraceBuilder::new().segment_alloc(A, 20 * MIB).segment_alloc(A + (1 << 30), 20 * MIB);
        free.alloc(A, 20 * MIB).free(A, 20 * MIB).segment_alloc(B, 64 * MIB).alloc(B, live * MIB)
    }

    fn returned(builder: TraceBuilder) -> TraceBuilder {
        builder.segment_free(A, 20 * MIB).segment_free(A + (1 << 30), 20 * MIB)
    }

    #[test]
    fn the_call_that_goes_on_to_obtain_is_the_allocators() {
        let at = |builder: TraceBuilder, line| builder.at("train.py", line, "step");
        let retried = returned(at(held(64), 7)).segment_alloc(B + (1 << 30), 40 * MIB);
        assert_eq!(found(retried), [(7, 2, FlushKind::Allocator)]);
        let emptied = at(returned(at(held(64), 7)), 8).segment_alloc(B + (1 << 30), 40 * MIB);
        assert_eq!(found(emptied), [(7, 2, FlushKind::EmptyCache)]);
        assert_eq!(found(returned(held(64)).oom(40 * MIB, 0)), [(7, 2, FlushKind::BeforeOom)]);
        assert_eq!(found(returned(held(64))), [(7, 2, FlushKind::EmptyCache)]);
    }

    #[test]
    fn a_frame_called_empty_cache_says_it_all() {
        let stack = [("/x/torch/cuda/memory.py", 224, "empty_cache"), ("train.py", 3, "step")];
        let capture = [stack[0], ("/x/torch/cuda/graphs.py", 249, "__enter__"), ("train.py", 3, "step")];
        let next = |builder: TraceBuilder| builder.segment_alloc(B + (1 << 30), 40 * MIB);
        assert_eq!(found(next(returned(held(64).stack(&stack)))), [(7, 2, FlushKind::EmptyCache)]);
        assert_eq!(found(next(returned(held(64).stack(&capture)))), [(7, 2, FlushKind::Capture)]);
    }

    #[test]
    fn without_stacks_the_border_of_a_step_tells() {
        let blind = || returned(held(64)).segment_alloc(B + (1 << 30), 40 * MIB);
        assert_eq!(found_with(blind(), &[(0, 9), (9, 10)]), [(7, 2, FlushKind::EmptyCache)]);
        assert_eq!(found_with(blind(), &[(0, 10)]), [(7, 2, FlushKind::Allocator)]);
    }

    #[test]
    fn without_stacks_and_steps_what_is_in_use_tells() {
        let blind = |live| returned(held(live)).segment_alloc(B + (1 << 30), 40 * MIB);
        assert_eq!(found(blind(64)), [(7, 2, FlushKind::Allocator)]);
        let idle = held(64).free(B, 64 * MIB).alloc(B, MIB);
        let idle = returned(idle).segment_alloc(B + (1 << 30), 40 * MIB);
        assert_eq!(found(idle), [(10, 2, FlushKind::EmptyCache)]);
    }
}
