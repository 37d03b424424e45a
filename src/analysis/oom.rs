//! Out-of-memory messages of a log, judged and explained: rows for the report.

use std::collections::BTreeMap;

use crate::findings::message::{
    Confidence, Expandable, Figure, Kind, Message, Scan, Size, Sums, Variant, explain, judge, remedy,
};
use crate::report::{LogRow, MessageRow, ProcessRow};

/// The rows of the log at `path`, and one for the log itself.
#[must_use]
pub fn oom_rows(path: &str, scan: &Scan) -> (Vec<MessageRow>, LogRow) {
    let messages: Vec<_> = scan.messages.iter().map(|message| row(path, message)).collect();
    let log = LogRow {
        path: path.to_owned(),
        bytes: scan.bytes,
        lines: scan.lines,
        messages: messages.len() as u64,
        messages_left_out: scan.left_out,
        fault: scan.fault.as_ref().map(ToString::to_string),
    };
    (messages, log)
}

fn row(path: &str, message: &Message) -> MessageRow {
    let sums = Sums::of(message);
    let (cause, confidence) = judge(message, &sums);
    let bytes = |size: Option<Size>| size.map(|size| size.bytes);
    MessageRow {
        variant: message.variant().name(),
        requested_bytes: bytes(sums.requested),
        total_bytes: bytes(sums.total),
        free_bytes: bytes(sums.free),
        allocated_bytes: bytes(sums.allocated),
        reserved_bytes: bytes(sums.reserved),
        unallocated_bytes: bytes(sums.unallocated),
        allowed_bytes: bytes(sums.allowed),
        private_pool_bytes: bytes(sums.private_pool),
        process_bytes: bytes(sums.process),
        device: message.device,
        verdict: cause.name(),
        explanation: explain(message, &sums, cause, confidence).join(" "),
        remedy: remedy(message, &sums, cause).join(" "),
        confidence: confidence.map(Confidence::name),
        within_reach_bytes: bytes(sums.reach),
        outside_bytes: bytes(sums.outside),
        outside_in_process_bytes: bytes(sums.outside_here),
        processes: processes(message, &sums),
        rounding: rounding(&sums),
        cut_off: message.cut_off().into_iter().map(Figure::name).collect(),
        no_answer: message.no_answer().iter().map(|figure| figure.name()).collect(),
        variants: message.variants.iter().map(|variant| Variant::name(*variant)).collect(),
        printed_by: message.variant().printed_by(),
        platform: message.platform.name(),
        source: source(message.kind),
        expandable_segments: match message.expandable {
            Expandable::Unknown => None,
            Expandable::On => Some("on"),
            Expandable::NotSupported => Some("not-supported"),
        },
        log: path.to_owned(),
        line: message.place.line,
        offset: message.place.offset,
        count: message.count,
        last_line: message.last_place.line,
        rank: message.rank,
        prefix: message.prefix.clone(),
        class: message.class.clone(),
        text: message.text.clone(),
    }
}

fn source(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Allocator | Kind::Async => None,
        Kind::Oldest | Kind::Driver => Some("driver"),
        Kind::Library(name) => Some(name),
        Kind::Assertion => Some("allocator assertion"),
        Kind::Query => Some("NVML query"),
    }
}

fn processes(message: &Message, sums: &Sums) -> Vec<ProcessRow> {
    let row = |(index, other): (usize, &crate::findings::message::OtherProcess)| ProcessRow {
        process: other.process,
        held_bytes: other.held.map(|held| held.bytes),
        is_this_process: sums.own_process == Some(index),
    };
    message.others.iter().enumerate().map(row).collect()
}

/// Per key of the row, by how many bytes its figure may be off.
fn rounding(sums: &Sums) -> BTreeMap<&'static str, u64> {
    let figures = [
        ("requested_bytes", sums.requested),
        ("total_bytes", sums.total),
        ("free_bytes", sums.free),
        ("allocated_bytes", sums.allocated),
        ("reserved_bytes", sums.reserved),
        ("unallocated_bytes", sums.unallocated),
        ("allowed_bytes", sums.allowed),
        ("private_pool_bytes", sums.private_pool),
        ("process_bytes", sums.process),
        ("within_reach_bytes", sums.reach),
        ("outside_bytes", sums.outside),
        ("outside_in_process_bytes", sums.outside_here),
    ];
    figures.into_iter().filter_map(|(key, size)| Some((key, size?.rounding))).collect()
}
