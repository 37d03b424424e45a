//! Tracks of slices: writes what `lanes` distributed, and the steps of a device.

use crate::error::Result;
use crate::model::{DeviceTrace, Trace};
use crate::rebuild::History;
use crate::tables::steps;

use super::about;
use super::axis::DeviceAxis;
use super::lanes::{Edge, Sharing, Span, lanes};
use super::messages::{SLICE_BEGIN, SLICE_END, TrackEvent};
use super::packets::{Packets, values};

/// Writes the edges of one track; `slice` names the slice of a row and says what stands beside it.
pub(super) fn write_lane(
    packets: &mut Packets<'_>,
    track: u64,
    edges: &[Edge],
    mut slice: impl FnMut(&mut Packets<'_>, usize) -> TrackEvent,
) -> Result<()> {
    for &edge in edges {
        match edge {
            Edge::Begin(span) => {
                let event = slice(packets, span.row);
                packets.event(track, span.begin, TrackEvent { kind: Some(SLICE_BEGIN), ..event })?;
            }
            Edge::End(at) => {
                packets.event(track, at, TrackEvent { kind: Some(SLICE_END), ..TrackEvent::default() })?;
            }
        }
    }
    Ok(())
}

/// Writes the steps of `device`, if it has any.
pub(super) fn write_steps(
    packets: &mut Packets<'_>,
    parent: u64,
    axis: &DeviceAxis<'_>,
    trace: &Trace,
    (device, history): (&DeviceTrace, &History),
) -> Result<()> {
    let table = steps(trace, device, history);
    let span = |(row, step): (usize, &crate::tables::StepRow)| Span {
        begin: axis.ns(step.begin),
        end: axis.ns(step.end),
        row,
    };
    let spans: Vec<Span> = table.rows.iter().enumerate().map(span).collect();
    // Steps never overlap: one track takes them all.
    let (lanes, _) = lanes(spans, Sharing::Apart, 1);
    for edges in lanes {
        let what = format!("Steps, from {}.", table.source.name());
        let track = packets.track(about::track(parent, 20, "steps", what))?;
        write_lane(packets, track, &edges, |packets, row| {
            let step = &table.rows[row];
            TrackEvent {
                name_iid: packets.name(&format!("step {}", step.name)),
                debug_annotations: vec![
                    values::count("peak_allocated_bytes", step.peak_allocated.bytes),
                    values::count("begin_allocated_bytes", step.begin_allocated_bytes),
                    values::count("end_allocated_bytes", step.end_allocated_bytes),
                    values::signed("growth_bytes", step.growth_bytes),
                    values::count("begin_event", step.begin.0),
                    values::count("end_event", step.end.0),
                ],
                ..TrackEvent::default()
            }
        })?;
    }
    Ok(())
}
