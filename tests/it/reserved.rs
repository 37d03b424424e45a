//! Rules about reserved memory, end to end: the described cases with their figures, near misses, and the exact
//! list of what fires on every recording.

use memlab::model::{Action, Annotation, DeviceId, PoolId, Segment, SettingValue, Trace, TraceBuilder};
use memlab::report::{FindingRow, Fragmentation, TraceReport};

use crate::inputs::{analyze, analyzed_path, recordings};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const BASE: u64 = 0x7000_0000_0000;

/// The rules of this file. `fragmentation` only where no request failed for it.
const RULES: [&str; 8] = [
    "fragmentation",
    "idle-cache",
    "stranded-stream",
    "pending-free",
    "private-pools",
    "cache-flush",
    "conflicting-settings",
    "rounding-waste",
];

/// Address of segment `number`: every one has room to itself.
fn at(number: u64) -> u64 {
    BASE + (number << 38)
}

fn rules_of(report: &TraceReport) -> Vec<String> {
    let own = |finding: &&FindingRow| {
        RULES.contains(&finding.rule.as_str())
            && (finding.rule != "fragmentation" || finding.severity == "warning")
    };
    let name = |finding: &FindingRow| match finding.evidence.get("kind").and_then(|kind| kind.as_str()) {
        Some(kind) => format!("{} {}: {kind}", finding.severity, finding.rule),
        None => format!("{} {}", finding.severity, finding.rule),
    };
    let mut names: Vec<String> = report.findings.iter().filter(own).map(name).collect();
    names.sort();
    names
}

fn finding<'a>(report: &'a TraceReport, rule: &str) -> &'a FindingRow {
    let mut found = report.findings.iter().filter(|finding| finding.rule == rule);
    let one = found.next().unwrap_or_else(|| panic!("{rule} did not fire: {:?}", rules_of(report)));
    assert!(found.next().is_none(), "{rule} fired twice");
    assert!(!one.remedy.is_empty() && !one.title.ends_with('.'), "{one:?}");
    one
}

fn figure(finding: &FindingRow, name: &str) -> u64 {
    finding.evidence[name].as_u64().unwrap_or_else(|| panic!("{name} of {:?}", finding.evidence))
}

/// A segment of its own for one allocation.
fn own(builder: TraceBuilder, number: u64, bytes: u64) -> TraceBuilder {
    builder.segment_alloc(at(number), bytes).alloc(at(number), bytes)
}

/// Steps that begin before the events in `begins` and end where the next begins.
fn with_steps(builder: TraceBuilder, begins: &[usize]) -> Trace {
    let mut trace = builder.build();
    let events = trace.devices[0].events.len();
    let time = |event: usize| 1_000_000 + event as i64 * 10 - 5;
    for (step, &begin) in begins.iter().enumerate() {
        let end = begins.get(step + 1).copied().unwrap_or(events);
        let name = trace.strings.intern(&format!("step{step}"));
        for (begins, event) in [(true, begin), (false, end)] {
            let time_us = time(event) - i64::from(!begins);
            trace.annotations.push(Annotation { name, begins, device: DeviceId(0), time_us });
        }
    }
    trace
}

fn events(builder: &TraceBuilder) -> usize {
    builder.clone().build().event_count()
}

// ---- what fires on every recording ------------------------------------------------------------------------

