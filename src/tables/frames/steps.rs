//! One row per step.

use polars::prelude::{Column, DataFrame};

use crate::error::Result;
use crate::model::DeviceTrace;
use crate::tables::{StepRow, StepTable};

use super::{frame, time_of};

/// The steps of one device, in order.
///
/// | column | type | meaning |
/// | --- | --- | --- |
/// | `step` | u32 | number of the step, from 0 |
/// | `name` | text | its name as recorded |
/// | `source` | text | `marks`, `annotations` or `detected` |
/// | `first_event`, `last_event` | u32 | its events; null for a step without events |
/// | `begin_time_us`, `end_time_us` | i64 | Unix microseconds of these events |
/// | `begin_allocated_bytes` | u64 | allocated before its first event |
/// | `peak_allocated_bytes` | u64 | the most allocated within it |
/// | `peak_event` | u32 | the event after which that is first reached; null: before the first event of all |
/// | `end_allocated_bytes` | u64 | allocated after its last event |
/// | `growth_bytes` | i64 | by how much that exceeds the end of the step before |
///
/// # Errors
/// When the table engine refuses the table, which would be a fault of memlab.
pub fn steps_frame(device: &DeviceTrace, steps: &StepTable) -> Result<DataFrame> {
    let rows = &steps.rows;
    let first: Vec<_> =
        rows.iter().map(|step| (step.end > step.begin).then_some(step.begin.0 as u32)).collect();
    let last: Vec<_> =
        rows.iter().map(|step| (step.end > step.begin).then(|| step.end.0 as u32 - 1)).collect();
    let times = |events: &[Option<u32>]| -> Vec<Option<i64>> {
        events.iter().map(|&event| time_of(device, event)).collect()
    };
    let (begin_times, end_times) = (times(&first), times(&last));
    let bytes = |name: &str, of: fn(&StepRow) -> u64| {
        Column::new(name.into(), rows.iter().map(of).collect::<Vec<_>>())
    };
    let peak_events: Vec<_> =
        rows.iter().map(|step| step.peak_allocated.moment.event().map(|event| event as u32)).collect();
    frame(
        "steps",
        vec![
            Column::new("step".into(), (0..rows.len() as u32).collect::<Vec<_>>()),
            Column::new("name".into(), rows.iter().map(|step| step.name.as_str()).collect::<Vec<_>>()),
            Column::new("source".into(), vec![steps.source.name(); rows.len()]),
            Column::new("first_event".into(), first),
            Column::new("last_event".into(), last),
            Column::new("begin_time_us".into(), begin_times),
            Column::new("end_time_us".into(), end_times),
            bytes("begin_allocated_bytes", |step| step.begin_allocated_bytes),
            bytes("peak_allocated_bytes", |step| step.peak_allocated.bytes),
            Column::new("peak_event".into(), peak_events),
            bytes("end_allocated_bytes", |step| step.end_allocated_bytes),
            Column::new("growth_bytes".into(), rows.iter().map(|step| step.growth_bytes).collect::<Vec<_>>()),
        ],
    )
}
