//! Recorded returns of segments: which ones a call of `empty_cache` made, and which ones a failing request.
//!
//! A request that the driver refuses returns segments and asks again: the returns stand right before its own
//! `segment_alloc`, `segment_map`, `alloc` or `oom`, with its stack. `empty_cache()` returns segments with a
//! stack of its own. (`num_alloc_retries` is read off the same order, see `rebuild`.)

use crate::model::{Action, DeviceTrace, StackId};

/// A run of recorded returns, by the event with which it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flush {
    /// The program emptied the cache.
    EmptyCache(usize),
    /// The allocator made room for the request that follows.
    Retry(usize),
}

impl Flush {
    /// Event with which the run begins.
    pub(super) fn event(self) -> usize {
        match self {
            Self::EmptyCache(event) | Self::Retry(event) => event,
        }
    }
}

/// All runs of returns, in order. Where there are no stacks at all, the program is taken to have emptied the
/// cache.
pub(super) fn find(device: &DeviceTrace) -> Vec<Flush> {
    let events = &device.events;
    // Where stacks are recorded, only threads without Python have none: those of the backward pass, which
    // allocate but do not empty the cache.
    let has_stacks = events.stacks.iter().any(|&stack| stack != StackId::NONE);
    let mut found = Vec::new();
    let mut run: Option<(usize, StackId)> = None;
    for index in 0..events.len() {
        let stack = events.stacks[index];
        match events.actions[index] {
            Action::SegmentFree | Action::SegmentUnmap => match run {
                // A new call begins another run: the cache was emptied, and then a request flushed again.
                Some((begin, of)) if of != stack => {
                    found.push(Flush::EmptyCache(begin));
                    run = Some((index, stack));
                }
                Some(_) => {}
                None => run = Some((index, stack)),
            },
            // Streams that finish meanwhile complete their frees within the same call.
            Action::FreeCompleted => {}
            action => {
                let Some((begin, of)) = run.take() else { continue };
                let is_request =
                    matches!(action, Action::SegmentAlloc | Action::SegmentMap | Action::Alloc | Action::Oom);
                let is_same_call = of == stack && (of != StackId::NONE || has_stacks);
                let is_retry = is_request && (is_same_call || action == Action::Oom);
                found.push(if is_retry { Flush::Retry(begin) } else { Flush::EmptyCache(begin) });
            }
        }
    }
    found.extend(run.map(|(begin, _)| Flush::EmptyCache(begin)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;

    const MIB: u64 = 1 << 20;

    fn found(builder: TraceBuilder) -> Vec<Flush> {
        find(&builder.build().devices[0])
    }

    fn held() -> TraceBuilder {
        TraceBuilder::new().at("a.py", 1, "f").segment_alloc(1 << 30, 20 * MIB)
    }

    #[test]
    fn returns_of_the_call_that_obtains_are_a_retry() {
        let one = held().at("a.py", 2, "g").segment_free(1 << 30, 20 * MIB).segment_alloc(1 << 31, 40 * MIB);
        assert_eq!(found(one), [Flush::Retry(1)]);
        let failed = held().at("a.py", 2, "g").segment_free(1 << 30, 20 * MIB).oom(40 * MIB, 0);
        assert_eq!(found(failed), [Flush::Retry(1)]);
    }

    #[test]
    fn returns_of_another_call_empty_the_cache() {
        let flush = held().at("a.py", 2, "empty_cache").segment_free(1 << 30, 20 * MIB);
        assert_eq!(found(flush.clone()), [Flush::EmptyCache(1)]);
        assert_eq!(found(flush.at("a.py", 3, "g").segment_alloc(1 << 31, 40 * MIB)), [Flush::EmptyCache(1)]);
    }

    #[test]
    fn two_calls_in_a_row_are_two_runs() {
        let both = held()
            .segment_alloc(1 << 32, 2 * MIB)
            .at("a.py", 2, "empty_cache")
            .segment_free(1 << 30, 20 * MIB)
            .at("a.py", 3, "g")
            .segment_free(1 << 32, 2 * MIB)
            .segment_alloc(1 << 31, 40 * MIB);
        assert_eq!(found(both), [Flush::EmptyCache(2), Flush::Retry(3)]);
    }

    #[test]
    fn a_thread_without_python_does_not_empty_the_cache() {
        let backward = held().stack(&[]).segment_free(1 << 30, 20 * MIB).segment_alloc(1 << 31, 40 * MIB);
        assert_eq!(found(backward), [Flush::Retry(1)]);
    }

    #[test]
    fn without_stacks_the_cache_was_emptied() {
        let blind = TraceBuilder::new().segment_alloc(1 << 30, 20 * MIB).segment_free(1 << 30, 20 * MIB);
        assert_eq!(found(blind.segment_alloc(1 << 31, 40 * MIB)), [Flush::EmptyCache(1)]);
    }
}
