//! `memlab diff` as a program: its inputs, files, exit codes and what other programs read of it.

use memlab::model::TraceBuilder;
use serde_json::Value;

use crate::escaping::assert_well_formed;
use crate::inputs::testdata;
use crate::sandbox::{Run, Sandbox};

/// `memlab diff` with these words; `@` stands for the folder of test data.
fn run_in(sandbox: &Sandbox, words: &[&str]) -> Run {
    let mut arguments = vec!["diff".to_owned()];
    arguments.extend(words.iter().map(|&word| match word.split_once('@') {
        Some(("", path)) => testdata(path).display().to_string(),
        _ => word.to_owned(),
    }));
    sandbox.run(&arguments)
}

fn run(words: &[&str]) -> Run {
    run_in(&Sandbox::new(), words)
}

#[test]
fn the_keys_that_others_read_are_there() {
    let before_after = ["@torch/llama.pickle.gz", "@torch/llama_ckpt.pickle.gz", "--json"];
    let value: Value = serde_json::from_str(&run(&before_after).ends_with(0).stdout).unwrap();
    assert_eq!(value["schema"], 1);
    let device = &value["devices"][0];
    assert_eq!(device["device"], 0);
    assert_eq!(device["peak"]["before"]["allocated_bytes"], 1_030_700_032u64);
    for key in ["requested_bytes", "allocated_bytes", "active_bytes", "reserved_bytes"] {
        assert!(device["peak"]["after"][key].is_u64(), "{key}");
    }
    let line = &device["lines"][0];
    assert_eq!((&line["line"], &line["function"]), (&371.into(), &"llama".into()));
    let [before, after] = ["before_bytes", "after_bytes"].map(|key| line[key].as_i64().unwrap());
    assert_eq!(line["delta_bytes"], after - before);
}

#[test]
fn growth_beyond_the_limit_ends_with_1_and_one_line() {
    let forth = |limit: &str| {
        run(&["@torch/llama.pickle.gz", "@torch/llama_ckpt.pickle.gz", "--fail-on-growth", limit])
    };
    let back = |limit: &str| {
        run(&["@torch/llama_ckpt.pickle.gz", "@torch/llama.pickle.gz", "--fail-on-growth", limit])
    };
    forth("0").ends_with(0);
    let failed = back("100MiB").ends_with(1);
    assert_eq!(failed.stderr.lines().count(), 1, "{}", failed.stderr);
    assert!(
        failed.stderr.starts_with("FAILED fail-on-growth 100.0 MiB: device 0: allocated peak "),
        "{}",
        failed.stderr
    );
    back("1GiB").ends_with(0);
    back("80%").ends_with(0);
    back("10%").ends_with(1);
    // What came before a ring is not seen: no growth proves nothing.
    run(&["@torch/ring.pickle", "@torch/ring.pickle", "--fail-on-growth", "1GiB"]).ends_with(3);
}

