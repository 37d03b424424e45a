//! Every figure equals what PyTorch's own counters said, to the byte; and what a peer printed, and what an
//! independent counter found in the public cases.

use std::collections::BTreeSet;
use std::path::PathBuf;

use memlab::analysis;
use memlab::model::{BlockState, DeviceTrace, Trace};
use memlab::rebuild::{History, Moment, NONE, rebuild};
use memlab::report::{DeviceReport, Four, Fragmentation, LineRow};

use crate::inputs::{Analyzed, EXACT, FAULTS, analyzed, analyzed_path, counters, recordings, testdata};

const MIB: u64 = 1 << 20;

fn only_device(analyzed: &'static Analyzed) -> &'static DeviceReport {
    let with_events: Vec<_> = analyzed.report.devices.iter().filter(|device| device.events > 0).collect();
    assert_eq!(with_events.len(), 1, "one device has events");
    with_events[0]
}

/// The four counters at `part` (`peak` or `current`) as PyTorch states them.
fn stated(folder: &str, name: &str, part: &str) -> Four<u64> {
    let stats = counters(folder, name);
    let of = |counter: &str| stats[&format!("{counter}_bytes.all.{part}")];
    Four {
        requested_bytes: of("requested"),
        allocated_bytes: of("allocated"),
        active_bytes: of("active"),
        reserved_bytes: of("reserved"),
    }
}

fn assert_peaks_and_ends(folder: &'static str, name: &str) {
    let device = only_device(analyzed(folder, name));
    assert_eq!(device.peak, stated(folder, name, "peak"), "peaks of {name}");
    assert_eq!(device.end, stated(folder, name, "current"), "ends of {name}");
    assert_eq!(device.initial, Four::default(), "{name} was recorded from the start");
    assert!(device.history.from_the_start, "{name} was recorded from the start");
}

#[test]
fn peaks_and_ends_equal_pytorchs_counters() {
    for name in EXACT {
        assert_peaks_and_ends("torch", name);
    }
}

#[test]
fn peaks_and_ends_of_recorded_faults_equal_pytorchs_counters() {
    for name in FAULTS {
        assert_peaks_and_ends("gpu", name);
    }
}

/// The device on which the program of `testdata/faults/NAME` worked, and whose counters were read.
fn device_of(name: &str) -> u32 {
    let text =
        std::fs::read_to_string(testdata("faults").join(format!("{name}.json"))).expect("right values");
    let values: serde_json::Value = serde_json::from_str(&text).expect("right values are JSON");
    values["device"].as_u64().expect("the device is stated") as u32
}

/// Names of the recordings in `testdata/faults`.
fn faults() -> Vec<String> {
    let stem = |path: PathBuf| {
        let file = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
        file.trim_end_matches(".pickle.gz").to_owned()
    };
    recordings("faults").into_iter().map(stem).collect()
}

#[test]
fn recorded_faults_and_healthy_programs_are_rebuilt_to_the_byte() {
    let names = faults();
    assert!(names.len() >= 38, "the recordings were not found");
    for name in &names {
        let analyzed = analyzed("faults", name);
        let id = device_of(name);
        let device = analyzed.report.devices.iter().find(|device| device.device == id).expect("its device");
        assert_eq!(device.peak, stated("faults", name, "peak"), "peaks of {name}");
        assert_eq!(device.end, stated("faults", name, "current"), "ends of {name}");
        assert_rebuilt_layout(name, &analyzed.trace);
        assert_counters_of("faults", name, id, |_| true);
    }
}

#[test]
fn a_ring_that_lost_its_beginning_ends_exactly_and_says_what_it_lost() {
    let analyzed = analyzed("torch", "ring");
    let device = only_device(analyzed);
    assert_eq!(device.end, stated("torch", "ring", "current"));
    // Requested and reserved bytes peak within the window. Allocated bytes were 2 MiB higher once before it; an
    // independent replay of the window gives this peak, whatever the one unprovable block is taken for.
    let process = stated("torch", "ring", "peak");
    let window = Four { allocated_bytes: 1_238_264_832, active_bytes: 1_238_264_832, ..process };
    assert_eq!(device.peak, window);
    assert_eq!(device.peak_event.allocated_bytes, Some(496));
    assert!(!device.history.from_the_start);
    assert!(device.history.initial_allocations > 0);
    assert!(device.initial.allocated_bytes > 0);
}

#[test]
fn an_oom_recording_keeps_the_failing_request() {
    let device = only_device(analyzed("torch", "oom"));
    assert_eq!(device.ooms.len(), 1);
    // The counters were read after the exception; the run ended with that OOM, so the peaks are its peaks.
    assert_eq!(device.peak, stated("torch", "oom", "peak"));
    let oom = &device.ooms[0];
    assert_eq!(oom.event, 6_040);
    assert_eq!(Some(oom.reserved_bytes), device.fragmentation.at_oom.as_ref().map(|f| f.reserved_bytes));
}

/// (address, bytes, requested bytes, pending) of every active block, by the snapshot itself.
fn snapshot_blocks(device: &DeviceTrace) -> BTreeSet<(u64, u64, u64, bool)> {
    let segments = device.segments.as_ref().expect("a snapshot states its segments");
    let active = |block: &&memlab::model::Block| block.state != BlockState::Inactive;
    segments
        .iter()
        .flat_map(|segment| segment.blocks.iter().filter(active))
        .map(|block| {
            let pending = block.state == BlockState::ActivePendingFree;
            (block.address, block.bytes, block.requested_bytes, pending)
        })
        .collect()
}

/// The same by the rebuilt history.
fn rebuilt_blocks(history: &History) -> BTreeSet<(u64, u64, u64, bool)> {
    let rows = &history.allocations;
    (0..rows.len())
        .filter(|&row| rows.free_completed_events[row] == NONE)
        .map(|row| {
            let pending = rows.free_requested_events[row] != NONE;
            (rows.addresses[row], rows.block_bytes[row], rows.requested_bytes[row], pending)
        })
        .collect()
}

/// (address, bytes) of every segment, neighbouring pieces of an expandable segment joined.
fn rebuilt_segments(history: &History) -> BTreeSet<(u64, u64)> {
    let ranges = &history.ranges;
    let end = Moment(history.events);
    let mut held: Vec<_> = (0..ranges.len())
        .filter(|&row| ranges.is_held_at(row, end))
        .map(|row| (ranges.addresses[row], ranges.bytes[row], ranges.expandable[row]))
        .collect();
    held.sort_unstable();
    let mut joined: Vec<(u64, u64, bool)> = Vec::new();
    for (address, bytes, expandable) in held {
        match joined.last_mut() {
            Some(last) if expandable && last.2 && last.0 + last.1 == address => last.1 += bytes,
            _ => joined.push((address, bytes, expandable)),
        }
    }
    joined.into_iter().map(|(address, bytes, _)| (address, bytes)).collect()
}

fn assert_rebuilt_layout(name: &str, trace: &Trace) {
    for device in trace.devices.iter().filter(|device| !device.events.is_empty()) {
        let history = rebuild(trace, device);
        assert_eq!(rebuilt_blocks(&history), snapshot_blocks(device), "blocks of {name}");
        let stated = device.segments.as_ref().expect("a snapshot states its segments");
        let stated: BTreeSet<_> = stated.iter().map(|segment| (segment.address, segment.bytes)).collect();
        assert_eq!(rebuilt_segments(&history), stated, "segments of {name}");
    }
}

#[test]
fn rebuilt_blocks_equal_the_snapshots_segments() {
    for name in EXACT.iter().chain(&["ring", "oom"]) {
        assert_rebuilt_layout(name, &analyzed("torch", name).trace);
    }
}

#[test]
fn rebuilt_blocks_equal_the_segments_of_recorded_faults() {
    for path in recordings("gpu") {
        assert_rebuilt_layout(&path.display().to_string(), &analyzed_path(&path).trace);
    }
}

/// Keys of `memory_stats()` that every trace from the start must give.
fn promised_keys() -> Vec<String> {
    let mut keys = Vec::new();
    let counters = [
        "allocation",
        "segment",
        "active",
        "allocated_bytes",
        "reserved_bytes",
        "active_bytes",
        "requested_bytes",
        "inactive_split",
        "inactive_split_bytes",
    ];
    for pool in ["all", "small_pool", "large_pool"] {
        for counter in counters {
            for part in ["current", "peak", "allocated", "freed"] {
                keys.push(format!("{counter}.{pool}.{part}"));
            }
        }
    }
    keys.extend(["num_ooms", "num_device_alloc", "num_device_free"].map(str::to_owned));
    keys
}

fn assert_counters(folder: &'static str, name: &str, is_asked: impl Fn(&str) -> bool) {
    assert_counters_of(folder, name, 0, is_asked);
}

fn assert_counters_of(folder: &'static str, name: &str, device: u32, is_asked: impl Fn(&str) -> bool) {
    let right = counters(folder, name);
    let all = analysis::stats(&analyzed(folder, name).trace, Some(device), None).expect("its counters");
    assert_eq!(all.len(), 1, "one device was asked for");
    let ours = &all[0].1;
    for key in promised_keys().iter().filter(|key| is_asked(key)) {
        assert!(ours.contains_key(key), "{name}: {key} is missing");
    }
    let wrong: Vec<_> = ours
        .iter()
        .filter(|(key, value)| is_asked(key) && right.get(*key).is_some_and(|right| right != *value))
        .map(|(key, value)| format!("{key}: {value}, PyTorch said {}", right[key]))
        .collect();
    assert!(wrong.is_empty(), "{name}: {wrong:#?}");
}

#[test]
fn every_counter_given_equals_memory_stats() {
    for name in EXACT {
        assert_counters("torch", name, |_| true);
    }
    for name in FAULTS {
        assert_counters("gpu", name, |_| true);
    }
}

#[test]
fn current_counters_of_a_ring_are_exact() {
    assert_counters("torch", "ring", |key| key.ends_with(".current"));
}

#[test]
fn no_counter_is_invented() {
    let known = counters("torch", "cnn");
    let ours = analysis::stats(&analyzed("torch", "cnn").trace, None, None).expect("counters");
    for key in ours[0].1.keys() {
        assert!(known.contains_key(key), "{key} is no key of memory_stats()");
    }
}

#[test]
fn counters_before_the_first_event_are_zero_and_after_the_last_are_the_end() {
    let trace = &analyzed("torch", "cnn").trace;
    let at = |event| analysis::stats(trace, Some(0), event).expect("counters")[0].1.clone();
    assert_eq!(at(Some(381)), at(None), "event 381 is the last one");
    // Event 0 obtains the first segment.
    let first = at(Some(0));
    assert_eq!(first["segment.all.current"], 1);
    assert_eq!(first["allocation.all.current"], 0);
}

/// The line of the user's program, by number; `scenarios.py` is the only user file of `cnn`.
fn line_of_cnn(number: u64) -> &'static LineRow {
    let device = only_device(analyzed("torch", "cnn"));
    let is_it = |row: &&LineRow| {
        row.line == Some(number) && row.file.as_deref().is_some_and(|file| file.ends_with("scenarios.py"))
    };
    device.lines.iter().find(is_it).unwrap_or_else(|| panic!("no line {number} in the table"))
}

