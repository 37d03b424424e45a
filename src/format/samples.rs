//! Traces for the tests of this folder, and the exact comparison of two traces.
#![allow(clippy::unwrap_used)]

use serde_json::json;

use crate::model::{
    Action, Annotation, Block, BlockState, DeviceFacts, DeviceId, Events, Holder, Mark, MarkKind, NO_TIME,
    NamedTensor, OptionalColumn, PoolId, Sample, Segment, SegmentKind, SettingValue, StackId, StringId,
    Trace, TraceBuilder,
};

use super::{WriteOptions, write};

/// A trace in the default options.
pub(super) fn packed(trace: &Trace) -> Vec<u8> {
    packed_with(trace, &WriteOptions::default())
}

pub(super) fn packed_with(trace: &Trace, options: &WriteOptions) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(trace, options, &mut bytes).unwrap();
    bytes
}

/// Seeded numbers, the same on every machine.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// The smallest trace that says something.
pub(super) fn tiny() -> Trace {
    TraceBuilder::new()
        .segment_alloc(0x7000_0000_0000, 2 << 20)
        .at("train.py", 12, "step")
        .alloc(0x7000_0000_0000, 4096)
        .build()
}

/// `events` allocations and frees on two devices, with stacks, streams and a few of all else.
pub(super) fn busy(events: usize, seed: u64) -> Trace {
    let mut random = Random(seed);
    let mut builder = TraceBuilder::new();
    for event in 0..events {
        let address = 0x7f00_0000_0000 + 512 * random.below(1 << 16);
        builder = builder.device((event % 7 == 0).into()).stream(random.below(3) * 0x5555_0000);
        let line = 10 + random.below(40);
        let file = if line.is_multiple_of(2) { "train.py" } else { "model/blocks.py" };
        builder = builder.stack(&[(file, line, "forward"), ("main.py", 3, "<module>")]);
        builder = match random.below(3) {
            0 => builder.alloc(address, 1 + random.below(1 << 22)),
            1 => builder.free_requested(address, 4096),
            _ => builder.free_completed(address, 4096),
        };
    }
    builder.build()
}

/// Every field of the model at work.
pub(super) fn full() -> Trace {
    let mut trace = busy(500, 7);
    add_rare_columns(&mut trace);
    add_segments(&mut trace);
    add_settings(&mut trace);
    add_process(&mut trace);
    add_notes(&mut trace);
    trace.strings.intern("named by nothing");
    trace.driver = Some(Box::new(super::driver::tests::layer(700)));
    trace.complete = true;
    trace
}

fn add_rare_columns(trace: &mut Trace) {
    let pool = trace.pool_index(PoolId(0, 3));
    trace.pool_index(PoolId(u64::MAX, 0));
    let texts =
        ["0/0", "step 3", "π ≠ \u{0}", "f1\nf2", "user_defined"].map(|text| trace.strings.intern(text));
    let events = &mut trace.device_mut(DeviceId(0)).events;
    events.pools.set(3, pool);
    events.pools.set(400, pool + 1);
    for (column, text) in [
        (&mut events.compile_contexts, texts[0]),
        (&mut events.user_metadata, texts[1]),
        (&mut events.internal_metadata, texts[2]),
        (&mut events.forward_frames, texts[3]),
    ] {
        column.set(100, text);
        column.set(101, text);
    }
    for row in [7, 399] {
        events.actions[row] = Action::Other;
        events.other_actions.push((row as u64, texts[4]));
    }
    events.actions[8] = Action::Oom;
    events.times_us[9] = NO_TIME;
    events.sizes[10] = u64::MAX;
}