#[test]
fn reports_stand_on_either_side() {
    let sandbox = Sandbox::new();
    let gpt = testdata("torch/gpt.pickle.gz");
    let folder = ["analyze".as_ref(), gpt.as_os_str(), "-o".as_ref(), "main".as_ref()];
    sandbox.run(&folder).ends_with(0);
    let same = run_in(&sandbox, &["main/report.json", "@torch/gpt.pickle.gz"]).ends_with(0);
    assert!(same.stdout.contains("no difference") && same.stdout.contains("(report)"), "{}", same.stdout);
    run_in(&sandbox, &["main/report.json", "main/report.json", "-o", "page.html"]).ends_with(0);
    assert!(sandbox.read("page.html").contains("No difference"));
    let other =
        run_in(&sandbox, &["main/report.json", "@torch/noleak.pickle.gz", "-o", "other.html"]).ends_with(0);
    assert!(
        other.stdout.is_empty() && sandbox.read("other.html").contains("no picture: a report has no curve")
    );
    sandbox.put("old.json", r#"{"schema": 1, "traces": [{"devices": [{"device": 0}]}]}"#);
    let little = run_in(&sandbox, &["old.json", "@torch/noleak.pickle.gz", "--json"]).ends_with(0);
    let value: Value = serde_json::from_str(&little.stdout).unwrap();
    assert!(value["devices"][0]["peak"]["before"].is_null() && value["devices"][0]["lines"][0].is_null());
    assert!(value["notes"].to_string().contains("says nothing of peaks"), "{}", value["notes"]);
    sandbox.put("new.json", r#"{"schema": 7, "traces": []}"#);
    let refused = run_in(&sandbox, &["new.json", "@torch/noleak.pickle.gz"]).ends_with(2);
    assert!(refused.stderr.contains("schema is 7"), "{}", refused.stderr);
}

#[test]
fn lines_that_a_report_leaves_out_are_unknown_not_nothing() {
    let sandbox = Sandbox::new();
    let llama = testdata("torch/llama.pickle.gz");
    let top =
        ["analyze".as_ref(), llama.as_os_str(), "--top".as_ref(), "1".as_ref(), "-o".as_ref(), "r".as_ref()];
    sandbox.run(&top).ends_with(0);
    let run = run_in(&sandbox, &["r/report.json", "@torch/llama_ckpt.pickle.gz", "--json"]).ends_with(0);
    let value: Value = serde_json::from_str(&run.stdout).unwrap();
    let lines = value["devices"][0]["lines"].as_array().unwrap();
    assert!(
        lines.iter().any(|line| line["before_bytes"].is_null() && line["delta_bytes"].is_null()),
        "{lines:?}"
    );
    assert!(value["notes"].to_string().contains("leaves out 6 lines"), "{}", value["notes"]);
}

#[test]
fn devices_are_chosen_on_each_side() {
    let sandbox = Sandbox::new();
    let other = TraceBuilder::new()
        .device(3)
        .segment_alloc(0x7f00_0000_0000, 20 << 20)
        .alloc(0x7f00_0000_0000, 4 << 20);
    let mut bytes = Vec::new();
    memlab::format::write(&other.build(), &memlab::format::WriteOptions::default(), &mut bytes).unwrap();
    std::fs::write(sandbox.path("three.msgpack"), bytes).unwrap();
    let cnn = "@torch/cnn.pickle";
    let paired = run_in(&sandbox, &[cnn, "three.msgpack"]).ends_with(0);
    assert!(
        paired.stdout.contains("device 0 of BEFORE is compared with device 3 of AFTER"),
        "{}",
        paired.stdout
    );
    run_in(&sandbox, &[cnn, "three.msgpack", "--before-device", "0", "--after-device", "3"]).ends_with(0);
    run_in(&sandbox, &[cnn, "three.msgpack", "--device", "0"]).ends_with(2);
    run_in(&sandbox, &[cnn, "three.msgpack", "--before-device", "0"]).ends_with(2);
}

#[test]
fn files_are_written_by_their_ending_and_never_over_others() {
    let sandbox = Sandbox::new();
    let pair = ["@torch/llama.pickle.gz", "@torch/llama_ckpt.pickle.gz", "-o"];
    let to = |target: &str, more: &[&str]| run_in(&sandbox, &[&pair, &[target][..], more].concat());
    to("out", &[]).ends_with(0);
    assert_eq!(sandbox.files(), ["out/diff.html", "out/diff.json", "out/diff.md", "out/diff.svg"]);
    assert_well_formed("diff.svg", &sandbox.read("out/diff.svg"));
    to("out", &[]).ends_with(2);
    to("out", &["--force"]).ends_with(0);
    for name in ["x.md", "x.json", "x.html"] {
        assert_eq!(to(name, &[]).ends_with(0).stdout, "");
        assert_eq!(sandbox.read(name).len(), std::fs::metadata(sandbox.path(name)).unwrap().len() as usize);
        to(name, &[]).ends_with(2);
    }
    assert!(to("x.svg", &[]).ends_with(2).stderr.contains("ends in .md, .json or .html"));
    assert_eq!(sandbox.read("x.html"), sandbox.read("out/diff.html"));
    assert_eq!(sandbox.read("x.json"), sandbox.read("out/diff.json"));
    assert!(!sandbox.read("x.md").contains("diff.svg"), "no picture lies beside it");
}
