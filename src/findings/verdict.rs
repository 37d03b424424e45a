//! Why a request failed: the arithmetic behind an out-of-memory error.
//!
//! Owns the order of the tests and their thresholds (`docs/reading-a-report.md` explains them). A verdict
//! always comes with the sums that prove it. What the recording does not hold (the device's total, a cap
//! set by a call) is said, not guessed.

use std::fmt::Write as _;

use crate::model::{BlockState, PoolId, Settings};
use crate::rebuild::{OomEvent, Peaks, SMALL_BYTES, SMALL_SEGMENT_BYTES, State, StateSegment};
use crate::units::{Bytes, percent};

/// Requests from here on get a segment of their own size.
const OWN_SEGMENT_FROM: u64 = 10 << 20;
/// Below this share of reserved memory, free blocks are crumbs rather than fragmentation (in percent).
const CRUMBS_PERCENT: u64 = 3;
/// From this share of the limit on, live memory nearly fills it (in percent).
const NEARLY_FULL_PERCENT: u64 = 90;
/// What contexts, libraries and kernels usually take beside the allocator.
const EXPECTED_OUTSIDE_BYTES: u64 = 1 << 30;

/// The cause of an OOM. Names are those of the JSON contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerdictKind {
    /// One request is larger than the device.
    HugeRequest,
    /// A block that would have fitted was waiting for another stream.
    PendingAtOom,
    /// Free memory would have sufficed, in pieces that are each too small.
    Fragmentation,
    /// Free memory would have sufficed, but is a few crumbs on a nearly full device.
    NearCapacity,
    /// The driver had room: the process is limited to a part of the device.
    MemoryCap,
    /// The driver had room and had given more before, yet refused.
    DriverRefused,
    /// What others hold on the device would have made the difference.
    OutsideAllocator,
    /// More is live than fits.
    Capacity,
}

impl VerdictKind {
    /// Name in the JSON contract.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::HugeRequest => "huge-request",
            Self::PendingAtOom => "pending-at-oom",
            Self::Fragmentation => "fragmentation",
            Self::NearCapacity => "near-capacity",
            Self::MemoryCap => "memory-cap",
            Self::DriverRefused => "driver-refused",
            Self::OutsideAllocator => "outside-allocator",
            Self::Capacity => "capacity",
        }
    }
}

/// A verdict and its proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The cause.
    pub kind: VerdictKind,
    /// Sentences with the figures that prove it.
    pub explanation: Vec<String>,
    /// Largest free block that the request could have used: same pool and stream.
    pub largest_free_block_bytes: u64,
    /// Bytes that were pending.
    pub pending_free_bytes: u64,
}

/// What is known about a failed request.
#[derive(Clone, Copy, Debug)]
pub struct OomFacts<'a> {
    /// The event.
    pub oom: &'a OomEvent,
    /// Allocator state at that moment.
    pub state: &'a State,
    /// Pool of the request; the default pool when not recorded.
    pub pool: PoolId,
    /// Memory of the device, when recorded.
    pub total_bytes: Option<u64>,
    /// Maxima of the whole recording.
    pub peaks: &'a Peaks,
    /// Allocator settings.
    pub settings: &'a Settings,
    /// The part of the device that the process may use, as stated; see [`crate::model::Trace::memory_fraction`].
    pub memory_fraction: Option<f64>,
}

/// Sums over the state that the tests compare.
struct Sums {
    request: u64,
    segment: u64,
    device_free: u64,
    reserved: u64,
    active: u64,
    /// Free bytes in pools that the request could draw on.
    slack: u64,
    /// Free bytes in private pools that it could not.
    private: u64,
    /// Largest free block of the same pool, kind and stream.
    largest: u64,
    pending: u64,
    /// Largest pending block of the same stream.
    largest_pending: u64,
}

impl Sums {
    fn new(facts: &OomFacts<'_>) -> Self {
        let oom = facts.oom;
        let mut sums = Self {
            request: oom.size,
            segment: segment_bytes(oom.size, facts.settings),
            device_free: oom.device_free_bytes,
            reserved: oom.usage.reserved_bytes,
            active: oom.usage.active_bytes,
            slack: 0,
            private: 0,
            largest: 0,
            pending: oom.usage.active_bytes.saturating_sub(oom.usage.allocated_bytes),
            largest_pending: 0,
        };
        for segment in &facts.state.segments {
            sums.add(segment, facts);
        }
        sums
    }

