//! `memlab info`: what is in a file, counted and not interpreted.

mod facts;
mod screen;

use serde::Serialize;

use crate::cli::args::InfoArgs;
use crate::cli::console::Console;
use crate::cli::{Status, help, input};
use crate::report::{self, SCHEMA};
use facts::FileFacts;

/// What `memlab info --json` prints.
#[derive(Serialize)]
struct InfoReport {
    schema: u32,
    tool: &'static str,
    traces: Vec<FileFacts>,
}

/// Runs the command.
pub(crate) fn run(args: &InfoArgs, console: &Console) -> anyhow::Result<Status> {
    let results = input::each_outlined(&args.traces, args.verify, console, |input| FileFacts::of(&input))?;
    let (good, status) = input::keep_good(results, console);
    let traces: Vec<_> = good.into_iter().map(|(_, facts)| facts).collect();
    if traces.is_empty() {
        return Ok(status);
    }
    let text = if args.json {
        let info = InfoReport { schema: SCHEMA, tool: help::TOOL, traces };
        report::pretty(&info)
    } else {
        traces.iter().map(screen::text).collect::<Vec<_>>().join("\n")
    };
    console.print(&text)?;
    Ok(status)
}
