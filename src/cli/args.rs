//! Arguments as typed, and the plain options that the rest of memlab gets from them.
//!
//! Only this file and those below it know clap's attributes. Nothing here looks at files or at the terminal.

mod analyze;
mod asked;
mod check;
mod diff;
mod export;
mod oom;
mod record;
mod reduce;
mod report;
mod symbols;
mod whatif;

use std::ffi::OsString;
use std::ops::Range;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::error::ErrorKind;
use clap::{
    ArgAction, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum, ValueHint,
};

use super::color::{self, ColorWhen};
use super::console::{ConsoleOptions, Talk};
use super::help;
use crate::analysis;
use crate::findings::RULES;
use crate::report::html::blob::Budget;
use crate::tables::GroupBy;

pub(crate) use analyze::AnalyzeArgs;
pub(crate) use check::CheckArgs;
pub(crate) use diff::DiffArgs;
pub(crate) use export::{ExportArgs, FormatChoice};
pub(crate) use oom::OomArgs;
pub(crate) use record::{Hook, RecordArgs};
pub(crate) use reduce::ReduceArgs;
pub(crate) use report::ReportArgs;
pub(crate) use symbols::SymbolsArgs;
pub(crate) use whatif::WhatIfArgs;

/// Everything that was typed.
#[derive(Debug, Parser)]
#[command(
    name = "memlab",
    bin_name = "memlab",
    version = help::version(),
    about = help::ABOUT,
    long_about = help::LONG_ABOUT,
    after_help = help::EXAMPLES,
    after_long_help = help::long_notes(),
    disable_help_flag = true,
    disable_version_flag = true,
    arg_required_else_help = true,
    max_term_width = 100
)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Options of every command.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// Print version
    #[arg(short = 'V', long, action = ArgAction::Version, help_heading = "Global")]
    version: Option<bool>,
}

/// Options of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global")]
pub(crate) struct GlobalArgs {
    /// When to colour
    #[arg(long, value_name = "WHEN", value_enum, default_value = "auto", global = true)]
    color: ColorWhen,
    /// Say nothing on stderr but errors
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Say what was read and how long it took
    #[arg(short, long, global = true)]
    verbose: bool,
    /// Show no progress bar
    #[arg(long, global = true)]
    no_progress: bool,
    /// Print help (`-h` is shorter)
    #[arg(short, long, action = ArgAction::Help, global = true)]
    help: Option<bool>,
}

impl GlobalArgs {
    /// What the console needs to know.
    pub(crate) fn console_options(&self) -> ConsoleOptions {
        let talk = match (self.quiet, self.verbose) {
            (true, _) => Talk::Quiet,
            (false, true) => Talk::Verbose,
            (false, false) => Talk::Normal,
        };
        ConsoleOptions { color: self.color, talk, progress: !self.no_progress }
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say which lines held the memory, where the rest went, and why it ran out
    #[command(after_help = help::ANALYZE)]
    Analyze(AnalyzeArgs),
    /// Hold a trace against limits, for continuous integration
    #[command(after_help = help::CHECK)]
    Check(CheckArgs),
    /// Turn a snapshot into a trace or a trace into a snapshot
    #[command(after_help = help::CONVERT)]
    Convert(ConvertArgs),
    /// Say what differs between two traces, snapshots or reports
    #[command(after_help = help::DIFF)]
    Diff(DiffArgs),
    /// Say what a finding means, when it is made and what to do about it
    #[command(after_help = help::EXPLAIN)]
    Explain(ExplainArgs),
    /// Write files for other tools: tables, flame graphs, profiles, counters over time
    #[command(after_help = help::EXPORT)]
    Export(ExportArgs),
    /// Say what is in a file
    #[command(after_help = help::INFO)]
    Info(InfoArgs),
    /// Print the table of lines alone
    #[command(after_help = help::LINES)]
    Lines(LinesArgs),
    /// Explain CUDA out-of-memory errors from the text of a log alone
    #[command(after_help = help::OOM)]
    Oom(OomArgs),
    /// Record what any CUDA program takes from the driver and gives back, with its stacks
    #[command(after_help = help::RECORD)]
    Record(RecordArgs),
    /// Keep a trace's report and what was live at its peaks, in a hundredth of the size
    #[command(after_help = help::REDUCE)]
    Reduce(ReduceArgs),
    /// Write the whole report as one page that a browser opens
    #[command(after_help = help::REPORT)]
    Report(ReportArgs),
    /// Record a Python program: every event of its CUDA allocator goes to a trace
    #[command(after_help = help::RUN)]
    Run(RunArgs),
    /// Print the counters of torch.cuda.memory_summary(), at the end or at any event
    #[command(after_help = help::SUMMARY)]
    Summary(SummaryArgs),
    /// Replay the requests under other allocator settings and say which one to use
    #[command(after_help = help::WHATIF)]
    Whatif(WhatIfArgs),
    /// Print the completions of a shell
    #[command(after_help = help::COMPLETIONS)]
    Completions(CompletionsArgs),
    /// Print the manual page, in roff
    #[command(after_help = help::MAN)]
    Man,
}

/// What to record. The options are the Python package's: it reads them.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Options, the script (or -m and a module) and its arguments
    #[arg(value_name = "ARGS", required = true, num_args = 1.., trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<OsString>,
}