/// Every recording of `testdata` on which a rule of this file fires; on all others none does.
const FIRES: [(&str, &[&str]); 25] = [
    ("cases/C17_eval_concat", &["info idle-cache"]),
    ("cases/C24_staircase_cache", &["info idle-cache"]),
    ("cases/C26_one_shot_stream", &["warning stranded-stream"]),
    ("cases/C37_kv_cat_growth", &["info idle-cache"]),
    ("cases/C48_empty_cache_every_step", &["warning cache-flush: empty_cache"]),
    ("cases/C49_private_pools", &["warning private-pools"]),
    // Each batch outgrows the cache.
    ("faults/ascending_batches", &["info idle-cache", "warning fragmentation: staircase"]),
    ("faults/avoidable_growth", &["warning fragmentation: pieces"]),
    ("faults/flush_by_allocator", &["warning cache-flush: allocator"]),
    // What the pile took is cache afterwards.
    ("faults/pending_free", &["info idle-cache", "warning pending-free"]),
    ("faults/rounding_waste", &["warning rounding-waste"]),
    ("faults/staircase_cache", &["info idle-cache"]),
    ("gpu/cache_flush_every_step", &["warning cache-flush: empty_cache"]),
    // The last sign before the failure.
    ("gpu/capacity_oom", &["info cache-flush: allocator"]),
    ("gpu/graph_pools", &["info private-pools"]),
    ("gpu/one_shot_stream", &["warning stranded-stream"]),
    // Four streams, each with a cache of 5 GiB.
    ("public/impossible_values", &["info stranded-stream"]),
    // A replay agrees: expandable segments save 492 MiB.
    ("public/no_time_us", &["warning fragmentation: pieces"]),
    ("public/pure_cache", &["info idle-cache"]),
    ("public/settings_conflict", &["warning conflicting-settings: expandable-segments-with-max-split-size"]),
    // Under a cap, with 4 retries; with 11 and a failure in between.
    ("torch/routed.default_cap85", &["warning cache-flush: allocator"]),
    ("torch/routed.expandable_cap90", &["info cache-flush: allocator"]),
    // Lengths vary, and no cached block serves the longest.
    ("torch/varlen.default", &["info idle-cache"]),
    // `empty_cache` after each of four evaluations in 32 steps; under a cap the allocator has to flush as well.
    ("torch/vision.default", &["info cache-flush: empty_cache"]),
    ("torch/vision.default_cap85", &["info cache-flush: empty_cache", "warning cache-flush: allocator"]),
];

/// The same program with settings that return segments.
const FIRES_BY_SETTING: [(&str, &[&str]); 2] = [
    ("torch/vision.gc0.6_cap100", &["info cache-flush: allocator", "info cache-flush: empty_cache"]),
    ("torch/vision.split64_cap85", &["info cache-flush: empty_cache", "warning cache-flush: allocator"]),
];

#[test]
fn every_recording_has_exactly_the_findings_that_it_should_have() {
    let expected = |name: &str| {
        let all = FIRES.iter().chain(&FIRES_BY_SETTING);
        all.clone().find(|(known, _)| *known == name).map_or(&[][..], |(_, rules)| rules)
    };
    let mut seen = 0;
    for folder in ["cases", "faults", "gpu", "public", "torch"] {
        for path in recordings(folder) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let name = name.split(".pickle").next().unwrap().split(".json").next().unwrap().to_owned();
            let name = format!("{folder}/{name}");
            let found = rules_of(&analyzed_path(&path).report);
            assert_eq!(found, expected(&name), "{name}");
            seen += usize::from(!found.is_empty());
        }
    }
    assert_eq!(seen, FIRES.len() + FIRES_BY_SETTING.len(), "every expectation was met by a recording");
}

fn assert_split(name: &str, at: &Fragmentation) {
    let sum: u64 = at.by_cause.named().iter().map(|(_, bytes)| bytes).sum();
    assert_eq!(sum, at.reserved_bytes - at.requested_bytes, "{name}");
    assert_eq!(at.by_cause.rounding_bytes, at.rounding_bytes, "{name}");
    assert_eq!(at.by_cause.pending_free_bytes, at.pending_free_bytes, "{name}");
}

