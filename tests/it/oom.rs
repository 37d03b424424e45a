//! Out of memory, on recordings: the verdict, the rules that fire, and the figures that prove them.

use memlab::model::{DeviceFacts, DeviceId};
use memlab::report::{DeviceReport, FindingRow, OomRow, TraceReport};

use crate::inputs::{Analyzed, analyze, analyzed, analyzed_path, recordings, testdata};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The rules about failures, in the order of the contract.
const RULES: [&str; 8] = [
    "huge-request",
    "capacity",
    "near-capacity",
    "fragmentation",
    "pending-at-oom",
    "outside-allocator",
    "memory-cap",
    "driver-refused",
];

fn report(folder: &'static str, name: &str) -> &'static TraceReport {
    &analyzed(folder, name).report
}

fn device(report: &TraceReport) -> &DeviceReport {
    &report.devices[0]
}

fn oom(report: &TraceReport, index: usize) -> &OomRow {
    &device(report).ooms[index]
}

/// Names of the rules about failures that fire, without those that are told of growth instead of a failure.
fn fired(report: &TraceReport) -> Vec<&str> {
    let at_oom = |row: &&FindingRow| RULES.contains(&row.rule.as_str()) && row.evidence.contains_key("ooms");
    let mut names: Vec<&str> = report.findings.iter().filter(at_oom).map(|row| row.rule.as_str()).collect();
    names.sort_by_key(|name| RULES.iter().position(|rule| rule == name));
    names
}

fn finding<'a>(report: &'a TraceReport, rule: &str) -> &'a FindingRow {
    let of_failure = |row: &&FindingRow| row.rule == rule && row.evidence.contains_key("ooms");
    report.findings.iter().find(of_failure).unwrap_or_else(|| panic!("`{rule}` does not fire"))
}

fn bytes(finding: &FindingRow, name: &str) -> u64 {
    finding.evidence[name].as_u64().unwrap_or_else(|| panic!("`{name}` is {:?}", finding.evidence[name]))
}

fn first_line(finding: &FindingRow) -> (&str, u64, u64) {
    let line = &finding.lines[0];
    (line.file.as_str(), line.line, line.bytes)
}

#[test]
fn one_line_keeps_nine_hundred_mebibytes_in_pieces() {
    let report = report("gpu", "fragmentation_oom");
    assert_eq!((oom(report, 0).verdict.as_str(), oom(report, 0).slack_bytes), ("fragmentation", 900 * MIB));
    assert_eq!(fired(report), ["fragmentation", "memory-cap"]);
    let found = finding(report, "fragmentation");
    assert_eq!((found.severity, found.bytes), ("error", 900 * MIB));
    assert_eq!(first_line(found), ("/workspace/cases.py", 60, 900 * MIB));
    assert_eq!(found.lines.len(), 1);
    assert_eq!((bytes(found, "stranded_blocks"), bytes(found, "usable_free_blocks")), (60, 60));
    assert_eq!(bytes(found, "largest_free_block_bytes"), 15 * MIB);
    assert_eq!((bytes(found, "pinning_blocks"), bytes(found, "pinning_bytes")), (60, 60 * 25 * MIB));
    // Nobody states the limit, so nothing is certain to be left of it: ten segments of 40 MiB must go.
    assert_eq!((bytes(found, "change_blocks"), bytes(found, "change_bytes")), (10, 250 * MIB));
    // What the same program reserved under the setting, as measured.
    assert_eq!(found.evidence["remedy_conf"], "expandable_segments:True");
    assert_eq!(bytes(found, "remedy_peak_reserved_bytes"), 1_992_294_400);
    let cap = finding(report, "memory-cap");
    assert_eq!((cap.severity, &cap.evidence["cause"]), ("warning", &"fragmentation".into()));
    assert!(bytes(cap, "cap_at_least_bytes") <= 2_600 * MIB && 2_600 * MIB < bytes(cap, "cap_below_bytes"));
}

