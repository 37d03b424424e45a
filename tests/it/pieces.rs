//! Traces that do not fit into the memory budget, as the program reads them: in pieces. Every recording through the
//! library is a unit test of `analysis::pieces`.

use memlab::format::{WriteOptions, write};
use serde_json::Value;

use crate::inputs::{read, recording};
use crate::sandbox::Sandbox;

/// A folder with the recording `name` as a trace file.
fn with_trace(name: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let mut bytes = Vec::new();
    write(&read(&recording("torch", name)), &WriteOptions::default(), &mut bytes).unwrap();
    std::fs::write(sandbox.path("run.msgpack"), bytes).unwrap();
    sandbox
}

fn json(sandbox: &Sandbox, arguments: &[&str]) -> (Value, String) {
    let run = sandbox.run(arguments);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    (serde_json::from_str(&run.stdout).unwrap(), run.stderr)
}

#[test]
fn a_trace_beyond_the_budget_has_the_figures_of_the_whole_and_says_what_is_not_of_the_whole() {
    let sandbox = with_trace("varlen.default");
    let (whole, _) = json(&sandbox, &["analyze", "--json", "run.msgpack"]);
    let (pieces, said) = json(&sandbox, &["analyze", "--json", "--memory-budget", "1MiB", "run.msgpack"]);
    assert!(said.contains("read in pieces"), "{said}");
    let warning = pieces["traces"][0]["warnings"].as_array().unwrap();
    let told = warning.iter().find(|warning| warning["kind"] == "read-in-pieces").unwrap();
    assert!(told["text"].as_str().unwrap().starts_with("the 49,980 events of device 0 were read in pieces"));
    let (one, many) = (&whole["traces"][0]["devices"][0], &pieces["traces"][0]["devices"][0]);
    for key in [
        "events",
        "peak",
        "peak_event",
        "end",
        "initial",
        "history",
        "fragmentation",
        "lines",
        "unattributed",
        "ooms",
        "pools",
    ] {
        assert_eq!(one[key], many[key], "{key}");
    }
}

#[test]
fn a_failure_far_from_the_end_is_explained_and_the_report_is_written() {
    let sandbox = with_trace("oom");
    let (whole, _) = json(&sandbox, &["analyze", "--json", "run.msgpack"]);
    let arguments = ["analyze", "--json", "-o", "report", "--memory-budget", "100KiB", "run.msgpack"];
    let (pieces, _) = json(&sandbox, &arguments);
    let (one, many) = (&whole["traces"][0]["devices"][0]["ooms"], &pieces["traces"][0]["devices"][0]["ooms"]);
    assert!(!one.as_array().unwrap().is_empty());
    assert_eq!(one, many);
    let written = sandbox.files();
    for name in ["report/report.html", "report/report.md", "report/timeline.svg", "report/segments.svg"] {
        assert!(written.iter().any(|file| file == name), "{name}: {written:?}");
    }
}

#[test]
fn a_snapshot_is_no_trace_and_is_analyzed_alone() {
    let sandbox = Sandbox::with_snapshot("snapshot.pickle");
    let run = sandbox.run(&["analyze", "--json", "--memory-budget", "1KiB", "snapshot.pickle"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stderr.contains("analyzed alone"), "{}", run.stderr);
}

#[test]
fn files_of_one_job_may_be_in_pieces_and_stand_in_one_table() {
    let sandbox = Sandbox::new();
    for rank in 0..3 {
        let mut trace = read(&recording("torch", "gpt"));
        trace.process.rank = Some(rank);
        trace.process.world_size = Some(3);
        let mut bytes = Vec::new();
        write(&trace, &WriteOptions::default(), &mut bytes).unwrap();
        std::fs::write(sandbox.path(&format!("rank{rank}.msgpack")), bytes).unwrap();
    }
    let files = ["rank0.msgpack", "rank1.msgpack", "rank2.msgpack"];
    let (whole, _) = json(&sandbox, &[&["analyze", "--json"], &files[..]].concat());
    let budget = ["analyze", "--json", "--memory-budget", "1MiB"];
    let (pieces, _) = json(&sandbox, &[&budget[..], &files[..]].concat());
    assert_eq!(pieces["traces"].as_array().unwrap().len(), 3);
    for (one, many) in
        whole["ranks"]["rows"].as_array().unwrap().iter().zip(pieces["ranks"]["rows"].as_array().unwrap())
    {
        for key in ["rank", "peak", "end", "events", "oom", "from_the_start"] {
            assert_eq!(one[key], many[key], "{key}");
        }
    }
}

/// The finding over all ranks is known only when every report is written: the file that it is about is analysed again.
#[test]
fn a_file_that_is_analyzed_once_more_is_analyzed_as_before() {
    let sandbox = Sandbox::new();
    let mut paths = Vec::new();
    for rank in 0..9 {
        let name = if rank == 8 { "varlen.default" } else { "gpt" };
        let mut trace = read(&recording("torch", name));
        (trace.process.rank, trace.process.world_size) = (Some(rank), Some(9));
        let (path, mut bytes) = (format!("rank{rank}.msgpack"), Vec::new());
        write(&trace, &WriteOptions::default(), &mut bytes).unwrap();
        std::fs::write(sandbox.path(&path), bytes).unwrap();
        paths.push(path);
    }
    let mut arguments = vec!["analyze", "--json", "--memory-budget", "1MiB"];
    arguments.extend(paths.iter().map(String::as_str));
    let (report, _) = json(&sandbox, &arguments);
    let last = &report["traces"][8];
    let has = |list: &str, key: &str, value: &str| {
        last[list].as_array().unwrap().iter().any(|row| row[key] == value)
    };
    assert!(has("findings", "rule", "rank-imbalance"), "{}", last["findings"]);
    assert!(has("warnings", "kind", "read-in-pieces"), "{}", last["warnings"]);
}
