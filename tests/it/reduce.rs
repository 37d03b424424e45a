//! Reduced recordings: the figures of the original, what is no longer known, and who refuses.

use std::path::{Path, PathBuf};

use memlab::analysis::{self, Options};
use memlab::format;
use memlab::import::{self, ReadOptions};
use memlab::model::{Origin, Trace};
use serde_json::Value;

use crate::inputs::{read, recordings, testdata};
use crate::sandbox::Sandbox;

pub(crate) fn reduced(trace: &Trace, name: &str) -> Vec<u8> {
    let origin = Origin {
        name: name.to_owned(),
        format: trace.format.name().to_owned(),
        bytes: 1 << 40,
        events: trace.event_count() as u64,
        sha256: "ab".repeat(32),
        reduced_by: "memlab test".to_owned(),
    };
    analysis::reduce(trace, &origin).unwrap().file
}

pub(crate) fn read_small(bytes: &[u8]) -> Trace {
    import::read_bytes(bytes, &ReadOptions::default()).unwrap()
}

fn every_recording() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        ["torch", "gpu", "cases", "public", "faults"].into_iter().flat_map(recordings).collect();
    let emitted = std::fs::read_dir(testdata("emitter")).unwrap().map(|entry| entry.unwrap().path());
    all.extend(emitted.filter(|path| path.extension().is_some_and(|ending| ending == "msgpack")));
    all
}

/// The report as JSON, less what tells the file: what is left must be equal.
fn figures(trace: &Trace) -> (Value, Vec<Value>) {
    let report = analysis::analyze("trace", trace, &Options::default()).unwrap();
    let mut report = serde_json::to_value(&report).unwrap();
    let warnings = report["warnings"].as_array().unwrap().clone();
    let keys = report.as_object_mut().unwrap();
    for key in ["format", "warnings", "reduced"] {
        keys.remove(key);
    }
    (report, warnings)
}

fn holds_equal_figures(path: &Path) {
    let trace = read(path);
    let small = read_small(&reduced(&trace, "a"));
    let ((whole, whole_warnings), (kept, mut warnings)) = (figures(&trace), figures(&small));
    assert!(whole == kept, "{}", path.display());
    let said: Vec<_> = warnings.extract_if(.., |warning| warning["kind"] == "reduced").collect();
    assert_eq!(said.len(), 1, "{}", path.display());
    assert_eq!(warnings, whole_warnings, "{}", path.display());
    let live = &small.reduced.as_ref().unwrap().live;
    for device in whole["devices"].as_array().unwrap() {
        let number = device["device"].as_u64().unwrap();
        let set = live.iter().find(|set| u64::from(set.device.0) == number);
        let total = |name: &str, pending: bool| {
            let Some(set) = set else { return 0 };
            let place = set.moments.iter().position(|moment| moment.name == name).unwrap();
            let of = |row: &&memlab::model::LiveRow| {
                row.live >> place & 1 == 1 && (pending || row.pending >> place & 1 == 0)
            };
            set.rows.iter().filter(of).map(|row| row.bytes).sum::<u64>()
        };
        assert_eq!(total("allocated-peak", false), device["peak"]["allocated_bytes"], "{}", path.display());
        assert_eq!(total("end", false), device["end"]["allocated_bytes"], "{}", path.display());
        assert_eq!(total("end", true), device["end"]["active_bytes"], "{}", path.display());
        let at_peak = &device["fragmentation"]["at_peak"];
        assert_eq!(total("reserved-peak", true), at_peak["active_bytes"], "{}", path.display());
    }
}

#[test]
fn every_figure_of_every_recording_is_kept() {
    let all = every_recording();
    assert!(all.len() > 80, "{}", all.len());
    // Threads of their own: a worker of the pool that waits takes up another recording, on the same stack.
    let (first, second) = all.split_at(all.len() / 2);
    std::thread::scope(|scope| {
        for part in [first, second] {
            scope.spawn(move || part.iter().for_each(|path| holds_equal_figures(path)));
        }
    });
}

#[test]
fn large_recordings_take_two_percent_and_small_ones_twenty_kilobytes() {
    for name in ["big", "kvcache.default", "varlen.default", "gpt"] {
        let trace = read(&testdata(&format!("torch/{name}.pickle.gz")));
        let mut whole = Vec::new();
        format::write(&trace, &format::WriteOptions::default(), &mut whole).unwrap();
        let origin = Origin { bytes: whole.len() as u64, ..Origin::default() };
        let small = analysis::reduce(&trace, &origin).unwrap().file.len();
        assert!(small <= (whole.len() / 50).max(20_000), "{name}: {small} of {}", whole.len());
    }
}