#[test]
fn active_peaks_on_stack_equal_what_pytorch_memlab_printed() {
    // MiB as printed, two decimals: the column `active_bytes peak` of testdata/torch/cnn_memlab.json.
    let printed = [
        (95, 68.91),
        (96, 68.91),
        (97, 156.91),
        (98, 152.92),
        (100, 177.25),
        (101, 69.52),
        (85, 132.91),
        (86, 124.91),
        (87, 156.91),
        (88, 152.91),
        (90, 152.91),
    ];
    for (number, mib) in printed {
        let ours = line_of_cnn(number).active_peak_on_stack_bytes as f64 / MIB as f64;
        assert!((ours - mib).abs() <= 0.01, "line {number}: {ours:.3} MiB, the peer printed {mib}");
    }
}

#[test]
fn the_backward_pass_is_charged_to_its_line_by_inference_and_says_so() {
    let backward = line_of_cnn(100);
    assert_eq!(backward.function.as_deref(), Some("train_one_step"));
    assert!(backward.figures.inferred_bytes > 0);
    assert!(backward.figures.inferred_bytes <= backward.figures.held_at_peak_bytes);
}

fn case(name: &str) -> &'static DeviceReport {
    let device = only_device(analyzed("cases", name));
    assert!(device.history.from_the_start, "{name} is recorded from the start");
    device
}

