//! The messages of a Perfetto trace, as far as memlab fills them in.
//!
//! Source of names and field numbers: `protos/perfetto/trace/` of github.com/google/perfetto (`trace_packet`,
//! `track_event/*`, `clock_snapshot`, `interned_data`). All fields are optional there; enums are plain numbers
//! here. A file is a `Trace`: field 1, a packet, again and again.

/// One packet.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TracePacket {
    #[prost(message, optional, tag = "6")]
    pub(super) clock_snapshot: Option<ClockSnapshot>,
    /// Nanoseconds.
    #[prost(uint64, optional, tag = "8")]
    pub(super) timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    pub(super) trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    pub(super) track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    pub(super) interned_data: Option<InternedData>,
    #[prost(uint32, optional, tag = "13")]
    pub(super) sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "60")]
    pub(super) track_descriptor: Option<TrackDescriptor>,
}

/// `SEQ_INCREMENTAL_STATE_CLEARED`: shared texts are numbered from here on.
pub(super) const STATE_CLEARED: u32 = 1;
/// `SEQ_NEEDS_INCREMENTAL_STATE`: the packet refers to shared texts.
pub(super) const NEEDS_STATE: u32 = 2;

/// What several clocks say at one moment.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub(super) clocks: Vec<ClockReading>,
    #[prost(int32, optional, tag = "2")]
    pub(super) primary_trace_clock: Option<i32>,
}

/// What one clock says.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct ClockReading {
    #[prost(uint32, optional, tag = "1")]
    pub(super) clock_id: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    pub(super) timestamp: Option<u64>,
}

/// `BUILTIN_CLOCK_REALTIME`: Unix time.
pub(super) const REALTIME: u32 = 1;
/// `BUILTIN_CLOCK_BOOTTIME`: the clock of timestamps that say nothing else.
pub(super) const BOOTTIME: u32 = 6;

/// A row of the picture.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    pub(super) uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(super) name: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub(super) process: Option<ProcessDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    pub(super) parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    pub(super) counter: Option<CounterDescriptor>,
    #[prost(int32, optional, tag = "11")]
    pub(super) child_ordering: Option<i32>,
    #[prost(int32, optional, tag = "12")]
    pub(super) sibling_order_rank: Option<i32>,
    #[prost(string, optional, tag = "14")]
    pub(super) description: Option<String>,
}

/// `EXPLICIT`: children stand in order of their `sibling_order_rank`.
pub(super) const ORDER_EXPLICIT: i32 = 3;

/// A group of rows that Perfetto shows as a process.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub(super) pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    pub(super) process_name: Option<String>,
    #[prost(string, repeated, tag = "8")]
    pub(super) process_labels: Vec<String>,
}

/// Makes a track one of numbers.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct CounterDescriptor {
    #[prost(int32, optional, tag = "3")]
    pub(super) unit: Option<i32>,
    /// Counters with the same key are drawn to one scale.
    #[prost(string, optional, tag = "7")]
    pub(super) y_axis_share_key: Option<String>,
}

/// `UNIT_SIZE_BYTES`.
pub(super) const UNIT_BYTES: i32 = 3;

/// Something on a track.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    pub(super) debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, optional, tag = "9")]
    pub(super) kind: Option<i32>,
    #[prost(uint64, optional, tag = "10")]
    pub(super) name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    pub(super) track_uuid: Option<u64>,
    #[prost(string, optional, tag = "23")]
    pub(super) name: Option<String>,
    #[prost(int64, optional, tag = "30")]
    pub(super) counter_value: Option<i64>,
}

/// `TYPE_SLICE_BEGIN`, `TYPE_SLICE_END`, `TYPE_INSTANT` and `TYPE_COUNTER`.
pub(super) const SLICE_BEGIN: i32 = 1;
/// See [`SLICE_BEGIN`].
pub(super) const SLICE_END: i32 = 2;
/// See [`SLICE_BEGIN`].
pub(super) const INSTANT: i32 = 3;
/// See [`SLICE_BEGIN`].
pub(super) const COUNTER: i32 = 4;

/// A named value beside an event.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DebugAnnotation {
    #[prost(bool, optional, tag = "2")]
    pub(super) bool_value: Option<bool>,
    #[prost(uint64, optional, tag = "3")]
    pub(super) uint_value: Option<u64>,
    #[prost(int64, optional, tag = "4")]
    pub(super) int_value: Option<i64>,
    #[prost(string, optional, tag = "6")]
    pub(super) string_value: Option<String>,
    #[prost(string, optional, tag = "10")]
    pub(super) name: Option<String>,
    #[prost(message, repeated, tag = "12")]
    pub(super) array_values: Vec<DebugAnnotation>,
    #[prost(uint64, optional, tag = "17")]
    pub(super) string_value_iid: Option<u64>,
}

/// Texts that later packets refer to by number.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct InternedData {
    #[prost(message, repeated, tag = "2")]
    pub(super) event_names: Vec<InternedText>,
    /// `InternedString`s: their text is declared as bytes, which is the same on the wire.
    #[prost(message, repeated, tag = "29")]
    pub(super) debug_annotation_string_values: Vec<InternedText>,
}

/// A text and its number.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct InternedText {
    #[prost(uint64, optional, tag = "1")]
    pub(super) iid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(super) text: Option<String>,
}
