//! What `analyze -o` writes for each trace.
//!
//! Owns names and contents; when a report is written is `sink`'s.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::cli::args::AnalysisArgs;
use crate::cli::console::shown;
use crate::cli::{help, output};
use crate::report::html::blob::PageDevice;
use crate::report::{self, MarkdownOptions, TraceReport};

/// Before the work: can the folder be written to, and is nothing in the way?
pub(super) fn check(folder: &Path, overwrite: bool) -> anyhow::Result<()> {
    output::check_folder(folder)?;
    let kinds = report::PICTURE_KINDS.into_iter().chain([report::DRIVER_PICTURE]);
    let pictures: Vec<String> = kinds.map(|kind| report::picture_name(kind, 0)).collect();
    for name in
        ["report.html", "report.md", "report.json"].into_iter().chain(pictures.iter().map(String::as_str))
    {
        output::check_free(&folder.join(name), overwrite)?;
    }
    Ok(())
}

/// Writes everything about one trace into its folder; what was written, and how long it is, goes to `written`.
pub(super) fn write(
    folder: &Path,
    trace: &TraceReport,
    pages: &[PageDevice],
    analysis: &AnalysisArgs,
    overwrite: bool,
    written: &mut Vec<(PathBuf, u64)>,
) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create folder {}", shown(folder)))?;
    let files: Vec<(PathBuf, String)> = files(trace, pages, analysis)
        .into_iter()
        .map(|(name, content)| (folder.join(name), content))
        .collect();
    // All or none, as far as that can be known: only now are the other devices' pictures known by name.
    for (path, _) in &files {
        output::check_free(path, overwrite)?;
    }
    for (path, content) in files {
        let bytes = output::write(&path, content.as_bytes(), overwrite)?;
        written.push((path, bytes));
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
        ("report.html".to_owned(), super::super::report::page(trace, pages, analysis)),
        ("report.md".to_owned(), report::markdown(trace, &options)),
        ("report.json".to_owned(), json(trace)),
    ];
    for device in &trace.devices {
        for kind in report::PICTURE_KINDS {
            // A picture with nothing in it is not written; the page says why.
            if let Some(svg) = report::picture_svg(kind, trace, device) {
                files.push((report::picture_name(kind, device.device), svg));
            }
        }
    }
    if let Some(driver) = &trace.driver {
        for device in &driver.devices {
            if let Some(svg) = report::driver_timeline_svg(trace, driver, device) {
                files.push((report::picture_name(report::DRIVER_PICTURE, device.device), svg));
            }
        }
    }
    files
}

fn json(trace: &TraceReport) -> String {
    let (before, behind) = report::json_frame(help::TOOL, None, &[]);
    before + &report::json_trace(trace) + &behind
}

/// The command that gives the same figures. The folder is left out: the same trace gives the same page,
/// wherever it is written.
fn command_again(path: &str, analysis: &AnalysisArgs) -> String {
    super::super::command_line("memlab analyze", path, analysis)
}
