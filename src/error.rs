//! Why a file could not be read or a result not be written.
//!
//! Owns the error type of the library: by cause, with the place (byte offset, event) as fields. Texts are
//! lowercase fragments that fit behind "failed to read PATH: "; the path itself is added by whoever knows
//! it. Faults *inside* a readable trace are no errors: they are `model::Warning`s.

use std::fmt;
use std::io;

/// What went wrong, by cause.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Neither a trace, nor a snapshot, nor anything that unpacks to one.
    #[error("not a memlab trace and not a PyTorch snapshot: {what}")]
    UnknownFormat {
        /// What the first bytes looked like.
        what: String,
    },
    /// A trace written by a newer memlab.
    #[error("trace format {found} is newer than this memlab, which reads up to {supported}")]
    UnsupportedVersion {
        /// Major version in the file.
        found: u64,
        /// Newest major version that can be read.
        supported: u64,
    },
    /// The bytes contradict their own format.
    #[error("{what} at byte {offset}")]
    Corrupt {
        /// Offset in the unpacked file, in bytes.
        offset: u64,
        /// What was expected or found.
        what: String,
    },
    /// The file asks for code to be run. It is refused by name, nothing is executed.
    #[error("refused pickle opcode {opcode} ({argument}) at byte {offset}")]
    Refused {
        /// Name of the opcode, as in Python's `pickletools`.
        opcode: &'static str,
        /// What it would have called, or an empty text.
        argument: String,
        /// Offset in the unpacked file, in bytes.
        offset: u64,
    },
    /// A budget against hostile input ran out.
    #[error("{what}: {value} is over the limit of {limit}, at byte {offset}")]
    LimitExceeded {
        /// What was counted.
        what: &'static str,
        /// What the file asked for.
        value: u64,
        /// What memlab allows.
        limit: u64,
        /// Offset in the unpacked file, in bytes.
        offset: u64,
    },
    /// The file reads well but is no snapshot: a key is absent or has the wrong shape.
    #[error("{what}")]
    Shape {
        /// What is missing or wrong.
        what: String,
    },
    /// A table could not be built or written.
    #[error("table {table}: {what}")]
    Table {
        /// Name of the table.
        table: &'static str,
        /// The table engine's words.
        what: String,
    },
}

impl Error {
    /// Shorthand for [`Error::Corrupt`].
    pub fn corrupt(offset: usize, what: impl fmt::Display) -> Self {
        Self::Corrupt { offset: offset as u64, what: what.to_string() }
    }

    /// What the reader may try, where we know it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::UnknownFormat { .. } => Some(
                "memlab reads trace.msgpack (from its emitter or `memlab convert`) and snapshot.pickle (from torch.cuda.memory._dump_snapshot), plain, gzip or zstd",
            ),
            Self::UnsupportedVersion { .. } => Some("install a newer memlab"),
            Self::Refused { .. } => Some(
                "a PyTorch memory snapshot holds plain data only; this file is something else, or was tampered with",
            ),
            _ => None,
        }
    }
}

/// Result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
