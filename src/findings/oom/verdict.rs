//! Why a request failed: the order of the tests and their thresholds.
//!
//! Owns the decision. The sums that are compared are [`super::sums`]', what refused is [`super::refusal`]'s, and
//! the sentences that prove a verdict are [`super::words`]'. What the recording does not hold (the device's
//! size, a limit set by a call) is said, not guessed.

use super::judge::OomFacts;
use super::refusal::Refusal;
use super::sums::Sums;
use super::words::explain;
use crate::findings::thresholds::{CRUMBS_PERCENT, EXPECTED_OUTSIDE_BYTES, NEARLY_FULL_PERCENT};

/// From this share of the limit on, what is live is too much whatever else is unknown (in percent).
const FULL_PERCENT: u64 = 95;
/// Every device that PyTorch runs on has more than this.
const SMALLEST_DEVICE_BYTES: u64 = 2 << 30;
/// No device has this much.
const NO_DEVICE_BYTES: u64 = 1 << 50;

/// The cause of an OOM. Names are those of the JSON contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerdictKind {
    /// One request is larger than the device, or than all that the process may have.
    HugeRequest,
    /// A block that would have fitted was waiting for another stream.
    PendingAtOom,
    /// Free memory would have sufficed, in pieces that are each too small.
    Fragmentation,
    /// Free memory would have sufficed, but is a few crumbs on a nearly full device.
    NearCapacity,
    /// The driver had room: the process is limited to a part of the device.
    MemoryCap,
    /// The driver had room, and no limit explains the refusal.
    DriverRefused,
    /// What others hold on the device would have made the difference.
    OutsideAllocator,
    /// More is live than fits.
    Capacity,
    /// The recording does not show why.
    Unknown,
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
            Self::Unknown => "unknown",
        }
    }
}

/// A verdict and its proof.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The cause.
    pub kind: VerdictKind,
    /// Why the memory allowed was not enough, where `kind` is that it is limited: [`VerdictKind::Capacity`] or
    /// [`VerdictKind::NearCapacity`]. Otherwise the same as `kind`.
    pub cause: VerdictKind,
    /// Who refused a new segment.
    pub refusal: Refusal,
    /// The sums that were compared.
    pub sums: Sums,
    /// Memory of the device.
    pub total_bytes: Option<u64>,
    /// What is held outside the allocator, where the device's size is known.
    pub outside: Option<Outside>,
    /// Sentences with the figures that prove it.
    pub explanation: Vec<String>,
}

impl Verdict {
    /// What could still have been had from the driver, as far as is certain.
    #[must_use]
    pub fn room_bytes(&self) -> u64 {
        self.refusal.room(&self.sums)
    }

    /// How many bytes are missing even if all free memory were in one piece; with a limit that is not known, the
    /// most that may be missing.
    #[must_use]
    pub fn missing_bytes(&self) -> u64 {
        self.missing_beside(self.room_bytes())
    }

    /// The least that is missing, which is the same unless a limit is not known.
    #[must_use]
    pub fn missing_at_least_bytes(&self) -> u64 {
        let most = self.refusal.cap().map(|cap| cap.below_bytes.saturating_sub(1));
        let room = most.map(|most| most.saturating_sub(self.sums.reserved_bytes));
        self.missing_beside(room.unwrap_or_else(|| self.room_bytes()))
    }

    fn missing_beside(&self, room_bytes: u64) -> u64 {
        self.sums.request_bytes.saturating_sub(room_bytes.saturating_add(self.sums.slack_bytes))
    }
}

/// Bytes of a device that neither its driver has left nor the allocator holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outside {
    /// All of them.
    pub bytes: u64,
    /// The part that contexts and libraries usually take.
    pub expected_bytes: u64,
    /// The rest.
    pub unexplained_bytes: u64,
    /// Whether it is much: at least 1 GiB and 5 % of the device.
    pub is_much: bool,
}

impl Outside {
    /// What is outside when `total_bytes` of a device are `free_bytes` free and `reserved_bytes` reserved.
    #[must_use]
    pub fn of(total_bytes: u64, free_bytes: u64, reserved_bytes: u64) -> Self {
        let bytes = total_bytes.saturating_sub(free_bytes).saturating_sub(reserved_bytes);
        let expected_bytes = bytes.min(EXPECTED_OUTSIDE_BYTES);
        Self {
            bytes,
            expected_bytes,
            unexplained_bytes: bytes - expected_bytes,
            is_much: bytes >= EXPECTED_OUTSIDE_BYTES.max(total_bytes / 20),
        }
    }
}

/// The verdict on `facts`.
pub(super) fn decide(facts: &OomFacts<'_>, sums: Sums) -> Verdict {
    let refusal = Refusal::of(facts, &sums);
    let outside = facts.total_bytes.zip(sums.device_free_bytes);
    let outside = outside.map(|(total, free)| Outside::of(total, free, sums.reserved_bytes));
    let (total_bytes, is_known) = (facts.total_bytes, facts.is_state_known);
    let case = Deciding { sums: &sums, refusal, total_bytes, outside, is_known };
    let kind = case.kind();
    let cause = if kind == VerdictKind::MemoryCap { case.beneath_cap() } else { kind };
    let mut verdict = Verdict { kind, cause, refusal, sums, total_bytes, outside, explanation: Vec::new() };
    verdict.explanation = explain(&verdict);
    verdict
}

