//! Import: bytes → trace.
//!
//! Owns the one entry that looks at the first bytes and picks a reader: memlab's own format, PyTorch's
//! snapshot as pickle or JSON, each plain, gzip or zstd. Never executes anything from a file, never
//! allocates what a file merely claims. Does not judge what was recorded: that is `rebuild`.

mod ahead;
mod graph;
mod json;
mod pickle;
mod rows;
mod snapshot;
mod source;
mod stream;
mod unpack;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use crate::error::{Error, Result};
use crate::format::{self, Checksums, Recording};
use crate::model::{DeviceId, Outline, Trace};

use graph::Graph;
use rows::Rows;

pub use stream::open_log;

/// Told how far reading is: bytes done, bytes in all (unpacked).
type Progress<'a> = dyn Fn(u64, u64) + Sync + 'a;

/// Limits of reading.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Most bytes that a file may have, unpacked.
    pub max_bytes: u64,
    /// How many times its size a compressed file may grow when it is unpacked (beyond the first 16 MiB,
    /// which are free). Real snapshots reach 10 to 20.
    pub max_unpack_ratio: u64,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { max_bytes: 64 << 30, max_unpack_ratio: 100 }
    }
}

/// Reads the trace in file `path`; `-` is standard input.
///
/// # Errors
/// When the file cannot be read, is nothing that memlab knows, contradicts itself or goes beyond a limit.
pub fn read_path(path: &Path, options: &ReadOptions, progress: &Progress<'_>) -> Result<Trace> {
    let source = source::open(path, options)?;
    read_packed(source.bytes(), options, progress)
}

