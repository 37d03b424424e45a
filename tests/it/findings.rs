//! What is found on every recording: one list, so that a change to any rule shows where else it tells.

use std::fmt::Write as _;

use crate::inputs::{analyzed_path, recordings, testdata};

/// Rules that fire, per recording, most serious first, with the bytes and the first line of each.
fn everything() -> String {
    let mut told = String::new();
    let mut traces: Vec<_> = std::fs::read_dir(testdata("emitter"))
        .expect("testdata is in the repository")
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "msgpack"))
        .collect();
    traces.sort();
    let snapshots = ["torch", "gpu", "faults", "cases", "public"].into_iter().flat_map(recordings);
    for path in snapshots.chain(traces) {
        let folder = path.parent().and_then(|folder| folder.file_name()).expect("a folder of testdata");
        let file = path.file_name().expect("a file has a name");
        writeln!(told, "{}/{}", folder.to_string_lossy(), file.to_string_lossy()).expect("a text");
        for finding in &analyzed_path(&path).report.findings {
            let line = finding.lines.first().map_or(String::new(), |line| {
                let file = line.file.rsplit('/').next().unwrap_or(&line.file);
                format!(", {file}:{}", line.line)
            });
            writeln!(told, "    {:7} {}, {} B{line}", finding.severity, finding.rule, finding.bytes)
                .expect("a text");
        }
    }
    told
}

#[test]
fn every_recording_has_the_findings_on_record() {
    insta::assert_snapshot!(everything());
}

/// The recordings of programs without a fault: nothing may grow, and nothing may be called an error.
#[test]
fn healthy_programs_raise_no_alarm() {
    let torch = [
        "noleak",
        "cnn",
        "gpt",
        "gpt_cpp",
        "llama",
        "annotated",
        "compiled",
        "varlen.default",
        "varlen.expandable",
        "kvcache.default",
        "big",
        "streams",
    ];
    let faults = [
        "accumulation",
        "adapters",
        "averaged_weights",
        "bounded_cache",
        "checkpoint_blocks",
        "epoch_predictions",
        "growing_sequences",
        "lbfgs",
        "staged_model",
        "static_cache_decoding",
        "truncated_recurrence",
        "two_optimizers",
    ];
    let all = torch.map(|name| ("torch", name)).into_iter().chain(faults.map(|name| ("faults", name)));
    for (folder, name) in all {
        let report = &analyzed_path(&crate::inputs::recording(folder, name)).report;
        let alarms: Vec<_> = (report.findings.iter())
            .filter(|finding| finding.severity == "error" || finding.rule == "growth")
            .map(|finding| &finding.title)
            .collect();
        assert!(alarms.is_empty(), "{name}: {alarms:?}");
    }
}
