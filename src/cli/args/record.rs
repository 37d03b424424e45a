//! Arguments of `memlab record`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// What to record.
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// Where to write; `{rank}`, `{local_rank}` and `{pid}` are replaced
    #[arg(short, long, value_name = "FILE", default_value = "memlab-driver-{rank}.msgpack")]
    pub output: PathBuf,
    /// How calls are seen
    #[arg(long, value_name = "HOOK", value_enum, default_value = "auto")]
    pub hook: Hook,
    /// Which stacks are taken at every call
    #[arg(long, value_name = "WHICH", value_enum, default_value = "all")]
    pub stacks: Stacks,
    /// The program and its arguments
    #[arg(value_name = "COMMAND", required = true, num_args = 1.., trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

/// How calls are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Hook {
    /// By CUPTI, or if that cannot be used by interposed functions
    Auto,
    /// By CUPTI alone: nothing is preloaded
    Cupti,
    /// By interposed functions alone
    Preload,
}

impl Hook {
    /// Its name in the environment.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Cupti => "cupti",
            Self::Preload => "preload",
        }
    }
}

/// Which stacks are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stacks {
    /// Native ones, and Python's where there is an interpreter
    All,
    /// Native ones alone
    Native,
    /// Python's alone
    Python,
    /// None: cheapest
    None,
}

impl Stacks {
    /// Its name in the environment.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Native => "native",
            Self::Python => "python",
            Self::None => "none",
        }
    }
}
