//! Inputs: checked, read side by side, kept in the order of the arguments.
//!
//! Owns the policy of standard input (only when asked for by `-`, only once, never from a terminal) and the
//! parallel run over several traces. One that fails does not stop the others.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rayon::prelude::*;

use super::Status;
use super::budget::{self, Budget};
use super::companion;
use super::console::{Console, shown};
use super::failure::refuse;
use super::progress::Progress;
use crate::analysis::{self, Part, Room};
use crate::format::Recording;
use crate::import::{self, ReadOptions};
use crate::model::{DeviceId, DeviceTrace, Outline, Trace};
use crate::report::escape::terminal;
use crate::units::{Bytes, Count};

/// A trace as it came in.
#[derive(Debug)]
pub(crate) struct Input {
    /// Path as given; it stands in reports.
    pub label: String,
    /// Size of the file as it is stored, in bytes.
    pub file_bytes: u64,
    /// What is in it.
    pub trace: Trace,
    /// How long reading took.
    read_in: Duration,
}

/// What a file holds, its events counted.
#[derive(Debug)]
pub(crate) struct Outlined {
    /// Path as given.
    pub label: String,
    /// Size of the file as it is stored, in bytes.
    pub file_bytes: u64,
    /// What is in it.
    pub outline: Outline,
}

/// Reads every path and does `work` on it, in parallel; results are in the order of `paths`.
///
/// # Errors
/// Only when standard input is asked for and cannot be used. What goes wrong with one path is in its result.
pub(crate) fn each<T: Send>(
    paths: &[PathBuf],
    console: &Console,
    work: impl Fn(Input) -> anyhow::Result<T> + Sync,
) -> anyhow::Result<Vec<anyhow::Result<T>>> {
    each_read(paths, console, |path, progress| worked(path, None, progress, &work))
}

/// As [`each`], with the events of the files counted only; decoded for that where all is to be verified.
pub(crate) fn each_outlined<T: Send>(
    paths: &[PathBuf],
    verify: bool,
    console: &Console,
    work: impl Fn(Outlined) -> T + Sync,
) -> anyhow::Result<Vec<anyhow::Result<T>>> {
    each_read(paths, console, |path, progress| {
        let how = |tick: &(dyn Fn(u64, u64) + Sync)| {
            let options = ReadOptions::default();
            if verify {
                return import::read_path(path, &options, tick).map(Outline::of);
            }
            import::outline_path(path, &options, tick)
        };
        let (mut outline, file_bytes, read_in) = watched(path, progress, how)?;
        companion::add(path, &mut outline.trace);
        let label = path.display().to_string();
        let note = read_note(&label, file_bytes, outline.events(), read_in);
        Ok((work(Outlined { label, file_bytes, outline }), note))
    })
}

/// Does `work`, which also gives what to say of the reading, on every path.
fn each_read<T: Send>(
    paths: &[PathBuf],
    console: &Console,
    work: impl Fn(&Path, &Progress) -> anyhow::Result<(T, String)> + Sync,
) -> anyhow::Result<Vec<anyhow::Result<T>>> {
    check_standard_input(paths)?;
    let progress = console.progress();
    let results: Vec<_> = paths.par_iter().map(|path| work(path, &progress)).collect();
    drop(progress);
    Ok(noted(results, console))
}

/// A trace whose events are still packed, as they would not fit.
pub(crate) struct Packed<'a> {
    /// Path as given.
    pub label: String,
    /// What is in it.
    pub recording: Recording<'a>,
    /// How much of it may be in memory.
    pub room: Room,
}

/// What is made of a trace that is read in pieces; told its place.
pub(crate) type InPieces<'a, T> = dyn Fn(usize, Packed<'_>) -> anyhow::Result<T> + Sync + 'a;