/// The limit is 2 GiB: 134 MiB were left, and 24.7 MiB free in pieces.
#[test]
fn too_much_under_a_limit_is_capacity_with_its_lines() {
    let report = report("gpu", "capacity_oom");
    assert_eq!((oom(report, 0).verdict.as_str(), oom(report, 0).cause.as_str()), ("memory-cap", "capacity"));
    assert_eq!(fired(report), ["capacity", "memory-cap"]);
    let found = finding(report, "capacity");
    let truly_missing = 256 * MIB - (2 * GIB - 2_006_974_464) - 25_935_872;
    let (least, most) = (bytes(found, "missing_at_least_bytes"), bytes(found, "missing_bytes"));
    assert!(least <= truly_missing && truly_missing <= most, "{least} {truly_missing} {most}");
    assert_eq!((found.severity, found.bytes, most), ("error", most, 141_836_288));
    assert_eq!(first_line(found), ("/workspace/cases.py", 45, 1_108_344_832));
    let live: u64 = found.evidence["live_by_line"]
        .as_array()
        .map_or(0, |lines| lines.iter().filter_map(|line| line["bytes"].as_u64()).sum());
    assert_eq!(live + bytes(found, "live_without_line_bytes"), oom(report, 0).allocated_bytes);
    let cap = finding(report, "memory-cap");
    assert_eq!((cap.severity, &cap.evidence["cap_is_stated"]), ("warning", &false.into()));
    assert!(bytes(cap, "cap_at_least_bytes") <= 2 * GIB && 2 * GIB < bytes(cap, "cap_below_bytes"));
    assert!(!found.remedy.contains("expandable"), "{}", found.remedy);
}

#[test]
fn the_larger_model_under_three_gibibytes_is_capacity_too() {
    let report = report("torch", "oom");
    assert_eq!((oom(report, 0).verdict.as_str(), oom(report, 0).cause.as_str()), ("memory-cap", "capacity"));
    assert_eq!(fired(report), ["capacity", "memory-cap"]);
    let found = finding(report, "capacity");
    assert_eq!(first_line(found), ("/workspace/scenarios.py", 117, 805_306_368));
    assert_eq!(found.evidence["line"], "/workspace/scenarios.py:134 forward");
    assert_eq!(
        (bytes(found, "largest_free_block_bytes"), bytes(found, "slack_bytes")),
        (112 * MIB, 155_654_144)
    );
    assert_eq!(bytes(found, "missing_bytes"), 91_809_792);
    let cap = finding(report, "memory-cap");
    assert!(bytes(cap, "cap_at_least_bytes") <= 3 * GIB && 3 * GIB < bytes(cap, "cap_below_bytes"));
}

/// The same run as memlab's recorder saw it: the limit is known, so every figure is exact.
#[test]
fn a_limit_that_the_recorder_noted_makes_the_figures_exact() {
    let report = &analyzed_path(&testdata("emitter/oom.msgpack")).report;
    let (row, left) = (oom(report, 0), 3 * GIB - 3_135_242_240);
    assert_eq!(
        (row.verdict.as_str(), row.cap_bytes, row.missing_bytes),
        ("memory-cap", Some(3 * GIB), 26_798_080)
    );
    assert_eq!(fired(report), ["capacity", "memory-cap"]);
    let found = finding(report, "capacity");
    assert_eq!(bytes(found, "missing_bytes"), 256 * MIB - left - 155_654_144);
    assert_eq!((&found.evidence["missing_is_exact"], bytes(found, "cap_bytes")), (&true.into(), 3 * GIB));
    assert_eq!(bytes(found, "outside_bytes"), 787_283_968);
    let cap = finding(report, "memory-cap");
    assert_eq!((bytes(cap, "cap_short_bytes"), cap.bytes), (256 * MIB - left, 256 * MIB - left));
    assert!(cap.title.starts_with("The limit of 3.0 GiB"), "{}", cap.title);
}

/// 1,536 MiB are allowed; two failures bound the limit to within 2 MiB.
#[test]
fn several_failures_are_told_by_cause_and_bound_the_limit_together() {
    let report = report("gpu", "kept_by_exception");
    assert_eq!(device(report).ooms.len(), 5);
    assert_eq!(fired(report), ["capacity", "near-capacity", "memory-cap"]);
    let (capacity, near) = (finding(report, "capacity"), finding(report, "near-capacity"));
    assert_eq!((bytes(capacity, "ooms"), bytes(capacity, "event")), (1, 347));
    assert_eq!((bytes(near, "ooms"), bytes(near, "first_event"), bytes(near, "event")), (4, 368, 371));
    let cap = finding(report, "memory-cap");
    assert_eq!(bytes(cap, "ooms"), 5);
    assert_eq!((bytes(cap, "cap_at_least_bytes"), bytes(cap, "cap_below_bytes")), (1_536 * MIB, 1_538 * MIB));
    let truly_missing = 245_760_000 - (1_536 * MIB - 1_598_029_824) - 25_923_584;
    assert_eq!(bytes(capacity, "missing_bytes"), truly_missing);
    assert_eq!((bytes(near, "slack_bytes"), bytes(near, "missing_free_bytes")), (23_826_432, 2 * MIB));
}

