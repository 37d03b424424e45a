//! Files that are cut, damaged or made to hurt: never a panic, never memory out of proportion, and what is
//! left is read and said.
#![allow(clippy::unwrap_used)]

use crate::error::Error;
use crate::model::{DeviceId, Trace};

use super::chunk::{Chunk, Kind, MAGIC, pack};
use super::column::pack_offset;
use super::packer::{MapPacker, Packer};
use super::samples::{Random, assert_same, busy, full, packed, packed_with, tiny};
use super::{Codec, MAX_RAW, WriteOptions, is_trace, read};

fn small_chunks() -> WriteOptions {
    WriteOptions { chunk_events: 100, ..WriteOptions::default() }
}

/// Offsets and kinds of all chunks.
pub(super) fn chunks(bytes: &[u8]) -> Vec<(usize, usize, u64)> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let chunk = Chunk::parse(bytes, at).unwrap();
        found.push((at, chunk.end, chunk.kind));
        at = chunk.end;
    }
    found
}

/// Header, `extra`, trailer.
pub(super) fn file_with(extra: &[Vec<u8>]) -> Vec<u8> {
    let plain = packed(&Trace { complete: true, ..Trace::default() });
    let parts = chunks(&plain);
    let mut trailer = MapPacker::default();
    trailer.key("clean").bool(true);
    let trailer = pack(Kind::Trailer, &trailer.into_bytes(), &[], Codec::None, 0).unwrap();
    [&plain[..parts[0].1], &extra.concat(), &trailer].concat()
}

fn event_facts(count: u64) -> MapPacker {
    let mut facts = MapPacker::default();
    facts.uint("device", 0).uint("first", 0).uint("count", count);
    facts
}

#[test]
fn an_empty_or_foreign_file_is_no_trace() {
    for bytes in [&b""[..], b"\x80\x02}q\x00", &MAGIC, &[0x97]] {
        assert!(!is_trace(bytes));
        assert!(matches!(read(bytes), Err(Error::UnknownFormat { .. })));
    }
    assert!(matches!(read(&packed(&tiny())[..12]), Err(Error::Corrupt { offset: 0, .. })));
}

#[test]
fn a_cut_file_is_read_up_to_its_last_whole_chunk() {
    let trace = full();
    let bytes = packed_with(&trace, &small_chunks());
    let ends: Vec<_> = chunks(&bytes);
    let mut most = 0;
    for part in 1..64 {
        let cut = &bytes[..bytes.len() * part / 64];
        let whole = ends.iter().filter(|chunk| chunk.1 <= cut.len()).count();
        let again = read(cut).unwrap();
        assert!(!again.complete, "cut at {part}/64");
        assert_eq!(again.warnings.count("truncated"), 1, "cut at {part}/64");
        assert_eq!(again.warnings.count("damaged-chunk"), 0, "cut at {part}/64");
        let lost = cut.len() - ends[..whole].last().map_or(0, |chunk| chunk.1);
        let text = again.warnings.iter().find(|warning| warning.kind == "truncated").unwrap().text.clone();
        assert!(text.contains(&format!("last {lost} bytes")), "{text}");
        assert!(again.event_count() >= most, "a longer file says more");
        most = again.event_count();
        let whole_events = ends[..whole].iter().filter(|chunk| chunk.2 == Kind::Events as u64).count();
        assert!(again.event_count() >= whole_events.saturating_sub(2) * 100);
    }
    assert_eq!(most, trace.event_count());
}

#[test]
fn a_cut_at_every_byte_neither_panics_nor_completes() {
    let bytes = packed(&tiny());
    for length in 0..bytes.len() {
        if let Ok(trace) = read(&bytes[..length]) {
            assert!(!trace.complete && !trace.warnings.is_empty(), "{length}");
        }
    }
}

