//! Reducing: a recording's report in place of its events, and the same report read back.
//!
//! Owns what is kept and how small it gets. Figures are those of the ordinary analysis, made before the events are
//! left out: what is read back is equal, not computed again. How the report lies in the file is `format`'s.

mod coarser;
mod facts;
mod live;
mod read;
mod shown;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::format::{self, Codec, WriteOptions};
use crate::model::{DeviceTrace, Origin, Reduced, Trace};
use crate::rebuild::History;
use crate::report::{Pictures, SCHEMA, Timeline, TraceReport};

use super::{Options, ranks};
use facts::KeptFacts;

pub(super) use read::analysis;

/// Of this much of the original a reduced recording takes at most, where that is possible: percent.
pub const MOST_PERCENT: u64 = 2;

/// A reduced recording of this size is small enough, whatever share of the original it is: ten thousand of them take
/// 200 MB.
const ENOUGH_BYTES: usize = 20_000;

/// Pixel columns of a kept timeline: the most that an analysis makes, then fewer until the file is small enough.
const COLUMNS: [u64; 5] = [800, 400, 200, 100, 50];

/// What there is instead of events.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kept {
    /// [`SCHEMA`] of those who wrote it.
    schema: u32,
    report: TraceReport,
    /// One entry per device of the report.
    devices: Vec<KeptDevice>,
}

/// What the report's JSON does not say of a device.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct KeptDevice {
    timeline: Timeline,
    pictures: Pictures,
    facts: KeptFacts,
    times: Option<KeptTimes>,
}

/// Unix times of a device's events, in microseconds, for comparing it with others; kept since they came to be used.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct KeptTimes {
    /// The first event's.
    first_us: Option<i64>,
    /// That of the first failed request.
    oom_us: Option<i64>,
}

/// A reduced recording, ready to be written.
#[derive(Clone, Debug, Default)]
pub struct Reduction {
    /// The file.
    pub file: Vec<u8>,
    /// Pixel columns of its timelines; [`Reduction::MOST_COLUMNS`] is all that an analysis makes.
    pub columns: u64,
}

impl Reduction {
    /// Pixel columns of a timeline that nothing was left out of.
    pub const MOST_COLUMNS: u64 = COLUMNS[0];
}

/// Reduces `trace`, which was read from `origin`. Timelines get fewer pixel columns until the file takes no more than
/// [`MOST_PERCENT`] of the original, or 20 kB; what else is kept is never cut, so a small recording's may be larger.
///
/// # Errors
/// Those of [`super::analyze_file`], and [`Error::Shape`] for a recording that is reduced already.
pub fn reduce(trace: &Trace, origin: &Origin) -> Result<Reduction> {
    super::require_events(trace)?;
    let options = Options { with_pictures: true, several_files: true, ..Options::default() };
    let look = |device: &DeviceTrace, history: &History| (live::set(device, history), times(device, history));
    let (analysis, seen) = super::analyze_seen(&origin.name, trace, &options, &look)?;
    let (live, times): (Vec<_>, Vec<_>) = seen.into_iter().unzip();
    let mut kept = Kept { schema: SCHEMA, report: analysis.report, devices: Vec::new() };
    let devices = kept.report.devices.iter_mut().zip(&analysis.facts.devices).zip(times);
    for ((device, facts), times) in devices {
        kept.devices.push(KeptDevice {
            timeline: std::mem::take(&mut device.timeline),
            pictures: std::mem::take(&mut device.pictures),
            facts: KeptFacts::of(facts),
            times: Some(times),
        });
    }
    let whole: Vec<Timeline> = kept.devices.iter().map(|device| device.timeline.clone()).collect();
    let (mut small, limit) = (without_events(trace), u128::from(origin.bytes) * u128::from(MOST_PERCENT));
    let live = live::entered(live, trace, &mut small);
    small.reduced = Some(Box::new(Reduced { origin: origin.clone(), report: Vec::new(), live }));
    let mut made = Reduction::default();
    for columns in COLUMNS {
        if columns < Reduction::MOST_COLUMNS {
            for (place, device) in kept.devices.iter_mut().enumerate() {
                device.timeline = coarser::coarser(&whole[place], columns, kept.report.devices[place].events);
            }
        }
        made = Reduction { file: packed(&kept, &mut small, columns)?, columns };
        if made.file.len() <= ENOUGH_BYTES || made.file.len() as u128 * 100 <= limit {
            break;
        }
    }
    Ok(made)
}

fn times(device: &DeviceTrace, history: &History) -> KeptTimes {
    let of = |event: u64| ranks::unix_time(&device.events, event);
    KeptTimes { first_us: of(0), oom_us: history.ooms.first().and_then(|oom| of(oom.event)) }
}

/// The process and its settings, and every device without its events.
fn without_events(trace: &Trace) -> Trace {
    let device = |device: &DeviceTrace| DeviceTrace { device: device.device, ..DeviceTrace::default() };
    Trace {
        complete: trace.complete,
        settings: trace.settings.clone(),
        process: trace.process.clone(),
        devices: trace.devices.iter().map(device).collect(),
        ..Trace::default()
    }
}

/// The file, with `kept` in place of events.
fn packed(kept: &Kept, small: &mut Trace, columns: u64) -> Result<Vec<u8>> {
    const BEST: i32 = 19;
    if let Some(reduced) = &mut small.reduced {
        reduced.report =
            rmp_serde::to_vec_named(kept).map_err(|error| Error::Shape { what: error.to_string() })?;
        small.warnings = crate::model::Warnings::default();
        let origin = reduced.origin.clone();
        let of_calls_alone = small.devices.is_empty() && kept.report.driver.is_some();
        small.warnings.add("reduced", || {
            if of_calls_alone { left_out_calls(&origin) } else { left_out(&origin, columns) }
        });
    }
    let mut file = Vec::new();
    let options = WriteOptions { codec: Codec::Zstd, level: BEST, ..WriteOptions::default() };
    format::write(small, &options, &mut file)?;
    Ok(file)
}

/// The same of a recording of driver calls alone.
fn left_out_calls(origin: &Origin) -> String {
    format!("this is a reduced recording of {}: it has its report, but none of its calls", origin.name)
}

/// What a reduced recording no longer knows, in a sentence.
fn left_out(origin: &Origin, columns: u64) -> String {
    let timeline = if columns < Reduction::MOST_COLUMNS {
        format!("; of {} pixel columns of a timeline it has {columns}", Reduction::MOST_COLUMNS)
    } else {
        String::new()
    };
    format!(
        "this is a reduced recording of {}: it has its report and what was live at the peaks, the failure and the \
         end, but none of its {} events{timeline}",
        origin.name, origin.events
    )
}
