//! A timeline for Perfetto: counters, steps, ranges, failures and the largest allocations on one time axis.
//!
//! Owns the file: a stream of packets ([`messages`] are their shape, `packets` numbers tracks and shared texts),
//! `axis` the times, `lanes` which slices share a track; the other modules fill in one kind of track each. Does
//! not own figures: those are `tables`'.

mod about;
mod axis;
mod counters;
mod lanes;
mod largest;
mod messages;
mod moments;
mod packets;
mod program;
mod spans;
mod write;

pub use counters::LINES_SHOWN;
pub use largest::LARGEST_ALLOCATIONS;
pub use write::write_perfetto;
