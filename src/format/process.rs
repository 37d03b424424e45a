//! Chunks of process facts.
//!
//! A later chunk's keys replace an earlier one's, so that an emitter can add what it learns on the way.

use std::io;

use serde::Deserialize;

use crate::model::{DeviceFacts, DeviceId, ProcessFacts, Warnings};

use super::budget::{self, PLAIN_BYTE};
use super::chunk::{Chunk, Kind};
use super::cursor::{Cursor, Fault, Parse};
use super::fields::{read_map, unknown_key};
use super::packer::{MapPacker, Packer};
use super::read::Context;
use super::write::Sink;

/// How deep the values of `other` may nest.
const MAX_DEPTH: usize = 128;

/// Writes the facts, if anything is known.
pub(super) fn write(sink: &mut Sink<'_>, process: &ProcessFacts) -> io::Result<()> {
    let mut payload = MapPacker::default();
    let numbers = [
        ("rank", process.rank),
        ("local_rank", process.local_rank),
        ("world_size", process.world_size),
        ("pid", process.pid),
    ];
    for (key, value) in numbers {
        if let Some(value) = value {
            payload.uint(key, value);
        }
    }
    let texts = [
        ("torch_version", &process.torch_version),
        ("cuda_version", &process.cuda_version),
        ("python_version", &process.python_version),
        ("writer", &process.writer),
    ];
    for (key, value) in texts {
        if let Some(value) = value {
            payload.key(key).text(value);
        }
    }
    if !process.devices.is_empty() {
        pack_devices(payload.key("devices"), &process.devices);
    }
    if process.lost_events > 0 {
        payload.uint("lost_events", process.lost_events);
    }
    if !process.other.is_empty() {
        let other = rmp_serde::to_vec(&process.other).map_err(io::Error::other)?;
        payload.key("other").raw(&other);
    }
    if payload.is_empty() {
        return Ok(());
    }
    sink.emit(Kind::Process, MapPacker::default(), payload, |raw_len| {
        budget::rows(raw_len as u64, PLAIN_BYTE)
    })
}

fn pack_devices(packer: &mut Packer, devices: &[DeviceFacts]) {
    packer.array(devices.len());
    for device in devices {
        packer.map(3).text("device").uint(device.device.0.into());
        packer.text("name").text(&device.name).text("total_bytes");
        match device.total_bytes {
            Some(bytes) => packer.uint(bytes),
            None => packer.nil(),
        };
    }
}

/// Reads a chunk into the facts so far.
pub(super) fn read(chunk: &Chunk<'_>, context: &mut Context) -> Parse<()> {
    if !context.budget.spend(budget::rows(chunk.raw_len as u64, PLAIN_BYTE), chunk.end) {
        return Err(Fault::Wrong("more facts than a file of this length may hold"));
    }
    let payload = chunk.unpack(&mut context.unpacker)?;
    let mut process = context.trace.process.clone();
    let mut unknown = Warnings::default();
    read_map(payload, &mut context.trace.warnings, |key, cursor| {
        match key {
            "rank" => process.rank = cursor.optional_uint()?,
            "local_rank" => process.local_rank = cursor.optional_uint()?,
            "world_size" => process.world_size = cursor.optional_uint()?,
            "pid" => process.pid = cursor.optional_uint()?,
            "torch_version" => process.torch_version = cursor.optional_text()?,
            "cuda_version" => process.cuda_version = cursor.optional_text()?,
            "python_version" => process.python_version = cursor.optional_text()?,
            "writer" => process.writer = cursor.optional_text()?,
            "devices" => process.devices = read_devices(cursor, &mut unknown)?,
            "lost_events" => process.lost_events = cursor.uint()?,
            "other" => read_other(cursor, &mut process)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    context.trace.process = process;
    context.trace.warnings.merge(unknown);
    Ok(())
}

fn read_devices(cursor: &mut Cursor<'_>, unknown: &mut Warnings) -> Parse<Vec<DeviceFacts>> {
    let mut devices = Vec::new();
    for _ in 0..cursor.array()? {
        let mut device = DeviceFacts::default();
        for _ in 0..cursor.map()? {
            let key = cursor.text()?;
            match key.as_ref() {
                "device" => device.device = DeviceId(cursor.uint32()?),
                "name" => device.name = cursor.text()?.into_owned(),
                "total_bytes" => device.total_bytes = cursor.optional_uint()?,
                _ => {
                    cursor.skip()?;
                    unknown_key(unknown, &key);
                }
            }
        }
        devices.push(device);
    }
    Ok(devices)
}

fn read_other(cursor: &mut Cursor<'_>, process: &mut ProcessFacts) -> Parse<()> {
    for _ in 0..cursor.map()? {
        let key = cursor.text()?.into_owned();
        let start = cursor.position();
        cursor.skip()?;
        let mut value = rmp_serde::Deserializer::from_read_ref(cursor.since(start));
        value.set_max_depth(MAX_DEPTH);
        let value = serde_json::Value::deserialize(&mut value)
            .map_err(|_| Fault::Wrong("a process fact that is nested too deeply or is no plain value"))?;
        process.other.insert(key, value);
    }
    Ok(())
}
