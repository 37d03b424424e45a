//! The shapes of pprof's and Perfetto's messages, declared apart from the program's own: a wrong field number in
//! `src/export` cannot agree with itself here. Only what the tests look at is declared.

use std::collections::BTreeMap;
use std::io::Read;

use prost::Message;

/// `perftools.profiles.Profile`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Profile {
    #[prost(message, repeated, tag = "1")]
    pub(crate) sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    pub(crate) string_table: Vec<String>,
    #[prost(int64, repeated, tag = "13")]
    pub(crate) comment: Vec<i64>,
    #[prost(int64, tag = "14")]
    pub(crate) default_sample_type: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ValueType {
    #[prost(int64, tag = "1")]
    pub(crate) r#type: i64,
    #[prost(int64, tag = "2")]
    pub(crate) unit: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    pub(crate) location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub(crate) value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) label: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Label {
    #[prost(int64, tag = "1")]
    pub(crate) key: i64,
    #[prost(int64, tag = "2")]
    pub(crate) str: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Location {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(message, repeated, tag = "4")]
    pub(crate) line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Line {
    #[prost(uint64, tag = "1")]
    pub(crate) function_id: u64,
    #[prost(int64, tag = "2")]
    pub(crate) line: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Function {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(int64, tag = "2")]
    pub(crate) name: i64,
    #[prost(int64, tag = "4")]
    pub(crate) filename: i64,
}

impl Profile {
    /// Unpacks and reads a profile, and checks that every number in it points somewhere.
    pub(crate) fn read(packed: &[u8]) -> Self {
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
        let profile = Self::decode(&bytes[..]).unwrap();
        assert_eq!(profile.string_table[0], "");
        for (at, location) in profile.location.iter().enumerate() {
            assert_eq!(location.id, at as u64 + 1);
            assert!((1..=profile.function.len() as u64).contains(&location.line[0].function_id));
        }
        for (at, function) in profile.function.iter().enumerate() {
            assert_eq!(function.id, at as u64 + 1);
            assert!(!profile.text(function.name).is_empty());
        }
        for sample in &profile.sample {
            assert_eq!(sample.value.len(), profile.sample_type.len());
            assert!(!sample.location_id.is_empty());
            assert!(sample.location_id.iter().all(|&id| (1..=profile.location.len() as u64).contains(&id)));
        }
        profile
    }

    pub(crate) fn text(&self, at: i64) -> &str {
        &self.string_table[usize::try_from(at).unwrap()]
    }

    /// Sums of the values over the samples of `device`.
    pub(crate) fn sums(&self, device: u32) -> [i64; 4] {
        let mut sums = [0; 4];
        for sample in &self.sample {
            let label = &sample.label[0];
            assert_eq!(self.text(label.key), "device");
            if self.text(label.str) == format!("cuda:{device}") {
                (0..4).for_each(|at| sums[at] += sample.value[at]);
            }
        }
        sums
    }

    /// `function file:line` of a location.
    pub(crate) fn place(&self, id: u64) -> String {
        let line = &self.location[id as usize - 1].line[0];
        let function = &self.function[line.function_id as usize - 1];
        format!("{} {}:{}", self.text(function.name), self.text(function.filename), line.line)
    }
}

/// `perfetto.protos.Trace`.
#[derive(Clone, PartialEq, Message)]
struct Packets {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<Packet>,
}

#[derive(Clone, PartialEq, Message)]
struct Packet {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, tag = "10")]
    trusted_packet_sequence_id: u32,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    interned_data: Option<InternedData>,
    #[prost(uint32, tag = "13")]
    sequence_flags: u32,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    uuid: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(message, optional, tag = "3")]
    process: Option<Process>,
    #[prost(uint64, tag = "5")]
    parent_uuid: u64,
    #[prost(message, optional, tag = "8")]
    counter: Option<Counter>,
}

#[derive(Clone, PartialEq, Message)]
struct Process {
    #[prost(int32, tag = "1")]
    pid: i32,
    #[prost(string, tag = "6")]
    process_name: String,
}

#[derive(Clone, PartialEq, Message)]
struct Counter {
    #[prost(int32, tag = "3")]
    unit: i32,
}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, tag = "9")]
    r#type: i32,
    #[prost(uint64, tag = "10")]
    name_iid: u64,
    #[prost(uint64, tag = "11")]
    track_uuid: u64,
    #[prost(int64, tag = "30")]
    counter_value: i64,
}

#[derive(Clone, PartialEq, Message)]
struct DebugAnnotation {
    #[prost(bool, optional, tag = "2")]
    bool_value: Option<bool>,
    #[prost(uint64, optional, tag = "3")]
    uint_value: Option<u64>,
    #[prost(int64, optional, tag = "4")]
    int_value: Option<i64>,
    #[prost(string, optional, tag = "6")]
    string_value: Option<String>,
    #[prost(string, tag = "10")]
    name: String,
    #[prost(message, repeated, tag = "12")]
    array_values: Vec<DebugAnnotation>,
    #[prost(uint64, tag = "17")]
    string_value_iid: u64,
}

