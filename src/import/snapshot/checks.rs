//! What can be said only of the whole trace: times in order, sizes that can be, devices without state.

use crate::model::{Action, DeviceId, DeviceTrace, NO_TIME, Trace, Warnings};

/// More bytes than any device has or ever could have: 1 PiB.
pub(super) const SIZE_MAX: u64 = 1 << 50;

/// Looks over the finished trace and adds warnings.
pub(super) fn check(trace: &mut Trace, without_segments: &[DeviceId]) {
    settle_segments(trace, without_segments);
    for device in &trace.devices {
        times(device, &mut trace.warnings);
        sizes(device, &mut trace.warnings);
    }
}

/// A device without segments has none at the end, unless the file has no segments at all though memory was
/// obtained: then its writer left them out, and nothing is known.
fn settle_segments(trace: &mut Trace, without_segments: &[DeviceId]) {
    let any = trace.devices.iter().any(|device| device.segments.is_some());
    let obtains = |action: &Action| {
        matches!(
            action,
            Action::SegmentAlloc | Action::SegmentMap | Action::SegmentFree | Action::SegmentUnmap
        )
    };
    for device in &mut trace.devices {
        let events = &device.events;
        if without_segments.contains(&device.device) {
            device.segments = None;
            continue;
        }
        if device.segments.is_some() || trace.warnings.count("truncated") > 0 {
            continue;
        }
        if any || events.is_empty() || events.actions.iter().any(obtains) {
            device.segments = Some(Vec::new());
        } else {
            trace.warnings.add("no-segments", || {
                "the snapshot has no segments, though its events speak of memory: the final state is unknown".to_owned()
            });
        }
    }
}

fn times(device: &DeviceTrace, warnings: &mut Warnings) {
    let times = &device.events.times_us;
    let backwards = |pair: &&[i64]| pair[1] < pair[0] && pair[1] != NO_TIME;
    let count = times.windows(2).filter(backwards).count() as u64;
    let number = device.device.0;
    warnings.add_about("time-order", &number.to_string(), count, || {
        format!("events of device {number} are not in the order of their times: the ring may have been resized while it recorded")
    });
}

fn sizes(device: &DeviceTrace, warnings: &mut Warnings) {
    let events = &device.events;
    let limit = |action| if action == Action::Oom { i64::MAX.cast_unsigned() } else { SIZE_MAX };
    let mut count = 0;
    let mut first = None;
    for (row, &size) in events.sizes.iter().enumerate() {
        if size > SIZE_MAX && size > limit(events.actions[row]) {
            count += 1;
            first = first.or(Some((row, size)));
        }
    }
    warnings.add_about("impossible-value", "event size", count, || {
        let (row, size) = first.unwrap_or_default();
        format!("event {row} of device {} has a size of {size} bytes", device.device.0)
    });
}
