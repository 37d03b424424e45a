//! The rebuilt devices that profiles and timelines for other tools start from.
//!
//! Owns the choice of devices; what is written is `export`'s.

use rayon::prelude::*;

use crate::error::Result;
use crate::export::DeviceHistory;
use crate::model::Trace;
use crate::rebuild::rebuild;

/// The devices of `trace` (or the one called `device`) with what happened on each.
///
/// # Errors
/// [`crate::error::Error::Shape`] when `device` is not in the trace.
pub fn histories(trace: &Trace, device: Option<u32>) -> Result<Vec<DeviceHistory<'_>>> {
    let devices = super::chosen(trace, device)?;
    Ok(devices
        .into_par_iter()
        .map(|device| DeviceHistory { device, history: rebuild(trace, device) })
        .collect())
}
