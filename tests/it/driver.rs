//! Driver calls that were recorded on a GPU, against what PyTorch, CuPy, JAX and the driver said in the same process.

use std::path::PathBuf;

use memlab::report::{DriverDeviceRow, DriverSumRow, TraceReport};
use serde_json::Value;

use crate::inputs::read;
use crate::sandbox::Sandbox;

const PYTORCH: [&str; 3] = ["cnn", "varlen", "varlen_expandable"];
const ALLOCATOR: &str = "PyTorch's caching allocator";

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/driver/layers")
}

/// The report of the program itself on a recording, as its users read it: with the file beside it.
fn report(name: &str) -> TraceReport {
    let path = folder().join(name).with_extension("msgpack");
    let mut document = Sandbox::new().run(&["analyze", "--json", path.to_str().unwrap()]).ends_with(0).json();
    serde_json::from_value(document["traces"][0].take()).unwrap()
}

fn truth(name: &str) -> Value {
    let bytes = std::fs::read(folder().join(name).with_extension("json")).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

fn device(report: &TraceReport) -> &DriverDeviceRow {
    &report.driver.as_ref().unwrap().devices[0]
}

fn held(device: &DriverDeviceRow, holder: &str) -> u64 {
    device.holders.iter().find(|row| row.holder == holder).map_or(0, |row| row.end_bytes)
}

fn sum<'a>(device: &'a DriverDeviceRow, at: &str) -> &'a DriverSumRow {
    device.sums.iter().find(|sum| sum.at == at).unwrap()
}

#[test]
fn segments_of_both_layers_match_one_to_one() {
    for name in PYTORCH {
        let (report, truth) = (report(name), truth(name));
        assert!(report.complete && report.warnings.is_empty(), "{name}: {:?}", report.warnings);
        let device = device(&report);
        let join = device.join.unwrap();
        let (obtained, end) = (join.segments, &truth["moments"]["end"]);
        assert!(obtained > 10, "{name}");
        assert_eq!((join.matched, join.takings_without_segment), (obtained, 0), "{name}");
        assert_eq!(join.live_segments, end["segments"].as_array().unwrap().len() as u64, "{name}");
        assert_eq!(
            (join.live_matched, join.live_matched_bytes),
            (join.live_segments, join.live_bytes),
            "{name}"
        );
        // PyTorch's own figure, from the driver's calls alone.
        assert_eq!(held(device, ALLOCATOR), end["reserved"].as_u64().unwrap(), "{name}");
        assert_eq!(held(device, ALLOCATOR), report.devices[0].end.reserved_bytes, "{name}");
    }
}

#[test]
fn the_sum_explains_what_is_in_use_within_five_percent_and_the_contexts_share_is_measured() {
    for name in PYTORCH {
        let (report, truth) = (report(name), truth(name));
        let end = &truth["moments"]["end"];
        let number = |key: &str| end[key].as_u64().unwrap();
        // By cudaMemGetInfo, which knows nothing of processes and of what the recorder reads.
        let device_used = number("total") - number("free");
        let sum = sum(device(&report), "end");
        assert_eq!(sum.used_bytes, device_used, "{name}");
        let calls: u64 = sum.parts.iter().map(|part| part.bytes).sum();
        let own = sum.context_bytes.unwrap() + sum.loaded_bytes.unwrap();
        let explained = calls + own;
        assert!(explained.abs_diff(device_used) * 20 <= device_used, "{name}: {explained} of {device_used}");
        assert_eq!(sum.process_bytes, Some(number("nvidia_smi")), "{name}: nvidia-smi's own figure");
        assert_eq!(sum.unknown_bytes, 0, "{name}");
        // An H200's context, without kernels.
        let context = sum.context_bytes.unwrap() >> 20;
        assert!((480..600).contains(&context), "{name}: {context} MiB");
    }
}

