//! The gate on growth from step to step.
//!
//! The `growth` rule's own slope counts where it fired. Otherwise it is the median slope between any two ends of
//! steps in the later half of the recording (Theil and Sen's), which neither a warm-up nor a few odd steps move.

use crate::report::{DeviceReport, GatePart, GateRow, Outcome, TraceReport};
use crate::units::{Bytes, Count};

use super::super::Analysis;
use super::Sight;

/// With fewer steps than this nothing can be said of a trend.
const LEAST_STEPS: usize = 5;
/// Ends of steps that are compared pair by pair; of more, evenly many are taken.
const MOST_ENDS: usize = 400;

pub(super) fn gate(analysis: &Analysis, limit: u64, sights: &[(&DeviceReport, Sight)]) -> GateRow {
    let part = |(device, sight): &(&DeviceReport, Sight)| {
        let ends = analysis.facts.devices.iter().find(|facts| facts.device.0 == device.device);
        let ends = ends.map(|facts| facts.step_ends.as_slice()).unwrap_or_default();
        part(&analysis.report, device, ends, limit, sight)
    };
    GateRow::new("max-growth", format!("{}/step", Bytes(limit)), sights.iter().map(part).collect())
}

fn part(report: &TraceReport, device: &DeviceReport, ends: &[u64], limit: u64, sight: &Sight) -> GatePart {
    let number = device.device;
    let slope = found_slope(report, number).or_else(|| later_slope(ends));
    let (outcome, actual, text) = match (slope, &sight.figures) {
        (None, _) => {
            let steps = Count(ends.len() as u64);
            let text = format!(
                "device {number} has {steps} steps on record, and {LEAST_STEPS} are needed to see a trend"
            );
            (Outcome::Undecided, None, text)
        }
        (Some(slope), Some(doubt)) => (
            Outcome::Undecided,
            Some(slope),
            format!("device {number} grows by {} per step, but {doubt}", Bytes(slope)),
        ),
        (Some(slope), None) => {
            let outcome = if slope > limit { Outcome::Failed } else { Outcome::Passed };
            let over = if slope > limit {
                format!(", {} over the limit", Bytes(slope - limit))
            } else {
                String::new()
            };
            (
                outcome,
                Some(slope),
                format!("device {number} grows by {} ({} bytes) per step{over}", Bytes(slope), Count(slope)),
            )
        }
    };
    GatePart { device: Some(number), outcome, actual_bytes: actual, limit_bytes: Some(limit), text }
}

/// The slope that the `growth` rule found, in whole bytes.
fn found_slope(report: &TraceReport, device: u32) -> Option<u64> {
    let findings = report.findings.iter().filter(|found| found.rule == "growth" && found.device == device);
    let slope = |value: &serde_json::Value| value.as_f64().map(whole_bytes);
    findings.filter_map(|found| slope(found.evidence.get("slope_bytes_per_step")?)).max()
}

/// Growth in whole bytes, rounded; what shrinks does not grow.
fn whole_bytes(slope: f64) -> u64 {
    slope.max(0.0).round() as u64
}

fn later_slope(ends: &[u64]) -> Option<u64> {
    if ends.len() < LEAST_STEPS {
        return None;
    }
    // Of few steps more than half are looked at, so that a trend still has three points.
    let later = &ends[(ends.len() / 2).min(ends.len() - 3)..];
    let stride = later.len().div_ceil(MOST_ENDS);
    let points: Vec<(f64, f64)> =
        later.iter().enumerate().step_by(stride).map(|(step, &bytes)| (step as f64, bytes as f64)).collect();
    let mut slopes = Vec::with_capacity(points.len() * points.len() / 2);
    for (index, first) in points.iter().enumerate() {
        slopes.extend(points[index + 1..].iter().map(|second| (second.1 - first.1) / (second.0 - first.0)));
    }
    slopes.sort_unstable_by(f64::total_cmp);
    let middle = slopes.len() / 2;
    let median = match slopes.len() {
        0 => return None,
        count if count % 2 == 1 => slopes[middle],
        _ => f64::midpoint(slopes[middle - 1], slopes[middle]),
    };
    Some(whole_bytes(median))
}

#[cfg(test)]
mod tests {
    use super::later_slope;

    #[test]
    fn a_straight_rise_has_its_slope_and_a_warm_up_none() {
        let rise: Vec<u64> = (0..60).map(|step| 1_000 + step * 24).collect();
        assert_eq!(later_slope(&rise), Some(24));
        let warm_up: Vec<u64> = (0..60).map(|step| 5_000 + 100 * u64::min(step, 20)).collect();
        assert_eq!(later_slope(&warm_up), Some(0));
        assert_eq!(later_slope(&rise[..5]), Some(24));
        assert_eq!(later_slope(&rise[..4]), None);
    }

    #[test]
    fn odd_steps_and_pauses_do_not_hide_a_rise() {
        let every_second: Vec<u64> = (0..60).map(|step| 1_000 + step / 2 * 100).collect();
        assert_eq!(later_slope(&every_second), Some(50));
        let mut spiky: Vec<u64> = (0..60).map(|step| 1_000 + step * 24).collect();
        (spiky[33], spiky[50]) = (900_000, 0);
        assert_eq!(later_slope(&spiky), Some(24));
    }

    #[test]
    fn what_shrinks_or_sways_does_not_grow() {
        let sway: Vec<u64> = (0..60).map(|step| 1_000 + step % 3 * 100).collect();
        assert_eq!(later_slope(&sway), Some(0));
        assert_eq!(later_slope(&(0..60).rev().collect::<Vec<u64>>()), Some(0));
    }

    #[test]
    fn a_hundred_thousand_steps_are_quick_and_huge_numbers_do_not_overflow() {
        let long: Vec<u64> = (0..100_000).map(|step| step * 8).collect();
        assert_eq!(later_slope(&long), Some(8));
        assert!(later_slope(&[0, u64::MAX, 0, u64::MAX, 0, u64::MAX]).is_some());
    }
}
