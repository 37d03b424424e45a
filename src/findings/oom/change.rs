//! The smallest change that would have made a failed request fit.
//!
//! Owns two ways to serve a request, and what each costs in live blocks that would have to go: a hole opens in a
//! segment that the request may use, or whole segments become free, so that the allocator gives them back and
//! the driver can be asked again. The first is found exactly; for the second, the fewest bytes are a knapsack
//! problem, and the better of two greedy orders is taken.

use crate::model::{BlockState, PoolId};
use crate::rebuild::{State, StateBlock, StateSegment};

use super::sums::Asker;
use super::verdict::Verdict;

/// A failed request, as far as serving it is concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need<'a> {
    pub(super) asker: Asker<'a>,
    /// What the driver is asked for.
    pub(super) segment_bytes: u64,
    /// What the driver would still have given.
    pub(super) room_bytes: u64,
}

/// How the request would have been served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From one hole inside a segment.
    Hole,
    /// From a new segment, after this many whole ones went back to the driver.
    Segments(u64),
}

/// Live blocks without which the request would have been served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// How.
    pub(crate) way: Way,
    /// Rows of the blocks, with their bytes.
    pub(crate) blocks: Vec<(usize, u64)>,
    /// Bytes of these blocks.
    pub(crate) bytes: u64,
}

impl<'a> Need<'a> {
    pub(super) fn new(asker: Asker<'a>, verdict: &Verdict) -> Self {
        let (segment_bytes, room_bytes) = (verdict.sums.segment_bytes, verdict.room_bytes());
        Self { asker, segment_bytes, room_bytes }
    }

    /// The way that costs the fewest live bytes; `None` when neither exists.
    pub(crate) fn smallest_change(self, state: &State) -> Option<Change> {
        let (hole, segments) = (self.hole(state), self.segments(state));
        match (hole, segments) {
            (Some(hole), Some(segments)) => Some(if segments.bytes < hole.bytes { segments } else { hole }),
            (hole, segments) => hole.or(segments),
        }
    }

    /// Whether the request would have been served without the blocks that `goes` names.
    pub(crate) fn fits_without(self, state: &State, goes: impl Fn(usize) -> bool) -> bool {
        let is_free =
            |block: &StateBlock| block.state == BlockState::Inactive || goes(block.allocation as usize);
        let mut room = self.room_bytes;
        for segment in &state.segments {
            let (mut run, mut is_wholly_free) = (0_u64, true);
            let usable = self.asker.may_use(segment);
            for block in &segment.blocks {
                run = if is_free(block) { run.saturating_add(block.bytes) } else { 0 };
                is_wholly_free &= run > 0;
                if usable && run >= self.asker.oom.size {
                    return true;
                }
            }
            if is_wholly_free && segment.pool == PoolId::DEFAULT {
                room = room.saturating_add(segment.bytes);
            }
        }
        room >= self.segment_bytes
    }

    /// The stretch of neighbouring blocks with the fewest live bytes in it that is large enough.
    fn hole(self, state: &State) -> Option<Change> {
        let wanted = self.asker.oom.size;
        let mut best: Option<(u64, &[StateBlock])> = None;
        for segment in
            state.segments.iter().filter(|segment| segment.bytes >= wanted && self.asker.may_use(segment))
        {
            let (mut from, mut length, mut live) = (0, 0_u64, 0_u64);
            for (to, block) in segment.blocks.iter().enumerate() {
                length = length.saturating_add(block.bytes);
                live = live.saturating_add(live_bytes(block));
                // A shorter stretch that still suffices never holds more live bytes.
                while length - segment.blocks[from].bytes >= wanted {
                    length -= segment.blocks[from].bytes;
                    live -= live_bytes(&segment.blocks[from]);
                    from += 1;
                }
                if length >= wanted && best.is_none_or(|(least, _)| live < least) {
                    best = Some((live, &segment.blocks[from..=to]));
                }
            }
        }
        best.map(|(bytes, blocks)| Change { way: Way::Hole, blocks: live_blocks(blocks).collect(), bytes })
    }

    /// Segments whose emptying lets the driver give a new one.
    fn segments(self, state: &State) -> Option<Change> {
        let wanted = self.segment_bytes.saturating_sub(self.room_bytes);
        let default = state.segments.iter().filter(|segment| segment.pool == PoolId::DEFAULT);
        let mut costs: Vec<Cost<'_>> =
            default.map(|segment| (segment.blocks.iter().map(live_bytes).sum(), segment)).collect();
        let total = |chosen: &[Cost<'_>]| chosen.iter().map(|(live, _)| live).sum::<u64>();
        // The least live bytes for each byte of segment first, and the least live bytes first: whichever is
        // better. Addresses decide ties.
        let mut tries = Vec::new();
        costs.sort_by_key(|&(live, segment)| (live, std::cmp::Reverse(segment.bytes), segment.address));
        tries.extend(enough(&costs, wanted));
        tries.extend(costs.iter().find(|(_, segment)| segment.bytes >= wanted).map(|&single| vec![single]));
        costs.sort_by(|(a, left), (b, right)| {
            let (a, b) = (u128::from(*a) * u128::from(right.bytes), u128::from(*b) * u128::from(left.bytes));
            a.cmp(&b).then(right.bytes.cmp(&left.bytes)).then(left.address.cmp(&right.address))
        });
        tries.extend(enough(&costs, wanted));
        let taken = tries.into_iter().min_by_key(|chosen| (total(chosen), chosen.len()))?;
        let blocks = taken.iter().flat_map(|(_, segment)| live_blocks(&segment.blocks)).collect();
        Some(Change { way: Way::Segments(taken.len() as u64), blocks, bytes: total(&taken) })
    }
}

/// A segment with the live bytes in it.
type Cost<'a> = (u64, &'a StateSegment);

