//! The gate on growth: how much higher the peaks after may be than those before.

use crate::report::{Change, DeviceDiff, DiffReport, GatePart, GateRow, Outcome};
use crate::units::{Bytes, Count};

use super::Pair;

/// By how much the peaks, allocated and reserved, may grow on each device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GrowthLimit {
    /// By so many bytes.
    Bytes(u64),
    /// By so many percent of the peak before.
    Percent(f64),
}

impl GrowthLimit {
    /// The highest peak that is not too high.
    fn most(self, before: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => before.saturating_add(bytes),
            // Saturates: a float beyond the range becomes its end.
            Self::Percent(percent) => {
                before.saturating_add((before as f64 * (percent / 100.0)).floor() as u64)
            }
        }
    }

    fn text(self) -> String {
        match self {
            Self::Bytes(bytes) => Bytes(bytes).to_string(),
            Self::Percent(percent) => format!("{percent} %"),
        }
    }
}

/// Holds every device of `report` against `limit`.
pub(super) fn gate(limit: GrowthLimit, report: &DiffReport, pairs: &[Pair<'_>]) -> GateRow {
    let mut parts = Vec::new();
    for (device, pair) in report.devices.iter().zip(pairs) {
        let doubt = doubt(report, *pair);
        let counters = [
            ("allocated", device.peak_of(|four| four.allocated_bytes)),
            ("reserved", device.peak_of(|four| four.reserved_bytes)),
        ];
        for (counter, peaks) in counters {
            parts.push(part(limit, device, counter, peaks, doubt));
        }
    }
    GateRow::new("fail-on-growth", limit.text(), parts)
}

/// Why peaks of this pair may have been higher than is seen.
fn doubt(report: &DiffReport, pair: Pair<'_>) -> Option<&'static str> {
    let late = |device: Option<&super::SideDevice>| {
        device.and_then(|device| device.history).is_some_and(|history| history.from_the_start == Some(false))
    };
    if report.before.complete == Some(false) || report.after.complete == Some(false) {
        return Some("a recording is not whole");
    }
    (late(pair.before) || late(pair.after)).then_some("a recording begins late: what came before is not seen")
}

fn part(
    limit: GrowthLimit,
    device: &DeviceDiff,
    counter: &str,
    peaks: Change,
    doubt: Option<&str>,
) -> GatePart {
    let name = format!("device {}: {counter} peak", device.device);
    let (Some(before), Some(after)) = (peaks.before, peaks.after) else {
        let text = format!("{name} is not known on both sides");
        return GatePart {
            device: Some(device.device),
            outcome: Outcome::Undecided,
            text,
            ..GatePart::default()
        };
    };
    let most = limit.most(before);
    let grown = after.saturating_sub(before);
    let shown = format!("{name} {} higher ({} bytes)", Bytes(grown), Count(grown));
    let (outcome, text) = match doubt {
        _ if after > most => (Outcome::Failed, shown),
        Some(doubt) => (Outcome::Undecided, format!("{shown}, but {doubt}")),
        None => (Outcome::Passed, shown),
    };
    GatePart {
        device: Some(device.device),
        outcome,
        actual_bytes: Some(after),
        limit_bytes: Some(most),
        text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_bytes_or_percent_and_never_overflows() {
        assert_eq!(GrowthLimit::Bytes(24).most(1_000), 1_024);
        assert_eq!(GrowthLimit::Percent(5.0).most(1_000), 1_050);
        assert_eq!(GrowthLimit::Percent(5.0).most(0), 0);
        assert_eq!(GrowthLimit::Bytes(1).most(u64::MAX), u64::MAX);
        assert_eq!(GrowthLimit::Percent(1e9).most(u64::MAX), u64::MAX);
    }

    #[test]
    fn growth_beyond_the_limit_fails_and_doubt_only_keeps_from_passing() {
        let device = DeviceDiff::default();
        let outcome = |before, after, doubt| {
            part(GrowthLimit::Bytes(10), &device, "reserved", Change { before, after }, doubt).outcome
        };
        assert_eq!(outcome(Some(100), Some(110), None), Outcome::Passed);
        assert_eq!(outcome(Some(100), Some(111), None), Outcome::Failed);
        assert_eq!(outcome(Some(100), Some(90), Some("x")), Outcome::Undecided);
        assert_eq!(outcome(Some(100), Some(111), Some("x")), Outcome::Failed);
        assert_eq!(outcome(None, Some(1), None), Outcome::Undecided);
    }
}
