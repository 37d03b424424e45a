//! Command line: arguments, console, files, exit codes.
//!
//! The only place that sees the outside: it turns arguments into plain option structs, lets the floors below
//! do the work, and puts their text where it belongs. Stdout is data, stderr is talk. Computes no figure and
//! draws nothing itself, but for the few lines of `info`, which say what a file holds.

mod args;
mod budget;
mod color;
mod commands;
mod companion;
mod console;
mod failure;
mod help;
mod input;
mod names;
mod output;
mod packing;
mod pattern;
mod progress;
mod recordings;
mod sources;
mod spool;

use std::ffi::OsString;
use std::process::ExitCode;

use console::Console;

/// How a run ended; the table is part of `--help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    /// 0: everything that was asked for is done.
    Done,
    /// 1: a gate that was asked for does not hold.
    GateFailed,
    /// 2: at least one thing could not be done; what could be done is.
    Failed,
    /// 3: the trace does not show enough to say whether a gate holds.
    Undecided,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        match status {
            Status::Done => Self::SUCCESS,
            Status::GateFailed => Self::from(1),
            Status::Failed => Self::from(2),
            Status::Undecided => Self::from(3),
        }
    }
}

/// Runs the program with the arguments of this process and says how it ended: 0 done, 1 a gate failed, 2 error, 3 a gate is
/// undecided. A reader that
/// closes the pipe early is no error.
#[must_use]
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let parsed = match args::parse(&arguments) {
        Ok(parsed) => parsed,
        Err(error) => return answer_by_clap(&error),
    };
    let console = Console::new(parsed.global.console_options());
    let status = commands::run(parsed.command, &console).unwrap_or_else(|error| {
        console.error(&error);
        Status::Failed
    });
    status.into()
}

/// Help, version and usage errors: clap writes them, to the stream that fits. A closed pipe is ignored.
fn answer_by_clap(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    if error.use_stderr() { Status::Failed.into() } else { Status::Done.into() }
}
