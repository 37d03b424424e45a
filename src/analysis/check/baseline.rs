//! The gate on a baseline: the peaks of an earlier report, read back from its JSON.
//!
//! Owns what is read of a report and what is refused. Only memlab's own reports of the same schema are taken; what
//! is missing or of another kind is an error that names the key, never a guess.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::report::{DeviceReport, GatePart, GateRow, Outcome, SCHEMA};
use crate::units::Bytes;

use super::{Sight, limited, peak_of};

/// Peaks of an earlier report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Baseline {
    devices: Vec<BaselineDevice>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct BaselineDevice {
    device: u32,
    allocated_bytes: u64,
    reserved_bytes: u64,
    /// Lines with what they held at the peak.
    lines: BTreeMap<LineName, u64>,
}

/// File, line, function.
type LineName = (Option<String>, Option<u64>, Option<String>);

impl Baseline {
    /// Reads `text`, a report of `memlab analyze --json` or `-o`; of several traces the one called `path`, or with
    /// the same file name.
    ///
    /// # Errors
    /// [`Error::Shape`] when it is no such report, of another schema, or speaks of other traces only.
    pub fn read(text: &[u8], path: &str) -> Result<Self> {
        let report: Value =
            serde_json::from_slice(text).map_err(|error| shape(format!("it is not JSON: {error}")))?;
        let schema = report.get("schema").and_then(Value::as_u64);
        match schema {
            Some(schema) if schema == u64::from(SCHEMA) => {}
            Some(schema) => {
                return Err(shape(format!(
                    "its schema is {schema}, and this memlab compares schema {SCHEMA}"
                )));
            }
            None => return Err(shape("it has no `schema`, so it is no report of memlab")),
        }
        let traces = list(&report, "traces", "it")?;
        let trace = chosen(traces, path)?;
        let devices = list(trace, "devices", "its trace")?;
        Ok(Self { devices: devices.iter().map(device).collect::<Result<_>>()? })
    }
}

fn shape(what: impl std::fmt::Display) -> Error {
    Error::Shape { what: format!("not a report to compare with: {what}") }
}

fn list<'a>(value: &'a Value, key: &str, of: &str) -> Result<&'a Vec<Value>> {
    value.get(key).and_then(Value::as_array).ok_or_else(|| shape(format!("{of} has no list `{key}`")))
}

/// The only trace of a report; of several the one called `path`, or with the same file name.
pub(in crate::analysis) fn chosen<'a>(traces: &'a [Value], path: &str) -> Result<&'a Value> {
    if let [only] = traces {
        return Ok(only);
    }
    let name_of = |path: &str| path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
    let called = |wanted: &dyn Fn(&str) -> bool| {
        let mut found = traces.iter().filter(|trace| trace["path"].as_str().is_some_and(wanted));
        found.next().filter(|_| found.next().is_none())
    };
    let found = called(&|known| known == path).or_else(|| called(&|known| name_of(known) == name_of(path)));
    found
        .ok_or_else(|| shape(format!("of its {} traces not exactly one is called like {path}", traces.len())))
}

fn device(value: &Value) -> Result<BaselineDevice> {
    let number = value.get("device").and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok());
    let number = number.ok_or_else(|| shape("a device of it has no number `device`"))?;
    let peak = |key: &str| {
        let bytes = value.get("peak").and_then(|peak| peak.get(key)).and_then(Value::as_u64);
        bytes.ok_or_else(|| shape(format!("its device {number} has no whole number `peak.{key}`")))
    };
    let text = |line: &Value, key: &str| line.get(key).and_then(Value::as_str).map(str::to_owned);
    let lines = value.get("lines").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let named = |line: &Value| {
        let name = (text(line, "file"), line.get("line").and_then(Value::as_u64), text(line, "function"));
        Some((name, line.get("held_at_peak_bytes")?.as_u64()?))
    };
    Ok(BaselineDevice {
        device: number,
        allocated_bytes: peak("allocated_bytes")?,
        reserved_bytes: peak("reserved_bytes")?,
        lines: lines.iter().filter_map(named).collect(),
    })
}

pub(super) fn gate(
    baseline: &Baseline,
    path: &str,
    tolerance: f64,
    sights: &[(&DeviceReport, Sight)],
) -> GateRow {
    let mut parts = Vec::new();
    for (device, sight) in sights {
        let Some(before) = baseline.devices.iter().find(|before| before.device == device.device) else {
            parts.push(missing(device.device, "the baseline does not have it"));
            continue;
        };
        for counter in ["allocated", "reserved"] {
            parts.push(compared(device, before, counter, tolerance, sight));
        }
    }
    GateRow::new("baseline", format!("{path} + {tolerance} %"), parts)
}

