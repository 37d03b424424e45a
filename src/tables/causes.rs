//! Why reserved bytes are not requested ones: every byte of the difference has one cause.
//!
//! Owns the causes and their order. It is another view of the same bytes than releasable and stranded
//! ([`super::Fragmentation`]), which say whether a segment can be returned; this one says what stands in the
//! way of using them.

use crate::model::{BlockState, PoolId};
use crate::rebuild::{State, StateSegment};

/// Reserved minus requested bytes by cause. A byte belongs to the first cause in this order that holds:
///
/// 1. a block waits for another stream: pending free, the whole block;
/// 2. a block is larger than its request: rounding;
/// 3. free, in a private pool;
/// 4. free, on another stream than the main one ([`super::Streams`]);
/// 5. free, in a segment that is wholly free: releasable cache;
/// 6. free, beside a block that is in use or pending: split remainder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Causes {
    /// Blocks handed out are larger than what was asked for.
    pub rounding_bytes: u64,
    /// Given back, but other streams may still use it.
    pub pending_free_bytes: u64,
    /// Free in private pools: of CUDA graphs, or a user's.
    pub private_pool_bytes: u64,
    /// Free in the default pool, on other streams than the main one.
    pub other_stream_bytes: u64,
    /// In wholly free segments of the default pool and the main stream.
    pub releasable_cache_bytes: u64,
    /// Free in segments of the default pool and the main stream, pinned by a live or pending block.
    pub split_remainder_bytes: u64,
}

impl Causes {
    /// All causes together: reserved minus requested.
    #[must_use]
    pub fn sum(&self) -> u64 {
        [
            self.pending_free_bytes,
            self.private_pool_bytes,
            self.other_stream_bytes,
            self.releasable_cache_bytes,
            self.split_remainder_bytes,
        ]
        .into_iter()
        .fold(self.rounding_bytes, u64::saturating_add)
    }
}

/// Where the free blocks of a segment belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Default pool, main stream.
    Main = 0,
    /// Default pool, another stream.
    OtherStream = 1,
    /// A private pool.
    PrivatePool = 2,
}

impl Place {
    pub(super) fn of(pool: PoolId, stream: u64, main_stream: u64) -> Self {
        match pool {
            PoolId::DEFAULT if stream == main_stream => Self::Main,
            PoolId::DEFAULT => Self::OtherStream,
            _ => Self::PrivatePool,
        }
    }
}

/// The causes at the moment of `state`.
#[must_use]
pub fn causes(state: &State, main_stream: u64) -> Causes {
    let mut causes = Causes::default();
    for segment in &state.segments {
        causes.add(segment, main_stream);
    }
    causes
}

impl Causes {
    fn add(&mut self, segment: &StateSegment, main_stream: u64) {
        let mut free = 0;
        for block in &segment.blocks {
            match block.state {
                BlockState::ActiveAllocated => {
                    self.rounding_bytes += block.bytes - block.requested_bytes.min(block.bytes);
                }
                BlockState::ActivePendingFree => self.pending_free_bytes += block.bytes,
                BlockState::Inactive => free += block.bytes,
            }
        }
        let cause = match Place::of(segment.pool, segment.stream, main_stream) {
            Place::PrivatePool => &mut self.private_pool_bytes,
            Place::OtherStream => &mut self.other_stream_bytes,
            Place::Main if segment.is_wholly_free() => &mut self.releasable_cache_bytes,
            Place::Main => &mut self.split_remainder_bytes,
        };
        *cause += free;
    }
}

#[cfg(test)]
mod tests {
    use super::super::fragmentation::samples::state;
    use super::*;

    #[test]
    fn every_byte_has_one_cause() {
        // 19,930 reserved; asked for by allocated blocks: 900 + 512 + 500 + 4096.
        let all = causes(&state(), 0);
        assert_eq!(all.sum(), 19_930 - 6_008);
        let expected = Causes {
            rounding_bytes: 112,
            pending_free_bytes: 500,
            private_pool_bytes: 0,
            other_stream_bytes: 8192,
            releasable_cache_bytes: 0,
            split_remainder_bytes: 3070 + 2048,
        };
        assert_eq!(all, expected);
    }

    #[test]
    fn the_wall_comes_before_what_lies_behind_it() {
        let mut state = state();
        for segment in &mut state.segments {
            segment.pool = PoolId(1, 0);
        }
        let all = causes(&state, 0);
        assert_eq!((all.private_pool_bytes, all.other_stream_bytes), (3070 + 2048 + 8192, 0));
        // On the main stream the same free segment is cache.
        for segment in &mut state.segments {
            (segment.pool, segment.stream) = (PoolId::DEFAULT, 7);
        }
        let all = causes(&state, 7);
        assert_eq!((all.releasable_cache_bytes, all.split_remainder_bytes), (8192, 3070 + 2048));
        assert_eq!(all.sum(), 19_930 - 6_008);
    }
}
