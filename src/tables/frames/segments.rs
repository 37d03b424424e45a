//! One row per address range held from the driver.

use polars::prelude::{Column, DataFrame};

use crate::error::Result;
use crate::rebuild::Moment;

use super::parts::{FrameSource, Positions, event_number, kind_name, pool_name};
use super::schema::TableSchema;
use super::schema::columns::{
    DEVICE, FILE, FUNCTION, LINE, STACK, STACK_HASH, bytes, count, event, flag, number, text, time,
};

/// The table's schema.
pub const SEGMENTS: TableSchema = TableSchema {
    name: "segments",
    meaning: "Every segment, in the order in which they were obtained. A piece of an expandable segment has a row \
              of its own for as long as its extent stays the same",
    columns: &[
        DEVICE,
        number("id", "number of the range on its device"),
        count("stream", "stream whose requests it serves"),
        text("pool", "`0:0` default pool, `0:n` a `MemPool`, `n:0` a graph's pool"),
        text("kind", "`small` or `large`"),
        flag("expandable", "whether it is a piece of an expandable segment"),
        count("address", "first byte"),
        bytes("bytes", "length"),
        event("alloc_event", "obtained it; null: before the recording"),
        event("free_event", "returned it; null: held at the end"),
        time("alloc_time_us", "Unix time of `alloc_event`; null when not known"),
        time("free_time_us", "Unix time of `free_event`; null when not known"),
        STACK,
        STACK_HASH,
        FILE,
        LINE,
        FUNCTION,
    ],
};

/// The table of [`SEGMENTS`].
///
/// # Errors
/// When the table engine refuses the table, which would be a fault of memlab.
pub fn segments_frame(source: &FrameSource<'_>) -> Result<DataFrame> {
    let ranges = &source.history.ranges;
    let rows = ranges.len();
    let mut positions = Positions::default();
    for &stack in &ranges.stacks {
        positions.push_stack(source.trace, source.grouping, stack);
    }
    let causes = |moments: &[Moment]| -> Vec<Option<u32>> {
        moments.iter().map(|&moment| causing_event(moment)).collect()
    };
    let (born, died) = (causes(&ranges.born), causes(&ranges.died));
    let times = |events: &[Option<u32>]| -> Vec<Option<i64>> {
        events.iter().map(|&event| source.time_of(event)).collect()
    };
    let (born_times, died_times) = (times(&born), times(&died));
    let mut columns = vec![
        source.device_column(rows),
        Column::new("id".into(), (0..rows as u32).collect::<Vec<_>>()),
        Column::new("stream".into(), ranges.streams.as_slice()),
        Column::new("pool".into(), ranges.pools.iter().map(|&pool| pool_name(pool)).collect::<Vec<_>>()),
        Column::new("kind".into(), ranges.kinds.iter().map(|&kind| kind_name(kind)).collect::<Vec<_>>()),
        Column::new("expandable".into(), ranges.expandable.as_slice()),
        Column::new("address".into(), ranges.addresses.as_slice()),
        Column::new("bytes".into(), ranges.bytes.as_slice()),
        Column::new("alloc_event".into(), born),
        Column::new("free_event".into(), died),
        Column::new("alloc_time_us".into(), born_times),
        Column::new("free_time_us".into(), died_times),
    ];
    columns.extend(source.stack_columns(&ranges.stacks));
    columns.extend(positions.columns());
    SEGMENTS.frame(columns)
}

/// The event that leads to `moment`: none before the first event, none for "never".
fn causing_event(moment: Moment) -> Option<u32> {
    event_number(moment.event())
}
