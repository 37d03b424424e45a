//! The file of one process.
//!
//! Owns who gets which name, the order of chunks and the trailer. Every chunk goes out in one write, so a killed
//! process leaves at most one of them cut.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::budget;
use crate::call::Row;
use crate::process::{self, Facts};
use crate::readings;
use crate::settings::with_pid;
use crate::waiting::Batch;
use crate::wire::{Chunk, Framer, Kind, MAGIC};

/// Rows in a chunk.
const CHUNK_ROWS: usize = 16_384;
/// Cost of a row to a reader, as the format says.
const ROW: u64 = 128;
/// Longest tick of a kernel's clock, twice.
const TICK_US: i64 = 20_000;
/// Major and minor version of the format.
const VERSION: (u64, u64) = (1, 4);
pub(crate) const WRITER: &str = concat!("memlab-inject ", env!("CARGO_PKG_VERSION"));

/// See the module's text.
pub(crate) struct Output {
    path: PathBuf,
    pid: i32,
    is_forked: bool,
    since_us: i64,
    facts: Facts,
    /// Whether the file says them already.
    facts_are_written: bool,
    state: State,
    framer: Framer,
    chunks: u64,
    rows: u64,
    is_clean: bool,
}

enum State {
    /// No file is made before there is something to write.
    Waiting,
    Open(File, u64),
    Closed,
}

impl Output {
    /// The file of process `pid`, at `path` or at one that is derived from it. A file at `path` that is older than
    /// `since_us` (Unix microseconds) is replaced.
    pub(crate) fn new(path: PathBuf, pid: i32, is_forked: bool, since_us: i64) -> Self {
        Self {
            path,
            pid,
            is_forked,
            since_us,
            facts: Facts::default(),
            facts_are_written: false,
            state: State::Waiting,
            framer: Framer::default(),
            chunks: 0,
            rows: 0,
            is_clean: true,
        }
    }

    /// Where the file is, or is going to be.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Has the file say what is known of the process, with the next chunk that is written: as soon as it says something
    /// else than before, and counts at the end (`is_last`).
    pub(crate) fn set_facts(&mut self, facts: Facts, is_last: bool) {
        if facts != self.facts && (is_last || !facts.differ_in_counts_only(&self.facts)) {
            self.facts = facts;
            self.facts_are_written = false;
        }
    }

    /// Writes a batch; a file that is closed takes nothing more.
    pub(crate) fn write(&mut self, batch: Batch) -> io::Result<()> {
        if !self.open()? {
            return Ok(());
        }
        for chunk in batch.tables {
            self.put(chunk)?;
        }
        for rows in batch.rows.chunks(CHUNK_ROWS) {
            let chunk = driver(rows, self.rows);
            self.put(chunk)?;
            self.rows += rows.len() as u64;
        }
        if !batch.samples.is_empty() {
            self.put(readings::chunk(&batch.samples))?;
        }
        if !batch.faults.is_empty() {
            self.is_clean = false;
            self.put(marks(&batch.faults))?;
            self.put(warnings(&batch.faults))?;
        }
        Ok(())
    }

    /// Writes the trailer, if there is a file. Answers how many calls are in it, if it was closed by this.
    pub(crate) fn close(&mut self) -> io::Result<Option<u64>> {
        let is_open = matches!(self.state, State::Open(..));
        if is_open {
            self.write_facts()?;
            let mut chunk = Chunk::new(Kind::Trailer);
            chunk.fact("clean").bool(self.is_clean);
            chunk.fact("chunks").uint(self.chunks);
            chunk.fact("devices").array(0);
            chunk.fact("driver").uint(self.rows);
            self.put(chunk)?;
        }
        self.state = State::Closed;
        Ok(is_open.then_some(self.rows))
    }

    /// Makes the file at the first call. Answers whether it takes chunks.
    fn open(&mut self) -> io::Result<bool> {
        if matches!(self.state, State::Waiting) {
            let file = self.claim().inspect_err(|_| self.state = State::Closed)?;
            self.state = State::Open(file, 0);
            let mut header = Chunk::new(Kind::Header);
            header.fact("version").array(2).uint(VERSION.0).uint(VERSION.1);
            header.fact("writer").text(WRITER);
            self.put(header)?;
        }
        let is_open = matches!(self.state, State::Open(..));
        if is_open {
            self.write_facts()?;
        }
        Ok(is_open)
    }

    fn write_facts(&mut self) -> io::Result<()> {
        if self.facts_are_written {
            return Ok(());
        }
        self.facts_are_written = true;
        let chunk = process::chunk(self.pid, self.is_forked, &self.facts);
        self.put(chunk)
    }

