//! `memlab diff`: two traces, snapshots or reports compared, on the screen, as JSON or as files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::analysis::{self, DiffSide};
use crate::cli::args::DiffArgs;
use crate::cli::console::{Console, shown};
use crate::cli::failure::refuse;
use crate::cli::input::Either;
use crate::cli::{Status, input, output};
use crate::model::Warnings;
use crate::report::{self, DeviceDiff, DiffReport, Outcome};

/// What the page and its data are called in a folder.
const FILES: [&str; 3] = ["diff.md", "diff.json", "diff.html"];

/// Endings of files that somebody may expect.
const OTHER_FILES: [&str; 7] = ["svg", "png", "pdf", "txt", "htm", "csv", "xml"];

/// Runs the command.
pub(crate) fn run(args: &DiffArgs, console: &Console) -> anyhow::Result<Status> {
    if let Some(path) = &args.output {
        check(path, args.force)?;
    }
    let pictures =
        args.output.as_deref().is_some_and(|path| ending(path).is_none_or(|ending| ending == "html"));
    let paths = [args.before.clone(), args.after.clone()];
    let devices = args.devices();
    let sides = input::both(&paths, console, |place, found| {
        side(found, &paths[1 - place], devices[place], pictures)
    })?;
    let [(before, before_faults), (after, after_faults)] = sides;
    for (path, faults) in paths.iter().zip([&before_faults, &after_faults]) {
        for warning in faults.iter() {
            console.warning(&shown(path), &warning.text, warning.count);
        }
    }
    let answer = analysis::diff(&before, &after, &args.options());
    if let Some(path) = &args.output {
        write(path, &answer, args.force, console)?;
    }
    match (args.json, args.output.is_some()) {
        (true, _) => console.print(&report::pretty(&answer))?,
        (false, true) => {}
        (false, false) => console.print(&report::diff_text(&answer, args.screen_top(), console.style()))?,
    }
    Ok(ended(&answer, console))
}

fn side(
    found: Either,
    other: &Path,
    device: Option<u32>,
    pictures: bool,
) -> anyhow::Result<(DiffSide, Warnings)> {
    match found {
        Either::Trace(input) => {
            input::require_device(&input.trace, device)?;
            let side = DiffSide::of_trace(&input.label, &input.trace, device, pictures)?;
            Ok((side, input.trace.warnings))
        }
        Either::Report { label, report } => {
            let side = DiffSide::of_report(&label, &report, &other.display().to_string(), device)?;
            Ok((side, Warnings::default()))
        }
    }
}

/// What became of the gate; where it does not hold, one line on stderr, so that stdout stays what it is.
fn ended(answer: &DiffReport, console: &Console) -> Status {
    let Some(gate) = &answer.gate else { return Status::Done };
    match gate.outcome {
        Outcome::Passed => Status::Done,
        Outcome::Undecided => {
            console.gate("UNDECIDED", &report::check_line(gate));
            Status::Undecided
        }
        Outcome::Failed => {
            console.gate("FAILED", &report::check_line(gate));
            Status::GateFailed
        }
    }
}

/// The ending of a single file that can be written; `None` means a folder.
fn ending(path: &Path) -> Option<&'static str> {
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    ["md", "json", "html"].into_iter().find(|known| *known == ending).filter(|_| !path.is_dir())
}

fn check(path: &Path, force: bool) -> anyhow::Result<()> {
    if ending(path).is_some() {
        return output::check_free(path, force);
    }
    // A folder may be called `v1.2`, but nobody calls one `diff.svg`.
    let asks_for_a_file =
        path.extension().is_some_and(|found| OTHER_FILES.iter().any(|other| found == *other));
    if asks_for_a_file && !path.is_dir() {
        let message = format!("cannot write {}: there is no such kind of comparison", shown(path));
        return Err(refuse(message, "name a folder, or a file that ends in .md, .json or .html"));
    }
    output::check_folder(path)?;
    FILES.iter().try_for_each(|name| output::check_free(&path.join(name), force))
}

fn write(path: &Path, answer: &DiffReport, force: bool, console: &Console) -> anyhow::Result<()> {
    let files: Vec<(PathBuf, String)> = match ending(path) {
        Some("md") => vec![(path.to_owned(), report::diff_markdown(answer, |_| None))],
        Some("json") => vec![(path.to_owned(), report::pretty(answer))],
        Some(_) => vec![(path.to_owned(), report::diff_html(answer))],
        None => {
            fs::create_dir_all(path).with_context(|| format!("cannot create folder {}", shown(path)))?;
            files(answer).into_iter().map(|(name, content)| (path.join(name), content)).collect()
        }
    };
    // All or none, as far as that can be known: only now are the pictures known by name.
    for (path, _) in &files {
        output::check_free(path, force)?;
    }
    for (path, content) in &files {
        let bytes = output::write(path, content.as_bytes(), force)?;
        console.wrote(path, bytes);
    }
    Ok(())
}

/// Names and contents of everything in the folder.
fn files(answer: &DiffReport) -> Vec<(String, String)> {
    let pictures: Vec<(u32, String)> = answer
        .devices
        .iter()
        .filter(|_| !answer.same)
        .filter_map(|device| Some((device.device, report::diff_svg(device)?)))
        .collect();
    let name = |device: u32| report::picture_name("diff", device);
    let is_drawn = |device: &DeviceDiff| pictures.iter().any(|(drawn, _)| *drawn == device.device);
    let page = report::diff_markdown(answer, |device| is_drawn(device).then(|| name(device.device)));
    let contents = [page, report::pretty(answer), report::diff_html(answer)];
    let mut files: Vec<_> = FILES.iter().map(|name| (*name).to_owned()).zip(contents).collect();
    files.extend(pictures.into_iter().map(|(device, svg)| (name(device), svg)));
    files
}
