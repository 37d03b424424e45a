//! One row per category.

use polars::prelude::DataFrame;

use crate::error::Result;
use crate::tables::CategoryFigures;

use super::parts::{FrameSource, counts, known_counts, texts};
use super::schema::TableSchema;
use super::schema::columns::{DEVICE, bytes, bytes_or_null, count, text};

/// The table's schema.
pub const CATEGORIES: TableSchema = TableSchema {
    name: "categories",
    meaning: "What memory is for, most bytes held at the peak first and what nothing tells last. Each column of live \
              bytes adds up to the allocated bytes of its moment",
    columns: &[
        DEVICE,
        text("category", "as in `allocations`"),
        bytes("held_at_peak_bytes", "live when allocated bytes peak"),
        bytes("named_at_peak_bytes", "the part of it that a census of the recorder names"),
        bytes_or_null("held_at_oom_bytes", "live at the last failed request; null when none failed"),
        bytes("live_at_end_bytes", "live after the last event"),
        bytes("own_peak_bytes", "the most it ever held at one moment"),
        count("allocations", "how many there were"),
    ],
};

/// The table of [`CATEGORIES`].
///
/// # Errors
/// When the table engine refuses the table, which would be a fault of memlab.
pub fn categories_frame(source: &FrameSource<'_>, rows: &[CategoryFigures]) -> Result<DataFrame> {
    CATEGORIES.frame(vec![
        source.device_column(rows.len()),
        texts("category", rows, |row| row.category.name()),
        counts("held_at_peak_bytes", rows, |row| row.held_at_peak_bytes),
        counts("named_at_peak_bytes", rows, |row| row.named_at_peak_bytes),
        known_counts("held_at_oom_bytes", rows, |row| row.held_at_oom_bytes),
        counts("live_at_end_bytes", rows, |row| row.live_at_end_bytes),
        counts("own_peak_bytes", rows, |row| row.own_peak_bytes),
        counts("allocations", rows, |row| row.allocations),
    ])
}