    fn add(&mut self, segment: &StateSegment, facts: &OomFacts<'_>) {
        let same_pool = segment.pool == facts.pool;
        let small = facts.oom.size <= SMALL_BYTES;
        let same_kind = (segment.kind == crate::model::SegmentKind::Small) == small;
        let usable = same_pool && same_kind && segment.stream == facts.oom.stream;
        for block in &segment.blocks {
            match block.state {
                BlockState::Inactive if same_pool => self.slack += block.bytes,
                BlockState::Inactive => self.private += block.bytes,
                BlockState::ActivePendingFree if usable => {
                    self.largest_pending = self.largest_pending.max(block.bytes);
                }
                _ => {}
            }
            if block.state == BlockState::Inactive && usable {
                self.largest = self.largest.max(block.bytes);
            }
        }
    }

    fn slack_is_crumbs(&self) -> bool {
        self.slack.saturating_mul(100) < self.reserved.saturating_mul(CRUMBS_PERCENT)
    }

    fn slack_would_do(&self) -> bool {
        self.slack >= self.request && self.largest < self.request && !self.slack_is_crumbs()
    }
}

/// What the allocator asks the driver for to serve a rounded request.
fn segment_bytes(rounded: u64, settings: &Settings) -> u64 {
    match rounded {
        0..=SMALL_BYTES => SMALL_SEGMENT_BYTES,
        _ if settings.expandable_segments() => rounded,
        _ if rounded < OWN_SEGMENT_FROM => settings.large_segment_bytes(),
        _ => rounded.div_ceil(SMALL_SEGMENT_BYTES).saturating_mul(SMALL_SEGMENT_BYTES),
    }
}

/// Says why the request failed.
#[must_use]
pub fn judge(facts: &OomFacts<'_>) -> Verdict {
    let sums = Sums::new(facts);
    let kind = decide(facts, &sums);
    Verdict {
        kind,
        explanation: explain(facts, &sums, kind),
        largest_free_block_bytes: sums.largest,
        pending_free_bytes: sums.pending,
    }
}

fn decide(facts: &OomFacts<'_>, sums: &Sums) -> VerdictKind {
    if facts.total_bytes.is_some_and(|total| sums.request > total) {
        return VerdictKind::HugeRequest;
    }
    if sums.largest_pending >= sums.request {
        return VerdictKind::PendingAtOom;
    }
    if sums.device_free >= sums.segment {
        return decide_with_room(facts, sums);
    }
    let reach = sums.device_free.saturating_add(sums.slack);
    if sums.request <= reach {
        let limit = limit_bytes(facts, sums);
        let nearly_full = sums.active.saturating_mul(100) >= limit.saturating_mul(NEARLY_FULL_PERCENT);
        return if !sums.slack_is_crumbs() {
            VerdictKind::Fragmentation
        } else if !nearly_full && unexpected_outside(facts, sums) > 0 {
            VerdictKind::OutsideAllocator
        } else {
            VerdictKind::NearCapacity
        };
    }
    let outside = unexpected_outside(facts, sums);
    if outside > 0 && sums.request <= reach.saturating_add(outside) {
        return VerdictKind::OutsideAllocator;
    }
    VerdictKind::Capacity
}

/// The device had room for the segment: something else than the device's size said no.
fn decide_with_room(facts: &OomFacts<'_>, sums: &Sums) -> VerdictKind {
    if sums.slack_would_do() {
        return VerdictKind::Fragmentation;
    }
    let had_more_before = facts.peaks.reserved.bytes >= sums.reserved.saturating_add(sums.segment);
    if had_more_before && !is_capped(facts, sums) {
        VerdictKind::DriverRefused
    } else {
        VerdictKind::MemoryCap
    }
}

/// Whether the stated fraction explains the refusal: the allocator refuses before it asks the driver. That no
/// limit is stated proves nothing, as one may have been set after it was looked at.
fn is_capped(facts: &OomFacts<'_>, sums: &Sums) -> bool {
    let wanted = sums.reserved.saturating_add(sums.segment).saturating_add(mapped_beyond(facts.settings));
    match facts.memory_fraction {
        Some(fraction) if fraction < 1.0 => allowed_bytes(facts).is_none_or(|allowed| wanted > allowed),
        _ => false,
    }
}

/// Expandable segments are mapped in pieces that may reach beyond the request by up to this.
fn mapped_beyond(settings: &Settings) -> u64 {
    if settings.expandable_segments() { settings.large_segment_bytes() } else { 0 }
}

/// What the process may reserve in all; `None` when fraction or device are not known.
fn allowed_bytes(facts: &OomFacts<'_>) -> Option<u64> {
    Some((facts.memory_fraction? * facts.total_bytes? as f64) as u64)
}

