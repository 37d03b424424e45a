//! A file's row in the table of ranks, made while its trace is still at hand.
//!
//! Owns which device speaks for a rank and what is kept of it. All figures are those of the file's own report: none
//! is computed anew.

use crate::findings::DeviceFacts;
use crate::model::{DeviceTrace, Events, NO_TIME, Trace};
use crate::rebuild::History;
use crate::report::{
    DeviceReport, FindingRow, OtherDevice, RankCurve, RankGrowth, RankOom, RankRow, RankSteps, StepsRow,
    Timeline, TraceReport,
};
use crate::tables;

use super::median::median;

/// Columns of a rank's curve.
const COLUMNS: usize = 240;
/// The first of January 2000 in Unix time: what is earlier counts from some other beginning.
const EARLIEST_US: i64 = 946_684_800_000_000;

/// What is kept of a device's course.
pub(crate) fn course(device: &DeviceTrace, history: &History) -> RankCurve {
    let curve = tables::usage_curve(device, history, COLUMNS);
    RankCurve {
        is_time: curve.is_time,
        start_us: curve.start_us.filter(|&time| time >= EARLIEST_US),
        end: curve.end,
        x: curve.x,
        allocated: curve.allocated,
        reserved: curve.reserved,
    }
}

/// The row of `report`, whose devices have these `facts` and `curves`, in the same order.
pub(crate) fn row(
    trace: &Trace,
    report: &TraceReport,
    facts: &[DeviceFacts],
    mut curves: Vec<RankCurve>,
    rank: Option<u64>,
) -> RankRow {
    let mut row = RankRow {
        rank,
        path: report.path.clone(),
        events: report.events,
        complete: report.complete,
        steps: RankSteps { source: "none".to_owned(), ..RankSteps::default() },
        ..RankRow::default()
    };
    let Some(place) = main_device(facts) else { return row };
    let Some(device) = report.devices.get(place) else { return row };
    row.device = device.device;
    row.device_name.clone_from(&device.name);
    row.total_bytes = device.total_bytes;
    row.from_the_start = device.history.from_the_start;
    (row.peak, row.end) = (device.peak, device.end);
    let at_peak = &device.fragmentation.at_peak;
    row.unused_at_peak_bytes = at_peak.releasable_bytes.saturating_add(at_peak.stranded_bytes);
    row.step_peaks = device.steps.rows.iter().map(|step| step.peak_allocated_bytes).collect();
    row.steps = steps(&device.steps, &row.step_peaks);
    let events = trace.devices.iter().find(|entry| entry.device.0 == device.device);
    row.oom = oom(device, events.map(|entry| &entry.events));
    row.growth = growth(&report.findings, device.device);
    row.other_devices = others(&report.devices, place);
    if place < curves.len() {
        row.curve = curves.swap_remove(place);
    }
    row
}

/// The place of the device that speaks for the rank, as the rule `rank-imbalance` chooses it.
pub(super) fn main_device(facts: &[DeviceFacts]) -> Option<usize> {
    (0..facts.len()).max_by_key(|&place| (facts[place].peaks.allocated.bytes, facts[place].events))
}

/// Unix time of an event in microseconds, where it has one.
pub(crate) fn unix_time(events: &Events, event: u64) -> Option<i64> {
    let time = *events.times_us.get(usize::try_from(event).ok()?)?;
    (time != NO_TIME && time >= EARLIEST_US).then_some(time)
}

/// The course of a device of which there is only the timeline; `start_us` is the Unix time of its first event.
pub(crate) fn course_of(timeline: &Timeline, start_us: Option<i64>) -> RankCurve {
    RankCurve {
        is_time: timeline.x_is_time,
        start_us: start_us.filter(|&time| time >= EARLIEST_US),
        end: timeline.x_end,
        x: timeline.x.clone(),
        allocated: timeline.allocated.clone(),
        reserved: timeline.reserved.clone(),
    }
}

fn steps(steps: &StepsRow, peaks: &[u64]) -> RankSteps {
    RankSteps {
        source: steps.source.clone(),
        count: steps.count,
        peak_median_bytes: (!peaks.is_empty()).then(|| median(peaks)),
        peak_max_bytes: peaks.iter().copied().max(),
    }
}

fn oom(device: &DeviceReport, events: Option<&Events>) -> Option<RankOom> {
    let first = device.ooms.first()?;
    let steps = &device.steps.rows;
    let over = steps.partition_point(|step| step.end_event <= first.event) as u64;
    Some(RankOom {
        count: device.ooms.len() as u64,
        event: first.event,
        requested_bytes: first.requested_bytes,
        verdict: first.verdict.clone(),
        line: first.line.clone(),
        time_us: events.and_then(|events| unix_time(events, first.event)),
        step: (!steps.is_empty()).then_some(over),
    })
}

/// The finding `growth` of the device; of several the largest.
fn growth(findings: &[FindingRow], device: u32) -> Option<RankGrowth> {
    let of_device = findings.iter().filter(|finding| finding.rule == "growth" && finding.device == device);
    let found = of_device.max_by_key(|finding| finding.bytes)?;
    let slope = found.evidence.get("slope_bytes_per_step").and_then(serde_json::Value::as_f64);
    Some(RankGrowth {
        bytes: found.bytes,
        bytes_per_step: slope.map(|slope| slope.round() as i64),
        line: found.lines.first().map(crate::report::line_label),
    })
}

fn others(devices: &[DeviceReport], main: usize) -> Vec<OtherDevice> {
    let others = devices.iter().enumerate().filter(|(place, _)| *place != main);
    others
        .map(|(_, device)| OtherDevice {
            device: device.device,
            peak_allocated_bytes: device.peak.allocated_bytes,
            peak_reserved_bytes: device.peak.reserved_bytes,
        })
        .filter(|other| other.peak_reserved_bytes > 0 || other.peak_allocated_bytes > 0)
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::analysis::{Options, analyze_file};
    use crate::model::TraceBuilder;

    #[test]
    fn the_device_with_most_allocated_speaks_for_the_rank_and_none_is_added() {
        let trace = TraceBuilder::new()
            .segment_alloc(0x1000_0000, 2 << 20)
            .alloc(0x1000_0000, 512)
            .device(3)
            .segment_alloc(0x1000_0000, 20 << 20)
            .alloc(0x1000_0000, 4 << 20)
            .build();
        let options = Options { several_files: true, ..Options::default() };
        let row = analyze_file("rank5.pickle", &trace, &options).unwrap().row.unwrap();
        assert_eq!((row.rank, row.device, row.peak.allocated_bytes), (Some(5), 3, 4 << 20));
        // The segment is there an event before the request that it is for, as in the report's own figure.
        assert_eq!((row.peak.reserved_bytes, row.unused_at_peak_bytes), (20 << 20, 20 << 20));
        assert_eq!((row.other_devices.len(), row.other_devices[0].peak_reserved_bytes), (1, 2 << 20));
        assert!(row.curve.x.is_empty(), "curves are for pictures");
        let with = Options { with_pictures: true, ..options };
        let row = analyze_file("rank5.pickle", &trace, &with).unwrap().row.unwrap();
        assert_eq!(row.curve.reserved.iter().max(), Some(&(20 << 20)));
    }
}
