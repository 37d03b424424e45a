//! What a snapshot has no place for, as the JSON text of the key `memlab`. `import` reads it back.

use serde_json::{Map, Value, json};

use crate::model::{DeviceFacts, Holder, Mark, NamedTensor, ProcessFacts, Sample, Trace};

/// The text, or `None` when a plain snapshot says it all.
pub(super) fn text(trace: &Trace) -> Option<String> {
    let mut all = Map::new();
    if !trace.complete {
        all.insert("complete".to_owned(), json!(false));
    }
    let unknown: Vec<u32> = trace
        .devices
        .iter()
        .filter(|device| device.segments.is_none())
        .map(|device| device.device.0)
        .collect();
    insert_list(&mut all, "devices_without_segments", unknown.into_iter().map(Value::from).collect());
    let process = process(&trace.process);
    if !process.is_empty() {
        all.insert("process".to_owned(), Value::Object(process));
    }
    insert_list(&mut all, "marks", trace.marks.iter().map(mark).collect());
    insert_list(&mut all, "tensors", trace.tensors.iter().map(tensor).collect());
    insert_list(&mut all, "holders", trace.holders.iter().map(holder).collect());
    insert_list(&mut all, "samples", trace.samples.iter().map(sample).collect());
    (!all.is_empty()).then(|| Value::Object(all).to_string())
}

fn insert_list(all: &mut Map<String, Value>, key: &str, list: Vec<Value>) {
    if !list.is_empty() {
        all.insert(key.to_owned(), Value::Array(list));
    }
}

fn process(facts: &ProcessFacts) -> Map<String, Value> {
    let mut all = Map::new();
    let numbers = [
        ("rank", facts.rank),
        ("local_rank", facts.local_rank),
        ("world_size", facts.world_size),
        ("pid", facts.pid),
        ("lost_events", Some(facts.lost_events).filter(|&lost| lost > 0)),
    ];
    for (key, value) in numbers {
        if let Some(value) = value {
            all.insert(key.to_owned(), json!(value));
        }
    }
    let texts = [
        ("torch_version", &facts.torch_version),
        ("cuda_version", &facts.cuda_version),
        ("python_version", &facts.python_version),
        ("writer", &facts.writer),
    ];
    for (key, value) in texts {
        if let Some(value) = value {
            all.insert(key.to_owned(), json!(value));
        }
    }
    insert_list(&mut all, "devices", facts.devices.iter().map(device).collect());
    if !facts.other.is_empty() {
        all.insert("other".to_owned(), json!(facts.other));
    }
    all
}

fn device(facts: &DeviceFacts) -> Value {
    json!({ "device": facts.device.0, "name": facts.name, "total_bytes": facts.total_bytes })
}

fn mark(mark: &Mark) -> Value {
    json!({ "kind": mark.kind as u8, "name": mark.name, "time_us": mark.time_us, "begins": mark.begins })
}

fn tensor(tensor: &NamedTensor) -> Value {
    json!({
        "device": tensor.device.0, "address": tensor.address, "bytes": tensor.bytes, "kind": tensor.kind,
        "name": tensor.name, "dtype": tensor.dtype, "shape": tensor.shape, "time_us": tensor.time_us,
        "grad_fn": tensor.grad_fn, "events": tensor.events,
    })
}

fn holder(holder: &Holder) -> Value {
    json!({
        "device": holder.device.0, "address": holder.address, "path": holder.path, "time_us": holder.time_us,
        "events": holder.events,
    })
}

fn sample(sample: &Sample) -> Value {
    let stats: Map<String, Value> =
        sample.stats.iter().map(|(name, value)| (name.to_string(), json!(value))).collect();
    json!({
        "device": sample.device.0, "time_us": sample.time_us, "events": sample.events,
        "free_bytes": sample.free_bytes, "total_bytes": sample.total_bytes,
        "process_bytes": sample.process_bytes, "driver_calls": sample.driver_calls, "unstable": sample.unstable,
        "stats": stats,
    })
}
