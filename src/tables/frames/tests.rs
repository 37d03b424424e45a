//! Columns against the history they come from.
#![allow(clippy::unwrap_used)]

use polars::prelude::DataFrame;

use super::super::steps::steps;
use super::super::walk::samples::history_of;
use super::super::{GroupBy, Grouping, categories, lines, phases, write_table};
use super::*;
use crate::error::Result;
use crate::model::{DeviceTrace, Mark, MarkKind, Trace, TraceBuilder};
use crate::rebuild::History;
use crate::tables::TableFormat;

struct Sample {
    trace: Trace,
    device: DeviceTrace,
    history: History,
    grouping: Grouping,
    hashes: StackHashes,
}

impl Sample {
    fn of(trace: Trace) -> Self {
        let (device, history) = history_of(&trace);
        let grouping = Grouping::build(&trace, &device, &history, GroupBy::Line);
        let hashes = StackHashes::of(&trace);
        Self { trace, device, history, grouping, hashes }
    }

    fn source(&self) -> FrameSource<'_> {
        let Self { trace, device, history, grouping, hashes } = self;
        FrameSource { trace, device, history, grouping, hashes }
    }

    fn allocations(&self, sink: &mut Sink<'_>) -> Result<()> {
        let Self { trace, device, history, grouping, .. } = self;
        let (steps, phases) = (steps(trace, device, history), phases(trace, device, history, grouping));
        let categories = &categories(trace, device, history, &phases, None);
        let purposes = Purposes { steps: &steps, phases: &phases, categories, names: None };
        allocation_frames(&self.source(), purposes, sink)
    }
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
    Sample::of(trace)
}

