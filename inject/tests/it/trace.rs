//! An independent reader of what the recorder writes: rmpv and flate2, and the text of docs/trace-format.md.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use rmpv::Value;

/// A row of a driver chunk.
pub(crate) type Row = BTreeMap<&'static str, u64>;

const COLUMNS: [&str; 16] = [
    "call", "order", "time", "result", "device", "context", "stream", "address", "bytes", "handle", "offset",
    "flags", "thread", "depth", "native", "python",
];

/// A whole file, decoded.
#[derive(Default)]
pub(crate) struct Trace {
    /// Rows as they stand in the file.
    pub(crate) rows: Vec<Row>,
    /// Path and build id of modules; the first stands for none.
    pub(crate) modules: Vec<(String, String)>,
    /// Module and offset.
    pub(crate) frames: Vec<(u64, u64)>,
    pub(crate) native_stacks: Vec<Vec<u64>>,
    strings: Vec<String>,
    python_frames: Vec<(u64, u64, u64)>,
    python_stacks: Vec<Vec<u64>>,
    /// Texts of marks that are faults.
    pub(crate) faults: Vec<String>,
    /// Readings.
    pub(crate) samples: Vec<Value>,
    /// Payloads of process chunks, the last one last.
    pub(crate) process: Vec<Value>,
    /// Facts of the trailer.
    pub(crate) trailer: Option<Value>,
    /// Bytes behind the last whole chunk.
    pub(crate) cut: usize,
}

impl Trace {
    pub(crate) fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut trace =
            Self { modules: vec![Default::default()], strings: vec![String::new()], ..Self::default() };
        trace.native_stacks.push(Vec::new());
        trace.python_stacks.push(Vec::new());
        let mut rest = &bytes[..];
        let mut number = 0;
        while !rest.is_empty() {
            let before = rest;
            let Ok(chunk) = rmpv::decode::read_value(&mut rest) else {
                trace.cut = before.len();
                break;
            };
            let length = before.len() - rest.len();
            trace.take(&chunk, &before[..length], number);
            number += 1;
        }
        trace
    }

    fn take(&mut self, chunk: &Value, bytes: &[u8], number: u64) {
        let parts = chunk.as_array().expect("an array");
        let [magic, kind, codec, raw_len, facts, payload, crc] = &parts[..] else {
            panic!("{} parts", parts.len())
        };
        assert_eq!(magic.as_str(), Some("memlab"));
        let checked = &bytes[..bytes.len() - packed_length(crc)];
        assert_eq!(crc.as_u64(), Some(crc32fast::hash(checked).into()));
        let stored = payload.as_slice().expect("bytes");
        let mut raw = Vec::new();
        match codec.as_u64() {
            Some(0) => raw.extend_from_slice(stored),
            Some(2) => _ = flate2::read::ZlibDecoder::new(stored).read_to_end(&mut raw).expect("zlib"),
            other => panic!("codec {other:?}"),
        }
        assert_eq!(raw_len.as_u64(), Some(raw.len() as u64));
        let payload = if raw.is_empty() {
            Value::Map(Vec::new())
        } else {
            rmpv::decode::read_value(&mut &raw[..]).expect("a map")
        };
        assert!(self.trailer.is_none(), "nothing follows a trailer");
        match kind.as_u64() {
            Some(0) => assert_eq!((number, &facts["version"]), (0, &Value::Array(vec![1.into(), 4.into()]))),
            Some(1) => self.take_tables(facts, &payload),
            Some(6) => self.process.push(payload),
            Some(7) => self.take_marks(facts, &payload),
            Some(10) => assert!(payload["warnings"].is_array()),
            Some(11) => {
                let samples = payload["samples"].as_array().expect("samples");
                assert_eq!(facts["count"].as_u64(), Some(samples.len() as u64));
                self.samples.extend(samples.iter().cloned());
            }
            Some(14) => self.take_rows(facts, &payload),
            Some(15) => {
                assert_eq!(facts["chunks"].as_u64(), Some(number));
                assert_eq!(facts["driver"].as_u64(), Some(self.rows.len() as u64));
                self.trailer = Some(facts.clone());
            }
            Some(16) => self.take_native(facts, &payload),
            other => panic!("kind {other:?}"),
        }
    }

    fn take_rows(&mut self, facts: &Value, payload: &Value) {
        assert_eq!(facts["first"].as_u64(), Some(self.rows.len() as u64));
        let count = facts["count"].as_u64().expect("a count") as usize;
        let columns = COLUMNS.map(|name| (name, column(&payload[name], count)));
        let start = self.rows.len();
        self.rows.extend(
            (0..count).map(|row| columns.iter().map(|(name, values)| (*name, values[row])).collect()),
        );
        let rows = &self.rows[start..];
        let times = rows.iter().map(|row| row["time"]);
        assert_eq!(
            (facts["start_us"].as_u64(), facts["end_us"].as_u64()),
            (times.clone().min(), times.max())
        );
        for (code, told) in facts["calls"].as_array().expect("counts").iter().enumerate() {
            let counted = rows.iter().filter(|row| row["call"] == code as u64).count();
            assert_eq!(told.as_u64(), Some(counted as u64), "call {code}");
        }
        for row in rows {
            assert!(row["native"] < self.native_stacks.len() as u64, "a stack before it is named");
            assert!(row["python"] < self.python_stacks.len() as u64, "a stack before it is named");
        }
    }

    fn take_native(&mut self, facts: &Value, payload: &Value) {
        let count = |name: &str, known: usize| range(facts, name, known);
        let modules = count("modules", self.modules.len());
        for row in 0..modules {
            let text = |key: &str| payload[key][row].as_str().expect("a text").to_owned();
            self.modules.push((text("module_path"), text("module_build_id")));
        }
        let frames = count("frames", self.frames.len());
        let offsets = column(&payload["frame_offset"], frames);
        self.frames.extend(column(&payload["frame_module"], frames).into_iter().zip(offsets));
        assert!(self.frames.iter().all(|frame| frame.0 < self.modules.len() as u64));
        let stacks = count("stacks", self.native_stacks.len());
        self.native_stacks.extend(runs(facts, payload, stacks));
    }

    fn take_tables(&mut self, facts: &Value, payload: &Value) {
        let strings = range(facts, "strings", self.strings.len());
        self.strings
            .extend((0..strings).map(|row| payload["strings"][row].as_str().expect("a text").to_owned()));
        let frames = range(facts, "frames", self.python_frames.len());
        let columns =
            ["frame_function", "frame_file", "frame_line"].map(|name| column(&payload[name], frames));
        self.python_frames.extend((0..frames).map(|row| (columns[0][row], columns[1][row], columns[2][row])));
        let stacks = range(facts, "stacks", self.python_stacks.len());
        self.python_stacks.extend(runs(facts, payload, stacks));
    }

    fn take_marks(&mut self, facts: &Value, payload: &Value) {
        let count = facts["count"].as_u64().expect("a count") as usize;
        assert_eq!(column(&payload["kind"], count), vec![4; count]);
        for name in column(&payload["name"], count) {
            self.faults.push(payload["texts"][name as usize].as_str().expect("a text").to_owned());
        }
    }

    /// Rows in their true order.
    pub(crate) fn ordered(&self) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        rows.sort_by_key(|row| row["order"]);
        assert!(rows.windows(2).all(|pair| pair[0]["order"] < pair[1]["order"]), "a number stands once");
        rows
    }

    /// `FUNCTION FILE:LINE` of a row's Python frames, innermost first.
    pub(crate) fn python(&self, row: &Row) -> Vec<String> {
        let text = |string: u64| self.strings[string as usize].clone();
        let frames = self.python_stacks[row["python"] as usize].iter();
        frames
            .map(|&frame| {
                let (function, file, line) = self.python_frames[frame as usize];
                format!("{} {}:{line}", text(function), text(file))
            })
            .collect()
    }

    /// What the last process chunk says of the driver.
    pub(crate) fn driver(&self) -> &Value {
        &self.process.last().expect("a process chunk")["other"]["driver"]
    }
}

