//! Reads the public cases: a JSON snapshot each.

use std::io::Read;

use memlab::model::*;
use serde_json::Value;

fn stack(trace: &mut Trace, frames: &Value) -> StackId {
    let ids: Vec<_> = frames
        .as_array()
        .into_iter()
        .flatten()
        .map(|f| {
            let file = trace.strings.intern(f["filename"].as_str().unwrap());
            let function = trace.strings.intern(f["name"].as_str().unwrap());
            trace.frames.intern(Frame { file, function, line: f["line"].as_u64().unwrap() })
        })
        .collect();
    trace.stacks.intern(&ids)
}

/// TEMPORARY
pub(crate) fn load(name: &str) -> Trace {
    let path = format!("testdata/cases/{name}.json");
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(_) => {
            let mut bytes = Vec::new();
            let file = std::fs::File::open(format!("{path}.gz")).unwrap();
            flate2::read::GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
            bytes
        }
    };
    let v: Value = serde_json::from_slice(&bytes).unwrap();
    let mut t = Trace { complete: true, format: Format::TorchSnapshot, ..Trace::default() };
    let u = |v: &Value| v.as_u64().unwrap();
    for (d, events) in v["device_traces"].as_array().unwrap().iter().enumerate() {
        for e in events.as_array().unwrap() {
            let action = Action::from_name(e["action"].as_str().unwrap()).unwrap();
            let stack = stack(&mut t, &e["frames"]);
            let event = Event {
                action,
                time_us: e["time_us"].as_i64().unwrap(),
                address: e.get("addr").or(e.get("device_free")).map_or(0, u),
                size: u(&e["size"]),
                stream: u(&e["stream"]),
                stack,
            };
            let pool = e.get("pool_id").map(|p| PoolId(u(&p[0]), u(&p[1])));
            let index = pool.map(|p| t.pool_index(p));
            let dev = t.device_mut(DeviceId(d as u32));
            dev.events.push(event);
            if let Some(i) = index {
                let n = dev.events.len() - 1;
                dev.events.pools.set(n, i);
            }
        }
    }
    for s in v["segments"].as_array().unwrap() {
        let seg_stack = stack(&mut t, &s["frames"]);
        let blocks = s["blocks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|b| Block {
                address: u(&b["address"]),
                bytes: u(&b["size"]),
                requested_bytes: u(&b["requested_size"]),
                state: BlockState::from_name(b["state"].as_str().unwrap()).unwrap(),
                stack: stack(&mut t, &b["frames"]),
            })
            .collect();
        let p = &s["segment_pool_id"];
        let seg = Segment {
            address: u(&s["address"]),
            bytes: u(&s["total_size"]),
            stream: u(&s["stream"]),
            kind: if s["segment_type"] == "small" { SegmentKind::Small } else { SegmentKind::Large },
            pool: PoolId(u(&p[0]), u(&p[1])),
            is_expandable: s["is_expandable"] == true,
            stack: seg_stack,
            stated_bytes: [u(&s["allocated_size"]), u(&s["active_size"]), u(&s["requested_size"])],
            blocks,
        };
        t.device_mut(DeviceId(u(&s["device"]) as u32)).segments.get_or_insert_default().push(seg);
    }
    for device in &mut t.devices {
        if let Some(s) = &mut device.segments {
            s.sort_by_key(|s| s.address);
        }
    }
    for a in v["external_annotations"].as_array().into_iter().flatten() {
        let name = t.strings.intern(a["name"].as_str().unwrap());
        t.annotations.push(Annotation {
            name,
            begins: a["stage"] == "START",
            device: DeviceId(u(&a["device"]) as u32),
            time_us: a["time_us"].as_i64().unwrap(),
        });
    }
    t
}
