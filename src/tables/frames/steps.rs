//! One row per step.

use polars::prelude::{Column, DataFrame};

use crate::error::Result;
use crate::tables::{StepRow, StepTable};

use super::parts::{FrameSource, counts, event_number, texts};
use super::schema::TableSchema;
use super::schema::columns::{DEVICE, bytes, change, event, number, text, time};

/// The table's schema.
pub const STEPS: TableSchema = TableSchema {
    name: "steps",
    meaning: "Every step, in order; no row where none were found",
    columns: &[
        DEVICE,
        number("step", "number of the step, from 0"),
        text("name", "its name as recorded, or a number"),
        text("source", "`marks`, `annotations` or `detected`: how steps were found"),
        event("first_event", "its first event; null for a step without events"),
        event("last_event", "its last event; null for a step without events"),
        time("begin_time_us", "Unix time of the first event"),
        time("end_time_us", "Unix time of the last event"),
        bytes("begin_allocated_bytes", "allocated before its first event"),
        bytes("peak_allocated_bytes", "the most allocated within it"),
        event("peak_event", "after which that is first reached; null: before the first event of all"),
        bytes("end_allocated_bytes", "allocated after its last event"),
        change(
            "growth_bytes",
            "by how much that exceeds the end of the step before; for the first step, its own beginning",
        ),
    ],
};

/// The table of [`STEPS`].
///
/// # Errors
/// When the table engine refuses the table, which would be a fault of memlab.
pub fn steps_frame(source: &FrameSource<'_>, steps: &StepTable) -> Result<DataFrame> {
    let rows = &steps.rows;
    let has_events = |step: &&StepRow| step.end > step.begin;
    let first = |step: &StepRow| Some(step).filter(has_events).map(|step| step.begin.0 as u32);
    let last = |step: &StepRow| Some(step).filter(has_events).map(|step| step.end.0 as u32 - 1);
    let firsts: Vec<_> = rows.iter().map(first).collect();
    let lasts: Vec<_> = rows.iter().map(last).collect();
    let times = |events: &[Option<u32>]| -> Vec<Option<i64>> {
        events.iter().map(|&event| source.time_of(event)).collect()
    };
    let (begins, ends) = (times(&firsts), times(&lasts));
    let peaks: Vec<_> = rows.iter().map(|step| event_number(step.peak_allocated.moment.event())).collect();
    STEPS.frame(vec![
        source.device_column(rows.len()),
        Column::new("step".into(), (0..rows.len() as u32).collect::<Vec<_>>()),
        texts("name", rows, |step| step.name.as_str()),
        Column::new("source".into(), vec![steps.source.name(); rows.len()]),
        Column::new("first_event".into(), firsts),
        Column::new("last_event".into(), lasts),
        Column::new("begin_time_us".into(), begins),
        Column::new("end_time_us".into(), ends),
        counts("begin_allocated_bytes", rows, |step| step.begin_allocated_bytes),
        counts("peak_allocated_bytes", rows, |step| step.peak_allocated.bytes),
        Column::new("peak_event".into(), peaks),
        counts("end_allocated_bytes", rows, |step| step.end_allocated_bytes),
        Column::new("growth_bytes".into(), rows.iter().map(|step| step.growth_bytes).collect::<Vec<_>>()),
    ])
}
