//! Rebuild: from recorded events to what happened, to the byte.
//!
//! Owns the one forward pass that gives every block its true size and every allocation its life, and the
//! allocator state at any moment. Does not know lines, tables or files.

mod history;
mod moment;
mod state;

pub use history::{Allocations, History, NONE, OomEvent, SegmentRanges};
pub use moment::{Moment, Peak, Peaks, Usage};
pub use state::{State, StateBlock, StateSegment};
