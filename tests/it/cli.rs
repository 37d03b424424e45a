//! What goes to stdout, what goes to stderr, and how runs end.

use std::fs::File;
use std::io::pipe;

use crate::sandbox::{Run, Sandbox, run, snapshot};

#[test]
fn an_unknown_file_is_an_error_with_a_hint() {
    let run = Sandbox::new().run(&["analyze", "missing.pickle"]).ends_with(2);
    assert_eq!(run.stdout, "");
    let lines: Vec<_> = run.stderr.lines().collect();
    assert!(lines[0].starts_with("error: failed to read missing.pickle: No such file"), "{lines:?}");
    assert!(lines[1].starts_with("hint: "), "{lines:?}");
    assert_eq!(lines.len(), 2, "{lines:?}");
}

#[test]
fn a_file_of_another_kind_is_an_error_with_a_hint() {
    let sandbox = Sandbox::new();
    sandbox.put("notes.txt", "not a trace at all\n");
    for command in ["analyze", "info", "lines", "summary"] {
        let run = sandbox.run(&[command, "notes.txt"]).ends_with(2);
        assert!(run.stderr.starts_with("error: failed to read notes.txt: "), "{run:?}");
        assert!(run.stderr.contains("\nhint: "), "{run:?}");
    }
}

#[test]
fn usage_errors_end_with_two() {
    let sandbox = Sandbox::new();
    for words in
        [&["analyse"][..], &["analyze"], &["lines", "x", "--group-by", "colour"], &["-q", "man", "-v"]]
    {
        let run = sandbox.run(words).ends_with(2);
        assert!(run.stderr.starts_with("error: "), "{run:?}");
        assert_eq!(run.stdout, "");
    }
    let bare = sandbox.run(&[""; 0]).ends_with(2);
    assert!(bare.stderr.contains("Usage: memlab"), "{bare:?}");
}

#[test]
fn a_summary_goes_to_stdout_and_nothing_to_stderr() {
    let run = Sandbox::with_snapshot("cnn.pickle").run(&["analyze", "cnn.pickle"]).ends_with(0);
    assert!(run.stdout.contains("cnn.pickle"), "{run:?}");
    assert_eq!(run.stderr, "");
}

#[test]
fn json_is_alone_on_stdout() {
    let sandbox = Sandbox::with_snapshot("cnn.pickle");
    let analyzed = sandbox.run(&["analyze", "cnn.pickle", "--json"]).ends_with(0).json();
    assert_eq!(analyzed["schema"], 1);
    assert_eq!(analyzed["traces"][0]["path"], "cnn.pickle");
    assert_eq!(analyzed["traces"][0]["format"], "torch-snapshot");
    let lines = sandbox.run(&["lines", "cnn.pickle", "--json"]).ends_with(0).json();
    assert!(lines["devices"][0]["unattributed"]["held_at_peak_bytes"].is_u64(), "{lines}");
    let summary = sandbox.run(&["summary", "cnn.pickle", "--json"]).ends_with(0).json();
    assert!(summary["devices"][0]["stats"]["allocated_bytes.all.peak"].is_u64(), "{summary}");
}

#[test]
fn info_says_what_is_in_a_file() {
    let sandbox = Sandbox::with_snapshot("cnn.pickle");
    let info = sandbox.run(&["info", "cnn.pickle", "--json"]).ends_with(0).json();
    let trace = &info["traces"][0];
    assert_eq!(trace["format"], "torch-snapshot");
    assert_eq!(trace["file_bytes"], snapshot().metadata().unwrap().len());
    let actions = trace["devices"][0]["actions"].as_object().unwrap();
    let counted: u64 = actions.values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(trace["devices"][0]["events"], counted);
    assert!(counted > 0);
    let text = sandbox.run(&["info", "cnn.pickle"]).ends_with(0).stdout;
    assert!(text.starts_with("cnn.pickle\n"), "{text}");
    assert!(text.contains("torch-snapshot"), "{text}");
}

#[test]
fn csv_has_a_head_and_the_unattributed_share() {
    let run = Sandbox::with_snapshot("cnn.pickle").run(&["lines", "cnn.pickle", "--csv"]).ends_with(0);
    assert!(run.stdout.starts_with("device,file,line,function,"), "{run:?}");
    assert!(run.stdout.contains("\n0,,,,,,"), "the share without a line is missing: {run:?}");
}

