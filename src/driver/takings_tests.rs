//! Every call's meaning, and the recorded program whose fates are known.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use super::*;
use crate::driver::samples::{Calls, recorded};

fn endings(takings: &Takings) -> Vec<(Memory, u64, Ending)> {
    takings.all.iter().map(|taking| (taking.memory, taking.bytes, taking.ending)).collect()
}

#[test]
fn the_recorded_program_took_and_gave_back_what_it_says() {
    let names: BTreeMap<&str, Memory> = [
        ("device_alloc", Memory::Device),
        ("managed_alloc", Memory::Managed),
        ("host_alloc", Memory::Pinned),
        ("host_register", Memory::Registered),
        ("pool_alloc", Memory::Pool),
        ("create", Memory::Physical),
        ("array_create", Memory::Array),
    ]
    .into();
    for (hook, with_arrays) in [("cupti", true), ("preload", false)] {
        let trace = recorded(hook);
        let takings = Takings::of(&trace.driver.unwrap().rows);
        let mut found = endings(&takings);
        let mut expected = Vec::new();
        for line in include_str!("../../testdata/driver/recorded/expected.txt").lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let Some(&memory) = names.get(words[0]) else { continue };
            if words[3] != "failed" && (memory != Memory::Array || with_arrays) {
                let ending = if words[3] == "kept" { Ending::Kept } else { Ending::Given };
                expected.push((memory, words[1].parse().unwrap(), ending));
            }
        }
        let key =
            |(memory, bytes, ending): &(Memory, u64, Ending)| (*memory, *bytes, *ending == Ending::Kept);
        found.sort_by_key(key);
        expected.sort_by_key(key);
        assert_eq!(found, expected, "{hook}");
        assert_eq!(takings.refused.len(), 1, "{hook}");
        assert_eq!(
            (takings.unknown_frees, takings.unseen_frees, takings.mappings.len()),
            (0, 0, 1),
            "{hook}"
        );
    }
}

#[test]
fn a_free_ends_the_taking_at_its_address_and_addresses_come_again() {
    let rows = Calls::default()
        .at(0x1000)
        .take(DriverCall::DeviceAlloc, 64)
        .at(0x1000)
        .give(DriverCall::DeviceFree)
        .at(0x1000)
        .take(DriverCall::PoolAlloc, 32)
        .at(0x1000)
        .give(DriverCall::DeviceFree)
        .at(0x1000)
        .take(DriverCall::ManagedAlloc, 16)
        .rows;
    let takings = Takings::of(&rows);
    assert_eq!(
        endings(&takings),
        [
            (Memory::Device, 64, Ending::Given),
            (Memory::Pool, 32, Ending::Given),
            (Memory::Managed, 16, Ending::Kept)
        ]
    );
    assert_eq!((takings.all[0].row, takings.all[0].until, takings.all[2].until), (0, 1, 5));
    assert!(takings.all[0].is_held_after(1) && !takings.all[0].is_held_after(2));
    assert!(takings.all[2].is_held_after(5));
}

#[test]
fn what_was_not_seen_is_counted() {
    let rows = Calls::default()
        .at(0x9000)
        .give(DriverCall::DeviceFree)
        .at(0)
        .give(DriverCall::DeviceFree)
        .at(0x1000)
        .take(DriverCall::DeviceAlloc, 64)
        .at(0x1000)
        .take(DriverCall::DeviceAlloc, 32)
        .rows;
    let takings = Takings::of(&rows);
    assert_eq!((takings.unknown_frees, takings.unseen_frees), (1, 1), "a free of nothing is no fault");
    assert_eq!(endings(&takings), [(Memory::Device, 64, Ending::Unseen), (Memory::Device, 32, Ending::Kept)]);
}

#[test]
fn failed_calls_change_nothing_and_refused_requests_are_kept() {
    let rows = Calls::default()
        .at(0x1000)
        .take(DriverCall::DeviceAlloc, 64)
        .at(0x1000)
        .failed(DriverCall::DeviceFree, 0, 1)
        .at(0)
        .failed(DriverCall::DeviceAlloc, 1 << 40, 2)
        .rows;
    let takings = Takings::of(&rows);
    assert_eq!(endings(&takings), [(Memory::Device, 64, Ending::Kept)]);
    assert_eq!(takings.refused, [2]);
}

#[test]
fn a_context_takes_along_what_is_its_own() {
    let rows = Calls::default()
        .context(0xc)
        .handle(0xc)
        .give(DriverCall::ContextRetain)
        .context(0xc)
        .handle(0xc)
        .give(DriverCall::ContextRetain)
        .context(0xc)
        .at(0x1000)
        .take(DriverCall::DeviceAlloc, 64)
        .context(0xd)
        .at(0x2000)
        .take(DriverCall::DeviceAlloc, 32)
        .context(0xc)
        .handle(7)
        .take(DriverCall::Create, 16)
        .give(DriverCall::ContextRelease)
        .give(DriverCall::ContextRelease)
        .handle(0xd)
        .give(DriverCall::ContextDestroy)
        .rows;
    let takings = Takings::of(&rows);
    let ends: Vec<_> = takings.all.iter().map(|taking| (taking.ending, taking.until)).collect();
    assert_eq!(ends, [(Ending::WithContext, 6), (Ending::WithContext, 7), (Ending::Kept, 8)]);
}

#[test]
fn mapped_memory_ends_with_its_last_mapping() {
    let rows = Calls::default()
        .handle(7)
        .take(DriverCall::Create, 4096)
        .handle(7)
        .at(0x1000)
        .map(4096)
        .handle(7)
        .give(DriverCall::Release)
        .at(0x1000)
        .unmap(4096)
        .handle(7)
        .give(DriverCall::Release)
        .rows;
    let takings = Takings::of(&rows);
    assert_eq!(endings(&takings), [(Memory::Physical, 4096, Ending::Given)]);
    assert_eq!((takings.all[0].until, takings.mappings[0].until), (3, 3));
    assert_eq!((takings.mappings[0].taking, takings.unknown_frees), (Some(0), 1));
}

#[test]
fn memory_that_is_imported_twice_is_one() {
    let rows = Calls::default()
        .handle(7)
        .take(DriverCall::Import, 0)
        .handle(7)
        .take(DriverCall::Import, 0)
        .handle(7)
        .give(DriverCall::Release)
        .handle(7)
        .give(DriverCall::Release)
        .rows;
    let takings = Takings::of(&rows);
    assert_eq!(takings.all.len(), 1);
    assert_eq!((takings.all[0].ending, takings.all[0].until), (Ending::Given, 3));
}

#[test]
fn expandable_segments_of_pytorch_end_as_they_began() {
    let trace = recorded("expandable");
    let takings = Takings::of(&trace.driver.unwrap().rows);
    let physical: Vec<_> = takings.all.iter().filter(|taking| taking.memory == Memory::Physical).collect();
    let kept: Vec<_> = physical.iter().filter(|taking| taking.ending == Ending::Kept).collect();
    assert_eq!((physical.len(), kept.len()), (622, 22));
    assert_eq!(kept.iter().map(|taking| taking.bytes).sum::<u64>(), 404_750_336);
    assert_eq!((takings.refused.len(), takings.unknown_frees, takings.unseen_frees), (1, 0, 0));
}
