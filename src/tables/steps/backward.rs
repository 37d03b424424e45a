//! Steps by backward passes, for recordings in which nothing else says where a step ends.
//!
//! Owns the cut only: a step reaches from one call of `backward()` to the next call by the same stack; what
//! follows the last call is no step, for the next one's forward pass is missing in it. It is no
//! period that was verified (the passes may differ in length, as those of a graph that is never freed do), so
//! [`super::steps`] does not use it; a rule may.

use crate::model::{Action, DeviceTrace};
use crate::rebuild::{History, Moment};

use super::super::StackFacts;
use super::{Span, StepSource, StepTable, measured};

/// Fewer calls are no loop.
const FEWEST_CALLS: usize = 7;

/// The steps between the calls of `backward()` by the stack that calls it most often; `facts` are those of the
/// stacks. Empty with fewer than seven calls.
#[must_use]
pub fn backward_steps(device: &DeviceTrace, history: &History, facts: &[StackFacts]) -> StepTable {
    let opens = |stack: usize| facts.get(stack).is_some_and(|facts| facts.opens_pass);
    let mut calls = vec![0usize; facts.len()];
    let mut events = Vec::new();
    for (event, (action, stack)) in device.events.actions.iter().zip(&device.events.stacks).enumerate() {
        if *action == Action::Alloc {
            let stack = stack.0 as usize;
            if opens(stack) {
                calls[stack] += 1;
                events.push((event as u64, stack));
            }
        }
    }
    let Some(&most) = calls.iter().max().filter(|&&most| most >= FEWEST_CALLS) else {
        return StepTable::default();
    };
    let chosen = calls.iter().position(|&count| count == most);
    events.retain(|&(_, stack)| Some(stack) == chosen);
    // Two losses of one call are asked for one right behind the other.
    events.dedup_by(|next, before| next.0 == before.0 + 1);
    let begins = || events.iter().map(|&(event, _)| Moment(event));
    let span = |(step, (begin, end)): (usize, (Moment, Moment))| Span { name: step.to_string(), begin, end };
    let spans = begins().zip(begins().skip(1)).enumerate().map(span).collect();
    StepTable { source: StepSource::Detected, rows: measured(history, spans) }
}

#[cfg(test)]
mod tests {
    use super::super::super::walk::samples::history_of;
    use super::*;
    use crate::model::TraceBuilder;
    use crate::tables::{classify_frames, stack_facts};

    #[test]
    fn a_step_reaches_from_one_backward_call_to_the_next() {
        let torch = "/opt/venv/lib/python3.12/site-packages/torch/autograd/__init__.py";
        let run = |calls: u64| {
            let mut builder = TraceBuilder::new().segment_alloc(0, 2 << 20);
            for call in 0..calls {
                builder = builder.at("net.py", 1, "forward").alloc(call * 1024, 512);
                builder = builder.stack(&[(torch, 374, "backward"), ("train.py", 3, "step")]);
                builder = builder.alloc(call * 1024 + 512, 512).free(call * 1024 + 512, 512);
            }
            let trace = builder.build();
            let (device, history) = history_of(&trace);
            backward_steps(&device, &history, &stack_facts(&trace, &classify_frames(&trace)))
        };
        assert_eq!(run(6), StepTable::default());
        let rows = run(7).rows;
        assert_eq!((rows.len(), rows[0].begin, rows[1].begin), (6, Moment(2), Moment(6)));
        assert_eq!((rows[5].end, rows[5].end_allocated_bytes), (Moment(26), 7 * 512));
    }
}
