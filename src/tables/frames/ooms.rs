//! One row per failed request.

use polars::prelude::{Column, DataFrame};

use crate::error::Result;
use crate::model::{PoolId, StackId};

use super::parts::{FrameSource, Positions, counts, event_number, known_counts, pool_name, texts};
use super::schema::TableSchema;
use super::schema::columns::{
    DEVICE, FILE, FUNCTION, LINE, STACK, STACK_HASH, bytes, bytes_or_null, count, event, number, text, time,
};

/// The table's schema.
pub const OOMS: TableSchema = TableSchema {
    name: "ooms",
    meaning: "Every failed request, in order, and why it failed",
    columns: &[
        DEVICE,
        number("oom", "number of the failure, from 0"),
        event("event", "its event"),
        time("time_us", "its Unix time; null when not known"),
        bytes("requested_bytes", "the rounded request"),
        bytes("segment_bytes", "what the driver was asked for to serve it"),
        text(
            "verdict",
            "why it failed: `capacity`, `fragmentation`, ... (see [reading a report](reading-a-report.md))",
        ),
        text(
            "cause",
            "where the verdict is `memory-cap`: why the limited memory was not enough; else the verdict",
        ),
        text("explanation", "the arithmetic that proves it, in sentences"),
        bytes_or_null("device_free_bytes", "left on the device; null when not recorded"),
        bytes_or_null("cap_bytes", "the limit that refused; null when there is none, or it is not known"),
        bytes_or_null(
            "outside_bytes",
            "held outside the allocator; null when the size of the device is not known",
        ),
        bytes(
            "missing_bytes",
            "how much is missing even if all free memory were in one piece; with a limit that is not known, the most that may be",
        ),
        bytes("reserved_bytes", "held from the driver"),
        bytes("active_bytes", "allocated plus pending"),
        bytes("allocated_bytes", "blocks handed out"),
        bytes("pending_free_bytes", "given back, but waiting for another stream"),
        bytes("slack_bytes", "free inside segments of the request's pool"),
        bytes("private_pool_free_bytes", "free in other pools"),
        bytes("largest_free_block_bytes", "largest free block of the same stream and pool"),
        count("stream", "stream of the request"),
        text("pool", "pool of the request, `0:0` is the default pool"),
        STACK,
        STACK_HASH,
        FILE,
        LINE,
        FUNCTION,
    ],
};

/// A failed request with its verdict, in plain figures.
#[derive(Clone, Debug, Default)]
pub struct OomEntry {
    /// Event number.
    pub event: u64,
    /// The rounded request.
    pub requested_bytes: u64,
    /// What the driver was asked for.
    pub segment_bytes: u64,
    /// Why it failed.
    pub verdict: &'static str,
    /// Why, behind a limit.
    pub cause: &'static str,
    /// Sentences that prove it.
    pub explanation: String,
    /// Left on the device.
    pub device_free_bytes: Option<u64>,
    /// The limit that refused.
    pub cap_bytes: Option<u64>,
    /// Held outside the allocator.
    pub outside_bytes: Option<u64>,
    /// Missing even without any fragmentation.
    pub missing_bytes: u64,
    /// Held from the driver.
    pub reserved_bytes: u64,
    /// Allocated plus pending.
    pub active_bytes: u64,
    /// Blocks handed out.
    pub allocated_bytes: u64,
    /// Given back, but waiting.
    pub pending_free_bytes: u64,
    /// Free in segments of the request's pool.
    pub slack_bytes: u64,
    /// Free in other pools.
    pub private_pool_free_bytes: u64,
    /// Largest free block of the same stream and pool.
    pub largest_free_block_bytes: u64,
    /// Stream of the request.
    pub stream: u64,
    /// Pool of the request.
    pub pool: PoolId,
    /// Stack of the request.
    pub stack: StackId,
}

/// The table of [`OOMS`].
///
/// # Errors
/// When the table engine refuses the table, which would be a fault of memlab.
pub fn ooms_frame(source: &FrameSource<'_>, rows: &[OomEntry]) -> Result<DataFrame> {
    let events: Vec<_> = rows.iter().map(|row| event_number(Some(row.event))).collect();
    let times: Vec<_> = events.iter().map(|&event| source.time_of(event)).collect();
    let pools: Vec<_> = rows.iter().map(|row| pool_name(row.pool)).collect();
    let stacks: Vec<_> = rows.iter().map(|row| row.stack).collect();
    let mut positions = Positions::default();
    for &stack in &stacks {
        positions.push_stack(source.trace, source.grouping, stack);
    }
    let mut columns = vec![
        source.device_column(rows.len()),
        Column::new("oom".into(), (0..rows.len() as u32).collect::<Vec<_>>()),
        Column::new("event".into(), events),
        Column::new("time_us".into(), times),
        counts("requested_bytes", rows, |row| row.requested_bytes),
        counts("segment_bytes", rows, |row| row.segment_bytes),
        texts("verdict", rows, |row| row.verdict),
        texts("cause", rows, |row| row.cause),
        texts("explanation", rows, |row| &row.explanation),
    ];
    columns.extend(figures(rows));
    columns.push(Column::new("pool".into(), pools));
    columns.extend(source.stack_columns(&stacks));
    columns.extend(positions.columns());
    OOMS.frame(columns)
}

fn figures(rows: &[OomEntry]) -> [Column; 12] {
    [
        known_counts("device_free_bytes", rows, |row| row.device_free_bytes),
        known_counts("cap_bytes", rows, |row| row.cap_bytes),
        known_counts("outside_bytes", rows, |row| row.outside_bytes),
        counts("missing_bytes", rows, |row| row.missing_bytes),
        counts("reserved_bytes", rows, |row| row.reserved_bytes),
        counts("active_bytes", rows, |row| row.active_bytes),
        counts("allocated_bytes", rows, |row| row.allocated_bytes),
        counts("pending_free_bytes", rows, |row| row.pending_free_bytes),
        counts("slack_bytes", rows, |row| row.slack_bytes),
        counts("private_pool_free_bytes", rows, |row| row.private_pool_free_bytes),
        counts("largest_free_block_bytes", rows, |row| row.largest_free_block_bytes),
        counts("stream", rows, |row| row.stream),
    ]
}