    /// The name itself goes to the process that comes first; a file that is there belongs to another, unless it is
    /// from an earlier recording.
    fn claim(&mut self) -> io::Result<File> {
        // File systems take their time from a clock that lags behind by a tick.
        let is_earlier =
            changed_us(&self.path).is_some_and(|changed| changed.saturating_add(TICK_US) < self.since_us);
        if is_earlier && is_trace(&self.path) {
            std::fs::remove_file(&self.path)?;
        }
        let mut options = OpenOptions::new();
        options.write(true).custom_flags(libc::O_CLOEXEC);
        match options.clone().create_new(true).open(&self.path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                self.path = with_pid(&self.path, self.pid);
                options.create(true).truncate(true).open(&self.path)
            }
            result => result,
        }
    }

    fn put(&mut self, chunk: Chunk) -> io::Result<()> {
        let State::Open(file, length) = &mut self.state else { return Ok(()) };
        let bytes = self.framer.frame(chunk)?;
        if let Err(error) = file.write_all(&bytes) {
            // What a full disk cut off is taken back: the file stays a row of whole chunks.
            _ = file.set_len(*length);
            self.state = State::Closed;
            return Err(error);
        }
        *length += bytes.len() as u64;
        self.chunks += 1;
        Ok(())
    }
}

/// Whether the file begins as a trace does: any other is not ours to replace.
fn is_trace(path: &Path) -> bool {
    let mut start = [0; MAGIC.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == MAGIC
}

/// When the file was last written to, in Unix microseconds.
fn changed_us(path: &Path) -> Option<i64> {
    let changed = path.metadata().and_then(|meta| meta.modified()).ok()?;
    changed.duration_since(UNIX_EPOCH).ok().map(|time| time.as_micros() as i64)
}

/// A column's value in a row.
type Of = fn(&Row) -> u64;

/// Rows of calls, the first of which is number `first` of the file.
fn driver(rows: &[Row], first: u64) -> Chunk {
    let mut chunk = Chunk::with_cost(Kind::Driver, rows.len() as u64, |rows, _| budget::rows(rows, ROW));
    chunk.fact("first").uint(first);
    chunk.fact("count").uint(rows.len() as u64);
    let times = rows.iter().map(|row| row.time_us);
    chunk.fact("start_us").int(times.clone().min().unwrap_or(0));
    chunk.fact("end_us").int(times.max().unwrap_or(0));
    let mut calls = [0u64; 256];
    for row in rows {
        calls[usize::from(row.code)] += 1;
    }
    let used = calls.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
    let packer = chunk.fact("calls").array(used);
    for &count in &calls[..used] {
        packer.uint(count);
    }
    let column = |of: Of| rows.iter().map(of).collect::<Vec<u64>>();
    chunk.column("call", &column(|row| row.code.into()), 1);
    chunk.growing("order", &column(|row| row.order));
    chunk.growing("time", &column(|row| row.time_us as u64));
    let others: [(&str, Of); 13] = [
        ("result", |row| row.result.into()),
        ("device", |row| row.device.into()),
        ("context", |row| row.context),
        ("stream", |row| row.seen.stream),
        ("address", |row| row.seen.address),
        ("bytes", |row| row.seen.bytes),
        ("handle", |row| row.seen.handle),
        ("offset", |row| row.seen.offset),
        ("flags", |row| row.seen.flags),
        ("thread", |row| row.thread.into()),
        ("depth", |row| row.depth.into()),
        ("native", |row| row.native.into()),
        ("python", |row| row.python.into()),
    ];
    for (key, of) in others {
        chunk.column_if_used(key, &column(of));
    }
    chunk
}

/// Faults of the recorder, as marks.
fn marks(faults: &[(i64, String)]) -> Chunk {
    const FAULT: u64 = 4;
    let bytes: usize = faults.iter().map(|fault| fault.1.len()).sum();
    let cost = faults.len() as u64 * budget::NOTE + bytes as u64;
    let mut chunk = Chunk::with_cost(Kind::Marks, cost, |cost, _| cost);
    chunk.fact("count").uint(faults.len() as u64);
    let texts = chunk.entry("texts").array(faults.len());
    for (_, text) in faults {
        texts.text(text);
    }
    let column = |of: fn(usize, i64) -> u64| {
        faults.iter().enumerate().map(|(at, fault)| of(at, fault.0)).collect::<Vec<u64>>()
    };
    chunk.column("kind", &column(|_, _| FAULT), 1);
    chunk.column("name", &column(|at, _| at as u64), 1);
    chunk.column("time", &column(|_, time| time as u64), 1);
    chunk.column("begins", &column(|_, _| 0), 1);
    chunk
}

fn warnings(faults: &[(i64, String)]) -> Chunk {
    let mut chunk = Chunk::with_cost(Kind::Warnings, 0, |_, bytes| budget::rows(bytes, budget::PLAIN_BYTE));
    let warnings = chunk.entry("warnings").array(faults.len());
    for (_, text) in faults {
        warnings.array(3).text("driver-recorder").uint(1).text(text);
    }
    chunk
}
