//! Reading a whole trace.
//!
//! Owns the order: find the chunks, check the header, tables, then everything that names them, events last
//! and in parallel. A fault inside one chunk costs that chunk and a warning, nothing else.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::model::{Format, Outline, Trace, Warnings};

use super::budget::Budget;
use super::chunk::{Chunk, Kind, MAGIC};
use super::codec::Unpacker;
use super::cursor::{Fault, Parse};
use super::events_plan::Plan;
use super::fields::read_map;
use super::header::{self, Trailer};
use super::ids::Ids;
use super::native::NativeIds;
use super::reduced::{self, ReducedSoFar};
use super::states::States;
use super::tables::{self, TableFacts};
use super::walk::{Checksums, walk};
use super::{
    annotations, driver, holders, live, marks, native, notes, process, sample_rows, settings, tensors,
};

/// Whether `bytes` begin like a memlab trace of any version. Nine bytes decide.
#[must_use]
pub fn is_trace(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC) && bytes.get(MAGIC.len()) == Some(&(Kind::Header as u8))
}

/// Reads a trace.
///
/// Faults inside the file become warnings of the trace and make it not [`Trace::complete`]: `truncated` (no
/// trailer: the job was killed, or the file was cut), `damaged-chunk`, `missing-chunk`, `missing-table`,
/// `missing-events`, `missing-driver-calls`, `unknown-id`, `trailing-bytes`. `unknown-chunk`, `unknown-key` and `unknown-action` come
/// from newer minor versions; they leave it complete.
///
/// # Errors
/// [`Error::UnknownFormat`] when the bytes do not begin like a trace, [`Error::UnsupportedVersion`] when they
/// are of a newer major version, [`Error::Corrupt`] when the header contradicts itself no chunk is whole,
/// [`Error::Shape`] when a reduced recording lacks its report.
pub fn read(bytes: &[u8]) -> Result<Trace> {
    let Unread { plan, mut trace, ids, recorded, .. } = read_but_events(bytes, Checksums::All)?;
    plan.decode(&mut trace, &ids);
    trace.warnings.merge(recorded);
    Ok(trace)
}

/// As [`read()`], with the events counted and not decoded: in a small part of the time, and in memory that
/// does not grow with them. Where a chunk of events states its counts (since version 1.3), its columns are not
/// looked at; with [`Checksums::AllButEvents`] its payload is not even touched, and
/// [`Outline::unchecked_chunks`] says of how many chunks that is true. A file that looks damaged is read as a
/// whole, to say all that is missing.
///
/// # Errors
/// As [`read()`].
pub fn outline(bytes: &[u8], checksums: Checksums) -> Result<Outline> {
    if checksums == Checksums::AllButEvents
        && let Ok((found, false)) = outline_checked(bytes, checksums)
    {
        return Ok(found);
    }
    outline_checked(bytes, Checksums::All).map(|(found, _)| found)
}

/// Warnings that facts under a wrong checksum could be the cause of.
const DOUBTS: [&str; 7] = [
    "damaged-chunk",
    "missing-chunk",
    "missing-events",
    "unknown-action",
    "unknown-key",
    "wrong-fact",
    "trailing-bytes",
];

/// Also answers whether something about the file is in doubt. What the file itself holds of warnings is no doubt.
fn outline_checked(bytes: &[u8], checksums: Checksums) -> Result<(Outline, bool)> {
    let Unread { plan, mut trace, ids, recorded, .. } = read_but_events(bytes, checksums)?;
    let is_damage = |kind: &str| matches!(kind, "damaged-chunk" | "missing-table" | "unknown-id");
    let mut outline = if trace.warnings.iter().any(|warning| is_damage(warning.kind)) {
        plan.decode(&mut trace, &ids);
        Outline::of(trace)
    } else {
        plan.count(checksums, trace)
    };
    let is_doubtful = outline.trace.warnings.iter().any(|warning| DOUBTS.contains(&warning.kind));
    outline.trace.warnings.merge(recorded);
    Ok((outline, is_doubtful))
}

/// A trace, and what is not decoded of it.
pub(super) struct Unread<'a> {
    pub(super) trace: Trace,
    /// Warnings that the file holds, which whoever goes on is to add.
    pub(super) recorded: Warnings,
    pub(super) ids: Ids,
    /// All events.
    pub(super) plan: Plan<'a>,
    /// All states; the final ones are in the trace already.
    pub(super) states: States<'a>,
}

