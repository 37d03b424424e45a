//! Who uses which stream, and which stream is the main one.
//!
//! Owns that choice. Blocks are never lent from stream to stream, so what lies free on any other stream than
//! the main one is of no use to the bulk of the job. Only the default pool counts: private pools are walls of
//! their own.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::PoolId;
use crate::rebuild::{History, NONE};

/// What one stream does in the default pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamUse {
    /// Raw pointer value; 0 is the default stream.
    pub stream: u64,
    /// Bytes of all its allocations together: its traffic.
    pub traffic_bytes: u64,
    /// Its first `alloc` event; `None` when all it holds is from before the recording, or nothing.
    pub first_alloc: Option<u64>,
    /// Its last `alloc` event.
    pub last_alloc: Option<u64>,
    /// The last event that concerns any of its allocations, completions of frees included.
    pub last_use: Option<u64>,
    /// Whether any of its allocations outlives the recording.
    pub is_live_at_end: bool,
}

/// The streams of a device, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    /// The stream that the bulk of the job runs on; 0 when there is none.
    pub main: u64,
    /// What each does.
    pub rows: Vec<StreamUse>,
}

/// A stream that others outdo by this part of its own traffic after its last request is given up.
const OUTDONE_PART: u64 = 10;

/// What the streams of `history` do. One pass over the allocations, and none where there is one stream.
///
/// The main stream is the one with most traffic, unless it has been given up: nothing of it is live at the
/// end, and after its last request the other streams allocated at least a tenth of what it did in all. A
/// one-shot stream that fills the device at start-up is not the main one, however much it did.
#[must_use]
pub fn streams(history: &History) -> Streams {
    let ranges = &history.ranges;
    let mut places: BTreeMap<u64, u32> = BTreeMap::new();
    for range in (0..ranges.len()).filter(|&range| ranges.pools[range] == PoolId::DEFAULT) {
        places.entry(ranges.streams[range]).or_insert(0);
    }
    let mut rows = Vec::with_capacity(places.len());
    for (place, (&stream, index)) in places.iter_mut().enumerate() {
        *index = place as u32;
        rows.push(StreamUse { stream, ..StreamUse::default() });
    }
    if rows.len() < 2 {
        return Streams { main: rows.first().map_or(0, |row| row.stream), rows };
    }
    let place_of_range: Vec<u32> = (0..ranges.len())
        .map(|range| match ranges.pools[range] {
            PoolId::DEFAULT => places[&ranges.streams[range]],
            _ => NONE,
        })
        .collect();
    let later = count(history, &place_of_range, &mut rows);
    Streams { main: main_of(&rows, &later), rows }
}

/// Fills in `rows`; gives the traffic of all streams after each one's last request.
fn count(history: &History, place_of_range: &[u32], rows: &mut [StreamUse]) -> Vec<u64> {
    let allocations = &history.allocations;
    // Traffic of all streams up to and including each one's last request.
    let (mut total, mut until) = (0u64, vec![0u64; rows.len()]);
    for row in 0..allocations.len() {
        let place = place_of_range.get(allocations.ranges[row] as usize).copied().unwrap_or(NONE) as usize;
        let Some(stream) = rows.get_mut(place) else { continue };
        let bytes = allocations.block_bytes[row];
        total = total.saturating_add(bytes);
        until[place] = total;
        stream.traffic_bytes = stream.traffic_bytes.saturating_add(bytes);
        let (begun, ended) = (allocations.alloc_events[row], allocations.free_completed_events[row]);
        if begun != NONE {
            stream.first_alloc = stream.first_alloc.or(Some(u64::from(begun)));
            stream.last_alloc = stream.last_alloc.max(Some(u64::from(begun)));
        }
        stream.is_live_at_end |= ended == NONE;
        let last = [begun, ended].into_iter().filter(|&event| event != NONE).max();
        stream.last_use = stream.last_use.max(last.map(u64::from));
    }
    until.into_iter().map(|until| total - until).collect()
}

/// Finds [`Streams::main`] of a recording from its pieces, one after the other.
#[derive(Clone, Debug, Default)]
pub struct MainStream {
    /// Traffic of all streams so far.
    total: u64,
    /// By stream: its traffic, and that of all up to its last request.
    by_stream: BTreeMap<u64, (u64, u64)>,
    /// Streams with allocations that outlive the last piece.
    live: BTreeSet<u64>,
}

