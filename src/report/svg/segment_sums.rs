//! What the segments add up to: by line, and the free bytes by whether something pins them.
//!
//! Owns the rows of the legend beside the map. All of them together are the reserved bytes, exactly.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::legend::{Row, Swatch};
use super::palette::{AXIS, BANDS, FREE, OTHER, PANEL, UNKNOWN};
use crate::report::pictures::{MapState, Pictures, SegmentMap};
use crate::units::{Bytes, Count};

/// Sums over all blocks.
#[derive(Debug, Default)]
pub(super) struct Sums {
    /// Bytes in use by rank of their line.
    pub(super) by_rank: BTreeMap<Option<u32>, u64>,
    pub(super) pending_bytes: u64,
    /// Free in a segment in which something is in use or pending.
    pub(super) pinned_bytes: u64,
    pub(super) wholly_free_bytes: u64,
    /// The smallest block of all.
    pub(super) smallest_bytes: u64,
}

impl Sums {
    pub(super) fn of(map: &SegmentMap) -> Self {
        let mut sums = Self { smallest_bytes: u64::MAX, ..Self::default() };
        for segment in &map.segments {
            let is_free = segment.blocks.iter().all(|block| block.state == MapState::Free);
            for block in &segment.blocks {
                sums.smallest_bytes = sums.smallest_bytes.min(block.bytes);
                let sum = match block.state {
                    MapState::InUse => sums.by_rank.entry(block.rank).or_default(),
                    MapState::Pending => &mut sums.pending_bytes,
                    MapState::Free if is_free => &mut sums.wholly_free_bytes,
                    MapState::Free => &mut sums.pinned_bytes,
                };
                *sum = sum.saturating_add(block.bytes);
            }
        }
        sums
    }

    pub(super) fn in_use(&self) -> u64 {
        self.by_rank.values().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    pub(super) fn reserved(&self) -> u64 {
        [self.pending_bytes, self.pinned_bytes, self.wholly_free_bytes]
            .into_iter()
            .fold(self.in_use(), u64::saturating_add)
    }

    /// Lines by bytes, the remainders, what is free, and the whole.
    pub(super) fn legend(&self, pictures: &Pictures) -> Vec<Row> {
        let whole = self.reserved();
        let row = |swatch, ink, name: &str, bytes| Row::share(swatch, ink, name.to_owned(), bytes, whole);
        let coloured = |rank: u32| BANDS.get(rank as usize).copied();
        let mut lines: Vec<(u32, u64)> =
            self.by_rank.iter().filter_map(|(rank, bytes)| Some(((*rank)?, *bytes))).collect();
        lines.sort_by_key(|&(rank, bytes)| (Reverse(bytes), rank));
        let mut rows = Vec::new();
        let (mut others, mut other_bytes) = (0u64, 0u64);
        for (rank, bytes) in lines {
            let name = pictures.line_names.get(rank as usize).map_or("", String::as_str);
            if let Some(ink) = coloured(rank) {
                rows.push(row(Swatch::Band, ink, name, bytes));
            } else {
                (others, other_bytes) = (others + 1, other_bytes.saturating_add(bytes));
            }
        }
        if others > 0 {
            let name = if others == 1 {
                "1 other line".to_owned()
            } else {
                format!("{} other lines", Count(others))
            };
            rows.push(row(Swatch::Band, OTHER, &name, other_bytes));
        }
        let rest = [
            (Swatch::Band, UNKNOWN, "no line known", self.by_rank.get(&None).copied().unwrap_or(0)),
            (Swatch::Hatch, OTHER, "freed, waits for a stream", self.pending_bytes),
            (Swatch::Band, FREE, "free, pinned by blocks beside it", self.pinned_bytes),
            (Swatch::Edge, AXIS, "free, whole segments", self.wholly_free_bytes),
        ];
        let rest = rest.into_iter().filter(|(.., bytes)| *bytes > 0);
        rows.extend(rest.map(|(swatch, ink, name, bytes)| row(swatch, ink, name, bytes)));
        rows.push(Row {
            swatch: Swatch::None,
            ink: PANEL,
            name: "together: reserved".to_owned(),
            bytes: Bytes(whole).to_string(),
            note: String::new(),
        });
        rows
    }
}
