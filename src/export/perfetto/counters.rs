//! Counter tracks: the allocator's four counters, and what the largest lines hold.
//!
//! Owns which curves there are and their order. They are thinned by `tables::held_curves`: per curve and column the
//! first, last, lowest and highest value stay, so every peak is exact.

use crate::error::Result;
use crate::model::{DeviceTrace, Trace};
use crate::rebuild::History;
use crate::tables::{Curve, Grouping, held_curves, lines};

use super::about;
use super::axis::DeviceAxis;
use super::packets::Packets;

/// Lines with a counter of their own: those that hold most at the peak of allocated bytes.
pub const LINES_SHOWN: usize = 10;

/// Columns that a curve is thinned to.
const COLUMNS: usize = 4000;

/// Writes the counters of `device` under `parent`.
pub(super) fn write(
    packets: &mut Packets<'_>,
    parent: u64,
    axis: &DeviceAxis<'_>,
    trace: &Trace,
    (device, history, grouping): (&DeviceTrace, &History, &Grouping),
) -> Result<()> {
    let table = lines(trace, device, history, grouping, None)?;
    // A line that only calls others holds nothing.
    let holding = table.entries.iter().filter(|entry| entry.figures.own_peak_bytes > 0);
    let shown: Vec<u32> = holding.take(LINES_SHOWN).map(|entry| entry.group).collect();
    let drawn = held_curves(history, grouping, &shown, COLUMNS);
    for (rank, (name, curve, what)) in [
        ("reserved bytes", &drawn.reserved, "Held from the driver (cudaMalloc)."),
        ("active bytes", &drawn.active, "Blocks handed out, and those whose free waits for another stream."),
        ("allocated bytes", &drawn.allocated, "Blocks handed out."),
        ("requested bytes", &drawn.requested, "Asked for, over active blocks: without rounding."),
    ]
    .into_iter()
    .enumerate()
    {
        let track = packets.track(about::counter(parent, rank as i32, name, "counters", what))?;
        draw(packets, track, axis, curve)?;
    }
    let by = grouping.by;
    let what = format!(
        "Allocated bytes by {by}: the {} that hold most at the peak, then all others, then what has no {by}. They \
         add up to the allocated bytes.",
        shown.len()
    );
    let parent = packets.track(about::track(parent, 30, &format!("held by {by}"), what))?;
    let labels = shown.iter().map(|&group| grouping.keys[group as usize].label(trace));
    let remainder = [format!("(all other {by}s)"), format!("(no {by})")];
    let rest = [&drawn.other_groups, &drawn.no_group];
    for (rank, (name, curve)) in labels.chain(remainder).zip(drawn.groups.iter().chain(rest)).enumerate() {
        if curve.iter().all(|point| point.bytes == 0) {
            continue;
        }
        let track = packets.track(about::counter(parent, rank as i32, &name, "held", ""))?;
        draw(packets, track, axis, curve)?;
    }
    Ok(())
}

fn draw(packets: &mut Packets<'_>, track: u64, axis: &DeviceAxis<'_>, curve: &Curve) -> Result<()> {
    for point in curve {
        packets.counter(track, axis.ns(point.moment), point.bytes)?;
    }
    Ok(())
}
