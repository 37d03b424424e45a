//! Where a file's report goes, and when.
//!
//! Owns how long reports are held. Of many files each report is written, or put aside as text, as soon as it is made;
//! what the rules over all files find is known only at the end, so the few files that this concerns are then analysed
//! once more. Few files, and what cannot be read twice, wait for the end as a whole.

use std::path::{Path, PathBuf};

use super::files;
use super::run::Work;
use crate::analysis::{self, Analysis, Kept};
use crate::cli::args::AnalyzeArgs;
use crate::cli::console::{Console, shown};
use crate::cli::failure::refuse;
use crate::cli::help;
use crate::cli::spool::{Slot, Spool};
use crate::report::html::blob::PageDevice;
use crate::report::{self, FindingRow, RanksReport, TraceReport};

/// Files up to which all reports are held.
pub(super) const FEW_FILES: usize = 8;

/// What becomes of reports in this call.
pub(super) struct Sink<'a> {
    args: &'a AnalyzeArgs,
    paths: &'a [PathBuf],
    /// Of each path; empty without `-o`.
    folders: &'a [PathBuf],
    texts: Option<Spool>,
}

/// A file that was analysed.
pub(super) struct Done {
    /// What comparisons need.
    pub(super) kept: Kept,
    pub(super) output: Output,
}

pub(super) enum Output {
    /// It waits for what all files together give.
    Waits(Box<(TraceReport, Vec<PageDevice>)>),
    /// It is where it belongs.
    Placed(Placed),
}

/// Where a report is, as far as it got there.
#[derive(Default)]
pub(super) struct Placed {
    /// Files that were written, and their bytes.
    pub(super) files: Vec<(PathBuf, u64)>,
    /// Its JSON.
    pub(super) text: Option<Slot>,
    /// Itself, where the screen shows it.
    pub(super) report: Option<Box<TraceReport>>,
    /// What could not be done.
    pub(super) error: Option<anyhow::Error>,
    events: u64,
}

impl<'a> Sink<'a> {
    pub(super) fn new(args: &'a AnalyzeArgs, paths: &'a [PathBuf], folders: &'a [PathBuf]) -> Self {
        Self { args, paths, folders, texts: args.json.then(Spool::default) }
    }

    /// Whether only rows are wanted of the files: neither `-o` nor `--json` asks for all, and they are many.
    pub(super) fn is_short(&self) -> bool {
        self.paths.len() > FEW_FILES && !self.args.json && self.args.output.is_none()
    }

    /// Takes the analysis of the file at `place` among the paths.
    pub(super) fn take(&self, place: usize, analysis: Analysis) -> Done {
        let (report, pages, kept) = analysis.parted();
        let output = if self.is_short() {
            Output::Placed(Placed::default())
        } else if self.paths.len() <= FEW_FILES || !self.paths[place].is_file() {
            Output::Waits(Box::new((report, pages)))
        } else {
            Output::Placed(self.put(place, report, &pages, self.args.force))
        };
        Done { kept, output }
    }

    /// Puts everything about a file where it belongs, with what was `found` over all files in it.
    pub(super) fn finish(
        &self,
        place: usize,
        output: Output,
        found: Vec<FindingRow>,
        work: &Work<'_>,
        console: &Console,
    ) -> Placed {
        let (mut report, pages, overwrite) = match output {
            Output::Waits(whole) => {
                let (report, pages) = *whole;
                (report, pages, self.args.force)
            }
            Output::Placed(placed) if found.is_empty() || placed.error.is_some() || self.is_short() => {
                return placed;
            }
            Output::Placed(placed) => match self.again(place, placed.events, work, console) {
                // What is replaced is this call's own.
                Ok((report, pages)) => (report, pages, true),
                Err(error) => return Placed { error: Some(error), ..placed },
            },
        };
        for found in found {
            analysis::put_finding(&mut report, found);
        }
        self.put(place, report, &pages, overwrite)
    }

    /// Analyses a file once more, just as the first time.
    fn again(
        &self,
        place: usize,
        events: u64,
        work: &Work<'_>,
        console: &Console,
    ) -> anyhow::Result<(TraceReport, Vec<PageDevice>)> {
        let path: &Path = &self.paths[place];
        let mut done = work.each(&[path.to_owned()], place, console, |_, analysis| analysis.parted())?;
        let (report, pages, _) = done.pop().expect("one path gives one result")?;
        if events != report.events {
            let message = format!("{} changed while it was analyzed", shown(path));
            return Err(refuse(message, "its report lacks what rules over all ranks found: analyze again"));
        }
        Ok((report, pages))
    }

    fn put(&self, place: usize, report: TraceReport, pages: &[PageDevice], overwrite: bool) -> Placed {
        let mut placed = Placed { events: report.events, ..Placed::default() };
        let mut put = || -> anyhow::Result<()> {
            if let Some(texts) = &self.texts {
                placed.text = Some(texts.put(&report::json_trace(&report))?);
            }
            if let Some(folder) = self.folders.get(place) {
                files::write(folder, &report, pages, &self.args.analysis, overwrite, &mut placed.files)?;
            }
            Ok(())
        };
        placed.error = put().err();
        if self.texts.is_none() && self.folders.is_empty() {
            placed.report = Some(Box::new(report));
        }
        placed
    }

    /// The document of all `texts`, in their order, with the ranks.
    pub(super) fn print(
        &self,
        texts: &[Slot],
        (ranks, jobs): (Option<&RanksReport>, &[RanksReport]),
        console: &Console,
    ) -> anyhow::Result<()> {
        let Some(spool) = &self.texts else { return Ok(()) };
        let (before, behind) = report::json_frame(help::TOOL, ranks, jobs);
        console.stream(|out| {
            out.write_all(before.as_bytes())?;
            for (place, &slot) in texts.iter().enumerate() {
                if place > 0 {
                    out.write_all(report::JSON_BETWEEN.as_bytes())?;
                }
                spool.copy(slot, out)?;
            }
            Ok(out.write_all(behind.as_bytes())?)
        })
    }
}
