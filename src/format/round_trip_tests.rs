//! What is written is what is read: every field, every codec, every chunk size.
#![allow(clippy::unwrap_used)]

use crate::model::{EventCounts, Events, Format, Trace, TraceBuilder};

use super::samples::{assert_same, busy, full, packed, packed_with, tiny};
use super::{Checksums, Codec, WriteOptions, Writer, is_trace, outline, read};

#[test]
fn everything_survives_in_every_codec_and_chunk_size() {
    let trace = full();
    for codec in [Codec::None, Codec::Zstd, Codec::Zlib] {
        for chunk_events in [1, 7, 100, 16_384, usize::MAX] {
            let options = WriteOptions { codec, chunk_events, ..WriteOptions::default() };
            let bytes = packed_with(&trace, &options);
            assert!(is_trace(&bytes));
            let again = read(&bytes).unwrap();
            assert_same(&trace, &again);
            assert_eq!(again.format, Format::MemlabTrace);
        }
    }
}

#[test]
fn a_trace_read_and_written_again_is_the_same_file() {
    for trace in [Trace::default(), tiny(), busy(3_000, 1), full()] {
        let bytes = packed(&trace);
        assert_eq!(bytes, packed(&trace), "same input, same bytes");
        // An incomplete trace comes back incomplete, with no further warning.
        let again = read(&bytes).unwrap();
        assert_same(&trace, &again);
        assert_eq!(packed(&again), bytes);
    }
}

#[test]
fn events_of_the_last_chunk_and_without_times_survive() {
    let mut trace = busy(20_000, 3);
    for device in &mut trace.devices {
        device.events.times_us.fill(crate::model::NO_TIME);
    }
    let again = read(&packed(&trace)).unwrap();
    assert_same(&trace, &again);
    assert!(!again.devices[0].events.has_times());
}

#[test]
fn events_written_in_pieces_come_back_as_one_list() {
    let trace = busy(10_000, 5);
    let options = WriteOptions { chunk_events: 1_000, ..WriteOptions::default() };
    let mut bytes = Vec::new();
    let mut writer = Writer::begin(&trace, &options, &mut bytes).unwrap();
    for (from, to) in [(0, 3_000), (3_000, 3_000), (3_000, 7_500), (7_500, usize::MAX)] {
        let mut piece = trace.clone();
        for (device, whole) in piece.devices.iter_mut().zip(&trace.devices) {
            let stream_values = whole.events.stream_values.clone();
            device.events = Events { stream_values, ..Events::default() };
            for event in from..to.min(whole.events.len()) {
                device.events.push(whole.events.get(event));
            }
        }
        writer.events(&piece).unwrap();
    }
    writer.finish(&trace).unwrap();
    let again = read(&bytes).unwrap();
    assert_same(&trace, &again);
    let counts: Vec<_> = trace.devices.iter().map(|device| EventCounts::of(&device.events)).collect();
    assert_eq!(outline(&bytes, Checksums::AllButEvents).unwrap().counts, counts);
}

#[test]
fn thousands_of_streams_fit() {
    let mut builder = TraceBuilder::new();
    for stream in 0..20_000u64 {
        builder = builder.stream(u64::MAX - stream).alloc(512 * stream, 512);
    }
    let trace = builder.build();
    assert_same(&trace, &read(&packed(&trace)).unwrap());
}

#[test]
fn large_tables_are_split_and_survive() {
    let mut builder = TraceBuilder::new();
    let long = "x".repeat(3 << 20);
    for line in 0..300u64 {
        let function = format!("f{line}{}", "y".repeat(10_000));
        builder = builder
            .stack(&[("a.py", line, &function), ("b.py", line, if line == 9 { &long } else { "g" })])
            .alloc(512 * line, 512);
    }
    let trace = builder.build();
    assert_same(
        &trace,
        &read(&packed_with(&trace, &WriteOptions { codec: Codec::None, ..Default::default() })).unwrap(),
    );
}

#[test]
fn a_regular_trace_stays_readable_however_well_it_compresses() {
    let mut builder = TraceBuilder::new();
    for _ in 0..700_000 {
        builder = builder.alloc(4096, 512).free_requested(4096, 512).free_completed(4096, 512);
    }
    let trace = builder.build();
    let bytes = packed(&trace);
    let again = read(&bytes).unwrap();
    assert!(again.complete && again.warnings.is_empty(), "{:?}", again.warnings);
    assert_eq!(again.event_count(), 2_100_000);
    assert!(bytes.len() < 2_100_000, "{} bytes", bytes.len());
}

#[test]
fn text_over_the_bound_is_refused_by_the_writer() {
    let mut trace = tiny();
    trace.strings.intern(&"z".repeat(17 << 20));
    assert!(super::write(&trace, &WriteOptions::default(), &mut Vec::new()).is_err());
}
