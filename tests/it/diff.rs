//! `memlab diff`: right values of real pairs, nothing where nothing differs, and both directions alike.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use memlab::analysis::{DiffOptions, DiffSide, diff};
use memlab::model::{Trace, TraceBuilder};
use memlab::report::{self, DiffReport, LineDiff, Style};
use proptest::prelude::*;
use serde_json::Value;

use crate::escaping::{assert_harmless, assert_well_formed, hostile};
use crate::inputs::{read, testdata};

pub(crate) const MIB: i64 = 1 << 20;

pub(crate) fn side(path: &str) -> DiffSide {
    DiffSide::of_trace(path, &read(&testdata(path)), None, true).unwrap()
}

pub(crate) fn compared(before: &DiffSide, after: &DiffSide) -> DiffReport {
    diff(before, after, &DiffOptions::default())
}

pub(crate) fn peaks(report: &DiffReport) -> (i64, i64) {
    let device = &report.devices[0];
    let delta = |change: report::Change| change.delta().unwrap();
    (delta(device.peak_of(|four| four.allocated_bytes)), delta(device.peak_of(|four| four.reserved_bytes)))
}

/// The pair of which PyTorch itself counted both peaks.
pub(crate) static VARLEN: LazyLock<DiffReport> = LazyLock::new(|| {
    compared(&side("torch/varlen.default.pickle.gz"), &side("torch/varlen.expandable.pickle.gz"))
});

#[test]
fn expandable_segments_save_what_pytorch_counted() {
    assert_eq!(peaks(&VARLEN), (-15_706_624, -1_839_202_304));
    let setting = &VARLEN.settings[0];
    assert_eq!(
        (setting.before.as_deref(), setting.after.as_deref()),
        (None, Some("expandable_segments:True"))
    );
    let text = report::diff_text(&VARLEN, None, Style::plain());
    let verdict = "reserved peak 1.7 GiB lower (4.8 GiB → 3.1 GiB), allocated peak 15.0 MiB lower";
    assert_eq!(text.lines().nth(2).map(|line| line.starts_with(verdict)), Some(true), "{text}");
}

#[test]
fn lines_and_the_remainder_add_up_to_the_change_of_the_peak() {
    let device = &VARLEN.devices[0];
    let lines: i64 = device.lines.iter().filter_map(|line| line.figures.delta_bytes).sum();
    assert_eq!(lines + device.unattributed.delta_bytes.unwrap(), -15_706_624);
    let categories: i64 = device.categories.iter().flatten().filter_map(|row| row.delta_bytes).sum();
    assert_eq!(categories, -15_706_624);
}

pub(crate) fn label(line: &LineDiff) -> (String, u64) {
    (line.file.clone().unwrap_or_default(), line.line.unwrap_or(0))
}

/// The program calls the model in one line; all of the decoder's allocations of the forward pass are charged to it.
#[test]
fn with_checkpointing_only_the_call_of_the_decoder_shrinks() {
    let (before, after) = (side("torch/llama.pickle.gz"), side("torch/llama_ckpt.pickle.gz"));
    let report = compared(&before, &after);
    let device = &report.devices[0];
    let shrunk: Vec<_> = device
        .lines
        .iter()
        .filter(|line| line.figures.delta_bytes.is_some_and(|delta| delta <= -MIB))
        .collect();
    assert_eq!(
        shrunk.iter().map(|line| label(line)).collect::<Vec<_>>(),
        [("/srv/llama/scenarios.py".to_owned(), 371)]
    );
    assert_eq!(
        shrunk[0].figures.delta_bytes,
        Some(peaks(&report).0 + 131_072),
        "all but 128 KiB of the change"
    );
    let file = &device.files_moved[0];
    assert_eq!(
        (file.before.as_str(), file.after.as_str()),
        ("/workspace/scenarios.py", "/srv/llama/scenarios.py")
    );
    assert!(device.lines.iter().all(|line| line.places.before.is_some() && line.places.after.is_some()));
    let category = &device.categories.as_ref().unwrap()[0];
    assert_eq!(category.category, "activation");
    assert!(category.delta_bytes < Some(-340 * MIB), "{category:?}");
}

#[test]
fn with_checkpointing_the_modules_that_shrink_are_the_decoders_layers() {
    let report = compared(&side("emitter/llama.msgpack"), &side("emitter/llama_ckpt.msgpack"));
    let modules = report.devices[0].modules.as_ref().unwrap();
    let shrunk = modules.iter().filter(|row| row.delta_bytes < Some(-MIB));
    let names: Vec<&str> = shrunk.clone().map(|row| row.module.as_deref().unwrap_or("")).collect();
    assert!(names.len() >= 6 * 3, "{names:?}");
    for name in &names {
        assert!(name.starts_with("model.layers."), "{name} is no part of the decoder: {names:?}");
    }
    let saved: i64 = shrunk.filter_map(|row| row.delta_bytes).sum();
    let peak = peaks(&report).0;
    assert!(saved <= peak / 100 * 99, "the layers alone save {saved} of {peak}");
}

