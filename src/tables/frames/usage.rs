//! One row per moment: the four counters.

use polars::prelude::{Column, DataFrame};

use crate::error::Result;
use crate::rebuild::Usage;
use crate::tables::usages::each_usage;

use super::parts::{FrameSource, PIECE, Sink, counts};
use super::schema::TableSchema;
use super::schema::columns::{DEVICE, bytes, event, time};

/// The table's schema.
pub const USAGE: TableSchema = TableSchema {
    name: "usage",
    meaning: "The counters before the first event and after every event, in order",
    columns: &[
        DEVICE,
        event("event", "the event after which this holds; null in the first row, before all events"),
        time("time_us", "its Unix time; null when not recorded"),
        bytes("requested_bytes", "asked for, over active blocks"),
        bytes("allocated_bytes", "blocks handed out"),
        bytes("active_bytes", "plus blocks whose free is pending"),
        bytes("reserved_bytes", "held from the driver"),
    ],
};

/// The table of [`USAGE`].
///
/// # Errors
/// Those of `sink`; when the table engine refuses the table, which would be a fault of memlab.
pub fn usage_frames(source: &FrameSource<'_>, sink: &mut Sink<'_>) -> Result<()> {
    let mut rows: Vec<(Option<u32>, Usage)> = Vec::new();
    let mut told = Ok(());
    each_usage(source.history, |moment, usage| {
        rows.push((moment.event().map(|event| event as u32), usage));
        if rows.len() == PIECE && told.is_ok() {
            told = frame(source, &rows).and_then(&mut *sink);
            rows.clear();
        }
    });
    told?;
    if rows.is_empty() { Ok(()) } else { sink(frame(source, &rows)?) }
}

fn frame(source: &FrameSource<'_>, rows: &[(Option<u32>, Usage)]) -> Result<DataFrame> {
    let events: Vec<_> = rows.iter().map(|(event, _)| *event).collect();
    let times: Vec<_> = events.iter().map(|&event| source.time_of(event)).collect();
    USAGE.frame(vec![
        source.device_column(rows.len()),
        Column::new("event".into(), events),
        Column::new("time_us".into(), times),
        counts("requested_bytes", rows, |(_, usage)| usage.requested_bytes),
        counts("allocated_bytes", rows, |(_, usage)| usage.allocated_bytes),
        counts("active_bytes", rows, |(_, usage)| usage.active_bytes),
        counts("reserved_bytes", rows, |(_, usage)| usage.reserved_bytes),
    ])
}