#[test]
fn flipped_bytes_are_survived_and_never_silent() {
    let trace = full();
    let bytes = packed_with(&trace, &small_chunks());
    let mut random = Random(0x5eed);
    for round in 0..2_000 {
        let mut damaged = bytes.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len() as u64) as usize;
            damaged[at] ^= 1 + random.below(255) as u8;
        }
        let Ok(again) = read(&damaged) else {
            assert!(!is_trace(&damaged) || damaged == bytes, "round {round}");
            continue;
        };
        // Two flips may cancel out.
        if damaged != bytes {
            assert!(!again.complete, "round {round}");
            let said = ["damaged-chunk", "truncated", "missing-chunk"].map(|kind| again.warnings.count(kind));
            assert!(said.iter().sum::<u64>() > 0, "round {round}: {:?}", again.warnings);
        }
    }
}

#[test]
fn contents_that_lie_under_a_right_checksum_are_survived() {
    let bytes = packed_with(&full(), &WriteOptions { codec: Codec::None, ..small_chunks() });
    let all = chunks(&bytes);
    let mut random = Random(0xc4c);
    let mut read_back = 0;
    for _ in 0..2_000 {
        let mut damaged = bytes.clone();
        let (from, to, _) = all[random.below(all.len() as u64) as usize];
        let checksum = to - 5;
        if damaged[checksum] != 0xce {
            continue;
        }
        for _ in 0..=random.below(4) {
            let at = from + MAGIC.len() + random.below((checksum - from - MAGIC.len()) as u64) as usize;
            damaged[at] = if random.below(2) == 0 { random.next() as u8 } else { damaged[at] ^ 1 };
        }
        let right = crc32fast::hash(&damaged[from..checksum]);
        damaged[checksum + 1..to].copy_from_slice(&right.to_be_bytes());
        read_back += usize::from(read(&damaged).is_ok_and(|trace| check_ids(&trace)));
    }
    assert!(read_back > 1_500, "{read_back}");
}

/// The model's invariants: every id is in its table, all columns have one length.
fn check_ids(trace: &Trace) -> bool {
    let strings = trace.strings.len();
    for frame in trace.frames.rows() {
        assert!((frame.function.0 as usize) < strings && (frame.file.0 as usize) < strings);
    }
    for stack in trace.stacks.iter() {
        assert!(stack.iter().all(|frame| (frame.0 as usize) < trace.frames.len()));
    }
    for device in &trace.devices {
        let events = &device.events;
        let lengths = [
            events.times_us.len(),
            events.addresses.len(),
            events.sizes.len(),
            events.streams.len(),
            events.stacks.len(),
        ];
        assert_eq!(lengths, [events.len(); 5]);
        assert!(events.streams.iter().all(|&stream| (stream as usize) < events.stream_values.len()));
        assert!(events.stacks.iter().all(|stack| (stack.0 as usize) < trace.stacks.len()));
        assert!(events.pools.values().iter().all(|&pool| pool as usize <= trace.pools.len()));
        let texts = events.user_metadata.values().iter().chain(events.compile_contexts.values());
        assert!(texts.chain(events.forward_frames.values()).all(|text| (text.0 as usize) < strings));
        let segments = device.segments.as_deref().unwrap_or_default();
        let blocks = segments.iter().flat_map(|segment| &segment.blocks);
        assert!(blocks.into_iter().all(|block| (block.stack.0 as usize) < trace.stacks.len()));
    }
    assert!(trace.annotations.iter().all(|annotation| (annotation.name.0 as usize) < strings));
    true
}

#[test]
fn a_damaged_chunk_costs_itself_only() {
    let trace = busy(5_000, 11);
    let bytes = packed_with(&trace, &small_chunks());
    let all = chunks(&bytes);
    let &(from, to, _) = all.iter().filter(|chunk| chunk.2 == Kind::Events as u64).nth(10).unwrap();
    let mut damaged = bytes.clone();
    damaged[to - 20] ^= 0xff;
    let again = read(&damaged).unwrap();
    assert!(!again.complete);
    assert_eq!(again.event_count(), 4_900);
    assert_eq!((again.warnings.count("damaged-chunk"), again.warnings.count("missing-events")), (1, 100));
    let text = again.warnings.iter().find(|warning| warning.kind == "damaged-chunk").unwrap().text.clone();
    assert!(text.contains(&format!("byte {from}")), "{text}");
    let (before, after) = (&trace.devices[0].events, &again.devices[0].events);
    assert_eq!(before.addresses[..1_000], after.addresses[..1_000]);
    assert_eq!(before.addresses[1_100..], after.addresses[1_000..]);
}