/// Reads every path and does `work` on it, told its place among `paths`; results are in their order. No more files are
/// in memory at a time than `budget` allows, and of each only `part` where that is possible. A trace that alone is too large for it is handed to `in_pieces`, where
/// there is one, and which looks at its events `rounds` times.
///
/// # Errors
/// Those of [`each`]. `work` says itself what it failed to do.
pub(crate) fn within<T: Send>(
    paths: &[PathBuf],
    part: Option<&Part>,
    budget: &Budget,
    console: &Console,
    work: impl Fn(usize, Input) -> anyhow::Result<T> + Sync,
    in_pieces: Option<&InPieces<'_, T>>,
    rounds: u64,
) -> anyhow::Result<Vec<anyhow::Result<T>>> {
    check_standard_input(paths)?;
    let costs: Vec<u64> = paths.iter().map(|path| budget::cost(path)).collect();
    let is_too_large: Vec<bool> = costs.iter().map(|&cost| cost > budget.bytes).collect();
    let goes_in_pieces =
        |place: usize| in_pieces.filter(|_| is_too_large[place] && import::is_recording(&paths[place]));
    for place in (0..paths.len()).filter(|&place| is_too_large[place]) {
        let how = match goes_in_pieces(place) {
            Some(_) => "read in pieces",
            None if paths.len() > 1 || budget.is_asked => "analyzed alone",
            None => continue,
        };
        let (cost, bytes) = (Bytes(costs[place]), Bytes(budget.bytes));
        let text = format!("takes about {cost}, more than the budget of {bytes}: it is {how}");
        console.warning(&paths[place].display().to_string(), &text, 1);
    }
    let progress = console.progress();
    progress.expect_files(paths.len());
    let results = budget.run(&costs, |place| {
        let path = &paths[place];
        let result = match goes_in_pieces(place) {
            Some(work) => packed(path, (budget.room(), rounds), &progress, |packed| work(place, packed)),
            None => read_asked(path, part, &progress).and_then(|input| {
                let note = input.read_note();
                Ok((work(place, input)?, note))
            }),
        };
        progress.file_done();
        result
    });
    drop(progress);
    Ok(noted(results, console))
}

