//! `memlab explain`: what a rule says, when it fires, and what to do.

use crate::cli::Status;
use crate::cli::args::ExplainArgs;
use crate::cli::console::Console;
use crate::findings::{RULES, rule};
use crate::report;

/// Runs the command.
pub(crate) fn run(args: &ExplainArgs, console: &Console) -> anyhow::Result<Status> {
    let chosen = args.rule.as_deref().and_then(rule);
    let text = match (chosen, args.json) {
        (Some(rule), true) => report::explain_json(&[rule]),
        (None, true) => report::explain_json(&RULES),
        (Some(rule), false) => report::explain_text(rule, console.width(), console.style()),
        (None, false) => report::explain_index(console.width(), console.style()),
    };
    console.print(&text)?;
    Ok(Status::Done)
}
