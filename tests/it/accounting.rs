//! Nothing is lost and nothing is counted twice: on every file, the parts add up to the whole.

use std::path::Path;

use memlab::analysis::{self, Options};
use memlab::report::{DeviceReport, Fragmentation, LineFigures, TraceReport};
use memlab::tables::GroupBy;

use crate::inputs::{analyzed, analyzed_path, recordings};

const FOLDERS: [&str; 5] = ["torch", "gpu", "faults", "cases", "public"];

fn for_every_report(check: impl Fn(&Path, &TraceReport)) {
    for folder in FOLDERS {
        for path in recordings(folder) {
            check(&path, &analyzed_path(&path).report);
        }
    }
}

fn sum(device: &DeviceReport, of: impl Fn(&LineFigures) -> u64) -> u64 {
    device.lines.iter().map(|row| of(&row.figures)).sum::<u64>() + of(&device.unattributed)
}

fn assert_lines_add_up(what: &str, device: &DeviceReport) {
    assert_eq!(device.lines_left_out, 0, "{what}: all lines are there");
    assert_eq!(sum(device, |row| row.held_at_peak_bytes), device.peak.allocated_bytes, "{what}: at the peak");
    assert_eq!(sum(device, |row| row.live_at_end_bytes), device.end.allocated_bytes, "{what}: at the end");
    for row in device.lines.iter().map(|row| &row.figures).chain([&device.unattributed]) {
        assert!(row.held_at_peak_bytes <= row.own_peak_bytes, "{what}: own peak {row:?}");
        assert!(row.live_at_end_bytes <= row.own_peak_bytes, "{what}: own peak {row:?}");
        assert!(row.own_peak_bytes <= row.total_bytes, "{what}: total {row:?}");
        assert!(row.inferred_bytes <= row.held_at_peak_bytes, "{what}: inferred {row:?}");
        assert!(row.own_peak_bytes <= device.peak.allocated_bytes, "{what}: more than the peak {row:?}");
    }
}

#[test]
fn lines_and_the_unattributed_share_make_the_peak() {
    for_every_report(|path, report| {
        for device in &report.devices {
            assert_lines_add_up(&path.display().to_string(), device);
        }
    });
}

#[test]
fn every_grouping_adds_up_to_the_same_peak() {
    for name in ["cnn", "gpt_cpp", "streams", "ring"] {
        let groups = [GroupBy::Line, GroupBy::Function, GroupBy::File, GroupBy::Module, GroupBy::Stack];
        for group_by in groups {
            let options = Options { group_by, ..Options::default() };
            let report = analysis::analyze(name, &analyzed("torch", name).trace, &options).expect("a report");
            for device in &report.devices {
                assert_lines_add_up(&format!("{name} by {group_by}"), device);
            }
        }
    }
}

#[test]
fn categories_make_the_peak_the_end_and_the_oom() {
    for_every_report(|path, report| {
        for device in &report.devices {
            let what = format!("{} device {}", path.display(), device.device);
            let rows = &device.categories.rows;
            let sum = |of: fn(&memlab::report::CategoryTableRow) -> u64| rows.iter().map(of).sum::<u64>();
            assert_eq!(sum(|row| row.held_at_peak_bytes), device.peak.allocated_bytes, "{what}: at the peak");
            assert_eq!(sum(|row| row.live_at_end_bytes), device.end.allocated_bytes, "{what}: at the end");
            if let Some(oom) = device.ooms.last() {
                assert_eq!(
                    sum(|row| row.held_at_oom_bytes.unwrap()),
                    oom.allocated_bytes,
                    "{what}: at the OOM"
                );
            }
            for row in rows {
                assert!(row.held_at_peak_bytes <= row.own_peak_bytes, "{what}: {row:?}");
                assert!(row.live_at_end_bytes <= row.own_peak_bytes, "{what}: {row:?}");
                assert!(row.named_at_peak_bytes <= row.held_at_peak_bytes, "{what}: {row:?}");
            }
        }
    });
}

