//! The order of the work: inputs found, outputs checked, files analysed, results put where they belong.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context as _;

use super::sink::{Done, Placed, Sink};
use super::{files, ranks};
use crate::analysis::{self, Analysis, Compared, Kept, Options};
use crate::cli::args::AnalyzeArgs;
use crate::cli::budget::Budget;
use crate::cli::console::Console;
use crate::cli::input::{self, Input, Packed};
use crate::cli::{Status, names, recordings};
use crate::report::{self, FindingRow, RanksReport, Style, TraceReport};
use crate::symbols::Place;

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
        ranks::check(folder, &paths, args.force)?;
    }
    let mut options = args.analysis.options(args.output.is_some());
    options.several_files = paths.len() > 1;
    let work = Work { args, options, named, symbols: args.symbols.places()? };
    let sink = Sink::new(args, &paths, &folders);
    let (done, mut status) = analyzed(&work, &sink, &paths, console)?;
    let failed = without(&paths, &done);
    let (mut kept, mut outputs) = (Vec::new(), Vec::new());
    for (place, done) in done {
        kept.push(done.kept);
        outputs.push((place, done.output));
    }
    let read: Vec<String> = kept.iter().map(|kept: &Kept| kept.path().to_owned()).collect();
    let Compared { found, ranks, jobs } = analysis::compared(kept, &failed);
    let mut found = by_file(found);
    let mut placed = Vec::with_capacity(outputs.len());
    for (at, (place, output)) in outputs.into_iter().enumerate() {
        placed.push(sink.finish(place, output, found.remove(&at).unwrap_or_default(), &work, console));
    }
    for error in told(&placed, console) {
        console.error(error);
        status = Status::Failed;
    }
    if !sink.is_short() && (paths != args.traces || args.rank_from.is_some()) {
        say_what_is_no_job(ranks.as_ref(), console);
    }
    let whole = ranks.as_ref().filter(|ranks| ranks.is_one_job);
    if let Some(folder) = &args.output
        && let Err(error) = ranks::write(folder, whole.into_iter().chain(&jobs), args.force, console)
    {
        console.error(&error);
        status = Status::Failed;
    }
    match (args.json, args.output.is_some()) {
        _ if read.is_empty() => {}
        (true, _) => {
            let texts: Vec<_> = placed.iter().filter_map(|placed| placed.text).collect();
            sink.print(&texts, (whole, &jobs), console)?;
        }
        (false, true) => {}
        (false, false) if sink.is_short() => {
            console.print(&short(&read, jobs.iter().chain(&ranks), console.style()))?;
        }
        (false, false) => {
            let traces = placed.iter().filter_map(|placed| placed.report.as_deref());
            console.print(&screen(traces, jobs.iter().chain(whole), console.style()))?;
        }
    }
    Ok(status)
}

/// What is done with each file.
pub(super) struct Work<'a> {
    args: &'a AnalyzeArgs,
    options: Options,
    /// The ranks that `--rank-from` found.
    named: Option<Vec<u64>>,
    /// Where binaries of machine code may be looked at.
    symbols: Vec<Place>,
}

