//! Recordings that memlab's own recorder made on a GPU, beside the counters of the same process.

use std::fs;
use std::path::PathBuf;

use memlab::analysis::{self, Options};
use memlab::import::{self, ReadOptions};
use memlab::report::{CategoryRow, DeviceReport, TraceReport};
use serde_json::Value;

/// Recordings with PyTorch's own figures beside them.
const MEASURED: [&str; 6] = ["cnn", "gpt", "leak_cache", "leak_cycle", "leak_loss", "oom"];
const ALL: [&str; 8] =
    ["cnn", "expandable", "gpt", "leak_cache", "leak_cycle", "leak_loss", "oom", "uncaught"];

fn path(name: &str, extension: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/emitter");
    folder.join(name).with_extension(extension)
}

fn report(name: &str) -> TraceReport {
    let bytes = fs::read(path(name, "msgpack")).unwrap();
    let trace = import::read_bytes(&bytes, &ReadOptions::default()).unwrap();
    analysis::analyze(name, &trace, &Options::default()).unwrap()
}

fn device(name: &str) -> DeviceReport {
    report(name).devices.remove(0)
}

fn measured(name: &str) -> Value {
    serde_json::from_slice(&fs::read(path(name, "json")).unwrap()).unwrap()
}

#[test]
fn the_four_peaks_are_those_of_the_same_process() {
    for name in MEASURED {
        let (peak, stats) = (device(name).peak, &measured(name)["stats"]);
        let counters = [
            ("requested_bytes.all.peak", peak.requested_bytes),
            ("allocated_bytes.all.peak", peak.allocated_bytes),
            ("active_bytes.all.peak", peak.active_bytes),
            ("reserved_bytes.all.peak", peak.reserved_bytes),
        ];
        for (counter, bytes) in counters {
            assert_eq!(stats[counter], bytes, "{name}: {counter}");
        }
    }
}

#[test]
fn every_reading_taken_on_the_way_equals_what_is_rebuilt() {
    for name in ALL {
        let report = report(name);
        assert!(report.complete && report.warnings.is_empty(), "{name}: {:?}", report.warnings);
        let check = report.devices[0].self_check.as_ref().unwrap();
        assert!(check.samples > 0, "{name}");
        assert_eq!((check.equal, check.missing_allocations), (check.samples, 0), "{name}");
    }
}

#[test]
fn tables_add_up_to_the_peak() {
    for name in ALL {
        let device = device(name);
        let lines: u64 = device.lines.iter().map(|row| row.figures.held_at_peak_bytes).sum();
        assert_eq!(lines + device.unattributed.held_at_peak_bytes, device.peak.allocated_bytes, "{name}");
        if let Some(modules) = &device.modules {
            let named: u64 = modules.rows.iter().map(|row| row.total.held_at_peak_bytes).sum();
            assert_eq!(named + modules.unnamed.held_at_peak_bytes, device.peak.allocated_bytes, "{name}");
        }
        let categories = &device.categories.rows;
        let held: u64 = categories.iter().map(|row| row.held_at_peak_bytes).sum();
        assert_eq!(held, device.peak.allocated_bytes, "{name}");
        if let Some(census) = &device.census {
            let sum = |rows: &[CategoryRow]| rows.iter().map(|row| row.block_bytes).sum::<u64>();
            assert_eq!(sum(&census.categories.at_peak), device.peak.allocated_bytes, "{name}");
            assert_eq!(sum(&census.categories.at_end), device.end.allocated_bytes, "{name}");
            assert_eq!(census.unmatched_tensors, 0, "{name}");
        }
    }
}

#[test]
fn the_backward_pass_has_names_and_forward_lines() {
    let device = device("gpt");
    let modules = device.modules.as_ref().unwrap();
    assert!(modules.backward_named_bytes * 100 >= modules.backward_bytes * 95, "{modules:?}");
    let block = modules.rows.iter().find(|row| row.module == "blocks.0").unwrap();
    assert!(block.backward.total_bytes > 0);
    let line = block.forward_line.as_ref().unwrap();
    let label = line.label();
    assert!(label.contains("scenarios.py") && label.ends_with("forward"), "{label}");
    // That line is charged for backward bytes too, and says that this is inferred.
    let charged = device.lines.iter().find(|row| row.label() == label).unwrap();
    assert!(charged.figures.total_bytes > block.forward.total_bytes);
    // Memory of memlab's own frames is nobody's.
    assert!(device.lines.iter().all(|row| !row.label().contains("/memlab/")));
}

#[test]
fn bytes_by_kind_are_those_that_the_job_counted() {
    for name in ["cnn", "gpt"] {
        let census = device(name).census.unwrap();
        let expected = measured(name)["census_bytes"].clone();
        let kinds = expected.as_object().unwrap();
        assert!(!kinds.is_empty());
        for (kind, bytes) in kinds {
            let row = census.categories.at_end.iter().find(|row| row.kind == *kind).unwrap();
            assert_eq!(*bytes, row.bytes, "{name}: {kind}");
        }
    }
}

#[test]
fn leaks_have_their_holders() {
    for (name, part) in
        [("leak_cache", "CACHE.data"), ("leak_loss", "history"), ("leak_cycle", "cycle through Node.sibling")]
    {
        let census = device(name).census.unwrap();
        let first = &census.holders[0];
        assert!(first.path.contains(part), "{name}: {}", first.path);
        assert!(first.bytes.is_some_and(|bytes| bytes > 0));
        let unique: std::collections::BTreeSet<_> =
            census.holders.iter().map(|row| (row.address, &row.path, &row.line, row.bytes)).collect();
        assert!(unique.len() > 1, "{name}");
    }
}

#[test]
fn the_failing_line_and_its_verdict_are_known() {
    let device = device("oom");
    let oom = device.ooms.last().unwrap();
    assert_eq!(oom.verdict, "memory-cap");
    assert!(oom.line.as_ref().unwrap().contains("scenarios.py:134"), "{:?}", oom.line);
    let at_oom = device.census.unwrap().categories.at_oom.unwrap();
    assert_eq!(at_oom[0].kind, "activation");
    assert_eq!(self::device("uncaught").ooms[0].verdict, "huge-request");
}