/// The first segments that reach `wanted` bytes together, less those that turn out to be needless, the last
/// first.
fn enough<'a>(costs: &[Cost<'a>], wanted: u64) -> Option<Vec<Cost<'a>>> {
    let mut sum = 0_u64;
    let last = costs.iter().position(|(_, segment)| {
        sum = sum.saturating_add(segment.bytes);
        sum >= wanted
    })?;
    let mut spare = sum - wanted;
    let mut kept = Vec::with_capacity(last + 1);
    for &(live, segment) in costs[..=last].iter().rev() {
        if segment.bytes <= spare {
            spare -= segment.bytes;
        } else {
            kept.push((live, segment));
        }
    }
    kept.reverse();
    Some(kept)
}

fn live_bytes(block: &StateBlock) -> u64 {
    if block.state == BlockState::Inactive { 0 } else { block.bytes }
}

fn live_blocks(blocks: &[StateBlock]) -> impl Iterator<Item = (usize, u64)> + '_ {
    let live = blocks.iter().filter(|block| block.state != BlockState::Inactive);
    live.map(|block| (block.allocation as usize, block.bytes))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;
    use crate::rebuild::{Moment, rebuild};
    use crate::simulate::Conf;

    const MIB: u64 = 1 << 20;
    const A: u64 = 0x7f00_0000_0000;

    /// A segment of blocks in MiB, negative ones freed before the failure.
    fn segment(mut run: TraceBuilder, at: u64, blocks: &[i64]) -> TraceBuilder {
        let total: u64 = blocks.iter().map(|mib| mib.unsigned_abs() * MIB).sum();
        run = run.segment_alloc(at, total);
        let mut here = at;
        for mib in blocks {
            run = run.alloc(here, mib.unsigned_abs() * MIB);
            here += mib.unsigned_abs() * MIB;
        }
        here = at;
        for mib in blocks {
            if *mib < 0 {
                run = run.free(here, mib.unsigned_abs() * MIB);
            }
            here += mib.unsigned_abs() * MIB;
        }
        run
    }

    /// `(way, live MiB)` of the smallest change for `wanted` MiB with `room` MiB left at the driver.
    fn change(run: TraceBuilder, wanted: u64, room: u64) -> Option<(Way, Vec<u64>)> {
        let trace = run.oom(wanted * MIB, room * MIB).build();
        let history = rebuild(&trace, &trace.devices[0]);
        let (oom, conf) = (&history.ooms[0], Conf::default());
        let asker = Asker { oom, pool: PoolId::DEFAULT, conf: &conf };
        let need = Need { asker, segment_bytes: wanted * MIB, room_bytes: room * MIB };
        let state = history.state_at(Moment(oom.event));
        let change = need.smallest_change(&state)?;
        assert!(need.fits_without(&state, |row| change.blocks.iter().any(|block| block.0 == row)));
        for left_out in &change.blocks {
            let rest = |row| row != left_out.0 && change.blocks.iter().any(|block| block.0 == row);
            assert!(!need.fits_without(&state, rest), "{left_out:?} is needless");
        }
        Some((change.way, change.blocks.iter().map(|block| block.1 / MIB).collect()))
    }

    #[test]
    fn the_stretch_with_the_fewest_live_bytes_opens_the_hole() {
        let run = segment(TraceBuilder::new(), A, &[50, -20, 3, -20, 40, -20, 2, -10, 60]);
        assert_eq!(change(run.clone(), 32, 0), Some((Way::Hole, vec![2])));
        assert_eq!(change(run, 43, 0), Some((Way::Hole, vec![3])));
    }

    #[test]
    fn small_segments_are_emptied_for_a_large_one() {
        let mut run = TraceBuilder::new();
        for index in 0..6 {
            run = segment(run, A + index * 64 * MIB, &[-15, 25 - index.cast_signed()]);
        }
        // 20 MiB are left at the driver: 39 + 37 + 36 (and 35) are the cheapest, and less would not do.
        let (way, blocks) = change(run.clone(), 100, 20).unwrap();
        assert_eq!((way, blocks.len()), (Way::Segments(3), 3));
        assert_eq!(change(run, 1000, 0), None);
    }

    #[test]
    fn one_cheap_segment_beats_several() {
        let run = segment(TraceBuilder::new(), A, &[-90, 10]);
        let run = segment(run, A + 1024 * MIB, &[-18, 2]);
        let run = segment(run, A + 2048 * MIB, &[-18, 2]);
        assert_eq!(change(run.clone(), 120, 60), Some((Way::Segments(1), vec![10])));
        assert_eq!(change(run, 122, 82), Some((Way::Segments(2), vec![2, 2])));
    }
}