#[test]
fn a_lost_table_makes_unknown_ids_and_not_wrong_ones() {
    let trace = busy(2_000, 5);
    let bytes = packed_with(&trace, &small_chunks());
    let all = chunks(&bytes);
    let tables: Vec<_> = all.iter().filter(|chunk| chunk.2 == Kind::Tables as u64).collect();
    assert!(tables.len() > 1);
    let &&(from, to, _) = &tables[0];
    let again = read(&[&bytes[..from], &bytes[to..]].concat()).unwrap();
    assert!(!again.complete);
    assert_eq!(again.event_count(), 2_000);
    assert!(again.warnings.count("unknown-id") > 0);
    assert_eq!(again.warnings.count("missing-table"), 1, "{:?}", again.warnings);
    assert_eq!(again.warnings.count("missing-chunk"), 1);
    for (device, old) in again.devices.iter().zip(&trace.devices) {
        for (&new, &was) in device.events.stacks.iter().zip(&old.events.stacks) {
            let shown = |trace: &Trace, stack| -> Vec<(String, u64)> {
                let frames = trace.stacks.get(stack).iter().map(|&frame| trace.frames.get(frame));
                frames.map(|frame| (trace.strings.get(frame.file).to_owned(), frame.line)).collect()
            };
            let new = shown(&again, new);
            let lost = new.is_empty() || new.iter().any(|frame| frame.0.is_empty());
            assert!(lost || new == shown(&trace, was));
        }
    }
}

#[test]
fn rows_of_a_chunk_that_does_not_unpack_are_taken_out() {
    // The checksum is right, the contents are not: a faulty writer, not damage.
    let trace = busy(1_000, 9);
    let bytes = packed_with(&trace, &small_chunks());
    let all = chunks(&bytes);
    let at = all.iter().position(|chunk| chunk.2 == Kind::Events as u64).unwrap() + 2;
    let (from, to, kind) = all[at..].iter().copied().find(|chunk| chunk.2 == Kind::Events as u64).unwrap();
    assert_eq!(kind, Kind::Events as u64);
    let good = Chunk::parse(&bytes, from).unwrap();
    let bad = pack(Kind::Events, good.facts, b"\x81\xa6action\xc0", Codec::None, 0).unwrap();
    let again = read(&[&bytes[..from], &bad, &bytes[to..]].concat()).unwrap();
    assert_eq!(again.warnings.count("damaged-chunk"), 1, "{:?}", again.warnings);
    assert_eq!(again.event_count(), 900);
    let events = &again.devices[0].events;
    assert_eq!(events.addresses.len(), events.stacks.len());
    assert_eq!(events.addresses.last(), trace.devices[0].events.addresses.last());
}

#[test]
fn newer_versions_and_unknown_parts() {
    let with_version = |major: u64, minor: u64| {
        let mut facts = MapPacker::default();
        facts.key("version").array(2).uint(major).uint(minor);
        facts.key("shiny").map(0);
        let header = pack(Kind::Header, &facts.into_bytes(), &[], Codec::None, 0).unwrap();
        let plain = packed(&tiny());
        [&header, &plain[chunks(&plain)[0].1..]].concat()
    };
    let newer = read(&with_version(2, 0)).unwrap_err();
    assert!(matches!(newer, Error::UnsupportedVersion { found: 2, supported: 1 }));
    let minor = read(&with_version(1, 9)).unwrap();
    assert_eq!((minor.complete, minor.warnings.count("unknown-key")), (true, 1));
    let mut unknown = packed(&Trace::default())[..9].to_vec();
    unknown[8] = 100;
    unknown.extend([0, 3, 0x80, 0xc4, 3, 1, 2, 3]);
    let mut chunk = Packer::default();
    chunk.raw(&unknown).uint(crc32fast::hash(&unknown).into());
    let read = read(&file_with(&[chunk.into_bytes()])).unwrap();
    assert_eq!((read.complete, read.warnings.count("unknown-chunk")), (true, 1));
}

