//! The pending rows, divided among the devices.

use crate::error::Result;
use crate::import::rows::{ROW_BYTES, Rows};
use crate::model::{DeviceId, Events, OptionalColumn, StringId, Trace};

use super::events::Ranges;

/// Gives every device its events. When one device has them all, in order, the columns move as they are;
/// otherwise they are copied.
pub(super) fn assign(mut rows: Rows, devices: &[(DeviceId, Ranges)]) -> Result<Trace> {
    let total = rows.len();
    let used: Vec<_> = devices.iter().filter(|(_, ranges)| !ranges.is_empty()).collect();
    if let [(device, ranges)] = used[..]
        && ranges[..] == [(0, total as u32)]
    {
        rows.trace.device_mut(*device).events = std::mem::take(&mut rows.events);
        return Ok(rows.trace);
    }
    for (device, ranges) in used {
        let count: usize = ranges.iter().map(|&(_, count)| count as usize).sum();
        rows.ledger.charge(count.saturating_mul(ROW_BYTES), 0)?;
        let events = gather(&rows.events, ranges, count);
        rows.trace.device_mut(*device).events = events;
    }
    Ok(rows.trace)
}

fn gather(all: &Events, ranges: &Ranges, count: usize) -> Events {
    let mut events = Events::default();
    events.reserve(count);
    let mut streams = vec![u32::MAX; all.stream_values.len()];
    for &(first, length) in ranges {
        let range = first as usize..first as usize + length as usize;
        let from = events.len();
        events.actions.extend_from_slice(&all.actions[range.clone()]);
        events.times_us.extend_from_slice(&all.times_us[range.clone()]);
        events.addresses.extend_from_slice(&all.addresses[range.clone()]);
        events.sizes.extend_from_slice(&all.sizes[range.clone()]);
        events.stacks.extend_from_slice(&all.stacks[range.clone()]);
        for &old in &all.streams[range.clone()] {
            let new = &mut streams[old as usize];
            if *new == u32::MAX {
                *new = events.stream_values.len() as u32;
                events.stream_values.push(all.stream_values[old as usize]);
            }
            events.streams.push(*new);
        }
        for (offset, row) in range.clone().enumerate() {
            let to = from + offset;
            copy(&all.pools, row, &mut events.pools, to);
            copy(&all.compile_contexts, row, &mut events.compile_contexts, to);
            copy(&all.user_metadata, row, &mut events.user_metadata, to);
            copy(&all.internal_metadata, row, &mut events.internal_metadata, to);
            copy(&all.forward_frames, row, &mut events.forward_frames, to);
        }
        events.other_actions.extend(others(all, range.start, range.end, from));
    }
    events
}

fn copy<T: Copy + Default + PartialEq>(
    from: &OptionalColumn<T>,
    row: usize,
    to: &mut OptionalColumn<T>,
    at: usize,
) {
    to.set(at, from.get(row));
}

/// Names of unknown actions in rows `start..end`, which move to `to`.
fn others(all: &Events, start: usize, end: usize, to: usize) -> impl Iterator<Item = (u64, StringId)> {
    let first = all.other_actions.partition_point(|&(row, _)| row < start as u64);
    let last = all.other_actions.partition_point(|&(row, _)| row < end as u64);
    all.other_actions[first..last].iter().map(move |&(row, name)| (row - start as u64 + to as u64, name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::import::rows::Row;
    use crate::model::Action;

    fn rows() -> Rows {
        let mut rows = Rows::new(1 << 20);
        for n in 0..6u64 {
            let action = if n == 4 { Action::Other } else { Action::Alloc };
            rows.push(&Row {
                action,
                address: n,
                stream: n % 2,
                other_action: StringId(n as u32),
                ..Row::default()
            });
        }
        rows
    }

    #[test]
    fn one_device_takes_the_columns_as_they_are() {
        let trace = assign(rows(), &[(DeviceId(3), vec![(0, 6)])]).unwrap();
        assert_eq!(trace.devices.len(), 1);
        assert_eq!(trace.devices[0].events.addresses, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn several_devices_get_their_own_rows_and_stream_numbers() {
        let devices =
            [(DeviceId(0), vec![(3, 2), (0, 1)]), (DeviceId(1), vec![]), (DeviceId(2), vec![(1, 2)])];
        let trace = assign(rows(), &devices).unwrap();
        assert_eq!(trace.devices.len(), 2);
        let first = &trace.devices[0].events;
        assert_eq!(first.addresses, [3, 4, 0]);
        assert_eq!((0..3).map(|row| first.stream(row)).collect::<Vec<_>>(), [1, 0, 0]);
        assert_eq!(first.other_actions, [(1, StringId(4))]);
        assert_eq!(trace.devices[1].events.addresses, [1, 2]);
    }
}