#[test]
fn a_library_beside_the_allocator_has_its_name_and_its_line() {
    let cnn = report("cnn");
    let device = device(&cnn);
    assert_eq!((held(device, "cuBLAS"), held(device, "cuDNN")), (134_481_920, 50_696));
    let line = device.lines.iter().find(|row| row.holder == "cuBLAS" && row.line.is_some()).unwrap();
    assert!(line.file.as_deref().unwrap().ends_with("cnn.py"), "{line:?}");
    // Calls that run without Python's lock have Python's frames, too.
    let trace = read(&folder().join("cnn.driver.msgpack"));
    let layer = trace.driver.unwrap();
    let with_python = layer.rows.iter().filter(|row| !trace.stacks.get(row.python).is_empty()).count();
    assert!(with_python * 2 > layer.rows.len(), "{with_python} of {}", layer.rows.len());
}

#[test]
fn two_communicators_of_nccl_are_most_of_the_gap() {
    let report = report("nccl");
    let sum = sum(device(&report), "peak");
    let held: Vec<(&str, u64)> = sum.parts.iter().map(|part| (part.holder.as_str(), part.bytes)).collect();
    assert_eq!(held, [("NCCL", 813_694_976), (ALLOCATOR, 88_080_384)]);
    // As the program printed it, by cudaMemGetInfo.
    assert_eq!((sum.used_bytes, sum.unknown_bytes), (1_743_585_280, 0));
    let nccl = device(&report).holders.iter().find(|row| row.holder == "NCCL").unwrap();
    assert!(nccl.note.as_deref().unwrap().contains("share process groups"));
}

#[test]
fn cupys_pool_is_what_cupy_says() {
    let (report, truth) = (report("cupy"), truth("cupy"));
    assert_eq!(held(device(&report), "CuPy"), truth["pool_bytes"].as_u64().unwrap());
    let line = device(&report).lines.iter().find(|row| row.holder == "CuPy").unwrap();
    assert!(line.file.as_deref().unwrap().ends_with("cupy_job.py"), "{line:?}");
    assert!(report.devices.is_empty(), "there is no allocator of PyTorch's");
}

#[test]
fn jaxs_preallocation_is_told_for_what_it_is() {
    let (preallocated, truth_of_it) = (report("jax"), truth("jax"));
    let pool = truth_of_it["stats"]["pool_bytes"].as_u64().unwrap();
    let xla = device(&preallocated).holders.iter().find(|row| row.holder == "XLA").unwrap();
    assert_eq!((xla.own_peak_bytes, xla.taken), (pool, 1), "one taking, as large as XLA's own pool");
    let told = preallocated.findings.iter().find(|finding| finding.rule == "preallocation").unwrap();
    assert!(told.bytes == pool && told.title.starts_with("XLA took 104."), "{}", told.title);
    let on_demand = report("jax_on_demand");
    let pool = truth("jax_on_demand")["stats"]["pool_bytes"].as_u64().unwrap();
    let xla = device(&on_demand).holders.iter().find(|row| row.holder == "XLA").unwrap();
    assert_eq!(xla.own_peak_bytes, pool);
    assert!(on_demand.findings.iter().all(|finding| finding.rule != "preallocation"));
}

fn copied(sandbox: &Sandbox, names: &[&str]) {
    for name in names {
        std::fs::copy(folder().join(name), sandbox.path(name)).unwrap();
    }
}

#[test]
fn both_files_of_a_run_are_one_trace() {
    let sandbox = Sandbox::new();
    copied(&sandbox, &["cnn.msgpack", "cnn.driver.msgpack"]);
    sandbox.run(&["convert", "cnn.msgpack", "one.msgpack"]).ends_with(0);
    let of = |path: &str| -> Value {
        let mut found = sandbox.run(&["analyze", "--json", path]).ends_with(0).json();
        assert_eq!(found["traces"].as_array().unwrap().len(), 1, "the calls are no file of their own");
        found["traces"][0]["path"] = Value::Null;
        found
    };
    let one = of("one.msgpack");
    assert_eq!(of("cnn.msgpack"), one);
    assert!(one["traces"][0]["driver"]["devices"][0]["join"]["matched"].as_u64().unwrap() > 10);
    // A folder is the runs in it.
    std::fs::remove_file(sandbox.path("one.msgpack")).unwrap();
    assert_eq!(of("."), one);
}

