//! One file per command: takes its arguments, lets the floors below work, puts the text where it belongs.

mod analyze;
mod check;
mod convert;
mod diff;
mod explain;
mod export;
mod generate;
mod info;
mod lines;
mod oom;
mod record;
mod reduce;
mod report;
mod run;
mod summary;
mod whatif;

use super::args::{AnalysisArgs, Command};
use super::console::Console;
use super::{Status, names};

/// Runs `command`. Errors are what stopped it; failures that left something to show are in the status.
pub(crate) fn run(command: Command, console: &Console) -> anyhow::Result<Status> {
    match command {
        Command::Analyze(args) => analyze::run(&args, console),
        Command::Check(args) => check::run(&args, console),
        Command::Convert(args) => convert::run(&args, console),
        Command::Diff(args) => diff::run(&args, console),
        Command::Explain(args) => explain::run(&args, console),
        Command::Export(args) => export::run(&args, console),
        Command::Info(args) => info::run(&args, console),
        Command::Lines(args) => lines::run(&args, console),
        Command::Oom(args) => oom::run(&args, console),
        Command::Record(args) => record::run(&args, console),
        Command::Reduce(args) => reduce::run(&args, console),
        Command::Report(args) => report::run(&args, console),
        Command::Run(args) => run::run(&args),
        Command::Summary(args) => summary::run(&args, console),
        Command::Whatif(args) => whatif::run(&args, console),
        Command::Completions(args) => generate::completions(args.shell, console),
        Command::Man => generate::manual(console),
    }
}

/// `command` on `path` with the options of `analysis` that are not at their defaults, as it would be typed.
fn command_line(command: &str, path: &str, analysis: &AnalysisArgs) -> String {
    let words = [command.to_owned(), names::shell_word(path)];
    words.into_iter().chain(analysis.typed()).collect::<Vec<_>>().join(" ")
}
