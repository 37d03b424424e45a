//! `memlab analyze`: the whole report, on the screen, as JSON or as files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::analysis;
use crate::cli::args::{AnalysisArgs, AnalyzeArgs};
use crate::cli::console::{Console, shown};
use crate::cli::{Status, help, input, names, output};
use crate::report::html::blob::PageDevice;
use crate::report::{self, MarkdownOptions, Report, SCHEMA, Style, TraceReport};

/// Runs the command.
pub(crate) fn run(args: &AnalyzeArgs, console: &Console) -> anyhow::Result<Status> {
    let folders =
        args.output.as_deref().map(|folder| names::report_folders(folder, &args.traces)).unwrap_or_default();
    for folder in &folders {
        check(folder, args.force)?;
    }
    let mut options = args.analysis.options(args.output.is_some());
    options.several_files = args.traces.len() > 1;
    let results = input::each(&args.traces, console, |input| {
        if let Some(option) = args.analysis.needs_events() {
            input::require_events(&input.trace, option)?;
        }
        input::require_device(&input.trace, options.device)?;
        input::require_window(&input.trace, &options)?;
        Ok(analysis::analyze_file(&input.label, &input.trace, &options)?)
    })?;
    let (good, mut status) = input::keep_good(results, console);
    let (places, analyses): (Vec<usize>, Vec<_>) = good.into_iter().unzip();
    let reports: Vec<_> = places.into_iter().zip(analysis::compared(analyses)).collect();
    for (place, (trace, pages)) in reports.iter().filter(|_| args.output.is_some()) {
        if let Err(error) = write_files(&folders[*place], trace, pages, args, console) {
            console.error(&error);
            status = Status::Failed;
        }
    }
    let traces: Vec<_> = reports.into_iter().map(|(_, (trace, _))| trace).collect();
    match (args.json, args.output.is_some()) {
        _ if traces.is_empty() => {}
        (true, _) => console.print(&report::json(&report_of(traces)))?,
        (false, true) => {}
        (false, false) => console.print(&screen(&traces, console.style()))?,
    }
    Ok(status)
}

/// Summaries one below the other.
fn screen(traces: &[TraceReport], style: Style) -> String {
    let texts: Vec<_> = traces.iter().map(|trace| report::text_summary(trace, style)).collect();
    texts.join("\n")
}

fn report_of(traces: Vec<TraceReport>) -> Report {
    Report { schema: SCHEMA, tool: help::TOOL.to_owned(), traces }
}

/// Before the work: can the folder be written to, and is nothing in the way?
fn check(folder: &Path, overwrite: bool) -> anyhow::Result<()> {
    output::check_folder(folder)?;
    let pictures = report::PICTURE_KINDS.map(|kind| report::picture_name(kind, 0));
    for name in
        ["report.html", "report.md", "report.json"].into_iter().chain(pictures.iter().map(String::as_str))
    {
        output::check_free(&folder.join(name), overwrite)?;
    }
    Ok(())
}

fn write_files(
    folder: &Path,
    trace: &TraceReport,
    pages: &[PageDevice],
    args: &AnalyzeArgs,
    console: &Console,
) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create folder {}", shown(folder)))?;
    let files: Vec<(PathBuf, String)> = files(trace, pages, &args.analysis)
        .into_iter()
        .map(|(name, content)| (folder.join(name), content))
        .collect();
    // All or none, as far as that can be known: only now are the other devices' pictures known by name.
    for (path, _) in &files {
        output::check_free(path, args.force)?;
    }
    for (path, content) in &files {
        let bytes = output::write(path, content.as_bytes(), args.force)?;
        console.wrote(path, bytes);
    }
    Ok(())
}

/// Names and contents of everything that is written for one trace.
fn files(trace: &TraceReport, pages: &[PageDevice], analysis: &AnalysisArgs) -> Vec<(String, String)> {
    let options = MarkdownOptions {
        tool: help::TOOL.to_owned(),
        command: command_again(&trace.path, analysis),
        pictures: true,
    };
    let mut files = vec![
        ("report.html".to_owned(), super::report::page(trace, pages, analysis)),
        ("report.md".to_owned(), report::markdown(trace, &options)),
        ("report.json".to_owned(), report::json(&report_of(vec![trace.clone()]))),
    ];
    for device in &trace.devices {
        for kind in report::PICTURE_KINDS {
            // A picture with nothing in it is not written; the page says why.
            if let Some(svg) = report::picture_svg(kind, trace, device) {
                files.push((report::picture_name(kind, device.device), svg));
            }
        }
    }
    files
}

/// The command that gives the same figures. The folder is left out: the same trace gives the same page,
/// wherever it is written.
fn command_again(path: &str, analysis: &AnalysisArgs) -> String {
    super::command_line("memlab analyze", path, analysis)
}