#[test]
fn numbers_that_lie_cost_no_memory() {
    let mut actions = MapPacker::default();
    pack_offset(actions.key("action"), &[0, 1, 2], 1);
    let actions = actions.into_bytes();
    for count in [0, 2, 4, 1 << 20, (1 << 20) + 1, 1 << 32, u64::MAX] {
        let chunk = pack(Kind::Events, &event_facts(count).into_bytes(), &actions, Codec::None, 0).unwrap();
        let trace = read(&file_with(&[chunk])).unwrap();
        assert_eq!((trace.event_count(), trace.warnings.count("damaged-chunk")), (0, 1), "{count}");
    }
    for (kind, key) in [
        (Kind::Tables, "strings"),
        (Kind::Tables, "stacks"),
        (Kind::Segments, "count"),
        (Kind::Marks, "count"),
        (Kind::Tensors, "count"),
        (Kind::Holders, "count"),
        (Kind::Annotations, "count"),
    ] {
        for count in [5, u64::from(u32::MAX), u64::MAX] {
            let mut facts = MapPacker::default();
            if kind == Kind::Tables {
                facts.key(key).array(2).uint(1).uint(count)
            } else {
                facts.key(key).uint(count)
            };
            let lie = [0x81, 0xa7, b's', b't', b'r', b'i', b'n', b'g', b's', 0xdd, 0xff, 0xff, 0xff, 0xff];
            let chunk = pack(kind, &facts.into_bytes(), &lie, Codec::None, 0).unwrap();
            let trace = read(&file_with(&[chunk])).unwrap();
            assert!(trace.warnings.count("damaged-chunk") == 1, "{kind:?} {count}: {:?}", trace.warnings);
        }
    }
}

#[test]
fn a_thousand_bombs_are_defused() {
    // Each claims a million events that compress to nothing: 56 GB of columns in some 200 KB.
    let count = 1 << 20;
    let mut payload = MapPacker::default();
    pack_offset(payload.key("action"), &vec![0; count], 1);
    let bomb =
        pack(Kind::Events, &event_facts(count as u64).into_bytes(), &payload.into_bytes(), Codec::Zstd, 3);
    let bomb = bomb.unwrap();
    let bombs = vec![bomb; 1_000];
    let trace = read(&file_with(&bombs)).unwrap();
    assert!(trace.event_count() <= 2 * count);
    assert!(trace.warnings.count("damaged-chunk") >= 998);
    // A payload that unpacks to more than it says.
    let mut long = pack(Kind::Settings, &[0x80], &vec![0x80; MAX_RAW], Codec::Zstd, 3).unwrap();
    long[10..14].copy_from_slice(&100u32.to_be_bytes());
    let at = long.len() - 5;
    let checksum = crc32fast::hash(&long[..at]).to_be_bytes();
    long[at + 1..].copy_from_slice(&checksum);
    assert_eq!(read(&file_with(&[long])).unwrap().warnings.count("damaged-chunk"), 1);
}

#[test]
fn depth_is_no_danger() {
    let mut deep = Packer::default();
    deep.map(1).text("other").map(1).text("x");
    let mut payload = deep.into_bytes();
    payload.extend(vec![0x91; 1 << 20]);
    payload.push(0xc0);
    let chunk = pack(Kind::Process, &[0x80], &payload, Codec::Zstd, 3).unwrap();
    assert_eq!(read(&file_with(&[chunk])).unwrap().warnings.count("damaged-chunk"), 1);
}

