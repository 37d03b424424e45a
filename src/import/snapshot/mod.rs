//! From the objects of a snapshot to a trace.
//!
//! Owns the shapes: every form of `torch.cuda.memory._snapshot()` from 1.13 to 2.15, keys that are not known,
//! values that cannot be. What is odd becomes a warning of the trace; what is no snapshot at all is an
//! error. Works on the graph alone: pickle and JSON look the same here.

mod checks;
mod columns;
mod events;
mod extras;
mod fields;
mod memlab_key;
mod segments;
mod stacks;

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::model::{DeviceFacts, DeviceId, Format, Trace};

use super::graph::{Graph, Ledger, Value, View, Word};
use super::rows::Rows;

/// Highest device index plus one.
const DEVICES_MAX: u64 = 1024;

/// The trace while it is made.
struct Builder<'a> {
    graph: Graph<'a>,
    rows: Rows,
    visits: Ledger,
    /// Distinct unknown keys told so far.
    unknown_keys: BTreeSet<String>,
    /// Devices whose final state the writer did not know.
    without_segments: Vec<DeviceId>,
}

/// Builds the trace of the snapshot `root`. `file_bytes` is the size of the file, which bounds the effort.
///
/// # Errors
/// When it is no snapshot, when a budget runs out, or when the file was cut and no event is left.
pub(super) fn build(
    graph: Graph<'_>,
    rows: Rows,
    root: Value,
    truncated: bool,
    file_bytes: usize,
) -> Result<Trace> {
    let visits = Ledger::for_visits(file_bytes);
    let mut builder =
        Builder { graph, rows, visits, unknown_keys: BTreeSet::new(), without_segments: Vec::new() };
    builder.rows.trace.format = Format::TorchSnapshot;
    let top = builder.top_level(root)?;
    if let Some(segments) = top.segments {
        builder.segments(segments)?;
    }
    let ranges = match top.device_traces {
        Some(traces) => builder.device_traces(traces)?,
        None => Vec::new(),
    };
    builder.extras(&top)?;
    let without_segments = std::mem::take(&mut builder.without_segments);
    let mut trace = columns::assign(builder.rows, &ranges)?;
    if truncated {
        if trace.event_count() == 0 {
            return Err(Error::corrupt(file_bytes, "the pickle ends before it is complete"));
        }
        mark_truncated(&mut trace, top.ends_in_state, file_bytes);
    }
    checks::check(&mut trace, &without_segments);
    state_device_totals(&mut trace, top.device_total);
    Ok(trace)
}

/// The parts of the outermost object.
#[derive(Default)]
struct TopLevel {
    segments: Option<Value>,
    device_traces: Option<Value>,
    settings: Option<Value>,
    annotations: Option<Value>,
    memlab: Option<Value>,
    device_total: Option<u64>,
    /// The last key is the events or the segments: a cut file was cut in them.
    ends_in_state: bool,
}

impl Builder<'_> {
    fn top_level(&mut self, root: Value) -> Result<TopLevel> {
        let node = match root.view() {
            // 1.13 and older, and `memory_snapshot()`: the segments alone.
            View::List(_) => return Ok(TopLevel { segments: Some(root), ..TopLevel::default() }),
            View::Dict(node) => node,
            _ => return Err(not_a_snapshot("neither a dict nor a list of segments")),
        };
        let entries = self.entries(node)?;
        let mut top = TopLevel::default();
        for pair in entries.chunks_exact(2) {
            self.top_level_key(&mut top, pair[0], pair[1]);
            top.ends_in_state = matches!(pair[0].word(), Word::DeviceTraces | Word::Segments);
        }
        if top.segments.is_none() && top.device_traces.is_none() {
            return Err(not_a_snapshot("a dict without `segments` and `device_traces`"));
        }
        Ok(top)
    }

    fn top_level_key(&mut self, top: &mut TopLevel, key: Value, value: Value) {
        match key.word() {
            Word::Segments => top.segments = Some(value),
            Word::DeviceTraces => top.device_traces = Some(value),
            Word::AllocatorSettings => top.settings = Some(value),
            Word::ExternalAnnotations => top.annotations = Some(value),
            Word::Memlab => top.memlab = Some(value),
            Word::DeviceTotal => top.device_total = Some(self.unsigned(value, "device_total")),
            Word::RingEntries => {}
            Word::RingOverflowed => {
                let overflowed = self.graph.as_integer(value).is_some_and(|value| value != 0);
                self.rows.trace.warnings.add_many("ring-overflowed", u64::from(overflowed), || {
                    "the recording's ring was full: its oldest events are lost".to_owned()
                });
            }
            Word::HostSegments | Word::HostTraces => {
                let items = self.graph.list_items(value).map_or(0, <[Value]>::len) as u64;
                self.rows.trace.warnings.add_many("host-memory", items, || {
                    "pinned host memory (host_segments, host_traces) is not analyzed".to_owned()
                });
            }
            _ => self.unknown_key(key, "the snapshot"),
        }
    }
}

fn not_a_snapshot(what: &str) -> Error {
    Error::Shape { what: format!("not a memory snapshot: {what}") }
}

fn mark_truncated(trace: &mut Trace, in_state: bool, file_bytes: usize) {
    trace.complete = false;
    trace.warnings.add("truncated", || {
        let left_out = if in_state {
            "; the final segments are left out: they are not whole, or belong to a later moment"
        } else {
            ""
        };
        format!(
            "the file ends at byte {file_bytes}, before it is complete: what came before is used{left_out}"
        )
    });
    if in_state {
        for device in &mut trace.devices {
            device.segments = None;
        }
        trace.devices.retain(|device| !device.events.is_empty());
    }
}

fn state_device_totals(trace: &mut Trace, total: Option<u64>) {
    if total.is_none() || !trace.process.devices.is_empty() {
        return;
    }
    let ids: Vec<DeviceId> = trace.devices.iter().map(|device| device.device).collect();
    let facts = |device| DeviceFacts { device, name: String::new(), total_bytes: total };
    trace.process.devices = ids.into_iter().map(facts).collect();
}
