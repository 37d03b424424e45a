//! The console: the one owner of stdout and stderr.
//!
//! Stdout carries data that one could pipe, stderr everything else. Writing to a terminal that has gone away
//! must never panic, so nothing here uses `println!`: a reader that closes the pipe early has seen what it
//! wanted and is no error, and talk that cannot be delivered is dropped.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;

use anstyle::{AnsiColor, Style};
use anyhow::Context as _;

use super::color::{self, ColorWhen};
use super::failure;
use super::progress::Progress;
use crate::error::Error;
use crate::report::Style as TextStyle;
use crate::report::escape::terminal;
use crate::units::{Bytes, Count};

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default().bold();

/// What the user said about the console.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ConsoleOptions {
    /// `--color`.
    pub color: ColorWhen,
    /// How much to tell on stderr.
    pub talk: Talk,
    /// Whether a progress bar is wanted at all.
    pub progress: bool,
}

/// How much to tell on stderr.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Talk {
    /// Errors.
    Quiet,
    /// Also warnings and the files written.
    #[default]
    Normal,
    /// Also what was read and how long it took.
    Verbose,
}

/// Both output streams with what the user wants of them.
#[derive(Debug)]
pub(crate) struct Console {
    color_out: bool,
    color_err: bool,
    talk: Talk,
    progress: bool,
}

impl Console {
    /// A console for this process.
    pub(crate) fn new(options: ConsoleOptions) -> Self {
        let environment = color::Environment::read();
        let is_terminal = io::stderr().is_terminal();
        Self {
            color_out: color::decide(options.color, environment, io::stdout().is_terminal()),
            color_err: color::decide(options.color, environment, is_terminal),
            talk: options.talk,
            progress: options.progress && is_terminal && options.talk > Talk::Quiet,
        }
    }

    /// Whether only errors are said.
    pub(crate) fn is_quiet(&self) -> bool {
        self.talk == Talk::Quiet
    }

    /// How data for people is to look.
    pub(crate) fn style(&self) -> TextStyle {
        TextStyle { colour: self.color_out }
    }

    /// How many columns text for people may take.
    #[expect(clippy::unused_self, reason = "whoever has no console has no width")]
    pub(crate) fn width(&self) -> usize {
        const MOST: usize = 100;
        const LEAST: usize = 40;
        let terminal = terminal_size::terminal_size_of(io::stdout());
        terminal.map_or(MOST, |(width, _)| usize::from(width.0).clamp(LEAST, MOST))
    }

    /// Writes data to stdout.
    #[expect(clippy::unused_self, reason = "whoever has no console has no stdout")]
    pub(crate) fn print(&self, data: &str) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        match out.write_all(data.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(error).context("failed to write to standard output")
            }
            _ => Ok(()),
        }
    }

    /// Lets `write` put data on stdout bit by bit.
    #[expect(clippy::unused_self, reason = "whoever has no console has no stdout")]
    pub(crate) fn stream(
        &self,
        write: impl FnOnce(&mut dyn io::Write) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
        match write(&mut out).and_then(|()| Ok(out.flush()?)) {
            Err(error) if !is_closed_pipe(&error) => Err(error).context("failed to write to standard output"),
            _ => Ok(()),
        }
    }

    /// Says that a file was written.
    pub(crate) fn wrote(&self, path: &Path, bytes: u64) {
        self.say(Talk::Normal, &format!("Wrote {} ({})", terminal(&shown(path)), Bytes(bytes)));
    }

    /// Says something only the curious want.
    pub(crate) fn detail(&self, text: &str) {
        self.say(Talk::Verbose, &terminal(text));
    }

    /// Warns about a fault in `subject` that was met `count` times.
    pub(crate) fn warning(&self, subject: &str, text: &str, count: u64) {
        let times = if count > 1 { format!(" ({} times)", Count(count)) } else { String::new() };
        let text = terminal(text);
        let line = format!("{}: {}: {text}{times}", self.label("warning", WARNING), terminal(subject));
        self.say(Talk::Normal, &line);
    }

    /// Says in one line that a gate does not hold, or cannot be decided.
    pub(crate) fn gate(&self, word: &str, line: &str) {
        self.say(Talk::Quiet, &format!("{} {}", self.label(word, ERROR), terminal(line)));
    }

    /// Shows an error with its causes and its hint.
    pub(crate) fn error(&self, error: &anyhow::Error) {
        let description = failure::describe(error);
        let title = terminal(&description.title);
        self.say(Talk::Quiet, &format!("{}: {title}", self.label("error", ERROR)));
        for cause in &description.causes {
            self.say(Talk::Quiet, &format!("  cause: {}", terminal(cause)));
        }
        if let Some(hint) = &description.hint {
            self.say(Talk::Quiet, &format!("{}: {}", self.label("hint", HINT), terminal(hint)));
        }
    }

    /// A progress display for `files` inputs; shows itself only on a terminal and only for long work.
    pub(crate) fn progress(&self) -> Progress {
        Progress::start(self.progress)
    }

    fn say(&self, needed: Talk, line: &str) {
        if self.talk >= needed {
            let _ = writeln!(io::stderr().lock(), "{line}");
        }
    }

    fn label(&self, word: &str, style: Style) -> String {
        if self.color_err { format!("{style}{word}{style:#}") } else { word.to_owned() }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let kind = |cause: &(dyn std::error::Error + 'static)| match cause.downcast_ref::<Error>() {
        Some(Error::Io(error)) => Some(error.kind()),
        _ => cause.downcast_ref::<io::Error>().map(io::Error::kind),
    };
    error.chain().any(|cause| kind(cause) == Some(io::ErrorKind::BrokenPipe))
}

/// A path as people know it: `-` is standard input.
pub(crate) fn shown(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}