/// Recordings that a debug build reads quickly.
fn small() -> Vec<PathBuf> {
    let is_small = |path: &PathBuf| {
        let size = path.metadata().unwrap().len();
        path.to_string_lossy().contains(".pickle") && size < 90_000
    };
    let mut paths: Vec<PathBuf> = ["torch", "public", "gpu"]
        .iter()
        .flat_map(|folder| std::fs::read_dir(testdata(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(is_small)
        .collect();
    paths.sort();
    paths
}

#[test]
fn a_recording_does_not_differ_from_itself_nor_from_its_report() {
    let paths = small();
    assert!(paths.len() > 20, "{paths:?}");
    for path in paths {
        let name = path.display().to_string();
        let trace = read(&path);
        let side = DiffSide::of_trace(&name, &trace, None, false).unwrap();
        assert_empty(&name, &compared(&side, &side));
        let report = report::Report {
            schema: report::SCHEMA,
            tool: String::new(),
            traces: vec![
                memlab::analysis::analyze(&name, &trace, &memlab::analysis::Options::default()).unwrap(),
            ],
        };
        let text = report::json(&report);
        let value = memlab::analysis::report_in(text.as_bytes()).expect("it is a report");
        let read_back = DiffSide::of_report("report.json", &value, "elsewhere", None).unwrap();
        assert_empty(&name, &compared(&side, &read_back));
        assert_empty(&name, &compared(&read_back, &side));
    }
}

pub(crate) fn assert_empty(name: &str, report: &DiffReport) {
    assert!(report.same, "{name}: {}", report::pretty(report));
    for device in &report.devices {
        assert!(device.lines.is_empty(), "{name}: {:?}", device.lines);
        assert_eq!((device.lines_moved, device.files_moved.len()), (0, 0), "{name}");
    }
    assert!(report::diff_text(report, None, Style::plain()).contains("\nno difference\n"), "{name}");
}

/// The report of the other direction, turned around.
fn turned(report: &DiffReport) -> Value {
    fn turn(value: &mut Value) {
        match value {
            Value::Object(object) => {
                let keys = [
                    ("before", "after"),
                    ("before_bytes", "after_bytes"),
                    ("appeared", "vanished"),
                    ("grown", "shrunk"),
                ];
                for (one, other) in keys {
                    if let (Some(left), Some(right)) = (object.remove(one), object.remove(other)) {
                        object.insert(one.to_owned(), right);
                        object.insert(other.to_owned(), left);
                    }
                }
                if let Some(delta) = object.get("delta_bytes").and_then(Value::as_i64) {
                    object.insert("delta_bytes".to_owned(), (-delta).into());
                }
                object.values_mut().for_each(turn);
            }
            Value::Array(values) => values.iter_mut().for_each(turn),
            _ => {}
        }
    }
    let mut value = plain(report);
    turn(&mut value);
    let notes = value["notes"].as_array_mut().unwrap();
    for note in notes.iter_mut() {
        let text =
            note.as_str().unwrap().replace("BEFORE", "X").replace("AFTER", "BEFORE").replace('X', "AFTER");
        *note = text.into();
    }
    notes.sort_by_key(ToString::to_string);
    value
}

/// The report without what names a line by its place after: the places say it for both sides.
fn plain(report: &DiffReport) -> Value {
    let mut value = serde_json::to_value(report).unwrap();
    for device in value["devices"].as_array_mut().unwrap() {
        device["device"] = Value::Null;
        for rows in ["/lines", "/library_lines/rows"] {
            for line in device.pointer_mut(rows).and_then(Value::as_array_mut).into_iter().flatten() {
                (line["file"], line["line"]) = (Value::Null, Value::Null);
            }
        }
    }
    value["notes"].as_array_mut().unwrap().sort_by_key(ToString::to_string);
    value
}

pub(crate) fn assert_mirrored(before: &DiffSide, after: &DiffSide) {
    let (forth, back) = (compared(before, after), compared(after, before));
    assert_eq!(plain(&forth), turned(&back));
}

#[test]
fn both_directions_say_the_same_of_real_recordings() {
    for (before, after) in [
        ("torch/llama.pickle.gz", "torch/llama_ckpt.pickle.gz"),
        ("torch/noleak.pickle.gz", "torch/leak_loss.pickle.gz"),
        ("torch/gpt.pickle.gz", "torch/oom.pickle.gz"),
        ("emitter/gpt.msgpack", "torch/gpt.pickle.gz"),
        ("torch/cnn.pickle", "torch/ring.pickle"),
    ] {
        assert_mirrored(&side(before), &side(after));
    }
}

/// A program: file, function, line and size of each allocation, all of which stay.
fn program(folder: &str, rows: &[(usize, usize, u64, u64)]) -> Trace {
    const FILES: [&str; 2] = ["train.py", "net/model.py"];
    const FUNCTIONS: [&str; 2] = ["step", "forward"];
    let mut builder = TraceBuilder::new();
    for (index, &(file, function, line, size)) in rows.iter().enumerate() {
        let at = 0x7f00_0000_0000 + index as u64 * (64 << 20);
        let name = format!("{folder}/{}", FILES[file]);
        builder = builder
            .at(&name, line, FUNCTIONS[function])
            .segment_alloc(at, 20 << 20)
            .alloc(at, (size + 1) << 20);
    }
    builder.build()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn both_directions_say_the_same_of_any_programs(
        one in prop::collection::vec((0usize..2, 0usize..2, 1u64..9, 0u64..4), 0..8),
        other in prop::collection::vec((0usize..2, 0usize..2, 1u64..9, 0u64..4), 0..8),
        elsewhere in any::<bool>(),
    ) {
        let before = DiffSide::of_trace("a", &program("/a", &one), None, false).unwrap();
        let folder = if elsewhere { "/b/c" } else { "/a" };
        let after = DiffSide::of_trace("b", &program(folder, &other), None, false).unwrap();
        assert_mirrored(&before, &after);
        assert_empty("itself", &compared(&after, &after));
    }


    #[test]
    fn a_program_shifted_and_moved_does_not_differ(
        rows in prop::collection::vec((0usize..2, 0usize..2, 1u64..9, 0u64..4), 1..8),
        shift in 1u64..30,
    ) {
        let shifted: Vec<_> = rows.iter().map(|&(file, function, line, size)| (file, function, line + shift, size)).collect();
        let before = DiffSide::of_trace("a", &program("/a", &rows), None, false).unwrap();
        let after = DiffSide::of_trace("b", &program("/mnt/b", &shifted), None, false).unwrap();
        let report = compared(&before, &after);
        prop_assert!(report.devices[0].lines.is_empty(), "{:?}", report.devices[0].lines);
        prop_assert!(report.devices[0].lines_moved > 0 && report.same);
    }
}

#[test]
fn hostile_names_are_text_in_every_format() {
    let before = hostile();
    let mut after = hostile();
    after.devices[0].events.sizes[1] += 4 << 20;
    let [before, after] =
        [before, after].map(|trace| DiffSide::of_trace("<script>.pickle", &trace, None, true).unwrap());
    for report in [
        compared(&before, &after),
        diff(&before, &before, &DiffOptions { all: true, ..DiffOptions::default() }),
    ] {
        let text = report::diff_text(&report, None, Style::plain());
        assert!(!text.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')), "{text:?}");
        assert!(!text.lines().any(|line| line.starts_with("next.py")), "{text}");
        assert_harmless("Markdown", &report::diff_markdown(&report, |_| None));
        assert_harmless("HTML", &report::diff_html(&report));
        let svg = report::diff_svg(&report.devices[0]).expect("both have curves");
        assert_harmless("SVG", &svg);
        assert_well_formed("SVG", &svg);
        let json = report::pretty(&report);
        assert!(!json.chars().any(|c| matches!(c, '\u{1b}' | '\u{7}' | '\u{202e}')));
        serde_json::from_str::<Value>(&json).unwrap();
    }
}

#[test]
fn every_key_is_explained() {
    fn keys(value: &Value, found: &mut std::collections::BTreeSet<String>) {
        match value {
            Value::Object(object) => object.iter().for_each(|(key, value)| {
                found.insert(key.clone());
                keys(value, found);
            }),
            Value::Array(values) => values.iter().for_each(|value| keys(value, found)),
            _ => {}
        }
    }
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/diff.md")).unwrap();
    let mut found = std::collections::BTreeSet::new();
    let options = DiffOptions {
        fail_on_growth: Some(memlab::analysis::GrowthLimit::Bytes(0)),
        ..DiffOptions::default()
    };
    let oom = side("emitter/oom.msgpack");
    for report in [
        diff(&side("emitter/gpt.msgpack"), &oom, &options),
        VARLEN.clone(),
        crate::diff_libraries::LLAMA.clone(),
    ] {
        keys(&serde_json::to_value(&report).unwrap(), &mut found);
    }
    let explains = |key: &String| page.contains(&format!("`{key}`")) || page.contains(&format!("`{key}[]`"));
    let missing: Vec<_> = found.iter().filter(|key| !explains(key)).collect();
    assert!(missing.is_empty(), "docs/diff.md does not explain {missing:?}");
}
