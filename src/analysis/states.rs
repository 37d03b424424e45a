//! States of the allocator in between, so that a part of a recording can be read without what precedes it.
//!
//! Owns where they stand. They are carried from piece to piece by the same pass that rebuilds a recording in pieces, so
//! they are exact to the byte; reading them is `format`'s.

use std::io::Write;

use crate::error::Result;
use crate::format::{WriteOptions, Writer};
use crate::model::{DeviceTrace, Excerpt, Segment, Trace};
use crate::rebuild::{Carried, Prelude, piece_end};

/// About how many events lie between two states of a device: a window costs at most so many more events, and a state
/// of ten thousand blocks takes less room than a hundredth of them.
pub const EVENTS_PER_STATE: usize = 1_000_000;

/// Writes `trace` as [`crate::format::write`] does, with a state of each device before its first event and behind
/// about every `every` events.
///
/// # Errors
/// As [`crate::format::write`].
pub fn write_with_states(
    trace: &Trace,
    every: usize,
    options: &WriteOptions,
    out: &mut dyn Write,
) -> Result<()> {
    let mut writer = Writer::begin(trace, options, out)?;
    writer.events(trace)?;
    for device in trace.devices.iter().filter(|device| device.excerpt.is_none() && !device.events.is_empty())
    {
        let tell = |event, segments: &[Segment]| writer.state(trace, device.device, event, segments);
        states(trace, device, every.max(1), tell)?;
    }
    writer.finish(trace)
}

/// Tells the state before the first event of `device`, and before every piece of about `every` events. Of a recording
/// that leaves out completions of frees none is told: an excerpt of it would take them for pending.
fn states(
    trace: &Trace,
    device: &DeviceTrace,
    every: usize,
    mut tell: impl FnMut(u64, &[Segment]) -> Result<()>,
) -> Result<()> {
    let segments = device.segments.as_deref();
    let mut prelude = Prelude::default();
    prelude.take(&device.events);
    if prelude.must_look_again(segments) {
        prelude.take_again(&device.events);
    }
    let mut carried = prelude.finish(segments, &trace.settings);
    if carried.completes_at_once() {
        return Ok(());
    }
    // Sizes of what was there before the first event may have to be learnt from all events.
    while carried.uncertain().0 > 0 {
        walk(trace, device, every, &mut carried, |_, _| Ok(()))?;
        if !carried.corrects_itself() {
            break;
        }
    }
    walk(trace, device, every, &mut carried, |event, carried| tell(event, &carried.segments()))
}

/// Rebuilds all pieces, and calls `before` in front of each, with the number of its first event.
fn walk(
    trace: &Trace,
    device: &DeviceTrace,
    every: usize,
    carried: &mut Carried,
    mut before: impl FnMut(u64, &Carried) -> Result<()>,
) -> Result<()> {
    let mut first = 0;
    while first < device.events.len() {
        before(first as u64, carried)?;
        let mut events = device.events.slice(first..first.saturating_add(every));
        if first + events.len() < device.events.len() {
            drop(events.split_off(piece_end(&events, every)));
        }
        let excerpt = Some(Excerpt { first_event: first as u64, ..Excerpt::default() });
        first += events.len();
        let segments = device.segments.clone();
        let _ = carried.next(trace, &DeviceTrace { device: device.device, events, segments, excerpt });
    }
    Ok(())
}