/// How to analyze.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Analysis")]
pub(crate) struct AnalysisArgs {
    /// Only this device
    #[arg(long, value_name = "N")]
    device: Option<u32>,
    /// Keep this many lines, 0 for all [default: all, but 30 in a table on the screen]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// What a row of the table stands for
    #[arg(long, value_name = "KEY", default_value = "line", value_parser = group_by_parser())]
    group_by: GroupBy,
    /// Only what happens from this event on; events count from 0 on each device
    #[arg(long, value_name = "EVENT")]
    from: Option<u64>,
    /// Only what happens before this event
    #[arg(long, value_name = "EVENT")]
    to: Option<u64>,
    /// Only what happens in the step of this name, as the report lists it
    #[arg(long, value_name = "NAME", conflicts_with_all = ["from", "to"])]
    step: Option<String>,
}

impl AnalysisArgs {
    /// The same for the analysis. `--top 0` and no `--top` both mean every line.
    pub(crate) fn options(&self, with_pictures: bool) -> analysis::Options {
        analysis::Options {
            device: self.device,
            top: self.top.filter(|&top| top > 0),
            group_by: self.group_by,
            window: self.window(),
            step: self.step.clone(),
            with_pictures,
            several_files: false,
            page: with_pictures.then(Budget::default),
        }
    }

    /// What part of a recording is to be read; all without one.
    pub(crate) fn part(&self) -> Option<analysis::Part> {
        let events = self.window().map(analysis::Part::Events);
        events.or_else(|| self.step.clone().map(analysis::Part::Step))
    }

    /// How many lines a table on the screen shows.
    pub(crate) fn screen_top(&self) -> usize {
        const UNLESS_SAID: usize = 30;
        match self.top {
            Some(0) => usize::MAX,
            Some(top) => top,
            None => UNLESS_SAID,
        }
    }

    fn window(&self) -> Option<Range<u64>> {
        if self.from.is_none() && self.to.is_none() {
            return None;
        }
        Some(self.from.unwrap_or(0)..self.to.unwrap_or(u64::MAX))
    }

    fn check(&self) -> Result<(), String> {
        match self.window() {
            Some(window) if window.is_empty() => {
                Err(format!("--from {} leaves nothing before --to {}", window.start, window.end))
            }
            _ => Ok(()),
        }
    }
}

fn group_by_parser() -> impl clap::builder::TypedValueParser<Value = GroupBy> {
    PossibleValuesParser::new(["line", "function", "file", "module", "stack"])
        .try_map(|key| key.parse::<GroupBy>())
}

/// `memlab convert`.
#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// Snapshot or trace; `-` is standard input
    #[arg(value_name = "IN", value_hint = ValueHint::FilePath, help_heading = "Input")]
    pub input: PathBuf,
    /// `.msgpack` gives a trace; `.pickle`, `.pickle.gz` or `.pickle.zst` gives a snapshot
    #[arg(value_name = "OUT", value_hint = ValueHint::FilePath, help_heading = "Output", display_order = 0)]
    pub output: PathBuf,
    /// Compression inside a trace [default: zstd]
    #[arg(long, value_name = "CODEC", value_enum, help_heading = "Output", display_order = 1)]
    pub codec: Option<CodecChoice>,
    /// Put the allocator's state into a trace every N events, so that --from, --to and --step need not read what is
    /// before them; 0 for never [default: 1000000 from 2000000 events on]
    #[arg(long, value_name = "N", help_heading = "Output", display_order = 2)]
    pub state_every: Option<usize>,
    /// Replace OUT if it exists
    #[arg(short, long, help_heading = "Output", display_order = 3)]
    pub force: bool,
}

/// Value of `--codec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CodecChoice {
    /// Smallest and fastest.
    Zstd,
    /// For readers without zstd.
    Zlib,
    /// Not compressed.
    None,
}

/// `memlab explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Name of the rule [default: a list of all]
    #[arg(value_name = "RULE", hide_possible_values = true, help_heading = "Input",
        value_parser = PossibleValuesParser::new(RULES.map(|rule| rule.name)))]
    pub rule: Option<String>,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// `memlab info`.
#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    /// Snapshots or traces, plain, gzip or zstd; `-` is standard input
    #[arg(value_name = "TRACE", required = true, value_hint = ValueHint::FilePath, help_heading = "Input")]
    pub traces: Vec<PathBuf>,
    /// Read and decode everything, as `analyze` does, and say whether it is whole
    #[arg(long, help_heading = "Input")]
    pub verify: bool,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// `memlab lines`.
