//! Hostile traces: their names stay text, and their number does not burst the page.

use memlab::model::{Trace, TraceBuilder};
use memlab::rebuild::{History, Moment, rebuild};

use super::decoded::{Container, Device};
use super::packed;
use crate::inputs::{analyzed_path, recordings};

/// Allocations of 512 bytes, each from a stack and a line of its own.
fn of_many_lines(count: u64, name: impl Fn(u64) -> String) -> Trace {
    const SEGMENT: u64 = 2 << 20;
    let mut builder = TraceBuilder::new();
    for index in 0..count {
        if (index * 512).is_multiple_of(SEGMENT) {
            builder = builder.segment_alloc(0x7f00_0000_0000 + index * 512, SEGMENT);
        }
        let file = name(index);
        builder = builder.at(&file, index + 1, "f").alloc(0x7f00_0000_0000 + index * 512, 512);
    }
    builder.build()
}

#[test]
fn hostile_names_come_back_as_text() {
    let names = ["</script><script>alert(1)</script>", "a\"b'c", "\u{202e}x\u{1b}[31m", "\0", "ü\u{1f600}"];
    let trace = of_many_lines(names.len() as u64, |index| names[index as usize].to_owned());
    let (_, made) = packed(&trace, 2_000_000);
    for blob in &made {
        assert!(blob.text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte)));
    }
    let texts = Container::of(&made[1].text).texts();
    assert!(names.iter().all(|&name| texts.iter().any(|text| text == name)), "{texts:?}");
}

#[test]
fn long_names_are_cut() {
    let trace = of_many_lines(3, |index| format!("{}{index}.py", "x".repeat(10_000)));
    let (_, made) = packed(&trace, 2_000_000);
    let texts = Container::of(&made[1].text).texts();
    assert!(texts.iter().all(|text| text.chars().count() <= 400));
    assert!(texts.iter().any(|text| text.starts_with('…') && text.ends_with("2.py")));
}

/// Names that do not compress.
fn noise(index: u64) -> String {
    let mut seed = index + 1;
    let mut text = String::new();
    for _ in 0..20 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text += &format!("{seed:016x}");
    }
    text
}

#[test]
fn many_lines_and_stacks_stay_within_the_budget_with_exact_sums() {
    let trace = of_many_lines(6_000, noise);
    let budget = 300_000;
    let (report, made) = packed(&trace, budget);
    let bytes: u64 = made.iter().map(|blob| blob.text.len() as u64).sum();
    assert!(bytes <= budget, "{bytes}");
    let page = Device::of(&made[1].text);
    let container = &page.container;
    let left_out = container.number("/lines_left_out");
    assert!(left_out > 0 && container.number("/stacks_left_out") > 0);
    let held = container.column("/lines/held");
    assert_eq!(held.len() as u64 + left_out - 1, report.devices[0].lines.len() as u64);
    assert_eq!(held.iter().sum::<u64>(), 6_000 * 512);
    assert_eq!(container.column("/stacks/total").iter().sum::<u64>(), 6_000 * 512);
    // The remainder's lines are all live at the end.
    assert_eq!(container.column("/lines/own").last(), held.last());
}

#[test]
fn more_live_segments_than_fit_leave_no_window_but_the_levels() {
    let mut builder = TraceBuilder::new();
    let mut address = 0x7f00_0000_0000;
    for index in 0..20_000u64 {
        let gap = u64::from_str_radix(&noise(index)[..4], 16).unwrap() + 1;
        address += (2 << 20) + gap * 512;
        builder = builder.segment_alloc(address, 2 << 20).alloc(address, 512);
    }
    let trace = builder.build();
    let budget = 40_000;
    let (_, made) = packed(&trace, budget);
    assert!(made.iter().map(|blob| blob.text.len() as u64).sum::<u64>() <= budget);
    let page = Device::of(&made[1].text);
    let history = rebuild(&trace, &trace.devices[0]);
    assert!(page.windows.iter().all(|(_, to, _)| *to < history.events), "the end does not fit");
    assert_eq!(page.container.column("/levels/reserved").last(), Some(&history.end.reserved_bytes));
    let left_out = page.container.number("/ranges_left_out");
    assert_eq!(page.ranges.len() as u64 + left_out, 20_000);
    assert!(left_out > 0);
}

/// Damaged and odd files, too: whatever `rebuild` made of them stands in the page, within its budget.
#[test]
fn every_recording_has_a_page_within_its_budget() {
    for folder in ["gpu", "faults", "cases", "public"] {
        for path in recordings(folder) {
            let trace = &analyzed_path(&path).trace;
            for budget in [2_000_000, 30_000] {
                let (_, made) = packed(trace, budget);
                let bytes: u64 = made.iter().map(|blob| blob.text.len() as u64).sum();
                assert!(bytes <= budget, "{}: {bytes} of {budget}", path.display());
                assert_eq!(made.len(), trace.devices.len() + 1, "{}", path.display());
                for (device, blob) in trace.devices.iter().zip(&made[1..]) {
                    check_ends(&rebuild(trace, device), &Device::of(&blob.text));
                }
            }
        }
    }
}

/// The ends of windows are the history's.
fn check_ends(history: &History, page: &Device) {
    for (from, to, rows) in &page.windows {
        for moment in [*from, *to] {
            let usage = history.usage_at(Moment(moment));
            let expected = (usage.allocated_bytes, usage.active_bytes, usage.reserved_bytes);
            assert_eq!(page.sums(rows, moment), expected, "moment {moment}");
        }
    }
}

#[test]
fn a_trace_without_events_has_a_page() {
    let trace = TraceBuilder::new().segment_alloc(0x7f00_0000_0000, 2 << 20).build();
    let (_, made) = packed(&trace, 2_000_000);
    let page = Device::of(&made[1].text);
    assert_eq!(page.sums(&page.windows[0].2, 1), (0, 0, 2 << 20));
}
