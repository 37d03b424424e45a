//! Counting a file without decoding it: what reading gives, and what facts alone can and cannot say.
#![allow(clippy::unwrap_used)]

use crate::model::{Events, NO_TIME, Outline, Trace};

use super::chunk::{Chunk, Kind, pack};
use super::column::{pack_delta, pack_offset};
use super::hostile_tests::{chunks, file_with};
use super::packer::MapPacker;
use super::samples::{assert_same, busy, full, packed_with, tiny};
use super::{Checksums, Codec, WriteOptions, outline, read};

const BOTH: [Checksums; 2] = [Checksums::All, Checksums::AllButEvents];

fn with_chunks_of(chunk_events: usize, codec: Codec) -> WriteOptions {
    WriteOptions { codec, chunk_events, ..WriteOptions::default() }
}

/// The chunks of events.
fn event_chunks(bytes: &[u8]) -> Vec<(usize, usize)> {
    let of_events =
        |&(from, to, kind): &(usize, usize, u64)| (kind == Kind::Events as u64).then_some((from, to));
    chunks(bytes).iter().filter_map(of_events).collect()
}

#[test]
fn an_outline_counts_what_reading_gives() {
    let mut untimed = busy(3_000, 3);
    untimed.devices[1].events.times_us.fill(NO_TIME);
    let mut late = busy(3_000, 4);
    late.devices[0].events.times_us[..2_000].fill(NO_TIME);
    for trace in [Trace::default(), tiny(), busy(20_000, 2), untimed, late, full()] {
        for codec in [Codec::None, Codec::Zstd, Codec::Zlib] {
            for chunk_events in [1, 100, 16_384, usize::MAX] {
                let bytes = packed_with(&trace, &with_chunks_of(chunk_events, codec));
                let whole = Outline::of(read(&bytes).unwrap());
                let mut without = whole.trace;
                without.devices.iter_mut().for_each(|device| device.events = Events::default());
                for checksums in BOTH {
                    let counted = outline(&bytes, checksums).unwrap();
                    assert_eq!(counted.counts, whole.counts);
                    assert_same(&without, &counted.trace);
                    let unchecked =
                        if checksums == Checksums::All { 0 } else { event_chunks(&bytes).len() as u64 };
                    assert_eq!(counted.unchecked_chunks, unchecked);
                }
            }
        }
    }
}

#[test]
fn an_outline_of_a_cut_file_counts_the_same_events() {
    let bytes = packed_with(&full(), &with_chunks_of(50, Codec::Zstd));
    for end in (200..bytes.len()).step_by(97) {
        let whole = Outline::of(read(&bytes[..end]).unwrap());
        for checksums in BOTH {
            let counted = outline(&bytes[..end], checksums).unwrap();
            assert_eq!(counted.counts, whole.counts, "cut at {end}");
            assert!(counted.trace.warnings.iter().eq(whole.trace.warnings.iter()), "cut at {end}");
        }
    }
}

#[test]
fn bytes_of_events_are_not_touched_and_damage_in_them_is_found_by_who_reads_them() {
    for codec in [Codec::None, Codec::Zstd] {
        let bytes = packed_with(&busy(3_000, 6), &with_chunks_of(500, codec));
        let good = outline(&bytes, Checksums::All).unwrap();
        let mut poisoned = bytes.clone();
        let parts = event_chunks(&bytes);
        for &(from, to) in &parts {
            let length = Chunk::parse(&bytes, from).unwrap().payload_length();
            // Behind the payload stands the checksum, of five bytes at most.
            poisoned[to - 5 - length..to - 5].fill(0xa5);
        }
        let counted = outline(&poisoned, Checksums::AllButEvents).unwrap();
        assert_eq!(counted.counts, good.counts);
        assert_same(&counted.trace, &good.trace);
        assert_eq!(counted.unchecked_chunks, parts.len() as u64);
        for trace in [outline(&poisoned, Checksums::All).unwrap().trace, read(&poisoned).unwrap()] {
            assert_eq!((trace.complete, trace.event_count()), (false, 0));
            assert!(trace.warnings.count("damaged-chunk") > 0, "{:?}", trace.warnings);
        }
    }
}