#[test]
fn many_false_beginnings_take_no_quadratic_time() {
    let mut bytes = packed(&tiny());
    let end = bytes.len();
    for _ in 0..200_000 {
        bytes.extend(MAGIC);
        bytes.extend([2, 0, 0, 0x80, 0xc6, 0, 0xf0, 0, 0]);
    }
    let trace = read(&bytes).unwrap();
    assert_eq!(trace.event_count(), 2);
    let trailing = trace.warnings.iter().find(|warning| warning.kind == "trailing-bytes").unwrap();
    assert!(trailing.text.contains(&format!("byte {end}")));
}

#[test]
fn duplicates_in_foreign_tables_are_mapped() {
    let mut facts = MapPacker::default();
    facts.key("strings").array(2).uint(1).uint(3);
    facts.key("frames").array(2).uint(0).uint(2);
    facts.key("stacks").array(2).uint(1).uint(3);
    facts.uint("stack_frames", 3);
    let mut payload = MapPacker::default();
    payload.key("strings").array(3).text("").text("a.py").text("a.py");
    pack_offset(payload.key("frame_function"), &[1, 0], 1);
    pack_offset(payload.key("frame_file"), &[2, 3], 1);
    pack_offset(payload.key("frame_line"), &[7, 7], 1);
    pack_offset(payload.key("stack_length"), &[1, 1, 1], 1);
    pack_offset(payload.key("stack_frame"), &[0, 1, 9], 1);
    let tables = pack(Kind::Tables, &facts.into_bytes(), &payload.into_bytes(), Codec::None, 0).unwrap();
    let mut payload = MapPacker::default();
    pack_offset(payload.key("action"), &[0, 0, 0, 77, 0], 1);
    pack_offset(payload.key("stack"), &[1, 2, 3, 0, 1 << 40], 0);
    let events =
        pack(Kind::Events, &event_facts(5).into_bytes(), &payload.into_bytes(), Codec::None, 0).unwrap();
    let trace = read(&file_with(&[tables, events])).unwrap();
    let events = &trace.device(DeviceId(0)).unwrap().events;
    // The empty text, `a.py`, and the name that the unknown action got.
    assert_eq!(trace.strings.len(), 3);
    assert_eq!(events.stacks[0], events.stacks[1]);
    assert_eq!(trace.frames.get(trace.stacks.get(events.stacks[2])[0]).line, 0);
    assert_eq!(events.stacks[4].0, 0);
    assert_eq!(trace.warnings.count("unknown-id"), 2);
    assert_eq!(trace.warnings.count("unknown-action"), 1);
    assert_eq!(trace.strings.get(events.other_actions[0].1), "action 77");
}

#[test]
fn a_state_before_the_last_event_is_not_the_final_one() {
    let state = |events: u64, address: u64| {
        let mut facts = MapPacker::default();
        facts.uint("device", 0).uint("events", events).uint("count", 1);
        let mut payload = MapPacker::default();
        pack_offset(payload.key("address"), &[address], 1);
        pack(Kind::Segments, &facts.into_bytes(), &payload.into_bytes(), Codec::None, 0).unwrap()
    };
    let mut payload = MapPacker::default();
    pack_offset(payload.key("action"), &[0, 0], 1);
    let events =
        pack(Kind::Events, &event_facts(2).into_bytes(), &payload.into_bytes(), Codec::None, 0).unwrap();
    let early = read(&file_with(&[state(1, 4096), events.clone()])).unwrap();
    assert_eq!(early.devices[0].segments, None);
    let both = read(&file_with(&[state(1, 4096), events, state(2, 8192)])).unwrap();
    assert_eq!(both.devices[0].segments.as_ref().unwrap()[0].address, 8192);
}

#[test]
fn what_follows_the_trailer_is_not_read() {
    let trace = full();
    let bytes = packed(&trace);
    let twice = [bytes.clone(), bytes].concat();
    let mut again = read(&twice).unwrap();
    assert_eq!(again.warnings.count("trailing-bytes"), 1);
    again.warnings = trace.warnings.clone();
    assert_same(&trace, &again);
}
