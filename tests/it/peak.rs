//! The rules about what makes the peak, over every recording: which of them fires where, and with which figures.

use memlab::report::FindingRow;

use crate::inputs::{analyzed, analyzed_path, recordings};

const MIB: u64 = 1 << 20;
const RULES: [&str; 5] =
    ["transient-peak", "grow-by-copy", "step-overlap", "graph-in-eval", "ineffective-checkpointing"];

fn finding(folder: &'static str, name: &str, rule: &str) -> &'static FindingRow {
    let findings = &analyzed(folder, name).report.findings;
    findings.iter().find(|finding| finding.rule == rule).unwrap_or_else(|| panic!("{rule} on {name}"))
}

fn figure(finding: &FindingRow, name: &str) -> u64 {
    finding.evidence[name].as_u64().unwrap_or_else(|| panic!("{name} of {}", finding.rule))
}

#[test]
fn the_rules_fire_where_they_should_and_nowhere_else() {
    let expected = [
        ("benchmark_first_step", "transient-peak"),
        ("checkpoint_blocks", "transient-peak"),
        ("checkpoint_each_layer", "ineffective-checkpointing"),
        ("eval_concat", "grow-by-copy"),
        ("gathered_on_rank0.rank0", "transient-peak"),
        ("gathered_on_rank0.rank1", "transient-peak"),
        ("graph_in_eval", "graph-in-eval"),
        ("graph_overlap", "step-overlap"),
        ("graph_overlap", "graph-in-eval"),
        ("kvcache.default", "grow-by-copy"),
        ("logits_spike", "transient-peak"),
        ("step_overlap", "transient-peak"),
        ("C17_eval_concat", "grow-by-copy"),
        ("C37_kv_cat_growth", "grow-by-copy"),
    ];
    let mut found = Vec::new();
    for path in ["torch", "gpu", "faults", "cases", "public"].into_iter().flat_map(recordings) {
        let file = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
        let name =
            file.trim_end_matches(".gz").trim_end_matches(".pickle").trim_end_matches(".json").to_owned();
        for finding in &analyzed_path(&path).report.findings {
            if RULES.contains(&finding.rule.as_str()) {
                found.push((name.clone(), finding.rule.clone()));
            }
        }
    }
    found.sort();
    let mut expected = expected.map(|(name, rule)| (name.to_owned(), rule.to_owned()));
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn concatenated_predictions_are_counted_copy_by_copy() {
    let eval = finding("gpu", "eval_concat", "grow-by-copy");
    assert_eq!(figure(eval, "step_bytes"), 2 * MIB);
    assert_eq!(figure(eval, "saved_bytes"), 46 * MIB);
    assert_eq!(eval.lines[0].function, "eval_concat");
    // C37: 64 MiB to 128 MiB in steps of 1 MiB; 127 and 128 are there together.
    let cache = finding("cases", "C37_kv_cat_growth", "grow-by-copy");
    assert_eq!((cache.bytes, figure(cache, "copies")), (255 * MIB, 64));
    assert_eq!((figure(cache, "peak_bytes"), figure(cache, "peak_without_bytes")), (255 * MIB, 128 * MIB));
    // C17: 2,816 and 3,072 MiB at step 12.
    let logits = finding("cases", "C17_eval_concat", "grow-by-copy");
    assert_eq!((logits.bytes, figure(logits, "peak_bytes")), ((2816 + 3072) * MIB, 7168 * MIB));
}

#[test]
fn logits_in_full_are_a_spike_at_the_loss_line() {
    let spike = finding("gpu", "logits_spike", "transient-peak");
    assert_eq!(spike.lines[0].function, "logits_spike");
    assert!(figure(spike, "saved_bytes") * 10 >= figure(spike, "peak_bytes"), "{:?}", spike.evidence);
    let first = finding("faults", "benchmark_first_step", "transient-peak");
    assert!(figure(first, "steady_peak_bytes") * 4 < figure(first, "peak_bytes"), "{:?}", first.evidence);
}

#[test]
fn evaluation_with_a_graph_is_held_against_training() {
    let kept = finding("faults", "graph_in_eval", "graph-in-eval");
    assert_eq!((kept.severity, figure(kept, "passes")), ("warning", 6));
    assert!(figure(kept, "pass_rise_bytes") > figure(kept, "training_rise_bytes"));
    assert_eq!(kept.lines[0].function, "graph_in_eval");
    let inference = finding("faults", "graph_overlap", "graph-in-eval");
    assert_eq!((inference.severity, figure(inference, "passes")), ("info", 8));
}