#[test]
fn calls_of_another_process_are_said_to_be_left_out() {
    let sandbox = Sandbox::new();
    copied(&sandbox, &["cnn.msgpack", "varlen.driver.msgpack"]);
    std::fs::rename(sandbox.path("varlen.driver.msgpack"), sandbox.path("cnn.driver.msgpack")).unwrap();
    let report = sandbox.run(&["analyze", "--json", "cnn.msgpack"]).ends_with(0).json();
    assert!(report["traces"][0].get("driver").is_none());
    assert_eq!(report["traces"][0]["warnings"][0]["kind"], "driver-calls-left-out");
    std::fs::write(sandbox.path("cnn.driver.msgpack"), b"nothing").unwrap();
    let text = sandbox.run(&["analyze", "--json", "cnn.msgpack"]).ends_with(0).stdout;
    assert!(text.contains("could not be read"), "a file that is no trace");
}

#[test]
fn a_cut_recording_says_that_what_is_left_may_have_been_given_back() {
    let sandbox = Sandbox::new();
    let bytes = std::fs::read(folder().join("cupy.msgpack")).unwrap();
    std::fs::write(sandbox.path("cut.msgpack"), &bytes[..bytes.len() - 60]).unwrap();
    let report = sandbox.run(&["analyze", "--json", "cut.msgpack"]).ends_with(0).json();
    assert_eq!(report["traces"][0]["driver"]["complete"], false);
}

#[test]
fn a_report_of_driver_calls_alone_has_page_picture_and_text() {
    let sandbox = Sandbox::new();
    copied(&sandbox, &["jax.msgpack"]);
    sandbox.run(&["analyze", "jax.msgpack", "-o", "report"]).ends_with(0);
    for (file, word) in [("report.html", "XLA"), ("report.md", "XLA"), ("driver-timeline.svg", "XLA")] {
        let text = sandbox.read(&format!("report/{file}"));
        assert!(text.contains(word), "{file}");
    }
    let text = sandbox.run(&["analyze", "jax.msgpack"]).ends_with(0).stdout;
    assert!(text.contains("XLA 104.9 GiB"), "{text}");
    assert!(text.lines().count() <= 24, "{text}");
}