#[test]
fn standard_input_is_read_when_asked_for() {
    let sandbox = Sandbox::new();
    let with_input =
        |words: &[&str]| -> Run { run(sandbox.memlab().args(words).stdin(File::open(snapshot()).unwrap())) };
    let info = with_input(&["info", "-", "--json"]).ends_with(0).json();
    assert_eq!(info["traces"][0]["path"], "-");
    assert_eq!(info["traces"][0]["file_bytes"], snapshot().metadata().unwrap().len());
    let twice = with_input(&["analyze", "-", "-"]).ends_with(2);
    assert!(twice.stderr.contains("only once"), "{twice:?}");
    let never = with_input(&["analyze"]).ends_with(2);
    assert!(never.stderr.contains("<TRACE>"), "{never:?}");
}

#[test]
fn a_reader_that_has_gone_is_no_error() {
    let sandbox = Sandbox::with_snapshot("cnn.pickle");
    for words in [&["lines", "cnn.pickle"][..], &["analyze", "cnn.pickle", "--json"], &["man"], &["--help"]] {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let run = run(sandbox.memlab().args(words).stdout(writer)).ends_with(0);
        assert_eq!(run.stderr, "", "{words:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let sandbox = Sandbox::with_snapshot("cnn.pickle");
    let run = run(sandbox.memlab().args(["info", "cnn.pickle"]).stdout(full)).ends_with(2);
    assert!(run.stderr.starts_with("error: failed to write to standard output: "), "{run:?}");
}

#[test]
fn a_failing_trace_does_not_take_the_others_with_it() {
    let sandbox = Sandbox::with_snapshot("b.pickle");
    sandbox.put_snapshot("a.pickle");
    let run = sandbox.run(&["analyze", "b.pickle", "missing.pickle", "a.pickle", "--json"]).ends_with(2);
    let report = run.json();
    let paths: Vec<_> = report["traces"].as_array().unwrap().iter().map(|trace| &trace["path"]).collect();
    assert_eq!(paths, ["b.pickle", "a.pickle"]);
    assert!(run.stderr.starts_with("error: failed to read missing.pickle: "), "{run:?}");
}

#[test]
fn what_is_not_in_the_trace_is_refused() {
    let sandbox = Sandbox::with_snapshot("cnn.pickle");
    let device = sandbox.run(&["lines", "cnn.pickle", "--device", "7"]).ends_with(2);
    assert!(device.stderr.contains("there is no device 7"), "{device:?}");
    assert!(device.stderr.contains("hint: the trace has device 0"), "{device:?}");
    let event = sandbox.run(&["summary", "cnn.pickle", "--at", "99999999"]).ends_with(2);
    assert!(event.stderr.contains("there is no event 99999999"), "{event:?}");
    let window = sandbox.run(&["analyze", "cnn.pickle", "--from", "99999999"]).ends_with(2);
    assert!(window.stderr.contains("there is no event 99999999"), "{window:?}");
}

#[test]
fn colour_follows_the_flag_then_the_environment() {
    let sandbox = Sandbox::new();
    let stderr = |words: &[&str], variables: &[(&str, &str)]| {
        run(sandbox.memlab().args(words).envs(variables.iter().copied())).ends_with(2).stderr
    };
    let missing = ["info", "missing.pickle"];
    assert!(!stderr(&missing, &[]).contains('\x1b'));
    assert!(stderr(&missing, &[("FORCE_COLOR", "1")]).contains('\x1b'));
    assert!(!stderr(&missing, &[("FORCE_COLOR", "1"), ("NO_COLOR", "1")]).contains('\x1b'));
    let always = ["info", "missing.pickle", "--color", "always"];
    assert!(stderr(&always, &[("NO_COLOR", "1")]).contains('\x1b'));
    let never = ["--color=never", "info"];
    assert!(!stderr(&never, &[("CLICOLOR_FORCE", "1")]).contains('\x1b'));
}

#[test]
fn verbose_talks_on_stderr_only() {
    let sandbox = Sandbox::with_snapshot("cnn.pickle");
    let plain = sandbox.run(&["info", "cnn.pickle"]).ends_with(0);
    let verbose = sandbox.run(&["info", "cnn.pickle", "-v"]).ends_with(0);
    assert_eq!(plain.stdout, verbose.stdout);
    assert!(verbose.stderr.starts_with("Read cnn.pickle ("), "{verbose:?}");
}

#[test]
fn hostile_paths_reach_the_terminal_escaped() {
    let run = Sandbox::new().run(&["info", "\u{1b}[2Jx.pickle"]).ends_with(2);
    assert!(!run.stderr.contains('\x1b'), "{run:?}");
    assert!(run.stderr.contains("\\x1b[2Jx.pickle"), "{run:?}");
}
