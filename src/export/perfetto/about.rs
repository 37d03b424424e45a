//! Names and descriptions of tracks: what a person reads beside the curves.
//!
//! Owns the words. Texts of the trace are made visible here.

use crate::model::{DeviceTrace, Trace, visible};

use super::axis::DeviceAxis;
use super::messages::{CounterDescriptor, ORDER_EXPLICIT, ProcessDescriptor, TrackDescriptor, UNIT_BYTES};

/// A track under `parent`; siblings stand in order of `rank`.
pub(super) fn track(parent: u64, rank: i32, name: &str, description: String) -> TrackDescriptor {
    TrackDescriptor {
        name: Some(visible(name).into_owned()),
        parent_uuid: Some(parent),
        sibling_order_rank: Some(rank),
        child_ordering: Some(ORDER_EXPLICIT),
        description: Some(description).filter(|text| !text.is_empty()),
        ..TrackDescriptor::default()
    }
}

/// A track of bytes; all with the same `scale` are drawn to one scale.
pub(super) fn counter(parent: u64, rank: i32, name: &str, scale: &str, description: &str) -> TrackDescriptor {
    TrackDescriptor {
        counter: Some(CounterDescriptor { unit: Some(UNIT_BYTES), y_axis_share_key: Some(scale.to_owned()) }),
        child_ordering: None,
        ..track(parent, rank, name, description.to_owned())
    }
}

/// The group of rows of one device. Its number stands in for a process id: one process may use several devices.
pub(super) fn device(trace: &Trace, device: &DeviceTrace, axis: &DeviceAxis<'_>) -> TrackDescriptor {
    let number = device.device.0;
    let facts = trace.process.devices.iter().find(|facts| facts.device == device.device);
    let product = facts.map(|facts| facts.name.as_str()).filter(|name| !name.is_empty());
    let mut name = format!("GPU {number}");
    if let Some(product) = product {
        name = format!("{name} ({})", visible(product));
    }
    if !axis.clock.is_time() {
        name.push_str(" - time is the event number, 1 us = 1 event");
    }
    let label = |name: &str, value: Option<u64>| value.map(|value| format!("{name} {value}"));
    let process = ProcessDescriptor {
        pid: Some(i32::try_from(u64::from(number) + 1).unwrap_or(i32::MAX)),
        process_name: Some(name),
        process_labels: [label("rank", trace.process.rank), label("pid", trace.process.pid)]
            .into_iter()
            .flatten()
            .collect(),
    };
    TrackDescriptor {
        process: Some(process),
        child_ordering: Some(ORDER_EXPLICIT),
        description: Some(format!(
            "Written by memlab {}: the CUDA caching allocator's own counters, rebuilt from its events. Timestamps \
             count from the first event.",
            env!("CARGO_PKG_VERSION")
        )),
        ..TrackDescriptor::default()
    }
}
