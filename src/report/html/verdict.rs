//! The top of a page: what the file is, what happened on each device, and what touches the figures.
//!
//! Owns layout only; the sentences are `report::verdict`'s.

use askama::Template;
use askama::filters::HtmlSafe;

use super::text::{Name, Prose, Size};
use crate::report::driver::{DriverDeviceRow, DriverReport};
use crate::report::driver_sentence::sum_sentence;
use crate::report::driver_words as words;
use crate::report::types::{DeviceReport, TraceReport};
use crate::report::verdict;
use crate::units::{Count, percent};

/// Devices whose verdict is told; of more, the number.
const MOST_DEVICES: usize = 16;
const MOST_SENTENCES: usize = 8;

/// The head of the page: which file this is.
#[derive(Template)]
#[template(path = "head.html", config = "src/report/assets/askama.toml")]
pub(super) struct Head {
    file: Name,
    path: Name,
    format: &'static str,
    events: Count,
    complete: bool,
    devices: Vec<Prose>,
    /// Calls of the driver, where they were recorded.
    has_calls_alone: bool,
    calls: Option<Count>,
}

impl HtmlSafe for Head {}

impl Head {
    pub(super) fn of(trace: &TraceReport) -> Self {
        Self {
            file: Name::new(trace.path.rsplit(['/', '\\']).next().unwrap_or(&trace.path)),
            path: Name::new(&trace.path),
            format: match trace.format {
                "torch-snapshot" => "PyTorch snapshot",
                "memlab-trace" => "memlab trace",
                other => other,
            },
            events: Count(trace.events),
            complete: trace.complete,
            devices: labels(trace).iter().map(|label| Prose::new(label)).collect(),
            has_calls_alone: trace.has_calls_alone(),
            calls: trace.driver.as_ref().map(|driver| Count(driver.calls)),
        }
    }
}

/// The allocator's devices; without any those of the driver's calls.
fn labels(trace: &TraceReport) -> Vec<String> {
    let drivers = trace.driver.iter().flat_map(|driver| &driver.devices).filter(|_| trace.devices.is_empty());
    trace.devices.iter().map(label).chain(drivers.map(driver_label)).take(MOST_DEVICES).collect()
}

fn driver_label(device: &DriverDeviceRow) -> String {
    let total = device.total_bytes.map(|total| format!(": {}", crate::units::Bytes(total)));
    format!("Device {}{}", device.device, total.unwrap_or_default())
}

/// How people read a device: `Device 0: NVIDIA H200, 139.8 GiB`.
pub(super) fn label(device: &DeviceReport) -> String {
    let name = device.name.as_ref().map(|name| name.replace('`', "'"));
    let total = device.total_bytes.map(|bytes| crate::units::Bytes(bytes).to_string());
    let facts: Vec<String> = name.into_iter().chain(total).collect();
    let facts = if facts.is_empty() { String::new() } else { format!(": {}", facts.join(", ")) };
    format!("Device {}{facts}", device.device)
}

/// The section.
#[derive(Template)]
#[template(path = "verdict.html", config = "src/report/assets/askama.toml")]
pub(super) struct Verdicts {
    devices: Vec<Verdict>,
    /// What driver calls say, where there is nothing else.
    driver: Vec<DriverVerdict>,
    left_out: Option<Count>,
    caveats: Vec<Prose>,
}

impl HtmlSafe for Verdicts {}

struct Verdict {
    /// Where there are several devices: which.
    device: Option<Prose>,
    is_oom: bool,
    headline: Prose,
    place: Option<Prose>,
    explanation: Vec<Prose>,
    most: Option<(Name, Size, String)>,
}

/// One device of a recording that has driver calls alone.
struct DriverVerdict {
    device: Option<Prose>,
    headline: Prose,
    /// The last request that the driver refused there.
    refused: Option<Prose>,
    sum: Prose,
}

impl DriverVerdict {
    fn of(driver: &DriverReport, device: &DriverDeviceRow) -> Self {
        let refused = driver.refused.iter().rev().find(|row| row.device == Some(device.device));
        Self {
            device: (driver.devices.len() > 1).then(|| Prose::new(&driver_label(device))),
            headline: Prose::new(&words::headline(driver, device)),
            refused: refused.map(|row| Prose::sentence(&words::refused_sentence(row))),
            sum: Prose::sentence(&sum_sentence(device, usize::MAX)),
        }
    }

    fn is_refused(&self) -> bool {
        self.refused.is_some()
    }
}

/// Those of all devices of the driver's calls where the allocator has none.
fn driver_verdicts(trace: &TraceReport) -> Vec<DriverVerdict> {
    let Some(driver) = trace.driver.as_ref().filter(|_| trace.devices.is_empty()) else { return Vec::new() };
    let devices = driver.devices.iter().take(MOST_DEVICES);
    devices.map(|device| DriverVerdict::of(driver, device)).collect()
}

impl Verdicts {
    pub(super) fn of(trace: &TraceReport) -> Self {
        let several = trace.devices.len() > 1;
        let driver = driver_verdicts(trace);
        let count = match driver.len() {
            0 => trace.devices.len(),
            _ => trace.driver.as_ref().map_or(0, |driver| driver.devices.len()),
        };
        let left_out = count.saturating_sub(MOST_DEVICES) as u64;
        let mut caveats = verdict::trace_caveats(trace);
        for device in trace.devices.iter().take(MOST_DEVICES) {
            let prefix = if several { format!("device {}: ", device.device) } else { String::new() };
            caveats.extend(verdict::device_caveats(device).into_iter().map(|text| prefix.clone() + &text));
        }
        Self {
            devices: trace
                .devices
                .iter()
                .take(MOST_DEVICES)
                .map(|device| Verdict::of(device, several))
                .collect(),
            driver,
            left_out: (left_out > 0).then_some(Count(left_out)),
            caveats: caveats.iter().map(|text| Prose::sentence(text)).collect(),
        }
    }
}

impl Verdict {
    fn of(device: &DeviceReport, several: bool) -> Self {
        let oom = device.ooms.last();
        let peak = device.peak.allocated_bytes;
        let held = device.lines.first().map(|line| (line, line.figures.held_at_peak_bytes));
        let explained = oom.map(|oom| oom.explanation.as_slice()).unwrap_or_default();
        Self {
            device: several.then(|| Prose::new(&label(device))),
            is_oom: oom.is_some(),
            headline: Prose::new(&verdict::headline(device)),
            place: oom.map(|oom| Prose::sentence(&format!("Failed {}", verdict::oom_place(oom)))),
            explanation: explained.iter().take(MOST_SENTENCES).map(|text| Prose::new(text)).collect(),
            most: held.map(|(line, held)| (Name::of_line(line), Size(held), percent(held, peak))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixtures;

    #[test]
    fn the_verdict_names_the_failure_its_reasons_and_the_largest_line() {
        let text = Verdicts::of(&fixtures::oom().traces[0]).render().unwrap();
        let parts = [
            "OOM: 400.0 MiB asked",
            "Failed at train.py:100 step",
            "needs 400.0 MiB in one piece",
            "train.py:100",
        ];
        for part in parts {
            assert!(text.contains(part), "{part}: {text}");
        }
        let text = Verdicts::of(&fixtures::late().traces[0]).render().unwrap();
        assert!(text.contains("starts late") && text.contains("not whole"), "{text}");
    }

    #[test]
    fn a_file_without_devices_says_so() {
        let mut report = fixtures::late();
        report.traces[0].devices.clear();
        let text = Verdicts::of(&report.traces[0]).render().unwrap();
        assert!(text.contains("No device has events"), "{text}");
    }
}
