//! The recorded requests under other settings: a faithful model of the caching allocator, and replays.
//!
//! Owns the allocator's policy (which free block, which segment, what is returned when), the comparison with
//! the recording, limits and bounds. Takes what was asked from `rebuild`. Knows no lines, tables or files.

mod addresses;
mod allocator;
mod baseline;
mod bounds;
mod conf;
mod flushes;
mod limits;
mod outcome;
mod replay;
mod requests;
mod standard;

pub use addresses::Placing;
pub use allocator::{Layout, LayoutBlock, LayoutSegment, LayoutUse, Limit, LiveRequest};
pub use baseline::{Baseline, Difference, Divergence, baseline};
pub use bounds::{Bounds, Life, Packing, bounds, live_peak, lives, pack};
pub use conf::{Conf, ConfError, Release};
pub use limits::{recorded_limit, smallest_memory};
pub use outcome::Outcome;
pub use replay::{replay, replay_placed, replay_watched};
pub use requests::Requests;
pub use standard::{STANDARD, search};
