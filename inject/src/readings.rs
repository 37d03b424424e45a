//! Readings: what the driver says the process holds, between the calls.
//!
//! Owns when one is worth taking, and the samples that come of it. Used by the writer's thread alone.

use std::time::{Duration, Instant};

use crate::budget;
use crate::nvml::{Figures, Nvml};
use crate::nvml_start;
use crate::packer::MapPacker;
use crate::progress::Progress;
use crate::recorder::now_us;
use crate::wire::{Chunk, Kind};

/// Least time between two readings that nobody asked for.
const APART: Duration = Duration::from_millis(200);
/// A reading is tried again so often, and for so long, while calls are made.
const TRIES: u32 = 20;
const PATIENCE: Duration = Duration::from_millis(100);
/// Rest of the program after which a try is worth it.
const REST: Duration = Duration::from_millis(2);

/// What a reading is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// A device's first context: what it alone takes.
    Context,
    /// Calls were made.
    Passing,
    /// The process ends.
    Last,
}

/// One device at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    device: u32,
    time_us: i64,
    /// The highest order taken.
    driver_calls: u64,
    /// Whether calls were made meanwhile, so that the figures may have them or not.
    is_unstable: bool,
    figures: Figures,
}

/// See the module's text.
pub(crate) struct Readings {
    pid: u32,
    /// `None` before the first reading.
    nvml: Option<Result<Nvml, String>>,
    /// When it was, and up to which number of the order nothing is to be read again.
    last: Option<(Instant, Option<u64>)>,
    /// Number of the order at the last reading that was unstable.
    unstable_at: Option<u64>,
    has_figures: bool,
}

impl Readings {
    pub(crate) fn new(pid: i32) -> Self {
        Self { pid: pid as u32, nvml: None, last: None, unstable_at: None, has_figures: false }
    }

    /// How long to wait until another reading should be taken, where `order` is the highest taken; `None` where
    /// nothing has happened since the last, or none was taken or can be.
    pub(crate) fn due_in(&self, order: u64) -> Option<Duration> {
        let (at, then) = self.last.filter(|_| self.has_figures)?;
        (then != Some(order)).then(|| APART.saturating_sub(at.elapsed()))
    }

    /// Reads `devices`, now.
    pub(crate) fn take(&mut self, devices: &[u32], progress: &Progress, wish: Wish) -> Vec<Sample> {
        let pid = self.pid;
        let Ok(nvml) = self.nvml.get_or_insert_with(nvml_start::take) else { return Vec::new() };
        let end = Instant::now() + PATIENCE;
        let read = |&device: &u32| read(nvml, (device, pid), progress, wish, end);
        let mut samples: Vec<Sample> = devices.iter().filter_map(read).collect();
        self.has_figures |= !samples.is_empty();
        let order =
            samples.iter().map(|sample| sample.driver_calls).max().unwrap_or_else(|| progress.order());
        let unstable = samples.iter().any(|sample| sample.is_unstable).then_some(order);
        // Once more, but not for ever: a call may never return.
        let is_done = unstable.is_none() || unstable == self.unstable_at;
        self.last = Some((Instant::now(), is_done.then_some(order)));
        self.unstable_at = unstable;
        // It would say that the context takes what the program has taken.
        samples.retain(|sample| wish != Wish::Context || !sample.is_unstable);
        samples
    }

    /// Where readings come from, or why there are none; `None` before the first was tried.
    pub(crate) fn how(&self) -> Option<String> {
        Some(match self.nvml.as_ref()? {
            Ok(_) if self.has_figures => "nvml".to_owned(),
            Ok(_) => "NVML does not know the devices".to_owned(),
            Err(reason) => reason.clone(),
        })
    }
}

/// Reads a device for a process, again and again until no call was under way, for as long as that is reasonable.
fn read(
    nvml: &mut Nvml,
    (device, pid): (u32, u32),
    progress: &Progress,
    wish: Wish,
    end: Instant,
) -> Option<Sample> {
    let mut tries = 0;
    loop {
        tries += 1;
        let is_last_try = tries >= TRIES || Instant::now() >= end;
        // Asking costs the driver something, so a program that is busy is only looked at. A first context is read at
        // once, before it becomes busy.
        if tries > 1 || wish == Wish::Passing {
            let before = progress.before();
            std::thread::sleep(REST);
            if !progress.after(before).1 && !is_last_try {
                continue;
            }
        }
        let before = progress.before();
        let figures = nvml.figures(device, pid)?;
        let time_us = now_us();
        let (driver_calls, is_stable) = progress.after(before);
        if is_stable || is_last_try {
            return Some(Sample { device, time_us, driver_calls, is_unstable: !is_stable, figures });
        }
    }
}

/// The chunk with these samples.
pub(crate) fn chunk(samples: &[Sample]) -> Chunk {
    let mut chunk =
        Chunk::with_cost(Kind::Samples, samples.len() as u64, |rows, _| budget::rows(rows, budget::SAMPLE));
    chunk.fact("count").uint(samples.len() as u64);
    let rows = chunk.entry("samples").array(samples.len());
    for sample in samples {
        let mut row = MapPacker::default();
        row.uint("device", sample.device.into());
        row.key("time_us").int(sample.time_us);
        row.uint("free_bytes", sample.figures.free).uint("total_bytes", sample.figures.total);
        if let Some(bytes) = sample.figures.process {
            row.uint("process_bytes", bytes);
        }
        row.uint("driver_calls", sample.driver_calls);
        if sample.is_unstable {
            row.key("unstable").bool(true);
        }
        rows.raw(&row.into_bytes());
    }
    chunk
}
