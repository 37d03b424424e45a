//! The four counters over a part of the recording: their values at both ends and their maxima between.

use std::ops::Range;

use crate::rebuild::{History, Moment, Peaks, Usage};

use super::usages::each_usage;

/// Counters over the moments from before the first event of a window to after its last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowUsage {
    /// Before the first event.
    pub initial: Usage,
    /// After the last event.
    pub end: Usage,
    /// Maxima, both ends included.
    pub peaks: Peaks,
}

/// Counters over the events `window`. The whole recording gives what the history itself says.
#[must_use]
pub fn window_usage(history: &History, window: &Range<u64>) -> WindowUsage {
    let (from, to) = (Moment(window.start), Moment(window.end));
    let mut found = WindowUsage::default();
    each_usage(history, |moment, usage| {
        if moment == from {
            found.initial = usage;
            found.peaks = Peaks::starting_at(usage, moment);
        }
        if from <= moment && moment <= to {
            found.peaks.raise(usage, moment);
            found.end = usage;
        }
    });
    found
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;
    use crate::rebuild::rebuild;

    const A: u64 = 0x7000_0000_0000;

    #[test]
    fn a_window_sees_its_own_maxima_and_the_whole_sees_the_historys() {
        let trace = TraceBuilder::new()
            .segment_alloc(A, 20 << 20)
            .alloc(A, 8 << 20)
            .free(A, 8 << 20)
            .alloc(A, 2 << 20)
            .free(A, 2 << 20)
            .build();
        let history = rebuild(&trace, &trace.devices[0]);
        let whole = window_usage(&history, &(0..history.events));
        assert_eq!((whole.peaks, whole.end), (history.peaks, history.end));
        let late = window_usage(&history, &(4..6));
        assert_eq!(late.peaks.allocated.bytes, 2 << 20);
        assert_eq!(late.peaks.allocated.moment, Moment(5));
        assert_eq!((late.initial.allocated_bytes, late.end.allocated_bytes), (0, 0));
        assert_eq!(late.initial.reserved_bytes, 20 << 20);
    }
}
