//! Where reserved memory is: by moment, by cause, by who pins it, by pool. Shapes only, as all of `types`.

use serde::{Deserialize, Serialize};

use crate::report::packed::{self, Word};

/// Fragmentation at the three moments of interest.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FragmentationRow {
    /// When reserved bytes peak.
    pub at_peak: Fragmentation,
    /// After the last event.
    pub at_end: Fragmentation,
    /// At the (last) OOM.
    pub at_oom: Option<Fragmentation>,
}

/// Where the reserved bytes are at one moment. `requested + rounding = allocated`;
/// `allocated + pending_free = active`; `active + releasable + stranded = reserved`. `by_cause` is another view
/// of the same bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Fragmentation {
    /// The event after which this holds; `null` before the first event.
    pub event: Option<u64>,
    /// Held from the driver.
    pub reserved_bytes: u64,
    /// Allocated plus pending.
    pub active_bytes: u64,
    /// Blocks handed out.
    pub allocated_bytes: u64,
    /// Asked for, over allocated blocks.
    pub requested_bytes: u64,
    /// Allocated minus requested.
    pub rounding_bytes: u64,
    /// Freed, but waiting for another stream.
    pub pending_free_bytes: u64,
    /// In segments that are wholly free.
    pub releasable_bytes: u64,
    /// Free, but in a segment that a live block pins.
    pub stranded_bytes: u64,
    /// Number of free blocks that make up `stranded_bytes`.
    pub stranded_blocks: u64,
    /// The largest free block of all.
    pub largest_free_block_bytes: u64,
    /// The largest free block inside a pinned segment.
    pub largest_stranded_block_bytes: u64,
    /// `1 - active / reserved`; 0 when nothing is reserved.
    pub ratio: f64,
    /// `reserved - requested`, every byte under the one cause that it has.
    pub by_cause: ByCause,
    /// The stream with most traffic, to which `by_cause` compares the others.
    pub main_stream: u64,
    /// Whose blocks pin the stranded bytes, most bytes first.
    pub pins: Vec<PinRow>,
}

/// Reserved minus requested bytes by cause. All of them together are exactly that difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByCause {
    /// Blocks in use are larger than what was asked for.
    pub rounding_bytes: u64,
    /// Freed, but waiting for another stream.
    pub pending_free_bytes: u64,
    /// Free in a segment of the main stream that a block in use or pending pins.
    pub split_remainder_bytes: u64,
    /// Free on another stream than the main one.
    pub other_stream_bytes: u64,
    /// Free in private pools.
    pub private_pool_bytes: u64,
    /// In segments of the main stream that are wholly free.
    pub releasable_cache_bytes: u64,
}

impl ByCause {
    /// The causes with their names for people, in the order in which pictures and tables show them.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 6] {
        [
            ("rounding", self.rounding_bytes),
            ("pending frees", self.pending_free_bytes),
            ("split remainders", self.split_remainder_bytes),
            ("other streams", self.other_stream_bytes),
            ("private pools", self.private_pool_bytes),
            ("releasable cache", self.releasable_cache_bytes),
        ]
    }
}

/// A line whose live blocks pin stranded bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PinRow {
    /// File of the line; `null` when the pinning blocks have no user line.
    pub file: Option<String>,
    /// Line number.
    pub line: Option<u64>,
    /// Function.
    pub function: Option<String>,
    /// Live blocks of this line in segments with stranded bytes.
    pub blocks: u64,
    /// Their bytes.
    pub block_bytes: u64,
    /// Stranded bytes in the segments where this line has a live block.
    pub stranded_bytes: u64,
    /// The part of it in segments that no other line pins: what would become releasable if this line's
    /// blocks were gone.
    pub sole_stranded_bytes: u64,
}

/// Reserved memory of one (stream, pool, kind) at the peak of reserved bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PoolRow {
    /// Stream, raw pointer value; 0 is the default stream.
    pub stream: u64,
    /// Pool id, two numbers; `[0, 0]` is the default pool.
    pub pool: (u64, u64),
    /// `small` or `large`.
    #[serde(deserialize_with = "packed::word")]
    pub kind: Word,
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
