//! Levels: every cell's extremes are those of a naive count.

use memlab::model::Trace;
use memlab::rebuild::{History, Moment, rebuild};
use memlab::tables::{GroupBy, Grouping, SIZE_CLASSES};
use proptest::prelude::*;

use super::decoded::Container;
use super::packed_apart;
use crate::inputs::analyzed;
use crate::properties::runs;

/// The six groupings of a page.
const GROUPINGS: [&str; 6] = ["line", "category", "module", "step", "stream", "size"];

struct Band {
    key: Option<u64>,
    at_highest: Vec<u64>,
    own_highest: Vec<u64>,
}

fn bands(page: &Container, by: &str) -> Vec<Band> {
    let found = &page.header["levels"]["bands"][by];
    let list = |key: &str| found[key].as_array().unwrap().clone();
    assert_eq!(list("names").len(), list("keys").len());
    let columns = |key: &str| list(key).iter().map(|column| page.read(column)).collect::<Vec<_>>();
    let (at, own) = (columns("at_highest"), columns("own_highest"));
    let keys = list("keys");
    assert!(keys.len() <= 12 && keys.len() == at.len() && keys.len() == own.len());
    let bands = keys.iter().zip(at).zip(own);
    bands
        .map(|((key, at_highest), own_highest)| Band { key: key.as_u64(), at_highest, own_highest })
        .collect()
}

/// Allocated bytes of the allocations that `keep` picks, at every moment.
fn curve(history: &History, keep: &dyn Fn(usize) -> bool) -> Vec<u64> {
    let rows = &history.allocations;
    let kept: Vec<usize> = (0..rows.len()).filter(|&row| keep(row)).collect();
    let sum = |moment| {
        let live = kept.iter().filter(|&&row| rows.is_allocated_at(row, Moment(moment)));
        live.map(|&row| rows.block_bytes[row]).sum()
    };
    (0..=history.events).map(sum).collect()
}

fn check_cells(page: &Container, history: &History) {
    let (width, cells) = (page.number("/levels/width"), page.number("/levels/cells"));
    assert_eq!(cells, (history.events + 1).div_ceil(width));
    let all: Vec<_> = (0..=history.events).map(|moment| history.usage_at(Moment(moment))).collect();
    let column = |key: &str| page.column(&format!("/levels/{key}"));
    let (highest, at) = (column("highest"), column("highest_at"));
    for (cell, moments) in all.chunks(width as usize).enumerate() {
        let allocated: Vec<u64> = moments.iter().map(|usage| usage.allocated_bytes).collect();
        assert_eq!(column("first")[cell], allocated[0]);
        assert_eq!(Some(&column("last")[cell]), allocated.last());
        assert_eq!(Some(&column("lowest")[cell]), allocated.iter().min());
        assert_eq!(Some(&highest[cell]), allocated.iter().max());
        let first = allocated.iter().position(|&bytes| bytes == highest[cell]).unwrap() as u64;
        assert_eq!(at[cell], cell as u64 * width + first);
        assert_eq!(Some(column("active")[cell]), moments.iter().map(|usage| usage.active_bytes).max());
        assert_eq!(Some(column("reserved")[cell]), moments.iter().map(|usage| usage.reserved_bytes).max());
    }
    for by in GROUPINGS {
        for (cell, &highest) in highest.iter().enumerate() {
            let sum: u64 = bands(page, by).iter().map(|band| band.at_highest[cell]).sum();
            assert_eq!(sum, highest, "{by} in cell {cell}");
        }
    }
}

fn check_band(page: &Container, band: &Band, curve: &[u64]) {
    let (width, at) = (page.number("/levels/width"), page.column("/levels/highest_at"));
    for (cell, moments) in curve.chunks(width as usize).enumerate() {
        assert_eq!(Some(&band.own_highest[cell]), moments.iter().max(), "cell {cell}");
        assert_eq!(band.at_highest[cell], curve[at[cell] as usize], "cell {cell}");
    }
}

fn check_streams(page: &Container, history: &History) {
    let names = page.header["streams"].as_array().unwrap();
    for band in bands(page, "stream").iter().filter(|band| band.key.is_some()) {
        let name = names[band.key.unwrap() as usize].as_str().unwrap();
        let stream = u64::from_str_radix(name.trim_start_matches("0x"), 16).unwrap();
        let range = |row: usize| history.allocations.ranges[row] as usize;
        check_band(page, band, &curve(history, &|row| history.ranges.streams[range(row)] == stream));
    }
}

fn check(trace: &Trace, budget: u64) {
    let device = &trace.devices[0];
    let history = rebuild(trace, device);
    let (report, made) = packed_apart(trace, budget, 2_000_000);
    let page = Container::of(&made[1].text);
    assert_eq!(page.header["complete"], false);
    check_cells(&page, &history);
    let grouping = Grouping::build(trace, device, &history, GroupBy::Line);
    let label = |row: usize| {
        let key = grouping.key_of_allocation(row);
        key.map(|key| (key.file(trace).unwrap_or("").to_owned(), key.line, key.function(trace)))
    };
    let lines = &report.devices[0].lines;
    for band in bands(&page, "line").iter().filter(|band| band.key.is_some()) {
        let line = &lines[band.key.unwrap() as usize - 1];
        let name = (line.file.clone().unwrap_or_default(), line.line, line.function.as_deref());
        check_band(&page, band, &curve(&history, &|row| label(row).is_some_and(|label| label == name)));
    }
    let bytes = |row: usize| history.allocations.block_bytes[row];
    let class = |row: usize| SIZE_CLASSES.iter().rposition(|class| class.from_bytes <= bytes(row));
    for band in bands(&page, "size").iter().filter(|band| band.key.is_some()) {
        check_band(&page, band, &curve(&history, &|row| class(row) == band.key.map(|key| key as usize)));
    }
    let found = bands(&page, "line");
    let none = found.last().unwrap();
    check_band(&page, none, &curve(&history, &|row| label(row).is_none()));
    check_streams(&page, &history);
    let steps: Vec<(u64, u64)> =
        page.column("/steps/begin").into_iter().zip(page.column("/steps/end")).collect();
    for band in bands(&page, "step").iter().filter(|band| band.key.is_some()) {
        let (begin, end) = steps[band.key.unwrap() as usize - 1];
        let is_of_step =
            |row: usize| (begin..end).contains(&u64::from(history.allocations.alloc_events[row]));
        check_band(&page, band, &curve(&history, &is_of_step));
    }
}

#[test]
fn cells_are_exact_on_a_real_recording() {
    check(&analyzed("torch", "cnn").trace, 3_000);
}

#[test]
fn cells_are_exact_with_steps() {
    check(&analyzed("torch", "annotated").trace, 9_000);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cells_of_every_trace_are_exact(run in runs()) {
        check(&run.trace, 1_000);
    }
}
