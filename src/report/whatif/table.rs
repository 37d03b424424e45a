//! The table of settings as words, shared by the terminal text and the Markdown page.

use super::types::{SettingRow, WhatIfReport};
use crate::units::{Bytes, SignedBytes, percent};

/// Headers; the first `FIGURES` columns hold figures.
pub(super) const HEADER: [&str; 7] =
    ["peak reserved", "saved", "", "free at peak", "fits", "smallest memory", "setting"];
pub(super) const FIGURES: usize = 6;

/// Cells of a row, unescaped.
pub(super) fn cells(row: &SettingRow, recorded_peak: u64) -> Vec<String> {
    let bound = if row.is_bound { "≥ " } else { "" };
    let failed = row.oom_event.is_some();
    let dash = || "-".to_owned();
    let saved = if failed || row.is_recorded { dash() } else { SignedBytes(row.saved_bytes).to_string() };
    let share = match row.saved_bytes {
        _ if failed || row.is_recorded => String::new(),
        saved if saved < 0 => format!("-{}", percent(saved.unsigned_abs(), recorded_peak)),
        saved => percent(saved.unsigned_abs(), recorded_peak),
    };
    vec![
        format!("{bound}{}{}", Bytes(row.peak_reserved_bytes), spread(row)),
        saved,
        share,
        if row.is_bound { dash() } else { format!("{:.1} %", row.fragmentation_at_peak * 100.0) },
        match row.oom_event {
            Some(event) => format!("OOM at {event}"),
            None => match row.fits {
                Some(true) => "yes",
                Some(false) => "no",
                None => "?",
            }
            .to_owned(),
        },
        row.smallest_memory_bytes.map_or_else(dash, |bytes| Bytes(bytes).to_string()),
        name(row),
    ]
}

/// By how much the peak hangs on the order of addresses, where that can be seen.
fn spread(row: &SettingRow) -> String {
    let [least, most] = row.peak_reserved_range;
    let off = row.peak_reserved_bytes.saturating_sub(least).max(most.saturating_sub(row.peak_reserved_bytes));
    if off <= row.peak_reserved_bytes / 200 {
        String::new()
    } else {
        format!(" ±{}", percent(off, row.peak_reserved_bytes))
    }
}

/// The setting's name, with what is special about it.
pub(super) fn name(row: &SettingRow) -> String {
    let conf = if row.conf.is_empty() { "(defaults)" } else { &row.conf };
    match (row.is_recorded, row.is_bound) {
        (true, _) => format!("{conf}, as recorded"),
        (_, true) => format!("{conf}, a bound"),
        _ => conf.to_owned(),
    }
}

/// What the replay of the recorded settings says about the model.
pub(super) fn trust(report: &WhatIfReport) -> String {
    let baseline = &report.baseline;
    if baseline.exact {
        return format!(
            "Replaying the recorded settings gives the recording to the byte: {} reserved at the peak, and every block at its address.",
            Bytes(baseline.recorded_peak_reserved_bytes)
        );
    }
    let (recorded, replayed) = (baseline.recorded_peak_reserved_bytes, baseline.replayed_peak_reserved_bytes);
    let off = SignedBytes(replayed.cast_signed().saturating_sub(recorded.cast_signed()));
    let mut text = format!(
        "Replaying the recorded settings gives {} at the peak, the recording {} ({off}, {}).",
        Bytes(replayed),
        Bytes(recorded),
        percent(replayed.abs_diff(recorded), recorded),
    );
    if let Some(event) = baseline.first_divergence_event {
        let cause = baseline.cause.as_deref().unwrap_or("unknown");
        text += &format!(
            " {} requests were served otherwise, the first at event {event}. Likely cause: {cause}.",
            baseline.differing_requests
        );
    }
    text
}

/// The bounds in a sentence.
pub(super) fn bounds(report: &WhatIfReport) -> String {
    let bounds = &report.bounds;
    format!(
        "No allocator can do with less than {}, the highest total of live bytes; the best packing found takes {} (+{}).",
        Bytes(bounds.live_peak_bytes),
        Bytes(bounds.packed_bytes),
        percent(bounds.packed_bytes.saturating_sub(bounds.live_peak_bytes), bounds.live_peak_bytes),
    )
}

/// The limit in a sentence.
pub(super) fn limit(report: &WhatIfReport) -> Option<String> {
    let limit = report.limit.as_ref()?;
    let source = match limit.source {
        "given" => "as asked for",
        _ => "which the recording ran into",
    };
    Some(format!("Memory: {} ({} bytes), {source}.", Bytes(limit.bytes), limit.bytes))
}
