//! `memlab check`: gates for continuous integration.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;

use crate::analysis::{self, Baseline, Options};
use crate::cli::args::CheckArgs;
use crate::cli::console::{Console, shown};
use crate::cli::failure::refuse;
use crate::cli::{Status, input, output};
use crate::report::{self, Outcome};

/// Runs the command.
pub(crate) fn run(args: &CheckArgs, console: &Console) -> anyhow::Result<Status> {
    if let Some(path) = &args.junit {
        output::check_free(path, args.force)?;
    }
    let mut gates = args.gates();
    if let Some(path) = &args.baseline {
        gates.baseline = Some((baseline(path, &args.trace)?, path.display().to_string(), args.tolerance()));
    }
    let options = Options { device: args.device, ..Options::default() };
    let (answer, warnings) = input::one(&args.trace, console, |input| {
        input::require_device(&input.trace, options.device)?;
        let analysis = analysis::analyze_file(&input.label, &input.trace, &options)?;
        Ok((analysis::check(&analysis, &gates), analysis.report.warnings))
    })?;
    for warning in &warnings {
        console.warning(&answer.path, &warning.text, warning.count);
    }
    if let Some(path) = &args.junit {
        let bytes = output::write(path, report::check_junit(&answer).as_bytes(), args.force)?;
        console.wrote(path, bytes);
    }
    for gate in answer.gates.iter().filter(|gate| gate.outcome == Outcome::Passed) {
        console.detail(&format!("passed {}", report::check_line(gate)));
    }
    let text = if args.json { report::pretty(&answer) } else { report::check_text(&answer, console.style()) };
    console.print(&text)?;
    Ok(match answer.outcome {
        Outcome::Passed => Status::Done,
        Outcome::Undecided => Status::Undecided,
        Outcome::Failed => Status::GateFailed,
    })
}

/// Reads the report that the trace is compared with.
fn baseline(path: &Path, trace: &Path) -> anyhow::Result<Baseline> {
    /// A report of many thousand lines has some MiB.
    const MOST_BYTES: u64 = 256 << 20;
    let failed = || format!("failed to read the baseline {}", shown(path));
    let file = File::open(path).with_context(failed)?;
    let mut text = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut text).with_context(failed)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(refuse(
            format!("the baseline {} is too large to be a report", shown(path)),
            "give the report.json that `memlab analyze -o DIR` wrote",
        ));
    }
    Baseline::read(&text, &trace.display().to_string()).with_context(failed)
}
