//! The statistics behind the rule `growth`.
//!
//! Owns what tells a leak from a cache that fills, a warm-up that stops and blocks that live a while by
//! chance: the rhythm in which blocks are left behind ([`rhythm`]), the chance that they are released yet
//! ([`chance`]), and how fast memory grows ([`slope`]). What is said about it is the rule's.

mod chance;
mod leak;
mod rhythm;
mod rising;
mod slope;

pub(super) use leak::{Growth, Leak, find};
pub(super) use rising::{Rising, rising};
pub(super) use slope::{Slope, slope};
