//! Per-line figures on real traces, against what a peer measured in the same process and against the
//! allocator's own totals.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use memlab::import::{ReadOptions, read_bytes};
use memlab::model::Trace;
use memlab::rebuild::rebuild;
use memlab::tables::{GroupBy, Grouping, LineTable, lines};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/torch")
}

fn read(path: &Path) -> Trace {
    read_bytes(&std::fs::read(path).unwrap(), &ReadOptions::default()).unwrap()
}

/// The table of lines of the first device, with the highest active total per line number of `function`.
fn active_peaks(trace: &Trace, function: &str, window: Option<Range<u64>>) -> BTreeMap<u64, u64> {
    let device = &trace.devices[0];
    let history = rebuild(trace, device);
    let grouping = Grouping::build(trace, device, &history, GroupBy::Line);
    let table = lines(trace, device, &history, &grouping, window).unwrap();
    let rows = table.rows(trace, &grouping, None);
    rows.iter()
        .filter(|row| row.function.as_deref() == Some(function))
        .map(|row| (row.line.unwrap(), row.active_peak_on_stack_bytes))
        .collect()
}

/// Column "active_bytes all peak" of what pytorch_memlab printed, in MiB, by line number.
fn printed(key: &str) -> BTreeMap<u64, f64> {
    let text = std::fs::read_to_string(folder().join("cnn_memlab.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let table = json[key].as_str().unwrap();
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        let mib = words.next()?.strip_suffix('M')?.parse().ok()?;
        Some((words.nth(1)?.parse().ok()?, mib))
    };
    table.lines().filter_map(row).collect()
}

fn assert_close(found: &BTreeMap<u64, u64>, expected: &BTreeMap<u64, f64>, lines: &[u64]) {
    for line in lines {
        let mib = found[line] as f64 / f64::from(1 << 20);
        assert!((mib - expected[line]).abs() <= 0.01, "line {line}: {mib} MiB, printed {}", expected[line]);
    }
}

/// `(first, past the last)` event of each of the three training steps.
const STEPS: [Range<u64>; 3] = [7..142, 142..262, 262..382];

#[test]
fn a_training_step_shows_the_peaks_that_pytorch_memlab_printed() {
    let trace = read(&folder().join("cnn.pickle"));
    let expected = printed("text_step");
    let listed = [95, 96, 97, 98, 99, 100, 101];
    assert_close(&active_peaks(&trace, "train_one_step", Some(STEPS[1].clone())), &expected, &listed);
    assert_close(&active_peaks(&trace, "train_one_step", None), &expected, &listed);
}

#[test]
fn a_forward_pass_shows_the_peaks_that_pytorch_memlab_printed() {
    let trace = read(&folder().join("cnn.pickle"));
    let expected = printed("text_forward");
    let listed = [85, 86, 87, 88, 90];
    assert_close(&active_peaks(&trace, "forward", Some(STEPS[2].clone())), &expected, &listed);
    assert_close(&active_peaks(&trace, "forward", None), &expected, &listed);
}

#[test]
fn the_backward_pass_of_cnn_is_attributed_and_its_share_said() {
    let trace = read(&folder().join("cnn.pickle"));
    let device = &trace.devices[0];
    let history = rebuild(&trace, device);
    let grouping = Grouping::build(&trace, device, &history, GroupBy::Line);
    let table = lines(&trace, device, &history, &grouping, None).unwrap();
    let backward = table.rows(&trace, &grouping, None).into_iter().find(|row| row.line == Some(100)).unwrap();
    // The gradient of the loss has frames (one block of 512 bytes); all else of the pass has none.
    assert_eq!(backward.figures.held_at_peak_bytes - backward.figures.inferred_bytes, 512);
    assert_eq!(backward.figures.inferred_bytes, table.inferred_bytes());
    assert_eq!(table.unattributed.allocations, 0);
}

/// Every snapshot in the folder: held over lines and remainder is the peak, live at the end is the end.
#[test]
fn lines_and_the_remainder_add_up_to_the_peak_on_every_trace() {
    let mut seen = 0;
    for path in snapshots() {
        let trace = read(&path);
        for device in &trace.devices {
            let history = rebuild(&trace, device);
            for by in GroupBy::ALL {
                let grouping = Grouping::build(&trace, device, &history, by);
                let table = lines(&trace, device, &history, &grouping, None).unwrap();
                let (held, live) = totals(&table);
                assert_eq!(held, history.peaks.allocated.bytes, "{} by {by}", path.display());
                assert_eq!(live, history.end.allocated_bytes, "{} by {by}", path.display());
            }
        }
        seen += 1;
    }
    assert!(seen > 0, "no snapshot in {}", folder().display());
}

/// A window of the whole recording is the recording: its peak is found by the pass itself.
#[test]
fn a_window_that_leaves_one_event_out_finds_the_same_peak() {
    let trace = read(&folder().join("cnn.pickle"));
    let device = &trace.devices[0];
    let history = rebuild(&trace, device);
    let grouping = Grouping::build(&trace, device, &history, GroupBy::Line);
    let last = device.events.len() as u64 - 1;
    let table = lines(&trace, device, &history, &grouping, Some(0..last)).unwrap();
    assert_eq!(table.peak, history.peaks.allocated);
    assert_eq!(totals(&table).0, history.peaks.allocated.bytes);
}

fn snapshots() -> Vec<PathBuf> {
    let is_snapshot = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.ends_with(".pickle") || name.ends_with(".pickle.gz")
    };
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = entries.filter(is_snapshot).collect();
    paths.sort();
    paths
}

fn totals(table: &LineTable) -> (u64, u64) {
    let figures = || table.entries.iter().map(|entry| entry.figures).chain([table.unattributed]);
    (
        figures().map(|figures| figures.held_at_peak_bytes).sum(),
        figures().map(|figures| figures.live_at_end_bytes).sum(),
    )
}