fn add_segments(trace: &mut Trace) {
    let block = |address, bytes, state| Block {
        address,
        bytes,
        requested_bytes: bytes - 3,
        state,
        stack: StackId(2),
    };
    let segment = Segment {
        address: 1 << 46,
        bytes: 2 << 20,
        stream: 0x5555_0000,
        kind: SegmentKind::Small,
        pool: PoolId(0, 3),
        is_expandable: true,
        stack: StackId(1),
        stated_bytes: [512, 1024, 509],
        blocks: vec![
            block(1 << 46, 512, BlockState::ActiveAllocated),
            block((1 << 46) + 512, 512, BlockState::ActivePendingFree),
            block((1 << 46) + 1024, (2 << 20) - 1024, BlockState::Inactive),
        ],
    };
    let other = Segment { address: 1 << 47, bytes: 20 << 20, ..Segment::default() };
    trace.device_mut(DeviceId(0)).segments = Some(vec![segment, other]);
    trace.device_mut(DeviceId(1)).segments = Some(Vec::new());
    trace.device_mut(DeviceId(5));
}

fn add_settings(trace: &mut Trace) {
    let divisions = [("1".to_owned(), 8), ("32768".to_owned(), -(1i128 << 100))].into_iter().collect();
    for (key, value) in [
        ("PYTORCH_CUDA_ALLOC_CONF", SettingValue::Text("max_split_size_mb:64".to_owned())),
        ("max_split_size", SettingValue::Int(-1)),
        ("largest", SettingValue::Int(u64::MAX.into())),
        ("larger", SettingValue::Int(1 << 70)),
        ("garbage_collection_threshold", SettingValue::Float(0.6)),
        ("expandable_segments", SettingValue::Bool(true)),
        ("roundup_power2_divisions", SettingValue::Map(divisions)),
    ] {
        trace.settings.values.insert(key.to_owned(), value);
    }
}

fn add_process(trace: &mut Trace) {
    let process = &mut trace.process;
    (process.rank, process.local_rank, process.world_size, process.pid) =
        (Some(3), Some(1), Some(8), Some(4242));
    process.torch_version = Some("2.11.0".to_owned());
    process.cuda_version = Some("13.0".to_owned());
    process.python_version = Some("3.12.1".to_owned());
    process.writer = Some("memlab 0.1.0".to_owned());
    process.devices = vec![
        DeviceFacts {
            device: DeviceId(0),
            name: "NVIDIA H200".to_owned(),
            total_bytes: Some(150_754_820_096),
        },
        DeviceFacts { device: DeviceId(1), name: String::new(), total_bytes: None },
    ];
    process.lost_events = 17;
    let facts = json!({"free": [1, -2, 3.5, null, true, "x"], "deep": {"a": {"b": [[[]]]}}});
    process.other.insert("driver".to_owned(), facts);
    process.other.insert("memory_fraction".to_owned(), json!(0.5));
}

fn add_notes(trace: &mut Trace) {
    let name = trace.strings.intern("Optimizer.step#AdamW.step");
    for (begins, device, time_us) in [(true, 0, 1_000_010), (false, u32::MAX, NO_TIME)] {
        trace.annotations.push(Annotation { name, begins, device: DeviceId(device), time_us });
    }
    let kinds = [MarkKind::Step, MarkKind::Phase, MarkKind::Module, MarkKind::User];
    for (row, (kind, begins)) in kinds.into_iter().zip([None, Some(true), Some(false), None]).enumerate() {
        let name = format!("mark {}", row % 2);
        trace.marks.push(Mark { kind, name, time_us: 1_000_000 - row as i64, begins });
    }
    for shape in [vec![], vec![1024, 4096], vec![u64::MAX]] {
        let dimensions = shape.len() as u64;
        trace.tensors.push(NamedTensor {
            device: DeviceId(1),
            address: (1 << 46) + dimensions,
            bytes: 4096 * dimensions,
            kind: "parameter".to_owned(),
            name: format!("blocks.{dimensions}.weight"),
            dtype: "torch.bfloat16".to_owned(),
            shape,
            time_us: 5,
            grad_fn: if dimensions == 1 { "MulBackward0".to_owned() } else { String::new() },
            events: dimensions.checked_sub(1),
        });
    }
    let path = "train.CACHE.data[3]".to_owned();
    trace.holders.push(Holder { device: DeviceId(0), address: 1 << 46, path, time_us: -5, events: Some(17) });
    let fault = Mark { kind: MarkKind::Fault, name: "lost 3 events".to_owned(), time_us: 9, begins: None };
    trace.marks.push(fault);
    add_counters(trace);
    trace.warnings.add_many("unknown-key", 3, || "key `shiny` is not known".to_owned());
    trace.warnings.add_about("odd-schema", "segments", 2, || "first".to_owned());
    trace.warnings.add_about("odd-schema", "blocks", 1, || "second".to_owned());
}

