//! What exports over stacks and time start from: a device and what happened on it.

use crate::model::DeviceTrace;
use crate::rebuild::History;

/// One device of a trace with its rebuilt history.
#[derive(Debug)]
pub struct DeviceHistory<'a> {
    /// As recorded.
    pub device: &'a DeviceTrace,
    /// As rebuilt.
    pub history: History,
}

impl DeviceHistory<'_> {
    /// What tracks and root frames are called: `device 0`.
    pub(super) fn name(&self) -> String {
        format!("device {}", self.device.device.0)
    }
}