/// A hole of 27.5 MiB lies on the other stream. Expandable segments are on, and are not advised.
#[test]
fn a_hole_on_another_stream_is_no_hole() {
    let report = report("torch", "routed.expandable_cap90");
    assert_eq!(fired(report), ["fragmentation", "memory-cap"]);
    let found = finding(report, "fragmentation");
    assert_eq!(bytes(found, "largest_free_block_bytes"), 0);
    assert_eq!(bytes(found, "largest_free_block_elsewhere_bytes"), 28_811_264);
    assert!(found.remedy.contains("belongs to another stream"), "{}", found.remedy);
    assert!(!found.remedy.contains("CONF=expandable_segments:True"), "{}", found.remedy);
}

/// No limit: the card itself is full. The file does not say how large it is.
#[test]
fn a_full_card_is_capacity() {
    let report = report("faults", "capacity_real");
    assert_eq!((oom(report, 0).verdict.as_str(), fired(report)), ("capacity", vec!["capacity"]));
    let found = finding(report, "capacity");
    assert_eq!(bytes(found, "missing_bytes"), 4 * GIB - 3_528_589_312);
    assert_eq!((found.lines[0].bytes, &found.evidence["missing_is_exact"]), (136 * GIB, &true.into()));
    // One of the blocks of 4 GiB is as much as is needed.
    assert_eq!((bytes(found, "change_blocks"), bytes(found, "change_bytes")), (1, 4 * GIB));
    assert!(found.remedy.contains("does not say how large the device is"), "{}", found.remedy);
}

/// No limit: 36 GiB asked, 27.3 free, 46.1 in 24 pieces that 80 MiB each keep apart.
#[test]
fn pieces_on_a_real_card_are_fragmentation() {
    let report = report("faults", "fragmentation_real");
    assert_eq!((oom(report, 0).verdict.as_str(), fired(report)), ("fragmentation", vec!["fragmentation"]));
    let found = finding(report, "fragmentation");
    assert_eq!((found.bytes, bytes(found, "stranded_blocks")), (24 * 1_968 * MIB, 24));
    assert_eq!((bytes(found, "pinning_blocks"), bytes(found, "pinning_bytes")), (24, 24 * 80 * MIB));
    assert_eq!((bytes(found, "change_blocks"), bytes(found, "change_bytes")), (5, 400 * MIB));
    assert_eq!(
        (&found.evidence["confidence"], &found.evidence["remedy_fits"]),
        (&"high".into(), &true.into())
    );
}

/// 100 GiB lie outside the allocator. The file alone cannot tell that from a smaller card; with its size it is certain.
#[test]
fn what_lies_outside_needs_the_size_of_the_card() {
    let Analyzed { trace, report } = analyzed("faults", "outside_real");
    assert_eq!((oom(report, 0).verdict.as_str(), fired(report)), ("capacity", vec!["capacity"]));
    assert!(finding(report, "capacity").remedy.contains("39.2 GiB of it are accounted for"));
    let mut trace = trace.clone();
    let (name, total_bytes) = ("NVIDIA H200".to_owned(), Some(150_109_880_320));
    trace.process.devices = vec![DeviceFacts { device: DeviceId(0), name, total_bytes }];
    let report = &analyze(&trace);
    assert_eq!(
        (oom(report, 0).verdict.as_str(), fired(report)),
        ("outside-allocator", vec!["outside-allocator"])
    );
    let found = finding(report, "outside-allocator");
    let outside = 150_109_880_320 - 1_284_636_672 - 40_802_189_312;
    assert_eq!((found.severity, found.bytes), ("error", outside));
    assert_eq!(bytes(found, "outside_unexplained_bytes"), outside - GIB);
}

#[test]
fn two_hundred_gibibytes_at_once_are_huge_on_any_card_there_was_room_on() {
    let report = report("faults", "huge_request");
    assert_eq!((oom(report, 0).verdict.as_str(), fired(report)), ("huge-request", vec!["huge-request"]));
    let found = finding(report, "huge-request");
    assert_eq!((found.bytes, bytes(found, "most_bytes")), (200 * GIB, 149_335_179_264 + 56_623_104));
}

/// 1,200 MiB are allowed.
#[test]
fn a_failure_that_was_handled_well_is_still_explained() {
    let report = report("faults", "oom_handled");
    assert_eq!(fired(report), ["capacity", "memory-cap"]);
    let cap = finding(report, "memory-cap");
    assert!(bytes(cap, "cap_at_least_bytes") <= 1_200 * MIB && 1_200 * MIB < bytes(cap, "cap_below_bytes"));
}

