//! `whatif.svg`: reserved bytes over time under each setting, on one axis.
//!
//! Owns the choice of curves and their common samples; `draw` does the drawing.

use super::palette::{BANDS, RESERVED};
use super::picture::{Curve, Note, Picture};
use crate::report::types::Timeline;
use crate::report::whatif::{SettingRow, WhatIfReport};
use crate::units::{Bytes, Count};

/// Curves that a picture can tell apart; the rest is in the table.
const MOST_CURVES: usize = 10;
/// Samples at most per curve: more than there are pixel columns, several times over.
const MOST_SAMPLES: usize = 8_000;

/// Samples at which some curve changes.
pub(super) fn timeline(report: &WhatIfReport) -> Timeline {
    let rows = shown(report);
    let mut x: Vec<u64> = vec![0, report.events];
    for (event, _) in rows.iter().flat_map(|row| &row.course) {
        // Both sides of a step.
        x.extend([u64::from(*event), u64::from(*event) + 1]);
    }
    x.sort_unstable();
    x.dedup();
    let keep_every = x.len().div_ceil(MOST_SAMPLES);
    let last = x.last().copied();
    let mut x: Vec<u64> = x.into_iter().step_by(keep_every).collect();
    x.extend(last.filter(|last| x.last() != Some(last)));
    Timeline { x, x_end: report.events, events_per_sample: 1, ..Timeline::default() }
}

/// The picture over the samples of [`timeline`].
pub(super) fn picture<'a>(report: &WhatIfReport, timeline: &'a Timeline) -> Picture<'a> {
    let rows = shown(report);
    let curves = rows.iter().enumerate().map(|(index, row)| Curve {
        name: name(row),
        note: match row.oom_event {
            Some(event) => Note { figure: "OOM".to_owned(), text: format!("at event {}", Count(event)) },
            None => Note::bytes(row.peak_reserved_bytes, "at most"),
        },
        values: sampled(&row.course, &timeline.x),
        ink: if row.is_recorded { RESERVED } else { BANDS[index % BANDS.len()] },
        width: if row.is_recorded { 3 } else { 2 },
    });
    Picture {
        title: title(report),
        subtitle: format!("lowest possible: {} live at one time", Bytes(report.bounds.live_peak_bytes)),
        description: "Reserved bytes over events, one curve per allocator setting.".to_owned(),
        timeline,
        layers: Vec::new(),
        curves: curves.collect(),
        device_bytes: None,
        steps: 0,
        across: None,
        counts: "event",
    }
}

fn title(report: &WhatIfReport) -> String {
    let name = report.path.rsplit('/').next().unwrap_or_default();
    format!(
        "Reserved under other settings: {}, device {}",
        crate::report::escape::keep_end(name, 50),
        report.device
    )
}

/// The recorded settings and those that save most, the recorded one last: it is drawn on top.
fn shown(report: &WhatIfReport) -> Vec<&SettingRow> {
    let rows = report.settings_for_people().into_iter().filter(|row| !row.is_bound);
    let mut shown: Vec<_> = rows.take(MOST_CURVES).collect();
    shown.reverse();
    shown
}

fn name(row: &SettingRow) -> String {
    match (row.is_recorded, row.conf.is_empty()) {
        (true, _) => "as recorded".to_owned(),
        (false, true) => "(defaults)".to_owned(),
        (false, false) => row.conf.clone(),
    }
}

/// The value of `course` before each event of `x`; for an odd sample within a step that is its start.
fn sampled(course: &[(u32, u64)], x: &[u64]) -> Vec<u64> {
    x.iter()
        .map(|&x| {
            let after = course.partition_point(|&(event, _)| u64::from(event) < x);
            after.checked_sub(1).map_or(0, |at| course[at].1)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_steep() {
        assert_eq!(sampled(&[(2, 100), (5, 40)], &[0, 2, 3, 5, 6, 9]), [0, 0, 100, 100, 40, 40]);
    }
}
