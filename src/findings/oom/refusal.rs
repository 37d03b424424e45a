//! What refused a new segment: the device was full, a limit on the process, or the driver without a reason.
//!
//! Owns what can be known of a limit. A fraction set by a call leaves no mark in a snapshot; the allocator then
//! refuses before it asks the driver, so the driver's free bytes show it. Where nobody states a limit and
//! nothing speaks against one, it lies between the most that was held and what was asked for in vain.

use crate::rebuild::{OomEvent, SMALL_BYTES};
use crate::simulate::Conf;

use super::judge::OomFacts;
use super::sums::Sums;

/// Who said no.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Refusal {
    /// The driver: it had less than was asked for.
    DeviceFull,
    /// The allocator: the driver had enough, but the process may not take it.
    Cap(Cap),
    /// The driver: it had enough, and no limit explains why it refused.
    Driver,
    /// Not known, as what the driver had is not recorded.
    Unknown,
}

/// A limit on what the process may reserve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cap {
    /// The part of the device, where it is stated.
    pub fraction: Option<f64>,
    /// The limit in bytes, where fraction and device are known.
    pub allowed_bytes: Option<u64>,
    /// It is no lower than this.
    pub at_least_bytes: u64,
    /// It is lower than this.
    pub below_bytes: u64,
}

impl Refusal {
    /// Who refused the segment that `sums` speaks of.
    pub(super) fn of(facts: &OomFacts<'_>, sums: &Sums) -> Self {
        let Some(free) = sums.device_free_bytes else { return Self::Unknown };
        if free < needed_from_driver(facts, sums) {
            return Self::DeviceFull;
        }
        let (at_least, below) = bounds(facts, sums);
        let stated = facts.memory_fraction;
        let Some(fraction) = stated else {
            // Whoever wrote down the size of the device wrote down no limit; and no constant limit lets a
            // process hold more before than it is refused now.
            let none = facts.total_bytes.is_some() || at_least >= below;
            let inferred =
                Cap { fraction: None, allowed_bytes: None, at_least_bytes: at_least, below_bytes: below };
            return if none { Self::Driver } else { Self::Cap(inferred) };
        };
        let allowed = facts.total_bytes.map(|total| (fraction * total as f64) as u64);
        let explains = fraction < 1.0
            && allowed.is_none_or(|allowed| below.saturating_add(mapped_beyond(facts)) > allowed);
        if !explains {
            return Self::Driver;
        }
        Self::Cap(Cap {
            fraction: Some(fraction),
            allowed_bytes: allowed,
            at_least_bytes: allowed.unwrap_or(at_least.min(below.saturating_sub(1))),
            below_bytes: allowed.map_or(below, |allowed| allowed.saturating_add(1)),
        })
    }

    /// Bytes that could still have been had from the driver, as far as is certain.
    pub(super) fn room(self, sums: &Sums) -> u64 {
        match self {
            Self::DeviceFull => sums.device_free_bytes.unwrap_or(0),
            Self::Cap(cap) => cap
                .at_least_bytes
                .saturating_sub(sums.reserved_bytes)
                .min(sums.device_free_bytes.unwrap_or(u64::MAX)),
            Self::Driver | Self::Unknown => 0,
        }
    }

    /// The limit, if it was one.
    #[must_use]
    pub fn cap(self) -> Option<Cap> {
        match self {
            Self::Cap(cap) => Some(cap),
            _ => None,
        }
    }
}

/// Expandable segments are mapped in granules, so more than the request may be needed.
fn needed_from_driver(facts: &OomFacts<'_>, sums: &Sums) -> u64 {
    sums.segment_bytes.max(mapped_beyond(facts))
}

/// By how much a mapping of expandable segments may reach beyond a request, and what is held beyond a limit.
fn mapped_beyond(facts: &OomFacts<'_>) -> u64 {
    granule(facts.conf, facts.oom.size)
}

fn granule(conf: &Conf, size: u64) -> u64 {
    if conf.is_expandable() { conf.granule_bytes(size <= SMALL_BYTES) } else { 0 }
}

/// Between what a limit that nobody states must lie: the most that was held, and the least that was refused.
fn bounds(facts: &OomFacts<'_>, sums: &Sums) -> (u64, u64) {
    let peak = facts.reserved_peak;
    let below = sums.reserved_bytes.saturating_add(sums.segment_bytes);
    let held = peak.bytes.saturating_sub(mapped_beyond(facts)).max(sums.reserved_bytes);
    // All failures of a recording are under one limit, as long as nothing speaks against it.
    let lowest = facts.least_refused_bytes.min(below);
    if held < lowest {
        return (held, lowest);
    }
    // A later peak says nothing about an earlier failure.
    let is_before = peak.moment.0 <= facts.oom.event;
    (if is_before { held } else { sums.reserved_bytes }, below)
}

/// The least that the process would have held had a failed request been served for which the driver had room;
/// the most there is when there is no such failure.
pub(super) fn least_refused(conf: &Conf, ooms: &[OomEvent]) -> u64 {
    let refused = ooms.iter().filter_map(|oom| {
        let segment = conf.segment_bytes(oom.size);
        let needed = segment.max(granule(conf, oom.size));
        let had_room = oom.device_free_bytes.is_some_and(|free| free >= needed);
        had_room.then(|| oom.usage.reserved_bytes.saturating_add(segment))
    });
    refused.min().unwrap_or(u64::MAX)
}