#[test]
fn case_07_a_comb_refuses_fifty_mebibytes() {
    let report = report("cases", "C07_comb_50MiB");
    assert_eq!((oom(report, 0).verdict.as_str(), fired(report)), ("fragmentation", vec!["fragmentation"]));
    let found = finding(report, "fragmentation");
    assert_eq!(first_line(found), ("cache.py", 9, 13_440 * MIB));
    assert_eq!(
        (bytes(found, "stranded_blocks"), bytes(found, "largest_free_block_bytes")),
        (1_280, 11 * MIB)
    );
    assert_eq!((bytes(found, "pinning_blocks"), bytes(found, "pinning_bytes")), (640, 640 * 19 * MIB));
    let holes = found.evidence["holes"].as_array().expect("sizes of the pieces");
    assert_eq!(
        (holes.len(), &holes[0]["at_least_bytes"], &holes[0]["blocks"]),
        (1, &(8 * MIB).into(), &1_280.into())
    );
    // 30 MiB are free: one segment of 40 MiB more is enough, and one block keeps it.
    assert_eq!((bytes(found, "change_blocks"), bytes(found, "change_bytes")), (1, 19 * MIB));
}

#[test]
fn case_10_the_block_was_pending() {
    let report = report("cases", "C10_spurious_oom_pending");
    assert_eq!((oom(report, 0).verdict.as_str(), fired(report)), ("pending-at-oom", vec!["pending-at-oom"]));
    let found = finding(report, "pending-at-oom");
    assert_eq!((found.bytes, bytes(found, "pending_free_blocks")), (8 * GIB, 1));
    assert_eq!(first_line(found), ("copy.py", 3, 8 * GIB));
}

/// 1 GiB asked, 200 MiB free, nothing in pieces; 1.8 GiB of the card are somewhere else, which is worth a warning.
#[test]
fn case_14_the_failure_in_the_loop_is_capacity() {
    let report = report("cases", "C14_kept_by_exception");
    assert_eq!(
        (oom(report, 0).verdict.as_str(), fired(report)),
        ("capacity", vec!["capacity", "outside-allocator"])
    );
    let found = finding(report, "capacity");
    assert_eq!(bytes(found, "missing_bytes"), GIB - 200 * MIB);
    assert_eq!(first_line(found), ("model.py", 10, 3_364_003_328));
    assert_eq!(finding(report, "outside-allocator").severity, "warning");
    assert_eq!(finding(report, "outside-allocator").bytes, 8 * GIB - 200 * MIB - 6_440_500_224);
}

#[test]
fn case_49_private_pools_are_no_pieces() {
    let report = report("cases", "C49_private_pools");
    assert_eq!((oom(report, 0).verdict.as_str(), fired(report)), ("capacity", vec!["capacity"]));
    let found = finding(report, "capacity");
    assert_eq!((bytes(found, "private_pool_free_bytes"), bytes(found, "slack_bytes")), (9 * GIB, 0));
    assert!(found.remedy.starts_with("9.0 GiB are free in private pools"), "{}", found.remedy);
}

#[test]
fn a_request_beyond_the_device_is_huge() {
    let report = &analyzed_path(&testdata("emitter/uncaught.msgpack")).report;
    assert_eq!(fired(report), ["huge-request"]);
    let found = finding(report, "huge-request");
    assert_eq!((found.bytes, bytes(found, "most_bytes")), (4 << 40, 150_109_880_320));
    assert_eq!(first_line(found), ("uncaught.py", 22, 4 << 40));
}

/// Limits, retries, settings and streams alone are no failure; nor are the ordinary 0.7 GiB outside.
#[test]
fn recordings_without_a_failure_have_no_such_finding() {
    let mut quiet = 0;
    for folder in ["torch", "gpu", "faults", "cases", "public"] {
        for path in recordings(folder) {
            let report = &analyzed_path(&path).report;
            if report.devices.iter().all(|device| device.ooms.is_empty()) {
                quiet += 1;
                let told: Vec<_> = (report.findings.iter())
                    .filter(|row| RULES.contains(&row.rule.as_str()) && row.severity == "error")
                    .collect();
                assert!(told.is_empty(), "{}: {told:?}", path.display());
                assert_eq!(fired(report), [""; 0], "{}", path.display());
            }
        }
    }
    assert!(quiet > 40, "{quiet}");
    for name in ["cnn", "gpt", "leak_cache", "leak_loss", "leak_cycle", "expandable"] {
        let report = &analyzed_path(&testdata(&format!("emitter/{name}.msgpack"))).report;
        assert!(report.findings.iter().all(|row| row.rule != "outside-allocator"), "{name}");
    }
}
