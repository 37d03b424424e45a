//! The report on recorded driver calls, held against what the recorded programs said themselves.
#![allow(clippy::unwrap_used)]

use crate::analysis::{Options, analyze};
use crate::driver::samples::{Calls, recorded};
use crate::model::{DriverCall, DriverLayer, Sample, Segment, Trace, TraceBuilder};
use crate::report::{DriverReport, DriverSumRow};

const MIB: u64 = 1 << 20;

fn of(trace: &Trace) -> DriverReport {
    let report = analyze("x", trace, &Options::default()).unwrap();
    report.driver.unwrap()
}

#[test]
fn the_recorded_program_is_told_whole() {
    let report = of(&recorded("cupti"));
    assert_eq!(
        (report.hook.as_deref(), report.program.as_deref(), report.complete),
        (Some("cupti"), Some("leaks"), true)
    );
    assert_eq!((report.calls, report.failed_calls, report.unknown_frees, report.unseen_frees), (36, 1, 0, 0));
    assert_eq!(report.by_call.iter().map(|row| row.calls).sum::<u64>(), report.calls);
    let device = &report.devices[0];
    // Kept: 1,000,001 twice by cudaMalloc, 1,000,011 of a pool, 4 MiB mapped, an array of 631,728.
    let kept = 2 * 1_000_001 + 1_000_011 + 4 * MIB + 631_728;
    assert_eq!(device.end_bytes, kept);
    let kinds: Vec<_> = device
        .kinds
        .iter()
        .map(|kind| (kind.kind.as_str(), kind.end_bytes, kind.taken, kind.given_back))
        .collect();
    assert_eq!(
        kinds,
        [
            ("device", 2_000_002, 4, 2),
            ("physical", 4 * MIB, 2, 1),
            ("pool", 1_000_011, 2, 1),
            ("array", 631_728, 2, 1),
            ("managed", 2_000_006, 4, 2),
        ]
    );
    let holders: Vec<_> =
        device.holders.iter().map(|row| (row.holder.as_str(), row.kind.as_str(), row.end_bytes)).collect();
    assert_eq!(holders, [("leaks", "program", kept)]);
    let host = report.host.unwrap();
    let kinds: Vec<_> =
        host.kinds.iter().map(|kind| (kind.kind.as_str(), kind.end_bytes, kind.taken)).collect();
    assert_eq!(kinds, [("pinned", 2_000_010, 4), ("registered", 0, 2)]);
    let refused = &report.refused[0];
    assert_eq!((refused.call.as_str(), refused.bytes, refused.result), ("device_alloc", 1 << 50, 2));
    assert_eq!(refused.held_bytes, kept - 1_000_001, "the thread came later");
}

#[test]
fn lines_holders_and_kinds_add_up_to_the_device() {
    for name in ["cupti", "torch", "expandable"] {
        let report = of(&recorded(name));
        let device = &report.devices[0];
        for (peak, end) in [
            device.holders.iter().fold((0, 0), |sum, row| (sum.0 + row.at_peak_bytes, sum.1 + row.end_bytes)),
            device
                .lines
                .iter()
                .filter(|row| row.kind != "managed")
                .fold((0, 0), |sum, row| (sum.0 + row.at_peak_bytes, sum.1 + row.kept_bytes)),
        ] {
            assert_eq!((peak, end), (device.peak_bytes, device.end_bytes), "{name}");
        }
        assert_eq!(device.timeline.allocated.iter().max(), Some(&device.peak_bytes), "{name}");
        assert_eq!(device.timeline.band_names.len(), device.timeline.bands.len(), "{name}");
        assert!(device.sums.is_empty() && device.join.is_none(), "no reading, no allocator: {name}");
    }
}

#[test]
fn holders_of_a_pytorch_job_are_named() {
    let report = of(&recorded("torch"));
    let held: Vec<_> =
        report.devices[0].holders.iter().map(|row| (row.holder.as_str(), row.end_bytes)).collect();
    assert_eq!(
        held,
        [("PyTorch's caching allocator", 383_778_816), ("cuBLAS", 67_240_960), ("cuDNN", 25_348)]
    );
    let expandable = of(&recorded("expandable"));
    assert_eq!(expandable.devices[0].holders[0].end_bytes, 404_750_336);
}

