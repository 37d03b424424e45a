//! From blocks to what is drawn: a block each, or runs of those that are too narrow.
//!
//! Owns the merging: a run is as wide as its blocks together and has the colour of the largest. How many blocks it
//! stands for, and how much of it is in use, is exact. Knows no SVG.

use super::segment_rows::Piece;
use crate::report::pictures::{MapBlock, MapState};

/// A block, or a run of narrow ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Bytes from the beginning of the piece.
    pub(super) from: u64,
    /// Bytes that are drawn: of a block at the edge of a row only a part.
    pub(super) bytes: u64,
    /// The block itself, or the largest one.
    pub(super) largest: MapBlock,
    /// Blocks in the run.
    pub(super) blocks: u64,
    /// Bytes of those in use.
    pub(super) in_use_bytes: u64,
    /// Bytes of those that wait for a stream.
    pub(super) pending_bytes: u64,
    /// Bytes of the free ones.
    pub(super) free_bytes: u64,
}

/// What to draw of `piece` when nothing narrower than `least` bytes can be drawn.
pub(super) fn runs(piece: &Piece<'_>, least: u64) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut open: Option<Run> = None;
    let end = piece.from.saturating_add(piece.bytes);
    let mut at = 0u64;
    for block in piece.shown.blocks() {
        let block_end = at.saturating_add(block.bytes);
        let (from, to) = (at.max(piece.from), block_end.min(end));
        at = block_end;
        if from >= to {
            continue;
        }
        let run = Run::of(*block, from - piece.from, to - from);
        if run.bytes >= least {
            runs.extend(open.take());
            runs.push(run);
            continue;
        }
        let joined = open.map_or(run, |open| open.join(&run));
        if joined.bytes >= least {
            runs.push(joined);
            open = None;
        } else {
            open = Some(joined);
        }
    }
    runs.extend(open);
    runs
}

impl Run {
    fn of(block: MapBlock, from: u64, bytes: u64) -> Self {
        let part = |state| if block.state == state { bytes } else { 0 };
        Self {
            from,
            bytes,
            largest: block,
            blocks: 1,
            in_use_bytes: part(MapState::InUse),
            pending_bytes: part(MapState::Pending),
            free_bytes: part(MapState::Free),
        }
    }

    fn join(self, next: &Self) -> Self {
        Self {
            from: self.from,
            bytes: self.bytes.saturating_add(next.bytes),
            largest: if next.largest.bytes > self.largest.bytes { next.largest } else { self.largest },
            blocks: self.blocks + next.blocks,
            in_use_bytes: self.in_use_bytes.saturating_add(next.in_use_bytes),
            pending_bytes: self.pending_bytes.saturating_add(next.pending_bytes),
            free_bytes: self.free_bytes.saturating_add(next.free_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::segment_rows::Shown;
    use super::*;
    use crate::report::pictures::MapSegment;
    use proptest::prelude::*;

    fn block(bytes: u64, state: MapState) -> MapBlock {
        MapBlock { bytes, state, rank: Some(bytes as u32), requested_bytes: 0 }
    }

    fn piece(segment: &MapSegment, from: u64, bytes: u64) -> Piece<'_> {
        Piece { shown: Shown::Segment(segment), x: 0.0, from, bytes }
    }

    #[test]
    fn narrow_neighbours_are_one_run_in_the_colour_of_the_largest() {
        let sizes = [100, 1, 3, 2, 100, 1];
        let blocks: Vec<MapBlock> = sizes.iter().map(|&bytes| block(bytes, MapState::InUse)).collect();
        let segment = MapSegment { bytes: 207, blocks, ..MapSegment::default() };
        let shown: Vec<_> = runs(&piece(&segment, 0, 207), 6)
            .iter()
            .map(|run| (run.from, run.bytes, run.blocks, run.largest.bytes))
            .collect();
        assert_eq!(shown, [(0, 100, 1, 100), (100, 6, 3, 3), (106, 100, 1, 100), (206, 1, 1, 1)]);
    }

    #[test]
    fn a_block_at_the_edge_of_a_row_is_cut() {
        let segment =
            MapSegment { bytes: 50, blocks: vec![block(50, MapState::Free)], ..MapSegment::default() };
        let run = runs(&piece(&segment, 20, 20), 1)[0];
        assert_eq!((run.from, run.bytes, run.free_bytes, run.largest.bytes), (0, 20, 20, 50));
    }

    proptest! {
        #[test]
        fn runs_tile_their_piece_and_lose_nothing(
            sizes in prop::collection::vec((1u64..50, 0usize..3), 1..60),
            least in 1u64..80,
        ) {
            let states = [MapState::InUse, MapState::Pending, MapState::Free];
            let blocks: Vec<MapBlock> = sizes.iter().map(|&(bytes, state)| block(bytes, states[state])).collect();
            let bytes = sizes.iter().map(|size| size.0).sum();
            let segment = MapSegment { bytes, blocks, ..MapSegment::default() };
            let runs = runs(&piece(&segment, 0, bytes), least);
            let mut at = 0;
            for run in &runs {
                prop_assert_eq!(run.from, at);
                prop_assert_eq!(run.in_use_bytes + run.pending_bytes + run.free_bytes, run.bytes);
                at += run.bytes;
            }
            prop_assert_eq!(at, bytes);
            prop_assert_eq!(runs.iter().map(|run| run.blocks).sum::<u64>(), sizes.len() as u64);
            let free: u64 = sizes.iter().filter(|size| size.1 == 2).map(|size| size.0).sum();
            prop_assert_eq!(runs.iter().map(|run| run.free_bytes).sum::<u64>(), free);
        }
    }
}
