//! `memlab oom`: out-of-memory messages in logs, explained.

use std::path::Path;

use anyhow::Context as _;

use crate::analysis;
use crate::cli::args::OomArgs;
use crate::cli::console::{Console, shown};
use crate::cli::{Status, input};
use crate::findings::message::{self, Scan};
use crate::import::{self, ReadOptions};
use crate::report::{self, GLOSSARY, OomReport, SCHEMA};
use crate::units::Bytes;

/// Runs the command. A log without any message is no error: it is said.
pub(crate) fn run(args: &OomArgs, console: &Console) -> anyhow::Result<Status> {
    input::check_standard_input(&args.logs)?;
    let (good, status) = input::keep_good(args.logs.iter().map(|path| scan(path)).collect(), console);
    if good.is_empty() {
        return Ok(status);
    }
    let (mut messages, mut logs) = (Vec::new(), Vec::new());
    for (place, scan) in good {
        let path = &args.logs[place];
        let (rows, log) = analysis::oom_rows(&path.display().to_string(), &scan);
        let label = shown(path);
        console.detail(&format!("Read {label} ({}, {} lines)", Bytes(log.bytes), log.lines));
        if let Some(fault) = &log.fault {
            console.warning(&label, &format!("reading ended early, behind byte {}: {fault}", log.bytes), 1);
        }
        if rows.is_empty() {
            console.warning(&label, "there is no out-of-memory message in it", 1);
        }
        messages.extend(rows);
        logs.push(log);
    }
    let report = OomReport { schema: SCHEMA, messages, logs, glossary: GLOSSARY.into_iter().collect() };
    let text = if args.json { report::pretty(&report) } else { report::oom_text(&report, console.style()) };
    console.print(&text)?;
    Ok(status)
}

fn scan(path: &Path) -> anyhow::Result<Scan> {
    let reading = || format!("failed to read {}", shown(path));
    let log = import::open_log(path, &ReadOptions::default()).with_context(reading)?;
    let scan = message::scan(log);
    match scan.fault {
        Some(fault) if scan.bytes == 0 => Err(fault).with_context(reading),
        fault => Ok(Scan { fault, ..scan }),
    }
}
