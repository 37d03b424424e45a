//! One row per allocation.

use polars::prelude::{Column, DataFrame};

use crate::error::Result;
use crate::model::{DeviceTrace, Trace};
use crate::rebuild::{Allocations, History};
use crate::tables::Grouping;

use super::{Positions, frame, kind_name, known_event, known_stack, pool_name, time_of};

/// Every allocation of one device, in the order of the history's rows: those from before the recording by
/// address, then by their `alloc` event.
///
/// | column | type | meaning |
/// | --- | --- | --- |
/// | `id` | u32 | number of the allocation on its device |
/// | `device` | u32 | device |
/// | `stream` | u64 | stream that allocated it; null when unknown |
/// | `pool` | text | `0:0` default pool, `0:n` a `MemPool`, `n:0` a graph's pool; null when unknown |
/// | `kind` | text | `small` or `large` pool; null when its segment is unknown |
/// | `address` | u64 | first byte |
/// | `requested_bytes` | u64 | bytes asked for |
/// | `block_bytes` | u64 | bytes of the block, rounding included |
/// | `alloc_event` | u32 | event that handed it out; null: before the recording |
/// | `free_requested_event` | u32 | event that gave it back; null: live at the end |
/// | `free_completed_event` | u32 | event that made it reusable; null: active at the end |
/// | `alloc_time_us` | i64 | Unix microseconds of the first of these |
/// | `lifetime_us` | i64 | from handed out to given back; null when either time is not known |
/// | `stack` | u32 | number of its stack in the trace; null when none was recorded |
/// | `file`, `line`, `function` | text, u64, text | its group; null when it has none |
/// | `inferred` | bool | whether the group was inferred rather than recorded |
///
/// # Errors
/// When the table engine refuses the table, which would be a fault of memlab.
pub fn allocations_frame(
    trace: &Trace,
    device: &DeviceTrace,
    history: &History,
    grouping: &Grouping,
) -> Result<DataFrame> {
    let allocations = &history.allocations;
    let rows = allocations.len();
    let mut positions = Positions::default();
    for row in 0..rows {
        positions.push(trace, grouping.key_of_allocation(row));
    }
    let mut columns = vec![
        Column::new("id".into(), (0..rows as u32).collect::<Vec<_>>()),
        Column::new("device".into(), vec![history.device.0; rows]),
    ];
    columns.extend(places(trace, device, history));
    columns.extend([
        Column::new("address".into(), allocations.addresses.as_slice()),
        Column::new("requested_bytes".into(), allocations.requested_bytes.as_slice()),
        Column::new("block_bytes".into(), allocations.block_bytes.as_slice()),
    ]);
    columns.extend(life(device, allocations));
    let stacks: Vec<_> = allocations.stacks.iter().map(|&stack| known_stack(stack)).collect();
    columns.push(Column::new("stack".into(), stacks));
    columns.extend(positions.columns());
    columns.push(Column::new("inferred".into(), grouping.inferred.as_slice()));
    frame("allocations", columns)
}

/// Stream, pool and kind.
fn places(trace: &Trace, device: &DeviceTrace, history: &History) -> [Column; 3] {
    let (allocations, ranges) = (&history.allocations, &history.ranges);
    let range_pools: Vec<String> = ranges.pools.iter().map(|&pool| pool_name(pool)).collect();
    let event_pools: Vec<String> = trace.pools.iter().map(|&pool| pool_name(pool)).collect();
    let rows = allocations.len();
    let (mut streams, mut pools, mut kinds) =
        (Vec::with_capacity(rows), Vec::with_capacity(rows), Vec::with_capacity(rows));
    for row in 0..rows {
        let range = allocations.ranges[row] as usize;
        let event = allocations.alloc_events[row] as usize;
        let event_stream = device
            .events
            .streams
            .get(event)
            .and_then(|&stream| device.events.stream_values.get(stream as usize));
        let named = device.events.pools.get(event).checked_sub(1);
        let event_pool = named.and_then(|pool| event_pools.get(pool as usize));
        streams.push(event_stream.or_else(|| ranges.streams.get(range)).copied());
        pools.push(range_pools.get(range).or(event_pool).map(String::as_str));
        kinds.push(ranges.kinds.get(range).map(|&kind| kind_name(kind)));
    }
    [
        Column::new("stream".into(), streams),
        Column::new("pool".into(), pools),
        Column::new("kind".into(), kinds),
    ]
}

/// Events and times.
fn life(device: &DeviceTrace, allocations: &Allocations) -> Vec<Column> {
    let events = |column: &[u32]| column.iter().map(|&event| known_event(event)).collect::<Vec<_>>();
    let rows = allocations.len();
    let (mut times, mut lifetimes) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
    for row in 0..rows {
        let given_back = allocations.given_back_event(row);
        let from = time_of(device, known_event(allocations.alloc_events[row]));
        let until = time_of(device, known_event(given_back));
        times.push(from);
        lifetimes.push(from.zip(until).and_then(|(from, until)| until.checked_sub(from)));
    }
    vec![
        Column::new("alloc_event".into(), events(&allocations.alloc_events)),
        Column::new("free_requested_event".into(), events(&allocations.free_requested_events)),
        Column::new("free_completed_event".into(), events(&allocations.free_completed_events)),
        Column::new("alloc_time_us".into(), times),
        Column::new("lifetime_us".into(), lifetimes),
    ]
}
