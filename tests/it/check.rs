//! `memlab check`: its gates on real recordings, its exit codes, and what other programs read of it.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::escaping::assert_well_formed;
use crate::inputs::testdata;
use crate::sandbox::{Run, Sandbox};

fn recording(path: &str) -> PathBuf {
    testdata(path)
}

/// `memlab check TRACE` with these words behind it.
fn check_in(sandbox: &Sandbox, trace: &Path, words: &[&str]) -> Run {
    let mut arguments = vec!["check".to_owned(), trace.display().to_string()];
    arguments.extend(words.iter().map(|&word| word.to_owned()));
    sandbox.run(&arguments)
}

fn check(trace: &str, words: &[&str]) -> Run {
    check_in(&Sandbox::new(), &recording(trace), words)
}

const GPT: &str = "torch/gpt.pickle.gz";

#[test]
fn a_peak_is_judged_to_the_byte() {
    check(GPT, &["--max-peak", "1909582848", "--max-reserved", "2099249152"]).ends_with(0);
    let failed = check(GPT, &["--max-peak", "1909582847", "--max-reserved", "2099249152"]).ends_with(1);
    let lines: Vec<&str> = failed.stdout.lines().collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].starts_with("FAILED max-peak 1.8 GiB: device 0 has 1.8 GiB (1,909,582,848 bytes)"),
        "{lines:?}"
    );
    let both = check(GPT, &["--max-peak", "1GiB", "--max-reserved", "1.5 GiB"]).ends_with(1);
    assert_eq!(both.stdout.lines().filter(|line| line.starts_with("FAILED ")).count(), 2, "{}", both.stdout);
    assert_eq!(both.stderr, "");
}

#[test]
fn a_recording_that_lost_its_beginning_can_fail_but_not_pass() {
    let ring = "torch/ring.pickle";
    // The run's real peak, 1,240,361,984 bytes, lies before what the ring kept: 1,238,264,832 bytes are seen.
    let undecided = check(ring, &["--max-peak", "1239000000"]).ends_with(3);
    assert!(undecided.stdout.starts_with("UNDECIDED max-peak 1.2 GiB: "), "{}", undecided.stdout);
    assert!(undecided.stdout.contains("begins late"), "{}", undecided.stdout);
    check(ring, &["--max-peak", "1GiB"]).ends_with(1);
    check(ring, &["--max-peak", "10GiB", "--recorded-part"]).ends_with(0);
    check(ring, &["--max-peak", "1GiB", "--max-reserved", "10GiB"]).ends_with(1);
    check("public/no_events.pickle", &["--max-reserved", "1TiB"]).ends_with(3);
    check("public/no_events.pickle", &["--max-reserved", "1MiB"]).ends_with(1);
}

#[test]
fn a_file_that_was_cut_can_fail_but_not_pass() {
    let sandbox = Sandbox::new();
    let cut = sandbox.path("cut.msgpack");
    let bytes = std::fs::read(recording("emitter/gpt.msgpack")).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() - 64]).unwrap();
    check_in(&sandbox, &cut, &["--max-peak", "10GiB"]).ends_with(3);
    check_in(&sandbox, &cut, &["--max-peak", "1MiB"]).ends_with(1);
    check_in(&sandbox, &cut, &["--max-peak", "10GiB", "--recorded-part"]).ends_with(0);
    let whole = recording("emitter/gpt.msgpack");
    check_in(&sandbox, &whole, &["--max-peak", "10GiB"]).ends_with(0);
}

#[test]
fn a_file_that_contradicts_itself_decides_nothing() {
    for size in ["1MiB", "1TiB"] {
        check("public/impossible_values.pickle.gz", &["--max-peak", size]).ends_with(3);
    }
}

