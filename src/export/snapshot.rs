//! The snapshot: its keys in the order in which PyTorch writes them.

use std::io::{self, Write};

use rustc_hash::FxHashMap;

use crate::error::{Error, Result};
use crate::model::{
    Action, Annotation, Block, BlockState, DeviceId, DeviceTrace, FREE_UNKNOWN, Segment, SegmentKind,
    SettingValue, StackId, StringId, Trace,
};

use super::memlab_key;
use super::pickler::{Memo, Pickler};

/// `device_traces` has one list per device up to the highest.
const DEVICES_MAX: u32 = 1024;

/// Writes `trace` as a PyTorch snapshot. Reading it back gives the same figures.
///
/// # Errors
/// When `out` fails, or when a device index is beyond 1024.
pub fn write_snapshot(trace: &Trace, out: &mut dyn Write) -> Result<()> {
    if let Some(device) = trace.devices.iter().map(|device| device.device.0).find(|&id| id >= DEVICES_MAX) {
        let what = format!("device {device} cannot be in a snapshot, whose devices are listed from 0");
        return Err(Error::Shape { what });
    }
    let mut writer = Writer {
        trace,
        pickler: Pickler::new(out),
        words: FxHashMap::default(),
        strings: vec![None; trace.strings.len()],
        frames: vec![None; trace.frames.len()],
        stacks: vec![None; trace.stacks.len()],
    };
    writer.snapshot()?;
    writer.pickler.finish()?;
    Ok(())
}

pub(super) struct Writer<'t, 'w> {
    pub(super) trace: &'t Trace,
    pub(super) pickler: Pickler<'w>,
    /// Keys and fixed values that were written.
    pub(super) words: FxHashMap<&'static str, Memo>,
    pub(super) strings: Vec<Option<Memo>>,
    pub(super) frames: Vec<Option<Memo>>,
    pub(super) stacks: Vec<Option<Memo>>,
}

impl Writer<'_, '_> {
    fn snapshot(&mut self) -> io::Result<()> {
        self.pickler.empty_dict();
        self.pickler.mark();
        self.key("segments")?;
        let segments: Vec<(DeviceId, &Segment)> = self
            .trace
            .devices
            .iter()
            .flat_map(|device| device.segments.iter().flatten().map(|segment| (device.device, segment)))
            .collect();
        self.list(&segments, |writer, (device, segment)| writer.segment(*device, segment))?;
        self.key("device_traces")?;
        self.device_traces()?;
        self.key("allocator_settings")?;
        self.settings()?;
        self.key("external_annotations")?;
        let annotations = &self.trace.annotations;
        self.list(annotations, Self::annotation)?;
        self.own_keys()?;
        self.pickler.set_items();
        Ok(())
    }

    /// Keys that PyTorch does not write.
    fn own_keys(&mut self) -> io::Result<()> {
        let totals = &self.trace.process.devices;
        if let Some(total) = totals.first().and_then(|first| first.total_bytes)
            && totals.iter().all(|device| device.total_bytes == Some(total))
        {
            self.int("device_total", total)?;
        }
        if let Some(text) = memlab_key::text(self.trace) {
            self.key("memlab")?;
            self.pickler.text(&text)?;
        }
        Ok(())
    }

    fn device_traces(&mut self) -> io::Result<()> {
        let count = self.trace.devices.last().map_or(0, |device| device.device.0 + 1);
        let devices: Vec<Option<&DeviceTrace>> =
            (0..count).map(|device| self.trace.device(DeviceId(device))).collect();
        self.list(&devices, |writer, device| {
            let Some(device) = device else {
                writer.pickler.empty_list();
                return Ok(());
            };
            // Units: a slice of them has a length and takes no memory.
            let rows = vec![(); device.events.len()];
            let mut row = 0;
            writer.list(&rows, |writer, ()| {
                row += 1;
                writer.event(device, row - 1)
            })
        })
    }

