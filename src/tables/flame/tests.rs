//! Tests of the flame graph: sums, order, folding, the backward pass, depth.
#![allow(clippy::unwrap_used)]

use super::super::GroupBy;
use super::super::walk::samples::history_of;
use super::*;
use crate::model::TraceBuilder;

const MODULE: &str = "/usr/lib/python3/site-packages/torch/nn/modules/module.py";
const LINEAR: &str = "/usr/lib/python3/site-packages/torch/nn/modules/linear.py";
const AUTOGRAD: &str = "/usr/lib/python3/site-packages/torch/autograd/__init__.py";

fn flame_of(trace: &Trace, extent: FlameExtent) -> Flame {
    let (device, history) = history_of(trace);
    let grouping = Grouping::build(trace, &device, &history, GroupBy::Line);
    flame(trace, &device, &history, &grouping, Moment(history.events), extent)
}

fn outline(trace: &Trace, flame: &Flame) -> Vec<String> {
    let name = |part: FlamePart| match part {
        FlamePart::Frame(id) => trace.strings.get(trace.frames.get(id).function).to_owned(),
        part => format!("{part:?}"),
    };
    let row = |n: &FlameNode| format!("{} {} {}+{}", n.level, name(n.part), n.begin_bytes, n.bytes);
    flame.nodes.iter().map(row).collect()
}

#[test]
fn outer_frames_hold_the_inner_ones_and_the_larger_come_first() {
    let trace = TraceBuilder::new()
        .stack(&[("a.py", 3, "small"), ("a.py", 1, "main")])
        .alloc(0x1000, 512)
        .stack(&[("a.py", 5, "large"), ("a.py", 1, "main")])
        .alloc(0x2000, 1024)
        .stack(&[])
        .alloc(0x3000, 512)
        .build();
    let flame = flame_of(&trace, FlameExtent::default());
    assert_eq!(flame.total_bytes, 2048);
    assert_eq!(
        outline(&trace, &flame),
        ["0 main 0+1536", "1 large 0+1024", "1 small 1024+512", "0 NoStack 1536+512"]
    );
    assert!(flame.nodes[..3].iter().all(|node| node.group != NONE) && !flame.is_folded);
}

#[test]
fn library_frames_fold_but_the_operation_stays() {
    let stack = [
        ("??", 0, "at::empty"),
        ("??", 0, "at::linear"),
        (LINEAR, 125, "forward"),
        (MODULE, 2, "_call_impl"),
        (MODULE, 1, "_wrapped_call_impl"),
        ("net.py", 7, "forward"),
        (MODULE, 2, "_call_impl"),
        (MODULE, 1, "_wrapped_call_impl"),
        ("train.py", 3, "step"),
    ];
    let trace = TraceBuilder::new().stack(&stack).alloc(0x1000, 512).build();
    let extent = FlameExtent { plain_levels: 4, ..FlameExtent::default() };
    let flame = flame_of(&trace, extent);
    let names: Vec<String> =
        outline(&trace, &flame).iter().map(|row| row.split(' ').nth(1).unwrap().to_owned()).collect();
    assert_eq!(names, ["step", "Library", "forward", "Library", "forward", "Native"]);
    assert_eq!(flame.nodes[1].frames, (2, 2));
    assert!(flame.is_folded);
    assert!(!flame_of(&trace, FlameExtent { plain_levels: 9, ..extent }).is_folded);
}

#[test]
fn the_backward_pass_stands_below_the_line_that_started_it() {
    let trace = TraceBuilder::new()
        .stack(&[(AUTOGRAD, 10, "backward"), ("train.py", 3, "step")])
        .alloc(0x1000, 512)
        .stack(&[])
        .alloc(0x2000, 1024)
        .build();
    let flame = flame_of(&trace, FlameExtent::default());
    assert_eq!(outline(&trace, &flame), ["0 step 0+1536", "1 Backward 0+1024", "1 backward 1024+512"]);
}

#[test]
fn what_is_too_small_is_one_box_and_nothing_is_lost() {
    let mut builder = TraceBuilder::new();
    let names: Vec<String> = (0..50).map(|n| format!("f{n}")).collect();
    for (n, name) in names.iter().enumerate() {
        builder = builder.stack(&[("a.py", n as u64 + 2, name), ("a.py", 1, "main")]);
        builder = builder.alloc(0x1_0000 * (n as u64 + 1), if n == 7 { 1 << 15 } else { 512 });
    }
    let trace = builder.build();
    let flame = flame_of(&trace, FlameExtent { columns: 20, ..FlameExtent::default() });
    assert_eq!(outline(&trace, &flame), ["0 main 0+57856", "1 Smaller(49) 32768+25088", "1 f7 0+32768"]);
    assert_eq!(flame.nodes[1].allocations, 49);
    let few = flame_of(&trace, FlameExtent { boxes: 2, ..FlameExtent::default() });
    assert!(few.nodes.len() <= 4 && few.least_bytes > 512, "{few:?}");
}

#[test]
fn a_stack_of_a_hundred_thousand_frames_is_cut() {
    let names: Vec<String> = (0..100_000).map(|n| format!("f{n}")).collect();
    let stack: Vec<(&str, u64, &str)> = names.iter().map(|name| ("deep.py", 1, name.as_str())).collect();
    let trace = TraceBuilder::new().stack(&stack).alloc(0x1000, 512).build();
    let flame = flame_of(&trace, FlameExtent::default());
    assert_eq!(flame.nodes.len(), 40);
    let last = flame.nodes.last().unwrap();
    assert_eq!((last.part, last.frames.0), (FlamePart::Deeper, 100_000 - 39));
}