fn limit_bytes(facts: &OomFacts<'_>, sums: &Sums) -> u64 {
    facts.total_bytes.unwrap_or_else(|| sums.reserved.saturating_add(sums.device_free))
}

/// Bytes that neither this allocator nor the driver's free memory accounts for, beyond what a context and
/// its libraries usually take; 0 when the total is unknown or the excess is small.
fn unexpected_outside(facts: &OomFacts<'_>, sums: &Sums) -> u64 {
    let Some(total) = facts.total_bytes else { return 0 };
    let outside = total.saturating_sub(sums.device_free).saturating_sub(sums.reserved);
    let threshold = EXPECTED_OUTSIDE_BYTES.max(total / 20);
    if outside >= threshold { outside - EXPECTED_OUTSIDE_BYTES.min(outside) } else { 0 }
}

fn explain(facts: &OomFacts<'_>, sums: &Sums, kind: VerdictKind) -> Vec<String> {
    let mut said = vec![format!(
        "{} were asked for; {} were free on the device, {} reserved by PyTorch, {} of these active ({})",
        Bytes(sums.request),
        Bytes(sums.device_free),
        Bytes(sums.reserved),
        Bytes(sums.active),
        percent(sums.active, sums.reserved),
    )];
    said.push(reason(facts, sums, kind));
    if sums.private > 0 {
        said.push(format!(
            "{} are free in other (private) pools, which this request cannot use",
            Bytes(sums.private)
        ));
    }
    said
}

fn reason(facts: &OomFacts<'_>, sums: &Sums, kind: VerdictKind) -> String {
    let (request, free, slack) = (Bytes(sums.request), Bytes(sums.device_free), Bytes(sums.slack));
    let reach = Bytes(sums.device_free.saturating_add(sums.slack));
    let largest = Bytes(sums.largest);
    let mut text = String::new();
    let written = match kind {
        VerdictKind::HugeRequest => write!(
            text,
            "the device has {} in all: this one request can never fit",
            Bytes(facts.total_bytes.unwrap_or(0))
        ),
        VerdictKind::PendingAtOom => write!(
            text,
            "a block of {} on the same stream had been freed but waited for another stream; once that completes the request fits",
            Bytes(sums.largest_pending)
        ),
        VerdictKind::Fragmentation if sums.device_free >= sums.segment => write!(
            text,
            "{slack} are free inside segments, but the largest free block of this stream and pool is {largest}; the device had {free} left, so the process must be limited to a part of it"
        ),
        VerdictKind::Fragmentation => write!(
            text,
            "{free} free on the device plus {slack} free inside segments is {reach}, enough for {request}; but the largest free block of this stream and pool is {largest}"
        ),
        VerdictKind::NearCapacity => write!(
            text,
            "{free} free on the device plus {slack} free inside segments is {reach}, enough in sum; but that is crumbs ({} of reserved) on a nearly full device",
            percent(sums.slack, sums.reserved)
        ),
        VerdictKind::MemoryCap => {
            match (facts.memory_fraction.filter(|_| is_capped(facts, sums)), allowed_bytes(facts)) {
                (Some(fraction), Some(allowed)) => write!(
                    text,
                    "the device had {free} left; `per_process_memory_fraction:{fraction}` allows {} in all and forbids to reserve {} more",
                    Bytes(allowed),
                    Bytes(sums.segment)
                ),
                (Some(fraction), None) => write!(
                    text,
                    "the device had {free} left; `per_process_memory_fraction:{fraction}` forbids to reserve {} more",
                    Bytes(sums.segment)
                ),
                (None, _) => write!(
                    text,
                    "the device had {free} left, more than the {} that a new segment needs: the process is limited to a part of it (`set_per_process_memory_fraction` leaves no mark in a snapshot), or the driver refused for another reason",
                    Bytes(sums.segment)
                ),
            }
        }
        VerdictKind::DriverRefused => write!(
            text,
            "the device had {free} left, more than the {} that a new segment needs, and this process had reserved {} before: no cap and no fragmentation explains this",
            Bytes(sums.segment),
            Bytes(facts.peaks.reserved.bytes)
        ),
        VerdictKind::OutsideAllocator => write!(
            text,
            "{} of the device are in use outside PyTorch's allocator; without them the request would fit",
            Bytes(unexpected_outside(facts, sums) + EXPECTED_OUTSIDE_BYTES)
        ),
        VerdictKind::Capacity => write!(
            text,
            "{free} free on the device plus {slack} free inside segments is {reach}: {} too little even without any fragmentation",
            Bytes(sums.request.saturating_sub(sums.device_free.saturating_add(sums.slack)))
        ),
    };
    debug_assert!(written.is_ok(), "writing to a String cannot fail");
    text
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
