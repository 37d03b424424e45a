//! How much was in use towards the end of a recording, while the program still asked for memory.
//!
//! Owns the walk back from the end. What a program frees after its last request says nothing about what it
//! needed: it ends there, or a step does.

use crate::rebuild::{History, Moment, NONE, Peak};

/// The most allocated bytes since the last of `parts` parts of the requests began (since the last request, where
/// there are fewer), and when.
#[must_use]
pub fn late_need(history: &History, parts: usize) -> Peak {
    let rows = &history.allocations;
    let mut peak = Peak { bytes: history.end.allocated_bytes, moment: Moment(history.events) };
    let requests = rows.len() - rows.alloc_events.iter().take_while(|&&event| event == NONE).count();
    let Some(first) = rows.len().checked_sub((requests / parts.max(1)).max(1)) else { return peak };
    let begin = rows.alloc_events[first];
    if begin == NONE {
        return peak;
    }
    let mut allocated = history.end.allocated_bytes;
    let tail = history.allocation_of_event.iter().enumerate().skip(begin as usize).rev();
    for (event, &row) in tail.filter(|&(_, &row)| row != NONE) {
        let (event, row) = (event as u32, row as usize);
        // An earlier moment is kept where as much was in use.
        if allocated >= peak.bytes {
            peak = Peak { bytes: allocated, moment: Moment::after(u64::from(event)) };
        }
        let bytes = rows.block_bytes[row];
        if rows.alloc_events[row] == event {
            allocated = allocated.saturating_sub(bytes);
        } else if rows.given_back_event(row) == event {
            allocated = allocated.saturating_add(bytes);
        }
    }
    peak
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;
    use crate::rebuild::rebuild;

    const MIB: u64 = 1 << 20;
    const A: u64 = 0x7000_0000_0000;

    fn of(builder: TraceBuilder, parts: usize) -> (u64, u64) {
        let trace = builder.build();
        let peak = late_need(&rebuild(&trace, &trace.devices[0]), parts);
        (peak.bytes / MIB, peak.moment.0)
    }

    #[test]
    fn what_the_last_requests_found_in_use_counts() {
        let held =
            TraceBuilder::new().segment_alloc(A, 20 * MIB).alloc(A, 8 * MIB).alloc(A + 8 * MIB, 4 * MIB);
        let ended = held.clone().free(A, 8 * MIB).free(A + 8 * MIB, 4 * MIB);
        assert_eq!(of(ended, 10), (12, 3));
        let went_on = held.free(A, 8 * MIB).alloc(A, 2 * MIB).free(A, 2 * MIB);
        assert_eq!(of(went_on.clone(), 10), (6, 6));
        assert_eq!(of(went_on, 1), (12, 3), "all requests");
    }

    #[test]
    fn a_recording_without_requests_needs_what_it_ends_with() {
        assert_eq!(of(TraceBuilder::new().segment_alloc(A, 20 * MIB), 10), (0, 1));
        assert_eq!(late_need(&History::default(), 10), Peak::default());
    }
}
