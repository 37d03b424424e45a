//! The allocator's segments in the driver's memory.
//!
//! Owns which taking (or mapping) is which segment: same address, same bytes, and of several in turn the one nearest in
//! time. Both layers are of one process and one clock. Decides nothing: what has no counterpart is counted.

use std::collections::BTreeMap;

use crate::model::{DeviceId, DriverRow, Segment};

use super::Memory;
use super::takings::{Ending, Takings};

/// A segment, or a range of an expandable one, as the allocator's events tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Obtained {
    /// First address.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// Unix microseconds of the event that obtained it; `None` for one from before the events.
    pub time_us: Option<i64>,
}

/// What belongs together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Join {
    /// Segments and ranges that events obtained.
    pub segments: u64,
    /// Those that are driver memory.
    pub matched: u64,
    /// Bytes of these.
    pub matched_bytes: u64,
    /// Segments held at the end.
    pub live_segments: u64,
    /// Their bytes.
    pub live_bytes: u64,
    /// Those that are driver memory which is live at the end.
    pub live_matched: u64,
    /// Bytes of these.
    pub live_matched_bytes: u64,
    /// Whether each taking is a segment, or behind one.
    pub is_segment: Vec<bool>,
}

/// One piece of driver memory at an address.
#[derive(Clone, Copy)]
struct Piece {
    bytes: u64,
    time_us: i64,
    taking: Option<u32>,
    is_live: bool,
    is_used: bool,
}

impl Join {
    /// Joins what the allocator of `device` obtained, and the segments that it holds at the end, with what was taken.
    #[must_use]
    pub fn of(
        rows: &[DriverRow],
        takings: &Takings,
        device: DeviceId,
        obtained: &[Obtained],
        live: &[Segment],
    ) -> Self {
        let mut pieces = pieces(rows, takings, device);
        let mut join = Self { is_segment: vec![false; takings.all.len()], ..Self::default() };
        for segment in obtained {
            join.segments += 1;
            let found = behind(&mut pieces, segment);
            if !found.is_empty() {
                join.matched += 1;
                join.matched_bytes += segment.bytes;
                join.mark(&found);
            }
        }
        for segment in live {
            join.live_segments += 1;
            join.live_bytes += segment.bytes;
            let tiles = tiles(&pieces, segment);
            if !tiles.is_empty() {
                join.live_matched += 1;
                join.live_matched_bytes += segment.bytes;
                join.mark(&tiles);
            }
        }
        join
    }

    fn mark(&mut self, takings: &[Option<u32>]) {
        for taking in takings.iter().flatten() {
            if let Some(is_segment) = self.is_segment.get_mut(*taking as usize) {
                *is_segment = true;
            }
        }
    }
}

/// What has an address, by address, in the order of calls.
fn pieces(rows: &[DriverRow], takings: &Takings, device: DeviceId) -> BTreeMap<u64, Vec<Piece>> {
    let mut pieces: BTreeMap<u64, Vec<Piece>> = BTreeMap::new();
    let time_of = |row: u32| rows.get(row as usize).map_or(0, |row| row.time_us);
    for (number, taking) in takings.all.iter().enumerate() {
        if taking.device == device && matches!(taking.memory, Memory::Device | Memory::Pool) {
            let is_live = taking.ending == Ending::Kept;
            let (bytes, time_us, taking_number) = (taking.bytes, time_of(taking.row), Some(number as u32));
            let piece = Piece { bytes, time_us, taking: taking_number, is_live, is_used: false };
            pieces.entry(taking.address).or_default().push(piece);
        }
    }
    for mapping in &takings.mappings {
        let is_here = mapping.taking.is_none_or(|taking| takings.all[taking as usize].device == device);
        if is_here {
            let is_live = mapping.until as usize >= rows.len();
            let (bytes, time_us, taking) = (mapping.bytes, time_of(mapping.row), mapping.taking);
            let piece = Piece { bytes, time_us, taking, is_live, is_used: false };
            pieces.entry(mapping.address).or_default().push(piece);
        }
    }
    pieces
}

/// The pieces behind what was obtained, now used: one of the same size, or mappings that tile it, each the nearest in time
/// that is no other segment's. None if there is a gap.
fn behind(pieces: &mut BTreeMap<u64, Vec<Piece>>, segment: &Obtained) -> Vec<Option<u32>> {
    let end = segment.address.saturating_add(segment.bytes);
    let (mut at, mut places) = (segment.address, Vec::new());
    while at < end {
        let found = pieces.get(&at).and_then(|here| nearest(here, end - at, segment.time_us));
        let Some((place, bytes)) = found else { return Vec::new() };
        places.push((at, place));
        at += bytes;
    }
    let mut takings = Vec::new();
    for (address, place) in places {
        if let Some(piece) = pieces.get_mut(&address).and_then(|here| here.get_mut(place)) {
            piece.is_used = true;
            takings.push(piece.taking);
        }
    }
    takings
}