/// The table as CSV.
fn csv(schema: &TableSchema, fill: impl FnMut(&mut Sink<'_>) -> Result<()>) -> String {
    let (mut bytes, mut fill) = (Vec::new(), fill);
    write_table(schema, TableFormat::Csv, &mut bytes, &mut fill).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn csv_of(schema: &TableSchema, frame: DataFrame) -> String {
    csv(schema, |sink| sink(frame.clone()))
}

#[test]
fn allocations_say_where_when_who_and_what_for() {
    let sample = sample();
    let hash = sample.hashes.text(crate::model::StackId(1)).unwrap();
    assert_eq!(
        csv(&schemas::ALLOCATIONS, |sink| sample.allocations(sink)),
        format!(
            "device,id,stream,pool,kind,address,requested_bytes,block_bytes,alloc_event,free_requested_event,\
             free_completed_event,alloc_time_us,lifetime_us,step,phase,category,named,tensor,module,live_at_peak,\
             live_at_oom,live_at_end,stack,stack_hash,file,line,function,inferred\n\
             0,0,0,0:0,large,4096,1024,1024,1,,,1000010,,,unknown,unknown,false,,,true,,true,1,{hash},train.py,3,\
             step,false\n\
             0,1,7,0:0,large,5120,512,512,2,3,4,1000020,10,0,unknown,unknown,false,,,true,,false,,,,,,false\n\
             0,2,7,0:0,large,5632,512,512,5,6,,1000050,10,0,unknown,unknown,false,,,false,,false,,,,,,false\n"
        )
    );
}

#[test]
fn usage_has_a_row_before_and_one_after_every_event() {
    let sample = sample();
    assert_eq!(
        csv(&schemas::USAGE, |sink| usage_frames(&sample.source(), sink)),
        "device,event,time_us,requested_bytes,allocated_bytes,active_bytes,reserved_bytes\n\
         0,,,0,0,0,0\n\
         0,0,1000000,0,0,0,8192\n\
         0,1,1000010,1024,1024,1024,8192\n\
         0,2,1000020,1536,1536,1536,8192\n\
         0,3,1000030,1536,1024,1536,8192\n\
         0,4,1000040,1024,1024,1024,8192\n\
         0,5,1000050,1536,1536,1536,8192\n\
         0,6,1000060,1536,1024,1536,8192\n"
    );
}

#[test]
fn segments_say_what_obtained_and_returned_them() {
    let sample = sample();
    assert_eq!(
        csv_of(&schemas::SEGMENTS, segments_frame(&sample.source()).unwrap()),
        "device,id,stream,pool,kind,expandable,address,bytes,alloc_event,free_event,alloc_time_us,\
         free_time_us,stack,stack_hash,file,line,function\n\
         0,0,0,0:0,large,false,4096,8192,0,,1000000,,,,,,\n"
    );
}

#[test]
fn lines_add_up_with_the_remainder() {
    let sample = sample();
    let table = lines(&sample.trace, &sample.device, &sample.history, &sample.grouping, None).unwrap();
    assert_eq!(sample.history.peaks.allocated.bytes, 1024 + 512);
    assert_eq!(
        csv_of(&schemas::LINES, lines_frame(&sample.source(), &table).unwrap()),
        "device,file,line,function,held_at_peak_bytes,own_peak_bytes,active_peak_on_stack_bytes,\
         inferred_bytes,total_bytes,allocations,live_at_end_bytes\n\
         0,train.py,3,step,1024,1024,1024,0,1024,1,1024\n\
         0,,,,512,512,,0,1024,2,0\n"
    );
}

#[test]
fn steps_name_their_events_and_their_lines_what_changed() {
    let sample = sample();
    let table = steps(&sample.trace, &sample.device, &sample.history);
    assert_eq!(
        csv_of(&schemas::STEPS, steps_frame(&sample.source(), &table).unwrap()),
        "device,step,name,source,first_event,last_event,begin_time_us,end_time_us,begin_allocated_bytes,\
         peak_allocated_bytes,peak_event,end_allocated_bytes,growth_bytes\n\
         0,0,1,marks,2,6,1000020,1000060,1024,1536,2,1024,0\n"
    );
    assert_eq!(
        csv(&schemas::STEP_LINES, |sink| step_line_frames(&sample.source(), &table, sink)),
        "device,step,file,line,function,end_bytes,growth_bytes,allocated_bytes,allocations\n\
         0,0,,,,0,0,1024,2\n"
    );
}

#[test]
fn stacks_are_told_frame_by_frame_and_say_which_is_the_line() {
    let recursion =
        [("torch/nn/modules/module.py", 9, "forward"), ("a.py", 1, "f"), ("a.py", 1, "f"), ("b.py", 0, "g")];
    let sample =
        Sample::of(TraceBuilder::new().segment_alloc(0, 512).stack(&recursion).alloc(0, 512).build());
    let hash = sample.hashes.text(crate::model::StackId(1)).unwrap();
    assert_eq!(
        csv(&schemas::STACKS, |sink| stack_frames(&sample.source(), sink)),
        format!(
            "device,stack,stack_hash,depth,file,line,function,owner,is_line\n\
             0,1,{hash},0,torch/nn/modules/module.py,9,forward,library,false\n\
             0,1,{hash},1,a.py,1,f,user,true\n\
             0,1,{hash},2,a.py,1,f,user,false\n\
             0,1,{hash},3,b.py,,g,user,false\n"
        )
    );
}

#[test]
fn tables_of_nothing_can_be_made() {
    let sample = Sample::of(Trace::default());
    let source = sample.source();
    let mut pieces = 0;
    let mut count = |_| {
        pieces += 1;
        Ok(())
    };
    sample.allocations(&mut count).unwrap();
    stack_frames(&source, &mut count).unwrap();
    let none = steps(&sample.trace, &sample.device, &sample.history);
    step_line_frames(&source, &none, &mut count).unwrap();
    assert_eq!(pieces, 0);
    let frames = [
        segments_frame(&source),
        steps_frame(&source, &none),
        modules_frame(&source, None),
        ooms_frame(&source, &[]),
        findings_frame(&source, &[]),
        fragmentation_frame(&source, &[]),
        pins_frame(&source, &[]),
        pools_frame(&source, &[]),
        categories_frame(&source, &[]),
    ];
    assert!(frames.into_iter().all(|frame| frame.unwrap().height() == 0));
    assert_eq!(trace_frame(&source, None, false).unwrap().height(), 1);
}
