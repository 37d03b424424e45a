//! `num_alloc_retries`, read off the order of events.
//!
//! When the driver refuses a segment, the allocator waits for all streams, returns every wholly free segment
//! and asks again: that second question is a retry. It ends in an `oom` event, or in a `segment_alloc` (or
//! `segment_map`) of the same call right behind the returns. `empty_cache()` also returns segments, but from
//! another call, so with another stack.

use crate::model::{Action, DeviceTrace, Settings, StackId};

/// Number of retries among the first `stop` events, or `None` where the order of events does not decide it:
/// under settings that return segments without a retry, or without stacks to tell calls apart.
pub(super) fn retries(device: &DeviceTrace, settings: &Settings, stop: usize) -> Option<u64> {
    let returns_otherwise =
        settings.max_split_bytes().is_some() || settings.garbage_collection_threshold() > 0.0;
    let mut count = 0;
    let mut returned: Option<StackId> = None;
    let events = &device.events;
    for index in 0..events.len().min(stop) {
        let stack = events.stacks[index];
        match events.actions[index] {
            Action::SegmentFree | Action::SegmentUnmap if returns_otherwise => return None,
            Action::SegmentFree | Action::SegmentUnmap => returned = Some(stack),
            Action::Oom => {
                count += 1;
                returned = None;
            }
            Action::SegmentAlloc | Action::SegmentMap => match returned.take() {
                Some(StackId::NONE) => return None,
                Some(freed_by) if freed_by == stack => count += 1,
                _ => {}
            },
            // Streams that finish meanwhile complete their frees within the same call.
            Action::FreeCompleted => {}
            _ => returned = None,
        }
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{SettingValue, TraceBuilder};

    fn counted(builder: TraceBuilder) -> Option<u64> {
        let trace = builder.build();
        retries(&trace.devices[0], &trace.settings, usize::MAX)
    }

    fn held() -> TraceBuilder {
        TraceBuilder::new().at("a.py", 1, "f").segment_alloc(1 << 30, 20 << 20)
    }

    #[test]
    fn returns_and_a_new_segment_in_one_call_are_a_retry() {
        let one = held().at("a.py", 2, "g").segment_free(1 << 30, 20 << 20).segment_alloc(1 << 31, 40 << 20);
        assert_eq!(counted(one), Some(1));
    }

    #[test]
    fn returns_of_another_call_are_none() {
        let flush = held().at("a.py", 2, "empty_cache").segment_free(1 << 30, 20 << 20);
        assert_eq!(counted(flush.at("a.py", 3, "g").segment_alloc(1 << 31, 40 << 20)), Some(0));
    }

    #[test]
    fn every_failure_was_retried_once() {
        assert_eq!(counted(held().oom(40 << 20, 0)), Some(1));
        assert_eq!(counted(held().segment_free(1 << 30, 20 << 20).oom(40 << 20, 0)), Some(1));
    }

    #[test]
    fn what_cannot_be_told_is_not_told() {
        let blind = TraceBuilder::new().segment_alloc(1 << 30, 20 << 20).segment_free(1 << 30, 20 << 20);
        assert_eq!(counted(blind.segment_alloc(1 << 31, 40 << 20)), None);
        let split = held().setting("max_split_size", SettingValue::Int(64 << 20));
        assert_eq!(counted(split.segment_free(1 << 30, 20 << 20)), None);
    }
}
