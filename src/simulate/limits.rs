//! How much memory there was, and how little would do.

use rayon::prelude::*;

use super::allocator::Limit;
use super::baseline::Baseline;
use super::conf::Conf;
use super::replay::replay;
use super::requests::Requests;
use crate::rebuild::{History, MIN_BLOCK_BYTES};

/// Step of the search for the smallest memory: what segments are multiples of.
const STEP_BYTES: u64 = 2 << 20;

/// The memory that the recording ran into, read off its first failed or retried request; `None` when every
/// request was served at once. Where the replay of the recorded settings (`baseline`) takes more than the
/// recording did, the limit is that much higher, so that other settings are judged by the same measure.
///
/// Free bytes of the device at a failure say what the driver had; when they were enough, a cap set by the
/// program refused. A cap leaves no mark in a snapshot: it lies between the most that was held and what was
/// asked for in vain, and the most that was held is taken, unless the recorder noted the cap.
#[must_use]
pub fn recorded_limit(
    requests: &Requests,
    history: &History,
    baseline: &Baseline,
    conf: &Conf,
) -> Option<Limit> {
    let held = baseline.outcome.peak_reserved_bytes;
    let oom = history.ooms.first();
    if oom.is_none() && baseline.outcome.retries == 0 {
        return None;
    }
    if let (Some(share), Some(total)) = (requests.memory_fraction, requests.device_bytes) {
        return Some(Limit::cap((share * total as f64) as u64));
    }
    let Some(oom) = oom else { return Some(Limit::cap(held)) };
    let Some(free) = oom.device_free_bytes else { return Some(Limit::cap(held)) };
    if free >= conf.segment_bytes(conf.round(oom.size)) {
        return Some(Limit::cap(held));
    }
    // Where the model needs more than the recording did, it gets that much more.
    let surplus = held.saturating_sub(baseline.recorded_peak_reserved_bytes);
    let had = oom.usage.reserved_bytes.saturating_add(free);
    Some(Limit { cap: None, physical: Some(had.saturating_add(surplus)) })
}

/// The smallest cap on reserved bytes, in whole MiB pairs, under which every request is served; `None` when
/// even the memory that an unlimited replay takes is not enough. Found by bisection, which takes for granted
/// that more memory never hurts; that the cap found is enough is certain.
#[must_use]
pub fn smallest_memory(requests: &Requests, conf: &Conf, live_peak_bytes: u64) -> Option<u64> {
    let fits = |steps: u64| replay(requests, conf, Limit::cap(steps * STEP_BYTES)).oom_event.is_none();
    let free = replay(requests, conf, Limit::default());
    let largest = requests.sizes.iter().copied().max().unwrap_or(0);
    // A cap is tested with whole segments, which expandable segments do not take in full.
    let slack = conf.segment_bytes(largest.next_multiple_of(MIN_BLOCK_BYTES)).saturating_mul(2);
    let mut enough = free.peak_reserved_bytes.saturating_add(slack).div_ceil(STEP_BYTES);
    if free.oom_event.is_some() || !fits(enough) {
        return None;
    }
    let mut short = (live_peak_bytes / STEP_BYTES).min(enough);
    if fits(short) {
        return Some(short * STEP_BYTES);
    }
    while enough - short > 1 {
        // Three tries at once: two cores then save half of the rounds.
        let middles: Vec<u64> = (1..4).map(|part| short + (enough - short) * part / 4).collect();
        let fit: Vec<bool> = middles.par_iter().map(|&middle| middle > short && fits(middle)).collect();
        for (&middle, fit) in middles.iter().zip(fit).rev() {
            if fit {
                enough = enough.min(middle);
            }
        }
        short = middles.iter().copied().filter(|&middle| middle < enough).max().unwrap_or(short).max(short);
    }
    Some(enough * STEP_BYTES)
}