#[test]
fn commands_about_the_allocator_refuse_driver_calls_alone_and_say_what_shows_them() {
    let sandbox = Sandbox::new();
    copied(&sandbox, &["jax.msgpack"]);
    sandbox.run(&["reduce", "jax.msgpack", "-o", "reduced.msgpack"]).ends_with(0);
    std::fs::copy(sandbox.path("jax.msgpack"), sandbox.path("rank0.msgpack")).unwrap();
    for command in [
        vec!["summary", "jax.msgpack"],
        vec!["lines", "jax.msgpack"],
        vec!["lines", "--csv", "jax.msgpack"],
        vec!["lines", "reduced.msgpack"],
        vec!["whatif", "jax.msgpack"],
        vec!["export", "jax.msgpack", "-o", "tables"],
        vec!["export", "jax.msgpack", "-o", "x.folded"],
        vec!["export", "jax.msgpack", "-o", "x.pickle"],
        vec!["export", "--partition", "rank0.msgpack", "-o", "tables"],
    ] {
        let ended = sandbox.run(&command).ends_with(2);
        assert!(ended.stderr.contains("driver calls only"), "{command:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("hint: `memlab analyze` shows them"), "{command:?}: {}", ended.stderr);
        assert!(ended.stdout.is_empty(), "{command:?}: {}", ended.stdout);
    }
    for left in ["tables", "x.folded", "x.pickle"] {
        assert!(!sandbox.path(left).exists(), "{left}");
    }
    let ended = sandbox.run(&["analyze", "--device", "0", "jax.msgpack"]).ends_with(2);
    assert!(ended.stderr.contains("driver calls only"), "{}", ended.stderr);
}

#[test]
fn info_counts_the_calls_of_both_files() {
    let sandbox = Sandbox::new();
    copied(&sandbox, &["jax.msgpack", "cnn.msgpack", "cnn.driver.msgpack"]);
    let text = sandbox.run(&["info", "jax.msgpack"]).ends_with(0).stdout;
    assert!(text.contains("\n  driver calls 183, seen by cupti\n"), "{text}");
    let calls = read(&folder().join("cnn.driver.msgpack")).driver.unwrap().rows.len();
    let info = sandbox.run(&["info", "--json", "cnn.msgpack"]).ends_with(0).json();
    let driver = &info["traces"][0]["driver"];
    assert_eq!((driver["calls"].as_u64(), driver["hook"].as_str()), (Some(calls as u64), Some("cupti")));
    assert_eq!((&driver["failed_calls"], &driver["complete"]), (&Value::from(0), &Value::from(true)));
    std::fs::remove_file(sandbox.path("cnn.driver.msgpack")).unwrap();
    let alone = sandbox.run(&["info", "--json", "cnn.msgpack"]).ends_with(0).json();
    assert!(alone["traces"][0].get("driver").is_none());
}

#[test]
fn gates_on_driver_calls_decide_what_calls_show_and_nothing_else() {
    let sandbox = Sandbox::new();
    copied(&sandbox, &["jax.msgpack"]);
    let check = |arguments: &[&str], status| {
        let ended = sandbox.run(&[&["check", "jax.msgpack"], arguments].concat()).ends_with(status);
        ended.stdout
    };
    check(&[], 0);
    check(&["--fail-on", "driver-refused"], 0);
    assert!(check(&["--fail-on", "preallocation"], 1).contains("XLA took 104.9 GiB"));
    assert!(check(&["--fail-on", "pending-free"], 3).contains("driver calls only"));
    assert!(check(&["--max-peak", "1TiB"], 3).contains("no device with an allocator's events"));
    let bytes = std::fs::read(sandbox.path("jax.msgpack")).unwrap();
    std::fs::write(sandbox.path("jax.msgpack"), &bytes[..bytes.len() - 60]).unwrap();
    assert!(check(&["--fail-on", "driver-refused"], 3).contains("not closed"));
}

#[test]
fn a_comparison_says_that_driver_calls_are_not_compared() {
    let sandbox = Sandbox::new();
    copied(&sandbox, &["jax.msgpack", "jax_on_demand.msgpack", "varlen.msgpack"]);
    let text = sandbox.run(&["diff", "jax.msgpack", "jax_on_demand.msgpack"]).ends_with(0).stdout;
    assert!(text.contains("both sides have driver calls: only their findings are compared"), "{text}");
    assert!(text.contains("- info preallocation"), "{text}");
    let text = sandbox.run(&["diff", "varlen.msgpack", "jax.msgpack"]).ends_with(0).stdout;
    assert!(text.contains("only AFTER has driver calls"), "{text}");
}

#[test]
fn a_reduced_recording_keeps_the_figures_of_driver_calls() {
    let sandbox = Sandbox::new();
    copied(&sandbox, &["jax.msgpack", "varlen.msgpack", "varlen.driver.msgpack"]);
    for name in ["jax.msgpack", "varlen.msgpack"] {
        sandbox.run(&["reduce", name, "-o", "reduced.msgpack", "--force"]).ends_with(0);
        let of = |path: &str| sandbox.run(&["analyze", "--json", path]).ends_with(0).json();
        let (whole, reduced) = (of(name), of("reduced.msgpack"));
        assert_eq!(reduced["traces"][0]["driver"], whole["traces"][0]["driver"], "{name}");
        sandbox.run(&["analyze", "reduced.msgpack", "-o", "report", "--force"]).ends_with(0);
        let page = sandbox.read("report/report.html");
        assert!(page.contains("What nvidia-smi sees"), "{name}");
        assert!(!sandbox.read("report/report.md").contains("driver-timeline"), "{name}: curves are not kept");
    }
}
