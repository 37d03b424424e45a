//! What each line of code holds. Shapes only, as all of `types`; a line knows its name.

use serde::{Deserialize, Serialize};

/// Figures of a line or of the remainder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineFigures {
    /// Bytes live when allocated bytes peak.
    pub held_at_peak_bytes: u64,
    /// The most these allocations ever held at one time.
    pub own_peak_bytes: u64,
    /// The part of `held_at_peak_bytes` that was attributed by inference.
    pub inferred_bytes: u64,
    /// Bytes of all allocations together.
    pub total_bytes: u64,
    /// Number of allocations.
    pub allocations: u64,
    /// Bytes live after the last event.
    pub live_at_end_bytes: u64,
}

/// One row of the line table. For `--group-by` other than `line` the fields that do not apply are `null`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LineRow {
    /// File as recorded.
    pub file: Option<String>,
    /// Line number.
    pub line: Option<u64>,
    /// Function.
    pub function: Option<String>,
    /// For `--group-by module`: the network's module where the recorder named it, else the top-level package or
    /// file stem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Whole stack, innermost first, for `--group-by stack`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<Vec<String>>,
    /// The highest total of active bytes while this line is on the stack.
    pub active_peak_on_stack_bytes: u64,
    /// The other figures.
    #[serde(flatten)]
    pub figures: LineFigures,
    /// The text around the line, where it was asked for and the file was at hand; only pages show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceRow>,
}

/// Source text around a line of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRow {
    /// Where it was found, below the folder that was named.
    pub file: String,
    /// Number of the first line of `text`.
    pub first: u64,
    /// Consecutive lines of the file, without their ends.
    pub text: Vec<String>,
}

impl LineRow {
    /// How people read the row: `train.py:100 step`, a file, a module, or the innermost frame of a stack.
    #[must_use]
    pub fn label(&self) -> String {
        if let Some(module) = &self.module {
            return module.clone();
        }
        if let Some(frame) = self.stack.as_ref().and_then(|stack| stack.first()) {
            return frame.clone();
        }
        let file = self.file.as_deref().unwrap_or("");
        match (self.line, &self.function) {
            (Some(line), Some(function)) => format!("{file}:{line} {function}"),
            (Some(line), None) => format!("{file}:{line}"),
            (None, Some(function)) => format!("{file} {function}"),
            (None, None) => file.to_owned(),
        }
    }
}