/// Reads everything but events and states from before the end, for which there are plans.
pub(super) fn read_but_events(bytes: &[u8], checksums: Checksums) -> Result<Unread<'_>> {
    if !is_trace(bytes) {
        let what = if bytes.is_empty() { "it is empty".to_owned() } else { format!("{:02x?}", start(bytes)) };
        return Err(Error::UnknownFormat { what });
    }
    let mut context = Context::new();
    let found = walk(bytes, checksums, &mut context.trace.warnings);
    let Some(first) = found.chunks.first() else {
        return Err(Error::corrupt(0, "no whole chunk"));
    };
    context.trace.complete = found.intact && found.cut_bytes == 0;
    if first.kind == Kind::Header as u64 {
        context.reduced.is_reduced = header::check(first, &mut context.trace.warnings)?;
    }
    let end = recording_end(&found.chunks, bytes.len(), &mut context.trace);
    let mut reading = Reading::default();
    for chunk in &found.chunks[..end] {
        let read = match Kind::from_number(chunk.kind) {
            Some(Kind::Tables) => context.tables(chunk),
            Some(Kind::Native) => native::read(chunk, &mut context),
            _ => Ok(()),
        };
        if let Err(fault) = read {
            damaged(&mut context.trace, chunk, fault);
        }
    }
    for chunk in &found.chunks[..end] {
        if let Err(fault) = reading.take(chunk, &mut context) {
            damaged(&mut context.trace, chunk, fault);
        }
    }
    let reduced = std::mem::take(&mut context.reduced);
    let (plan, states) = reading.finish(&mut context, end as u64, found.cut_bytes);
    if reduced.is_reduced {
        take_reduced(reduced, plan.has_events(), &mut context.trace)?;
    }
    let Context { trace, ids, recorded, .. } = context;
    Ok(Unread { trace, recorded, ids, plan, states })
}

/// Gives `trace` its report. Without it, a reduced recording would pass for one in which nothing happened.
fn take_reduced(reduced: ReducedSoFar, has_events: bool, trace: &mut Trace) -> Result<()> {
    let Some(whole) = reduced.whole() else {
        let what = "this is a reduced recording, and its report is damaged or missing".to_owned();
        return Err(Error::Shape { what });
    };
    if has_events {
        let what = "this is a reduced recording, and yet it has events".to_owned();
        return Err(Error::Shape { what });
    }
    trace.reduced = Some(Box::new(whole));
    Ok(())
}

fn start(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(MAGIC.len())]
}

/// What reading needs at every chunk.
pub(super) struct Context {
    pub(super) trace: Trace,
    pub(super) ids: Ids,
    pub(super) native_ids: NativeIds,
    pub(super) budget: Budget,
    table_budget: Budget,
    pub(super) unpacker: Unpacker,
    /// Warnings that the file itself holds, so far.
    pub(super) recorded_warnings: u64,
    /// These warnings.
    pub(super) recorded: Warnings,
    /// The report that stands in place of events, so far.
    pub(super) reduced: ReducedSoFar,
    /// Names of counters in samples, each once.
    pub(super) stat_names: BTreeSet<Arc<str>>,
}

impl Context {
    fn new() -> Self {
        let trace = Trace { format: Format::MemlabTrace, ..Trace::default() };
        Self {
            trace,
            ids: Ids::default(),
            native_ids: NativeIds::default(),
            budget: Budget::default(),
            table_budget: Budget::default(),
            unpacker: Unpacker::default(),
            recorded_warnings: 0,
            recorded: Warnings::default(),
            reduced: ReducedSoFar::default(),
            stat_names: BTreeSet::new(),
        }
    }

    fn tables(&mut self, chunk: &Chunk<'_>) -> Parse<()> {
        let facts = TableFacts::read(chunk, &mut self.trace.warnings)?;
        self.spend_on_tables(facts.cost(chunk.raw_len), chunk.end)?;
        tables::read(chunk, &facts, &mut self.trace, &mut self.ids, &mut self.unpacker)
    }

