//! What `export` adds to a snapshot under the key `memlab`: a JSON text, see `export`.

use serde_json::Value as Json;

use crate::error::Result;
use crate::import::graph::Value;
use crate::model::{DeviceFacts, DeviceId, Holder, Mark, MarkKind, NamedTensor, ProcessFacts, Sample};

use super::{Builder, DEVICES_MAX};

impl Builder<'_> {
    /// Reads the key's text; the devices whose final state is unknown are handled in `checks`.
    pub(super) fn memlab_key(&mut self, value: Value) -> Result<()> {
        let text = self.graph.as_text(value).unwrap_or_default().into_owned();
        self.graph.ledger.charge(parsed_bytes(&text), 0)?;
        let Ok(Json::Object(all)) = serde_json::from_str(&text) else {
            self.odd("memlab", "a JSON object");
            return Ok(());
        };
        let trace = &mut self.rows.trace;
        if all.get("complete") == Some(&Json::Bool(false)) {
            trace.complete = false;
        }
        if let Some(process) = all.get("process") {
            trace.process = process_facts(process);
        }
        trace.marks = list(all.get("marks")).filter_map(mark).collect();
        trace.tensors = list(all.get("tensors")).map(tensor).collect();
        trace.holders = list(all.get("holders")).map(holder).collect();
        trace.samples = list(all.get("samples")).map(sample).collect();
        self.without_segments = list(all.get("devices_without_segments")).map(device_id).collect();
        Ok(())
    }
}

/// About what the parsed text takes at most: objects are trees with room for eleven keys.
fn parsed_bytes(text: &str) -> usize {
    let cost = |byte| match byte {
        b'{' => 640,
        b',' | b'[' => 64,
        _ => 1,
    };
    text.bytes().map(cost).sum()
}

fn list(value: Option<&Json>) -> impl Iterator<Item = &Json> {
    value.and_then(Json::as_array).into_iter().flatten()
}

fn number(value: &Json, key: &str) -> Option<u64> {
    value.get(key).and_then(Json::as_u64)
}

fn string(value: &Json, key: &str) -> Option<String> {
    value.get(key).and_then(Json::as_str).map(str::to_owned)
}

fn text(value: &Json, key: &str) -> String {
    string(value, key).unwrap_or_default()
}

fn time(value: &Json) -> i64 {
    value.get("time_us").and_then(Json::as_i64).unwrap_or(crate::model::NO_TIME)
}

fn device_id(value: &Json) -> DeviceId {
    let id = value.as_u64().filter(|&id| id < DEVICES_MAX);
    DeviceId(id.map_or(u32::MAX, |id| id as u32))
}

fn device_of(value: &Json) -> DeviceId {
    device_id(value.get("device").unwrap_or(&Json::Null))
}

fn process_facts(value: &Json) -> ProcessFacts {
    let other = value.get("other").and_then(Json::as_object);
    ProcessFacts {
        rank: number(value, "rank"),
        local_rank: number(value, "local_rank"),
        world_size: number(value, "world_size"),
        pid: number(value, "pid"),
        torch_version: string(value, "torch_version"),
        cuda_version: string(value, "cuda_version"),
        python_version: string(value, "python_version"),
        writer: string(value, "writer"),
        devices: list(value.get("devices")).map(device).collect(),
        lost_events: number(value, "lost_events").unwrap_or(0),
        other: other.into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect(),
    }
}

fn device(value: &Json) -> DeviceFacts {
    DeviceFacts {
        device: device_of(value),
        name: text(value, "name"),
        total_bytes: number(value, "total_bytes"),
    }
}

fn mark(value: &Json) -> Option<Mark> {
    let kind = match number(value, "kind")? {
        0 => MarkKind::Step,
        1 => MarkKind::Phase,
        2 => MarkKind::Module,
        3 => MarkKind::User,
        4 => MarkKind::Fault,
        _ => return None,
    };
    let begins = value.get("begins").and_then(Json::as_bool);
    Some(Mark { kind, name: text(value, "name"), time_us: time(value), begins })
}

fn tensor(value: &Json) -> NamedTensor {
    NamedTensor {
        device: device_of(value),
        address: number(value, "address").unwrap_or(0),
        bytes: number(value, "bytes").unwrap_or(0),
        kind: text(value, "kind"),
        name: text(value, "name"),
        dtype: text(value, "dtype"),
        shape: list(value.get("shape")).filter_map(Json::as_u64).collect(),
        grad_fn: text(value, "grad_fn"),
        time_us: time(value),
        events: number(value, "events"),
    }
}

fn holder(value: &Json) -> Holder {
    Holder {
        device: device_of(value),
        address: number(value, "address").unwrap_or(0),
        path: text(value, "path"),
        time_us: time(value),
        events: number(value, "events"),
    }
}

fn sample(value: &Json) -> Sample {
    let stats = value.get("stats").and_then(Json::as_object);
    let stat = |(key, value): (&String, &Json)| Some((key.as_str().into(), value.as_i64()?));
    Sample {
        device: device_of(value),
        time_us: time(value),
        events: number(value, "events"),
        free_bytes: number(value, "free_bytes"),
        total_bytes: number(value, "total_bytes"),
        process_bytes: number(value, "process_bytes"),
        driver_calls: number(value, "driver_calls"),
        unstable: value.get("unstable").and_then(Json::as_bool).unwrap_or(false),
        stats: stats.into_iter().flatten().filter_map(stat).collect(),
    }
}