#[derive(Debug, Args)]
pub(crate) struct LinesArgs {
    /// Snapshot or trace, plain, gzip or zstd; `-` is standard input
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath, help_heading = "Input")]
    pub trace: PathBuf,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Print comma-separated values
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    pub csv: bool,
    /// How to analyze.
    #[command(flatten)]
    pub analysis: AnalysisArgs,
}

/// `memlab summary`.
#[derive(Debug, Args)]
pub(crate) struct SummaryArgs {
    /// Snapshot or trace, plain, gzip or zstd; `-` is standard input
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath, help_heading = "Input")]
    pub trace: PathBuf,
    /// Print JSON with the keys of torch.cuda.memory_stats()
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Only this device
    #[arg(long, value_name = "N", help_heading = "Analysis")]
    pub device: Option<u32>,
    /// As it was after this event; events count from 0 on each device [default: the end]
    #[arg(long, value_name = "EVENT", help_heading = "Analysis")]
    pub at: Option<u64>,
}

/// `memlab completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Which shell
    #[arg(value_name = "SHELL", value_enum, help_heading = "Input")]
    pub shell: clap_complete::Shell,
}

/// The command line as clap sees it, for parsing, completions and the manual page.
pub(crate) fn command() -> clap::Command {
    Arguments::command()
}

/// Parses what was typed. The error also stands for `--help` and `--version`.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Arguments, clap::Error> {
    let choice = color::for_clap(color::peek(arguments), color::Environment::read());
    let mut command = command().color(choice);
    let matches = command.try_get_matches_from_mut(arguments)?;
    let parsed = Arguments::from_arg_matches(&matches)?;
    match check(&parsed) {
        Ok(()) => Ok(parsed),
        Err(message) => Err(command.error(ErrorKind::ArgumentConflict, message)),
    }
}

/// What clap cannot see: values that contradict each other, and global options on both sides of the command.
fn check(parsed: &Arguments) -> Result<(), String> {
    if parsed.global.quiet && parsed.global.verbose {
        return Err("--quiet and --verbose exclude each other".to_owned());
    }
    match &parsed.command {
        Command::Analyze(args) => args.analysis.check(),
        Command::Lines(args) => args.analysis.check(),
        Command::Report(args) => args.analysis.check(),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Arguments, clap::Error> {
        parse(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    fn analysis_of(words: &[&str]) -> AnalysisArgs {
        match parsed(words).unwrap().command {
            Command::Analyze(args) => args.analysis,
            other => panic!("not analyze: {other:?}"),
        }
    }

    #[test]
    fn the_definitions_are_consistent() {
        command().debug_assert();
    }

    #[test]
    fn a_half_open_window_reaches_to_the_end() {
        let from = analysis_of(&["memlab", "analyze", "x", "--from", "5"]).options(false);
        assert_eq!(from.window, Some(5..u64::MAX));
        let to = analysis_of(&["memlab", "analyze", "x", "--to", "5"]).options(false);
        assert_eq!(to.window, Some(0..5));
        assert_eq!(analysis_of(&["memlab", "analyze", "x"]).options(false).window, None);
    }

    #[test]
    fn an_empty_window_is_a_usage_error() {
        let error = parsed(&["memlab", "lines", "x", "--from", "5", "--to", "5"]).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("--from 5 leaves nothing"));
    }

    #[test]
    fn top_zero_means_all() {
        let none = analysis_of(&["memlab", "analyze", "x"]);
        assert_eq!((none.options(false).top, none.screen_top()), (None, 30));
        let all = analysis_of(&["memlab", "analyze", "x", "--top", "0"]);
        assert_eq!((all.options(false).top, all.screen_top()), (None, usize::MAX));
        let five = analysis_of(&["memlab", "analyze", "x", "--top", "5"]);
        assert_eq!((five.options(false).top, five.screen_top()), (Some(5), 5));
    }

    #[test]
    fn only_what_is_no_default_is_typed_again() {
        let words = ["memlab", "analyze", "x", "--group-by", "file", "--to", "9"];
        assert_eq!(analysis_of(&words).typed(), ["--group-by file", "--to 9"]);
        assert_eq!(analysis_of(&["memlab", "analyze", "x"]).typed(), Vec::<String>::new());
    }

    #[test]
    fn what_follows_run_is_left_alone() {
        let words = ["memlab", "run", "-o", "x.msgpack", "-m", "pkg", "--top", "5", "-q"];
        match parsed(&words).unwrap().command {
            Command::Run(args) => assert_eq!(args.words, words[2..]),
            other => panic!("not run: {other:?}"),
        }
    }

    #[test]
    fn quiet_and_verbose_exclude_each_other() {
        assert!(parsed(&["memlab", "-q", "info", "x", "-v"]).is_err());
        let quiet = parsed(&["memlab", "info", "x", "-q"]).unwrap();
        assert_eq!(quiet.global.console_options().talk, Talk::Quiet);
    }
}
