//! "What would help" in a report: the short form of the answer.

use super::types::{HelpRow, HelpSettingRow, WhatIfReport};
use crate::units::{Bytes, SignedBytes, percent};

impl HelpRow {
    /// The short form of `report`.
    #[must_use]
    pub fn of(report: &WhatIfReport) -> Self {
        let row = |row: &super::SettingRow| HelpSettingRow {
            conf: row.conf.clone(),
            is_recorded: row.is_recorded,
            peak_reserved_bytes: row.peak_reserved_bytes,
            saved_bytes: row.saved_bytes,
            oom_event: row.oom_event,
        };
        Self {
            exact: report.baseline.exact,
            limit_bytes: report.limit.as_ref().map(|limit| limit.bytes),
            settings: report.settings_for_people().into_iter().map(row).collect(),
            recommendation: report.recommendation.clone(),
        }
    }

    /// One sentence, when there is a setting to use.
    pub(in crate::report) fn sentence(&self) -> Option<String> {
        let conf = self.recommendation.conf.as_deref()?;
        let conf = if conf.is_empty() { "the default settings" } else { conf };
        let row =
            self.settings.iter().find(|row| row.conf == self.recommendation.conf.as_deref().unwrap_or(""))?;
        let recorded = self.settings.iter().find(|row| row.is_recorded)?;
        let what = if recorded.oom_event.is_some() {
            format!("fits, with {} reserved at the peak", Bytes(row.peak_reserved_bytes))
        } else {
            let saved = row.saved_bytes.unsigned_abs();
            format!("{} ({}) less reserved", Bytes(saved), percent(saved, recorded.peak_reserved_bytes))
        };
        Some(format!("what would help: {conf}: {what}"))
    }

    /// Header and rows of the table; the first three columns hold figures.
    pub(in crate::report) fn table(&self) -> ([&'static str; 4], Vec<Vec<String>>) {
        let rows = self.settings.iter().map(|row| {
            let failed = row.oom_event.is_some();
            let is_compared = !failed && !row.is_recorded;
            let name = if row.conf.is_empty() { "(defaults)" } else { &row.conf };
            vec![
                Bytes(row.peak_reserved_bytes).to_string(),
                if is_compared { SignedBytes(row.saved_bytes).to_string() } else { "-".to_owned() },
                row.oom_event.map_or_else(|| "yes".to_owned(), |event| format!("OOM at {event}")),
                if row.is_recorded { format!("{name}, as recorded") } else { name.to_owned() },
            ]
        });
        (["peak reserved", "saved", "fits", "setting"], rows.collect())
    }
}
