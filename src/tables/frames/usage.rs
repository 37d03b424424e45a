//! One row per moment: the four counters.

use polars::prelude::{Column, DataFrame};

use crate::error::Result;
use crate::model::DeviceTrace;
use crate::rebuild::{History, Usage};
use crate::tables::usages::each_usage;

use super::{frame, time_of};

/// The counters of one device before the first event and after every event.
///
/// | column | type | meaning |
/// | --- | --- | --- |
/// | `event` | u32 | the event after which this holds; null in the first row, before all events |
/// | `time_us` | i64 | its Unix microseconds; null when not recorded |
/// | `requested_bytes` | u64 | asked for, over active blocks |
/// | `allocated_bytes` | u64 | blocks handed out |
/// | `active_bytes` | u64 | plus blocks whose free is pending |
/// | `reserved_bytes` | u64 | held from the driver |
///
/// # Errors
/// When the table engine refuses the table, which would be a fault of memlab.
pub fn usage_frame(device: &DeviceTrace, history: &History) -> Result<DataFrame> {
    let mut usage: Vec<Usage> = Vec::with_capacity(history.allocation_of_event.len() + 1);
    each_usage(history, |_, counters| usage.push(counters));
    let events: Vec<Option<u32>> = (0..usage.len() as u32).map(|moment| moment.checked_sub(1)).collect();
    let times: Vec<_> = events.iter().map(|&event| time_of(device, event)).collect();
    let counter = |name: &str, of: fn(&Usage) -> u64| {
        Column::new(name.into(), usage.iter().map(of).collect::<Vec<_>>())
    };
    frame(
        "usage",
        vec![
            Column::new("event".into(), events),
            Column::new("time_us".into(), times),
            counter("requested_bytes", |usage| usage.requested_bytes),
            counter("allocated_bytes", |usage| usage.allocated_bytes),
            counter("active_bytes", |usage| usage.active_bytes),
            counter("reserved_bytes", |usage| usage.reserved_bytes),
        ],
    )
}
