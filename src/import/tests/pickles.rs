//! Pickles: all protocols, and the shortcuts against the general way.

use super::super::read_pickle;
use super::{bytes, read, read_file, words};
use crate::model::{Action, DeviceId, PoolId, StackId};

fn general(bytes: &[u8]) -> String {
    words(&read_pickle(bytes, false, &|_, _| {}).unwrap())
}

#[test]
fn every_protocol_says_the_same() {
    let wanted = words(&read_file("pickle/protocol4.pickle"));
    for protocol in 0..=5 {
        assert_eq!(words(&read_file(&format!("pickle/protocol{protocol}.pickle"))), wanted, "{protocol}");
    }
    assert_eq!(words(&read_file("pickle/unshared.pickle")), wanted);
}

#[test]
fn the_small_snapshot_is_read_in_full() {
    let trace = read_file("pickle/protocol4.pickle");
    assert!(trace.warnings.is_empty(), "{:?}", trace.warnings);
    assert_eq!(trace.devices.len(), 1);
    let device = &trace.devices[0];
    let third = device.events.get(2);
    assert_eq!(
        (third.address, third.stream, third.stack),
        ((1 << 63) + 512, 94_000_000_000_000, StackId::NONE)
    );
    assert_eq!(trace.event_pool(device, 2), Some(PoolId(0, 3)));
    assert_eq!(trace.event_pool(device, 1), None);
    let oom = device.events.get(3);
    assert_eq!((oom.action, oom.address, oom.size), (Action::Oom, 12_345, 1_000_000_000));
    assert_eq!(trace.strings.get(device.events.compile_contexts.get(2)), "graph 3");
    assert_eq!(trace.strings.get(device.events.compile_contexts.get(1)), "");
    let frames = trace.stacks.get(device.events.stacks[1]);
    let odd = trace.frames.get(frames[1]);
    assert_eq!((trace.strings.get(odd.function), odd.line), ("caf\u{e9} \"x\"\n", u64::MAX));
    assert_eq!(trace.process.devices[0].device, DeviceId(0));
    assert_eq!(trace.process.devices[0].total_bytes, Some(1 << 36));
    assert_eq!(trace.settings.roundup_power2_divisions()[1], 4);
}

#[test]
fn shortcuts_and_the_general_way_agree() {
    let files = [
        "pickle/protocol0.pickle",
        "pickle/protocol2.pickle",
        "pickle/protocol4.pickle",
        "pickle/unshared.pickle",
        "torch/cnn.pickle",
        "torch/streams.pickle",
        "torch/gpt_cpp.pickle.gz",
        "torch/annotated.pickle",
        "public/small.pickle",
        "public/impossible_values.pickle.gz",
        "public/oldest_form_full.pickle.gz",
    ];
    for name in files {
        let bytes = bytes(name);
        assert!(words(&read(&bytes).unwrap()) == general(&bytes), "{name}");
    }
}

#[test]
fn what_goes_on_behind_a_shortcut_is_read_again() {
    // A frame list that is complete, and then gets one more frame.
    let frame = |line: u8| {
        [b"}(\x8c\x04name\x8c\x01f\x8c\x08filename\x8c\x01g\x8c\x04lineK", &[line][..], b"u"].concat()
    };
    let event = [
        b"\x80\x04}(\x8c\x0ddevice_traces]](}(\x8c\x06action\x8c\x05alloc\x8c\x04addrK\x01\x8c\x04sizeK\x02\x8c\x06frames](".to_vec(),
        frame(1),
        b"e".to_vec(),
        frame(2),
        b"aueau.".to_vec(),
    ]
    .concat();
    let trace = read(&event).unwrap();
    let stack = trace.stacks.get(trace.devices[0].events.stacks[0]);
    assert_eq!(stack.iter().map(|&frame| trace.frames.get(frame).line).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn events_of_several_devices_stay_apart() {
    let list = |address: u8| {
        [
            b"](}(\x8c\x06action\x8c\x05alloc\x8c\x04addrK",
            &[address][..],
            b"\x8c\x04sizeK\x02\x8c\x06streamK",
            &[address],
            b"ue",
        ]
        .concat()
    };
    let pickle =
        [b"\x80\x04}(\x8c\x0ddevice_traces](".to_vec(), list(1), b"]".to_vec(), list(2), b"eu.".to_vec()]
            .concat();
    let trace = read(&pickle).unwrap();
    let devices: Vec<_> =
        trace.devices.iter().map(|device| (device.device.0, device.events.get(0))).collect();
    assert_eq!(
        devices.iter().map(|(id, event)| (*id, event.address, event.stream)).collect::<Vec<_>>(),
        [(0, 1, 1), (2, 2, 2)]
    );
}
