//! Steps that marks or annotations name, of a recording whose events are not decoded.
//!
//! Owns the bounds: chunks of events say when they begin and end, so a step is known to lie between two of their ends.

use std::ops::Range;

use crate::model::{DeviceId, Trace};

use super::super::clock::Clock;
use super::super::times::Times;
use super::boundaries;

/// A chunk of events: how many it has, and its earliest and latest time in Unix microseconds.
type ChunkFacts = (u64, Option<(i64, i64)>);

/// Names of the steps of `device` in `trace`, with events of the recording between which each lies, whole. Empty when
/// no step is named, or when times of chunks are missing or run backwards.
#[must_use]
pub fn steps_by_chunks(trace: &Trace, device: DeviceId, chunks: &[ChunkFacts]) -> Vec<(String, Range<u64>)> {
    let times: Option<Vec<(u64, i64, i64)>> = chunks
        .iter()
        .filter(|chunk| chunk.0 > 0)
        .map(|&(rows, times)| times.map(|(start, end)| (rows, start, end)))
        .collect();
    let Some(times) = times.filter(|times| times.windows(2).all(|pair| pair[0].2 <= pair[1].1)) else {
        return Vec::new();
    };
    let (Some(low), Some(high)) = (Times::bounds(trace, &times, true), Times::bounds(trace, &times, false))
    else {
        return Vec::new();
    };
    let lower = boundaries::find(trace, device, Clock::Asked(&low)).1;
    let upper = boundaries::find(trace, device, Clock::Asked(&high)).1;
    // Both were counted from 1, so that no step seems to end before the first event, and the two lists are alike.
    let span = |(lower, upper): (boundaries::Span, boundaries::Span)| {
        (lower.name, lower.begin.0.saturating_sub(1)..upper.end.0.saturating_sub(1))
    };
    lower.into_iter().zip(upper).map(span).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Mark, MarkKind};

    fn marked(times: &[(&str, i64)]) -> Trace {
        let mark = |&(name, time_us): &(&str, i64)| Mark {
            kind: MarkKind::Step,
            name: name.to_owned(),
            time_us,
            begins: None,
        };
        Trace { marks: times.iter().map(mark).collect(), ..Trace::default() }
    }

    #[test]
    fn a_step_lies_between_ends_of_chunks() {
        let trace = marked(&[("a", 5), ("b", 25), ("c", 47)]);
        let chunks = [(10, Some((0, 9))), (10, Some((10, 19))), (10, Some((20, 29))), (10, Some((40, 49)))];
        let found = steps_by_chunks(&trace, DeviceId(0), &chunks);
        let found: Vec<_> = found.iter().map(|(name, events)| (name.as_str(), events.clone())).collect();
        assert_eq!(found, [("a", 0..30), ("b", 20..40), ("c", 30..40)]);
    }

    #[test]
    fn chunks_without_times_or_out_of_order_say_nothing() {
        let trace = marked(&[("a", 5)]);
        for chunks in [[(1, Some((0, 9))), (1, None)], [(1, Some((8, 9))), (1, Some((0, 3)))]] {
            assert!(steps_by_chunks(&trace, DeviceId(0), &chunks).is_empty());
        }
        assert!(steps_by_chunks(&trace, DeviceId(0), &[]).is_empty());
    }
}
