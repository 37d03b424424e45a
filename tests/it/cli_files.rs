//! What is written where, and what is never overwritten.

use crate::sandbox::Sandbox;

const REPORT: [&str; 8] = [
    "flamegraph.svg",
    "fragmentation.svg",
    "report.html",
    "report.json",
    "report.md",
    "segments.svg",
    "steps.svg",
    "timeline.svg",
];

#[test]
fn a_report_is_eight_files_and_a_word_on_each() {
    let sandbox = Sandbox::with_snapshot("cnn.pickle");
    let run = sandbox.run(&["analyze", "cnn.pickle", "-o", "new/report", "--device", "0"]).ends_with(0);
    assert_eq!(run.stdout, "");
    let expected: Vec<_> = REPORT.iter().map(|name| format!("new/report/{name}")).collect();
    assert_eq!(sandbox.files()[1..], expected);
    for name in &expected {
        let line = run.stderr.lines().find(|line| line.starts_with(&format!("Wrote {name} (")));
        assert!(line.is_some_and(|line| line.ends_with("B)")), "{name}: {run:?}");
    }
    assert_eq!(run.stderr.lines().count(), REPORT.len(), "{run:?}");
}

#[test]
fn the_written_json_is_the_printed_json() {
    let sandbox = Sandbox::with_snapshot("cnn.pickle");
    let printed = sandbox.run(&["analyze", "cnn.pickle", "--json"]).ends_with(0).stdout;
    sandbox.run(&["analyze", "cnn.pickle", "-o", "report", "-q"]).ends_with(0);
    assert_eq!(sandbox.read("report/report.json"), printed);
}

#[test]
fn several_traces_get_a_folder_each() {
    let sandbox = Sandbox::with_snapshot("a.pickle");
    sandbox.put_snapshot("b.pickle");
    let words = ["analyze", "b.pickle", "missing.pickle", "a.pickle", "-o", "out", "--device", "0"];
    let run = sandbox.run(&words).ends_with(2);
    assert!(run.stderr.contains("error: failed to read missing.pickle"), "{run:?}");
    let expected = ["a", "b"].iter().flat_map(|trace| REPORT.map(|name| format!("out/{trace}/{name}")));
    assert_eq!(sandbox.files()[2..], expected.collect::<Vec<_>>());
}

#[test]
fn nothing_is_overwritten_without_force() {
    let sandbox = Sandbox::with_snapshot("cnn.pickle");
    std::fs::create_dir(sandbox.path("out")).unwrap();
    sandbox.put("out/report.md", "precious");
    let refused = sandbox.run(&["analyze", "cnn.pickle", "-o", "out"]).ends_with(2);
    assert!(
        refused.stderr.starts_with("error: out/report.md exists already\nhint: use --force"),
        "{refused:?}"
    );
    assert_eq!(sandbox.files(), ["cnn.pickle", "out/report.md"]);
    assert_eq!(sandbox.read("out/report.md"), "precious");
    sandbox.run(&["analyze", "cnn.pickle", "-o", "out", "--force"]).ends_with(0);
    assert_ne!(sandbox.read("out/report.md"), "precious");
}

#[test]
fn outputs_are_checked_before_the_work() {
    let sandbox = Sandbox::new();
    sandbox.put("file", "");
    // The input does not exist; that the output is refused first shows the order.
    let analyze = sandbox.run(&["analyze", "missing.pickle", "-o", "file"]).ends_with(2);
    assert!(analyze.stderr.contains("cannot write to file: file is no folder"), "{analyze:?}");
    let convert = sandbox.run(&["convert", "missing.pickle", "nowhere/out.msgpack"]).ends_with(2);
    assert!(convert.stderr.contains("there is no folder nowhere"), "{convert:?}");
}

#[test]
fn a_failed_run_leaves_nothing_behind() {
    let sandbox = Sandbox::new();
    sandbox.put("notes.txt", "not a trace");
    sandbox.put("out.msgpack", "old");
    sandbox.run(&["convert", "notes.txt", "out.msgpack", "--force"]).ends_with(2);
    sandbox.run(&["convert", "notes.txt", "other.msgpack"]).ends_with(2);
    sandbox.run(&["analyze", "notes.txt", "-o", "report"]).ends_with(2);
    assert_eq!(sandbox.files(), ["notes.txt", "out.msgpack"]);
    assert!(!sandbox.path("report").exists());
    assert_eq!(sandbox.read("out.msgpack"), "old");
}

#[test]
fn convert_goes_by_the_name_of_its_output() {
    let sandbox = Sandbox::with_snapshot("cnn.pickle");
    let run = sandbox.run(&["convert", "cnn.pickle", "cnn.msgpack", "--codec", "zlib"]).ends_with(0);
    assert_eq!(run.stdout, "");
    assert!(run.stderr.starts_with("Wrote cnn.msgpack ("), "{run:?}");
    for (name, magic) in
        [("a.pickle", &[0x80][..]), ("a.pickle.gz", &[0x1f, 0x8b]), ("a.pickle.zst", &[0x28, 0xb5])]
    {
        sandbox.run(&["convert", "cnn.pickle", name, "-q"]).ends_with(0);
        assert!(std::fs::read(sandbox.path(name)).unwrap().starts_with(magic), "{name}");
    }
    let again = sandbox.run(&["convert", "cnn.pickle", "cnn.msgpack"]).ends_with(2);
    assert!(again.stderr.contains("cnn.msgpack exists already"), "{again:?}");
    let odd = sandbox.run(&["convert", "cnn.pickle", "cnn.txt"]).ends_with(2);
    assert!(odd.stderr.contains("hint: end OUT in .msgpack"), "{odd:?}");
}

#[test]
#[cfg(unix)]
fn written_files_have_ordinary_permissions() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = Sandbox::with_snapshot("cnn.pickle");
    sandbox.put("ordinary", "");
    sandbox.run(&["convert", "cnn.pickle", "a.pickle"]).ends_with(0);
    let mode = |name: &str| sandbox.path(name).metadata().unwrap().permissions().mode();
    assert_eq!(mode("a.pickle"), mode("ordinary"));
}

#[test]
fn tables_are_exported_as_asked_and_the_lines_add_up_to_the_peak() {
    let sandbox = Sandbox::with_snapshot("cnn.pickle");
    let words =
        ["export", "cnn.pickle", "-o", "tables", "--format", "csv", "--table", "lines", "--table", "usage"];
    sandbox.run(&words).ends_with(0);
    assert_eq!(sandbox.files()[1..], ["tables/lines.csv", "tables/usage.csv"]);
    let text = sandbox.read("tables/lines.csv");
    let mut rows = text.lines().map(|row| row.split(',').map(str::to_owned).collect::<Vec<_>>());
    let head = rows.next().unwrap();
    let held = head.iter().position(|name| name == "held_at_peak_bytes").unwrap();
    let sum: u64 = rows.map(|row| row[held].parse::<u64>().unwrap()).sum();
    assert_eq!(sum, 185_862_144, "max_memory_allocated() of that process");
    let refused = sandbox.run(&words).ends_with(2);
    assert!(refused.stderr.contains("exists already"), "{refused:?}");
    sandbox.run(&["export", "cnn.pickle", "-o", "parquet"]).ends_with(0);
    let all: Vec<_> = sandbox.files().into_iter().filter(|name| name.starts_with("parquet/")).collect();
    assert_eq!(all.len(), memlab::analysis::Table::ALL.len(), "{all:?}");
}
