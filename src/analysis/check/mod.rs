//! Gates over one analysed trace: does it stay within what was asked for, and can the trace say so at all?
//!
//! Owns the decision. A gate that fails on what the trace shows has failed, however little that is; one that holds
//! is undecided when what the trace does not show might break it ([`sight`]). Figures and findings come from the
//! analysis, looks belong to `report`.

mod baseline;
mod fail_on;
mod growth;
mod sight;

pub use baseline::Baseline;
pub(super) use baseline::chosen;
pub use fail_on::FailOn;

use crate::report::{CheckReport, DeviceReport, GatePart, GateRow, Outcome};
use crate::units::{Bytes, Count};

use super::Analysis;
use sight::Sight;

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Gates {
    /// Most bytes that may be allocated at any moment, on each device.
    pub max_peak_bytes: Option<u64>,
    /// Most bytes that may be reserved at any moment, on each device.
    pub max_reserved_bytes: Option<u64>,
    /// Most bytes by which the allocated bytes at the ends of steps may rise from step to step.
    pub max_growth_bytes: Option<u64>,
    /// A report whose peaks must not be exceeded, its path, and by how many percent they may be.
    pub baseline: Option<(Baseline, String, f64)>,
    /// Findings that must not be there.
    pub fail_on: Vec<FailOn>,
    /// Judge what was recorded: a late beginning or a cut end leaves nothing undecided.
    pub recorded_part: bool,
}

/// Holds `analysis` against `gates`.
#[must_use]
pub fn check(analysis: &Analysis, gates: &Gates) -> CheckReport {
    let report = &analysis.report;
    let sights: Vec<(&DeviceReport, Sight)> = report
        .devices
        .iter()
        .map(|device| (device, Sight::of(report, device, gates.recorded_part)))
        .collect();
    let mut rows = Vec::new();
    let counters = [
        ("max-peak", "allocated", gates.max_peak_bytes),
        ("max-reserved", "reserved", gates.max_reserved_bytes),
    ];
    for (name, counter, limit) in counters {
        let Some(limit) = limit else { continue };
        let part = |(device, sight): &(&DeviceReport, Sight)| {
            let peak = peak_of(device, counter);
            let over = |over: u64| format!("{} over the limit", Bytes(over));
            limited(device, counter, peak, limit, sight, over)
        };
        rows.push(GateRow::new(name, Bytes(limit).to_string(), sights.iter().map(part).collect()));
    }
    if let Some(limit) = gates.max_growth_bytes {
        rows.push(growth::gate(analysis, limit, &sights));
    }
    if let Some((baseline, path, tolerance)) = &gates.baseline {
        rows.push(baseline::gate(baseline, path, *tolerance, &sights));
    }
    rows.extend(gates.fail_on.iter().map(|asked| fail_on::gate(*asked, report, &sights)));
    CheckReport::new(&report.path, rows)
}

fn peak_of(device: &DeviceReport, counter: &str) -> u64 {
    match counter {
        "reserved" => device.peak.reserved_bytes,
        _ => device.peak.allocated_bytes,
    }
}

/// Whether a peak stays within a limit, or may have exceeded it unseen; `over` tells of an excess in words.
fn limited(
    device: &DeviceReport,
    counter: &str,
    peak: u64,
    limit: u64,
    sight: &Sight,
    over: impl FnOnce(u64) -> String,
) -> GatePart {
    let shown = format!("device {} has {} {counter} at its peak", device.device, exact(peak));
    let (outcome, text) = if let Some(doubt) = &sight.figures {
        (Outcome::Undecided, format!("{shown}, but {doubt}"))
    } else if peak > limit {
        (Outcome::Failed, format!("{shown}, {}", over(peak - limit)))
    } else if let Some(doubt) = &sight.rest {
        (Outcome::Undecided, format!("{shown}, but {doubt}"))
    } else if peak.saturating_add(device.history.uncertain_bytes) > limit {
        let bytes = Bytes(device.history.uncertain_bytes);
        (Outcome::Undecided, format!("{shown}, but sizes are not proven: it may be up to {bytes} more"))
    } else {
        (Outcome::Passed, shown)
    };
    GatePart {
        device: Some(device.device),
        outcome,
        actual_bytes: Some(peak),
        limit_bytes: Some(limit),
        text,
    }
}

/// `1.8 GiB (1,909,582,848 bytes)`.
fn exact(bytes: u64) -> String {
    if bytes < 1024 { Bytes(bytes).to_string() } else { format!("{} ({} bytes)", Bytes(bytes), Count(bytes)) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
