//! Instants: the four peaks, and every request that failed.

use crate::error::Result;
use crate::rebuild::{History, Moment, OomEvent};
use crate::units::Bytes;

use super::about;
use super::axis::DeviceAxis;
use super::messages::{INSTANT, TrackEvent};
use super::packets::{Packets, values};

/// Writes peaks and failures of one device.
pub(super) fn write(
    packets: &mut Packets<'_>,
    parent: u64,
    axis: &DeviceAxis<'_>,
    history: &History,
) -> Result<()> {
    if !history.ooms.is_empty() {
        let what = "Requests that failed; requested_bytes is the rounded request.".to_owned();
        let track = packets.track(about::track(parent, 10, "out of memory", what))?;
        for oom in &history.ooms {
            write_oom(packets, track, axis, oom)?;
        }
    }
    let what = "Where each counter is highest, for the first time.".to_owned();
    let track = packets.track(about::track(parent, 11, "peaks", what))?;
    let all = history.peaks;
    let mut peaks = [
        ("requested", all.requested),
        ("allocated", all.allocated),
        ("active", all.active),
        ("reserved", all.reserved),
    ];
    peaks.sort_by_key(|(_, peak)| peak.moment);
    for (name, peak) in peaks {
        let event = TrackEvent {
            kind: Some(INSTANT),
            name_iid: packets.name(&format!("peak of {name} bytes: {}", Bytes(peak.bytes))),
            debug_annotations: vec![
                values::count("bytes", peak.bytes),
                values::count("events", peak.moment.0),
            ],
            ..TrackEvent::default()
        };
        packets.event(track, axis.ns(peak.moment), event)?;
    }
    Ok(())
}

fn write_oom(packets: &mut Packets<'_>, track: u64, axis: &DeviceAxis<'_>, oom: &OomEvent) -> Result<()> {
    let mut beside = vec![values::count("requested_bytes", oom.size)];
    beside.extend(oom.device_free_bytes.map(|bytes| values::count("device_free_bytes", bytes)));
    beside.extend([
        values::count("allocated_bytes", oom.usage.allocated_bytes),
        values::count("active_bytes", oom.usage.active_bytes),
        values::count("reserved_bytes", oom.usage.reserved_bytes),
        values::count("stream", oom.stream),
        values::count("event", oom.event),
    ]);
    beside.extend(packets.stack(oom.stack));
    let event = TrackEvent {
        kind: Some(INSTANT),
        name_iid: packets.name(&format!("OOM: {}", Bytes(oom.size))),
        debug_annotations: beside,
        ..TrackEvent::default()
    };
    packets.event(track, axis.ns(Moment::after(oom.event)), event)
}
