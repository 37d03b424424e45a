//! Where segments stand in the map: rows of one scale, the largest segments first.
//!
//! Owns the scale, the packing, and which segments are too narrow to be drawn one by one: these are summed up in
//! one bar, to scale too, but not by address. Knows no colours and no SVG.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::report::pictures::{MapBlock, MapSegment, MapState};
use crate::units::{Bytes, Count};

/// Width of a row in pixels.
pub(super) const ROW_WIDTH: f64 = 644.0;
/// Rows at most, headings not counted.
const MOST_ROWS: u64 = 26;
/// Pools with rows of their own.
const MOST_POOLS: usize = 8;
/// Narrower segments are summed up, in pixels.
const NARROWEST: f64 = 5.0;
/// Between two segments of a row, in pixels.
const GAP: f64 = 3.0;
const SMALLEST_ROW: u64 = 1 << 20;

/// The map's segments in rows.
#[derive(Debug, Default)]
pub(super) struct Map<'a> {
    /// Bytes of a full row.
    pub(super) row_bytes: u64,
    pub(super) pools: Vec<Pool<'a>>,
}

/// Segments that serve the same requests.
#[derive(Debug)]
pub(super) struct Pool<'a> {
    /// What it is called, and its sums.
    pub(super) heading: String,
    pub(super) rows: Vec<Vec<Piece<'a>>>,
    /// Segments that were summed up, and their bytes.
    pub(super) summed: (u64, u64),
}

/// A segment, or the part of it that stands in one row.
#[derive(Clone, Debug)]
pub(super) struct Piece<'a> {
    pub(super) shown: Shown<'a>,
    /// Left edge in pixels.
    pub(super) x: f64,
    /// Where it begins in the segment.
    pub(super) from: u64,
    pub(super) bytes: u64,
}

/// What a piece is of.
#[derive(Clone, Debug)]
pub(super) enum Shown<'a> {
    Segment(&'a MapSegment),
    /// Blocks of several segments by line.
    Sum(Vec<MapBlock>, u64),
}

impl Shown<'_> {
    pub(super) fn blocks(&self) -> &[MapBlock] {
        match self {
            Self::Segment(segment) => &segment.blocks,
            Self::Sum(blocks, _) => blocks,
        }
    }
}

impl Map<'_> {
    /// Pixels of `bytes`.
    pub(super) fn pixels(&self, bytes: u64) -> f64 {
        bytes as f64 / self.row_bytes.max(1) as f64 * ROW_WIDTH
    }

    fn rows(&self) -> usize {
        self.pools.iter().map(|pool| pool.rows.len()).sum()
    }
}

/// All of `segments`, at the finest scale that has room for them.
pub(super) fn map(segments: &[MapSegment]) -> Map<'_> {
    let pools = pools(segments);
    let mut row_bytes = SMALLEST_ROW;
    loop {
        let map = Map { row_bytes, pools: Vec::new() };
        // More bytes than rows can hold need not be packed to know that they do not fit.
        let bytes = segments.iter().fold(0u64, |sum, segment| sum.saturating_add(segment.bytes));
        if bytes / row_bytes <= MOST_ROWS || row_bytes > u64::MAX / 4 {
            let map = Map { pools: pools.iter().map(|(name, of)| pool(name, of, &map)).collect(), ..map };
            if map.rows() as u64 <= MOST_ROWS.max(pools.len() as u64) || row_bytes > u64::MAX / 4 {
                return map;
            }
        }
        row_bytes *= 2;
    }
}

/// Private pool, stream, and whether it is for small blocks.
type Wall = ((u64, u64), u64, bool);

type PoolOf<'a> = (String, Vec<&'a MapSegment>);

/// Segments by the walls between them, the pools with most bytes first.
fn pools(segments: &[MapSegment]) -> Vec<PoolOf<'_>> {
    let mut by_wall: BTreeMap<Wall, Vec<&MapSegment>> = BTreeMap::new();
    for segment in segments {
        by_wall.entry((segment.pool, segment.stream, segment.is_small)).or_default().push(segment);
    }
    let bytes = |of: &[&MapSegment]| of.iter().fold(0u64, |sum, segment| sum.saturating_add(segment.bytes));
    let one_stream = segments.iter().all(|segment| segment.stream == segments[0].stream);
    let mut pools: Vec<PoolOf> = by_wall
        .into_iter()
        .map(|((pool, stream, is_small), of)| {
            let mut name = if is_small { "small blocks" } else { "large blocks" }.to_owned();
            if pool != (0, 0) {
                name.push_str(&format!(" of private pool ({}, {})", pool.0, pool.1));
            }
            if !one_stream {
                name.push_str(&if stream == 0 {
                    ", stream 0".to_owned()
                } else {
                    format!(", stream {stream:#x}")
                });
            }
            (name, of)
        })
        .collect();
    pools.sort_by_key(|(_, of)| Reverse(bytes(of)));
    if pools.len() > MOST_POOLS {
        let rest: Vec<PoolOf> = pools.drain(MOST_POOLS - 1..).collect();
        let name = format!("{} other pools and streams", Count(rest.len() as u64));
        pools.push((name, rest.into_iter().flat_map(|(_, of)| of).collect()));
    }
    pools
}

