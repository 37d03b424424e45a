//! STUB, dropped at merge.
use std::fmt;
use std::str::FromStr;

/// Stub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupBy {
    /// Stub.
    #[default]
    Line,
    /// Stub.
    Function,
    /// Stub.
    File,
    /// Stub.
    Module,
    /// Stub.
    Stack,
}

impl FromStr for GroupBy {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "line" => Self::Line,
            "function" => Self::Function,
            "file" => Self::File,
            "module" => Self::Module,
            "stack" => Self::Stack,
            _ => return Err(format!("no {text}")),
        })
    }
}

impl fmt::Display for GroupBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Line => "line",
            Self::Function => "function",
            Self::File => "file",
            Self::Module => "module",
            Self::Stack => "stack",
        })
    }
}