/// What `work` makes of the trace at `path` in pieces, and what to say of it.
fn packed<T>(
    path: &Path,
    (room, rounds): (Room, u64),
    progress: &Progress,
    work: impl FnOnce(Packed<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<(T, String)> {
    let (label, began) = (path.display().to_string(), Instant::now());
    let file_bytes = path.metadata().map_or(0, |facts| facts.len());
    let opened = import::with_recording(path, &ReadOptions::default(), |mut recording| {
        recording.add(|trace| companion::add(path, trace));
        let devices = recording.trace().devices.iter();
        let events: u64 = devices.map(|entry| recording.events(entry.device)).sum();
        let (tick, all) = (progress.input(), events.saturating_mul(rounds).max(1));
        tick(0, file_bytes);
        recording.on_progress(move |seen| {
            let share = u128::from(file_bytes) * u128::from(seen.min(all)) / u128::from(all);
            tick(share as u64, file_bytes);
        });
        work(Packed { label: label.clone(), recording, room })
    });
    let result = opened.with_context(|| format!("failed to read {}", shown(path)))?;
    let note = format!(
        "Read {label} in pieces of {} events in {:.1?}",
        Count(room.piece_events as u64),
        began.elapsed()
    );
    match result {
        Some(result) => Ok((result?, note)),
        None => Err(refuse(format!("{} is no trace any more", shown(path)), "was it written to meanwhile?")),
    }
}

/// What `work` makes of the file at `path`, and how reading it went.
fn worked<T>(
    path: &Path,
    part: Option<&Part>,
    progress: &Progress,
    work: impl Fn(Input) -> anyhow::Result<T>,
) -> anyhow::Result<(T, String)> {
    let input = read_asked(path, part, progress)?;
    let note = input.read_note();
    let result = work(input).with_context(|| format!("failed to analyze {}", shown(path)))?;
    Ok((result, note))
}

/// The results alone; what is to be said of reading each is said.
fn noted<T>(results: Vec<anyhow::Result<(T, String)>>, console: &Console) -> Vec<anyhow::Result<T>> {
    let tell = |(result, note): (T, String)| {
        console.detail(&note);
        result
    };
    results.into_iter().map(|result| result.map(tell)).collect()
}

/// As [`each`], for a single path.
pub(crate) fn one<T: Send>(
    path: &Path,
    console: &Console,
    work: impl Fn(Input) -> anyhow::Result<T> + Sync,
) -> anyhow::Result<T> {
    each(&[path.to_owned()], console, work)?.pop().expect("one path gives one result")
}

/// As [`one`], with only `part` of the recording where that is possible.
pub(crate) fn one_part<T: Send>(
    path: &Path,
    part: Option<&Part>,
    console: &Console,
    work: impl Fn(Input) -> anyhow::Result<T> + Sync,
) -> anyhow::Result<T> {
    let read = |path: &Path, progress: &Progress| worked(path, part, progress, &work);
    each_read(&[path.to_owned()], console, read)?.pop().expect("one path gives one result")
}

/// What an input of `memlab diff` is.
#[derive(Debug)]
pub(crate) enum Either {
    /// A recording.
    Trace(Box<Input>),
    /// The JSON of an earlier analysis.
    Report {
        /// Path as given.
        label: String,
        /// All of it.
        report: serde_json::Value,
    },
}

/// Reads both paths, side by side, and does `work` on what each is; told its place, 0 or 1.
pub(crate) fn both<T: Send>(
    paths: &[PathBuf; 2],
    console: &Console,
    work: impl Fn(usize, Either) -> anyhow::Result<T> + Sync,
) -> anyhow::Result<[T; 2]> {
    check_standard_input(paths)?;
    let progress = console.progress();
    let one = |place: usize| -> anyhow::Result<(T, Option<String>)> {
        let path = &paths[place];
        let found = read_either(path, &progress, analysis::report_in)?;
        let note = match &found {
            Either::Trace(input) => Some(input.read_note()),
            Either::Report { .. } => None,
        };
        let result = work(place, found).with_context(|| format!("failed to analyze {}", shown(path)))?;
        Ok((result, note))
    };
    let (before, after) = rayon::join(|| one(0), || one(1));
    drop(progress);
    let told = |(result, note): (T, Option<String>)| {
        if let Some(note) = note {
            console.detail(&note);
        }
        result
    };
    Ok([told(before?), told(after?)])
}

/// Shows the failures among `results` and keeps the others, each with its place in the arguments.
pub(crate) fn keep_good<T>(results: Vec<anyhow::Result<T>>, console: &Console) -> (Vec<(usize, T)>, Status) {
    let mut status = Status::Done;
    let mut good = Vec::with_capacity(results.len());
    for (place, result) in results.into_iter().enumerate() {
        match result {
            Ok(value) => good.push((place, value)),
            Err(error) => {
                console.error(&error);
                status = Status::Failed;
            }
        }
    }
    (good, status)
}

/// Refuses a reduced recording where `what` needs events, and says where these are.
pub(crate) fn require_events(trace: &Trace, what: &str) -> anyhow::Result<()> {
    let Some(reduced) = &trace.reduced else { return Ok(()) };
    let origin = &reduced.origin;
    let (name, sha256) = (terminal(&origin.name), terminal(&origin.sha256));
    Err(refuse(
        format!("{what} needs the events, and this is a reduced recording without them"),
        format!("use the original: {name}, {} bytes, SHA-256 {sha256}", Count(origin.bytes)),
    ))
}

/// Refuses a trace of driver calls alone where `what` is about the allocator, rather than showing nothing.
pub(crate) fn require_allocator(trace: &Trace, what: &str) -> anyhow::Result<()> {
    let has_calls_alone = trace.devices.is_empty() && has_driver(trace);
    if !has_calls_alone {
        return Ok(());
    }
    Err(refuse(
        format!("{what} is about PyTorch's allocator, and this trace has driver calls only"),
        "`memlab analyze` shows them; `memlab run --driver` records both",
    ))
}

/// Whether driver calls were recorded, also where only their report is left.
fn has_driver(trace: &Trace) -> bool {
    trace.driver.is_some() || trace.reduced.is_some() && trace.process.other.contains_key("driver")
}

/// Refuses a device that is not in the trace, rather than showing nothing.
pub(crate) fn require_device(trace: &Trace, device: Option<u32>) -> anyhow::Result<()> {
    let Some(device) = device.filter(|&device| trace.device(DeviceId(device)).is_none()) else {
        return Ok(());
    };
    let known: Vec<_> = trace.devices.iter().map(|entry| entry.device.0.to_string()).collect();
    let hint = match known.as_slice() {
        [] if has_driver(trace) => "the trace has driver calls only, and shows all their devices".to_owned(),
        [] => "the trace has no device at all".to_owned(),
        _ => format!("the trace has device {}", known.join(", ")),
    };
    Err(refuse(format!("there is no device {device} in the trace"), hint))
}

/// Refuses a window that begins behind the last event.
pub(crate) fn require_window(trace: &Trace, options: &analysis::Options) -> anyhow::Result<()> {
    let from = options.window.as_ref().map(|window| window.start).filter(|&from| from > 0);
    require_event(trace, options.device, from)
}

/// Refuses an event number that no device (or not the chosen one) reaches.
pub(crate) fn require_event(trace: &Trace, device: Option<u32>, event: Option<u64>) -> anyhow::Result<()> {
    let chosen = trace.devices.iter().filter(|entry| device.is_none_or(|device| entry.device.0 == device));
    let events = chosen.map(DeviceTrace::recorded_events).max().unwrap_or(0);
    match event {
        Some(event) if event >= events => Err(refuse(
            format!("there is no event {event} in the trace"),
            format!("events count from 0 on each device, and there are {events}"),
        )),
        _ => Ok(()),
    }
}

impl Input {
    /// What was read, how much and how long that took.
    pub(crate) fn read_note(&self) -> String {
        read_note(&self.label, self.file_bytes, self.trace.event_count() as u64, self.read_in)
    }
}

fn read_note(label: &str, file_bytes: u64, events: u64, read_in: Duration) -> String {
    format!("Read {label} ({}, {} events) in {read_in:.1?}", Bytes(file_bytes), Count(events))
}

#[cfg(test)]
impl Outlined {
    /// A trace that was read from nowhere.
    pub(crate) fn for_test(label: &str, trace: Trace) -> Self {
        Self { label: label.to_owned(), file_bytes: 0, outline: Outline::of(trace) }
    }
}

/// Reads `path` with `how`, which `progress` shows. Also gives the size of the file in bytes, and how long it
/// took.
fn watched<T>(
    path: &Path,
    progress: &Progress,
    how: impl FnOnce(&(dyn Fn(u64, u64) + Sync)) -> crate::error::Result<T>,
) -> anyhow::Result<(T, u64, Duration)> {
    let began = Instant::now();
    let tick = progress.input();
    let seen = AtomicU64::new(0);
    let on_progress = |done, total| {
        seen.fetch_max(done, Relaxed);
        tick(done, total);
    };
    let found = how(&on_progress).with_context(|| format!("failed to read {}", shown(path)))?;
    // A pipe has no length; what was read from it has.
    let file = path.metadata().ok().filter(|found| found.is_file() && !is_standard_input(path));
    let file_bytes = file.map_or(seen.load(Relaxed), |found| found.len());
    Ok((found, file_bytes, began.elapsed()))
}

/// Reads one trace.
pub(crate) fn read(path: &Path, progress: &Progress) -> anyhow::Result<Input> {
    match read_either(path, progress, |_| None)? {
        Either::Trace(input) => Ok(*input),
        Either::Report { .. } => Err(refuse(format!("{} is a report", shown(path)), "name a trace")),
    }
}

/// Reads one trace, or `part` of it.
fn read_asked(path: &Path, part: Option<&Part>, progress: &Progress) -> anyhow::Result<Input> {
    match part {
        Some(part) => read_part(path, part, progress),
        None => read(path, progress),
    }
}

/// Reads `part` of one trace, or all of it where its format does not allow less.
fn read_part(path: &Path, part: &Part, progress: &Progress) -> anyhow::Result<Input> {
    let how = |tick: &(dyn Fn(u64, u64) + Sync)| {
        import::read_part(path, &ReadOptions::default(), tick, &|recording| {
            analysis::windows(recording, part)
        })
    };
    let (mut trace, file_bytes, read_in) = watched(path, progress, how)?;
    companion::add(path, &mut trace);
    Ok(Input { label: path.display().to_string(), file_bytes, trace, read_in })
}

/// Reads a trace, or what `report` makes of a JSON text.
fn read_either(
    path: &Path,
    progress: &Progress,
    report: impl Fn(&[u8]) -> Option<serde_json::Value>,
) -> anyhow::Result<Either> {
    let how =
        |tick: &(dyn Fn(u64, u64) + Sync)| import::read_path_or(path, &ReadOptions::default(), tick, report);
    let (found, file_bytes, read_in) = watched(path, progress, how)?;
    let label = path.display().to_string();
    let mut trace = match found {
        import::Found::Trace(trace) => *trace,
        import::Found::Other(report) => return Ok(Either::Report { label, report }),
    };
    companion::add(path, &mut trace);
    Ok(Either::Trace(Box::new(Input { label, file_bytes, trace, read_in })))
}

pub(crate) fn check_standard_input(paths: &[PathBuf]) -> anyhow::Result<()> {
    match paths.iter().filter(|path| is_standard_input(path)).count() {
        1 if io::stdin().is_terminal() => Err(refuse(
            "standard input is a terminal",
            "`-` reads a trace from a pipe, for example: zcat snapshot.pickle.gz | memlab analyze -",
        )),
        0 | 1 => Ok(()),
        _ => Err(refuse("standard input can be read only once", "give `-` only once")),
    }
}

fn is_standard_input(path: &Path) -> bool {
    path == Path::new("-")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;

    #[test]
    fn standard_input_is_taken_once() {
        let twice = check_standard_input(&["-".into(), "-".into()]).unwrap_err();
        assert!(twice.to_string().contains("only once"));
        assert!(check_standard_input(&["./-".into(), "./-".into()]).is_ok());
    }

    #[test]
    fn a_device_that_is_not_there_is_refused_with_those_that_are() {
        let trace = TraceBuilder::new().alloc(512, 512).device(2).alloc(512, 512).build();
        assert!(require_device(&trace, Some(2)).is_ok());
        assert!(require_device(&trace, None).is_ok());
        let error = require_device(&trace, Some(1)).unwrap_err();
        assert_eq!(super::super::failure::describe(&error).hint.unwrap(), "the trace has device 0, 2");
    }

    #[test]
    fn events_end_with_the_trace() {
        let trace = TraceBuilder::new().alloc(512, 512).free(512, 512).device(1).alloc(512, 512).build();
        assert!(require_event(&trace, None, Some(2)).is_ok());
        assert!(require_event(&trace, None, Some(3)).is_err());
        assert!(require_event(&trace, Some(1), Some(1)).is_err());
        assert!(require_event(&trace, None, None).is_ok());
    }
}
