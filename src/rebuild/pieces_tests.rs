use super::*;
use crate::model::{Excerpt, TraceBuilder};
use crate::rebuild::{Moment, rebuild};

/// The pieces of `device`, each with no more than `most` events.
fn pieces(device: &DeviceTrace, most: usize) -> Vec<DeviceTrace> {
    let (mut rest, mut first, mut found) = (device.events.clone(), 0, Vec::new());
    while !rest.is_empty() {
        let end = piece_end(&rest, most);
        let behind = rest.split_off(end);
        let excerpt = Some(Excerpt { first_event: first, ..Excerpt::default() });
        first += end as u64;
        found.push(DeviceTrace { events: rest, excerpt, ..device.clone() });
        rest = behind;
    }
    found
}

#[test]
fn a_state_is_as_good_as_all_that_led_to_it() {
    const A: u64 = 0x7f00_0000_0000;
    let trace = TraceBuilder::new()
        .segment_alloc(A, 20 << 20)
        .alloc(A, 5 << 20)
        .alloc(A + (5 << 20), 3 << 20)
        .free_requested(A, 5 << 20)
        .alloc(A + (8 << 20), 7)
        .free_completed(A, 5 << 20)
        .alloc(A, 1 << 20)
        .build();
    let device = &trace.devices[0];
    let history = rebuild(&trace, device);
    let parts = pieces(device, 5);
    assert_eq!(parts.len(), 2);
    let mut carried = Carried::from_state(&[], &trace.settings);
    let first = carried.next(&trace, &parts[0]);
    let segments = carried.segments();
    assert_eq!(segments[0].stated_bytes, [3 << 20 | 512, 8 << 20 | 512, 8 << 20 | 7]);
    assert_eq!(segments[0].blocks.iter().map(|block| block.bytes).sum::<u64>(), 20 << 20);
    let excerpt = Excerpt { first_event: 5, recorded_events: 7, segments };
    let tail = DeviceTrace { excerpt: Some(excerpt), ..parts[1].clone() };
    let rest = rebuild(&trace, &tail);
    assert_eq!((rest.initial, rest.end, rest.first_event), (first.end, history.end, 5));
    assert_eq!(rest.state_at(Moment(rest.events)).segments[0].blocks.len(), 5);
}
