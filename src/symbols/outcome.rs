//! How it went with a module: which file was taken, what it holds, or why none was.

use std::fmt;
use std::path::PathBuf;

/// Whether a module's file was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There is one.
    Found(Found),
    /// There is none.
    Missing(Missing),
}

/// The file that was taken for a module's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The file that answered: the binary itself or its debug file.
    pub file: PathBuf,
    /// What it holds.
    pub detail: Detail,
    /// Whether its build id was held against the recorded one. Where neither has one, the name has to do.
    pub is_checked: bool,
    /// Why its debug data could not be used, where there is some.
    pub fault: Option<String>,
}

/// What a file says about its code. Later is more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Neither debug data nor symbols.
    Nothing,
    /// A table of symbols: functions without lines.
    Symbols,
    /// Debug data: functions, inlined ones too, with files and lines.
    Lines,
}

/// Why no file was taken: the most telling reason of all files that were looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The reason.
    pub why: Why,
    /// The file it is about, if it is about one that exists.
    pub file: Option<PathBuf>,
}

/// A reason why a file was not taken for a module's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// Nowhere a file of this name.
    NoFile,
    /// The trace names no absolute path, so it says nothing about this machine.
    NotAbsolute,
    /// The trace has no build id for the module, so the file at its path may be any.
    NoBuildId,
    /// A folder, a pipe or a device.
    NotAFile,
    /// The operating system refused; its words.
    Unreadable(String),
    /// Something else.
    NotElf,
    /// An ELF file that contradicts itself; the reader's words.
    Damaged(String),
    /// The file has no build id, but the recorded module had one.
    FileWithoutBuildId,
    /// The file's build id is not the recorded one.
    OtherBuild,
}

impl Why {
    /// How much the reason tells: the nearer a file came to being taken, the more.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::NoFile => 0,
            Self::NotAbsolute => 1,
            Self::NoBuildId => 2,
            Self::NotAFile => 3,
            Self::Unreadable(_) => 4,
            Self::NotElf => 5,
            Self::Damaged(_) => 6,
            Self::FileWithoutBuildId => 7,
            Self::OtherBuild => 8,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFile => f.write_str("no such file"),
            Self::NotAbsolute => f.write_str("no absolute path"),
            Self::NoBuildId => f.write_str("no build id to compare"),
            Self::NotAFile => f.write_str("not a regular file"),
            Self::Unreadable(what) => write!(f, "not readable: {what}"),
            Self::NotElf => f.write_str("not an ELF file"),
            Self::Damaged(what) => write!(f, "damaged: {what}"),
            Self::FileWithoutBuildId => f.write_str("the file has no build id"),
            Self::OtherBuild => f.write_str("another build id"),
        }
    }
}
