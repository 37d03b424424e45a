//! STUB, dropped at merge.
use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::Result;
use crate::model::Trace;
use crate::report::{
    DeviceReport, Four, FragmentationRow, HistoryRow, LineFigures, LineRow, StepsRow, Timeline, TraceReport,
};
use crate::tables::GroupBy;

/// Stub.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Stub.
    pub device: Option<u32>,
    /// Stub.
    pub top: Option<usize>,
    /// Stub.
    pub group_by: GroupBy,
    /// Stub.
    pub window: Option<Range<u64>>,
    /// Stub.
    pub with_pictures: bool,
}

/// Stub.
///
/// # Errors
/// Stub.
pub fn analyze(path_label: &str, trace: &Trace, options: &Options) -> Result<TraceReport> {
    let devices = trace
        .devices
        .iter()
        .filter(|entry| options.device.is_none_or(|device| entry.device.0 == device))
        .map(|entry| DeviceReport {
            device: entry.device.0,
            name: None,
            total_bytes: None,
            events: entry.events.len() as u64,
            peak: Four::default(),
            peak_event: Four::default(),
            end: Four::default(),
            initial: Four::default(),
            history: HistoryRow::default(),
            fragmentation: FragmentationRow::default(),
            group_by: options.group_by.to_string(),
            line_rule: "stub".to_owned(),
            lines: vec![LineRow {
                file: Some("train.py".to_owned()),
                line: Some(12),
                function: Some("step, \"first\"".to_owned()),
                ..LineRow::default()
            }],
            lines_left_out: 0,
            unattributed: LineFigures::default(),
            ooms: Vec::new(),
            steps: StepsRow::default(),
            pools: Vec::new(),
            timeline: Timeline::default(),
        })
        .collect();
    Ok(TraceReport {
        path: path_label.to_owned(),
        format: trace.format.name(),
        events: trace.event_count() as u64,
        complete: trace.complete,
        warnings: Vec::new(),
        allocator_conf: String::new(),
        process: Vec::new(),
        devices,
        findings: Vec::new(),
    })
}

/// Stub.
///
/// # Errors
/// Stub.
pub fn stats(
    trace: &Trace,
    device: Option<u32>,
    at: Option<u64>,
) -> Result<Vec<(u32, BTreeMap<String, u64>)>> {
    let key = "allocated_bytes.all.peak".to_owned();
    Ok(trace
        .devices
        .iter()
        .filter(|entry| device.is_none_or(|device| entry.device.0 == device))
        .map(|entry| (entry.device.0, [(key.clone(), at.unwrap_or(7))].into_iter().collect()))
        .collect())
}