#[test]
fn ranks_are_compared_as_before() {
    let files = [("gpt", "rank0"), ("gpt", "rank1"), ("varlen.default", "rank2")];
    let found = |is_small: bool| {
        let analyses = files.map(|(recording, name)| {
            let mut trace = read(&testdata(&format!("torch/{recording}.pickle.gz")));
            if is_small {
                trace = read_small(&reduced(&trace, name));
            }
            let options = Options { several_files: true, ..Options::default() };
            analysis::analyze_file(name, &trace, &options).unwrap()
        });
        let (reports, kept): (Vec<_>, Vec<_>) = analyses
            .map(|analysis| {
                let (report, _, kept) = analysis.parted();
                (report, kept)
            })
            .into_iter()
            .unzip();
        let mut findings: Vec<_> =
            reports.iter().map(|report| serde_json::to_value(&report.findings).unwrap()).collect();
        for (file, found) in analysis::compared(kept, &[]).found {
            findings[file].as_array_mut().unwrap().push(serde_json::to_value(found).unwrap());
        }
        findings
    };
    let whole = found(false);
    assert!(whole.iter().any(|findings| findings.to_string().contains("rank-imbalance")), "{whole:?}");
    assert_eq!(found(true), whole);
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_snapshot("cnn.pickle");
    let run = sandbox.run(&["reduce", "cnn.pickle", "-o", "small.msgpack"]).ends_with(0);
    assert_eq!(run.stdout, "");
    assert!(run.stderr.starts_with("Wrote small.msgpack ("), "{run:?}");
    sandbox
}

