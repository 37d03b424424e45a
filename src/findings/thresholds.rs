//! Thresholds of a verdict that hold for a recording and for the text of a message alike.
//!
//! Owns the figures only; which test comes first is for those who judge.

/// Below this share of reserved memory, free blocks are crumbs rather than fragmentation (in percent).
pub(super) const CRUMBS_PERCENT: u64 = 3;
/// From this share of the limit on, live memory nearly fills it (in percent).
pub(super) const NEARLY_FULL_PERCENT: u64 = 90;
/// What contexts, kernels and libraries of one process usually take beside the allocator; 0.7 GiB were measured
/// with cuBLAS and cuDNN loaded.
pub(super) const EXPECTED_OUTSIDE_BYTES: u64 = 1 << 30;
