//! The order of the file: the devices, each with its tracks, then what the program did meanwhile.

use std::io::Write;

use crate::error::Result;
use crate::model::{DeviceTrace, Trace};
use crate::rebuild::History;
use crate::tables::Grouping;

use super::about;
use super::axis::Axis;
use super::packets::Packets;
use super::{counters, largest, moments, program, spans};

/// Writes a Perfetto trace of `devices` to `output`, not packed. Per device: the four counters, what the
/// [`super::LINES_SHOWN`] largest groups hold, peaks, failed requests, steps, and the
/// [`super::LARGEST_ALLOCATIONS`] largest allocations; beside them the recorded ranges and marks. Peaks of every
/// counter are exact. The same trace gives the same bytes.
///
/// # Errors
/// Those of `output`; [`crate::error::Error::Table`] when the table of lines cannot be built.
pub fn write_perfetto(
    trace: &Trace,
    devices: &[(&DeviceTrace, &History, &Grouping)],
    output: &mut dyn Write,
) -> Result<()> {
    let axis = Axis::of(devices.iter().map(|&(device, ..)| device));
    let mut packets = Packets::begin(trace, output, axis.start_us)?;
    for &(device, history, grouping) in devices {
        let device_axis = axis.device(device);
        let parent = packets.track(about::device(trace, device, &device_axis))?;
        counters::write(&mut packets, parent, &device_axis, trace, (device, history, grouping))?;
        moments::write(&mut packets, parent, &device_axis, history)?;
        spans::write_steps(&mut packets, parent, &device_axis, trace, (device, history))?;
        largest::write(&mut packets, parent, &device_axis, trace, (history, grouping))?;
    }
    program::write(&mut packets, &axis, trace)
}
