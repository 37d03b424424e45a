//! `memlab oom` as a program: output, exit codes, packed logs, memory.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use serde_json::Value;

use super::rows::KEYS;
use super::texts::with_figures;
use crate::inputs::Seeded;
use crate::program;
use crate::sandbox::{Sandbox, run};

#[test]
fn the_program_prints_the_contract() {
    let sandbox = Sandbox::new();
    let text = with_figures(&mut Seeded(43)).remove(6);
    sandbox.put("a.log", &format!("x\n[rank3]: {}\n", text.raised()));
    let json = sandbox.run(&["oom", "a.log", "--json"]).ends_with(0).json();
    assert_eq!(json["schema"], 1);
    let message = &json["messages"][0];
    for key in KEYS.into_iter().chain(["device"]) {
        assert!(message[key].is_u64(), "{key}: {message}");
    }
    for key in ["variant", "verdict", "explanation", "remedy"] {
        assert!(message[key].is_string(), "{key}: {message}");
    }
    assert_eq!((&message["line"], &message["rank"]), (&2.into(), &3.into()));
    let screen = sandbox.run(&["oom", "a.log"]).ends_with(0);
    assert!(
        screen.stdout.contains("a.log:2, rank 3") && screen.stdout.contains("\nDo   "),
        "{}",
        screen.stdout
    );
    assert_eq!(screen.stderr, "");
}

#[test]
fn a_log_without_a_message_is_no_error() {
    let sandbox = Sandbox::new();
    sandbox.put("a.log", "all is well\n");
    let json = sandbox.run(&["oom", "a.log", "--json"]).ends_with(0);
    assert!(json.stderr.contains("a.log: there is no out-of-memory message in it"), "{}", json.stderr);
    assert_eq!(json.json()["messages"], serde_json::json!([]));
    assert_eq!(sandbox.run(&["oom", "a.log"]).ends_with(0).stdout, "");
    sandbox.put("empty.log", "");
    assert_eq!(
        sandbox.run(&["oom", "empty.log", "--json"]).ends_with(0).json()["messages"],
        serde_json::json!([])
    );
}

#[test]
fn what_cannot_be_read_is_an_error_and_the_others_are_done() {
    let sandbox = Sandbox::new();
    let text = with_figures(&mut Seeded(47)).remove(1);
    sandbox.put("a.log", &text.raised());
    let run = sandbox.run(&["oom", "missing.log", "a.log", "--json"]).ends_with(2);
    assert!(run.stderr.starts_with("error: failed to read missing.log"), "{}", run.stderr);
    assert_eq!(run.json()["messages"][0]["variant"], "V2");
    assert_eq!(sandbox.run(&["oom", "missing.log"]).ends_with(2).stdout, "");
    assert_eq!(sandbox.run(&["oom", "."]).ends_with(2).stdout, "");
}

#[test]
fn packed_logs_and_pipes_are_read() {
    let sandbox = Sandbox::new();
    let text = with_figures(&mut Seeded(53)).remove(4);
    let log = format!("{}{}\n", "x\n".repeat(100_000), text.raised());
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(log.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    fs::write(sandbox.path("a.log.gz"), &gzip).unwrap();
    fs::write(sandbox.path("a.log.zst"), zstd::stream::encode_all(log.as_bytes(), 1).unwrap()).unwrap();
    let wide: Vec<u8> =
        "\u{feff}".encode_utf16().chain(log.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    fs::write(sandbox.path("wide.log"), wide).unwrap();
    let json = sandbox.run(&["oom", "a.log.gz", "a.log.zst", "wide.log", "--json"]).ends_with(0).json();
    for index in 0..3 {
        assert_eq!(
            (&json["messages"][index]["line"], &json["messages"][index]["variant"]),
            (&100_001.into(), &"V4".into())
        );
    }
    sandbox.put("plain.log", &log);
    let piped = run(sandbox
        .memlab()
        .args(["oom", "-", "--json"])
        .stdin(fs::File::open(sandbox.path("plain.log")).unwrap()));
    assert_eq!(piped.ends_with(0).json()["messages"][0]["log"], "-");
    // Cut in the middle: what could be read is shown, and that it was cut is said.
    fs::write(sandbox.path("cut.gz"), &gzip[..gzip.len() - 20]).unwrap();
    let cut = sandbox.run(&["oom", "cut.gz", "--json"]).ends_with(0);
    assert!(cut.stderr.contains("reading ended early"), "{}", cut.stderr);
}

#[test]
fn hostile_text_reaches_no_terminal() {
    let sandbox = Sandbox::new();
    let text = with_figures(&mut Seeded(59)).remove(6);
    sandbox.put(
        "a.log",
        &format!("\x1b]0;title\x07\u{202e}evil\x1b[2J [rank1]: {}\x1b[31m\x07\n", text.raised()),
    );
    for options in [&["oom", "a.log"][..], &["oom", "a.log", "--json"]] {
        let run = sandbox.run(options).ends_with(0);
        let is_safe = |c: char| c == '\n' || !c.is_control() && c != '\u{202e}';
        assert!(run.stdout.chars().all(is_safe), "{:?}", run.stdout);
    }
}

/// Peak memory of the program beyond what it needs for a tiny log.
fn peak_of(log: &Path) -> (u64, Value) {
    let run = program::run(&["oom", "--json", log.to_str().unwrap()]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    (run.peak_bytes, serde_json::from_str(&run.stdout).unwrap())
}

#[test]
fn a_large_log_is_read_in_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let text = with_figures(&mut Seeded(61)).remove(6);
    let small = folder.path().join("small.log");
    fs::write(&small, text.raised()).unwrap();
    let (base, _) = peak_of(&small);
    // Ordinary lines with a message at either end and one in the middle; then one line without an end.
    let many = folder.path().join("many.log");
    let mut file = std::io::BufWriter::new(fs::File::create(&many).unwrap());
    let line =
        "2024-06-17 13:18:29 INFO step 12345 loss 0.123 memory 40.1 GiB of 80 GiB, out of memory budget 0\n";
    for part in 0..2 {
        writeln!(file, "[rank{part}]: {}", text.raised()).unwrap();
        for _ in 0..400_000 {
            file.write_all(line.as_bytes()).unwrap();
        }
    }
    writeln!(file, "[rank2]: {}", text.raised()).unwrap();
    drop(file);
    let (peak, json) = peak_of(&many);
    let lines: Vec<_> = json["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["line"].as_u64().unwrap())
        .collect();
    assert_eq!(lines, [1, 400_002, 800_003]);
    assert_eq!(json["logs"][0]["lines"], 800_003);
    assert!(peak < base + (16 << 20), "{peak} bytes against {base}");
    let endless = folder.path().join("endless.log");
    fs::write(&endless, format!("{}{}{}", "x ".repeat(20 << 20), text.raised(), "y".repeat(20 << 20)))
        .unwrap();
    let (peak, json) = peak_of(&endless);
    assert_eq!(json["messages"][0]["offset"].as_u64().unwrap(), (40 << 20) + text.class.len() as u64 + 2);
    assert!(peak < base + (16 << 20), "{peak} bytes against {base}");
}
