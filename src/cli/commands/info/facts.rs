//! The facts of a file, as plain data for JSON and for the screen.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::cli::input::Outlined;
use crate::model::{
    Action, BlockState, DeviceTrace, DriverLayer, EventCounts, MarkKind, ProcessFacts, Reduced, SettingValue,
    Settings, Trace,
};
use crate::report::WarningRow;

/// One file.
#[derive(Debug, Serialize)]
pub(super) struct FileFacts {
    pub path: String,
    pub format: &'static str,
    /// As stored, compressed or not.
    pub file_bytes: u64,
    pub complete: bool,
    /// Chunks of events of which only the facts were read, not the events: `--verify` reads them.
    pub unchecked_chunks: u64,
    pub events: u64,
    pub frames: u64,
    pub stacks: u64,
    pub process: BTreeMap<String, Value>,
    pub settings: BTreeMap<String, Value>,
    pub annotations: u64,
    /// Marks by kind.
    pub marks: BTreeMap<&'static str, u64>,
    pub tensors: u64,
    pub holders: u64,
    pub samples: u64,
    /// Calls of the driver, those of the file beside it included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<DriverFacts>,
    pub devices: Vec<DeviceRow>,
    /// Of a reduced recording: what it was made from, and what it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reduced: Option<ReducedFacts>,
    pub warnings: Vec<WarningRow>,
}

/// Calls of the CUDA driver.
#[derive(Debug, Serialize)]
pub(super) struct DriverFacts {
    pub calls: u64,
    pub failed_calls: u64,
    /// How they were seen: `cupti`, `preload`; `null` when the file does not say.
    pub hook: Option<String>,
    /// Whether the recording of calls was closed and nothing is known to be missing.
    pub complete: bool,
}

/// What a reduced recording was made from, and what was live at its moments.
#[derive(Debug, Serialize)]
pub(super) struct ReducedFacts {
    pub name: String,
    pub format: String,
    pub bytes: u64,
    pub events: u64,
    pub sha256: String,
    pub reduced_by: String,
    pub live: Vec<LiveFacts>,
}

/// What was live on a device at a moment.
#[derive(Debug, Serialize)]
pub(super) struct LiveFacts {
    pub device: u32,
    pub moment: String,
    /// The event after which that is; `null` before the first.
    pub event: Option<u64>,
    pub allocations: u64,
    pub bytes: u64,
}

/// One device of a file.
#[derive(Debug, Serialize)]
pub(super) struct DeviceRow {
    pub device: u32,
    pub name: Option<String>,
    pub total_bytes: Option<u64>,
    pub events: u64,
    /// Events by action, those that occur.
    pub actions: BTreeMap<&'static str, u64>,
    pub streams: u64,
    /// Unix microseconds; `null` when no event has a time.
    pub first_time_us: Option<i64>,
    pub last_time_us: Option<i64>,
    /// The final state; `null` when the file does not have it.
    pub segments: Option<SegmentsRow>,
}

/// The final state of a device, in numbers.
#[derive(Debug, Default, Serialize)]
pub(super) struct SegmentsRow {
    pub segments: u64,
    pub bytes: u64,
    pub blocks: u64,
    /// Blocks in use or pending.
    pub active_blocks: u64,
    pub active_bytes: u64,
}

impl FileFacts {
    /// Counts what is in `input`.
    pub(super) fn of(input: &Outlined) -> Self {
        let trace = &input.outline.trace;
        let devices = trace.devices.iter().zip(&input.outline.counts);
        let mut marks = BTreeMap::new();
        for mark in &trace.marks {
            *marks.entry(mark_name(mark.kind)).or_default() += 1;
        }
        let row = |warning: &crate::model::Warning| WarningRow {
            kind: warning.kind.to_owned(),
            count: warning.count,
            text: warning.text.clone(),
        };
        Self {
            path: input.label.clone(),
            format: trace.format.name(),
            file_bytes: input.file_bytes,
            complete: trace.complete,
            unchecked_chunks: input.outline.unchecked_chunks,
            events: input.outline.events(),
            frames: trace.frames.len() as u64,
            // Number 0 is the empty stack.
            stacks: trace.stacks.len().saturating_sub(1) as u64,
            process: process(&trace.process),
            settings: settings(&trace.settings),
            annotations: trace.annotations.len() as u64,
            marks,
            tensors: trace.tensors.len() as u64,
            holders: trace.holders.len() as u64,
            samples: trace.samples.len() as u64,
            driver: trace.driver.as_deref().map(|layer| driver_facts(trace, layer)),
            devices: devices.map(|(device, counts)| device_row(trace, device, counts)).collect(),
            reduced: trace.reduced.as_deref().map(reduced_facts),
            warnings: trace.warnings.iter().map(row).collect(),
        }
    }
}

fn driver_facts(trace: &Trace, layer: &DriverLayer) -> DriverFacts {
    let said = trace.process.other.get("driver");
    DriverFacts {
        calls: layer.rows.len() as u64,
        failed_calls: layer.rows.iter().filter(|row| row.result != 0).count() as u64,
        hook: said.and_then(|said| said.get("hook")?.as_str()).map(str::to_owned),
        complete: layer.complete,
    }
}