#[test]
fn every_byte_that_was_not_asked_for_has_one_cause_in_every_report() {
    for folder in ["cases", "faults", "gpu", "public", "torch"] {
        for path in recordings(folder) {
            for device in &analyzed_path(&path).report.devices {
                let of = &device.fragmentation;
                let name = path.to_string_lossy();
                [&of.at_peak, &of.at_end]
                    .into_iter()
                    .chain(&of.at_oom)
                    .for_each(|at| assert_split(&name, at));
            }
        }
    }
    let device = |folder, name| {
        let path = crate::inputs::recording(folder, name);
        &analyzed_path(&path).report.devices[0].fragmentation
    };
    let stranded = &device("gpu", "one_shot_stream").at_end.by_cause;
    assert_eq!((stranded.other_stream_bytes, stranded.releasable_cache_bytes), (GIB, 0));
    let pools = device("cases", "C49_private_pools").at_oom.as_ref().unwrap();
    assert_eq!((pools.by_cause.private_pool_bytes, pools.releasable_bytes), (9216 * MIB, 9216 * MIB));
    let comb = device("gpu", "fragmentation_oom").at_oom.as_ref().unwrap();
    assert_eq!((comb.by_cause.split_remainder_bytes, comb.stranded_bytes), (900 * MIB, 900 * MIB));
    assert_eq!(device("cases", "C24_staircase_cache").at_end.by_cause.releasable_cache_bytes, 22_528 * MIB);
}

// ---- idle cache ---------------------------------------------------------------------------------------------

/// One after the other allocated and freed, each in a segment of its own.
fn in_turn(mut builder: TraceBuilder, sizes: &[u64]) -> TraceBuilder {
    builder = builder.at("load.py", 12, "read");
    for (index, &mib) in sizes.iter().enumerate() {
        builder = own(builder, index as u64, mib * MIB).free(at(index as u64), mib * MIB);
    }
    builder
}

#[test]
fn a_staircase_of_any_height_is_cache_and_neither_growth_nor_fragmentation() {
    let sizes = [
        vec![4096, 5120, 6144, 7168],
        vec![300, 400, 500, 600],
        vec![1000, 1300, 1500, 1800, 2200, 2900, 3300],
    ];
    for sizes in sizes {
        let report = analyze(&in_turn(TraceBuilder::new(), &sizes).build());
        assert_eq!(rules_of(&report), ["info idle-cache"], "{sizes:?}");
        let found = finding(&report, "idle-cache");
        let all: u64 = sizes.iter().sum();
        assert_eq!((found.bytes, figure(found, "wholly_free_bytes")), (all * MIB, all * MIB));
        assert_eq!((figure(found, "split_bytes"), figure(found, "allocated_bytes")), (0, 0));
        assert_eq!(figure(found, "peak_allocated_bytes"), sizes.last().unwrap() * MIB);
        assert!(report.findings.iter().all(|finding| finding.rule != "growth"));
    }
}

#[test]
fn cache_left_by_loading_is_told_for_the_rest_of_the_run() {
    let loaded = in_turn(TraceBuilder::new(), &[4096, 5120, 6144, 7168]).at("model.py", 3, "init");
    let report = analyze(&own(loaded, 90, 49 * GIB).build());
    assert_eq!(rules_of(&report), ["info idle-cache"]);
    let found = finding(&report, "idle-cache");
    assert_eq!((found.bytes, figure(found, "active_bytes")), (22_528 * MIB, 49 * GIB));
    assert_eq!((found.lines[0].file.as_str(), found.lines[0].bytes), ("load.py", 22_528 * MIB));
}

#[test]
fn a_training_loop_that_uses_its_cache_again_has_no_idle_cache() {
    let mut builder =
        own(TraceBuilder::new().at("model.py", 3, "init"), 90, 4 * GIB).at("train.py", 9, "step");
    let mut begins = Vec::new();
    for step in 0..6 {
        begins.push(events(&builder));
        for block in 0..8 {
            builder = if step == 0 { own(builder, block, GIB) } else { builder.alloc(at(block), GIB) };
        }
        builder = (0..8).rev().fold(builder, |builder, block| builder.free(at(block), GIB));
    }
    assert_eq!(rules_of(&analyze(&with_steps(builder, &begins))), [""; 0]);
}

// ---- streams ------------------------------------------------------------------------------------------------

