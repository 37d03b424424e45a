//! Bytes of the trace format: the frame of a chunk.
//!
//! Owns what a chunk looks like from outside, on top of the packing that is shared with the
//! analyzer. Does not know what the chunks say, nor the file they go to.

use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::ZlibEncoder;

use crate::budget::Budget;
use crate::column::{pack_delta, pack_offset};
use crate::packer::{MapPacker, Packer};

/// The first bytes of every chunk.
pub(crate) const MAGIC: [u8; 8] = *b"\x97\xa6memlab";
/// Fast: the writer shares the machine with the recorded program.
const LEVEL: u32 = 1;
/// Payloads below do not get smaller by enough.
const WORTH_PACKING: usize = 64;

/// Kinds of chunk that this library writes. The numbers are the file's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Header = 0,
    Tables = 1,
    Process = 6,
    Marks = 7,
    Warnings = 10,
    Samples = 11,
    Driver = 14,
    Trailer = 15,
    Native = 16,
}

/// A chunk: facts and payload, and what it costs a reader.
#[derive(Debug)]
pub(crate) struct Chunk {
    kind: Kind,
    facts: MapPacker,
    payload: MapPacker,
    /// As in the format's table of costs; the payload's length is added where that says so.
    cost: fn(rows: u64, payload: u64) -> u64,
    rows: u64,
}

impl Chunk {
    /// A chunk without rows that cost.
    pub(crate) fn new(kind: Kind) -> Self {
        Self::with_cost(kind, 0, |_, _| 0)
    }

    /// A chunk whose cost is `cost(rows, bytes of payload)`.
    pub(crate) fn with_cost(kind: Kind, rows: u64, cost: fn(u64, u64) -> u64) -> Self {
        Self { kind, facts: MapPacker::default(), payload: MapPacker::default(), cost, rows }
    }

    /// Packs a fact.
    pub(crate) fn fact(&mut self, key: &str) -> &mut Packer {
        self.facts.key(key)
    }

    /// Packs an entry of the payload.
    pub(crate) fn entry(&mut self, key: &str) -> &mut Packer {
        self.payload.key(key)
    }

    /// Packs a column in at least `least_width` bytes a row.
    pub(crate) fn column(&mut self, key: &str, values: &[u64], least_width: usize) {
        pack_offset(self.payload.key(key), values, least_width);
    }

    /// Packs a column that grows.
    pub(crate) fn growing(&mut self, key: &str, values: &[u64]) {
        pack_delta(self.payload.key(key), values);
    }

    /// Packs a column unless all rows are 0.
    pub(crate) fn column_if_used(&mut self, key: &str, values: &[u64]) {
        if values.iter().any(|&value| value != 0) {
            self.column(key, values, 0);
        }
    }
}

/// Packs chunks one after the other and keeps account of what they cost a reader.
#[derive(Debug, Default)]
pub(crate) struct Framer {
    bytes: usize,
    events: Budget,
    tables: Budget,
}

impl Framer {
    /// The bytes of `chunk`, which go to the end of the file.
    ///
    /// # Errors
    /// What the compressor says.
    pub(crate) fn frame(&mut self, chunk: Chunk) -> io::Result<Vec<u8>> {
        let (facts, raw) = (chunk.facts.into_bytes(), chunk.payload.into_payload());
        let packed = if raw.len() < WORTH_PACKING { raw.clone() } else { deflate(&raw)? };
        let cost = (chunk.cost)(chunk.rows, raw.len() as u64);
        let is_table = matches!(chunk.kind, Kind::Tables | Kind::Native);
        let account = if is_table { &mut self.tables } else { &mut self.events };
        let shorter = packed.len() < raw.len();
        let mut bytes = frame(chunk.kind, &facts, raw.len(), shorter, if shorter { &packed } else { &raw });
        if !account.spend(cost, self.bytes + bytes.len()) && shorter {
            bytes = frame(chunk.kind, &facts, raw.len(), false, &raw);
            account.spend(cost, self.bytes + bytes.len());
        }
        self.bytes += bytes.len();
        Ok(bytes)
    }
}

fn deflate(raw: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::with_capacity(raw.len() / 2), Compression::new(LEVEL));
    encoder.write_all(raw)?;
    encoder.finish()
}

fn frame(kind: Kind, facts: &[u8], raw_len: usize, is_zlib: bool, stored: &[u8]) -> Vec<u8> {
    let mut chunk = Packer::default();
    chunk.raw(&MAGIC).uint(kind as u64).uint(if is_zlib { 2 } else { 0 }).uint(raw_len as u64);
    chunk.raw(facts).bin(stored);
    let checksum = crc32fast::hash(chunk.bytes());
    chunk.uint(checksum.into());
    chunk.into_bytes()
}