fn reduced_facts(reduced: &Reduced) -> ReducedFacts {
    let origin = reduced.origin.clone();
    let live = reduced.live.iter().flat_map(|set| {
        set.moments.iter().enumerate().map(|(place, moment)| {
            let (allocations, bytes) = set.totals(place);
            let (device, event) = (set.device.0, moment.event);
            LiveFacts { device, moment: moment.name.clone(), event, allocations, bytes }
        })
    });
    ReducedFacts {
        name: origin.name,
        format: origin.format,
        bytes: origin.bytes,
        events: origin.events,
        sha256: origin.sha256,
        reduced_by: origin.reduced_by,
        live: live.collect(),
    }
}

fn mark_name(kind: MarkKind) -> &'static str {
    match kind {
        MarkKind::Step => "step",
        MarkKind::Phase => "phase",
        MarkKind::Module => "module",
        MarkKind::User => "user",
        MarkKind::Fault => "fault",
    }
}

fn device_row(trace: &Trace, entry: &DeviceTrace, counts: &EventCounts) -> DeviceRow {
    let known = trace.process.devices.iter().find(|facts| facts.device == entry.device);
    let occurring = Action::ALL.iter().zip(counts.actions).filter(|(_, count)| *count > 0);
    DeviceRow {
        device: entry.device.0,
        name: known.map(|facts| facts.name.clone()).filter(|name| !name.is_empty()),
        total_bytes: known.and_then(|facts| facts.total_bytes),
        events: counts.events(),
        actions: occurring.map(|(action, count)| (action.name(), count)).collect(),
        streams: counts.streams,
        first_time_us: counts.first_time_us,
        last_time_us: counts.last_time_us,
        segments: entry.segments.as_deref().map(segments_row),
    }
}

fn segments_row(segments: &[crate::model::Segment]) -> SegmentsRow {
    let mut row = SegmentsRow { segments: segments.len() as u64, ..SegmentsRow::default() };
    for segment in segments {
        row.bytes = row.bytes.saturating_add(segment.bytes);
        row.blocks += segment.blocks.len() as u64;
        for block in segment.blocks.iter().filter(|block| block.state != BlockState::Inactive) {
            row.active_blocks += 1;
            row.active_bytes = row.active_bytes.saturating_add(block.bytes);
        }
    }
    row
}

fn process(facts: &ProcessFacts) -> BTreeMap<String, Value> {
    let ProcessFacts {
        rank,
        local_rank,
        world_size,
        pid,
        torch_version,
        cuda_version,
        python_version,
        writer,
        devices: _,
        lost_events,
        other,
    } = facts;
    let numbers = [
        ("rank", *rank),
        ("local_rank", *local_rank),
        ("world_size", *world_size),
        ("pid", *pid),
        ("lost_events", Some(*lost_events).filter(|&lost| lost > 0)),
    ];
    let texts = [
        ("torch_version", torch_version),
        ("cuda_version", cuda_version),
        ("python_version", python_version),
        ("writer", writer),
    ];
    let mut all = other.clone();
    all.extend(numbers.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into()))));
    all.extend(texts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?.into()))));
    all
}

fn settings(settings: &Settings) -> BTreeMap<String, Value> {
    settings.values.iter().map(|(key, value)| (key.clone(), setting(value))).collect()
}

fn setting(value: &SettingValue) -> Value {
    match value {
        SettingValue::Bool(value) => (*value).into(),
        SettingValue::Int(value) => integer(*value),
        SettingValue::Float(value) => (*value).into(),
        SettingValue::Text(value) => value.clone().into(),
        SettingValue::Map(map) => map.iter().map(|(key, value)| (key.clone(), integer(*value))).collect(),
    }
}

/// JSON numbers end at 64 bits here; what is larger becomes text rather than a rounded number.
fn integer(value: i128) -> Value {
    match (u64::try_from(value), i64::try_from(value)) {
        (Ok(value), _) => value.into(),
        (_, Ok(value)) => value.into(),
        _ => value.to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;

    #[test]
    fn events_are_counted_by_device_and_action() {
        let trace = TraceBuilder::new()
            .segment_alloc(0x1000, 2 << 20)
            .alloc(0x1000, 512)
            .free(0x1000, 512)
            .device(1)
            .oom(4096, 17)
            .build();
        let facts = FileFacts::of(&Outlined::for_test("a.pickle", trace));
        assert_eq!((facts.events, facts.devices.len()), (5, 2));
        let actions: Vec<_> = facts.devices[0].actions.iter().map(|(name, count)| (*name, *count)).collect();
        let expected = [("alloc", 1), ("free_completed", 1), ("free_requested", 1), ("segment_alloc", 1)];
        assert_eq!(actions, expected);
        assert_eq!(facts.devices[1].actions.get("oom"), Some(&1));
        assert_eq!(facts.devices[0].first_time_us, Some(1_000_000));
        assert_eq!(facts.devices[0].last_time_us, Some(1_000_030));
    }

    #[test]
    fn integers_are_never_rounded() {
        assert_eq!(integer(-1).to_string(), "-1");
        assert_eq!(integer(i128::from(u64::MAX)).to_string(), "18446744073709551615");
        assert_eq!(integer(i128::from(u64::MAX) + 1).to_string(), "\"18446744073709551616\"");
    }
}