fn pool<'a>(name: &str, segments: &[&'a MapSegment], map: &Map<'_>) -> Pool<'a> {
    let bytes = segments.iter().fold(0u64, |sum, segment| sum.saturating_add(segment.bytes));
    let count = segments.len() as u64;
    let plural = if count == 1 { "segment" } else { "segments" };
    let heading = format!("{name}: {} {plural}, {}", Count(count), Bytes(bytes));
    let (mut drawn, narrow): (Vec<_>, Vec<_>) =
        segments.iter().copied().partition(|segment| map.pixels(segment.bytes) >= NARROWEST);
    drawn.sort_by_key(|segment| (Reverse(segment.bytes), segment.address));
    let mut packing = Packing { map, rows: Vec::new(), ends: Vec::new() };
    for segment in drawn {
        packing.add(&Shown::Segment(segment), segment.bytes);
    }
    let summed_bytes = narrow.iter().fold(0u64, |sum, segment| sum.saturating_add(segment.bytes));
    if !narrow.is_empty() {
        packing.add(&Shown::Sum(sum(&narrow), narrow.len() as u64), summed_bytes);
    }
    Pool { heading, rows: packing.rows, summed: (narrow.len() as u64, summed_bytes) }
}

/// The blocks of `segments` as one per line: in use by rank, then pending, then free; wholly free segments last.
fn sum(segments: &[&MapSegment]) -> Vec<MapBlock> {
    let mut sums: BTreeMap<(MapState, bool, u32), MapBlock> = BTreeMap::new();
    for segment in segments {
        let is_free = segment.blocks.iter().all(|block| block.state == MapState::Free);
        for block in &segment.blocks {
            let key = (block.state, is_free, block.rank.unwrap_or(u32::MAX));
            let entry = sums.entry(key).or_insert(MapBlock { bytes: 0, requested_bytes: 0, ..*block });
            entry.bytes = entry.bytes.saturating_add(block.bytes);
            entry.requested_bytes = entry.requested_bytes.saturating_add(block.requested_bytes);
        }
    }
    sums.into_values().collect()
}

/// First fit, in the order given.
struct Packing<'a, 'm> {
    map: &'m Map<'m>,
    rows: Vec<Vec<Piece<'a>>>,
    /// Where each row's last piece ends, in pixels.
    ends: Vec<f64>,
}

impl<'a> Packing<'a, '_> {
    fn add(&mut self, shown: &Shown<'a>, bytes: u64) {
        let mut from = 0;
        // What is longer than a row begins in a new one and goes on in the next ones.
        while bytes - from > self.map.row_bytes {
            self.place(Piece { shown: shown.clone(), x: 0.0, from, bytes: self.map.row_bytes });
            from += self.map.row_bytes;
        }
        let width = self.map.pixels(bytes - from);
        let fits = |&row: &usize| self.ends[row] + GAP + width <= ROW_WIDTH;
        let row = if from > 0 { None } else { (0..self.rows.len()).find(fits) };
        let piece = Piece { shown: shown.clone(), x: 0.0, from, bytes: bytes - from };
        match row {
            Some(row) => {
                let x = self.ends[row] + GAP;
                self.rows[row].push(Piece { x, ..piece });
                self.ends[row] = x + width;
            }
            None => self.place(piece),
        }
    }

    fn place(&mut self, piece: Piece<'a>) {
        self.ends.push(self.map.pixels(piece.bytes));
        self.rows.push(vec![piece]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn segment(address: u64, mib: u64, is_small: bool) -> MapSegment {
        let block = MapBlock { bytes: mib * MIB, state: MapState::InUse, rank: Some(0), requested_bytes: 1 };
        MapSegment { address, bytes: mib * MIB, is_small, blocks: vec![block], ..MapSegment::default() }
    }

    fn drawn_bytes(map: &Map<'_>) -> u64 {
        map.pools.iter().flat_map(|pool| pool.rows.iter().flatten()).map(|piece| piece.bytes).sum()
    }

    #[test]
    fn every_byte_stands_in_one_row_and_no_row_overflows() {
        let sizes = [500, 20, 20, 96, 33, 2, 1, 1, 64, 250];
        let segments: Vec<MapSegment> =
            sizes.iter().enumerate().map(|(at, &mib)| segment(at as u64, mib, mib <= 2)).collect();
        let map = map(&segments);
        assert_eq!(drawn_bytes(&map), sizes.iter().sum::<u64>() * MIB);
        assert!(map.rows() as u64 <= MOST_ROWS, "{}", map.rows());
        for row in map.pools.iter().flat_map(|pool| &pool.rows) {
            let last = row.last().unwrap();
            assert!(last.x + map.pixels(last.bytes) <= ROW_WIDTH + 1e-6);
        }
        assert!(map.pools[0].heading.starts_with("large blocks: 7 segments, 983.0 MiB"));
    }

    #[test]
    fn a_long_segment_goes_on_in_the_next_rows() {
        let segments = [segment(0, 40, false)];
        let map = map(&segments);
        assert_eq!(map.row_bytes, 2 * MIB);
        let froms: Vec<u64> = map.pools[0].rows.iter().map(|row| row[0].from / MIB).collect();
        assert_eq!((froms.len(), froms[19]), (20, 38));
    }

    #[test]
    fn narrow_segments_are_summed_up_by_line() {
        let mut segments = vec![segment(0, 40_000, false)];
        segments.extend((0..300).map(|n| segment(1 << 40 | n, 2, true)));
        let map = map(&segments);
        let small = &map.pools[1];
        assert_eq!(small.summed, (300, 600 * MIB));
        assert!(matches!(&small.rows[0][0].shown, Shown::Sum(blocks, 300) if blocks.len() == 1));
        assert_eq!(drawn_bytes(&map), 40_600 * MIB);
    }

    #[test]
    fn absurd_sizes_and_many_streams_end_in_a_picture() {
        let segments: Vec<MapSegment> = (0..1000)
            .map(|n| MapSegment { stream: n, bytes: u64::MAX / 3, ..segment(n, 1, false) })
            .collect();
        let map = map(&segments);
        assert_eq!(map.pools.len(), MOST_POOLS);
        assert!(map.rows() < 4000);
        assert!(super::map(&[]).pools.is_empty());
    }
}
