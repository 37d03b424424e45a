//! What the memory is for: live bytes by category, in every report.
//!
//! Owns shapes and names, like `types`, and how people read a category and a line of them.

use serde::{Deserialize, Serialize};

use super::escape::terminal;
use crate::units::Bytes;

/// The table of categories.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CategoryTable {
    /// `named` where a census of the recorder tells some of it, else `derived`.
    pub source: String,
    /// How they were found, in words.
    pub rule: String,
    /// Most bytes at the peak first, unknown last. Each column of live bytes adds up to the allocated bytes of
    /// its moment.
    pub rows: Vec<CategoryTableRow>,
}

/// One category.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CategoryTableRow {
    /// `parameter`, `buffer`, `gradient`, `optimizer_state`, `activation`, `input`, `temporary`, `workspace` or
    /// `unknown`.
    pub category: String,
    /// Live when allocated bytes peak.
    pub held_at_peak_bytes: u64,
    /// The part of it that a census names.
    pub named_at_peak_bytes: u64,
    /// Live at the (last) OOM; `null` without one.
    pub held_at_oom_bytes: Option<u64>,
    /// Live after the last event.
    pub live_at_end_bytes: u64,
    /// The most it ever held at one moment.
    pub own_peak_bytes: u64,
    /// How many allocations.
    pub allocations: u64,
}

impl CategoryTableRow {
    /// How people read it.
    #[must_use]
    pub fn label(&self) -> String {
        terminal(&self.category.replace('_', " ")).into_owned()
    }
}

impl CategoryTable {
    /// The largest categories at the OOM, or failing one at the peak, on one line of at most `columns`: what
    /// has no room is added up.
    #[must_use]
    pub fn sentence(&self, columns: usize) -> Option<String> {
        let is_oom = self.rows.iter().any(|row| row.held_at_oom_bytes.is_some());
        let bytes = |row: &CategoryTableRow| {
            if is_oom { row.held_at_oom_bytes.unwrap_or(0) } else { row.held_at_peak_bytes }
        };
        let mut rows: Vec<_> = self.rows.iter().filter(|row| bytes(row) > 0).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(bytes(row)));
        let head = format!("at the {}: ", if is_oom { "OOM" } else { "peak" });
        let text = |shown: usize| {
            let parts = rows[..shown].iter().map(|row| format!("{} {}", row.label(), Bytes(bytes(row))));
            let rest = rows[shown..].iter().fold(0u64, |sum, row| sum.saturating_add(bytes(row)));
            let rest = (shown < rows.len()).then(|| format!("others {}", Bytes(rest)));
            head.clone() + &parts.chain(rest).collect::<Vec<_>>().join(", ")
        };
        let fits = |shown: &usize| text(*shown).chars().count() <= columns;
        (!rows.is_empty()).then(|| text((1..=rows.len()).rev().find(fits).unwrap_or(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(category: &str, held: u64, oom: Option<u64>) -> CategoryTableRow {
        CategoryTableRow {
            category: category.to_owned(),
            held_at_peak_bytes: held << 20,
            held_at_oom_bytes: oom.map(|bytes| bytes << 20),
            ..CategoryTableRow::default()
        }
    }

    #[test]
    fn one_line_holds_the_largest_and_adds_up_the_rest() {
        let rows = vec![row("activation", 3, None), row("optimizer_state", 9, None), row("unknown", 1, None)];
        let table = CategoryTable { rows, ..CategoryTable::default() };
        let whole = "at the peak: optimizer state 9.0 MiB, activation 3.0 MiB, unknown 1.0 MiB";
        assert_eq!(table.sentence(100).as_deref(), Some(whole));
        let cut = "at the peak: optimizer state 9.0 MiB, others 4.0 MiB";
        assert_eq!(table.sentence(60).as_deref(), Some(cut));
        assert_eq!(table.sentence(5).as_deref(), Some(cut));
        assert_eq!(CategoryTable::default().sentence(100), None);
    }

    #[test]
    fn an_oom_is_what_the_reader_came_for() {
        let rows = vec![row("parameter", 3, Some(3)), row("activation", 9, Some(0))];
        let table = CategoryTable { rows, ..CategoryTable::default() };
        assert_eq!(table.sentence(100).as_deref(), Some("at the OOM: parameter 3.0 MiB"));
    }
}
