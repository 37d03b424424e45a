//! What a row of the table of lines stands for.

use std::fmt;
use std::str::FromStr;

/// What allocations are grouped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GroupBy {
    /// File, line and function of the innermost frame of the user's own code.
    #[default]
    Line,
    /// File and function of that frame.
    Function,
    /// File of that frame.
    File,
    /// Part of the program that the file belongs to: below the directory that all user files of the trace
    /// share, the first directory, or for a file right there its name without extension. Where the recorder
    /// noted a module of the network on the allocation, that module instead.
    Module,
    /// The whole recorded stack, library and C++ frames included. Every recorded stack is a group, whether
    /// or not a frame of it is the user's.
    Stack,
}

impl GroupBy {
    /// Every way to group, in the order in which help texts list them.
    pub const ALL: [Self; 5] = [Self::Line, Self::Function, Self::File, Self::Module, Self::Stack];

    /// The word on the command line and in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Function => "function",
            Self::File => "file",
            Self::Module => "module",
            Self::Stack => "stack",
        }
    }
}

impl fmt::Display for GroupBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for GroupBy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|by| by.name() == text)
            .ok_or_else(|| format!("`{text}` is no grouping; use line, function, file, module or stack"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_grouping_is_read_back_from_its_name() {
        for by in GroupBy::ALL {
            assert_eq!(by.to_string().parse(), Ok(by));
        }
        assert!("rank".parse::<GroupBy>().unwrap_err().contains("function"));
    }
}
