//! Recordings that fit: every moment is in the page, to the byte.

use memlab::model::Trace;
use memlab::rebuild::{History, Moment, rebuild};
use proptest::prelude::*;

use super::decoded::{Container, Device};
use super::packed;
use crate::allocator_model::without_beginning;
use crate::inputs::analyzed;
use crate::properties::runs;

const BUDGET: u64 = 2_000_000;

/// Sums at `moments` are the history's, and blocks lie in ranges.
fn check_moments(device: &Device, history: &History, moments: impl Iterator<Item = u64>) {
    assert_eq!(device.container.header["complete"], true);
    let [(from, to, rows)] = device.windows.as_slice() else { panic!("one window") };
    assert_eq!((*from, *to), (0, history.events));
    for moment in moments {
        let usage = history.usage_at(Moment(moment));
        let expected = (usage.allocated_bytes, usage.active_bytes, usage.reserved_bytes);
        assert_eq!(device.sums(rows, moment), expected, "moment {moment}");
    }
}

/// Every block of a sound recording lies in a range, or in several that touch, whenever it is active.
fn check_places(device: &Device, moment: u64) {
    for (_, _, rows) in &device.windows {
        let mut held: Vec<_> = device.ranges.iter().filter(|range| range.is_held_at(moment)).collect();
        held.sort_by_key(|range| (range.region, range.offset));
        for row in rows.iter().filter(|row| row.is_active_at(moment)) {
            let (region, mut at) = device.places[row.place];
            let end = at + device.blocks[row.kind];
            for range in held.iter().filter(|range| range.region == region) {
                if range.offset <= at && at < range.offset + range.bytes {
                    at = range.offset + range.bytes;
                }
            }
            assert!(at >= end, "a block lies outside of what is held at {moment}");
        }
    }
}

/// Lines and stacks add up to the peak, to all that was allocated, and to the report.
fn check_tables(device: &Device, history: &History, report: &memlab::report::DeviceReport) {
    let container = &device.container;
    let column = |path: &str| container.column(path);
    let peak = history.peaks.allocated;
    let sum = |path: &str| column(path).iter().sum::<u64>();
    assert_eq!(sum("/stacks/held") + container.number("/no_stack/held"), peak.bytes);
    let total: u64 = history.allocations.block_bytes.iter().sum();
    assert_eq!(sum("/stacks/total") + container.number("/no_stack/total"), total);
    let count = history.allocations.len() as u64;
    assert_eq!(sum("/stacks/count") + container.number("/no_stack/count"), count);
    let parents = column("/stacks/parent");
    assert!(parents.iter().enumerate().all(|(at, &parent)| parent <= at as u64), "parents come first");
    let held: Vec<u64> = report.lines.iter().map(|line| line.figures.held_at_peak_bytes).collect();
    assert_eq!(column("/lines/held"), held);
    let texts = container.texts();
    let files: Vec<_> = column("/lines/file").iter().map(|&file| texts[file as usize].clone()).collect();
    let expected: Vec<_> = report.lines.iter().map(|line| line.file.clone().unwrap_or_default()).collect();
    assert_eq!(files, expected);
    for (_, _, rows) in device.windows.iter().filter(|(from, to, _)| (from..=to).contains(&&peak.moment.0)) {
        let mut by_line = vec![0; held.len() + 1];
        for row in rows.iter().filter(|row| row.is_allocated_at(peak.moment.0)) {
            by_line[device.lines[row.kind] as usize] += device.blocks[row.kind];
        }
        assert_eq!(by_line[1..], held);
        assert_eq!(by_line[0], report.unattributed.held_at_peak_bytes);
    }
    assert_eq!(container.number("/peaks/reserved/bytes"), history.peaks.reserved.bytes);
    assert_eq!(container.number("/peaks/allocated/moment"), peak.moment.0);
}

fn check(folder: &'static str, name: &str, moments: u64) {
    let trace = &analyzed(folder, name).trace;
    let (report, made) = packed(trace, BUDGET);
    assert!(made.iter().map(|blob| blob.text.len() as u64).sum::<u64>() <= BUDGET);
    assert_eq!(made.len(), trace.devices.len() + 1);
    for (at, device) in trace.devices.iter().enumerate() {
        let history = rebuild(trace, device);
        let page = Device::of(&made[at + 1].text);
        let every = (history.events / moments).max(1) as usize;
        check_moments(&page, &history, (0..=history.events).step_by(every));
        let special = [history.peaks.allocated.moment.0, history.peaks.reserved.moment.0, history.events];
        check_moments(&page, &history, special.into_iter());
        check_tables(&page, &history, &report.devices[at]);
        for moment in special.into_iter().chain((0..=history.events).step_by(every * 10)) {
            check_places(&page, moment);
        }
    }
}

#[test]
fn every_moment_of_a_small_recording_is_exact() {
    check("torch", "cnn", u64::MAX);
    check("torch", "streams", u64::MAX);
}

#[test]
fn moments_of_real_recordings_are_exact() {
    for name in ["gpt", "llama", "oom", "ring"] {
        check("torch", name, 200);
    }
}

#[test]
fn pieces_of_expandable_segments_are_where_they_were() {
    check("torch", "routed.expandable_cap90", 60);
}

#[test]
fn a_recording_with_many_shapes_is_exact() {
    check("torch", "varlen.default", 60);
}

#[test]
fn times_are_those_of_the_events() {
    let trace = &analyzed("torch", "cnn").trace;
    let (_, made) = packed(trace, BUDGET);
    let page = Container::of(&made[1].text);
    let times = &trace.devices[0].events.times_us;
    assert_eq!(page.header["time_origin_us"], times[0]);
    let found = page.column("/windows/0/times");
    assert_eq!(found.len(), times.len() + 1);
    assert_eq!(found[0], 0);
    assert!((0..times.len()).all(|event| found[event + 1] == (times[event] - times[0]) as u64));
}

fn check_run(trace: &Trace) {
    let history = rebuild(trace, &trace.devices[0]);
    let (report, made) = packed(trace, BUDGET);
    let page = Device::of(&made[1].text);
    check_moments(&page, &history, 0..=history.events);
    check_tables(&page, &history, &report.devices[0]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_moment_of_every_trace_is_in_its_page(run in runs(), share in 0.0f64..1.0) {
        check_run(&run.trace);
        let lost = ((run.truth.len() - 1) as f64 * share) as usize;
        check_run(&without_beginning(&run, lost));
    }
}