#[test]
fn what_looks_damaged_is_read_whole() {
    let bytes = packed_with(&busy(2_000, 8), &with_chunks_of(250, Codec::Zstd));
    let mut noticed = 0;
    for (from, _) in event_chunks(&bytes) {
        for at in from..from + 60 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x15;
            let [all, quick] = BOTH.map(|checksums| outline(&damaged, checksums));
            let (Ok(all), Ok(quick)) = (all, quick) else { panic!("byte {at}") };
            assert!(!all.trace.complete && all.trace.warnings.count("damaged-chunk") > 0);
            // Behind the pattern and the kind stand facts, in which a flip may pass for another value.
            if quick.unchecked_chunks == 0 || at < from + 9 {
                assert_eq!((quick.unchecked_chunks, &quick.counts), (0, &all.counts), "byte {at}");
                assert!(quick.trace.warnings.iter().eq(all.trace.warnings.iter()), "byte {at}");
                noticed += 1;
            }
        }
    }
    assert!(noticed > 8 * 40, "{noticed}");
}

#[test]
fn events_of_older_files_are_counted_from_their_bytes() {
    const OLDER: &[u8] = include_bytes!("../../testdata/format/python-writer.msgpack");
    let [all, quick] = BOTH.map(|checksums| outline(OLDER, checksums).unwrap());
    assert_eq!((quick.unchecked_chunks, quick.events()), (0, 3_001));
    assert_eq!(quick.counts, all.counts);
    let mut damaged = OLDER.to_vec();
    let (_, to) = event_chunks(OLDER)[0];
    damaged[to - 20] ^= 1;
    let counted = outline(&damaged, Checksums::AllButEvents).unwrap();
    assert!(!counted.trace.complete && counted.trace.warnings.count("damaged-chunk") > 0);
}

/// A file with one chunk of two allocations at times 5 and 9, which states `actions` and `times`.
fn stating(actions: &[u64], times: Option<(i64, i64)>) -> Vec<u8> {
    let (mut facts, mut payload) = (MapPacker::default(), MapPacker::default());
    facts.uint("device", 0).uint("first", 0).uint("count", 2);
    if let Some((start, end)) = times {
        facts.key("start_us").int(start);
        facts.key("end_us").int(end);
    }
    let packer = facts.key("actions");
    packer.array(actions.len());
    for &events in actions {
        packer.uint(events);
    }
    pack_offset(payload.key("action"), &[0, 0], 1);
    pack_delta(payload.key("time"), &[5, 9]);
    let chunk = pack(Kind::Events, &facts.into_bytes(), &payload.into_payload(), Codec::None, 0);
    file_with(&[chunk.unwrap()])
}

#[test]
fn facts_that_contradict_their_events_are_told_and_the_events_count() {
    let right = stating(&[2], Some((5, 9)));
    assert!(read(&right).unwrap().warnings.is_empty());
    let lies = [
        stating(&[1, 1], Some((5, 9))),
        stating(&[2, 1], Some((5, 9))),
        stating(&[], Some((5, 9))),
        stating(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2], Some((5, 9))),
        stating(&[2], Some((4, 9))),
        stating(&[2], None),
    ];
    for lie in &lies {
        let trace = read(lie).unwrap();
        assert_eq!((trace.complete, trace.warnings.count("wrong-fact")), (true, 1));
        assert_eq!(Outline::of(trace).counts, Outline::of(read(&right).unwrap()).counts);
    }
    // A sum that is not the number of events is noticed without decoding, and then these are counted.
    for lie in &lies[1..3] {
        let counted = outline(lie, Checksums::AllButEvents).unwrap();
        assert_eq!(counted.trace.warnings.count("wrong-fact"), 1);
        assert_eq!((counted.unchecked_chunks, counted.counts[0].actions[0]), (0, 2));
    }
}
