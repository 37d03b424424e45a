//! What only pictures show of a device, as plain data: the allocator's state at the moment that matters, what was
//! live at the peak by stack, and the steps as columns.
//!
//! Owns shapes only, as `types` does. None of it is part of the JSON.

use serde::{Deserialize, Serialize};

/// What the pictures of one device show, its timeline excepted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Pictures {
    /// Names of the lines by rank: the order of the table of lines, whatever `--top` left of it. A line's rank is its
    /// colour, in every picture.
    pub line_names: Vec<String>,
    /// The allocator's state.
    pub segments: SegmentMap,
    /// What was live at the peak of allocated bytes.
    pub flame: FlameGraph,
    /// The steps.
    pub steps: StepCurve,
}

/// The allocator's segments at one moment: the last OOM, else the peak of reserved bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SegmentMap {
    /// The event after which this holds; at an OOM, the failed request itself. `None` before the first event.
    pub event: Option<u64>,
    /// What the last OOM was asked for, when the moment is one.
    pub asked_bytes: Option<u64>,
    /// Size of the segment that was obtained at this very event, for a request that comes with the next.
    pub just_obtained_bytes: Option<u64>,
    /// In address order.
    pub segments: Vec<MapSegment>,
}

/// A segment. Its blocks tile it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapSegment {
    /// First byte.
    pub address: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Stream, raw pointer value.
    pub stream: u64,
    /// Pool id, two numbers; `(0, 0)` is the default pool.
    pub pool: (u64, u64),
    /// Whether it is for blocks of 1 MiB and less.
    pub is_small: bool,
    /// Whether it is a mapped range of an expandable segment.
    pub is_expandable: bool,
    /// In address order.
    #[serde(with = "super::packed::blocks")]
    pub blocks: Vec<MapBlock>,
}

/// A block of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapBlock {
    /// Length in bytes.
    pub bytes: u64,
    /// Asked for; 0 for a free block.
    pub requested_bytes: u64,
    /// What it is used for.
    pub state: MapState,
    /// Rank of its line; `None` where no line is known, and for free blocks.
    pub rank: Option<u32>,
}

/// Whether a block is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MapState {
    /// Handed out.
    InUse,
    /// Freed, but waiting for another stream.
    Pending,
    /// Free.
    #[default]
    Free,
}

/// What was live at one moment, by stack: boxes within boxes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FlameGraph {
    /// The event after which this holds; `None` before the first.
    pub event: Option<u64>,
    /// Allocated bytes: the width of the outermost level.
    pub total_bytes: u64,
    /// Whether frames of libraries were folded, as the stacks are deep.
    pub is_folded: bool,
    /// Boxes with fewer bytes than this went into those called "smaller", or were left out.
    pub least_bytes: u64,
    /// An outer box before those within it, the larger ones first.
    pub boxes: Vec<FlameBox>,
}

/// A frame, or several in one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlameBox {
    /// How many boxes it is within.
    pub level: u32,
    /// Bytes to the left of it.
    pub begin_bytes: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Allocations in it.
    pub allocations: u64,
    /// `train.py:100 step`, or what was folded.
    pub label: String,
    /// What it stands for.
    pub kind: FlameKind,
}

/// What a box stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlameKind {
    /// A line of the user's, by rank; `None` when it holds nothing itself.
    Line(Option<u32>),
    /// A frame of a library.
    #[default]
    Library,
    /// Several frames, or none: the label says what in words.
    Folded,
}

/// Steps as columns; neighbours are merged where there are very many.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StepCurve {
    /// Steps in all.
    pub steps: u64,
    /// Steps in one column; the last may have fewer.
    pub per_column: u64,
    /// In order.
    pub columns: Vec<StepColumn>,
    /// Ranks of the lines behind the bands; behind these come "other lines" and "no line known".
    pub band_ranks: Vec<u32>,
    /// `bands[b][c]`: what band `b` holds at the end of the step of column `c` that holds most then. All bands sum to
    /// that column's `end_allocated_bytes`.
    #[serde(with = "super::packed::curves")]
    pub bands: Vec<Vec<u64>>,
}

/// One step, or several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepColumn {
    /// Name of the first.
    pub name: String,
    /// Number of the first, from 0.
    pub first: u64,
    /// Allocated before the first.
    pub begin_allocated_bytes: u64,
    /// The most allocated within any of them.
    pub peak_allocated_bytes: u64,
    /// The most allocated after any of them.
    pub end_allocated_bytes: u64,
    /// By how much the end of the last exceeds the end of the step before the first.
    pub growth_bytes: i64,
}
