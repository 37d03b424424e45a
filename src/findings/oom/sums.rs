//! What the allocator had when a request failed: the sums that a verdict compares.
//!
//! Owns who may use what: a request can only be served by a free block of its own pool, kind and stream;
//! other free bytes of its pool are slack that would do if it could be moved; those of other pools never
//! would.

use crate::model::{BlockState, PoolId, SegmentKind};
use crate::rebuild::{OomEvent, SMALL_BYTES, State, StateSegment};
use crate::simulate::Conf;

/// Bytes at the moment of a failed request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// The rounded request.
    pub request_bytes: u64,
    /// What the driver was asked for to serve it.
    pub segment_bytes: u64,
    /// What the driver had; `None` when not recorded.
    pub device_free_bytes: Option<u64>,
    /// Held from the driver.
    pub reserved_bytes: u64,
    /// Allocated plus pending.
    pub active_bytes: u64,
    /// Given back, but waiting for another stream.
    pub pending_free_bytes: u64,
    /// Free inside segments of the request's pool, on any stream.
    pub slack_bytes: u64,
    /// Free inside segments of other pools, which the request cannot use.
    pub private_free_bytes: u64,
    /// Free bytes of the request's own pool, kind and stream.
    pub usable_free_bytes: u64,
    /// The number of blocks they are in.
    pub usable_free_blocks: u64,
    /// The largest of these blocks.
    pub largest_free_block_bytes: u64,
    /// The largest free block of the same pool that only another stream, or requests of another size, may use.
    pub largest_elsewhere_bytes: u64,
    /// The largest piece that would be free and usable once every pending free is through; 0 without any.
    pub largest_with_pending_bytes: u64,
    /// Segments that would be wholly free, and so go back to the driver, once every pending free is through.
    pub released_by_pending_bytes: u64,
    /// A free block that would have served the request, and became free only while it was failing.
    pub freed_too_late_bytes: u64,
    /// Whether blocks were looked at: with very many failures only some are, and the others have no more than
    /// their totals.
    pub is_looked_at: bool,
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker<'a> {
    pub(super) oom: &'a OomEvent,
    pub(super) pool: PoolId,
    pub(super) conf: &'a Conf,
}

impl Asker<'_> {
    pub(super) fn is_small(self) -> bool {
        self.oom.size <= SMALL_BYTES
    }

    /// Whether free blocks of `segment` are this request's to take.
    pub(super) fn may_use(self, segment: &StateSegment) -> bool {
        segment.pool == self.pool
            && (segment.kind == SegmentKind::Small) == self.is_small()
            && segment.stream == self.oom.stream
            && (self.conf.is_expandable() || !segment.is_expandable)
    }

    /// Whether a free block is none of those that `max_split_size` keeps for larger requests.
    fn is_for_its_size(self, bytes: u64) -> bool {
        bytes < self.oom.size || self.conf.may_serve(self.oom.size, bytes)
    }
}

impl Sums {
    /// The totals that the event itself gives. Bytes of private pools count as slack here.
    pub(super) fn of_totals(asker: Asker<'_>) -> Self {
        let Asker { oom, conf, .. } = asker;
        let usage = oom.usage;
        Self {
            request_bytes: oom.size,
            segment_bytes: conf.segment_bytes(oom.size),
            device_free_bytes: oom.device_free_bytes,
            reserved_bytes: usage.reserved_bytes,
            active_bytes: usage.active_bytes,
            pending_free_bytes: usage.active_bytes.saturating_sub(usage.allocated_bytes),
            slack_bytes: usage.reserved_bytes.saturating_sub(usage.active_bytes),
            ..Self::default()
        }
    }

    /// All sums. `late` are the blocks that became free while the request was failing, by address.
    pub(super) fn of_state(asker: Asker<'_>, state: &State, late: &[u64]) -> Self {
        let mut sums = Self { slack_bytes: 0, is_looked_at: true, ..Self::of_totals(asker) };
        for segment in &state.segments {
            sums.add(segment, asker, late);
        }
        sums
    }

    fn add(&mut self, segment: &StateSegment, asker: Asker<'_>, late: &[u64]) {
        let same_pool = segment.pool == asker.pool;
        let usable = asker.may_use(segment);
        let (mut run, mut run_is_pending) = (0_u64, false);
        let (mut has_pending, mut has_live) = (false, false);
        for block in &segment.blocks {
            match block.state {
                BlockState::Inactive => {
                    let sum = if same_pool { &mut self.slack_bytes } else { &mut self.private_free_bytes };
                    *sum = sum.saturating_add(block.bytes);
                    if usable && asker.is_for_its_size(block.bytes) {
                        self.add_usable(block.address, block.bytes, late);
                    } else if same_pool {
                        self.largest_elsewhere_bytes = self.largest_elsewhere_bytes.max(block.bytes);
                    }
                }
                BlockState::ActivePendingFree => (run_is_pending, has_pending) = (true, true),
                BlockState::ActiveAllocated => {
                    has_live = true;
                    (run, run_is_pending) = (0, false);
                    continue;
                }
            }
            run = run.saturating_add(block.bytes);
            if usable && run_is_pending {
                self.largest_with_pending_bytes = self.largest_with_pending_bytes.max(run);
            }
        }
        if has_pending && !has_live && segment.pool == PoolId::DEFAULT {
            self.released_by_pending_bytes = self.released_by_pending_bytes.saturating_add(segment.bytes);
        }
    }

    fn add_usable(&mut self, address: u64, bytes: u64, late: &[u64]) {
        self.usable_free_bytes = self.usable_free_bytes.saturating_add(bytes);
        self.usable_free_blocks += 1;
        self.largest_free_block_bytes = self.largest_free_block_bytes.max(bytes);
        let first = late.partition_point(|&block| block < address);
        let holds_late = late.get(first).is_some_and(|&block| block - address < bytes);
        if bytes >= self.request_bytes && holds_late {
            self.freed_too_late_bytes = self.freed_too_late_bytes.max(bytes);
        }
    }
}
