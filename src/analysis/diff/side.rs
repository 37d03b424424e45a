//! One side of a comparison: a report, just made from a trace or read back from its JSON.
//!
//! Owns what is read of a report. Both kinds take the same way, through the JSON's keys, so a trace and its own
//! report never differ; only fingerprints, curves and lines of
//! libraries are a trace's alone. What is missing stays unknown.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::model::Trace;
use crate::report::{Four, Report, SCHEMA, Timeline};
use crate::tables::{LineFingerprint, line_fingerprints};

use super::super::{Options, analyze_file, check};
use super::libraries::{self, SideLibraries};

/// One side of a comparison.
#[derive(Clone, Debug)]
pub struct DiffSide {
    /// Path as given.
    pub(super) path: String,
    /// What the report says.
    pub(super) report: SideReport,
    /// What only a trace has; `None` for a report.
    pub(super) of_trace: Option<OfTrace>,
}

/// What only a trace has, by device.
#[derive(Clone, Debug, Default)]
pub(super) struct OfTrace {
    pub(super) fingerprints: BTreeMap<u32, Vec<LineFingerprint>>,
    pub(super) timelines: BTreeMap<u32, Timeline>,
    pub(super) libraries: BTreeMap<u32, SideLibraries>,
}

/// What is read of a trace's report.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct SideReport {
    pub(super) format: Option<String>,
    pub(super) events: Option<u64>,
    pub(super) complete: Option<bool>,
    pub(super) allocator_conf: Option<String>,
    pub(super) process: Option<Vec<(String, String)>>,
    pub(super) devices: Vec<SideDevice>,
    /// Present where driver calls were recorded; what they say is not compared.
    pub(super) driver: Option<serde::de::IgnoredAny>,
    pub(super) findings: Option<Vec<SideFinding>>,
}

