//! One row: what was recorded, by what, and its extremes.

use polars::prelude::{Column, DataFrame};

use crate::error::Result;
use crate::rebuild::{NONE, Peak};
use crate::tables::streams;

use super::parts::{FrameSource, event_number};
use super::schema::columns::{
    DEVICE, bytes, bytes_or_null, count, count_or_null, event, flag, number, text, text_or_null, time,
};
use super::schema::{TABLES_SCHEMA, TableSchema};

/// The table's schema.
pub const TRACE: TableSchema = TableSchema {
    name: "trace",
    meaning: "The recording, in one row",
    columns: &[
        DEVICE,
        number("tables_schema", "version of these tables"),
        text("format", "`memlab-trace` or `torch-snapshot`"),
        flag("complete", "whether the recording is whole, as far as file, recorder and counters tell"),
        count("events", "events of this device"),
        time("begin_time_us", "Unix time of the first event; null when not known"),
        time("end_time_us", "Unix time of the last event; null when not known"),
        count("lost_events", "events that the recorder says it lost, on all devices"),
        flag("from_the_start", "whether nothing was live or reserved before the first event"),
        count("initial_allocations", "allocations that were live before the first event"),
        count("uncertain_allocations", "of these, how many have a size that could not be proved"),
        bytes("uncertain_bytes", "by how much the truth may be higher"),
        text_or_null("device_name", "product name; null when not recorded"),
        bytes_or_null("total_bytes", "memory of the device; null when not recorded"),
        text_or_null("allocator_conf", "`PYTORCH_CUDA_ALLOC_CONF`; null when not set or not recorded"),
        text_or_null("torch_version", "PyTorch; null when not recorded"),
        text_or_null("cuda_version", "CUDA that PyTorch was built for; null when not recorded"),
        text_or_null("python_version", "Python; null when not recorded"),
        text_or_null("writer", "what wrote the recording; null when it does not say"),
        count_or_null("rank", "global rank; null when not recorded"),
        count_or_null("local_rank", "rank on its host; null when not recorded"),
        count_or_null("world_size", "number of ranks; null when not recorded"),
        count("main_stream", "the stream with most traffic"),
        bytes("peak_requested_bytes", "the most asked for at one moment, over active blocks"),
        bytes("peak_allocated_bytes", "the most handed out"),
        bytes("peak_active_bytes", "the most handed out or pending"),
        bytes("peak_reserved_bytes", "the most held from the driver"),
        event("peak_requested_event", "after which that is first so; null: before the first event"),
        event("peak_allocated_event", "likewise"),
        event("peak_active_event", "likewise"),
        event("peak_reserved_event", "likewise"),
        bytes("end_requested_bytes", "after the last event"),
        bytes("end_allocated_bytes", "likewise"),
        bytes("end_active_bytes", "likewise"),
        bytes("end_reserved_bytes", "likewise"),
    ],
};

/// The table of [`TRACE`]; `total_bytes` is the memory of the device, `complete` whether the recording is whole.
///
/// # Errors
/// When the table engine refuses the table, which would be a fault of memlab.
pub fn trace_frame(source: &FrameSource<'_>, total_bytes: Option<u64>, complete: bool) -> Result<DataFrame> {
    let history = source.history;
    let last = (history.events as u32).checked_sub(1);
    let begun = &history.allocations.alloc_events;
    let initial = begun.iter().take_while(|&&event| event == NONE).count() as u64;
    let mut columns = vec![
        source.device_column(1),
        Column::new("tables_schema".into(), [TABLES_SCHEMA]),
        Column::new("format".into(), [source.trace.format.name()]),
        Column::new("complete".into(), [complete]),
        count_of("events", history.events),
        Column::new("begin_time_us".into(), [source.time_of(last.map(|_| 0))]),
        Column::new("end_time_us".into(), [source.time_of(last)]),
        count_of("lost_events", source.trace.process.lost_events),
        Column::new("from_the_start".into(), [history.from_the_start]),
        count_of("initial_allocations", initial),
        count_of("uncertain_allocations", history.uncertain_allocations),
        count_of("uncertain_bytes", history.uncertain_bytes),
    ];
    columns.extend(circumstances(source, total_bytes));
    columns.push(count_of("main_stream", streams(history).main));
    columns.extend(extremes(source));
    TRACE.frame(columns)
}

fn count_of(name: &str, value: u64) -> Column {
    Column::new(name.into(), [value])
}

fn circumstances(source: &FrameSource<'_>, total_bytes: Option<u64>) -> [Column; 10] {
    let (trace, process) = (source.trace, &source.trace.process);
    let facts = process.devices.iter().find(|facts| facts.device == source.device.device);
    let text =
        |name: &str, text: Option<&str>| Column::new(name.into(), [text.filter(|text| !text.is_empty())]);
    let count = |name: &str, value: Option<u64>| Column::new(name.into(), [value]);
    [
        text("device_name", facts.map(|facts| facts.name.as_str())),
        count("total_bytes", total_bytes),
        text("allocator_conf", Some(trace.settings.conf())),
        text("torch_version", process.torch_version.as_deref()),
        text("cuda_version", process.cuda_version.as_deref()),
        text("python_version", process.python_version.as_deref()),
        text("writer", process.writer.as_deref()),
        count("rank", process.rank),
        count("local_rank", process.local_rank),
        count("world_size", process.world_size),
    ]
}

fn extremes(source: &FrameSource<'_>) -> [Column; 12] {
    let (peaks, end) = (&source.history.peaks, &source.history.end);
    let event = |name: &str, peak: Peak| Column::new(name.into(), [event_number(peak.moment.event())]);
    [
        count_of("peak_requested_bytes", peaks.requested.bytes),
        count_of("peak_allocated_bytes", peaks.allocated.bytes),
        count_of("peak_active_bytes", peaks.active.bytes),
        count_of("peak_reserved_bytes", peaks.reserved.bytes),
        event("peak_requested_event", peaks.requested),
        event("peak_allocated_event", peaks.allocated),
        event("peak_active_event", peaks.active),
        event("peak_reserved_event", peaks.reserved),
        count_of("end_requested_bytes", end.requested_bytes),
        count_of("end_allocated_bytes", end.allocated_bytes),
        count_of("end_active_bytes", end.active_bytes),
        count_of("end_reserved_bytes", end.reserved_bytes),
    ]
}