#[test]
fn a_one_shot_stream_strands_its_cache_whatever_its_name_and_size() {
    for (stream, count, gib) in [(9, 4, 5), (0x55d0_1234_5600, 3, 1), (2, 1, 12)] {
        let mut builder = TraceBuilder::new().stream(stream).at("wrap.py", 30, "wrap");
        for index in 0..count {
            builder = own(builder, index, gib * GIB);
        }
        builder = (0..count).fold(builder, |builder, index| builder.free(at(index), gib * GIB));
        builder = builder.stream(0).at("model.py", 4, "forward");
        for index in 0..8 {
            builder = own(builder, 50 + index, gib * GIB);
        }
        let report = analyze(&builder.build());
        assert_eq!(rules_of(&report), ["warning stranded-stream"], "{stream}");
        let found = finding(&report, "stranded-stream");
        assert_eq!((found.bytes, figure(found, "stream")), (count * gib * GIB, stream));
        assert!(figure(found, "last_use_event") < figure(found, "main_stream_first_alloc_event"));
        assert_eq!(figure(found, "main_stream_obtained_since_bytes"), 8 * gib * GIB);
        assert_eq!(found.lines[0].function, "wrap");
    }
}

// ---- late frees -----------------------------------------------------------------------------------------------

#[test]
fn broadcasts_that_complete_late_are_a_pile_and_cache_afterwards() {
    let wrapped = |broadcasts: bool| {
        let mut builder = own(TraceBuilder::new().at("model.py", 1, "init"), 90, 16 * GIB);
        builder = builder.at("fsdp.py", 7, "broadcast");
        let blocks = if broadcasts { 0..10 } else { 0..0 };
        for block in blocks.clone() {
            builder = own(builder, block, 512 * MIB).free_requested(at(block), 512 * MIB);
        }
        blocks.fold(builder, |builder, block| builder.free_completed(at(block), 512 * MIB)).build()
    };
    let report = analyze(&wrapped(true));
    assert_eq!(rules_of(&report), ["info idle-cache", "warning pending-free"]);
    let found = finding(&report, "pending-free");
    assert_eq!((found.bytes, figure(found, "pending_at_active_peak_bytes")), (5 * GIB, 4608 * MIB));
    assert_eq!(figure(found, "peak_allocated_bytes"), 16_896 * MIB);
    assert_eq!(figure(found, "peak_active_bytes"), 21 * GIB);
    assert_eq!(figure(found, "in_flight_of_one_line"), 10);
    assert_eq!(finding(&report, "idle-cache").bytes, 5 * GIB);
    // The rank that does not broadcast has nothing of it.
    assert_eq!(rules_of(&analyze(&wrapped(false))), [""; 0]);
}

#[test]
fn prefetch_without_a_limit_is_told_from_prefetch_of_two() {
    const LAYER: u64 = 1843 * MIB + (200 << 10);
    let gathered = |limit: u64| {
        let mut builder = own(TraceBuilder::new().at("model.py", 1, "init"), 90, 4 * GIB).stream(5);
        for layer in 0..20 {
            builder = builder.at("fsdp.py", 40, "all_gather");
            if layer >= limit {
                builder = builder.free_completed(at(layer - limit), LAYER);
            }
            builder = own(builder, layer, LAYER).free_requested(at(layer), LAYER);
        }
        (20u64.saturating_sub(limit)..20)
            .fold(builder, |builder, layer| builder.free_completed(at(layer), LAYER))
    };
    let (limited, unlimited) = (analyze(&gathered(2).build()), analyze(&gathered(20).build()));
    let (two, all) = (finding(&limited, "pending-free"), finding(&unlimited, "pending-free"));
    let block = two.bytes / 2;
    assert_eq!((two.severity, figure(two, "in_flight_of_one_line")), ("info", 2));
    assert_eq!((all.severity, all.bytes, figure(all, "in_flight_of_one_line")), ("warning", 20 * block, 20));
    assert!(
        (35.9..36.1).contains(&(all.bytes as f64 / GIB as f64)) && all.remedy.contains("limit_all_gathers")
    );
}

// ---- pieces and staircases --------------------------------------------------------------------------------------