fn packed_length(value: &Value) -> usize {
    let mut bytes = Vec::new();
    rmpv::encode::write_value(&mut bytes, value).expect("it packs");
    bytes.len()
}

/// How many rows of a table follow; ids must go on from `known`.
fn range(facts: &Value, name: &str, known: usize) -> usize {
    if facts[name].is_nil() {
        return 0;
    }
    assert_eq!(facts[name][0].as_u64(), Some(known as u64), "{name}");
    facts[name][1].as_u64().expect("a count") as usize
}

fn runs(facts: &Value, payload: &Value, stacks: usize) -> Vec<Vec<u64>> {
    let all = facts["stack_frames"].as_u64().expect("a count") as usize;
    let mut frames = column(&payload["stack_frame"], all).into_iter();
    let lengths = column(&payload["stack_length"], stacks);
    lengths.into_iter().map(|length| frames.by_ref().take(length as usize).collect()).collect()
}

/// The values of a column; one that is absent has zeros.
fn column(value: &Value, count: usize) -> Vec<u64> {
    let Some(parts) = value.as_array() else { return vec![0; count] };
    let word = |value: &Value| value.as_u64().unwrap_or_else(|| value.as_i64().expect("an integer") as u64);
    let (width, base, data) =
        (word(&parts[1]) as usize, word(&parts[2]), parts[3].as_slice().expect("bytes"));
    assert_eq!(data.len(), width * count);
    let stored = |row: usize| {
        let mut bytes = [0; 8];
        bytes[..width].copy_from_slice(&data[row * width..][..width]);
        u64::from_le_bytes(bytes)
    };
    let mut last = parts.get(4).map_or(0, word);
    let is_delta = word(&parts[0]) == 1;
    let value = |row| {
        let step = base.wrapping_add(stored(row));
        last = if is_delta { last.wrapping_add(step) } else { step };
        last
    };
    (0..count).map(value).collect()
}
