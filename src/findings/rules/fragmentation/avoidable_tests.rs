//! Growth that pieces and staircases explain, and growth that they do not.
#![allow(clippy::unwrap_used)]

use crate::findings::scene::samples::found;
use crate::findings::{Finding, Severity};
use crate::model::{SettingValue, Trace, TraceBuilder};

const MIB: u64 = 1 << 20;
const A: u64 = 0x7000_0000_0000;

fn at(segment: u64) -> u64 {
    A + (segment << 36)
}

fn grown(trace: &Trace) -> Vec<Finding> {
    found("fragmentation", trace, None)
}

/// Segments of 1 GiB of which half is kept, and a request of `mib`.
fn comb(segments: u64, mib: u64) -> TraceBuilder {
    let mut builder = TraceBuilder::new();
    for index in 0..segments {
        builder = builder.at("tables.py", 9, "keep").segment_alloc(at(index), 1024 * MIB);
        builder = builder.alloc(at(index), 512 * MIB).at("load.py", 4, "stage");
        builder = builder.alloc(at(index) + 512 * MIB, 512 * MIB);
    }
    builder = (0..segments).fold(builder, |builder, index| builder.free(at(index) + 512 * MIB, 512 * MIB));
    builder.at("train.py", 20, "gather").segment_alloc(at(500), mib * MIB).alloc(at(500), mib * MIB)
}

#[test]
fn a_comb_makes_growth_avoidable() {
    let found = grown(&comb(32, 9 * 1024).build());
    assert_eq!(found.len(), 1);
    let finding = &found[0];
    assert_eq!((finding.severity, finding.bytes), (Severity::Warning, 9 * 1024 * MIB));
    assert_eq!(finding.lines[0].label(), "tables.py:9 keep");
    let evidence = &finding.evidence;
    assert_eq!(evidence["free_bytes"], 16 * 1024 * MIB);
    assert_eq!(
        (&evidence["free_blocks"], &evidence["largest_free_block_bytes"]),
        (&32.into(), &(512 * MIB).into())
    );
    assert_eq!(evidence["requested_at"], "train.py:20 gather");
    assert!(finding.remedy.contains("expandable_segments:True"), "{}", finding.remedy);
    let on = comb(32, 9 * 1024).setting("expandable_segments", SettingValue::Bool(true)).build();
    let remedy = &grown(&on)[0].remedy;
    assert!(remedy.contains("no effect here"), "segments are not expandable: {remedy}");
}

#[test]
fn more_than_was_free_or_a_trifle_is_not_avoidable() {
    assert!(grown(&comb(8, 5 * 1024).build()).is_empty(), "4 GiB were free");
    let small = TraceBuilder::new();
    let mut builder = (0..40).fold(small, |builder, index| {
        let builder = builder.segment_alloc(at(index), 40 * MIB).alloc(at(index), 36 * MIB);
        builder.alloc(at(index) + 36 * MIB, 4 * MIB)
    });
    builder = (0..40).fold(builder, |builder, index| builder.free(at(index) + 36 * MIB, 4 * MIB));
    assert!(
        grown(&builder.segment_alloc(at(99), 100 * MIB).alloc(at(99), 100 * MIB).build()).is_empty(),
        "60 MiB"
    );
}

/// Many small activations, freed; then one large buffer to save.
#[test]
fn segments_that_are_each_too_small_make_growth_avoidable() {
    let mut builder = TraceBuilder::new().at("model.py", 3, "init").segment_alloc(at(900), 512 * MIB);
    builder = builder.alloc(at(900), 512 * MIB).at("block.py", 8, "forward");
    for index in 0..60 {
        builder = builder.segment_alloc(at(index), 20 * MIB).alloc(at(index), 20 * MIB);
    }
    builder = (0..60).fold(builder, |builder, index| builder.free(at(index), 20 * MIB));
    let saved =
        builder.at("checkpoint.py", 7, "save").segment_alloc(at(500), 700 * MIB).alloc(at(500), 700 * MIB);
    let found = grown(&saved.build());
    assert_eq!((found.len(), found[0].bytes), (1, 700 * MIB));
    assert_eq!(found[0].lines[0].label(), "checkpoint.py:7 save");
    assert_eq!(found[0].evidence["releasable_bytes"], 1200 * MIB);
    assert!(found[0].remedy.contains("empty_cache()"), "{}", found[0].remedy);
}

/// Requests of rising size, each freed before the next; from each `keep` MiB stay.
fn rising(sizes: std::ops::RangeInclusive<u64>, keep: u64) -> TraceBuilder {
    let mut builder = TraceBuilder::new();
    for (index, gib) in sizes.enumerate() {
        let index = index as u64;
        builder = builder
            .at("loader.py", 5, "batch")
            .segment_alloc(at(index), gib << 30)
            .alloc(at(index), gib << 30);
        if keep > 0 && index == 0 {
            builder =
                builder.at("out.py", 6, "keep").segment_alloc(at(900), keep * MIB).alloc(at(900), keep * MIB);
        }
        builder = builder.free(at(index), gib << 30);
        if keep > 0 && index > 0 {
            builder = builder.at("out.py", 6, "keep").alloc(at(0) + (index - 1) * keep * MIB, keep * MIB);
        }
    }
    builder
}

#[test]
fn sorted_lengths_make_a_staircase() {
    let found = grown(&rising(1..=12, 64).build());
    assert_eq!(found.len(), 1);
    let evidence = &found[0].evidence;
    assert_eq!((&evidence["kind"], &evidence["rising_segments"]), (&"staircase".into(), &12.into()));
    assert_eq!(evidence["free_bytes"], (66 << 30) - 10 * 64 * MIB);
    assert_eq!(found[0].lines[0].label(), "loader.py:5 batch");
    assert!(found[0].remedy.contains("largest first"), "{}", found[0].remedy);
}

#[test]
fn a_short_or_empty_staircase_is_cache_and_growth_by_copy_is_told_elsewhere() {
    assert!(grown(&rising(4..=7, 64).build()).is_empty(), "4 rungs");
    assert!(grown(&rising(4..=12, 0).build()).is_empty(), "all of it can be returned");
    let mut copied = TraceBuilder::new();
    for rung in 0..20u64 {
        let bytes = (640 + 64 * rung) * MIB;
        copied = copied.at("cache.py", 2, "append").segment_alloc(at(rung), bytes).alloc(at(rung), bytes);
        copied = if rung > 0 { copied.free(at(rung - 1), bytes - 64 * MIB) } else { copied };
    }
    assert!(grown(&copied.build()).is_empty());
}

#[test]
fn what_failed_for_want_of_memory_did_not_fail_for_growth() {
    // All that was free is used in the end, and then a request fails.
    let mut builder = comb(32, 9 * 1024).at("train.py", 30, "more");
    for index in 0..32 {
        builder = builder.alloc(at(index) + 512 * MIB, 512 * MIB);
    }
    assert!(grown(&builder.oom(1024 * MIB, 0).build()).is_empty());
}
