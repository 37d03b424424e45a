//! One row per moment of interest: where reserved bytes are.

use polars::prelude::{Column, DataFrame};

use crate::error::Result;
use crate::tables::{Causes, Fragmentation};

use super::parts::{FrameSource, counts, event_number, texts};
use super::schema::TableSchema;
use super::schema::columns::{DEVICE, bytes, count, event, ratio, text};

/// The table's schema.
pub const FRAGMENTATION: TableSchema = TableSchema {
    name: "fragmentation",
    meaning: "Where reserved bytes are when they peak, at the last failed request (if any), and at the end. \
              `requested + rounding = allocated`, `allocated + pending_free = active`, \
              `active + releasable + stranded = reserved`; the `cause_` columns add up to reserved minus requested",
    columns: &[
        DEVICE,
        text("moment", "`peak`, `oom` or `end`"),
        event("event", "the event after which this holds; null before the first"),
        bytes("reserved_bytes", "held from the driver"),
        bytes("active_bytes", "allocated plus pending"),
        bytes("allocated_bytes", "blocks handed out"),
        bytes("requested_bytes", "asked for, over allocated blocks"),
        bytes("rounding_bytes", "allocated minus requested"),
        bytes("pending_free_bytes", "given back, but waiting for another stream"),
        bytes("releasable_bytes", "in segments that are wholly free"),
        bytes("stranded_bytes", "free, but in a segment that a live block pins"),
        count("stranded_blocks", "free blocks that make up `stranded_bytes`"),
        bytes("largest_free_block_bytes", "the largest free block of all"),
        bytes("largest_stranded_block_bytes", "the largest free block inside a pinned segment"),
        ratio("ratio", "`1 - active / reserved`; 0 when nothing is reserved"),
        bytes("cause_rounding_bytes", "blocks in use are larger than what was asked for"),
        bytes("cause_pending_free_bytes", "given back, but waiting for another stream"),
        bytes(
            "cause_split_remainder_bytes",
            "free in a segment of the main stream that a block in use or pending pins",
        ),
        bytes("cause_other_stream_bytes", "free on another stream than the main one"),
        bytes("cause_private_pool_bytes", "free in private pools"),
        bytes("cause_releasable_cache_bytes", "in segments of the main stream that are wholly free"),
        count("main_stream", "the stream with most traffic, to which causes compare the others"),
    ],
};

/// The figures of one moment.
#[derive(Clone, Debug, Default)]
pub struct FragmentationEntry {
    /// `peak`, `oom` or `end`.
    pub moment: &'static str,
    /// Where reserved bytes are.
    pub figures: Fragmentation,
    /// Why they are not requested ones.
    pub causes: Causes,
    /// The stream that causes are judged by.
    pub main_stream: u64,
}

/// The table of [`FRAGMENTATION`].
///
/// # Errors
/// When the table engine refuses the table, which would be a fault of memlab.
pub fn fragmentation_frame(source: &FrameSource<'_>, rows: &[FragmentationEntry]) -> Result<DataFrame> {
    let figure = |name: &str, of: fn(&Fragmentation) -> u64| counts(name, rows, |row| of(&row.figures));
    let cause = |name: &str, of: fn(&Causes) -> u64| counts(name, rows, |row| of(&row.causes));
    let events: Vec<_> = rows.iter().map(|row| event_number(row.figures.moment.event())).collect();
    FRAGMENTATION.frame(vec![
        source.device_column(rows.len()),
        texts("moment", rows, |row| row.moment),
        Column::new("event".into(), events),
        figure("reserved_bytes", |figures| figures.reserved_bytes),
        figure("active_bytes", |figures| figures.active_bytes),
        figure("allocated_bytes", |figures| figures.allocated_bytes),
        figure("requested_bytes", |figures| figures.requested_bytes),
        figure("rounding_bytes", |figures| figures.rounding_bytes),
        figure("pending_free_bytes", |figures| figures.pending_free_bytes),
        figure("releasable_bytes", |figures| figures.releasable_bytes),
        figure("stranded_bytes", |figures| figures.stranded_bytes),
        figure("stranded_blocks", |figures| figures.stranded_blocks),
        figure("largest_free_block_bytes", |figures| figures.largest_free_block_bytes),
        figure("largest_stranded_block_bytes", |figures| figures.largest_stranded_block_bytes),
        Column::new("ratio".into(), rows.iter().map(|row| row.figures.ratio).collect::<Vec<_>>()),
        cause("cause_rounding_bytes", |causes| causes.rounding_bytes),
        cause("cause_pending_free_bytes", |causes| causes.pending_free_bytes),
        cause("cause_split_remainder_bytes", |causes| causes.split_remainder_bytes),
        cause("cause_other_stream_bytes", |causes| causes.other_stream_bytes),
        cause("cause_private_pool_bytes", |causes| causes.private_pool_bytes),
        cause("cause_releasable_cache_bytes", |causes| causes.releasable_cache_bytes),
        counts("main_stream", rows, |row| row.main_stream),
    ])
}