    fn event(&mut self, device: &DeviceTrace, row: usize) -> io::Result<()> {
        let event = device.events.get(row);
        let columns = &device.events;
        self.open()?;
        self.key("action")?;
        if event.action == Action::Other {
            let name = columns.other_actions.binary_search_by_key(&(row as u64), |&(row, _)| row);
            self.string(name.map_or(StringId(0), |at| columns.other_actions[at].1))?;
        } else {
            self.key(event.action.name())?;
        }
        if event.action != Action::Oom {
            self.int("addr", event.address)?;
        } else if event.address != FREE_UNKNOWN {
            self.int("device_free", event.address)?;
        }
        self.int("size", event.size)?;
        self.int("stream", event.stream)?;
        self.time(event.time_us)?;
        self.key("compile_context")?;
        match columns.compile_contexts.get(row) {
            StringId(0) => self.key("N/A")?,
            context => self.string(context)?,
        }
        self.key("user_metadata")?;
        self.string(columns.user_metadata.get(row))?;
        if columns.internal_metadata.get(row) != StringId(0) {
            self.key("internal_metadata")?;
            self.string(columns.internal_metadata.get(row))?;
        }
        if let Some(pool) = self.trace.event_pool(device, row) {
            self.pool("pool_id", pool)?;
        }
        if event.stack != StackId::NONE {
            self.key("frames")?;
            self.stack(event.stack)?;
        }
        if columns.forward_frames.get(row) != StringId(0) {
            self.key("forward_frames")?;
            let lines: Vec<&str> =
                self.trace.strings.get(columns.forward_frames.get(row)).split('\n').collect();
            self.list(&lines, |writer, line| writer.pickler.text(line))?;
        }
        self.pickler.set_items();
        Ok(())
    }

    fn segment(&mut self, device: DeviceId, segment: &Segment) -> io::Result<()> {
        let sum = |bytes: fn(&Block) -> u64| segment.blocks.iter().map(bytes).fold(0, u64::saturating_add);
        let made = [
            sum(|block| if block.state == BlockState::ActiveAllocated { block.bytes } else { 0 }),
            sum(|block| if block.state == BlockState::Inactive { 0 } else { block.bytes }),
            sum(|block| if block.state == BlockState::Inactive { 0 } else { block.requested_bytes }),
        ];
        self.open()?;
        self.int("device", u64::from(device.0))?;
        self.int("address", segment.address)?;
        self.int("total_size", segment.bytes)?;
        for (slot, key) in ["allocated_size", "active_size", "requested_size"].into_iter().enumerate() {
            // What the recording stated, even where its blocks say otherwise; it may have stated nothing.
            let stated = segment.stated_bytes[slot];
            self.int(key, if stated == 0 { made[slot] } else { stated })?;
        }
        self.int("stream", segment.stream)?;
        self.key("segment_type")?;
        self.key(if segment.kind == SegmentKind::Small { "small" } else { "large" })?;
        self.pool("segment_pool_id", segment.pool)?;
        self.key("is_expandable")?;
        self.pickler.bool(segment.is_expandable);
        self.key("frames")?;
        self.stack(segment.stack)?;
        self.key("blocks")?;
        self.list(&segment.blocks, Self::block)?;
        self.pickler.set_items();
        Ok(())
    }

    fn block(&mut self, block: &Block) -> io::Result<()> {
        self.open()?;
        self.int("address", block.address)?;
        self.int("size", block.bytes)?;
        self.int("requested_size", block.requested_bytes)?;
        self.key("state")?;
        self.key(block.state.name())?;
        self.key("frames")?;
        self.stack(block.stack)?;
        self.pickler.set_items();
        Ok(())
    }

    fn annotation(&mut self, annotation: &Annotation) -> io::Result<()> {
        self.open()?;
        self.key("stage")?;
        self.key(if annotation.begins { "START" } else { "END" })?;
        self.key("name")?;
        self.string(annotation.name)?;
        if annotation.device != DeviceId(u32::MAX) {
            self.int("device", u64::from(annotation.device.0))?;
        }
        self.time(annotation.time_us)?;
        self.pickler.set_items();
        Ok(())
    }

    fn settings(&mut self) -> io::Result<()> {
        self.open()?;
        for (key, value) in &self.trace.settings.values {
            self.pickler.text(key)?;
            match value {
                SettingValue::Bool(value) => self.pickler.bool(*value),
                SettingValue::Int(value) => self.pickler.int(*value),
                SettingValue::Float(value) => self.pickler.float(*value),
                SettingValue::Text(text) => self.pickler.text(text)?,
                SettingValue::Map(map) => {
                    self.open()?;
                    for (key, value) in map {
                        self.pickler.text(key)?;
                        self.pickler.int(*value);
                    }
                    self.pickler.set_items();
                }
            }
        }
        self.pickler.set_items();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::model::{DeviceFacts, Holder, Mark, MarkKind, NamedTensor, PoolId, TraceBuilder};

    fn round(trace: &Trace) -> (Vec<u8>, Trace) {
        let mut bytes = Vec::new();
        write_snapshot(trace, &mut bytes).unwrap();
        let read = crate::import::read_bytes(&bytes, &crate::import::ReadOptions::default()).unwrap();
        (bytes, read)
    }

    fn file(name: &str) -> Trace {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name);
        crate::import::read_path(&path, &crate::import::ReadOptions::default(), &|_, _| {}).unwrap()
    }

