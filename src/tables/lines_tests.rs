//! Tests of the table of lines on small stories.

use super::*;
use crate::model::TraceBuilder;
use crate::tables::replay::replay;

const AUTOGRAD: &str = "/opt/venv/lib/python3.12/site-packages/torch/autograd/__init__.py";
const LINEAR: &str = "/opt/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py";

/// One training step: a forward pass through `model.py`, a backward pass without frames, a scratch buffer.
fn step() -> Trace {
    TraceBuilder::new()
        .segment_alloc(0x1_0000, 2 << 20)
        .stack(&[(LINEAR, 134, "forward"), ("model.py", 5, "forward"), ("train.py", 9, "step")])
        .alloc(0x1_0000, 4096)
        .at("train.py", 10, "step")
        .alloc(0x1_1000, 1000)
        .stack(&[(AUTOGRAD, 231, "_make_grads"), (AUTOGRAD, 374, "backward"), ("train.py", 11, "step")])
        .alloc(0x1_2000, 512)
        .stack(&[])
        .alloc(0x1_3000, 8192)
        .free(0x1_0000, 4096)
        .alloc(0x1_0000, 2048)
        .stack(&[(LINEAR, 99, "hook")])
        .alloc(0x1_8000, 512)
        .stack(&[])
        .alloc(0x1_9000, 512)
        .at("train.py", 12, "step")
        .free(0x1_3000, 8192)
        .build()
}

fn table_of(trace: &Trace, by: GroupBy, window: Option<Range<u64>>) -> (Grouping, History, LineTable) {
    let history = replay(trace, &[]);
    let grouping = Grouping::build(trace, &trace.devices[0], &history, by);
    let table = lines(trace, &trace.devices[0], &history, &grouping, window).unwrap();
    (grouping, history, table)
}

fn rows(trace: &Trace, by: GroupBy, window: Option<Range<u64>>) -> Vec<(String, LineEntry)> {
    let (grouping, _, table) = table_of(trace, by, window);
    table.entries.iter().map(|e| (grouping.keys[e.group as usize].label(trace), *e)).collect()
}

fn find(rows: &[(String, LineEntry)], label: &str) -> LineEntry {
    rows.iter().find(|(name, _)| name == label).unwrap_or_else(|| panic!("no {label} in {rows:?}")).1
}

#[test]
fn allocations_are_charged_to_the_innermost_user_line() {
    let rows = rows(&step(), GroupBy::Line, None);
    let forward = find(&rows, "model.py:5 forward").figures;
    assert_eq!((forward.own_peak_bytes, forward.total_bytes, forward.allocations), (4096, 4096, 1));
    assert_eq!((forward.held_at_peak_bytes, forward.live_at_end_bytes), (4096, 0));
    assert_eq!(find(&rows, "train.py:10 step").figures.held_at_peak_bytes, 1024);
}

#[test]
fn frameless_allocations_go_to_the_line_that_called_backward() {
    let rows = rows(&step(), GroupBy::Line, None);
    let backward = find(&rows, "train.py:11 step");
    assert_eq!(backward.figures.allocations, 3);
    assert_eq!(backward.figures.own_peak_bytes, 512 + 8192 + 2048);
    assert_eq!(backward.figures.held_at_peak_bytes, 512 + 8192);
    assert_eq!(backward.figures.inferred_bytes, 8192);
    assert_eq!(backward.figures.live_at_end_bytes, 512 + 2048);
}

#[test]
fn what_follows_any_other_event_stays_unattributed() {
    let (_, _, table) = table_of(&step(), GroupBy::Line, None);
    assert_eq!(table.unattributed.allocations, 2, "the library's own and the frameless one after it");
    assert_eq!(table.unattributed.own_peak_bytes, 1024);
    assert_eq!(table.unattributed.live_at_end_bytes, 1024);
    assert_eq!(table.unattributed.inferred_bytes, 0);
}

#[test]
fn the_active_peak_counts_for_callers_and_for_the_line_of_the_pass() {
    let rows = rows(&step(), GroupBy::Line, None);
    let active = |label| find(&rows, label).active_peak_on_stack_bytes;
    assert_eq!(active("train.py:9 step"), 4096);
    assert_eq!(active("train.py:10 step"), 4096 + 1024);
    assert_eq!(active("train.py:11 step"), 4096 + 1024 + 512 + 8192);
    let at_end = 1024 + 512 + 8192 + 2048 + 512 + 512;
    assert_eq!(active("train.py:12 step"), at_end, "the total before a free counts");
    assert_eq!(find(&rows, "train.py:9 step").figures, Figures::default(), "it only calls others");
}