    /// Spends `cost` on a chunk of tables that ends at byte `end`.
    pub(super) fn spend_on_tables(&mut self, cost: u64, end: usize) -> Parse<()> {
        if self.table_budget.spend(cost, end) {
            Ok(())
        } else {
            Err(Fault::Wrong("larger tables than a file of this length may hold"))
        }
    }
}

/// What is put together only at the end.
#[derive(Default)]
struct Reading<'a> {
    plan: Plan<'a>,
    states: States<'a>,
    trailer: Option<Trailer>,
}

impl<'a> Reading<'a> {
    fn take(&mut self, chunk: &Chunk<'a>, context: &mut Context) -> Parse<()> {
        let Some(kind) = Kind::from_number(chunk.kind) else {
            context.trace.warnings.add("unknown-chunk", || {
                format!("chunks of kind {} are not known to this version and were skipped", chunk.kind)
            });
            return Ok(());
        };
        match kind {
            Kind::Header | Kind::Tables | Kind::Native => Ok(()),
            Kind::Driver => driver::read(chunk, context),
            Kind::Events => self.plan.add(chunk, &mut context.budget, &mut context.trace),
            Kind::Segments => self.states.add(chunk, context),
            Kind::Settings => settings::read(chunk, context),
            Kind::Annotations => annotations::read(chunk, context),
            Kind::Process => process::read(chunk, context),
            Kind::Marks => marks::read(chunk, context),
            Kind::Tensors => tensors::read(chunk, context),
            Kind::Holders => holders::read(chunk, context),
            Kind::Warnings => notes::read(chunk, context),
            Kind::Samples => sample_rows::read(chunk, context),
            Kind::Reduced => reduced::read(chunk, context),
            Kind::Live => live::read(chunk, context),
            Kind::Trailer => {
                self.trailer = Some(Trailer::read(chunk, &mut context.trace.warnings)?);
                Ok(())
            }
        }
    }

    fn finish(self, context: &mut Context, chunks: u64, cut_bytes: usize) -> (Plan<'a>, States<'a>) {
        let Context { trace, ids, .. } = context;
        for device in self.states.devices() {
            self.states.decode_final(device, self.plan.end_of(device), trace, ids);
        }
        if let Some(trailer) = &self.trailer {
            // The trailer counts the chunks before it.
            trailer.compare(trace, &self.plan, chunks.saturating_sub(1));
        } else {
            trace.complete = false;
            trace.warnings.add("truncated", || {
                format!(
                    "the recording was not closed: there is no trailer, and the last {cut_bytes} bytes hold no whole chunk"
                )
            });
        }
        driver::finish(trace, self.trailer.as_ref().and_then(|trailer| trailer.driver));
        (self.plan, self.states)
    }
}

/// How many chunks belong to the recording: up to its trailer, or to the header of another one.
fn recording_end(chunks: &[Chunk<'_>], length: usize, trace: &mut Trace) -> usize {
    let trailer = chunks.iter().position(|chunk| chunk.kind == Kind::Trailer as u64);
    let second = chunks.iter().skip(1).position(|chunk| chunk.kind == Kind::Header as u64);
    let end = match (trailer, second) {
        (Some(trailer), Some(second)) => (trailer + 1).min(second + 1),
        (Some(trailer), None) => trailer + 1,
        (None, Some(second)) => second + 1,
        (None, None) => return chunks.len(),
    };
    let at = chunks[end - 1].end;
    if at < length {
        trace.warnings.add("trailing-bytes", || {
            format!("{} bytes behind the end of the recording, at byte {at}, were not read", length - at)
        });
    }
    end
}

/// Says that a chunk was skipped.
pub(super) fn damaged(trace: &mut Trace, chunk: &Chunk<'_>, fault: Fault) {
    trace.complete = false;
    trace.warnings.add("damaged-chunk", || {
        format!("the chunk of kind {} at byte {} was skipped: {}", chunk.kind, chunk.offset, fault.what())
    });
}

/// The facts of chunks that state nothing but their number of rows.
pub(super) fn read_count(chunk: &Chunk<'_>, context: &mut Context) -> Parse<usize> {
    let mut count = 0;
    read_map(chunk.facts, &mut context.trace.warnings, |key, cursor| {
        if key != "count" {
            return Ok(false);
        }
        count = cursor.uint32()? as usize;
        Ok(true)
    })?;
    Ok(count)
}
