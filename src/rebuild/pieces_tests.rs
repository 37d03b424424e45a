use super::*;
use crate::model::{Excerpt, TraceBuilder};
use crate::rebuild::{Moment, rebuild};

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
    let (mut front, mut behind) = (device.clone(), device.clone());
    behind.events = front.events.split_off(piece_end(&device.events, 5));
    let mut prelude = Prelude::default();
    prelude.take(&device.events);
    assert!(prelude.must_look_again(None));
    prelude.take_again(&device.events);
    let mut carried = prelude.finish(None, &trace.settings);
    let first = carried.next(&trace, &front);
    let segments = carried.segments();
    assert_eq!(segments[0].stated_bytes, [3 << 20 | 512, 8 << 20 | 512, 8 << 20 | 7]);
    assert_eq!(segments[0].blocks.iter().map(|block| block.bytes).sum::<u64>(), 20 << 20);
    let excerpt = Excerpt { first_event: 5, recorded_events: 7, segments };
    let tail = DeviceTrace { excerpt: Some(excerpt), ..behind };
    let rest = rebuild(&trace, &tail);
    assert_eq!((rest.initial, rest.end, rest.first_event), (first.end, history.end, 5));
    assert_eq!(rest.state_at(Moment(rest.events)).segments[0].blocks.len(), 5);
}
