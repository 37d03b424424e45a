//! The first sentence of every report, what touches its figures, and what to do next, in words.
//!
//! Owns the wording that the terminal summary and the Markdown page share. Returns raw text: whoever prints
//! it escapes it. Decides nothing about memory: verdicts, findings and remedies arrive finished.

use super::escape::terminal;
use super::told;
use super::types::{DeviceReport, Fragmentation, OomRow, TraceReport, WarningRow};
use crate::units::{Bytes, Count, percent};

/// What happened on `device`, in one line.
pub(super) fn headline(device: &DeviceReport) -> String {
    match device.ooms.last() {
        Some(oom) => {
            let free = oom
                .device_free_bytes
                .map(|free| format!(", {} free on the device", Bytes(free)))
                .unwrap_or_default();
            let verdict = oom_words(&oom.verdict);
            format!("OOM: {} asked{free}: {verdict}", Bytes(oom.requested_bytes))
        }
        None => format!(
            "No OOM recorded; peak {} allocated of {} reserved",
            Bytes(device.peak.allocated_bytes),
            Bytes(device.peak.reserved_bytes)
        ),
    }
}

/// A verdict of the contract with what it means.
fn oom_words(verdict: &str) -> String {
    let meaning = match verdict {
        "capacity" => "what is live does not fit into the device",
        "near-capacity" => "what is live nearly fills the device",
        "fragmentation" => "enough is reserved and free, but in pieces that are too small",
        "huge-request" => "this one request is larger than the device could ever serve",
        "memory-cap" => "a limit set for this process was reached, not the device's",
        "pending-at-oom" => "freed blocks still wait for other streams",
        "driver-refused" => "the driver refused although it reported enough free memory",
        "outside-allocator" => "other processes or libraries hold the device's memory",
        "unknown" => "the trace does not show why",
        _ => return verdict.to_owned(),
    };
    format!("{verdict} ({meaning})")
}

/// Where and when the request failed.
pub(super) fn oom_place(oom: &OomRow) -> String {
    match &oom.line {
        Some(line) => format!("at {line}, event {}", Count(oom.event)),
        None => format!("at event {}, no user line known", Count(oom.event)),
    }
}

/// The moment whose fragmentation explains most, with its name.
pub(super) fn telling_fragmentation(device: &DeviceReport) -> (&'static str, &Fragmentation) {
    match &device.fragmentation.at_oom {
        Some(at_oom) => ("at the OOM", at_oom),
        None => ("at the peak", &device.fragmentation.at_peak),
    }
}

/// Free bytes in reserved segments.
pub(super) fn free_bytes(fragmentation: &Fragmentation) -> u64 {
    fragmentation.stranded_bytes.saturating_add(fragmentation.releasable_bytes)
}

/// What the reader must know before trusting any figure of `trace`.
pub(super) fn trace_caveats(trace: &TraceReport) -> Vec<String> {
    let mut caveats = Vec::new();
    if !trace.complete {
        caveats.push("the file is not whole: the figures cover what could be read".to_owned());
    }
    if let Some(reduced) = &trace.reduced {
        let name = terminal(&reduced.name);
        let what = if trace.has_calls_alone() {
            "calls".to_owned()
        } else {
            format!("{} events", Count(reduced.events))
        };
        caveats.push(format!("a reduced recording: its {what} are in the original, {name}"));
    }
    caveats
}

/// Faults met in the file. That it is reduced is none: [`trace_caveats`] says it.
pub(super) fn faults(trace: &TraceReport) -> impl Iterator<Item = &WarningRow> {
    trace.warnings.iter().filter(|warning| trace.reduced.is_none() || warning.kind != "reduced")
}

/// What the reader must know before trusting the figures of `device`.
pub(super) fn device_caveats(device: &DeviceReport) -> Vec<String> {
    let mut caveats = Vec::new();
    let history = &device.history;
    if !history.from_the_start {
        caveats.push(format!(
            "the recording starts late: {} were live before it, an earlier peak is not seen",
            Bytes(device.initial.allocated_bytes),
        ));
    }
    if history.uncertain_allocations > 0 {
        caveats.push(format!(
            "{} allocations have no proven size: the truth may be up to {} higher",
            Count(history.uncertain_allocations),
            Bytes(history.uncertain_bytes)
        ));
    }
    let inferred: u64 =
        device.lines.iter().fold(0, |sum, line| line.figures.inferred_bytes.saturating_add(sum));
    if inferred > 0 {
        caveats.push(format!(
            "{} ({}) of the peak is inferred: the backward pass has no Python frames",
            Bytes(inferred),
            percent(inferred, device.peak.allocated_bytes)
        ));
    }
    caveats
}

/// What to do first, as the most serious finding says. Findings that are merely worth knowing are no next step.
pub(super) fn next_step(trace: &TraceReport, device: &DeviceReport) -> Option<String> {
    let findings = told::in_order(trace, Some(device.device));
    let serious = findings.into_iter().filter(|finding| told::is_serious(finding));
    serious.map(|finding| &finding.remedy).find(|remedy| !remedy.is_empty()).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixtures;

    #[test]
    fn the_headline_says_what_was_asked_and_why_it_failed() {
        let report = fixtures::oom();
        let line = headline(&report.traces[0].devices[0]);
        assert!(
            line.starts_with("OOM: 400.0 MiB asked, 62.0 MiB free on the device: fragmentation ("),
            "{line}"
        );
        let report = fixtures::normal();
        assert_eq!(
            headline(&report.traces[0].devices[0]),
            "No OOM recorded; peak 177.3 MiB allocated of 274.0 MiB reserved"
        );
    }

    #[test]
    fn a_late_start_is_said() {
        let report = fixtures::late();
        let trace = &report.traces[0];
        let said = device_caveats(&trace.devices[0]).join("\n");
        assert!(said.contains("starts late") && said.contains("up to 3.0 MiB"), "{said}");
        assert!(trace_caveats(trace)[0].contains("not whole"));
    }

    #[test]
    fn the_most_serious_finding_says_what_to_do_and_infos_are_no_next_step() {
        let mut report = fixtures::oom();
        let trace = &mut report.traces[0];
        assert!(next_step(trace, &trace.devices[0]).unwrap().starts_with("Set PYTORCH_CUDA_ALLOC_CONF"));
        trace.findings.retain(|finding| finding.severity == "info");
        assert_eq!(next_step(trace, &trace.devices[0]), None);
    }
}
