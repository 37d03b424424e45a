//! The order of the work: inputs found, outputs checked, files analysed, results put where they belong.

use std::path::PathBuf;

use super::{files, ranks};
use crate::analysis::{self, Compared};
use crate::cli::args::AnalyzeArgs;
use crate::cli::budget::Budget;
use crate::cli::console::Console;
use crate::cli::{Status, input, names, recordings};
use crate::report::{self, RanksReport, Style, TraceReport};

/// Files from which on only rows are kept of each, unless all was asked for.
const MANY_FILES: usize = 8;

/// Runs the command.
pub(in crate::cli::commands) fn run(args: &AnalyzeArgs, console: &Console) -> anyhow::Result<Status> {
    let paths = recordings::expand(&args.traces)?;
    let named = args.rank_from.as_ref().map(|pattern| recordings::ranks(&paths, pattern)).transpose()?;
    let folders =
        args.output.as_deref().map(|folder| names::report_folders(folder, &paths)).unwrap_or_default();
    for folder in &folders {
        files::check(folder, args.force)?;
    }
    if let Some(folder) = args.output.as_deref().filter(|_| paths.len() > 1) {
        ranks::check(folder, args.force)?;
    }
    let is_short = paths.len() > MANY_FILES && !args.json && args.output.is_none();
    let (good, mut status) = analyzed(args, &paths, named.as_deref(), is_short, console)?;
    let failed = paths.len() - good.len();
    let (places, analyses): (Vec<usize>, Vec<_>) = good.into_iter().unzip();
    let Compared { files: reports, ranks } = analysis::compared(analyses);
    let ranks = ranks.map(|mut ranks| {
        ranks.failed_files = failed as u64;
        ranks
    });
    for (place, (trace, pages)) in places.iter().zip(&reports).filter(|_| args.output.is_some()) {
        if let Err(error) = files::write(&folders[*place], trace, pages, args, console) {
            console.error(&error);
            status = Status::Failed;
        }
    }
    if !is_short && (paths != args.traces || args.rank_from.is_some()) {
        say_what_is_no_job(ranks.as_ref(), console);
    }
    let job = ranks.as_ref().filter(|ranks| ranks.is_one_job);
    if let (Some(folder), Some(job)) = (&args.output, job)
        && let Err(error) = ranks::write(folder, job, args.force, console)
    {
        console.error(&error);
        status = Status::Failed;
    }
    let traces: Vec<_> = reports.into_iter().map(|(trace, _)| trace).collect();
    match (args.json, args.output.is_some()) {
        _ if traces.is_empty() => {}
        (true, _) => console.print(&report::json_with_ranks(&files::report_of(traces), job))?,
        (false, true) => {}
        (false, false) if is_short => console.print(&short(&traces, ranks.as_ref(), console.style()))?,
        (false, false) => console.print(&screen(&traces, job, console.style()))?,
    }
    Ok(status)
}

/// Whoever names a folder, a pattern or where the rank stands means one job.
fn say_what_is_no_job(ranks: Option<&RanksReport>, console: &Console) {
    if let Some(ranks) = ranks.filter(|ranks| !ranks.is_one_job) {
        ranks.notes.iter().take(1).for_each(|note| console.warning("no table of ranks", note, 1));
    }
}

/// What could be analysed, with its place among the paths.
type Good = Vec<(usize, analysis::Analysis)>;

fn analyzed(
    args: &AnalyzeArgs,
    paths: &[PathBuf],
    named: Option<&[u64]>,
    is_short: bool,
    console: &Console,
) -> anyhow::Result<(Good, Status)> {
    let mut options = args.analysis.options(args.output.is_some());
    options.several_files = paths.len() > 1;
    let budget = Budget::new(args.memory_budget.map(|bytes| bytes.0));
    let part = args.analysis.part();
    let results = input::within(paths, part.as_ref(), &budget, console, |place, input| {
        if let Some(option) = args.analysis.needs_events() {
            input::require_events(&input.trace, option)?;
        }
        input::require_device(&input.trace, options.device)?;
        input::require_window(&input.trace, &options)?;
        let mut analysis = analysis::analyze_file(&input.label, &input.trace, &options)?;
        if let Some(rank) = named.and_then(|named| named.get(place)) {
            analysis.name_rank(*rank);
        }
        if is_short {
            analysis.keep_row_only();
        }
        Ok(analysis)
    })?;
    Ok(input::keep_good(results, console))
}

/// The ranks, then summaries one below the other.
fn screen(traces: &[TraceReport], job: Option<&RanksReport>, style: Style) -> String {
    let ranks = job.map(|job| report::ranks_text(job, style));
    let texts = traces.iter().map(|trace| report::text_summary(trace, style));
    ranks.into_iter().chain(texts).collect::<Vec<_>>().join("\n")
}

/// The ranks alone. Of a single file that could be read there are none: its own summary is gone, too, so say where it
/// is to be had.
fn short(traces: &[TraceReport], ranks: Option<&RanksReport>, style: Style) -> String {
    if let Some(ranks) = ranks {
        return report::ranks_text(ranks, style);
    }
    let paths: Vec<String> = traces.iter().map(report_path).collect();
    format!("next: memlab analyze {}\n", paths.join(" "))
}

fn report_path(trace: &TraceReport) -> String {
    names::shell_word(&report::escape::terminal(&trace.path))
}