impl Work<'_> {
    /// Analyses each of `paths`, the first of which has the place `first` among all, and has `take` do with it what is to
    /// be done, told its place.
    ///
    /// # Errors
    /// Only when standard input is asked for and cannot be used.
    pub(super) fn each<T: Send>(
        &self,
        paths: &[PathBuf],
        first: usize,
        console: &Console,
        take: impl Fn(usize, Analysis) -> T + Sync,
    ) -> anyhow::Result<Vec<anyhow::Result<T>>> {
        let budget = Budget::new(self.args.memory_budget.map(|bytes| bytes.0));
        let whole = |at: usize, mut input: Input| {
            analysis::name_machine_code(&mut input.trace, &self.symbols);
            let analysis = self.analyze(first + at, &input)?;
            // The events are no longer needed where the report is drawn.
            drop(input);
            Ok(take(first + at, analysis))
        };
        let in_pieces =
            |at: usize, packed: Packed<'_>| Ok(take(first + at, self.analyze_packed(first + at, packed)?));
        // A part of the events is read as a part, or needs them all.
        let may_be_pieces = !self.options.is_of_a_part();
        let (in_pieces, rounds) = (may_be_pieces.then_some(&in_pieces as _), analysis::rounds(&self.options));
        let part = self.args.analysis.part();
        input::within(paths, part.as_ref(), &budget, console, whole, in_pieces, rounds)
    }

    /// Analyses the file at `place` among the paths.
    fn analyze(&self, place: usize, input: &Input) -> anyhow::Result<Analysis> {
        self.refusing(place, input).with_context(|| format!("failed to analyze {}", input.label))
    }

    fn refusing(&self, place: usize, input: &Input) -> anyhow::Result<Analysis> {
        if let Some(option) = self.args.analysis.needs_events() {
            input::require_events(&input.trace, option)?;
        }
        input::require_device(&input.trace, self.options.device)?;
        input::require_window(&input.trace, &self.options)?;
        let analysis = analysis::analyze_file(&input.label, &input.trace, &self.options)?;
        Ok(self.named(place, analysis))
    }

    /// As [`Work::analyze`], in pieces.
    fn analyze_packed(&self, place: usize, packed: Packed<'_>) -> anyhow::Result<Analysis> {
        let Packed { label, mut recording, room } = packed;
        recording.add(|trace| analysis::name_machine_code(trace, &self.symbols));
        let refusing = || {
            input::require_device(recording.trace(), self.options.device)?;
            Ok(analysis::analyze_recording(&label, recording, &self.options, room)?)
        };
        let analysis: anyhow::Result<Analysis> = refusing();
        Ok(self.named(place, analysis.with_context(|| format!("failed to analyze {label}"))?))
    }

    fn named(&self, place: usize, mut analysis: Analysis) -> Analysis {
        if let Some(rank) = self.named.as_ref().and_then(|named| named.get(place)) {
            analysis.name_rank(*rank);
        }
        analysis
    }
}

/// What could be analysed, with its place among the paths.
fn analyzed(
    work: &Work<'_>,
    sink: &Sink<'_>,
    paths: &[PathBuf],
    console: &Console,
) -> anyhow::Result<(Vec<(usize, Done)>, Status)> {
    let results = work.each(paths, 0, console, |place, analysis| sink.take(place, analysis))?;
    Ok(input::keep_good(results, console))
}

/// The paths that are not among those `done`.
fn without(paths: &[PathBuf], done: &[(usize, Done)]) -> Vec<String> {
    let mut done = done.iter().map(|(place, _)| *place).peekable();
    let is_missing = |place: usize| done.next_if_eq(&place).is_none();
    let missing: Vec<bool> = (0..paths.len()).map(is_missing).collect();
    paths
        .iter()
        .zip(missing)
        .filter(|(_, missing)| *missing)
        .map(|(path, _)| path.display().to_string())
        .collect()
}

fn by_file(found: Vec<(usize, FindingRow)>) -> BTreeMap<usize, Vec<FindingRow>> {
    let mut files = BTreeMap::<usize, Vec<FindingRow>>::new();
    for (file, finding) in found {
        files.entry(file).or_default().push(finding);
    }
    files
}

/// Says which files were written; what could not be done.
fn told<'a>(placed: &'a [Placed], console: &Console) -> Vec<&'a anyhow::Error> {
    for (path, bytes) in placed.iter().flat_map(|placed| &placed.files) {
        console.wrote(path, *bytes);
    }
    placed.iter().filter_map(|placed| placed.error.as_ref()).collect()
}

/// Whoever names a folder, a pattern or where the rank stands means jobs.
fn say_what_is_no_job(ranks: Option<&RanksReport>, console: &Console) {
    if let Some(ranks) = ranks.filter(|ranks| !ranks.is_one_job) {
        ranks.notes.iter().take(1).for_each(|note| console.warning("no table of ranks", note, 1));
    }
}

/// The ranks of each job, then summaries one below the other.
fn screen<'a>(
    traces: impl Iterator<Item = &'a TraceReport>,
    jobs: impl Iterator<Item = &'a RanksReport>,
    style: Style,
) -> String {
    let ranks = jobs.map(|job| report::ranks_text(job, style));
    ranks.chain(traces.map(|trace| report::text_summary(trace, style))).collect::<Vec<_>>().join("\n")
}

/// The ranks alone. Of a single file that could be read there are none: its own summary is gone, too, so say where it
/// is to be had.
fn short<'a>(read: &[String], ranks: impl Iterator<Item = &'a RanksReport>, style: Style) -> String {
    let texts: Vec<String> = ranks.map(|ranks| report::ranks_text(ranks, style)).collect();
    if !texts.is_empty() {
        return texts.join("\n");
    }
    let paths: Vec<String> =
        read.iter().map(|path| names::shell_word(&report::escape::terminal(path))).collect();
    format!("next: memlab analyze {}\n", paths.join(" "))
}