/// What is read of a device.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct SideDevice {
    pub(super) device: u32,
    pub(super) name: Option<String>,
    pub(super) total_bytes: Option<u64>,
    pub(super) peak: Option<Four<Option<u64>>>,
    pub(super) end: Option<Four<Option<u64>>>,
    pub(super) history: Option<SideHistory>,
    pub(super) group_by: Option<String>,
    pub(super) lines: Option<Vec<SideLine>>,
    pub(super) lines_left_out: Option<u64>,
    pub(super) unattributed: Option<SideFigures>,
    pub(super) categories: Option<SideCategories>,
    pub(super) modules: Option<SideModules>,
    pub(super) fragmentation: Option<SideFragmentation>,
    pub(super) steps: Option<SideSteps>,
    pub(super) ooms: Option<Vec<SideOom>>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct SideHistory {
    pub(super) from_the_start: Option<bool>,
    pub(super) uncertain_bytes: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct SideLine {
    pub(super) file: Option<String>,
    pub(super) line: Option<u64>,
    pub(super) function: Option<String>,
    #[serde(flatten)]
    pub(super) figures: SideFigures,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
pub(super) struct SideFigures {
    pub(super) held_at_peak_bytes: Option<u64>,
    pub(super) own_peak_bytes: Option<u64>,
    pub(super) total_bytes: Option<u64>,
    pub(super) allocations: Option<u64>,
    pub(super) live_at_end_bytes: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct SideCategories {
    pub(super) source: Option<String>,
    pub(super) rows: Vec<SideCategory>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct SideCategory {
    pub(super) category: String,
    pub(super) held_at_peak_bytes: Option<u64>,
    pub(super) own_peak_bytes: Option<u64>,
    pub(super) live_at_end_bytes: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct SideModules {
    pub(super) rows: Vec<SideModule>,
    pub(super) unnamed: Option<SideFigures>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct SideModule {
    pub(super) module: String,
    #[serde(flatten)]
    pub(super) figures: SideFigures,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct SideFragmentation {
    pub(super) at_peak: Option<SideMoment>,
}

#[expect(clippy::struct_field_names, reason = "they are the report's keys")]
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct SideMoment {
    pub(super) reserved_bytes: Option<u64>,
    pub(super) active_bytes: Option<u64>,
    pub(super) stranded_bytes: Option<u64>,
    pub(super) releasable_bytes: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct SideSteps {
    pub(super) source: String,
    pub(super) count: u64,
    pub(super) rows: Option<Vec<SideStep>>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct SideStep {
    pub(super) peak_allocated_bytes: u64,
    pub(super) growth_bytes: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct SideOom {
    pub(super) event: Option<u64>,
    pub(super) requested_bytes: Option<u64>,
    pub(super) verdict: Option<String>,
    pub(super) line: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct SideFinding {
    pub(super) rule: String,
    pub(super) severity: Option<String>,
    pub(super) title: Option<String>,
    pub(super) bytes: Option<u64>,
    pub(super) device: Option<u32>,
    pub(super) lines: Option<Vec<SideFindingLine>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct SideFindingLine {
    pub(super) file: Option<String>,
    pub(super) line: Option<u64>,
    pub(super) function: Option<String>,
}

/// The report of an earlier analysis in `bytes`, if that is what they are: an object with `schema` and `traces`.
#[must_use]
pub fn report_in(bytes: &[u8]) -> Option<Value> {
    /// A report of many thousand lines has some MiB.
    const MOST_BYTES: usize = 256 << 20;
    /// Where a report names its schema: keys stand in the order of the types.
    const HEAD: usize = 1 << 16;
    #[derive(Deserialize)]
    struct Head {
        schema: Option<serde::de::IgnoredAny>,
        traces: Option<serde::de::IgnoredAny>,
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let names_schema = bytes[..bytes.len().min(HEAD)].windows(8).any(|part| part == b"\"schema\"");
    if !names_schema || bytes.len() > MOST_BYTES {
        return None;
    }
    let head: Head = serde_json::from_slice(bytes).ok()?;
    head.schema.and(head.traces)?;
    serde_json::from_slice(bytes).ok()
}

impl DiffSide {
    /// Analyses `trace`; with `with_pictures` also the curves. A reduced recording counts as the report that it is.
    ///
    /// # Errors
    /// Those of [`analyze_file`].
    pub fn of_trace(path: &str, trace: &Trace, device: Option<u32>, with_pictures: bool) -> Result<Self> {
        let options = Options { device, with_pictures, ..Options::default() };
        let mut report = analyze_file(path, trace, &options)?.report;
        let mut of_trace = OfTrace::default();
        for entry in &mut report.devices {
            of_trace.timelines.insert(entry.device, std::mem::take(&mut entry.timeline));
        }
        for entry in trace.devices.iter().filter(|entry| device.is_none_or(|wanted| entry.device.0 == wanted))
        {
            of_trace.fingerprints.insert(entry.device.0, line_fingerprints(trace, entry));
            of_trace.libraries.insert(entry.device.0, libraries::of(trace, entry)?);
        }
        report.findings.retain(|finding| device.is_none_or(|device| finding.device == device));
        let value =
            serde_json::to_value(&report).map_err(|error| Error::Shape { what: error.to_string() })?;
        Ok(Self {
            path: path.to_owned(),
            report: read(&value)?,
            of_trace: trace.reduced.is_none().then_some(of_trace),
        })
    }

    /// Reads `report`, which [`report_in`] found; of several traces the one called like `other`, the path of the
    /// other side.
    ///
    /// # Errors
    /// [`Error::Shape`] when it is of another schema, a figure is no whole number, the trace cannot be told, or
    /// `device` is not in it.
    pub fn of_report(path: &str, report: &Value, other: &str, device: Option<u32>) -> Result<Self> {
        let schema = report.get("schema").and_then(Value::as_u64);
        if schema != Some(u64::from(SCHEMA)) {
            let found = report.get("schema").map(ToString::to_string).unwrap_or_default();
            return Err(shape(format!("its schema is {found}, and this memlab compares schema {SCHEMA}")));
        }
        let traces = report.get("traces").and_then(Value::as_array);
        let trace = check::chosen(traces.ok_or_else(|| shape("it has no list `traces`"))?, other)?;
        let mut report = read(trace)?;
        if let Some(wanted) = device {
            report.devices.retain(|entry| entry.device == wanted);
            if report.devices.is_empty() {
                return Err(shape(format!("device {wanted} is not in it")));
            }
            report.findings.iter_mut().for_each(|found| found.retain(|row| row.device == Some(wanted)));
        }
        Ok(Self { path: path.to_owned(), report, of_trace: None })
    }

    /// From a report as it is, for tests and callers that have it at hand; without curves and fingerprints.
    ///
    /// # Errors
    /// Those of [`DiffSide::of_report`].
    pub fn of_rows(path: &str, report: &Report) -> Result<Self> {
        let value = serde_json::to_value(report).map_err(|error| Error::Shape { what: error.to_string() })?;
        Self::of_report(path, &value, path, None)
    }
}

fn shape(what: impl std::fmt::Display) -> Error {
    Error::Shape { what: format!("not a report to compare with: {what}") }
}

fn read(trace: &Value) -> Result<SideReport> {
    let mut report = SideReport::deserialize(trace).map_err(shape)?;
    report.devices.sort_by_key(|device| device.device);
    report.devices.dedup_by_key(|device| device.device);
    Ok(report)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_told_by_its_keys() {
        assert!(report_in(br#"{"schema": 1, "tool": "memlab 0.1.0", "traces": []}"#).is_some());
        assert!(report_in("\u{feff}{\"schema\": 2, \"traces\": 1}".as_bytes()).is_some(), "a bad one is one");
        for text in ["{}", "[]", "{\"schema\": 1}", "{\"device_traces\": []}", "{\"schema\": 1, \"traces\": "]
        {
            assert!(report_in(text.as_bytes()).is_none(), "{text}");
        }
        let deep = format!("{{\"schema\": 1, \"traces\": {}", "[".repeat(100_000));
        assert!(report_in(deep.as_bytes()).is_none());
    }

    #[test]
    fn what_is_no_good_report_is_refused_by_what_is_wrong() {
        let refused = |text: &str| {
            let report = serde_json::from_str(text).unwrap();
            DiffSide::of_report("r.json", &report, "x.pickle", Some(3)).unwrap_err().to_string()
        };
        for (text, word) in [
            (r#"{"schema": 2, "traces": []}"#, "schema is 2"),
            (r#"{"schema": 1, "traces": 5}"#, "no list `traces`"),
            (r#"{"schema": 1, "traces": []}"#, "not exactly one"),
            (r#"{"schema": 1, "traces": [5]}"#, "invalid type"),
            (r#"{"schema": 1, "traces": [{}]}"#, "devices"),
            (r#"{"schema": 1, "traces": [{"devices": [{"device": -1}]}]}"#, "u32"),
            (
                r#"{"schema": 1, "traces": [{"devices": [{"device": 3, "peak": {"active_bytes": 1.5}}]}]}"#,
                "u64",
            ),
            (r#"{"schema": 1, "traces": [{"devices": [{"device": 0}]}]}"#, "device 3 is not in it"),
        ] {
            let error = refused(text);
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn a_report_that_says_little_leaves_the_rest_unknown() {
        let report =
            serde_json::from_str(r#"{"schema": 1, "traces": [{"devices": [{"device": 3}]}]}"#).unwrap();
        let side = DiffSide::of_report("r.json", &report, "x", None).unwrap();
        assert!(side.report.devices[0].peak.is_none() && side.report.findings.is_none());
    }
}