#[test]
fn groups_and_remainder_add_up_to_the_peak_under_every_grouping() {
    for by in GroupBy::ALL {
        let (_, history, table) = table_of(&step(), by, None);
        let held: u64 = table.entries.iter().map(|e| e.figures.held_at_peak_bytes).sum();
        assert_eq!(held + table.unattributed.held_at_peak_bytes, history.peaks.allocated.bytes, "{by}");
        let end: u64 = table.entries.iter().map(|e| e.figures.live_at_end_bytes).sum();
        assert_eq!(end + table.unattributed.live_at_end_bytes, history.end.allocated_bytes, "{by}");
    }
}

#[test]
fn coarser_groupings_join_lines() {
    let by_file = rows(&step(), GroupBy::File, None);
    assert_eq!(by_file.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["train.py", "model.py"]);
    assert_eq!(find(&by_file, "train.py").figures.allocations, 4);
    let by_function = rows(&step(), GroupBy::Function, None);
    assert_eq!(find(&by_function, "train.py step").figures.allocations, 4);
    assert_eq!(find(&rows(&step(), GroupBy::Module, None), "train").figures.allocations, 4);
}

#[test]
fn a_stack_is_a_group_even_without_a_user_frame() {
    let (grouping, _, table) = table_of(&step(), GroupBy::Stack, None);
    let rows = table.rows(&step(), &grouping, None);
    let library = rows.iter().find(|row| row.line == Some(99)).unwrap();
    assert_eq!(library.stack.as_deref(), Some([format!("{LINEAR}:99 hook")].as_slice()));
    assert_eq!(library.figures.own_peak_bytes, 512);
    assert_eq!(table.unattributed.allocations, 1);
}

#[test]
fn rows_come_by_bytes_held_and_then_by_name() {
    let trace = TraceBuilder::new()
        .at("b.py", 1, "f")
        .alloc(0x1000, 512)
        .at("a.py", 2, "f")
        .alloc(0x2000, 512)
        .at("a.py", 1, "f")
        .alloc(0x3000, 512)
        .at("c.py", 1, "f")
        .alloc(0x4000, 1024)
        .build();
    let names: Vec<_> = rows(&trace, GroupBy::Line, None).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["c.py:1 f", "a.py:1 f", "a.py:2 f", "b.py:1 f"]);
    let (grouping, _, table) = table_of(&trace, GroupBy::Line, None);
    assert_eq!(table.rows(&trace, &grouping, Some(1)).len(), 1);
}

#[test]
fn a_window_takes_its_own_peak() {
    let trace = step();
    let (grouping, _, table) = table_of(&trace, GroupBy::Line, Some(5..7));
    assert_eq!(table.window, 5..7);
    assert_eq!(table.peak.moment, Moment(5), "highest right before its first event");
    let held: u64 = table.entries.iter().map(|e| e.figures.held_at_peak_bytes).sum();
    assert_eq!(held, table.peak.bytes - table.unattributed.held_at_peak_bytes);
    let names: Vec<_> = table.entries.iter().map(|e| grouping.keys[e.group as usize].label(&trace)).collect();
    assert!(!names.contains(&"train.py:12 step".to_owned()), "{names:?}");
    let (_, _, empty) = table_of(&trace, GroupBy::Line, Some(99..120));
    assert_eq!(empty.window, trace.event_count() as u64..trace.event_count() as u64);
}

#[test]
fn allocations_from_before_the_recording_count_from_its_start() {
    let trace = TraceBuilder::new().at("init.py", 3, "load").alloc(0x9000, 512).free(0x9000, 512).build();
    let stack = trace.devices[0].events.stacks[0];
    let history = replay(&trace, &[(0x1000, 4096, stack), (0x3000, 1024, StackId::NONE)]);
    let grouping = Grouping::build(&trace, &trace.devices[0], &history, GroupBy::Line);
    let table = lines(&trace, &trace.devices[0], &history, &grouping, None).unwrap();
    let load = table.entries[0].figures;
    assert_eq!((load.held_at_peak_bytes, load.own_peak_bytes, load.total_bytes), (4608, 4608, 4608));
    assert_eq!((load.allocations, load.live_at_end_bytes), (2, 4096));
    assert_eq!(table.unattributed.held_at_peak_bytes, 1024);
    assert_eq!(table.peak.bytes, 4096 + 1024 + 512);
    assert_eq!(table.entries[0].active_peak_on_stack_bytes, 4096 + 1024 + 512);
}

#[test]
fn a_trace_without_events_gives_an_empty_table() {
    let mut trace = Trace::default();
    trace.device_mut(crate::model::DeviceId(0));
    let (_, _, table) = table_of(&trace, GroupBy::Line, None);
    assert!(table.entries.is_empty());
    assert_eq!(table.unattributed, Figures::default());
}