struct Deciding<'a> {
    sums: &'a Sums,
    refusal: Refusal,
    total_bytes: Option<u64>,
    outside: Option<Outside>,
    is_known: bool,
}

impl Deciding<'_> {
    fn kind(&self) -> VerdictKind {
        if self.is_huge() {
            return VerdictKind::HugeRequest;
        }
        if self.is_waiting() {
            return VerdictKind::PendingAtOom;
        }
        match self.refusal {
            Refusal::Driver => VerdictKind::DriverRefused,
            _ if self.fits_in_sum() => self.in_pieces(),
            Refusal::Cap(_) => VerdictKind::MemoryCap,
            _ => self.too_much(),
        }
    }

    /// Free memory suffices in sum.
    fn in_pieces(&self) -> VerdictKind {
        let sums = self.sums;
        if sums.largest_free_block_bytes >= sums.request_bytes {
            // A block was there, and the request failed: it asked for something else than was recorded.
            return if self.is_much_outside() { VerdictKind::OutsideAllocator } else { VerdictKind::Unknown };
        }
        if !self.slack_is_crumbs() {
            return VerdictKind::Fragmentation;
        }
        if self.refusal.cap().is_some() {
            return VerdictKind::MemoryCap;
        }
        let is_outside = !self.fills(NEARLY_FULL_PERCENT) && self.unexplained() > 0;
        if is_outside { VerdictKind::OutsideAllocator } else { VerdictKind::NearCapacity }
    }

    /// Free memory does not suffice even in sum.
    fn too_much(&self) -> VerdictKind {
        let (sums, unexplained) = (self.sums, self.unexplained());
        if unexplained > 0 && sums.request_bytes <= self.reach().saturating_add(unexplained) {
            return VerdictKind::OutsideAllocator;
        }
        let is_certain = self.is_known && self.refusal != Refusal::Unknown;
        let is_full = self.total_bytes.is_some() && self.fills(FULL_PERCENT);
        if is_certain || is_full { VerdictKind::Capacity } else { VerdictKind::Unknown }
    }

    fn beneath_cap(&self) -> VerdictKind {
        if self.fits_in_sum() { VerdictKind::NearCapacity } else { VerdictKind::Capacity }
    }

    /// Whether the request is more than the device or the limit. Where the size of the device is not known:
    /// more than all that this process held and the driver had.
    fn is_huge(&self) -> bool {
        let request = self.sums.request_bytes;
        let allowed = self.refusal.cap().and_then(|cap| cap.allowed_bytes);
        if allowed.is_some_and(|allowed| request > allowed) || request >= NO_DEVICE_BYTES {
            return true;
        }
        let (Some(free), None) = (self.sums.device_free_bytes, self.total_bytes) else {
            return self.total_bytes.is_some_and(|total| request > total);
        };
        let all = self.sums.reserved_bytes.saturating_add(free);
        self.is_known && all >= SMALLEST_DEVICE_BYTES && request > all
    }

    /// Whether the request fits once every pending free is through.
    fn is_waiting(&self) -> bool {
        let sums = self.sums;
        let released = sums.released_by_pending_bytes;
        let room = self.refusal.room(sums);
        sums.largest_with_pending_bytes.max(sums.freed_too_late_bytes) >= sums.request_bytes
            || (released > 0 && room.saturating_add(released) >= sums.segment_bytes)
    }

    fn reach(&self) -> u64 {
        self.refusal.room(self.sums).saturating_add(self.sums.slack_bytes)
    }

    fn fits_in_sum(&self) -> bool {
        self.sums.request_bytes <= self.reach()
    }

    fn slack_is_crumbs(&self) -> bool {
        self.sums.slack_bytes.saturating_mul(100) < self.sums.reserved_bytes.saturating_mul(CRUMBS_PERCENT)
    }

    /// Whether what is live, or held by pools that the request cannot use, fills this share of the limit.
    fn fills(&self, percent: u64) -> bool {
        let sums = self.sums;
        let limit = self
            .total_bytes
            .unwrap_or_else(|| sums.reserved_bytes.saturating_add(sums.device_free_bytes.unwrap_or(0)));
        let held = sums.active_bytes.saturating_add(sums.private_free_bytes);
        held.saturating_mul(100) >= limit.saturating_mul(percent)
    }

    fn is_much_outside(&self) -> bool {
        self.outside.is_some_and(|outside| outside.is_much)
    }

    /// What is held outside beyond the usual; 0 unless it is beyond doubt: what is usual is known to no more
    /// than its own size.
    fn unexplained(&self) -> u64 {
        let outside =
            self.outside.filter(|outside| outside.is_much).map_or(0, |outside| outside.unexplained_bytes);
        if outside >= EXPECTED_OUTSIDE_BYTES { outside } else { 0 }
    }
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
