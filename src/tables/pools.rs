//! Reserved memory by stream, pool and kind: the walls between which blocks cannot be shared.
//!
//! Owns the grouping only; the definitions of releasable and stranded are those of [`super::fragmentation`].

use std::collections::BTreeMap;

use crate::model::{PoolId, SegmentKind};
use crate::rebuild::State;

use super::fragmentation::SegmentBytes;

/// Segments that serve the same requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolUse {
    /// Stream, raw pointer value; 0 is the default stream.
    pub stream: u64,
    /// Default or private pool.
    pub pool: PoolId,
    /// Small or large.
    pub kind: SegmentKind,
    /// Number of segments.
    pub segments: u64,
    /// Held from the driver.
    pub reserved_bytes: u64,
    /// Allocated plus pending.
    pub active_bytes: u64,
    /// In wholly free segments.
    pub releasable_bytes: u64,
    /// Free but pinned.
    pub stranded_bytes: u64,
}

/// What each (stream, pool, kind) of `state` holds, ascending.
#[must_use]
pub fn pools(state: &State) -> Vec<PoolUse> {
    let mut pools: BTreeMap<(u64, PoolId, SegmentKind), PoolUse> = BTreeMap::new();
    for segment in &state.segments {
        let (stream, pool, kind) = (segment.stream, segment.pool, segment.kind);
        let row =
            pools.entry((stream, pool, kind)).or_insert(PoolUse { stream, pool, kind, ..PoolUse::default() });
        let bytes = SegmentBytes::of(segment);
        row.segments += 1;
        row.reserved_bytes += bytes.reserved;
        row.active_bytes += bytes.active;
        row.releasable_bytes += bytes.releasable();
        row.stranded_bytes += bytes.stranded();
    }
    pools.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::super::fragmentation::samples::state;
    use super::*;

    #[test]
    fn streams_are_apart_and_add_up() {
        let rows = pools(&state());
        let figures: Vec<_> = rows
            .iter()
            .map(|r| {
                (r.stream, r.segments, r.reserved_bytes, r.active_bytes, r.releasable_bytes, r.stranded_bytes)
            })
            .collect();
        assert_eq!(figures, [(0, 3, 11738, 6620, 0, 5118), (7, 1, 8192, 0, 8192, 0)]);
    }
}
