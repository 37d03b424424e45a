//! Whose blocks pin the stranded bytes.
//!
//! Owns one question: which groups' active blocks keep partly free segments from being returned. A row per
//! block joined with a row per segment, grouped twice: Polars' work.

use polars::prelude::*;

use crate::error::{Error, Result};
use crate::model::BlockState;
use crate::rebuild::{NONE, State};

use super::Grouping;
use super::fragmentation::SegmentBytes;

/// A group whose active blocks pin stranded bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pin {
    /// The group's number in the [`Grouping`]; `None` for blocks without a group.
    pub group: Option<u32>,
    /// Its allocated or pending blocks in segments with stranded bytes.
    pub blocks: u64,
    /// Their bytes.
    pub block_bytes: u64,
    /// Stranded bytes of the segments in which it has a block.
    pub stranded_bytes: u64,
    /// The part of it in segments that no other group pins: what would become releasable if this group's
    /// blocks were gone.
    pub sole_stranded_bytes: u64,
}

/// Groups that pin stranded bytes of `state`, most stranded bytes first.
pub(super) fn pins(state: &State, grouping: &Grouping) -> Result<Vec<Pin>> {
    let (blocks, segments) = (PinningBlocks::of(state, grouping), StrandedSegments::of(state));
    if segments.segment.is_empty() {
        return Ok(Vec::new());
    }
    let mut pins =
        grouped(blocks, segments).map_err(|error| Error::Table { table: "pins", what: error.to_string() })?;
    pins.sort_by_key(|pin| (std::cmp::Reverse((pin.stranded_bytes, pin.block_bytes)), pin.group));
    Ok(pins)
}

/// A row per active block of a segment with stranded bytes.
#[derive(Default)]
struct PinningBlocks {
    segment: Vec<u32>,
    group: Vec<u32>,
    bytes: Vec<u64>,
}

impl PinningBlocks {
    fn of(state: &State, grouping: &Grouping) -> Self {
        let mut rows = Self::default();
        for (number, segment) in (0..).zip(&state.segments) {
            if SegmentBytes::of(segment).stranded() == 0 {
                continue;
            }
            for block in segment.blocks.iter().filter(|block| block.state != BlockState::Inactive) {
                let group = grouping.of_allocation.get(block.allocation as usize).copied().unwrap_or(NONE);
                rows.segment.push(number);
                rows.group.push(group);
                rows.bytes.push(block.bytes);
            }
        }
        rows
    }
}

/// A row per segment with stranded bytes.
#[derive(Default)]
struct StrandedSegments {
    segment: Vec<u32>,
    stranded: Vec<u64>,
}

impl StrandedSegments {
    fn of(state: &State) -> Self {
        let mut rows = Self::default();
        for (number, segment) in (0..).zip(&state.segments) {
            let stranded = SegmentBytes::of(segment).stranded();
            if stranded > 0 {
                rows.segment.push(number);
                rows.stranded.push(stranded);
            }
        }
        rows
    }
}

fn grouped(blocks: PinningBlocks, segments: StrandedSegments) -> PolarsResult<Vec<Pin>> {
    let ones = vec![1_u64; blocks.bytes.len()];
    let blocks =
        df!("segment" => blocks.segment, "group" => blocks.group, "bytes" => blocks.bytes, "blocks" => ones)?;
    let segments = df!("segment" => segments.segment, "stranded" => segments.stranded)?;
    // A row per group and segment; then, per segment, how many groups pin it.
    let mut pairs = sum_by(&blocks, &["segment", "group"], &["bytes", "blocks"])?;
    pairs.with_column(Column::new("groups".into(), vec![1_u64; pairs.height()]))?;
    let pinned_by = sum_by(&pairs, &["segment"], &["groups"])?;
    let pairs = pairs.drop("groups")?.inner_join(&segments, ["segment"], ["segment"])?;
    let mut pairs = pairs.inner_join(&pinned_by, ["segment"], ["segment"])?;
    let sole: Vec<u64> = (pairs.column("stranded")?.u64()?.iter())
        .zip(pairs.column("groups")?.u64()?.iter())
        .map(|(stranded, groups)| stranded.filter(|_| groups == Some(1)).unwrap_or(0))
        .collect();
    pairs.with_column(Column::new("sole".into(), sole))?;
    let rows = sum_by(&pairs, &["group"], &["blocks", "bytes", "stranded", "sole"])?;
    let column = |name: &str| -> PolarsResult<Vec<u64>> {
        Ok(rows.column(name)?.u64()?.iter().map(Option::unwrap_or_default).collect())
    };
    let (counts, bytes) = (column("blocks")?, column("bytes")?);
    let (stranded, sole) = (column("stranded")?, column("sole")?);
    Ok((rows.column("group")?.u32()?.iter().enumerate())
        .map(|(row, group)| Pin {
            group: group.filter(|&group| group != NONE),
            blocks: counts[row],
            block_bytes: bytes[row],
            stranded_bytes: stranded[row],
            sole_stranded_bytes: sole[row],
        })
        .collect())
}

/// Sums `columns` (64-bit) over equal `keys`, in order of first appearance. Columns keep their names.
#[expect(
    deprecated,
    reason = "the lazy engine would bring streaming, and with it an HTTP client, into an offline tool"
)]
fn sum_by(frame: &DataFrame, keys: &[&str], columns: &[&str]) -> PolarsResult<DataFrame> {
    let mut sums = frame.group_by_stable(keys.iter().copied())?.select(columns.iter().copied()).sum()?;
    for &column in columns {
        sums.rename(&format!("{column}_sum"), column.into())?;
    }
    Ok(sums)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::fragmentation::samples::{grouping, segment, state};
    use super::*;

    #[test]
    fn a_group_answers_for_the_segments_in_which_it_has_a_block() {
        let pins = pins(&state(), &grouping()).unwrap();
        let first = Pin {
            group: Some(0),
            blocks: 3,
            block_bytes: 2024,
            stranded_bytes: 3070 + 2048,
            sole_stranded_bytes: 2048,
        };
        let second =
            Pin { group: Some(1), blocks: 1, block_bytes: 500, stranded_bytes: 3070, sole_stranded_bytes: 0 };
        assert_eq!(pins, [first, second], "the full and the wholly free segment are nobody's pin");
    }

    #[test]
    fn blocks_without_a_group_pin_too() {
        let state = State { segments: vec![segment(0, &[(512, 512, 77), (1024, 0, NONE)])] };
        let pins = pins(&state, &grouping()).unwrap();
        assert_eq!(pins.len(), 1);
        assert_eq!((pins[0].group, pins[0].sole_stranded_bytes), (None, 1024));
    }

    #[test]
    fn sums_are_exact_and_in_order_of_appearance() {
        let frame = df!("key" => [9_u32, 3, 9], "bytes" => [1_u64 << 60, 5, (1 << 60) + 1]).unwrap();
        let sums = sum_by(&frame, &["key"], &["bytes"]).unwrap();
        let expected = df!("key" => [9_u32, 3], "bytes" => [(1_u64 << 61) + 1, 5]).unwrap();
        assert!(sums.equals(&expected), "{sums}");
    }
}