fn comb(segments: u64, keep: u64, drop: u64) -> TraceBuilder {
    let mut builder = TraceBuilder::new();
    for index in 0..segments {
        builder = builder.at("tables.py", 3, "keep").segment_alloc(at(index), (keep + drop) * MIB);
        builder = builder.alloc(at(index), keep * MIB).at("load.py", 8, "stage");
        builder = builder.alloc(at(index) + keep * MIB, drop * MIB);
    }
    builder = (0..segments).fold(builder, |b, index| b.free(at(index) + keep * MIB, drop * MIB));
    builder.at("train.py", 20, "gather")
}

#[test]
fn a_comb_makes_growth_avoidable_and_the_advice_fits_the_settings() {
    let asked = |builder: TraceBuilder| own(builder, 500, 9 * GIB);
    let report = analyze(&asked(comb(32, 512, 512)).build());
    assert_eq!(rules_of(&report), ["warning fragmentation: pieces"]);
    let found = finding(&report, "fragmentation");
    assert_eq!((found.bytes, figure(found, "free_bytes")), (9 * GIB, 16 * GIB));
    assert_eq!((figure(found, "free_blocks"), figure(found, "largest_free_block_bytes")), (32, 512 * MIB));
    assert_eq!(found.lines[0].file, "tables.py");
    assert!(found.remedy.contains("expandable_segments:True"), "{}", found.remedy);
    let on = asked(comb(32, 512, 512)).setting("expandable_segments", SettingValue::Bool(true));
    let mapped = on.event(Action::SegmentMap, at(900), 20 * MIB).build();
    let remedy = &finding(&analyze(&mapped), "fragmentation").remedy.clone();
    assert!(remedy.contains("on already") && !remedy.contains("Use "), "{remedy}");
    let mut old = asked(comb(32, 512, 512)).build();
    old.process.torch_version = Some("2.0.1".to_owned());
    let remedy = finding(&analyze(&old), "fragmentation").remedy.clone();
    assert!(remedy.contains("replay") || remedy.contains("2.0.1"), "{remedy}");
    // Too little in sum, and growth that is used up later.
    assert_eq!(rules_of(&analyze(&own(comb(16, 512, 512), 500, 9 * GIB).build())), [""; 0]);
}

#[test]
fn a_save_that_small_activations_do_not_serve_is_avoidable_growth() {
    for (blocks, mib) in [(64, 700), (200, 1400)] {
        let mut builder = own(TraceBuilder::new().at("model.py", 1, "init"), 900, 500 * MIB);
        let mut begins = Vec::new();
        for step in 0..3 {
            begins.push(events(&builder));
            builder = builder.at("block.py", 5, "forward");
            for block in 0..blocks {
                let first = step == 0;
                builder =
                    if first { own(builder, block, 20 * MIB) } else { builder.alloc(at(block), 20 * MIB) };
            }
            builder = (0..blocks).fold(builder, |builder, block| builder.free(at(block), 20 * MIB));
        }
        builder = own(builder.at("checkpoint.py", 3, "save"), 901, mib * MIB).free(at(901), mib * MIB);
        let report = analyze(&with_steps(builder, &begins));
        let found = finding(&report, "fragmentation");
        assert_eq!((found.severity, found.bytes), ("warning", mib * MIB));
        assert_eq!(
            (figure(found, "segment_bytes"), figure(found, "free_bytes")),
            (mib * MIB, blocks * 20 * MIB)
        );
        assert_eq!(found.evidence["requested_at"], "checkpoint.py:3 save");
    }
}