fn mib(value: u64) -> u64 {
    value * MIB
}

fn pinned_by(fragmentation: &Fragmentation, file: &str, line: u64) -> (u64, u64) {
    let is_it = |pin: &&memlab::report::PinRow| pin.file.as_deref() == Some(file) && pin.line == Some(line);
    let pin = fragmentation.pins.iter().find(is_it).expect("the line pins");
    (pin.blocks, pin.block_bytes)
}

#[test]
fn case_07_a_comb_of_holes_is_measured_and_its_pins_are_named() {
    let device = case("C07_comb_50MiB");
    let at_oom = device.fragmentation.at_oom.as_ref().expect("the case ends in an OOM");
    assert_eq!(at_oom.reserved_bytes, mib(31_744));
    assert_eq!(at_oom.allocated_bytes, mib(18_304));
    assert_eq!(at_oom.stranded_bytes, mib(13_440));
    assert_eq!(at_oom.releasable_bytes, 0);
    assert_eq!(at_oom.stranded_blocks, 1_280);
    assert_eq!(at_oom.largest_free_block_bytes, mib(11));
    assert_eq!(pinned_by(at_oom, "cache.py", 9), (640, mib(640 * 19)));
    assert_eq!(device.ooms[0].device_free_bytes, Some(mib(30)));
}