    #[test]
    fn what_is_written_twice_is_the_same_bytes() {
        // The numbering of tables follows the order in which they are met, so the second round is a fixed point.
        for name in [
            "pickle/protocol4.pickle",
            "torch/cnn.pickle",
            "torch/annotated.pickle",
            "public/impossible_values.pickle.gz",
        ] {
            let first = file(name);
            let (bytes, second) = round(&first);
            let (again, third) = round(&second);
            assert_eq!(bytes, again, "{name}");
            assert_eq!(first.warnings, third.warnings, "{name}");
            for (a, b) in first.devices.iter().zip(&third.devices) {
                assert_eq!(a.events.actions, b.events.actions);
                assert_eq!(a.events.addresses, b.events.addresses);
                assert_eq!(a.events.sizes, b.events.sizes);
                assert_eq!(a.events.times_us, b.events.times_us);
                assert_eq!(a.events.streams, b.events.streams);
                assert_eq!(a.segments.as_ref().map(Vec::len), b.segments.as_ref().map(Vec::len));
            }
            assert_eq!(first.settings, third.settings);
            assert_eq!(first.annotations.len(), third.annotations.len());
        }
    }

    #[test]
    fn what_a_snapshot_has_no_place_for_comes_back() {
        let mut trace = TraceBuilder::new().device(2).segment_alloc(4096, 2 << 20).alloc(4096, 10).build();
        trace.complete = false;
        trace.process.rank = Some(3);
        trace.process.writer = Some("memlab".to_owned());
        let facts = |id, total| DeviceFacts {
            device: DeviceId(id),
            name: "H200".to_owned(),
            total_bytes: Some(total),
        };
        trace.process.devices = vec![facts(0, 5), facts(2, 7)];
        trace.marks = vec![Mark { kind: MarkKind::Step, name: "1".to_owned(), time_us: 5, begins: None }];
        trace.tensors = vec![NamedTensor {
            address: 4096,
            shape: vec![2, 3],
            name: "w".to_owned(),
            ..NamedTensor::default()
        }];
        trace.holders = vec![Holder { address: 4096, path: "a.b".to_owned(), ..Holder::default() }];
        let (_, read) = round(&trace);
        assert!(!read.complete && read.devices[0].segments.is_none());
        assert_eq!(read.devices[0].device, DeviceId(2));
        assert_eq!(read.process, trace.process);
        assert_eq!((read.marks, read.tensors, read.holders), (trace.marks, trace.tensors, trace.holders));
    }

    #[test]
    fn long_stacks_and_lists_are_written_in_batches() {
        let frames: Vec<(&str, u64, &str)> = (0..2500).map(|line| ("a.py", line, "f")).collect();
        let mut builder = TraceBuilder::new().stack(&frames);
        for n in 0..2500 {
            builder = builder.alloc(4096 * n, 10);
        }
        let trace = builder.build();
        let (_, read) = round(&trace);
        let events = &read.devices[0].events;
        assert_eq!(events.len(), 2500);
        assert_eq!(read.stacks.get(events.stacks[2499]).len(), 2500);
        assert_eq!(read.stacks.len(), 2);
    }

    #[test]
    fn unknown_actions_and_pools_come_back() {
        let text = br#"{"segments": [], "device_traces": [[{"action": "later", "size": 1, "pool_id": [0, 9], "forward_frames": ["a", "b"]}]]}"#;
        let trace = crate::import::read_bytes(text, &crate::import::ReadOptions::default()).unwrap();
        let (_, read) = round(&trace);
        let events = &read.devices[0].events;
        assert_eq!(read.strings.get(events.other_actions[0].1), "later");
        assert_eq!(read.strings.get(events.forward_frames.get(0)), "a\nb");
        assert_eq!(read.event_pool(&read.devices[0], 0), Some(PoolId(0, 9)));
    }

    #[test]
    fn devices_beyond_the_list_are_an_error() {
        let trace = TraceBuilder::new().device(5000).alloc(1, 1).build();
        assert!(write_snapshot(&trace, &mut Vec::new()).is_err());
    }
}