fn assert_reserved_adds_up(what: &str, at: &Fragmentation) {
    assert_eq!(at.requested_bytes + at.rounding_bytes, at.allocated_bytes, "{what}: rounding");
    assert_eq!(at.allocated_bytes + at.pending_free_bytes, at.active_bytes, "{what}: pending");
    let parts = at.active_bytes + at.releasable_bytes + at.stranded_bytes;
    assert_eq!(parts, at.reserved_bytes, "{what}: reserved");
    let free = at.releasable_bytes + at.stranded_bytes;
    assert!(at.largest_free_block_bytes <= free, "{what}: the largest free block is free");
    assert_eq!(at.largest_free_block_bytes == 0, free == 0, "{what}: free bytes are in some block");
    assert!(at.largest_stranded_block_bytes <= at.stranded_bytes, "{what}: largest stranded block");
    assert_eq!(at.stranded_blocks == 0, at.stranded_bytes == 0, "{what}: stranded blocks");
    assert!(at.pins.iter().all(|pin| pin.sole_stranded_bytes <= pin.stranded_bytes), "{what}: pins");
    assert!(at.pins.iter().all(|pin| pin.stranded_bytes <= at.stranded_bytes), "{what}: pins");
    let sole: u64 = at.pins.iter().map(|pin| pin.sole_stranded_bytes).sum();
    assert!(sole <= at.stranded_bytes, "{what}: what one line alone pins is counted once");
    let ratio =
        if at.reserved_bytes == 0 { 0.0 } else { 1.0 - at.active_bytes as f64 / at.reserved_bytes as f64 };
    assert!((at.ratio - ratio).abs() < 1e-9, "{what}: ratio {} is not {ratio}", at.ratio);
}

#[test]
fn the_parts_of_reserved_memory_make_the_whole_at_all_three_moments() {
    for_every_report(|path, report| {
        for device in &report.devices {
            let what = format!("{} device {}", path.display(), device.device);
            assert_reserved_adds_up(&format!("{what} at peak"), &device.fragmentation.at_peak);
            assert_reserved_adds_up(&format!("{what} at end"), &device.fragmentation.at_end);
            assert_eq!(device.fragmentation.at_oom.is_some(), !device.ooms.is_empty(), "{what}");
            if let Some(at_oom) = &device.fragmentation.at_oom {
                assert_reserved_adds_up(&format!("{what} at oom"), at_oom);
            }
        }
    });
}

#[test]
fn fragmentation_stands_at_the_moment_that_it_names() {
    for_every_report(|path, report| {
        for device in &report.devices {
            let what = path.display();
            let at_peak = &device.fragmentation.at_peak;
            assert_eq!(at_peak.reserved_bytes, device.peak.reserved_bytes, "{what}");
            assert_eq!(at_peak.event, device.peak_event.reserved_bytes, "{what}");
            let at_end = &device.fragmentation.at_end;
            let end = (device.end.allocated_bytes, device.end.active_bytes, device.end.reserved_bytes);
            let shown = (at_end.allocated_bytes, at_end.active_bytes, at_end.reserved_bytes);
            assert_eq!(shown, end, "{what}");
        }
    });
}

#[test]
fn pools_make_the_peak_of_reserved() {
    for_every_report(|path, report| {
        for device in &report.devices {
            let what = path.display();
            let at_peak = &device.fragmentation.at_peak;
            let total = |of: fn(&memlab::report::PoolRow) -> u64| device.pools.iter().map(of).sum::<u64>();
            assert_eq!(total(|pool| pool.reserved_bytes), at_peak.reserved_bytes, "{what}");
            assert_eq!(total(|pool| pool.active_bytes), at_peak.active_bytes, "{what}");
            assert_eq!(total(|pool| pool.releasable_bytes), at_peak.releasable_bytes, "{what}");
            assert_eq!(total(|pool| pool.stranded_bytes), at_peak.stranded_bytes, "{what}");
        }
    });
}

#[test]
fn allocated_never_exceeds_active_nor_active_reserved() {
    for_every_report(|path, report| {
        for device in &report.devices {
            let what = path.display();
            for at in [&device.peak, &device.end, &device.initial] {
                assert!(at.allocated_bytes <= at.active_bytes, "{what}: {at:?}");
                assert!(at.active_bytes <= at.reserved_bytes, "{what}: {at:?}");
                assert!(at.requested_bytes <= at.active_bytes, "{what}: {at:?}");
            }
        }
    });
}

#[test]
fn events_of_all_devices_are_the_files_events() {
    for_every_report(|path, report| {
        let total: u64 = report.devices.iter().map(|device| device.events).sum();
        assert_eq!(total, report.events, "{}", path.display());
    });
}