#[test]
fn ascending_lengths_that_keep_something_are_a_staircase() {
    let batches = |sizes: Vec<u64>| {
        let mut builder = TraceBuilder::new();
        for (index, gib) in sizes.into_iter().enumerate() {
            let number = index as u64;
            builder = own(builder.at("loader.py", 5, "batch"), number, gib * GIB).at("out.py", 6, "keep");
            // The first part kept has a segment of its own, the others go into the smallest hole.
            builder = match number {
                0 => own(builder, 900, 64 * MIB).free(at(0), gib * GIB),
                1 => builder.alloc(at(0), 64 * MIB).free(at(1), gib * GIB),
                _ => builder.alloc(at(0) + (number - 1) * 64 * MIB, 64 * MIB).free(at(number), gib * GIB),
            };
        }
        builder.build()
    };
    let report = analyze(&batches((1..=12).collect()));
    let found = finding(&report, "fragmentation");
    assert_eq!(found.evidence["kind"], "staircase");
    assert_eq!((found.severity, figure(found, "rising_segments")), ("warning", 12));
    assert_eq!(found.lines[0].file, "loader.py");
    assert_eq!(finding(&report, "idle-cache").severity, "info");
    // The longest first: all later ones find room in its segment.
    let mut builder =
        own(TraceBuilder::new().at("out.py", 6, "keep"), 900, 768 * MIB).at("loader.py", 5, "batch");
    builder = own(builder, 0, 12 * GIB).free(at(0), 12 * GIB);
    builder = (1..12).rev().fold(builder, |b, gib| b.alloc(at(0), gib * GIB).free(at(0), gib * GIB));
    let falling = analyze(&builder.build());
    assert!(falling.findings.iter().all(|finding| finding.rule != "fragmentation"));
}

// ---- pools, flushes, rounding, settings -----------------------------------------------------------------------------

/// Puts every segment whose number is at least 100 into a pool of that number.
fn with_pools(builder: TraceBuilder) -> Trace {
    let mut trace = builder.build();
    for event in 0..trace.event_count() {
        let events = &trace.devices[0].events;
        let number = (events.addresses[event].saturating_sub(BASE)) >> 38;
        if events.actions[event] == Action::SegmentAlloc && number >= 100 {
            let pool = trace.pool_index(PoolId(number, 0));
            trace.devices[0].events.pools.set(event, pool);
        }
    }
    trace
}

#[test]
fn graph_pools_are_neither_idle_nor_fragmented() {
    for (pools, mib) in [(9, 1024), (3, 900)] {
        let mut builder = own(TraceBuilder::new().at("model.py", 1, "init"), 1, 2 * GIB);
        for pool in 0..pools {
            builder = own(builder.at("graphs.py", 5, "capture"), 100 + pool, mib * MIB);
            builder = builder.free(at(100 + pool), mib * MIB);
        }
        let report = analyze(&with_pools(builder.oom(2 * MIB, 896 << 10)));
        assert_eq!(rules_of(&report), ["warning private-pools"]);
        let found = finding(&report, "private-pools");
        assert_eq!((found.bytes, figure(found, "private_pools")), (pools * mib * MIB, pools));
        assert!(found.remedy.contains("out of its reach"), "{}", found.remedy);
    }
}

/// `steps` steps of `count` blocks; `returned` says in which steps the program returns them at the end.
fn flushing(
    steps: usize,
    count: u64,
    mib: u64,
    returned: impl Fn(usize) -> bool,
) -> (TraceBuilder, Vec<usize>) {
    let mut builder = own(TraceBuilder::new().at("model.py", 1, "init"), 900, 4 * GIB);
    let (mut begins, mut held) = (Vec::new(), false);
    for step in 0..steps {
        begins.push(events(&builder));
        builder = builder.at("train.py", 9, "step");
        for block in 0..count {
            builder = if held { builder.alloc(at(block), mib * MIB) } else { own(builder, block, mib * MIB) };
        }
        builder = (0..count).rev().fold(builder, |builder, block| builder.free(at(block), mib * MIB));
        held = !returned(step);
        if !held {
            // Recorded without a stack, as in the posted case.
            builder = builder.stack(&[]);
            builder = (0..count).fold(builder, |builder, block| builder.segment_free(at(block), mib * MIB));
        }
    }
    (builder, begins)
}

#[test]
fn a_cache_returned_in_every_step_is_told_with_and_without_steps() {
    let (builder, begins) = flushing(6, 20, 256, |_| true);
    for trace in [with_steps(builder.clone(), &begins), builder.build()] {
        let report = analyze(&trace);
        let found = finding(&report, "cache-flush");
        assert_eq!((found.severity, &found.evidence["kind"]), ("warning", &"empty_cache".into()));
        assert_eq!((figure(found, "times"), figure(found, "segments_per_step")), (6, 20));
        assert_eq!(
            (figure(found, "per_step_bytes"), figure(found, "peak_reserved_bytes")),
            (5 * GIB, 9216 * MIB)
        );
    }
    for (steps, every) in [(6, 6), (40, 20)] {
        let (builder, begins) = flushing(steps, 20, 256, |step| step % every == every - 1);
        assert_eq!(rules_of(&analyze(&with_steps(builder, &begins))), [""; 0], "every {every}");
    }
}