impl MainStream {
    /// Takes in the next piece, of which `carried` rows were in the one before.
    pub fn take(&mut self, history: &History, carried: usize) {
        let (ranges, rows) = (&history.ranges, &history.allocations);
        let is_default = |range: &usize| ranges.pools[*range] == PoolId::DEFAULT;
        for range in (0..ranges.len()).filter(is_default) {
            self.by_stream.entry(ranges.streams[range]).or_default();
        }
        self.live.clear();
        for row in 0..rows.len() {
            let range = rows.ranges[row] as usize;
            if range >= ranges.len() || !is_default(&range) {
                continue;
            }
            let stream = ranges.streams[range];
            if rows.free_completed_events[row] == NONE {
                self.live.insert(stream);
            }
            if row >= carried {
                self.total = self.total.saturating_add(rows.block_bytes[row]);
                let (traffic, until) = self.by_stream.entry(stream).or_default();
                *traffic = traffic.saturating_add(rows.block_bytes[row]);
                *until = self.total;
            }
        }
    }

    /// The main stream, after the last piece.
    #[must_use]
    pub fn main(&self) -> u64 {
        let (rows, later): (Vec<_>, Vec<_>) = self
            .by_stream
            .iter()
            .map(|(&stream, &(traffic_bytes, until))| {
                let is_live_at_end = self.live.contains(&stream);
                (
                    StreamUse { stream, traffic_bytes, is_live_at_end, ..StreamUse::default() },
                    self.total - until,
                )
            })
            .unzip();
        if rows.len() < 2 { rows.first().map_or(0, |row| row.stream) } else { main_of(&rows, &later) }
    }
}

fn main_of(rows: &[StreamUse], later: &[u64]) -> u64 {
    let is_given_up = |(row, &later): (&StreamUse, &u64)| {
        !row.is_live_at_end && later > 0 && later >= row.traffic_bytes / OUTDONE_PART
    };
    // Of equals the lowest: `max_by_key` keeps the last.
    let most = |kept: &dyn Fn(&(&StreamUse, &u64)) -> bool| {
        let rows = rows.iter().zip(later).rev().filter(kept);
        rows.max_by_key(|(row, _)| row.traffic_bytes).map(|(row, _)| row.stream)
    };
    most(&|pair| !is_given_up(*pair)).or_else(|| most(&|_| true)).unwrap_or(0)
}

impl Streams {
    /// What `stream` does; nothing for one that is not there.
    #[must_use]
    pub fn get(&self, stream: u64) -> StreamUse {
        let found = self.rows.iter().find(|row| row.stream == stream);
        found.copied().unwrap_or(StreamUse { stream, ..StreamUse::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Trace, TraceBuilder};
    use crate::rebuild::rebuild;

    const GIB: u64 = 1 << 30;
    const A: u64 = 0x7000_0000_0000;

    fn of(trace: &Trace) -> Streams {
        streams(&rebuild(trace, &trace.devices[0]))
    }

    /// `count` segments of a GiB on `stream`, each used `rounds` times; the last use is kept if asked.
    fn filled(mut builder: TraceBuilder, stream: u64, count: u64, rounds: u64, kept: bool) -> TraceBuilder {
        builder = builder.stream(stream);
        for index in 0..count {
            let at = A + (stream << 40) + index * 2 * GIB;
            builder = builder.segment_alloc(at, GIB);
            for round in 1..=rounds {
                builder = builder.alloc(at, GIB);
                if round < rounds || !kept {
                    builder = builder.free(at, GIB);
                }
            }
        }
        builder
    }

    #[test]
    fn the_main_stream_has_most_traffic() {
        let trace = filled(filled(TraceBuilder::new(), 9, 4, 1, false), 3, 6, 1, true).build();
        let found = of(&trace);
        assert_eq!((found.main, found.rows.len()), (3, 2));
        let side = found.get(9);
        assert_eq!((side.traffic_bytes, side.is_live_at_end), (4 * GIB, false));
        assert_eq!((side.last_alloc, side.last_use), (Some(13), Some(15)));
        assert_eq!(found.get(3).first_alloc, Some(17));
    }

    #[test]
    fn a_stream_that_was_given_up_is_not_the_main_one() {
        let busy = filled(TraceBuilder::new(), 9, 4, 8, false);
        assert_eq!(of(&filled(busy.clone(), 0, 4, 1, true).build()).main, 0);
        // Hardly anything happens elsewhere afterwards.
        assert_eq!(of(&filled(busy, 0, 1, 1, true).build()).main, 9);
        // What is live at the end is in use.
        let alive = filled(TraceBuilder::new(), 9, 4, 8, true);
        assert_eq!(of(&filled(alive, 0, 8, 1, false).build()).main, 9);
    }

    #[test]
    fn one_stream_is_the_main_one_and_none_is_the_default_stream() {
        assert_eq!(of(&filled(TraceBuilder::new(), 5, 1, 1, true).build()).main, 5);
        assert_eq!(streams(&History::default()), Streams::default());
    }
}
