//! Growth and reference cycles: real recordings of leaks, and of much that is none. Generated ones are in
//! `src/findings/growth/thousand.rs`.

use memlab::report::FindingRow;

use crate::inputs::{analyzed, analyzed_path, testdata};

const MIB: u64 = 1 << 20;

fn findings(folder: &'static str, name: &str, rule: &str) -> Vec<FindingRow> {
    let report = match folder {
        "emitter" => &analyzed_path(&testdata("emitter").join(format!("{name}.msgpack"))).report,
        _ => &analyzed(folder, name).report,
    };
    report.findings.iter().filter(|finding| finding.rule == rule).cloned().collect()
}

fn the_one(folder: &'static str, name: &str, rule: &str) -> FindingRow {
    let mut found = findings(folder, name, rule);
    assert_eq!(found.len(), 1, "{folder}/{name}: {found:?}");
    found.remove(0)
}

fn figure(finding: &FindingRow, name: &str) -> f64 {
    finding.evidence[name].as_f64().unwrap_or_else(|| panic!("{name}: {:?}", finding.evidence))
}

#[test]
fn losses_kept_with_their_graph_grow_by_the_forward_pass() {
    for folder in ["torch", "emitter"] {
        let finding = the_one(folder, "leak_loss", "growth");
        assert_eq!(finding.severity, "error", "{finding:?}");
        assert_eq!(finding.evidence["slope_bytes_per_step"], 4_729_344, "{finding:?}");
        assert_eq!((finding.lines[0].line, finding.lines[1].line), (253, 252), "{:?}", finding.lines);
        assert!((figure(&finding, "steps") - 60.0).abs() < 1.5, "{finding:?}");
        assert!(figure(&finding, "slope_low_bytes_per_step") <= 4_729_344.0);
        assert!(figure(&finding, "p_value") < 1e-6);
    }
    let held = the_one("emitter", "leak_loss", "growth");
    assert_eq!(held.evidence["holders"][0]["path"], "autograd graph of local history[*] in leak_loss()");
    assert!(held.remedy.contains(".detach()"), "{}", held.remedy);
}

#[test]
fn a_cache_that_only_grows_keeps_every_second_feature() {
    for folder in ["torch", "emitter"] {
        let finding = the_one(folder, "leak_cache", "growth");
        assert_eq!((finding.severity, finding.lines[0].line), ("error", 275), "{finding:?}");
        assert_eq!(finding.bytes, 30 * 16 * MIB);
        assert!((figure(&finding, "blocks_per_step") - 0.5).abs() < 1e-9);
        let slope = figure(&finding, "slope_bytes_per_step");
        assert!((slope / (8.0 * MIB as f64) - 1.0).abs() < 0.02, "{slope}");
    }
    let held = the_one("emitter", "leak_cache", "growth");
    let path = held.evidence["holders"][0]["path"].as_str().unwrap();
    assert!(path.contains("CACHE.data[*]"), "{path}");
}

#[test]
fn blocks_in_cycles_wait_and_do_not_grow() {
    for folder in ["torch", "emitter"] {
        let finding = the_one(folder, "leak_cycle", "reference-cycle");
        assert_eq!(finding.lines[0].line, 295);
        assert_eq!((&finding.evidence["bursts"], &finding.evidence["blocks"]), (&2.into(), &60.into()));
        assert_eq!(finding.evidence["largest_burst_blocks"], 30);
        assert_eq!(finding.evidence["released_at"], "/workspace/scenarios.py:299 leak_cycle");
        assert_eq!(finding.evidence["waiting_at_end_bytes"], 83_886_080);
        assert_eq!(findings(folder, "leak_cycle", "growth").len(), 0);
    }
    let held = the_one("emitter", "leak_cycle", "reference-cycle");
    assert_eq!(held.evidence["in_cycles_blocks"], 20);
}

#[test]
fn c16_states_the_slope_to_the_byte() {
    let finding = the_one("cases", "C16_loss_kept", "growth");
    assert_eq!(finding.severity, "error");
    for name in ["slope_bytes_per_step", "slope_low_bytes_per_step", "slope_high_bytes_per_step"] {
        assert_eq!(finding.evidence[name], 24 * MIB, "{name}");
    }
    assert_eq!(finding.evidence["blocks_per_step"], 1);
    assert_eq!(finding.evidence["live_end_bytes"], 992 * MIB);
    let line = &finding.lines[0];
    assert_eq!((line.file.as_str(), line.line, line.bytes), ("runner.py", 55, 480 * MIB));
}

#[test]
fn c17_an_evaluation_that_gathers_its_results_grows() {
    let finding = the_one("cases", "C17_eval_concat", "growth");
    assert_eq!((finding.severity, finding.lines[0].line), ("warning", 88));
    assert_eq!(finding.evidence["slope_bytes_per_step"], 256 * MIB);
    assert_eq!((finding.bytes, &finding.evidence["live_end_bytes"]), (3_072 * MIB, &(4_096 * MIB).into()));
}

