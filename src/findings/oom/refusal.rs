//! What refused a new segment: the device was full, a limit on the process, or the driver without a reason.
//!
//! Owns what can be known of a limit. A fraction set by a call leaves no mark in a snapshot; the allocator then
//! refuses before it asks the driver, so the driver's free bytes show it. Where nobody states a limit and
//! nothing speaks against one, it lies between the most that was held and what was asked for in vain.

use crate::rebuild::Peak;

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
        let held = held_before(&facts.history.peaks.reserved, sums, facts.oom.event);
        let at_least = held.saturating_sub(mapped_beyond(facts)).max(sums.reserved_bytes);
        let below = sums.reserved_bytes.saturating_add(sums.segment_bytes);
        let stated = facts.trace.memory_fraction(facts.device.device);
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
    if !facts.conf.is_expandable() {
        return 0;
    }
    facts.conf.granule_bytes(facts.oom.size <= crate::rebuild::SMALL_BYTES)
}

/// The most that was held before the failure; a later peak says nothing about it.
fn held_before(peak: &Peak, sums: &Sums, event: u64) -> u64 {
    if peak.moment.0 <= event { peak.bytes.max(sums.reserved_bytes) } else { sums.reserved_bytes }
}