#[test]
fn case_10_a_pending_free_fits_the_failing_request() {
    let device = case("C10_spurious_oom_pending");
    let at_oom = device.fragmentation.at_oom.as_ref().expect("the case has an OOM");
    assert_eq!(at_oom.pending_free_bytes, mib(8 * 1024));
    assert_eq!(at_oom.allocated_bytes, mib(70 * 1024));
    assert_eq!(at_oom.stranded_bytes + at_oom.releasable_bytes, 0);
    assert_eq!(device.ooms[0].requested_bytes, mib(8 * 1024));
    assert_eq!(device.ooms[0].device_free_bytes, Some(mib(1024)));
    assert_eq!(device.ooms[0].verdict, "pending-at-oom");
}

#[test]
fn case_16_a_kept_loss_is_the_top_line_at_the_end() {
    let device = case("C16_loss_kept");
    assert_eq!(device.end.allocated_bytes, mib(992));
    let kept = device.lines.iter().max_by_key(|row| (row.line == Some(55), row.figures.live_at_end_bytes));
    let kept = kept.expect("lines");
    assert_eq!(kept.file.as_deref(), Some("runner.py"));
    assert_eq!(kept.figures.live_at_end_bytes, mib(480));
    assert_eq!(kept.figures.allocations, 20);
}

#[test]
fn case_17_concatenation_holds_three_copies_at_the_peak() {
    let device = case("C17_eval_concat");
    assert_eq!(device.peak.allocated_bytes, mib(7_168));
    assert_eq!(device.end.allocated_bytes, mib(4_096));
    assert_eq!(device.end.reserved_bytes, mib(21_248));
    assert_eq!(device.fragmentation.at_end.releasable_bytes, mib(17_152));
    assert_eq!(device.fragmentation.at_end.stranded_bytes, 0);
}

#[test]
fn case_24_a_staircase_is_cache_and_no_leak() {
    let device = case("C24_staircase_cache");
    assert_eq!(device.peak.allocated_bytes, mib(7_168));
    let at_end = &device.fragmentation.at_end;
    assert_eq!(at_end.reserved_bytes, mib(22_528));
    assert_eq!((at_end.active_bytes, at_end.stranded_bytes), (0, 0));
    assert_eq!(at_end.releasable_bytes, mib(22_528));
}

#[test]
fn case_26_cache_of_a_one_shot_stream_is_shown_with_its_stream() {
    let device = case("C26_one_shot_stream");
    let at_end = &device.fragmentation.at_end;
    assert_eq!(at_end.reserved_bytes, mib(61_440));
    assert_eq!(at_end.allocated_bytes, mib(40_960));
    assert_eq!(at_end.releasable_bytes, mib(20_480));
    let on_nine: u64 =
        device.pools.iter().filter(|pool| pool.stream == 9).map(|pool| pool.releasable_bytes).sum();
    assert_eq!(on_nine, mib(20_480));
}

