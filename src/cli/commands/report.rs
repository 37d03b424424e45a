//! `memlab report`: the whole report as one page.

use std::io::Write as _;

use anyhow::Context as _;

use crate::analysis;
use crate::cli::args::{AnalysisArgs, ReportArgs};
use crate::cli::console::{Console, shown};
use crate::cli::output::Pending;
use crate::cli::sources::Sources;
use crate::cli::{Status, help, input};
use crate::report::html::blob::{Budget, PageDevice};
use crate::report::{self, HtmlOptions, TraceReport};

/// Runs the command.
pub(crate) fn run(args: &ReportArgs, console: &Console) -> anyhow::Result<Status> {
    let mut pending = Pending::create(&args.output, args.force)?;
    let sources = args.source.as_deref().map(Sources::below).transpose()?;
    let mut options = args.analysis.options(true);
    if let Some(detail) = args.detail {
        options.page = Some(Budget(detail.0));
    }
    let (mut trace, pages) = input::one_part(&args.trace, args.analysis.part().as_ref(), console, |input| {
        if let Some(option) = args.analysis.needs_events() {
            input::require_events(&input.trace, option)?;
        }
        input::require_device(&input.trace, options.device)?;
        input::require_window(&input.trace, &options)?;
        let analysis = analysis::analyze_file(&input.label, &input.trace, &options)?;
        Ok((analysis.report, analysis.pages))
    })?;
    if let Some(sources) = sources {
        sources.attach(&mut trace);
    }
    let written = pending.writer().write_all(page(&trace, &pages, &args.analysis).as_bytes());
    written.with_context(|| format!("failed to write {}", shown(&args.output)))?;
    console.wrote(&args.output, pending.commit()?);
    Ok(Status::Done)
}

/// The page for `trace`. The file's name is left out: the same trace gives the same page, wherever it is written.
pub(super) fn page(trace: &TraceReport, pages: &[PageDevice], analysis: &AnalysisArgs) -> String {
    let options = HtmlOptions {
        tool: help::TOOL.to_owned(),
        command: super::command_line("memlab report", &trace.path, analysis),
    };
    report::html(trace, pages, &options)
}
