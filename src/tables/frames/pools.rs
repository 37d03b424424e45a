//! One row per stream, pool and kind: the walls between which blocks cannot be shared.

use polars::prelude::{Column, DataFrame};

use crate::error::Result;
use crate::tables::PoolUse;

use super::parts::{FrameSource, counts, kind_name, pool_name, texts};
use super::schema::TableSchema;
use super::schema::columns::{DEVICE, bytes, count, text};

/// The table's schema.
pub const POOLS: TableSchema = TableSchema {
    name: "pools",
    meaning: "What every (stream, pool, kind) holds at the moments of `fragmentation`, ascending",
    columns: &[
        DEVICE,
        text("moment", "`peak`, `oom` or `end`"),
        count("stream", "raw pointer value; 0 is the default stream"),
        text("pool", "`0:0` default pool, `0:n` a `MemPool`, `n:0` a graph's pool"),
        text("kind", "`small` or `large`"),
        count("segments", "how many it has"),
        bytes("reserved_bytes", "held from the driver"),
        bytes("active_bytes", "allocated plus pending"),
        bytes("releasable_bytes", "in segments that are wholly free"),
        bytes("stranded_bytes", "free, but in a segment that a live block pins"),
    ],
};

/// The table of [`POOLS`]; `moments` holds the pools at each moment.
///
/// # Errors
/// When the table engine refuses the table, which would be a fault of memlab.
pub fn pools_frame(source: &FrameSource<'_>, moments: &[(&'static str, Vec<PoolUse>)]) -> Result<DataFrame> {
    let mut rows: Vec<(&str, PoolUse)> = Vec::new();
    for (moment, pools) in moments {
        rows.extend(pools.iter().map(|pool| (*moment, *pool)));
    }
    POOLS.frame(vec![
        source.device_column(rows.len()),
        texts("moment", &rows, |(moment, _)| moment),
        counts("stream", &rows, |(_, row)| row.stream),
        Column::new("pool".into(), rows.iter().map(|(_, row)| pool_name(row.pool)).collect::<Vec<_>>()),
        texts("kind", &rows, |(_, row)| kind_name(row.kind)),
        counts("segments", &rows, |(_, row)| row.segments),
        counts("reserved_bytes", &rows, |(_, row)| row.reserved_bytes),
        counts("active_bytes", &rows, |(_, row)| row.active_bytes),
        counts("releasable_bytes", &rows, |(_, row)| row.releasable_bytes),
        counts("stranded_bytes", &rows, |(_, row)| row.stranded_bytes),
    ])
}
