//! The answer of `memlab whatif`: plain data and its renderers. The picture is in `report::svg`.

mod help;
mod markdown;
mod table;
mod text;
mod types;

pub use markdown::whatif_markdown;
pub use text::whatif_text;
pub use types::{
    BaselineRow, BoundsRow, ChangedLineRow, HelpRow, HelpSettingRow, LimitRow, RecommendationRow, SettingRow,
    WhatIfReport,
};

impl WhatIfReport {
    /// Peak of the recorded settings' replay: what savings are measured against.
    pub(super) fn recorded_peak_bytes(&self) -> u64 {
        let recorded = self.settings.iter().find(|row| row.is_recorded);
        recorded.map_or(self.baseline.replayed_peak_reserved_bytes, |row| row.peak_reserved_bytes)
    }

    /// Rows as people want them: the recorded settings first, then what fits, by peak; failures last.
    pub(super) fn settings_for_people(&self) -> Vec<&SettingRow> {
        let mut rows: Vec<_> = self.settings.iter().collect();
        rows.sort_by_key(|row| {
            (!row.is_recorded, row.is_bound, row.oom_event.is_some(), row.peak_reserved_bytes)
        });
        rows
    }
}