/// As [`read_path`], with only the events of each device that `windows` asks for, where the file allows that: see
/// [`Recording::part`]. Of snapshots all events are read.
///
/// # Errors
/// As [`read_path`].
pub fn read_part(
    path: &Path,
    options: &ReadOptions,
    progress: &Progress<'_>,
    windows: &(dyn Fn(&Recording<'_>) -> BTreeMap<DeviceId, Range<u64>> + Sync),
) -> Result<Trace> {
    let source = source::open(path, options)?;
    let unpacked = unpack::unpack(source.bytes(), options)?;
    let bytes = unpacked.as_ref().map_or(source.bytes(), |unpacked| &unpacked.bytes);
    if sniff(bytes) != Kind::Memlab || bytes.len() as u64 > options.max_bytes {
        return read_unpacked(source.bytes(), unpacked, options, progress);
    }
    let recording = Recording::open(bytes)?;
    let wanted = windows(&recording);
    let mut trace = recording.part(&wanted);
    note_cut(&mut trace, unpacked.and_then(|unpacked| unpacked.fault));
    Ok(trace)
}

/// Most bytes of a trace whose checksums are all computed for an outline. A few milliseconds are not noticed; a
/// longer file would be read from disk for nothing else.
const CHECKED_BYTES: usize = 16 << 20;

/// As [`read_path`], with the events counted. Events of memlab's own traces are not decoded for that, and those of
/// a file over 16 MiB not even read; snapshots have no index and are read whole, packed files are unpacked.
///
/// # Errors
/// As [`read_path`].
pub fn outline_path(path: &Path, options: &ReadOptions, progress: &Progress<'_>) -> Result<Outline> {
    let source = source::open(path, options)?;
    let unpacked = unpack::unpack(source.bytes(), options)?;
    let bytes = unpacked.as_ref().map_or(source.bytes(), |unpacked| &unpacked.bytes);
    if sniff(bytes) != Kind::Memlab || bytes.len() as u64 > options.max_bytes {
        return read_unpacked(source.bytes(), unpacked, options, progress).map(Outline::of);
    }
    let is_long = unpacked.is_none() && source.is_mapped() && bytes.len() > CHECKED_BYTES;
    let checksums = if is_long { Checksums::AllButEvents } else { Checksums::All };
    let mut outline = format::outline(bytes, checksums)?;
    note_cut(&mut outline.trace, unpacked.and_then(|unpacked| unpacked.fault));
    Ok(outline)
}

/// Whether `path` is a file that [`with_recording`] can open, by its first bytes.
#[must_use]
pub fn is_recording(path: &Path) -> bool {
    use std::io::Read as _;
    let mut start = Vec::new();
    let file =
        std::fs::File::open(path).ok().filter(|file| file.metadata().is_ok_and(|facts| facts.is_file()));
    file.is_some_and(|file| file.take(16).read_to_end(&mut start).is_ok() && format::is_trace(&start))
}

/// Gives `work` the trace in file `path` with its events still packed, to be read in pieces. `None` when there is none
/// that can be: a snapshot has to be parsed as a whole, and what is packed itself, or comes from a pipe, is in memory anyway.
///
/// # Errors
/// As [`read_path`].
pub fn with_recording<T>(
    path: &Path,
    options: &ReadOptions,
    work: impl FnOnce(Recording<'_>) -> T,
) -> Result<Option<T>> {
    let source = source::open(path, options)?;
    let bytes = source.bytes();
    if !format::is_trace(bytes) || bytes.len() as u64 > options.max_bytes {
        return Ok(None);
    }
    Recording::open(bytes).map(|recording| Some(work(recording)))
}

/// What a file held.
#[derive(Debug)]
pub enum Found<T> {
    /// A trace.
    Trace(Box<Trace>),
    /// Something else, that was asked for.
    Other(T),
}

/// As [`read_path`], for a file that may also be another JSON text: what `other` makes of it is returned, and
/// what it does not know is read as a trace.
///
/// # Errors
/// As [`read_path`].
pub fn read_path_or<T>(
    path: &Path,
    options: &ReadOptions,
    progress: &Progress<'_>,
    other: impl Fn(&[u8]) -> Option<T>,
) -> Result<Found<T>> {
    let source = source::open(path, options)?;
    let unpacked = unpack::unpack(source.bytes(), options)?;
    let bytes = unpacked.as_ref().map_or(source.bytes(), |unpacked| &unpacked.bytes);
    if sniff(bytes) == Kind::Json
        && let Some(found) = other(bytes)
    {
        return Ok(Found::Other(found));
    }
    read_unpacked(source.bytes(), unpacked, options, progress).map(|trace| Found::Trace(Box::new(trace)))
}

/// Reads the trace in `bytes`.
///
/// # Errors
/// As [`read_path`].
pub fn read_bytes(bytes: &[u8], options: &ReadOptions) -> Result<Trace> {
    read_packed(bytes, options, &|_, _| {})
}

fn read_packed(bytes: &[u8], options: &ReadOptions, progress: &Progress<'_>) -> Result<Trace> {
    read_unpacked(bytes, unpack::unpack(bytes, options)?, options, progress)
}

/// Reads `unpacked`, or `bytes` where they were not packed.
fn read_unpacked(
    bytes: &[u8],
    unpacked: Option<unpack::Unpacked>,
    options: &ReadOptions,
    progress: &Progress<'_>,
) -> Result<Trace> {
    let Some(unpacked) = unpacked else {
        return read_plain(bytes, options, progress);
    };
    let mut trace = read_plain(&unpacked.bytes, options, progress)?;
    note_cut(&mut trace, unpacked.fault);
    Ok(trace)
}

/// Says that a packed file ended early, if it did.
fn note_cut(trace: &mut Trace, fault: Option<String>) {
    if let Some(fault) = fault {
        trace.complete = false;
        trace.warnings.add_about("truncated", "archive", 1, || fault);
    }
}

fn read_plain(bytes: &[u8], options: &ReadOptions, progress: &Progress<'_>) -> Result<Trace> {
    if bytes.is_empty() {
        return Err(Error::corrupt(0, "the file is empty"));
    }
    if bytes.len() as u64 > options.max_bytes {
        let (what, value) = ("bytes of the file", bytes.len() as u64);
        return Err(Error::LimitExceeded {
            what,
            value,
            limit: options.max_bytes,
            offset: options.max_bytes,
        });
    }
    match sniff(bytes) {
        Kind::Memlab => format::read(bytes),
        Kind::Pickle => ahead::with_pages(bytes, || read_pickle(bytes, true, progress)),
        Kind::Json => read_json(bytes),
        Kind::Unknown => Err(Error::UnknownFormat { what: describe(bytes) }),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Memlab,
    Pickle,
    Json,
    Unknown,
}

/// What `bytes` are. Pickles of protocol 2 and later begin with 0x80; older ones with the opcode of their
/// outermost object, none of which begins a JSON text.
fn sniff(bytes: &[u8]) -> Kind {
    if format::is_trace(bytes) {
        return Kind::Memlab;
    }
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    match (bytes.first(), text.first()) {
        (Some(0x80 | b'(' | b'}' | b']'), _) => Kind::Pickle,
        (_, Some(b'{' | b'[')) => Kind::Json,
        (Some(&first), _) if pickle::is_opcode(first) && bytes.trim_ascii_end().ends_with(b".") => {
            Kind::Pickle
        }
        _ => Kind::Unknown,
    }
}

fn describe(bytes: &[u8]) -> String {
    let start = &bytes[..bytes.len().min(16)];
    match std::str::from_utf8(start) {
        Ok(text) if !text.chars().any(char::is_control) => format!("it begins with `{text}`"),
        _ => {
            let hex: Vec<String> = start.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            format!("it begins with the bytes {}", hex.join(" "))
        }
    }
}

fn read_pickle(bytes: &[u8], shortcuts: bool, progress: &Progress<'_>) -> Result<Trace> {
    let mut rows = Rows::new(bytes.len());
    let parsed = pickle::read(bytes, &mut rows, shortcuts, progress)?;
    snapshot::build(parsed.graph, rows, parsed.root, parsed.truncated, bytes.len())
}

fn read_json(bytes: &[u8]) -> Result<Trace> {
    let mut graph = Graph::new(bytes);
    let root = json::read(bytes, &mut graph)?;
    snapshot::build(graph, Rows::new(bytes.len()), root, false, bytes.len())
}

#[cfg(test)]
mod tests;
