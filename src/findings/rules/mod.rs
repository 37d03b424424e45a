//! The rules: one file each, with its page, its check and its tests.
//!
//! A rule looks at what it is handed ([`super::Scene`], or the facts of several devices or files) and at
//! nothing else. What every rule keeps to is in `docs/design.md`, "Rules".
#![allow(clippy::unnecessary_wraps, reason = "every check has the signature of those that read tables")]

pub(super) mod cache_flush;
pub(super) mod capacity;
pub(super) mod conflicting_settings;
pub(super) mod driver_leak;
pub(super) mod driver_refused;
pub(super) mod duplicate_state;
pub(super) mod foreign_device;
pub(super) mod fragmentation;
pub(super) mod graph_in_eval;
pub(super) mod grow_by_copy;
pub(super) mod growth;
pub(super) mod history_incomplete;
pub(super) mod huge_request;
pub(super) mod idle_cache;
pub(super) mod ineffective_checkpointing;
pub(super) mod kept_by_exception;
pub(super) mod lazy_optimizer_state;
pub(super) mod library_workspace;
pub(super) mod memory_cap;
pub(super) mod near_capacity;
pub(super) mod odd_schema;
pub(super) mod outside_allocator;
pub(super) mod pending_at_oom;
pub(super) mod pending_free;
pub(super) mod preallocation;
pub(super) mod private_pools;
pub(super) mod rank_imbalance;
pub(super) mod reference_cycle;
pub(super) mod rounding_waste;
pub(super) mod stacks_missing;
pub(super) mod step_overlap;
pub(super) mod stranded_stream;
pub(super) mod transient_peak;