#[test]
fn the_small_file_says_what_it_is() {
    let sandbox = sandbox();
    let info = sandbox.run(&["info", "small.msgpack", "--json"]).ends_with(0).json();
    let reduced = &info["traces"][0]["reduced"];
    let stored = std::fs::read(sandbox.path("cnn.pickle")).unwrap();
    assert_eq!((&reduced["name"], &reduced["format"]), (&"cnn.pickle".into(), &"torch-snapshot".into()));
    assert_eq!(reduced["bytes"], stored.len());
    assert_eq!(reduced["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(reduced["reduced_by"], concat!("memlab ", env!("CARGO_PKG_VERSION")));
    let analysis = sandbox.run(&["analyze", "small.msgpack", "--json"]).ends_with(0).json();
    assert_eq!(reduced["events"], analysis["traces"][0]["events"]);
    assert_eq!(analysis["traces"][0]["reduced"]["sha256"], reduced["sha256"]);
    let text = sandbox.run(&["info", "small.msgpack"]).ends_with(0).stdout;
    for word in ["reduced from cnn.pickle", "SHA-256", "allocated-peak", "none of its"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let text = sandbox.run(&["analyze", "small.msgpack"]).ends_with(0).stdout;
    assert!(text.contains("a reduced recording: its 382 events are in the original, cnn.pickle"), "{text}");
    assert!(!text.contains("faults in the file"), "{text}");
}

#[test]
fn whoever_needs_events_names_the_original() {
    let sandbox = sandbox();
    for arguments in [
        &["whatif", "small.msgpack"][..],
        &["summary", "small.msgpack"],
        &["summary", "small.msgpack", "--at", "5"],
        &["convert", "small.msgpack", "x.pickle"],
        &["export", "small.msgpack", "-o", "tables"],
        &["export", "small.msgpack", "-o", "x.folded"],
        &["export", "small.msgpack", "-o", "-", "--format", "folded"],
        &["analyze", "small.msgpack", "--from", "3"],
        &["lines", "small.msgpack", "--group-by", "file"],
        &["report", "small.msgpack", "--to", "3"],
        &["reduce", "small.msgpack", "-o", "x.msgpack"],
    ] {
        let run = sandbox.run(arguments).ends_with(2);
        assert_eq!(run.stdout, "", "{arguments:?}");
        assert!(run.stderr.contains("needs the events"), "{run:?}");
        assert!(run.stderr.contains("use the original: cnn.pickle, "), "{run:?}");
    }
    assert_eq!(sandbox.files(), ["cnn.pickle", "small.msgpack"]);
}

#[test]
fn what_needs_no_events_works() {
    let sandbox = sandbox();
    for arguments in
        [&["lines", "--csv"][..], &["lines", "--json", "--top", "3"], &["lines", "--device", "0"]]
    {
        let of = |file: &str| {
            let run = sandbox.run(&[arguments, &[file]].concat()).ends_with(0);
            run.stdout.replace(file, "FILE")
        };
        assert_eq!(of("small.msgpack"), of("cnn.pickle"), "{arguments:?}");
    }
    sandbox.run(&["check", "small.msgpack", "--max-peak", "1GiB"]).ends_with(0);
    sandbox.run(&["check", "small.msgpack", "--max-peak", "1KiB"]).ends_with(1);
    let diff = sandbox.run(&["diff", "cnn.pickle", "small.msgpack", "--json"]).ends_with(0).json();
    assert_eq!((&diff["same"], &diff["after"]["kind"]), (&true.into(), &"report".into()), "{diff}");
    sandbox.run(&["analyze", "small.msgpack", "-o", "out", "-q"]).ends_with(0);
    let files = ["report.html", "report.json", "report.md", "timeline.svg", "flamegraph.svg", "segments.svg"];
    for name in files {
        assert!(sandbox.read(&format!("out/{name}")).len() > 500, "{name}");
    }
}

#[test]
fn what_cannot_be_reduced_is_refused() {
    let sandbox = Sandbox::with_snapshot("cnn.pickle");
    let refused = |arguments: &[&str], word: &str| {
        let run = sandbox.run(arguments).ends_with(2);
        assert!(run.stderr.contains(word), "{run:?}");
    };
    refused(&["reduce", "cnn.pickle", "-o", "small.txt"], "end FILE in .msgpack");
    refused(&["reduce", "-", "-o", "small.msgpack"], "standard input cannot be reduced");
    sandbox.put("small.msgpack", "mine");
    refused(&["reduce", "cnn.pickle", "-o", "small.msgpack"], "exists already");
    sandbox.run(&["reduce", "cnn.pickle", "-o", "small.msgpack", "--force"]).ends_with(0);
}

#[test]
fn reduced_ranks_are_drawn_and_ordered_by_time_as_the_originals_are() {
    let sandbox = Sandbox::new();
    for (rank, name) in [(0, "gpt"), (1, "oom"), (2, "gpt")] {
        let path = format!("whole/rank{rank}.pickle.gz");
        std::fs::create_dir_all(sandbox.path("whole")).unwrap();
        std::fs::create_dir_all(sandbox.path("small")).unwrap();
        std::fs::copy(testdata(&format!("torch/{name}.pickle.gz")), sandbox.path(&path)).unwrap();
        sandbox.run(&["reduce", &path, "-o", &format!("small/rank{rank}.msgpack"), "-q"]).ends_with(0);
    }
    let ranks = |folder: &str| {
        sandbox.run(&["analyze", folder, "-o", &format!("{folder}-out"), "-q"]).ends_with(0);
        let text = sandbox.read(&format!("{folder}-out/ranks.json"));
        serde_json::from_str::<serde_json::Value>(&text).unwrap()
    };
    let (whole, small) = (ranks("whole"), ranks("small"));
    assert!(whole["failure"]["first"]["time_us"].is_i64());
    for key in ["known_by", "sentence"] {
        assert_eq!(small["failure"][key], whole["failure"][key], "{key}");
    }
    assert_eq!(small["failure"]["first"]["time_us"], whole["failure"]["first"]["time_us"]);
    // The kept timeline stands for the curve: the same highest reserved bytes, a curve and a mark for each.
    let svg = |folder: &str| sandbox.read(&format!("{folder}-out/ranks.svg"));
    let titles = |svg: &str| {
        let mut titles: Vec<String> = (svg.split("<title>").skip(1))
            .filter_map(|part| Some(part.split_once("</title>")?.0.to_owned()))
            .filter(|title| title.contains("reserved at most") || title.contains("out of memory, "))
            .collect();
        titles.sort();
        titles
    };
    assert!(titles(&svg("whole")).len() >= 4, "{}", svg("whole"));
    assert_eq!(titles(&svg("small")), titles(&svg("whole")));
}

#[test]
fn the_report_of_a_small_file_shows_what_was_live() {
    let sandbox = Sandbox::new();
    std::fs::copy(testdata("torch/oom.pickle.gz"), sandbox.path("oom.pickle.gz")).unwrap();
    sandbox.run(&["reduce", "oom.pickle.gz", "-o", "small.msgpack", "-q"]).ends_with(0);
    sandbox.run(&["analyze", "small.msgpack", "-o", "out", "-q"]).ends_with(0);
    let report: serde_json::Value = serde_json::from_str(&sandbox.read("out/report.json")).unwrap();
    let trace = &report["traces"][0];
    let live = trace["reduced"]["live"].as_array().unwrap();
    let moment = |name: &str| live.iter().find(|moment| moment["moment"] == name).unwrap();
    let device = &trace["devices"][0];
    // Live bytes are the active bytes of the moment.
    assert_eq!(moment("allocated-peak")["event"], device["peak_event"]["allocated_bytes"]);
    assert_eq!(moment("end")["bytes"], device["end"]["active_bytes"]);
    assert_eq!(moment("oom")["bytes"], device["ooms"].as_array().unwrap().last().unwrap()["active_bytes"]);
    let rows = moment("oom")["rows"].as_array().unwrap();
    let left_out = moment("oom")["rows_left_out"].as_u64().unwrap();
    assert_eq!(rows.len() as u64 + left_out, moment("oom")["allocations"].as_u64().unwrap());
    assert!(rows.windows(2).all(|pair| pair[0]["bytes"].as_u64() >= pair[1]["bytes"].as_u64()));
    let line = rows[0]["line"].as_str().unwrap();
    let (page, markdown) = (sandbox.read("out/report.html"), sandbox.read("out/report.md"));
    for title in
        ["Live when allocated bytes peak", "Live at the last failed request", "Live after the last event"]
    {
        assert!(page.contains(&format!("<h3>{title}</h3>")), "{title}");
        assert!(markdown.contains(&format!("### {title}\n")), "{title}");
    }
    assert!(page.contains("data-table=\"live-oom\"") && markdown.contains(line), "{line}");
    // A recording with its events says nothing of the kind.
    sandbox.run(&["analyze", "oom.pickle.gz", "-o", "whole", "-q"]).ends_with(0);
    assert!(!sandbox.read("whole/report.html").contains("What was live</h2>"));
}