fn add_counters(trace: &mut Trace) {
    trace.samples.push(Sample::default());
    for (device, events) in [(0, Some(500)), (1, None)] {
        let stats = [("allocated_bytes.all.current", 1 << 40), ("max_split_size", -1)];
        trace.samples.push(Sample {
            device: DeviceId(device),
            time_us: 1_000_123,
            events,
            free_bytes: events.map(|_| 3 << 30),
            total_bytes: Some(150_109_880_320),
            process_bytes: events.map(|_| 514 << 20),
            driver_calls: Some(device.into()),
            unstable: device == 1,
            stats: stats.into_iter().map(|(name, value)| (name.into(), value)).collect(),
        });
    }
}

/// Panics where two traces differ. `Trace::format` is not compared: it says what kind of file was read.
#[track_caller]
pub(super) fn assert_same(left: &Trace, right: &Trace) {
    assert_eq!(left.complete, right.complete, "complete");
    assert!(left.strings.iter().eq(right.strings.iter()), "strings");
    assert_eq!(left.frames.rows(), right.frames.rows(), "frames");
    assert!(left.stacks.iter().eq(right.stacks.iter()), "stacks");
    assert_eq!(left.pools, right.pools, "pools");
    assert_eq!(left.settings, right.settings, "settings");
    assert_eq!(left.annotations, right.annotations, "annotations");
    assert_eq!(left.process, right.process, "process");
    assert_eq!(left.marks, right.marks, "marks");
    assert_eq!(left.tensors, right.tensors, "tensors");
    assert_eq!(left.holders, right.holders, "holders");
    assert_eq!(left.samples, right.samples, "samples");
    assert!(left.warnings.iter().eq(right.warnings.iter()), "{:?} and {:?}", left.warnings, right.warnings);
    assert_eq!(left.driver, right.driver, "driver calls");
    assert_eq!(left.devices.len(), right.devices.len(), "devices");
    for (left, right) in left.devices.iter().zip(&right.devices) {
        assert_eq!(left.device, right.device, "device");
        assert_eq!(left.segments, right.segments, "segments of {:?}", left.device);
        assert_same_events(&left.events, &right.events);
    }
}

#[track_caller]
fn assert_same_events(left: &Events, right: &Events) {
    assert_eq!(left.actions, right.actions, "actions");
    assert_eq!(left.times_us, right.times_us, "times");
    assert_eq!(left.addresses, right.addresses, "addresses");
    assert_eq!(left.sizes, right.sizes, "sizes");
    assert_eq!(left.streams, right.streams, "stream numbers");
    assert_eq!(left.stream_values, right.stream_values, "streams");
    assert_eq!(left.stacks, right.stacks, "stacks of events");
    assert_eq!(left.other_actions, right.other_actions, "other actions");
    assert_eq!(left.pools, right.pools, "pools of events");
    let columns = |events: &Events| -> [OptionalColumn<StringId>; 4] {
        [
            events.compile_contexts.clone(),
            events.user_metadata.clone(),
            events.internal_metadata.clone(),
            events.forward_frames.clone(),
        ]
    };
    assert_eq!(columns(left), columns(right), "texts of events");
}