/// An allocator with two segments, and the calls that took them and 30 MiB more.
fn both_layers() -> Trace {
    let (one, two) = (0x7000_0000_0000, 0x7100_0000_0000);
    let mut trace = TraceBuilder::new()
        .at("a.py", 1, "f")
        .segment_alloc(one, 2 * MIB)
        .alloc(one, 512)
        .segment_alloc(two, 20 * MIB)
        .alloc(two, 20 * MIB)
        .oom(4 * MIB, 28 * MIB)
        .build();
    let calls = Calls::default()
        .handle(1)
        .give(DriverCall::ContextRetain)
        .at(one)
        .take(DriverCall::DeviceAlloc, 2 * MIB)
        .at(two)
        .take(DriverCall::DeviceAlloc, 20 * MIB)
        .at(0x9000)
        .stack(1)
        .take(DriverCall::DeviceAlloc, 30 * MIB);
    let mut layer = DriverLayer { rows: calls.rows, complete: true, ..DriverLayer::default() };
    let module = crate::model::NativeModule { path: "/n/libnccl.so.2".to_owned(), ..Default::default() };
    let module = layer.native.push_module(module);
    let frame = layer.native.push_frame(crate::model::NativeFrame { module, offset: 16 });
    layer.native.push_stack([frame]);
    trace.driver = Some(Box::new(layer));
    let segment = |address, bytes| Segment { address, bytes, ..Segment::default() };
    trace.devices[0].segments = Some(vec![segment(one, 2 * MIB), segment(two, 20 * MIB)]);
    for (order, free, process) in [(1, 90, 6), (4, 30, 59)] {
        trace.samples.push(Sample {
            time_us: 1_000_000 + order as i64,
            free_bytes: Some(free * MIB),
            total_bytes: Some(100 * MIB),
            process_bytes: Some(process * MIB),
            driver_calls: Some(order),
            ..Sample::default()
        });
    }
    trace
}

fn parts(sum: &DriverSumRow) -> Vec<(&str, u64)> {
    sum.parts.iter().map(|part| (part.holder.as_str(), part.bytes / MIB)).collect()
}

#[test]
fn segments_are_the_allocators_by_address_and_the_rest_is_named() {
    let report = of(&both_layers());
    let device = &report.devices[0];
    let join = device.join.unwrap();
    assert_eq!((join.segments, join.matched, join.matched_bytes), (2, 2, 22 * MIB));
    assert_eq!((join.live_segments, join.live_matched, join.live_matched_bytes), (2, 2, 22 * MIB));
    assert_eq!(join.takings_without_segment, 0);
    let end = device.sums.iter().find(|sum| sum.at == "end").unwrap();
    assert_eq!(parts(end), [("NCCL", 30), ("PyTorch's caching allocator", 22)]);
    assert_eq!(
        (end.used_bytes, end.context_bytes, end.others_bytes),
        (70 * MIB, Some(6 * MIB), Some(11 * MIB))
    );
    assert_eq!((end.loaded_bytes, end.unknown_bytes), (Some(MIB), 0));
    let oom = device.sums.iter().find(|sum| sum.at == "oom").unwrap();
    assert_eq!((oom.used_bytes, oom.others_bytes), (72 * MIB, Some(4 * MIB)));
    assert!(
        device
            .lines
            .iter()
            .any(|row| row.label() == "PyTorch's caching allocator" && row.kept_bytes == 22 * MIB)
    );
}

#[test]
fn above_the_holders_stands_what_the_device_said() {
    let device = of(&both_layers()).devices.remove(0);
    let timeline = &device.timeline;
    // From the first reading on 10 MiB are in use beside the calls, from the second on 18.
    assert_eq!(timeline.allocated.iter().map(|bytes| bytes / MIB).collect::<Vec<_>>(), [2, 22, 52]);
    assert_eq!(timeline.reserved.iter().map(|bytes| bytes / MIB).collect::<Vec<_>>(), [12, 32, 70]);
}

#[test]
fn a_reading_that_calls_disturbed_counts_only_if_there_is_no_other() {
    let mut trace = both_layers();
    let disturbed = Sample {
        time_us: 1_000_000,
        free_bytes: Some(10 * MIB),
        total_bytes: Some(100 * MIB),
        process_bytes: Some(80 * MIB),
        driver_calls: Some(1),
        unstable: true,
        ..Sample::default()
    };
    trace.samples.insert(0, disturbed.clone());
    let sums = of(&trace).devices.remove(0).sums;
    assert!(sums.iter().all(|sum| sum.context_bytes == Some(6 * MIB)), "{sums:?}");
    trace.samples = vec![disturbed];
    assert_eq!(of(&trace).devices[0].sums[0].context_bytes, Some(80 * MIB));
}

#[test]
fn a_device_that_is_asked_for_is_the_only_one() {
    let options = Options { device: Some(0), ..Options::default() };
    let report = analyze("x", &both_layers(), &options).unwrap().driver.unwrap();
    assert_eq!(report.devices.len(), 1);
}
