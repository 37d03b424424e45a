//! The first and the last chunk of a file.

use std::collections::BTreeMap;
use std::io;

use crate::error::{Error, Result};
use crate::model::{DeviceId, Sample, Trace, Warnings};

use super::chunk::{Chunk, Kind};
use super::cursor::Parse;
use super::events_plan::{Plan, lost};
use super::fields::{read_map, read_pair};
use super::packer::MapPacker;
use super::write::Sink;
use super::{MAX_DEVICES, VERSION};

/// Minor version of reduced recordings, which have no events.
const REDUCED_MINOR: u32 = 2;
/// Minor version of recordings that use nothing newer.
const PLAIN_MINOR: u32 = 3;

/// Writes the header.
pub(super) fn write_header(sink: &mut Sink<'_>, trace: &Trace) -> io::Result<()> {
    // Events may follow in pieces, and their chunks state what version 1.3 brought.
    let of_the_driver =
        |sample: &Sample| sample.process_bytes.is_some() || sample.driver_calls.is_some() || sample.unstable;
    let minor = if trace.driver.is_some() || trace.samples.iter().any(of_the_driver) {
        VERSION.1
    } else if trace.reduced.is_some() {
        REDUCED_MINOR
    } else {
        PLAIN_MINOR
    };
    let mut facts = MapPacker::default();
    facts.key("version").array(2).uint(VERSION.0.into()).uint(minor.into());
    facts.key("writer").text(concat!("memlab ", env!("CARGO_PKG_VERSION")));
    if trace.reduced.is_some() {
        facts.key("reduced").bool(true);
    }
    sink.emit(Kind::Header, facts, MapPacker::default(), |_| 0)
}

/// Checks the header, and answers whether it says that the recording is reduced.
///
/// # Errors
/// When the major version is newer than this reader's.
pub(super) fn check(chunk: &Chunk<'_>, warnings: &mut Warnings) -> Result<bool> {
    let mut major = u64::from(VERSION.0);
    let mut is_reduced = false;
    let read = read_map(chunk.facts, warnings, |key, cursor| {
        match key {
            "version" => major = read_pair(cursor)?.0,
            "writer" => _ = cursor.text()?,
            "reduced" => is_reduced = cursor.bool()?,
            _ => return Ok(false),
        }
        Ok(true)
    });
    if major > VERSION.0.into() {
        return Err(Error::UnsupportedVersion { found: major, supported: VERSION.0.into() });
    }
    read.map_err(|fault| Error::corrupt(chunk.offset, format_args!("bad header: {}", fault.what())))?;
    Ok(is_reduced)
}

/// Writes the trailer. `complete` traces are closed cleanly; `ends` counts the events of each device.
pub(super) fn write_trailer(
    sink: &mut Sink<'_>,
    trace: &Trace,
    ends: &BTreeMap<DeviceId, u64>,
) -> io::Result<()> {
    let mut facts = MapPacker::default();
    facts.key("clean").bool(trace.complete);
    facts.uint("chunks", sink.chunks());
    let packer = facts.key("devices");
    packer.array(trace.devices.len());
    for device in &trace.devices {
        packer.array(2).uint(device.device.0.into()).uint(ends.get(&device.device).copied().unwrap_or(0));
    }
    if let Some(layer) = &trace.driver {
        facts.uint("driver", layer.rows.len() as u64);
    }
    sink.emit(Kind::Trailer, facts, MapPacker::default(), |_| 0)
}

/// What the trailer says.
#[derive(Clone, Debug, Default)]
pub(super) struct Trailer {
    clean: bool,
    chunks: Option<u64>,
    devices: Vec<(u64, u64)>,
    /// Rows of driver calls.
    pub(super) driver: Option<u64>,
}

impl Trailer {
    pub(super) fn read(chunk: &Chunk<'_>, warnings: &mut Warnings) -> Parse<Self> {
        let mut trailer = Self::default();
        read_map(chunk.facts, warnings, |key, cursor| {
            match key {
                "clean" => trailer.clean = cursor.bool()?,
                "chunks" => trailer.chunks = Some(cursor.uint()?),
                "devices" => {
                    trailer.devices =
                        (0..cursor.array()?).map(|_| read_pair(cursor)).collect::<Parse<_>>()?;
                }
                "driver" => trailer.driver = Some(cursor.uint()?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(trailer)
    }

    /// Events on all devices, as the writer counted them.
    pub(super) fn events(&self) -> u64 {
        self.devices.iter().fold(0, |sum, &(_, events)| sum.saturating_add(events))
    }

    /// Holds what was found against what should be there.
    pub(super) fn compare(&self, trace: &mut Trace, plan: &Plan<'_>, chunks: u64) {
        if !self.clean {
            trace.complete = false;
        }
        if self.chunks.is_some_and(|stated| stated != chunks) {
            trace.complete = false;
            let stated = self.chunks.unwrap_or(0);
            trace
                .warnings
                .add("missing-chunk", || format!("the trace should have {stated} chunks and has {chunks}"));
        }
        for &(device, events) in self.devices.iter().take(MAX_DEVICES) {
            let Ok(device) = u32::try_from(device) else { continue };
            lost(trace, events.min(super::MAX_EVENT_NUMBER).saturating_sub(plan.end_of(device)), device);
            trace.device_mut(DeviceId(device));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::format::samples::{packed, tiny};
    use crate::model::{Reduced, Sample, Trace};

    #[test]
    fn a_file_is_of_the_lowest_version_that_has_what_it_uses() {
        let version = |trace: &Trace| {
            let bytes = packed(trace);
            // The header's facts: map, key `version`, array of two, major, minor.
            let at = bytes.windows(7).position(|window| window == b"version").unwrap() + 7;
            (bytes[at + 1], bytes[at + 2])
        };
        assert_eq!(version(&tiny()), (1, 3));
        let reduced = Trace { reduced: Some(Box::new(Reduced::default())), ..Trace::default() };
        assert_eq!(version(&reduced), (1, 2));
        let with_calls = Trace { driver: Some(Box::default()), ..tiny() };
        assert_eq!(version(&with_calls), (1, 4));
        let mut sampled = tiny();
        sampled.samples.push(Sample::default());
        assert_eq!(version(&sampled), (1, 3));
        sampled.samples[0].driver_calls = Some(0);
        assert_eq!(version(&sampled), (1, 4));
    }
}