fn missing(device: u32, why: &str) -> GatePart {
    GatePart {
        device: Some(device),
        outcome: Outcome::Undecided,
        text: format!("device {device} cannot be compared: {why}"),
        ..GatePart::default()
    }
}

fn compared(
    device: &DeviceReport,
    before: &BaselineDevice,
    counter: &str,
    tolerance: f64,
    sight: &Sight,
) -> GatePart {
    let (peak, base) = match counter {
        "reserved" => (peak_of(device, counter), before.reserved_bytes),
        _ => (peak_of(device, counter), before.allocated_bytes),
    };
    limited(device, counter, peak, tolerated(base, tolerance), sight, |_| {
        let more = peak.saturating_sub(base);
        let percent = more as f64 * 100.0 / base.max(1) as f64;
        let text = format!("{percent:.1} % over the baseline's {}", Bytes(base));
        match grown_line(device, before).filter(|_| counter == "allocated") {
            Some((line, bytes)) => format!("{text}; {line} holds {} more", Bytes(bytes)),
            None => text,
        }
    })
}

/// `base` and `tolerance` percent, rounded down.
fn tolerated(base: u64, tolerance: f64) -> u64 {
    let most = base as f64 * (tolerance / 100.0);
    // Saturates: a float beyond the range becomes its end.
    base.saturating_add(most.floor() as u64)
}

/// The line that holds most more at the peak than before.
fn grown_line(device: &DeviceReport, before: &BaselineDevice) -> Option<(String, u64)> {
    let more = device.lines.iter().map(|line| {
        let name = (line.file.clone(), line.line, line.function.clone());
        let held = before.lines.get(&name).copied().unwrap_or(0);
        (line.label(), line.figures.held_at_peak_bytes.saturating_sub(held))
    });
    more.rev().max_by_key(|&(_, bytes)| bytes).filter(|&(_, bytes)| bytes > 0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{ "schema": 1, "traces": [
        { "path": "a/x.pickle", "devices": [ { "device": 0,
            "peak": { "allocated_bytes": 1000, "reserved_bytes": 2000 },
            "lines": [ { "file": "t.py", "line": 3, "function": "f", "held_at_peak_bytes": 700 } ] } ] },
        { "path": "b/y.pickle", "devices": [] } ] }"#;

    #[test]
    fn a_report_is_read_back_and_the_trace_chosen_by_its_name() {
        let by_name = Baseline::read(GOOD.as_bytes(), "elsewhere/x.pickle").unwrap();
        assert_eq!(by_name.devices[0].allocated_bytes, 1000);
        assert_eq!(by_name.devices[0].lines.values().copied().collect::<Vec<_>>(), [700]);
        assert!(Baseline::read(GOOD.as_bytes(), "b/y.pickle").unwrap().devices.is_empty());
        let error = Baseline::read(GOOD.as_bytes(), "z.pickle").unwrap_err().to_string();
        assert!(error.contains("not exactly one"), "{error}");
    }

    #[test]
    fn what_is_no_report_is_refused_by_what_is_wrong() {
        let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
        for (text, word) in [
            ("", "not JSON"),
            ("{", "not JSON"),
            (deep.as_str(), "not JSON"),
            ("[]", "no `schema`"),
            ("{\"schema\": \"1\"}", "no `schema`"),
            ("{\"schema\": 2, \"traces\": []}", "schema is 2"),
            ("{\"schema\": 1}", "`traces`"),
            ("{\"schema\": 1, \"traces\": {}}", "`traces`"),
            ("{\"schema\": 1, \"traces\": [1]}", "`devices`"),
            ("{\"schema\": 1, \"traces\": [{\"devices\": [{}]}]}", "`device`"),
            ("{\"schema\": 1, \"traces\": [{\"devices\": [{\"device\": 5000000000}]}]}", "`device`"),
            ("{\"schema\": 1, \"traces\": [{\"devices\": [{\"device\": 0}]}]}", "peak.allocated_bytes"),
            (
                "{\"schema\": 1, \"traces\": [{\"devices\": [{\"device\": 0, \"peak\": {\"allocated_bytes\": -1}}]}]}",
                "peak.allocated_bytes",
            ),
            (
                "{\"schema\": 1, \"traces\": [{\"devices\": [{\"device\": 0, \"peak\": {\"allocated_bytes\": 1e99}}]}]}",
                "peak.allocated_bytes",
            ),
        ] {
            let error = Baseline::read(text.as_bytes(), "x").unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn a_tolerance_is_percent_and_never_overflows() {
        assert_eq!(tolerated(1_000, 5.0), 1_050);
        assert_eq!(tolerated(1_001, 0.0), 1_001);
        assert_eq!(tolerated(u64::MAX, 1e9), u64::MAX);
    }
}