#[test]
fn growth_is_seen_where_it_is_and_nowhere_else() {
    check("torch/noleak.pickle.gz", &["--max-growth", "64KiB/step"]).ends_with(0);
    let leak = check("torch/leak_loss.pickle.gz", &["--max-growth", "64KiB/step"]).ends_with(1);
    assert!(
        leak.stdout.starts_with("FAILED max-growth 64.0 KiB/step: device 0 grows by "),
        "{}",
        leak.stdout
    );
    check("torch/leak_loss.pickle.gz", &["--max-growth", "1GiB"]).ends_with(0);
    // A feature is kept in every second step only.
    check("torch/leak_cache.pickle.gz", &["--max-growth", "64KiB/step"]).ends_with(1);
    check("cases/C16_loss_kept.json", &["--max-growth", "24MiB/step"]).ends_with(0);
    check("cases/C16_loss_kept.json", &["--max-growth", "25165823/step"]).ends_with(1);
    check("gpu/one_shot_stream.pickle", &["--max-growth", "1GiB/step"]).ends_with(3);
}

#[test]
fn an_earlier_report_is_a_baseline() {
    let sandbox = Sandbox::new();
    let noleak = recording("torch/noleak.pickle.gz");
    sandbox.run(&["analyze".as_ref(), noleak.as_os_str(), "-o".as_ref(), "main".as_ref()]).ends_with(0);
    let against = ["--baseline", "main/report.json"];
    check_in(&sandbox, &noleak, &against).ends_with(0);
    check_in(&sandbox, &noleak, &[against[0], against[1], "--tolerance", "0"]).ends_with(0);
    let leak = recording("torch/leak_loss.pickle.gz");
    let failed = check_in(&sandbox, &leak, &against).ends_with(1);
    assert_eq!(failed.stdout.lines().count(), 1, "{}", failed.stdout);
    // 360,889,856 against 94,253,056 bytes.
    assert!(failed.stdout.contains("282.9 % over the baseline's 89.9 MiB"), "{}", failed.stdout);
    check_in(&sandbox, &leak, &[against[0], against[1], "--tolerance", "283"]).ends_with(0);
    check_in(&sandbox, &leak, &[against[0], against[1], "--tolerance", "282"]).ends_with(1);
}

#[test]
fn what_is_no_baseline_is_an_error() {
    let sandbox = Sandbox::with_snapshot("a.pickle");
    sandbox.put("old.json", "{\"schema\": 99, \"traces\": []}");
    sandbox.put("none.json", "[1, 2");
    for (file, word) in [("old.json", "schema is 99"), ("none.json", "not JSON"), ("gone.json", "gone.json")]
    {
        let run = check_in(&sandbox, Path::new("a.pickle"), &["--baseline", file]).ends_with(2);
        assert!(run.stdout.is_empty() && run.stderr.contains(word), "{}", run.stderr);
    }
}

#[test]
fn findings_are_gates_and_errors_are_the_default_one() {
    let oom = "gpu/fragmentation_oom.pickle";
    let failed = check(oom, &["--fail-on", "growth,fragmentation"]).ends_with(1);
    assert!(
        failed.stdout.contains("FAILED fail-on fragmentation: fragmentation on device 0: "),
        "{}",
        failed.stdout
    );
    check(oom, &[]).ends_with(1);
    check("torch/cnn.pickle", &[]).ends_with(0);
    check("torch/cnn.pickle", &["--fail-on", "error,fragmentation"]).ends_with(0);
    check("torch/ring.pickle", &["--fail-on", "history-incomplete"]).ends_with(1);
    check("torch/ring.pickle", &["--fail-on", "odd-schema"]).ends_with(0);
    check("torch/ring.pickle", &["--fail-on", "error"]).ends_with(3);
}

#[test]
fn what_makes_no_sense_is_a_usage_error() {
    let sandbox = Sandbox::with_snapshot("a.pickle");
    for words in [
        ["--fail-on", "fragmentaton"],
        ["--max-peak", "12 GB"],
        ["--max-peak", "-1"],
        ["--max-growth", "1MiB/hour"],
        ["--tolerance", "5"],
        ["--device", "7"],
    ] {
        let run = check_in(&sandbox, Path::new("a.pickle"), &words).ends_with(2);
        assert!(run.stdout.is_empty() && !run.stderr.is_empty(), "{words:?}");
    }
    let misspelt = check_in(&sandbox, Path::new("a.pickle"), &["--fail-on", "fragmentaton"]);
    assert!(misspelt.stderr.contains("'fragmentation'"), "{}", misspelt.stderr);
    check_in(&sandbox, Path::new("gone.pickle"), &["--max-peak", "1GiB"]).ends_with(2);
}

