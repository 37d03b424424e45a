//! What stays, over the recordings: which of the four rules about it fires where, with its figures.

use std::collections::BTreeMap;

use memlab::report::FindingRow;

use crate::inputs::{Analyzed, analyzed, analyzed_path, recordings, testdata};

const KEPT: &str = "kept-by-exception";
const WORKSPACE: &str = "library-workspace";
const DUPLICATE: &str = "duplicate-state";
const STATE: &str = "lazy-optimizer-state";

fn found(analyzed: &'static Analyzed, rule: &str) -> Vec<&'static FindingRow> {
    analyzed.report.findings.iter().filter(|finding| finding.rule == rule).collect()
}

fn only(folder: &'static str, name: &str, rule: &str) -> &'static FindingRow {
    let found = found(analyzed(folder, name), rule);
    assert_eq!(found.len(), 1, "{folder}/{name}: {rule}");
    found[0]
}

fn figure(finding: &FindingRow, name: &str) -> u64 {
    finding.evidence[name].as_u64().unwrap_or_else(|| panic!("{name} in {:?}", finding.evidence))
}

/// Bytes of the four rules' findings in a folder's recordings, by name; recordings without any left out.
fn table(folder: &'static str) -> BTreeMap<String, Vec<(String, u64)>> {
    let paths = if folder == "emitter" {
        let files = std::fs::read_dir(testdata(folder)).unwrap().map(|entry| entry.unwrap().path());
        let mut traces: Vec<_> =
            files.filter(|path| path.extension().is_some_and(|is| is == "msgpack")).collect();
        traces.sort();
        traces
    } else {
        recordings(folder)
    };
    let mut table = BTreeMap::new();
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let name =
            [".gz", ".pickle", ".json", ".msgpack"].iter().fold(name, |name, end| name.replace(end, ""));
        let findings = analyzed_path(&path).report.findings.iter();
        let own =
            findings.filter(|finding| [KEPT, WORKSPACE, DUPLICATE, STATE].contains(&finding.rule.as_str()));
        let mut own: Vec<_> = own.map(|finding| (finding.rule.clone(), finding.bytes)).collect();
        own.sort();
        if !own.is_empty() {
            table.insert(name, own);
        }
    }
    table
}

fn check(folder: &'static str, expected: &[(&str, &[(&str, u64)])]) {
    let owned = |rules: &[(&str, u64)]| rules.iter().map(|&(rule, bytes)| (rule.to_owned(), bytes)).collect();
    let expected: BTreeMap<String, Vec<(String, u64)>> =
        expected.iter().map(|&(name, rules)| (name.to_owned(), owned(rules))).collect();
    let found = table(folder);
    let mut names: Vec<&String> = expected.keys().chain(found.keys()).collect();
    names.sort();
    names.dedup();
    names.retain(|name| found.get(*name) != expected.get(*name));
    let differences: Vec<_> = names.iter().map(|&name| (name, found.get(name), expected.get(name))).collect();
    assert!(differences.is_empty(), "{folder}: name, found, expected: {differences:#?}");
}

#[test]
fn workloads_have_their_state_and_their_workspaces_and_nothing_else() {
    let both = |state: u64| [(STATE, state), (WORKSPACE, 67_108_864)];
    let (small, vision) = (both(1_262_592), both(153_600));
    let (gpt, native) = (both(224_722_944), |state| [(STATE, state), (WORKSPACE, 68_157_440)]);
    let one: &[(&str, u64)] = &[(WORKSPACE, 33_554_432)];
    check(
        "torch",
        &[
            ("annotated", &both(123_846_656)),
            ("big", &both(2_664_448)),
            ("cnn", &small),
            ("compiled", &native(1_262_592)),
            ("gpt", &gpt),
            ("gpt_cpp", &native(224_722_944)),
            ("kvcache.default", one),
            ("leak_cache", &small),
            ("llama", &both(219_533_312)),
            ("llama_ckpt", &both(219_402_240)),
            ("noleak", &both(8_446_976)),
            ("oom", &[(STATE, 227_868_672), (WORKSPACE, 33_554_432)]),
            ("routed.default", one),
            ("routed.default_cap85", one),
            ("routed.expandable_cap90", one),
            ("varlen.default", &both(178_884_608)),
            ("varlen.expandable", &both(172_187_648)),
            ("vision.default", &vision),
            ("vision.default_cap85", &vision),
            ("vision.gc0.6_cap100", &vision),
            ("vision.split64_cap85", &vision),
        ],
    );
}

#[test]
fn faults_are_told_from_what_belongs_there() {
    let two: (&str, u64) = (WORKSPACE, 67_108_864);
    check(
        "gpu",
        &[
            ("cache_flush_every_step", &[(STATE, 58_777_600), two]),
            ("capacity_oom", &[(STATE, 285_351_936), two]),
            ("eval_concat", &[(WORKSPACE, 33_554_432)]),
            ("graph_pools", &[(WORKSPACE, 5 * 33_554_432)]),
            ("kept_by_exception", &[(KEPT, 1_489_240_064), two]),
            ("lazy_optimizer", &[(STATE, 218_210_304), two]),
            ("logits_spike", &[two]),
            ("resume_duplicate", &[(DUPLICATE, 29_388_800), two]),
            ("workspace_only", &[(WORKSPACE, 33_554_432)]),
        ],
    );
    check(
        "cases",
        &[
            ("C14_kept_by_exception", &[(KEPT, 3_076_496_896)]),
            ("C20_cublas_workspace", &[(WORKSPACE, 8_519_680)]),
            ("C21_checkpoint_kept", &[(DUPLICATE, 3_221_225_472)]),
        ],
    );
}

#[test]
fn other_recordings_say_what_they_can() {
    check(
        "public",
        &[
            ("forward_bf16", &[(WORKSPACE, 8_519_680)]),
            ("inference", &[(WORKSPACE, 8_519_680)]),
            ("lm_forward", &[(WORKSPACE, 33_554_432)]),
            ("lm_fullstep", &[(STATE, 27_254_476_800), (WORKSPACE, 67_108_864)]),
            ("no_history", &[(WORKSPACE, 8_519_680)]),
            ("no_time_us", &[(WORKSPACE, 17_039_360)]),
            ("oldest_form", &[(WORKSPACE, 8_519_680)]),
            ("one_event", &[(WORKSPACE, 8_519_680)]),
            ("pure_cache", &[(WORKSPACE, 17_039_360)]),
            ("settings_conflict", &[(WORKSPACE, 8_519_680)]),
            ("small", &[(WORKSPACE, 17_039_360)]),
            ("training_starts_late", &[(STATE, 3_387_432_960), (WORKSPACE, 17_039_360)]),
        ],
    );
    check(
        "emitter",
        &[
            ("cnn", &[(STATE, 1_262_592), (WORKSPACE, 67_108_864)]),
            ("gpt", &[(STATE, 224_722_944), (WORKSPACE, 67_108_864)]),
            ("leak_cache", &[(STATE, 1_262_592), (WORKSPACE, 67_108_864)]),
            ("llama", &[(STATE, 219_533_312), (WORKSPACE, 67_108_864)]),
            ("llama_ckpt", &[(STATE, 219_402_240), (WORKSPACE, 67_108_864)]),
            ("oom", &[(STATE, 227_868_672), (WORKSPACE, 67_108_864)]),
        ],
    );
}

#[test]
fn a_kept_exception_is_shown_with_the_step_that_it_keeps() {
    let real = only("gpu", "kept_by_exception", KEPT);
    assert_eq!(real.severity, "error");
    // Six tensors of 245,760,000 bytes of the first failed step, and 14 MiB of the second.
    assert_eq!((figure(real, "event"), figure(real, "failed_steps")), (347, 2));
    assert_eq!((figure(real, "kept_bytes"), figure(real, "held_at_oom_bytes")), (real.bytes, real.bytes));
    assert_eq!((figure(real, "later_rounds_lived"), &real.evidence["rounds_are"]), (4, &"attempts".into()));
    assert!(real.lines[0].file.ends_with("cases.py") && real.lines[0].function == "attempt");
    let case = only("cases", "C14_kept_by_exception", KEPT);
    assert_eq!((figure(case, "kept_allocations"), figure(case, "later_rounds_lived")), (8, 3));
    assert_eq!((&case.evidence["rounds_are"], figure(case, "kept_of_backward_bytes")), (&"steps".into(), 0));
}

#[test]
fn workspaces_are_information_and_named_by_how_they_are_known() {
    for (folder, name, known_by, workspaces) in [
        ("gpu", "workspace_only", "native frames", 1),
        ("torch", "gpt_cpp", "native frames", 3),
        ("torch", "gpt", "size and place", 2),
        ("cases", "C20_cublas_workspace", "native frames", 1),
    ] {
        let finding = only(folder, name, WORKSPACE);
        assert_eq!((finding.severity, figure(finding, "workspaces")), ("info", workspaces), "{name}");
        assert_eq!(finding.evidence["known_by"], known_by, "{name}");
    }
}

#[test]
fn a_kept_checkpoint_is_counted_out_of_the_peak() {
    const MIB: u64 = 1 << 20;
    let case = only("cases", "C21_checkpoint_kept", DUPLICATE);
    assert_eq!((figure(case, "peak_bytes"), figure(case, "peak_without_bytes")), (6656 * MIB, 3584 * MIB));
    assert_eq!((figure(case, "duplicates"), figure(case, "loaded_bytes")), (48, 3072 * MIB));
    // The optimizer took over its two thirds of the checkpoint; the model's third is there twice.
    let real = only("gpu", "resume_duplicate", DUPLICATE);
    assert_eq!((figure(real, "duplicates"), figure(real, "loaded_allocations")), (14, 56));
    assert_eq!((figure(real, "peak_bytes"), figure(real, "peak_without_bytes")), (273_886_208, 244_497_408));
    assert!(real.lines[0].file.ends_with("cases.py") && real.lines[0].line == 144);
}

#[test]
fn optimizer_state_is_a_multiple_of_the_parameters() {
    for (folder, name) in [("gpu", "lazy_optimizer"), ("torch", "gpt"), ("torch", "llama"), ("torch", "cnn")]
    {
        let finding = only(folder, name, STATE);
        assert_eq!((finding.severity, &finding.evidence["factor"]), ("info", &2.0.into()), "{name}");
        assert_eq!(figure(finding, "state_bytes"), 2 * figure(finding, "parameter_bytes"), "{name}");
        assert_eq!(finding.evidence["paired_by"], "size of each tensor", "{name}");
    }
    let finding = only("gpu", "lazy_optimizer", STATE);
    assert_eq!(figure(finding, "parameter_bytes"), 109_105_152);
    assert_eq!(
        (figure(finding, "peak_before_bytes"), figure(finding, "steady_peak_bytes")),
        (287_417_344, 614_208_000)
    );
    // A recording that ends in the step of the state does not show the steady peak.
    assert!(!only("public", "lm_fullstep", STATE).evidence.contains_key("steady_peak_bytes"));
}
