//! The statistics behind the rule `growth`.
//!
//! Owns what tells a leak from a cache that fills, a warm-up that stops and blocks that live a while by
//! chance: the rhythm in which blocks are left behind ([`rhythm`]), the chance that they are released yet
//! ([`chance`]), and how fast memory grows ([`slope`]); and its figures and words ([`grown`], [`words`]). How
//! serious it is, is the rule's to say.

mod afterwards;
mod chance;
mod grown;
mod leak;
#[cfg(test)]
mod programs;
mod rhythm;
mod rising;
mod slope;
#[cfg(test)]
mod thousand;
mod words;

pub(super) use grown::{Grown, bytes_of};
pub(super) use leak::{Growth, Leak, find};
#[cfg(test)]
use rhythm::Rhythm;
pub(super) use rising::{Rising, rising};
pub(super) use slope::{Slope, slope};
pub(super) use words::{
    RISING_REMEDY, blocks_in_words, blocks_per_step, holders, kept_remedy, named, subject, whole_or_not,
};
