//! What rules over several files are handed of a device, as it is kept.
//!
//! Owns the translation both ways. What the report's steps say already is taken from there.

use serde::{Deserialize, Serialize};

use crate::findings::{DeviceFacts, LineBytes};
use crate::model::{DeviceId, Warnings};
use crate::rebuild::{Moment, Peak, Peaks, Usage};
use crate::report::DeviceReport;

/// File, function, line, bytes.
type KeptLine = (String, String, u64, u64);

/// See [`DeviceFacts`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct KeptFacts {
    allocations: u64,
    lines_at_peak: Vec<KeptLine>,
    lines_at_active_peak: Option<Vec<KeptLine>>,
    step_lines: Vec<Vec<KeptLine>>,
}

impl KeptFacts {
    pub(super) fn of(facts: &DeviceFacts) -> Self {
        Self {
            allocations: facts.allocations,
            lines_at_peak: kept(&facts.lines_at_peak),
            lines_at_active_peak: facts.lines_at_active_peak.as_deref().map(kept),
            step_lines: facts.step_lines.iter().map(|lines| kept(lines)).collect(),
        }
    }

    /// The facts of `device`.
    pub(super) fn facts(self, device: &DeviceReport) -> DeviceFacts {
        let peak = |bytes, event: Option<u64>| Peak {
            bytes,
            moment: event.map_or(Moment(0), |event| Moment(event.saturating_add(1))),
        };
        let (bytes, event, end) = (&device.peak, &device.peak_event, &device.end);
        DeviceFacts {
            device: DeviceId(device.device),
            events: device.events,
            allocations: self.allocations,
            peaks: Peaks {
                requested: peak(bytes.requested_bytes, event.requested_bytes),
                allocated: peak(bytes.allocated_bytes, event.allocated_bytes),
                active: peak(bytes.active_bytes, event.active_bytes),
                reserved: peak(bytes.reserved_bytes, event.reserved_bytes),
            },
            end: Usage {
                requested_bytes: end.requested_bytes,
                allocated_bytes: end.allocated_bytes,
                active_bytes: end.active_bytes,
                reserved_bytes: end.reserved_bytes,
            },
            from_the_start: device.history.from_the_start,
            lines_at_peak: lines(self.lines_at_peak),
            lines_at_active_peak: self.lines_at_active_peak.map(lines),
            step_peaks: device.steps.rows.iter().map(|step| step.peak_allocated_bytes).collect(),
            step_ends: device.steps.rows.iter().map(|step| step.end_allocated_bytes).collect(),
            step_lines: self.step_lines.into_iter().map(lines).collect(),
            // Rules over one file have seen them; those over several look at none.
            warnings: Warnings::default(),
        }
    }
}

fn kept(lines: &[LineBytes]) -> Vec<KeptLine> {
    lines.iter().map(|line| (line.file.clone(), line.function.clone(), line.line, line.bytes)).collect()
}

fn lines(kept: Vec<KeptLine>) -> Vec<LineBytes> {
    kept.into_iter().map(|(file, function, line, bytes)| LineBytes { file, line, function, bytes }).collect()
}