#[derive(Clone, PartialEq, Message)]
struct InternedData {
    #[prost(message, repeated, tag = "2")]
    event_names: Vec<Interned>,
    #[prost(message, repeated, tag = "29")]
    debug_annotation_string_values: Vec<Interned>,
}

#[derive(Clone, PartialEq, Message)]
struct Interned {
    #[prost(uint64, tag = "1")]
    iid: u64,
    #[prost(string, tag = "2")]
    text: String,
}

/// A slice or an instant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slice {
    pub(crate) name: String,
    pub(crate) begin: u64,
    /// Equal to the begin for an instant.
    pub(crate) end: u64,
    pub(crate) numbers: BTreeMap<String, i64>,
    pub(crate) stack: Vec<String>,
}

/// A track with all that is on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Track {
    /// Names from the outermost parent on, with ` / ` between them.
    pub(crate) path: String,
    pub(crate) is_counter: bool,
    /// Time in nanoseconds and value.
    pub(crate) points: Vec<(u64, i64)>,
    pub(crate) slices: Vec<Slice>,
}

/// A trace as a viewer would see it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    pub(crate) tracks: Vec<Track>,
}

impl Timeline {
    /// Reads a trace and checks what every reader relies on: known tracks, known names, times that never go back on
    /// a track, slices that are closed.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let packets = Packets::decode(bytes).unwrap().packet;
        assert_eq!(packets[0].sequence_flags, 1, "the first packet begins the shared texts");
        let mut reader = Reader::default();
        for packet in packets {
            assert_eq!(packet.trusted_packet_sequence_id, 1);
            reader.packet(packet);
        }
        assert!(reader.open.values().all(Vec::is_empty), "every slice is closed");
        Self { tracks: reader.tracks.into_values().collect() }
    }

    /// The tracks called so, parents included.
    pub(crate) fn named<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a Track> {
        self.tracks.iter().filter(move |track| track.path == path)
    }

    /// The highest value of a counter; `None` when there is no such counter.
    pub(crate) fn maximum(&self, path: &str) -> Option<i64> {
        self.named(path).flat_map(|track| &track.points).map(|&(_, value)| value).max()
    }
}

#[derive(Default)]
struct Reader {
    tracks: BTreeMap<u64, Track>,
    open: BTreeMap<u64, Vec<usize>>,
    last: BTreeMap<u64, u64>,
    names: BTreeMap<u64, String>,
    values: BTreeMap<u64, String>,
}

impl Reader {
    fn packet(&mut self, packet: Packet) {
        let texts = packet.interned_data.unwrap_or_default();
        self.names.extend(texts.event_names.into_iter().map(|text| (text.iid, text.text)));
        let values = texts.debug_annotation_string_values.into_iter();
        self.values.extend(values.map(|text| (text.iid, text.text)));
        if let Some(descriptor) = packet.track_descriptor {
            self.track(descriptor);
        }
        if let Some(event) = packet.track_event {
            self.event(packet.timestamp.expect("an event has a time"), event);
        }
    }

    fn track(&mut self, descriptor: TrackDescriptor) {
        let name = descriptor.process.map_or(descriptor.name, |process| {
            assert!(process.pid > 0, "0 is the kernel's");
            process.process_name
        });
        let is_root = descriptor.parent_uuid == 0;
        let path =
            if is_root { name } else { format!("{} / {name}", self.tracks[&descriptor.parent_uuid].path) };
        let is_counter = descriptor.counter.is_some_and(|counter| counter.unit == 3);
        let track = Track { path, is_counter, ..Track::default() };
        assert!(self.tracks.insert(descriptor.uuid, track).is_none(), "numbers are given once");
    }

    fn event(&mut self, time: u64, event: TrackEvent) {
        let last = self.last.insert(event.track_uuid, time).unwrap_or(0);
        assert!(last <= time && i64::try_from(time).is_ok());
        let slice = self.slice(time, &event);
        let track = self.tracks.get_mut(&event.track_uuid).expect("a track is entered before its events");
        let open = self.open.entry(event.track_uuid).or_default();
        assert_eq!(track.is_counter, event.r#type == 4);
        match event.r#type {
            1 => {
                open.push(track.slices.len());
                track.slices.push(slice);
            }
            2 => track.slices[open.pop().expect("what ends has begun")].end = time,
            3 => track.slices.push(slice),
            4 => track.points.push((time, event.counter_value)),
            other => panic!("no such kind of event: {other}"),
        }
    }

    fn slice(&self, time: u64, event: &TrackEvent) -> Slice {
        let name = if event.name_iid == 0 { String::new() } else { self.names[&event.name_iid].clone() };
        let mut slice = Slice { name, begin: time, end: time, ..Slice::default() };
        for beside in &event.debug_annotations {
            let number = beside.uint_value.map(|value| value as i64).or(beside.int_value);
            let number = number.or(beside.bool_value.map(i64::from));
            slice.numbers.extend(number.map(|number| (beside.name.clone(), number)));
            let text = |frame: &DebugAnnotation| match &frame.string_value {
                Some(text) => text.clone(),
                None => self.values[&frame.string_value_iid].clone(),
            };
            slice.stack.extend(beside.array_values.iter().map(text));
        }
        slice
    }
}
