//! `memlab summary`: the counters of `torch.cuda.memory_summary()` at the end or at any event.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::analysis;
use crate::cli::args::SummaryArgs;
use crate::cli::console::Console;
use crate::cli::{Status, input};
use crate::report::{self, SCHEMA};

/// Runs the command.
pub(crate) fn run(args: &SummaryArgs, console: &Console) -> anyhow::Result<Status> {
    let (label, warnings, stats) = input::one(&args.trace, console, |input| {
        input::require_events(&input.trace, "summary")?;
        input::require_allocator(&input.trace, "summary")?;
        input::require_device(&input.trace, args.device)?;
        input::require_event(&input.trace, args.device, args.at)?;
        let stats = analysis::stats(&input.trace, args.device, args.at)?;
        Ok((input.label, input.trace.warnings, stats))
    })?;
    for warning in warnings.iter() {
        console.warning(&label, &warning.text, warning.count);
    }
    console.print(&if args.json { json(&stats) } else { screen(&stats) })?;
    Ok(Status::Done)
}

fn screen(stats: &[(u32, BTreeMap<String, u64>)]) -> String {
    let tables: Vec<_> = stats.iter().map(|(device, stats)| report::summary_table(*device, stats)).collect();
    tables.join("\n")
}

/// What `memlab summary --json` prints.
#[derive(Serialize)]
struct SummaryReport<'a> {
    schema: u32,
    devices: Vec<DeviceStats<'a>>,
}

/// One device of it, with the keys of `torch.cuda.memory_stats()`.
#[derive(Serialize)]
struct DeviceStats<'a> {
    device: u32,
    stats: &'a BTreeMap<String, u64>,
}

fn json(stats: &[(u32, BTreeMap<String, u64>)]) -> String {
    let devices = stats.iter().map(|(device, stats)| DeviceStats { device: *device, stats }).collect();
    report::pretty(&SummaryReport { schema: SCHEMA, devices })
}