#[test]
fn programs_get_every_gate_with_its_figures() {
    let run = check(GPT, &["--json", "--max-peak", "1GiB", "--fail-on", "error", "--max-growth", "1GiB"])
        .ends_with(1);
    let json = run.json();
    assert_eq!((&json["schema"], json["outcome"].as_str()), (&Value::from(1), Some("failed")));
    let gates = json["gates"].as_array().unwrap();
    let outcomes: Vec<_> = gates
        .iter()
        .map(|gate| (gate["gate"].as_str().unwrap(), gate["outcome"].as_str().unwrap()))
        .collect();
    // Four steps are too few for a trend.
    assert_eq!(outcomes, [("max-peak", "failed"), ("max-growth", "undecided"), ("fail-on", "passed")]);
    assert_eq!(gates[0]["parts"][0]["actual_bytes"], 1_909_582_848_u64);
    assert_eq!(gates[0]["parts"][0]["limit_bytes"], 1_u64 << 30);
}

/// Values of `attribute` in all elements called `element`.
fn attributes(xml: &str, element: &str, attribute: &str) -> Vec<String> {
    let opening = format!("<{element} ");
    let tags = xml.split(&opening).skip(1).filter_map(|rest| rest.split('>').next());
    let wanted = format!(" {attribute}=\"");
    let value = |tag: &str| {
        let value = format!(" {tag}").split(&wanted).nth(1)?.split('"').next()?.to_owned();
        Some(value.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&"))
    };
    tags.filter_map(value).collect()
}

#[test]
fn junit_has_a_case_for_every_gate() {
    let sandbox = Sandbox::new();
    let words = [
        "--junit",
        "memory.xml",
        "--max-peak",
        "1GiB",
        "--max-reserved",
        "4GiB",
        "--max-growth",
        "1MiB",
        "--fail-on",
        "error",
    ];
    check_in(&sandbox, &recording(GPT), &words).ends_with(1);
    let xml = sandbox.read("memory.xml");
    assert_well_formed("junit", &xml);
    assert!(xml.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites "));
    assert_eq!(
        attributes(&xml, "testcase", "name"),
        ["max-peak 1.0 GiB", "max-reserved 4.0 GiB", "max-growth 1.0 MiB/step", "fail-on error"]
    );
    for (name, count) in [("tests", "4"), ("failures", "1"), ("errors", "1")] {
        assert_eq!(attributes(&xml, "testsuite", name), [count]);
        assert_eq!(attributes(&xml, "testsuites", name), [count]);
    }
    let messages = attributes(&xml, "failure", "message");
    assert!(messages.len() == 1 && messages[0].contains("1,909,582,848 bytes"), "{messages:?}");
    assert_eq!(attributes(&xml, "error", "type"), ["undecided"]);
    check_in(&sandbox, &recording(GPT), &words).ends_with(2);
    let again: Vec<&str> = words.into_iter().chain(["--force"]).collect();
    check_in(&sandbox, &recording(GPT), &again).ends_with(1);
}

#[test]
fn a_gate_may_look_at_one_device_only() {
    let sandbox = Sandbox::new();
    let event = |action: &str, address: u64, size: u64| serde_json::json!({ "action": action, "addr": address, "size": size, "stream": 0, "time_us": 1 });
    let device = |size: u64| vec![event("segment_alloc", 1 << 30, size), event("alloc", 1 << 30, size)];
    let snapshot =
        serde_json::json!({ "segments": [], "device_traces": [device(20 << 20), device(40 << 20)] });
    sandbox.put("two.json", &snapshot.to_string());
    let two = Path::new("two.json");
    let both = check_in(&sandbox, two, &["--max-peak", "30MiB"]).ends_with(1);
    assert!(both.stdout.lines().count() == 1 && both.stdout.contains("device 1"), "{}", both.stdout);
    check_in(&sandbox, two, &["--max-peak", "30MiB", "--device", "0"]).ends_with(0);
    check_in(&sandbox, two, &["--max-peak", "30MiB", "--device", "1"]).ends_with(1);
}