#[test]
fn case_37_growing_by_copy_holds_the_last_two() {
    let device = case("C37_kv_cat_growth");
    assert_eq!(device.peak.allocated_bytes, mib(255));
    assert_eq!(device.end.allocated_bytes, mib(128));
    assert_eq!(device.end.reserved_bytes, mib(6_240));
    assert_eq!(device.fragmentation.at_end.releasable_bytes, mib(6_112));
}

#[test]
fn case_49_private_pools_hold_most_of_the_card() {
    let device = case("C49_private_pools");
    let private: Vec<_> = device.pools.iter().filter(|pool| pool.pool != (0, 0)).collect();
    let ids: BTreeSet<_> = private.iter().map(|pool| pool.pool).collect();
    assert_eq!(ids.len(), 9);
    assert_eq!(private.iter().map(|pool| pool.reserved_bytes).sum::<u64>(), mib(9_216));
    assert_eq!(device.ooms[0].device_free_bytes, Some(896 * 1024));
    assert_ne!(device.ooms[0].verdict, "fragmentation");
}

#[test]
fn every_public_file_is_read() {
    for path in recordings("public") {
        let report = &analyzed_path(&path).report;
        assert_eq!(report.format, "torch-snapshot", "{}", path.display());
        assert!(!report.devices.is_empty(), "{} has a device", path.display());
    }
}

#[test]
fn events_of_public_files_are_counted() {
    let expected = [
        ("forward_bf16", 2_811),
        ("impossible_values", 1_040),
        ("inference", 4_998),
        ("lm_forward", 4_657),
        ("lm_fullstep", 19_936),
        ("no_events", 0),
        ("no_history", 0),
        ("no_time_us", 10_307),
        ("oldest_form", 1),
        ("oldest_form_full", 1),
        ("one_event", 1),
        ("pure_cache", 97),
        ("settings_conflict", 0),
        ("small", 713),
        ("training_starts_late", 22_331),
    ];
    for (name, events) in expected {
        assert_eq!(analyzed("public", name).report.events, events, "{name}");
    }
}

#[test]
fn impossible_values_are_reported_and_not_believed() {
    let report = &analyzed("public", "impossible_values").report;
    assert!(!report.warnings.is_empty());
}

#[test]
fn a_recording_that_starts_late_says_what_it_never_saw() {
    let device = only_device(analyzed("public", "training_starts_late"));
    assert!(!device.history.from_the_start);
    assert!(device.history.initial_allocations >= 226, "{}", device.history.initial_allocations);
}

/// A window that starts at the beginning sees the peaks that the counters had at its end.
#[test]
fn a_window_has_the_counters_of_its_last_event() {
    let trace = &analyzed("torch", "cnn").trace;
    for end in [1, 57, 120, 200, 382] {
        let options = analysis::Options { window: Some(0..end), ..analysis::Options::default() };
        let report = analysis::analyze("cnn", trace, &options).expect("cnn has device 0");
        let (_, stats) = &analysis::stats(trace, None, Some(end - 1)).expect("cnn has that event")[0];
        let device = &report.devices[0];
        assert_eq!(device.peak.allocated_bytes, stats["allocated_bytes.all.peak"], "up to event {end}");
        assert_eq!(device.peak.reserved_bytes, stats["reserved_bytes.all.peak"], "up to event {end}");
        assert_eq!(device.end.requested_bytes, stats["requested_bytes.all.current"], "up to event {end}");
    }
}

/// The same program ran through under expandable segments, with 1,992,294,400 bytes reserved.
#[test]
fn a_finding_of_fragmentation_carries_what_its_remedy_saves() {
    let findings = &analyzed("gpu", "fragmentation_oom").report.findings;
    let finding = findings.iter().find(|finding| finding.rule == "fragmentation").expect("it fired");
    assert_eq!(finding.bytes, 900 * MIB);
    assert_eq!(finding.evidence["stranded_blocks"], 60);
    assert_eq!(finding.evidence["remedy_conf"], "expandable_segments:True");
    assert_eq!(finding.evidence["remedy_fits"], true);
    assert_eq!(finding.evidence["remedy_peak_reserved_bytes"], 1_992_294_400_u64);
    assert!(finding.remedy.contains("expandable_segments:True"), "{}", finding.remedy);
    assert_eq!(finding.lines[0].function, "fragmentation_oom");
    let others = &analyzed("gpu", "capacity_oom").report.findings;
    assert!(others.iter().all(|finding| finding.rule != "fragmentation"));
}
