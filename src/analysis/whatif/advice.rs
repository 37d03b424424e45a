//! One recommendation out of the rows, with its reason.

use crate::report::{RecommendationRow, SettingRow, WhatIfReport};
use crate::units::{Bytes, percent};

/// Savings below this share of the peak are not worth a change.
const WORTH_SHARE: u64 = 20;
/// Settings within this share of the best one count as equally good; the plainest of them is named.
const EQUAL_SHARE: u64 = 50;

/// What to do, judging by the rows of `report`.
pub(super) fn recommend(report: &WhatIfReport) -> RecommendationRow {
    let Some(recorded) = report.settings.iter().find(|row| row.is_recorded) else {
        return RecommendationRow::default();
    };
    let fitting: Vec<_> = report
        .settings
        .iter()
        .filter(|row| !row.is_bound && !row.is_recorded && row.oom_event.is_none())
        .collect();
    match (recorded.oom_event, best(&fitting)) {
        (Some(event), Some(best)) => use_row(
            best,
            format!(
                "Every request fits, with {} reserved at the peak; the recorded settings fail at event {event}.",
                Bytes(best.peak_reserved_bytes)
            ),
        ),
        (Some(event), None) => leave(nothing_fits(report, event)),
        (None, Some(best)) if is_worth(recorded, best) => use_row(
            best,
            format!(
                "It saves {} of {} reserved at the peak ({}){}.",
                Bytes(best.saved_bytes.unsigned_abs()),
                Bytes(recorded.peak_reserved_bytes),
                percent(best.saved_bytes.unsigned_abs(), recorded.peak_reserved_bytes),
                distance(report, best)
            ),
        ),
        (None, best) => leave(match best {
            Some(best) if best.saved_bytes > 0 => format!(
                "The best of the others saves {}, less than 5 % of the peak{}.",
                Bytes(best.saved_bytes.unsigned_abs()),
                distance(report, recorded)
            ),
            _ => format!("None of the others takes less{}.", distance(report, recorded)),
        }),
    }
}

/// The row with the lowest peak; among nearly equal ones that with the fewest and plainest settings.
fn best<'a>(rows: &[&'a SettingRow]) -> Option<&'a SettingRow> {
    let lowest = rows.iter().map(|row| row.peak_reserved_bytes).min()?;
    let is_equal = |row: &&&SettingRow| row.peak_reserved_bytes - lowest <= lowest / EQUAL_SHARE;
    let plainness = |row: &&&SettingRow| {
        (
            row.conf.matches(',').count(),
            !row.conf.is_empty(),
            !row.conf.contains("expandable"),
            row.peak_reserved_bytes,
        )
    };
    rows.iter().filter(is_equal).min_by_key(plainness).copied()
}

fn is_worth(recorded: &SettingRow, best: &SettingRow) -> bool {
    best.saved_bytes > 0 && best.saved_bytes.unsigned_abs() >= recorded.peak_reserved_bytes / WORTH_SHARE
}

fn use_row(row: &SettingRow, reason: String) -> RecommendationRow {
    RecommendationRow { conf: Some(row.conf.clone()), saved_bytes: row.saved_bytes, reason }
}

fn leave(reason: String) -> RecommendationRow {
    RecommendationRow { conf: None, saved_bytes: 0, reason }
}

/// How far `row` is from the best possible, where that is known.
fn distance(report: &WhatIfReport, row: &SettingRow) -> String {
    if report.bounds.packed_bytes == 0 {
        return String::new();
    }
    let above = row.peak_reserved_bytes.saturating_sub(report.bounds.packed_bytes);
    format!(", {} above the best packing of the same requests", Bytes(above))
}

fn nothing_fits(report: &WhatIfReport, event: u64) -> String {
    let live = report.bounds.live_peak_bytes;
    let memory = report.limit.as_ref().map_or(0, |limit| limit.bytes);
    let needed = if live > memory && memory > 0 {
        format!("{} are live at one time, {} more than there are", Bytes(live), Bytes(live - memory))
    } else {
        format!(
            "the recorded settings fail at event {event}, and none of the others serves every request in {}",
            Bytes(memory)
        )
    };
    let least =
        report.settings.iter().filter_map(|row| Some((row.smallest_memory_bytes?, row.conf.as_str()))).min();
    let enough = match least {
        Some((bytes, "")) => format!(" {} would be enough, under the defaults.", Bytes(bytes)),
        Some((bytes, conf)) => format!(" {} would be enough, under {conf}.", Bytes(bytes)),
        None => String::new(),
    };
    format!("No setting helps: {needed}.{enough}")
}
