//! The end of a page: settings, warnings, what is not known, how the page was made, the glossary.

use askama::Template;
use askama::filters::HtmlSafe;

use super::HtmlOptions;
use super::text::{Name, Prose};
use crate::report::types::{DeviceReport, TraceReport};
use crate::units::{Bytes, Count};

/// Rows of each list; of more, the number.
const MOST: usize = 40;

/// The sections.
#[derive(Template)]
#[template(path = "origin.html", config = "src/report/assets/askama.toml")]
pub(super) struct Origin {
    has_allocator: bool,
    conf: Option<Name>,
    facts: Vec<(Name, Name)>,
    warnings: Vec<(Name, Count, Prose)>,
    warnings_left_out: Option<Count>,
    unknown: Vec<String>,
    tool: Prose,
    command: Option<Name>,
}

impl HtmlSafe for Origin {}

impl Origin {
    pub(super) fn of(trace: &TraceReport, options: &HtmlOptions) -> Self {
        let left_out = trace.warnings.len().saturating_sub(MOST) as u64;
        let fact = |(name, value): &(String, String)| (Name::new(name), Name::new(value));
        Self {
            has_allocator: !trace.has_calls_alone(),
            conf: (!trace.allocator_conf.is_empty()).then(|| Name::new(&trace.allocator_conf)),
            facts: trace.process.iter().take(MOST).map(fact).collect(),
            warnings: trace
                .warnings
                .iter()
                .take(MOST)
                .map(|row| (Name::new(&row.kind), Count(row.count), Prose::sentence(&row.text)))
                .collect(),
            warnings_left_out: (left_out > 0).then_some(Count(left_out)),
            unknown: trace.devices.iter().take(MOST).map(|device| unknown(trace, device)).collect(),
            tool: Prose::new(&options.tool),
            command: (!options.command.is_empty()).then(|| Name::new(&options.command)),
        }
    }
}

/// What the recording does not know of `device`, in whole sentences.
fn unknown(trace: &TraceReport, device: &DeviceReport) -> String {
    let history = &device.history;
    let mut text =
        if trace.devices.len() > 1 { format!("Device {}: ", device.device) } else { String::new() };
    if history.from_the_start {
        text += "The recording starts before the first allocation: nothing was live or reserved then.";
    } else {
        text += &format!(
            "The recording starts late: {} in {} allocations were live before it. Who made them is not \
             recorded, and an earlier peak is not seen.",
            Bytes(device.initial.allocated_bytes),
            Count(history.initial_allocations)
        );
    }
    if history.uncertain_allocations > 0 {
        text += &format!(
            " {} allocations have no proven size: the truth may be up to {} higher.",
            Count(history.uncertain_allocations),
            Bytes(history.uncertain_bytes)
        );
    }
    let inferred =
        device.lines.iter().fold(0u64, |sum, line| sum.saturating_add(line.figures.inferred_bytes));
    text += &format!(
        " At the peak {} have no known line, and {} were given to a line by inference.",
        Bytes(device.unattributed.held_at_peak_bytes),
        Bytes(inferred)
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixtures;

    #[test]
    fn settings_warnings_and_gaps_are_said() {
        let options = HtmlOptions { tool: "memlab 0.1.0".to_owned(), command: "memlab report x".to_owned() };
        let shown = |trace: &TraceReport| Origin::of(trace, &options).render().unwrap();
        let late = shown(&fixtures::late().traces[0]);
        for part in ["free-without-alloc", "1,204", "starts late", "up to 3.0 MiB higher", "memlab report x"]
        {
            assert!(late.contains(part), "{part}: {late}");
        }
        let oom = shown(&fixtures::oom().traces[0]);
        assert!(oom.contains("max_split_size_mb:512") && oom.contains("3.12.4"), "{oom}");
        let mut report = fixtures::late();
        report.traces[0].warnings = vec![report.traces[0].warnings[0].clone(); 5_000];
        assert!(shown(&report.traces[0]).contains("4,960 more"));
    }
}
