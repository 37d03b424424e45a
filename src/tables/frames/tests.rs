//! Columns against the history they come from.
#![allow(clippy::unwrap_used)]

use polars::prelude::{ChunkAgg, DataFrame};

use super::super::steps::steps;
use super::super::walk::samples::history_of;
use super::super::{GroupBy, Grouping, lines};
use super::*;
use crate::model::{Mark, MarkKind, TraceBuilder};
use crate::rebuild::History;

struct Sample {
    trace: Trace,
    device: DeviceTrace,
    history: History,
    grouping: Grouping,
}

/// A kept block, one given back at once, one whose free is pending at the end, one from before.
fn sample() -> Sample {
    let mut trace = TraceBuilder::new()
        .segment_alloc(0x1000, 8192)
        .at("train.py", 3, "step")
        .alloc(0x1000, 1024)
        .stream(7)
        .stack(&[])
        .alloc(0x1400, 512)
        .free(0x1400, 512)
        .alloc(0x1600, 512)
        .free_requested(0x1600, 512)
        .build();
    trace.marks.push(Mark { kind: MarkKind::Step, name: "1".to_owned(), time_us: 1_000_015, begins: None });
    let (device, history) = history_of(&trace);
    let grouping = Grouping::build(&trace, &device, &history, GroupBy::Line);
    Sample { trace, device, history, grouping }
}

fn csv(mut frame: DataFrame) -> String {
    let mut bytes = Vec::new();
    crate::tables::write_frame(&mut frame, crate::tables::TableFormat::Csv, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn allocations_say_where_when_and_who() {
    let Sample { trace, device, history, grouping } = sample();
    assert_eq!(
        csv(allocations_frame(&trace, &device, &history, &grouping).unwrap()),
        "id,device,stream,pool,kind,address,requested_bytes,block_bytes,alloc_event,free_requested_event,\
         free_completed_event,alloc_time_us,lifetime_us,stack,file,line,function,inferred\n\
         0,0,0,0:0,large,4096,1024,1024,1,,,1000010,,1,train.py,3,step,false\n\
         1,0,7,0:0,large,5120,512,512,2,3,4,1000020,10,,,,,false\n\
         2,0,7,0:0,large,5632,512,512,5,6,,1000050,10,,,,,false\n"
    );
}

#[test]
fn usage_has_a_row_before_and_one_after_every_event() {
    let Sample { device, history, .. } = sample();
    assert_eq!(
        csv(usage_frame(&device, &history).unwrap()),
        "event,time_us,requested_bytes,allocated_bytes,active_bytes,reserved_bytes\n\
         ,,0,0,0,0\n\
         0,1000000,0,0,0,8192\n\
         1,1000010,1024,1024,1024,8192\n\
         2,1000020,1536,1536,1536,8192\n\
         3,1000030,1536,1024,1536,8192\n\
         4,1000040,1024,1024,1024,8192\n\
         5,1000050,1536,1536,1536,8192\n\
         6,1000060,1536,1024,1536,8192\n"
    );
}

#[test]
fn segments_say_what_obtained_and_returned_them() {
    let Sample { trace, device, history, grouping } = sample();
    assert_eq!(
        csv(segments_frame(&trace, &device, &history, &grouping).unwrap()),
        "id,device,stream,pool,kind,expandable,address,bytes,alloc_event,free_event,alloc_time_us,\
         free_time_us,stack,file,line,function\n\
         0,0,0,0:0,large,false,4096,8192,0,,1000000,,,,,\n"
    );
}

#[test]
fn lines_add_up_with_the_remainder() {
    let Sample { trace, device, history, grouping } = sample();
    let table = lines(&trace, &device, &history, &grouping, None).unwrap();
    let frame = lines_frame(&trace, &grouping, &table).unwrap();
    let held = frame.column("held_at_peak_bytes").unwrap().u64().unwrap().sum();
    assert_eq!(held, Some(history.peaks.allocated.bytes));
    assert_eq!(
        csv(frame),
        "file,line,function,stack,held_at_peak_bytes,own_peak_bytes,active_peak_on_stack_bytes,\
         inferred_bytes,total_bytes,allocations,live_at_end_bytes\n\
         train.py,3,step,,1024,1024,1024,0,1024,1,1024\n\
         ,,,,512,512,,0,1024,2,0\n"
    );
}

#[test]
fn steps_name_their_events() {
    let Sample { trace, device, history, .. } = sample();
    let table = steps(&trace, &device, &history);
    assert_eq!(
        csv(steps_frame(&device, &table).unwrap()),
        "step,name,source,first_event,last_event,begin_time_us,end_time_us,begin_allocated_bytes,\
         peak_allocated_bytes,peak_event,end_allocated_bytes,growth_bytes\n\
         0,1,marks,2,6,1000020,1000060,1024,1536,2,1024,0\n"
    );
}

#[test]
fn tables_without_rows_keep_their_columns() {
    let trace = Trace::default();
    let (device, history) = history_of(&trace);
    let grouping = Grouping::build(&trace, &device, &history, GroupBy::Line);
    let allocations = allocations_frame(&trace, &device, &history, &grouping).unwrap();
    assert_eq!((allocations.height(), allocations.width()), (0, 18));
    assert_eq!(segments_frame(&trace, &device, &history, &grouping).unwrap().width(), 16);
    assert_eq!(steps_frame(&device, &steps(&trace, &device, &history)).unwrap().width(), 12);
}
