//! Two reports, compared: traces, snapshots or earlier reports on either side.
//!
//! Owns which devices belong together and the order of the work. What a side says is read in [`side`], lines are
//! matched in `compare`, looks belong to `report`.

mod device;
mod figures;
mod findings;
mod gate;
mod libraries;
mod lines;
mod notes;
mod side;

use std::collections::BTreeMap;

use crate::report::{DiffInput, DiffReport, FactDiff, LineDiff, SCHEMA, Sides};

pub use gate::GrowthLimit;
pub use side::{DiffSide, report_in};

use lines::Matching;
use side::SideDevice;

/// How to compare.
#[derive(Clone, Debug, Default)]
pub struct DiffOptions {
    /// Also lines without any difference.
    pub all: bool,
    /// How many lines to keep; all without it.
    pub top: Option<usize>,
    /// By how much peaks may grow, where that is asked.
    pub fail_on_growth: Option<GrowthLimit>,
    /// Name of the program, for the report.
    pub tool: String,
}

/// A device of each side, or of one only.
#[derive(Clone, Copy, Debug)]
struct Pair<'a> {
    before: Option<&'a SideDevice>,
    after: Option<&'a SideDevice>,
}

/// What differs between the two. `diff(b, a)` is the mirror of `diff(a, b)`.
#[must_use]
pub fn diff(before: &DiffSide, after: &DiffSide, options: &DiffOptions) -> DiffReport {
    let pairs = paired(&before.report.devices, &after.report.devices);
    let matchings: Vec<Matching> =
        pairs.iter().map(|&pair| Matching::of(pair, Sides { before, after })).collect();
    let sides = Sides { before, after };
    let rows = pairs.iter().zip(&matchings);
    let mut report = DiffReport {
        schema: SCHEMA,
        tool: options.tool.clone(),
        before: input(before),
        after: input(after),
        same: false,
        devices: rows.map(|(&pair, matching)| device::compared(pair, sides, matching, options.all)).collect(),
        findings: findings::compared(Sides { before, after }, &pairs, &matchings),
        settings: settings(before, after),
        process: process(before, after, &pairs),
        notes: notes::of(Sides { before, after }, &pairs),
        gate: None,
    };
    for (row, pair) in report.devices.iter_mut().zip(&pairs) {
        let curve = |side: &DiffSide, device: Option<&SideDevice>| {
            let timelines = side.of_trace.as_ref().map(|of_trace| &of_trace.timelines);
            timelines.and_then(|known| known.get(&device?.device)).cloned().unwrap_or_default()
        };
        row.timelines = Sides { before: curve(before, pair.before), after: curve(after, pair.after) };
    }
    report.same = is_same(&report);
    report.gate = options.fail_on_growth.map(|limit| gate::gate(limit, &report, &pairs));
    for row in &mut report.devices {
        row.lines_left_out = keep(&mut row.lines, options.top);
        if let Some(libraries) = &mut row.library_lines {
            libraries.rows_left_out = keep(&mut libraries.rows, options.top);
        }
    }
    report
}

/// Keeps the first `top` rows and says how many that leaves out.
fn keep(rows: &mut Vec<LineDiff>, top: Option<usize>) -> u64 {
    let kept = top.unwrap_or(usize::MAX).min(rows.len());
    let left_out = rows.len() - kept;
    rows.truncate(kept);
    left_out as u64
}

/// Where each side has one device, these; else those of the same index.
fn paired<'a>(before: &'a [SideDevice], after: &'a [SideDevice]) -> Vec<Pair<'a>> {
    if let ([before], [after]) = (before, after) {
        return vec![Pair { before: Some(before), after: Some(after) }];
    }
    let mut pairs: BTreeMap<u32, Pair<'a>> = BTreeMap::new();
    let alone = Pair { before: None, after: None };
    for device in before {
        pairs.entry(device.device).or_insert(alone).before = Some(device);
    }
    for device in after {
        pairs.entry(device.device).or_insert(alone).after = Some(device);
    }
    pairs.into_values().collect()
}

fn input(side: &DiffSide) -> DiffInput {
    DiffInput {
        path: side.path.clone(),
        kind: if side.of_trace.is_some() { "trace" } else { "report" },
        format: side.report.format.clone(),
        events: side.report.events,
        complete: side.report.complete,
    }
}

/// A report writes nothing for a configuration that is not set or not recorded.
fn settings(before: &DiffSide, after: &DiffSide) -> Vec<FactDiff> {
    let (Some(one), Some(other)) = (&before.report.allocator_conf, &after.report.allocator_conf) else {
        return Vec::new();
    };
    let said = |conf: &String| Some(conf.clone()).filter(|conf| !conf.is_empty());
    let row = FactDiff { name: "PYTORCH_CUDA_ALLOC_CONF".to_owned(), before: said(one), after: said(other) };
    Some(row).filter(|row| row.before != row.after).into_iter().collect()
}

fn process(before: &DiffSide, after: &DiffSide, pairs: &[Pair<'_>]) -> Vec<FactDiff> {
    /// No two processes share it.
    const ALWAYS_OTHER: &str = "process id";
    let mut facts: BTreeMap<String, Sides<Option<String>>> = BTreeMap::new();
    if let (Some(one), Some(other)) = (&before.report.process, &after.report.process) {
        for (name, value) in one {
            facts.entry(name.clone()).or_default().before = Some(value.clone());
        }
        for (name, value) in other {
            facts.entry(name.clone()).or_default().after = Some(value.clone());
        }
        facts.remove(ALWAYS_OTHER);
    }
    for pair in pairs {
        let (Some(one), Some(other)) = (pair.before, pair.after) else { continue };
        let (low, high) = (one.device.min(other.device), one.device.max(other.device));
        let name = if low == high { format!("device {low}") } else { format!("devices {low} and {high}") };
        let bytes = |device: &SideDevice| device.total_bytes.map(|bytes| bytes.to_string());
        facts.insert(format!("{name}: name"), Sides { before: one.name.clone(), after: other.name.clone() });
        facts.insert(format!("{name}: bytes"), Sides { before: bytes(one), after: bytes(other) });
    }
    let row = |(name, sides): (String, Sides<_>)| FactDiff { name, before: sides.before, after: sides.after };
    facts.into_iter().filter(|(_, sides)| sides.differs()).map(row).collect()
}

/// Whether nothing that both sides know differs.
fn is_same(report: &DiffReport) -> bool {
    let no_finding = report.findings.appeared.is_empty() && report.findings.vanished.is_empty();
    let no_fact = report.settings.is_empty() && report.process.is_empty();
    no_finding && no_fact && report.devices.iter().all(device::is_same)
}
