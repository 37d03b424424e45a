//! Readings: what the driver says the process holds, between the calls.
//!
//! Owns when one is worth taking, and the samples that come of it. Used by the writer's thread alone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::budget;
use crate::nvml::{Figures, Nvml};
use crate::packer::MapPacker;
use crate::recorder::now_us;
use crate::wire::{Chunk, Kind};

/// Least time between two readings that nobody asked for.
const APART: Duration = Duration::from_millis(200);

/// Whether NVML was opened in this process or in one that it was forked from, where it does not work any more.
static WAS_OPENED: AtomicBool = AtomicBool::new(false);

/// One device at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    device: u32,
    time_us: i64,
    /// The highest order taken before.
    driver_calls: u64,
    figures: Figures,
}

/// See the module's text.
pub(crate) struct Readings {
    pid: u32,
    /// `None` before the first reading.
    nvml: Option<Result<Nvml, String>>,
    last: Option<(Instant, u64)>,
    has_figures: bool,
}

impl Readings {
    pub(crate) fn new(pid: i32) -> Self {
        Self { pid: pid as u32, nvml: None, last: None, has_figures: false }
    }

    /// How long to wait until another reading should be taken, where `order` is the highest taken; `None` where
    /// nothing has happened since the last, or none was taken or can be.
    pub(crate) fn due_in(&self, order: u64) -> Option<Duration> {
        let (at, then) = self.last.filter(|_| self.has_figures)?;
        (then != order).then(|| APART.saturating_sub(at.elapsed()))
    }

    /// Reads `devices`, now. `order` is the highest taken.
    pub(crate) fn take(&mut self, devices: &[u32], order: u64) -> Vec<Sample> {
        let pid = self.pid;
        let nvml = self.nvml.get_or_insert_with(|| {
            if WAS_OPENED.swap(true, Ordering::Relaxed) {
                return Err("NVML was in use before the process was forked".to_owned());
            }
            Nvml::open()
        });
        let Ok(nvml) = nvml else { return Vec::new() };
        let sample = |&device: &u32| {
            let time_us = now_us();
            nvml.figures(device, pid).map(|figures| Sample { device, time_us, driver_calls: order, figures })
        };
        let samples: Vec<Sample> = devices.iter().filter_map(sample).collect();
        self.has_figures |= !samples.is_empty();
        self.last = Some((Instant::now(), order));
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
        rows.raw(&row.into_bytes());
    }
    chunk
}
