//! For which request a segment was obtained.
//!
//! Owns that one link. The allocator asks the driver for a segment only to serve the request at hand, so the
//! allocation that follows is whose doing the segment is; its stack says more than that of the segment, which
//! may be missing.

use crate::model::{Action, DeviceTrace};
use crate::rebuild::{History, Moment, NONE};

/// A request may map several pieces of an expandable segment before it is served.
const LOOK_AHEAD: usize = 8;

/// The allocation that segment range `range` was obtained for; `None` for one from before the recording, and
/// where the request failed.
#[must_use]
pub fn obtained_for(device: &DeviceTrace, history: &History, range: usize) -> Option<usize> {
    let born = *history.ranges.born.get(range)?;
    let (address, bytes) = (history.ranges.addresses[range], history.ranges.bytes[range]);
    let from = (born > Moment(0)).then_some(born.0 as usize)?;
    let events = &device.events;
    let following = from..events.len().min(from.saturating_add(LOOK_AHEAD));
    let served = following.into_iter().find(|&event| events.actions[event] == Action::Alloc)?;
    // A piece of an expandable segment may end what an allocation in the piece before it needs.
    let is_here = history.ranges.expandable[range]
        || events.addresses[served].checked_sub(address).is_some_and(|offset| offset < bytes);
    let row = history.allocation_of_event.get(served).copied().filter(|&row| row != NONE && is_here)?;
    Some(row as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;
    use crate::rebuild::rebuild;

    const MIB: u64 = 1 << 20;
    const A: u64 = 0x7000_0000_0000;

    #[test]
    fn the_allocation_that_follows_is_whose_segment_it_is() {
        let trace = TraceBuilder::new()
            .segment_alloc(A, 20 * MIB)
            .alloc(A, 4 * MIB)
            .alloc(A + 4 * MIB, 4 * MIB)
            .event(Action::SegmentMap, A + (1 << 30), 20 * MIB)
            .event(Action::SegmentMap, A + (1 << 30) + 20 * MIB, 20 * MIB)
            .alloc(A + (1 << 30), 30 * MIB)
            .segment_alloc(A + (2 << 30), 20 * MIB)
            .oom(40 * MIB, 0)
            .build();
        let history = rebuild(&trace, &trace.devices[0]);
        let of: Vec<_> = (0..4).map(|range| obtained_for(&trace.devices[0], &history, range)).collect();
        assert_eq!(of, [Some(0), Some(2), Some(2), None]);
        assert_eq!(obtained_for(&trace.devices[0], &history, 9), None);
    }
}
