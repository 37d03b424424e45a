//! One row per address range held from the driver.

use polars::prelude::{Column, DataFrame};

use crate::error::Result;
use crate::model::{DeviceTrace, Trace};
use crate::rebuild::{History, Moment};
use crate::tables::Grouping;

use super::{Positions, frame, kind_name, known_stack, pool_name, time_of};

/// Every segment of one device, in the order of the history's rows. A piece of an expandable segment has a
/// row of its own for as long as its extent stays the same.
///
/// | column | type | meaning |
/// | --- | --- | --- |
/// | `id` | u32 | number of the range on its device |
/// | `device` | u32 | device |
/// | `stream` | u64 | stream whose requests it serves |
/// | `pool` | text | `0:0` default pool, `0:n` a `MemPool`, `n:0` a graph's pool |
/// | `kind` | text | `small` or `large` |
/// | `expandable` | bool | whether it is a piece of an expandable segment |
/// | `address` | u64 | first byte |
/// | `bytes` | u64 | length |
/// | `alloc_event` | u32 | event that obtained it; null: before the recording |
/// | `free_event` | u32 | event that returned it; null: held at the end |
/// | `alloc_time_us`, `free_time_us` | i64 | their Unix microseconds; null when not known |
/// | `stack` | u32 | number of the stack that caused it; null when none was recorded |
/// | `file`, `line`, `function` | text, u64, text | the group of that stack; null when it has none |
///
/// # Errors
/// When the table engine refuses the table, which would be a fault of memlab.
pub fn segments_frame(
    trace: &Trace,
    device: &DeviceTrace,
    history: &History,
    grouping: &Grouping,
) -> Result<DataFrame> {
    let ranges = &history.ranges;
    let rows = ranges.len();
    let mut positions = Positions::default();
    for &stack in &ranges.stacks {
        positions.push_stack(trace, grouping, stack);
    }
    let born: Vec<Option<u32>> = ranges.born.iter().map(|&moment| causing_event(moment)).collect();
    let died: Vec<Option<u32>> = ranges.died.iter().map(|&moment| causing_event(moment)).collect();
    let times = |events: &[Option<u32>]| -> Vec<Option<i64>> {
        events.iter().map(|&event| time_of(device, event)).collect()
    };
    let mut columns = vec![
        Column::new("id".into(), (0..rows as u32).collect::<Vec<_>>()),
        Column::new("device".into(), vec![history.device.0; rows]),
        Column::new("stream".into(), ranges.streams.as_slice()),
        Column::new("pool".into(), ranges.pools.iter().map(|&pool| pool_name(pool)).collect::<Vec<_>>()),
        Column::new("kind".into(), ranges.kinds.iter().map(|&kind| kind_name(kind)).collect::<Vec<_>>()),
        Column::new("expandable".into(), ranges.expandable.as_slice()),
        Column::new("address".into(), ranges.addresses.as_slice()),
        Column::new("bytes".into(), ranges.bytes.as_slice()),
        Column::new("alloc_time_us".into(), times(&born)),
        Column::new("free_time_us".into(), times(&died)),
    ];
    columns.insert(8, Column::new("alloc_event".into(), born));
    columns.insert(9, Column::new("free_event".into(), died));
    let stacks: Vec<_> = ranges.stacks.iter().map(|&stack| known_stack(stack)).collect();
    columns.push(Column::new("stack".into(), stacks));
    columns.extend(positions.columns());
    frame("segments", columns)
}

/// The event that leads to `moment`: none before the first event, none for "never".
fn causing_event(moment: Moment) -> Option<u32> {
    moment.event().and_then(|event| u32::try_from(event).ok())
}