#[test]
fn a_refused_segment_that_flushes_the_cache_is_the_allocators_doing() {
    let mut builder = own(TraceBuilder::new().at("model.py", 1, "init"), 900, 4 * GIB);
    let mut begins = Vec::new();
    for step in 0..4u64 {
        begins.push(events(&builder));
        builder = builder.at("train.py", 9, "step");
        builder = (0..6).fold(builder, |builder, block| own(builder, step * 10 + block, 256 * MIB));
        builder = (0..6).fold(builder, |b, block| b.free(at(step * 10 + block), 256 * MIB)).stack(&[]);
        builder = (0..6).fold(builder, |b, block| b.segment_free(at(step * 10 + block), 256 * MIB));
        builder = own(builder.at("train.py", 11, "step"), 100 + step, 1400 * MIB);
        builder = builder.free(at(100 + step), 1400 * MIB).stack(&[]);
        builder = builder.segment_free(at(100 + step), 1400 * MIB);
    }
    let report = analyze(&with_steps(builder, &begins));
    let kinds: Vec<_> =
        report.findings.iter().filter(|f| f.rule == "cache-flush").map(|f| &f.evidence["kind"]).collect();
    assert!(kinds.contains(&&"allocator".into()), "{kinds:?}");
}

#[test]
fn rounding_is_told_where_it_amounts_to_something() {
    let divided = |count: u64, mib: u64| {
        let slots = (0..16).map(|slot| ((1u64 << slot).to_string(), 2)).collect();
        let builder = TraceBuilder::new().setting("roundup_power2_divisions", SettingValue::Map(slots));
        let block = (mib * MIB).next_power_of_two() / 4 * 3;
        (0..count).fold(builder, |builder, index| {
            builder.segment_alloc(at(index), block).alloc(at(index), mib * MIB)
        })
    };
    let report = analyze(&divided(40, 33).build());
    assert_eq!(rules_of(&report), ["warning rounding-waste"]);
    assert_eq!(finding(&report, "rounding-waste").bytes, 40 * 15 * MIB);
    assert_eq!(rules_of(&analyze(&divided(4, 33).build())), [""; 0], "60 MiB");
    assert_eq!(rules_of(&analyze(&divided(40, 48).build())), [""; 0], "no waste");
}

#[test]
fn settings_that_fight_or_do_nothing_are_told() {
    let kinds = |conf: &str, is_expandable: bool| {
        let text = SettingValue::Text(conf.to_owned());
        let segment = Segment { address: at(0), bytes: 20 * MIB, is_expandable, ..Segment::default() };
        let builder = TraceBuilder::new().setting("PYTORCH_CUDA_ALLOC_CONF", text).segments(vec![segment]);
        rules_of(&analyze(&builder.build()))
    };
    assert_eq!(kinds("expandable_segments:True", true), [""; 0]);
    assert_eq!(kinds("max_split_size_mb:64,roundup_power2_divisions:[256:1,512:2,>:4]", false), [""; 0]);
    let kind = |kind: &str| format!("warning conflicting-settings: {kind}");
    assert_eq!(kinds("expandable_segments:True", false), [kind("expandable-segments-not-active")]);
    let with_collector = "expandable_segments:True,garbage_collection_threshold:0.6";
    assert_eq!(kinds(with_collector, true), [kind("expandable-segments-with-garbage-collection")]);
    assert_eq!(kinds("max_split_size_mb:19", false), [kind("value-refused")]);
    assert_eq!(kinds("max_spilt_size_mb:128", false), [kind("unknown-key")]);
    let alone = kinds("garbage_collection_threshold:0.6", false);
    assert_eq!(alone, ["info conflicting-settings: garbage-collection-without-limit"]);
}
