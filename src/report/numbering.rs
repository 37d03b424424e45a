//! Event numbers of a report on an excerpt.
//!
//! Owns the change from numbers within the excerpt to those of the recording. Moments of pictures that count events on
//! their axis are not changed: an excerpt's picture begins with it.

use super::types::{DeviceReport, Four, FragmentationRow, StepsRow};

impl DeviceReport {
    /// Numbers events as the recording does, of which this is an excerpt that begins with event `first`.
    pub(crate) fn numbered_from(&mut self, first: u64) {
        if first == 0 {
            return;
        }
        four(&mut self.peak_event, first);
        fragmentation(&mut self.fragmentation, first);
        self.ooms.iter_mut().for_each(|oom| oom.event += first);
        steps(&mut self.steps, first);
        if let Some(outside) = &mut self.outside {
            shift(&mut outside.max_event, first);
            outside.series.iter_mut().for_each(|point| shift(&mut point.event, first));
        }
        if let Some(difference) = self.self_check.as_mut().and_then(|check| check.first_difference.as_mut()) {
            after(&mut difference.event, first);
        }
        if let Some(help) = &mut self.what_would_help {
            help.settings.iter_mut().for_each(|setting| shift(&mut setting.oom_event, first));
        }
        let pictures = &mut self.pictures;
        shift(&mut pictures.segments.event, first);
        after(&mut pictures.flame.event, first);
    }
}

/// The state before an excerpt's first event is the one after the event before it.
fn after(event: &mut Option<u64>, first: u64) {
    *event = Some(event.map_or(first - 1, |event| event + first));
}

fn shift(event: &mut Option<u64>, first: u64) {
    *event = event.map(|event| event + first);
}

fn four(events: &mut Four<Option<u64>>, first: u64) {
    for event in [
        &mut events.requested_bytes,
        &mut events.allocated_bytes,
        &mut events.active_bytes,
        &mut events.reserved_bytes,
    ] {
        after(event, first);
    }
}

fn fragmentation(rows: &mut FragmentationRow, first: u64) {
    for row in [&mut rows.at_peak, &mut rows.at_end].into_iter().chain(&mut rows.at_oom) {
        after(&mut row.event, first);
    }
}

fn steps(steps: &mut StepsRow, first: u64) {
    for step in &mut steps.rows {
        step.begin_event += first;
        step.end_event += first;
        after(&mut step.peak_event, first);
    }
}