/// All of `testdata/faults`.
const FAULTS: [&str; 38] = [
    "accumulation",
    "adapters",
    "ascending_batches",
    "autocast_cache",
    "averaged_weights",
    "avoidable_growth",
    "backward_oom_kept",
    "benchmark_first_step",
    "bounded_cache",
    "capacity_real",
    "checkpoint_blocks",
    "checkpoint_each_layer",
    "ddp_buckets",
    "epoch_predictions",
    "flush_by_allocator",
    "foreign_device",
    "fragmentation_real",
    "gathered_on_rank0.rank0",
    "gathered_on_rank0.rank1",
    "graph_in_eval",
    "graph_overlap",
    "growing_sequences",
    "hidden_state_kept",
    "hooks_kept",
    "huge_request",
    "lbfgs",
    "models_in_cycles",
    "oom_handled",
    "outside_real",
    "pending_free",
    "rounding_waste",
    "small_leak",
    "staged_model",
    "staircase_cache",
    "static_cache_decoding",
    "step_overlap",
    "truncated_recurrence",
    "two_optimizers",
];

/// Every fifth step of a training keeps a batch until its function returns: growth, but of seven blocks.
#[test]
fn a_few_blocks_are_growth_and_no_certain_leak() {
    let finding = the_one("torch", "vision.default", "growth");
    assert_eq!((finding.severity, finding.lines[0].line), ("warning", 40));
    assert_eq!(finding.evidence["blocks"], 7);
}

#[test]
fn faults_that_are_leaks_are_found_with_their_line() {
    let hooks = the_one("faults", "hooks_kept", "growth");
    assert_eq!((hooks.severity, hooks.lines[0].line, hooks.bytes), ("warning", 179, 120 * MIB));
    assert_eq!(
        (&hooks.evidence["blocks_per_step"], hooks.lines[0].function.as_str()),
        (&3.into(), "hooks_kept")
    );
    let small = the_one("faults", "small_leak", "growth");
    assert_eq!((small.severity, small.lines[0].line), ("info", 188));
    assert_eq!(
        (&small.evidence["slope_bytes_per_step"], &small.evidence["steps"]),
        (&512.into(), &40.into())
    );
    let hidden = the_one("faults", "hidden_state_kept", "growth");
    assert_eq!((hidden.severity, hidden.lines[0].line), ("warning", 202));
    assert_eq!(hidden.evidence["step_source"], "backward");
    assert!(hidden.remedy.contains(".detach()"), "{}", hidden.remedy);
}

/// Eighteen models, each in a cycle with its hook; the collector runs after every sixth.
#[test]
fn models_in_cycles_are_released_six_at_a_time() {
    let finding = the_one("faults", "models_in_cycles", "reference-cycle");
    assert_eq!(
        (&finding.evidence["bursts"], &finding.evidence["largest_burst_steps"]),
        (&2.into(), &6.into())
    );
    assert_eq!(finding.evidence["released_at"], "/workspace/faults.py:218 models_in_cycles");
    assert!(findings("faults", "models_in_cycles", "growth").is_empty());
}

/// Whatever else they are, these are no leaks and hold no cycles.
#[test]
fn healthy_recordings_and_other_faults_do_not_grow() {
    let torch = [
        "annotated",
        "big",
        "cnn",
        "compiled",
        "gpt",
        "gpt_cpp",
        "kvcache.default",
        "llama",
        "noleak",
        "oom",
        "ring",
        "streams",
        "varlen.default",
        "varlen.expandable",
        "routed.default",
    ];
    let gpu = [
        "cache_flush_every_step",
        "capacity_oom",
        "fragmentation_oom",
        "graph_pools",
        "kept_by_exception",
        "lazy_optimizer",
        "logits_spike",
        "one_shot_stream",
        "resume_duplicate",
        "workspace_only",
    ];
    let cases = [
        "C07_comb_50MiB",
        "C10_spurious_oom_pending",
        "C14_kept_by_exception",
        "C20_cublas_workspace",
        "C21_checkpoint_kept",
        "C24_staircase_cache",
        "C26_one_shot_stream",
        "C37_kv_cat_growth",
        "C48_empty_cache_every_step",
        "C49_private_pools",
    ];
    let emitter = ["cnn", "expandable", "gpt", "oom", "uncaught"];
    let leaks = ["hidden_state_kept", "hooks_kept", "models_in_cycles", "small_leak"];
    let faults: Vec<&str> = FAULTS.iter().copied().filter(|name| !leaks.contains(name)).collect();
    let all: [(&str, &[&str]); 5] =
        [("torch", &torch), ("gpu", &gpu), ("cases", &cases), ("emitter", &emitter), ("faults", &faults)];
    let mut wrong = Vec::new();
    for (folder, names) in all {
        for name in names {
            for rule in ["growth", "reference-cycle"] {
                wrong.extend(findings(folder, name, rule).into_iter().map(|finding| (*name, finding.title)));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn public_recordings_do_not_grow() {
    for path in crate::inputs::recordings("public") {
        let report = &analyzed_path(&path).report;
        let found: Vec<_> = (report.findings.iter())
            .filter(|finding| ["growth", "reference-cycle"].contains(&finding.rule.as_str()))
            .map(|finding| &finding.title)
            .collect();
        assert!(found.is_empty(), "{}: {found:?}", path.display());
    }
}
