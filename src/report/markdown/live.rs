//! What was live at the kept moments of a reduced recording.
//!
//! Owns which columns are worth a ticket. Everything from the trace goes through `escape` here.

use super::code;
use super::table::Page;
use crate::report::types::{DeviceReport, LiveRow, TraceReport};
use crate::units::{Bytes, Count};

/// Adds a table for each moment of `device`; none for a recording that has its events. `share` is the room for all.
pub(super) fn sections(page: &mut Page, trace: &TraceReport, device: &DeviceReport, share: usize) {
    let moments: Vec<_> = trace.reduced.iter().flat_map(|reduced| reduced.live_on(device.device)).collect();
    for (moment, title) in &moments {
        page.heading(3, title);
        let rows: Vec<_> = moment.rows.iter().map(row).collect();
        let header = ["block", "requested", "made at event", "line"];
        page.table(&header, 3, &rows, &[], share / moments.len());
        page.block(&format!(
            "{} in {} allocations, {} of it waits for another stream; the largest first.",
            Bytes(moment.bytes),
            Count(moment.allocations),
            Bytes(moment.pending_free_bytes)
        ));
    }
}

fn row(row: &LiveRow) -> Vec<String> {
    let made =
        row.alloc_event.map_or_else(|| "before the first".to_owned(), |event| Count(event).to_string());
    let line = row.line.as_deref().or(row.frame.as_deref()).unwrap_or("no line known");
    vec![Bytes(row.bytes).to_string(), Bytes(row.requested_bytes).to_string(), made, code(line)]
}
