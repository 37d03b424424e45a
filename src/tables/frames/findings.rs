//! One row per finding.

use polars::prelude::{Column, DataFrame};

use crate::error::Result;

use super::parts::{FrameSource, counts, known_counts, texts};
use super::schema::TableSchema;
use super::schema::columns::{DEVICE, bytes, bytes_or_null, count_or_null, number, text, text_or_null};

/// The table's schema.
pub const FINDINGS: TableSchema = TableSchema {
    name: "findings",
    meaning: "Every rule that fired on this device, gravest first, as `memlab analyze` finds them in this file alone",
    columns: &[
        DEVICE,
        number("finding", "number of the finding, from 0"),
        text("rule", "name of the rule: `memlab explain` and the pages of the findings say more"),
        text("severity", "`error`, `warning` or `info`"),
        text("title", "what was found, in one sentence"),
        bytes("bytes", "bytes concerned"),
        text_or_null("file", "file of the line with most of them; null when it names no line"),
        count_or_null("line", "its number; null when not known"),
        text_or_null("function", "its function"),
        bytes_or_null("line_bytes", "bytes of that line"),
        text("lines", "all lines that it names, most bytes first, as a JSON array"),
        text("evidence", "the figures that prove it, as a JSON object"),
        text("remedy", "what to do, in sentences"),
    ],
};

/// A finding in plain texts and figures.
#[derive(Clone, Debug, Default)]
pub struct FindingEntry {
    /// Name of the rule.
    pub rule: &'static str,
    /// `error`, `warning` or `info`.
    pub severity: &'static str,
    /// One sentence.
    pub title: String,
    /// Bytes concerned.
    pub bytes: u64,
    /// File, line (where known), function and bytes of the line with most of them.
    pub first_line: Option<(String, Option<u64>, String, u64)>,
    /// All lines as JSON.
    pub lines: String,
    /// Figures as JSON.
    pub evidence: String,
    /// What to do.
    pub remedy: String,
}

/// The table of [`FINDINGS`].
///
/// # Errors
/// When the table engine refuses the table, which would be a fault of memlab.
pub fn findings_frame(source: &FrameSource<'_>, rows: &[FindingEntry]) -> Result<DataFrame> {
    let lines: Vec<_> = rows.iter().map(|row| row.first_line.as_ref()).collect();
    let files: Vec<_> = lines.iter().map(|line| line.map(|(file, ..)| file.as_str())).collect();
    let functions: Vec<_> =
        lines.iter().map(|line| line.map(|(_, _, function, _)| function.as_str())).collect();
    FINDINGS.frame(vec![
        source.device_column(rows.len()),
        Column::new("finding".into(), (0..rows.len() as u32).collect::<Vec<_>>()),
        texts("rule", rows, |row| row.rule),
        texts("severity", rows, |row| row.severity),
        texts("title", rows, |row| &row.title),
        counts("bytes", rows, |row| row.bytes),
        Column::new("file".into(), files),
        known_counts("line", &lines, |line| line.and_then(|(_, number, ..)| *number)),
        Column::new("function".into(), functions),
        known_counts("line_bytes", &lines, |line| line.map(|(.., bytes)| *bytes)),
        texts("lines", rows, |row| &row.lines),
        texts("evidence", rows, |row| &row.evidence),
        texts("remedy", rows, |row| &row.remedy),
    ])
}
