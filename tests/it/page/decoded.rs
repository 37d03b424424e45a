//! A reader of the container, written from the format's description alone.

use base64::Engine as _;
use serde_json::Value;
use std::io::Read as _;

pub(super) struct Container {
    pub(super) header: Value,
    payload: Vec<u8>,
}

impl Container {
    pub(super) fn of(text: &str) -> Self {
        let packed = base64::engine::general_purpose::STANDARD.decode(text).expect("base64");
        let mut bytes = Vec::new();
        flate2::read::DeflateDecoder::new(&packed[..]).read_to_end(&mut bytes).expect("a deflate stream");
        let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
        let header = serde_json::from_slice(&bytes[4..4 + length]).expect("a JSON header");
        Self { header, payload: bytes[4 + length..].to_vec() }
    }

    /// The column at JSON pointer `path`.
    pub(super) fn column(&self, path: &str) -> Vec<u64> {
        let found = self.header.pointer(path).unwrap_or_else(|| panic!("no column {path}"));
        self.read(found)
    }

    pub(super) fn read(&self, column: &Value) -> Vec<u64> {
        let mut at = column["at"].as_u64().unwrap() as usize;
        let mut values: Vec<u64> = Vec::new();
        let mut before = 0u64;
        for _ in 0..column["n"].as_u64().unwrap() {
            let (mut raw, mut shift) = (0u64, 0);
            loop {
                let byte = self.payload[at];
                at += 1;
                raw |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    break;
                }
            }
            let value = match column["as"].as_str().unwrap() {
                "plain" => raw,
                "delta" => before + raw,
                "zigzag" => {
                    let half = (raw >> 1) as i64;
                    before.wrapping_add_signed(if raw % 2 == 1 { !half } else { half })
                }
                other => panic!("coding {other}"),
            };
            assert!(value < 1 << 53);
            values.push(value);
            before = value;
        }
        values
    }

    pub(super) fn number(&self, path: &str) -> u64 {
        self.header.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("no number {path}"))
    }

    pub(super) fn texts(&self) -> Vec<String> {
        let texts = self.header["strings"].as_array().unwrap();
        texts.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    }
}

/// One allocation of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) begin: u64,
    pub(super) given_back: Option<u64>,
    pub(super) completed: Option<u64>,
    pub(super) is_pending: bool,
    pub(super) place: usize,
    pub(super) kind: usize,
}

impl Row {
    pub(super) fn is_allocated_at(&self, moment: u64) -> bool {
        !self.is_pending && self.begin <= moment && self.given_back.is_none_or(|end| moment < end)
    }

    pub(super) fn is_active_at(&self, moment: u64) -> bool {
        self.begin <= moment && self.completed.is_none_or(|end| moment < end)
    }
}

/// A held range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) region: u64,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) born: u64,
    pub(super) died: u64,
}

impl Range {
    pub(super) fn is_held_at(&self, moment: u64) -> bool {
        self.born <= moment && (self.died == 0 || moment < self.died)
    }
}

/// The parts of a device that tests add up.
pub(super) struct Device {
    pub(super) container: Container,
    pub(super) blocks: Vec<u64>,
    pub(super) lines: Vec<u64>,
    pub(super) places: Vec<(u64, u64)>,
    pub(super) ranges: Vec<Range>,
    /// First moment, last moment, rows.
    pub(super) windows: Vec<(u64, u64, Vec<Row>)>,
}

impl Device {
    pub(super) fn of(text: &str) -> Self {
        let container = Container::of(text);
        let column = |path: &str| container.column(path);
        let regions = container.header["regions"].as_array().unwrap().len() as u64;
        let (region, offset) = (column("/places/region"), column("/places/offset"));
        assert!(region.iter().all(|&region| region < regions));
        let held = [
            column("/ranges/region"),
            column("/ranges/offset"),
            column("/ranges/bytes"),
            column("/ranges/born"),
            column("/ranges/died"),
        ];
        let range = |at: usize| Range {
            region: held[0][at],
            offset: held[1][at],
            bytes: held[2][at],
            born: held[3][at],
            died: held[4][at],
        };
        let windows = container.header["windows"].as_array().unwrap().iter();
        let windows = windows.map(|window| {
            let bound = |key: &str| window[key].as_u64().unwrap();
            (bound("from"), bound("to"), rows(&container, &window["rows"]))
        });
        Self {
            blocks: column("/kinds/block"),
            lines: column("/kinds/line"),
            places: region.into_iter().zip(offset).collect(),
            ranges: (0..held[0].len()).map(range).collect(),
            windows: windows.collect(),
            container,
        }
    }

    /// Allocated, active and reserved bytes.
    pub(super) fn sums(&self, rows: &[Row], moment: u64) -> (u64, u64, u64) {
        let sum = |of: fn(&Row, u64) -> bool| -> u64 {
            rows.iter().filter(|row| of(row, moment)).map(|row| self.blocks[row.kind]).sum()
        };
        let reserved =
            self.ranges.iter().filter(|range| range.is_held_at(moment)).map(|range| range.bytes).sum();
        (sum(Row::is_allocated_at), sum(Row::is_active_at), reserved)
    }
}

/// A table of rows.
pub(super) fn rows(container: &Container, found: &Value) -> Vec<Row> {
    let column = |key: &str| container.read(&found[key]);
    let (begin, life, pending) = (column("begin"), column("life"), column("pending"));
    let (place, kind) = (column("place"), column("kind"));
    let initially: Vec<u64> =
        found["initially_pending"].as_array().unwrap().iter().map(|row| row.as_u64().unwrap()).collect();
    assert!(begin.is_sorted());
    let row = |at: usize| {
        let given_back = (life[at] > 0).then(|| begin[at] + life[at] - 1);
        let completed = given_back.filter(|_| pending[at] > 0).map(|end| end + pending[at] - 1);
        Row {
            begin: begin[at],
            given_back,
            completed,
            is_pending: initially.contains(&(at as u64)),
            place: place[at] as usize,
            kind: kind[at] as usize,
        }
    };
    (0..begin.len()).map(row).collect()
}
