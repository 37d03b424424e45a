//! Blocks: splitting, merging, searching.

use super::*;
use crate::model::TraceBuilder;
use crate::rebuild::rebuild;

fn free(address: u64, bytes: u64, expandable: bool) -> Node {
    Node {
        address,
        bytes,
        row: NONE,
        range: 0,
        previous: NONE,
        next: NONE,
        state: BlockState::Inactive,
        small: false,
        expandable,
    }
}

fn shape(blocks: &Blocks) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    for head in blocks.heads() {
        let mut at = head;
        while at != NONE {
            found.push((blocks.node(at).address, blocks.node(at).bytes));
            at = blocks.node(at).next;
        }
    }
    found
}

#[test]
fn a_split_and_a_merge_are_inverse() {
    let mut blocks = Blocks::default();
    let segment = blocks.add_segment(free(0x1000, 4096, false), &mut 100).unwrap();
    blocks.split(segment, 1024);
    let rest = blocks.at(0x1400).unwrap();
    blocks.split(rest, 512);
    assert_eq!(shape(&blocks), [(0x1000, 1024), (0x1400, 512), (0x1600, 2560)]);
    let (joined, merged) = blocks.merge(rest);
    assert_eq!((joined, merged.blocks, merged.bytes), (segment, 2, 1024 + 2560));
    assert_eq!(shape(&blocks), [(0x1000, 4096)]);
}

#[test]
fn adjacent_segments_join_only_when_expandable() {
    let mut blocks = Blocks::default();
    blocks.add_segment(free(0x1000, 0x1000, false), &mut 100).unwrap();
    let plain = blocks.add_segment(free(0x2000, 0x1000, false), &mut 100).unwrap();
    assert_eq!(blocks.merge(plain).1.blocks, 0);
    blocks.add_segment(free(0x9000, 0x1000, true), &mut 100).unwrap();
    let mapped = blocks.add_segment(free(0xa000, 0x1000, true), &mut 100).unwrap();
    assert_eq!(blocks.merge(mapped).1.blocks, 1);
    assert_eq!(shape(&blocks), [(0x1000, 0x1000), (0x2000, 0x1000), (0x9000, 0x2000)]);
}

#[test]
fn a_block_is_found_by_any_byte_in_it() {
    let mut blocks = Blocks::default();
    let segment = blocks.add_segment(free(0x1000, 4096, false), &mut 100).unwrap();
    blocks.split(segment, 1024);
    let mut budget = 100;
    assert_eq!(blocks.containing(0x13ff, &mut budget), Some(segment));
    assert_eq!(blocks.containing(0x1400, &mut budget), blocks.at(0x1400));
    assert_eq!(blocks.containing(0x2000, &mut budget), None);
    assert_eq!(blocks.containing(0xfff, &mut budget), None);
}

#[test]
fn an_unmapped_range_leaves_two_segments() {
    let mut blocks = Blocks::default();
    let segment = blocks.add_segment(free(0x1000, 0x3000, true), &mut 100).unwrap();
    blocks.split(segment, 0x1000);
    let middle = blocks.at(0x2000).unwrap();
    blocks.split(middle, 0x1000);
    blocks.cut_out(middle);
    assert_eq!(shape(&blocks), [(0x1000, 0x1000), (0x3000, 0x1000)]);
}

#[test]
fn a_search_out_of_steps_still_finds_its_block() {
    let mut blocks = Blocks::default();
    let mut at = blocks.add_segment(free(0x1000, 4096, false), &mut 100).unwrap();
    for _ in 0..3 {
        blocks.split(at, 512);
        at = blocks.node(at).next;
    }
    let address = |blocks: &mut Blocks, wanted: u64| {
        let found = blocks.containing(wanted, &mut 0)?;
        Some(blocks.node(found).address)
    };
    assert_eq!(address(&mut blocks, 0x1000 + 1030), Some(0x1400));
    let last = blocks.at(0x1600).unwrap();
    blocks.split(last, 1024);
    assert_eq!(address(&mut blocks, 0x1000 + 3000), Some(0x1a00));
    blocks.merge(last);
    assert_eq!(address(&mut blocks, 0x1000 + 3000), Some(0x1400));
    assert_eq!(address(&mut blocks, 0x3000), None);
}

/// Each block starts in the middle of the free one behind the last: every search walks past all before it.
#[test]
fn a_recording_that_uses_up_all_steps_is_rebuilt() {
    const BLOCKS: u64 = 15_000;
    let mut run = TraceBuilder::new().segment_alloc(1 << 40, BLOCKS << 22);
    for index in 0..BLOCKS {
        run = run.alloc((1 << 40) + (index << 22), 2 << 20);
    }
    let trace = run.build();
    let history = rebuild(&trace, &trace.devices[0]);
    assert_eq!((history.end.allocated_bytes, history.end.reserved_bytes), (BLOCKS << 21, BLOCKS << 22));
}