/// Which of `here` is nearest to `time_us` and of at most `most` bytes, and its bytes; of two as near, the earlier. What
/// was taken before the events has no time: of that the latest.
fn nearest(here: &[Piece], most: u64, time_us: Option<i64>) -> Option<(usize, u64)> {
    // Pieces are in the order of calls, so a few on either side of the moment will do.
    let from = time_us.map_or(here.len(), |time| here.partition_point(|piece| piece.time_us <= time));
    let near = from.saturating_sub(NEAR)..here.len().min(from + NEAR);
    let fits = |place: &usize| {
        let piece = &here[*place];
        piece.bytes > 0 && piece.bytes <= most && !piece.is_used
    };
    let distance = |place: &usize| match time_us {
        Some(time) => time.abs_diff(here[*place].time_us),
        None => (here.len() - place) as u64,
    };
    let place = near.filter(fits).min_by_key(distance)?;
    Some((place, here[place].bytes))
}

/// How many pieces at the same address are looked at on either side of a moment.
const NEAR: usize = 64;

/// The live pieces that make up `segment` without a gap; none if they do not.
fn tiles(pieces: &BTreeMap<u64, Vec<Piece>>, segment: &Segment) -> Vec<Option<u32>> {
    let end = segment.address.saturating_add(segment.bytes);
    let (mut at, mut found) = (segment.address, Vec::new());
    while at < end {
        let live = pieces.get(&at).and_then(|here| here.iter().rev().take(NEAR).find(|piece| piece.is_live));
        match live {
            Some(piece) if piece.bytes > 0 && at.saturating_add(piece.bytes) <= end => {
                found.push(piece.taking);
                at += piece.bytes;
            }
            _ => return Vec::new(),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::samples::Calls;
    use crate::model::DriverCall;

    const MIB: u64 = 1 << 20;

    fn segment(address: u64, bytes: u64) -> Segment {
        Segment { address, bytes, ..Segment::default() }
    }

    fn obtained(address: u64, bytes: u64, time_us: i64) -> Obtained {
        Obtained { address, bytes, time_us: Some(time_us) }
    }

    #[test]
    fn segments_are_found_again_at_addresses_that_come_again() {
        let calls = Calls::default()
            .at(0x10_0000)
            .take(DriverCall::DeviceAlloc, 2 * MIB)
            .at(0x10_0000)
            .give(DriverCall::DeviceFree)
            .at(0x10_0000)
            .take(DriverCall::DeviceAlloc, 2 * MIB)
            .at(0x90_0000)
            .take(DriverCall::DeviceAlloc, 4 * MIB);
        let takings = Takings::of(&calls.rows);
        let events = [obtained(0x10_0000, 2 * MIB, 1_000_021), obtained(0x50_0000, 2 * MIB, 1_000_030)];
        let join = Join::of(&calls.rows, &takings, DeviceId(0), &events, &[segment(0x10_0000, 2 * MIB)]);
        assert_eq!((join.segments, join.matched, join.matched_bytes), (2, 1, 2 * MIB));
        assert_eq!((join.live_segments, join.live_matched), (1, 1));
        assert_eq!(
            join.is_segment,
            [false, true, false],
            "the second at that address, and nothing of another size"
        );
    }

    #[test]
    fn each_taking_is_one_segment_only() {
        let calls = Calls::default().at(0x10_0000).take(DriverCall::DeviceAlloc, 2 * MIB);
        let takings = Takings::of(&calls.rows);
        let twice = [obtained(0x10_0000, 2 * MIB, 1_000_000), obtained(0x10_0000, 2 * MIB, 1_000_001)];
        let join = Join::of(&calls.rows, &takings, DeviceId(0), &twice, &[]);
        assert_eq!((join.segments, join.matched), (2, 1));
        assert_eq!(Join::of(&calls.rows, &takings, DeviceId(1), &twice, &[]).matched, 0, "another device");
    }

    #[test]
    fn expandable_segments_are_tiled_by_mappings() {
        let mut calls = Calls::default();
        for number in 0..3 {
            calls = calls
                .handle(number + 1)
                .take(DriverCall::Create, 2 * MIB)
                .handle(number + 1)
                .at(0x10_0000 + number * 2 * MIB)
                .map(2 * MIB);
        }
        let takings = Takings::of(&calls.rows);
        let whole = segment(0x10_0000, 6 * MIB);
        let join = Join::of(&calls.rows, &takings, DeviceId(0), &[], std::slice::from_ref(&whole));
        assert_eq!((join.live_matched, join.live_matched_bytes), (1, 6 * MIB));
        assert_eq!(join.is_segment, [true; 3]);
        let in_one =
            [obtained(0x10_0000, 4 * MIB, 1_000_040), obtained(0x10_0000 + 4 * MIB, 2 * MIB, 1_000_055)];
        let by_events = Join::of(&calls.rows, &takings, DeviceId(0), &in_one, &[]);
        assert_eq!((by_events.matched, by_events.matched_bytes), (2, 6 * MIB));
        let calls = calls.at(0x10_0000 + 2 * MIB).unmap(2 * MIB);
        let with_a_gap = Join::of(&calls.rows, &Takings::of(&calls.rows), DeviceId(0), &[], &[whole]);
        assert_eq!((with_a_gap.live_matched, with_a_gap.is_segment), (0, vec![false; 3]));
    }
}
