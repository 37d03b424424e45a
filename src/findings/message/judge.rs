//! Why a request failed, as far as the text of its message can tell.
//!
//! Owns the order of the tests and their thresholds; `docs/oom-messages.md` explains them. Takes numbers
//! only. `pending-at-oom` cannot be told from a text: no message says what was pending.

use super::kind::Kind;
use super::read::Message;
use super::sums::Sums;
use crate::findings::VerdictKind;
use crate::findings::thresholds::{CRUMBS_PERCENT, EXPECTED_OUTSIDE_BYTES, NEARLY_FULL_PERCENT};

/// Below this share, fragmentation is named with caution.
const CLEAR_PERCENT: u64 = 10;
/// The driver hands out whole pages; with less to spare than one it has no room to speak of.
const PAGE_BYTES: u64 = 2 << 20;

/// How far a verdict can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confidence {
    /// The figures leave no doubt.
    High,
    /// Close to a threshold, or within the rounding of the printed figures.
    Low,
}

impl Confidence {
    /// Its name in the JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Low => "low",
        }
    }
}

/// Judges `message`, whose sums are `sums`. Without figures there is nothing to be confident of.
#[must_use]
pub fn judge(message: &Message, sums: &Sums) -> (VerdictKind, Option<Confidence>) {
    let cause = match message.kind {
        Kind::Allocator | Kind::Async => by_figures(message, sums).unwrap_or(VerdictKind::Unknown),
        Kind::Driver | Kind::Library(_) => VerdictKind::OutsideAllocator,
        Kind::Oldest | Kind::Assertion | Kind::Query => VerdictKind::Unknown,
    };
    let is_close = || match cause {
        VerdictKind::Fragmentation => is_moderate(sums) || within_rounding(sums),
        VerdictKind::NearCapacity | VerdictKind::Capacity => within_rounding(sums),
        _ => false,
    };
    let confidence = match cause {
        VerdictKind::Unknown => None,
        _ if sums.requested.is_none() => None,
        _ if is_close() => Some(Confidence::Low),
        _ => Some(Confidence::High),
    };
    (cause, confidence)
}

/// `None` when a figure that is needed was not printed.
fn by_figures(message: &Message, sums: &Sums) -> Option<VerdictKind> {
    let request = sums.requested?.bytes;
    let limits = [sums.total, sums.allowed];
    if limits.into_iter().flatten().any(|limit| request > limit.bytes) {
        return Some(VerdictKind::HugeRequest);
    }
    let free = sums.free?.bytes;
    if sums.room().is_some() && is_capped(sums)? {
        return Some(under_a_cap(sums, request, free));
    }
    let to_spare = PAGE_BYTES.saturating_add(sums.requested?.rounding).saturating_add(sums.free?.rounding);
    if free >= request.saturating_add(to_spare) {
        return if message.may_hide_a_limit() { None } else { Some(VerdictKind::DriverRefused) };
    }
    if message.kind == Kind::Async {
        return Some(of_the_drivers_pool(sums, request));
    }
    if free >= request {
        return Some(with_hardly_any_room(sums));
    }
    without_room(sums, request)
}

/// Whether the request goes beyond what the process may reserve, as far as rounding allows to say so.
fn is_capped(sums: &Sums) -> Option<bool> {
    let (request, room) = (sums.requested?, sums.room()?);
    let slop = request.rounding.saturating_add(room.rounding);
    Some(request.bytes.saturating_add(slop) > room.bytes)
}

/// The limit decides, unless the device itself is full, too.
fn under_a_cap(sums: &Sums, request: u64, free: u64) -> VerdictKind {
    if free < request
        && let Some(cause) = without_room(sums, request)
        && cause != VerdictKind::OutsideAllocator
    {
        return cause;
    }
    let slack = sums.unallocated.map_or(0, |slack| slack.bytes);
    if slack >= request && !slack_is_crumbs(sums) {
        VerdictKind::Fragmentation
    } else {
        VerdictKind::MemoryCap
    }
}

/// The device has less left than was asked for.
fn without_room(sums: &Sums, request: u64) -> Option<VerdictKind> {
    let reach = sums.reach?.bytes;
    let outside = unexpected_outside(sums);
    let cause = if request <= reach {
        match (slack_is_crumbs(sums), is_nearly_full(sums)) {
            (false, _) => VerdictKind::Fragmentation,
            (true, false) if outside > 0 => VerdictKind::OutsideAllocator,
            _ => VerdictKind::NearCapacity,
        }
    } else if outside > 0 && request <= reach.saturating_add(outside) {
        VerdictKind::OutsideAllocator
    } else {
        VerdictKind::Capacity
    };
    Some(cause)
}

/// The device has as much left as was asked for, but not a page more.
fn with_hardly_any_room(sums: &Sums) -> VerdictKind {
    if is_nearly_full(sums) {
        VerdictKind::NearCapacity
    } else if unexpected_outside(sums) > 0 {
        VerdictKind::OutsideAllocator
    } else {
        VerdictKind::DriverRefused
    }
}

/// The asynchronous backend prints nothing of its pool: what is neither free nor allocated is somebody
/// else's, or lies in the pool.
fn of_the_drivers_pool(sums: &Sums, request: u64) -> VerdictKind {
    let outside = unexpected_outside(sums);
    let free = sums.free.map_or(0, |free| free.bytes);
    if outside > 0 && request <= free.saturating_add(outside) && !is_nearly_full(sums) {
        VerdictKind::OutsideAllocator
    } else {
        VerdictKind::Capacity
    }
}

fn slack_is_crumbs(sums: &Sums) -> bool {
    slack_is_below(sums, CRUMBS_PERCENT)
}

fn is_moderate(sums: &Sums) -> bool {
    slack_is_below(sums, CLEAR_PERCENT)
}

fn slack_is_below(sums: &Sums, percent: u64) -> bool {
    let bytes = |size: Option<super::size::Size>| size.map_or(0, |size| size.bytes);
    bytes(sums.unallocated).saturating_mul(100) < bytes(sums.reserved).saturating_mul(percent)
}

fn is_nearly_full(sums: &Sums) -> bool {
    let Some((allocated, total)) = sums.allocated.zip(sums.total) else { return false };
    allocated.bytes.saturating_mul(100) >= total.bytes.saturating_mul(NEARLY_FULL_PERCENT)
}

/// Bytes outside of this allocator beyond what a context and its libraries usually take; 0 when unknown or
/// small.
fn unexpected_outside(sums: &Sums) -> u64 {
    let Some((outside, total)) = sums.outside.zip(sums.total) else { return 0 };
    let threshold = EXPECTED_OUTSIDE_BYTES.max(total.bytes / 20);
    if outside.bytes >= threshold { outside.bytes - EXPECTED_OUTSIDE_BYTES } else { 0 }
}

fn within_rounding(sums: &Sums) -> bool {
    let Some((request, reach)) = sums.requested.zip(sums.reach) else { return false };
    request.bytes.abs_diff(reach.bytes) <= sums.rounding()
}

#[cfg(test)]
mod tests {
    use super::super::scan::scan;
    use super::*;

    /// Verdict on a message with these figures in MiB: asked, total, free, allocated, unallocated.
    fn verdict(figures: [u64; 5], extra: &str) -> (&'static str, Option<Confidence>) {
        let [asked, total, free, allocated, unallocated] = figures.map(|mib| format!("{mib}.00 MiB"));
        let log = format!(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked}. GPU 0 has a total capacity of {total} of which {free} is free. {extra}Of the allocated memory {allocated} is allocated by PyTorch, and {unallocated} is reserved by PyTorch but unallocated."
        );
        let found = scan(log.as_bytes());
        let message = &found.messages[0];
        let (cause, confidence) = judge(message, &Sums::of(message));
        (cause.name(), confidence)
    }

    #[test]
    fn the_threshold_of_fragmentation_is_three_percent() {
        assert_eq!(verdict([600, 20_000, 500, 18_430, 570], ""), ("fragmentation", Some(Confidence::Low)));
        assert_eq!(verdict([600, 20_000, 500, 18_431, 569], ""), ("near-capacity", Some(Confidence::High)));
        assert_eq!(verdict([600, 20_000, 500, 17_000, 2_000], ""), ("fragmentation", Some(Confidence::High)));
    }

    #[test]
    fn enough_in_sum_is_not_capacity() {
        assert_eq!(verdict([1_071, 20_000, 500, 18_430, 570], "").0, "capacity");
        assert_eq!(verdict([1_070, 20_000, 500, 18_430, 570], ""), ("fragmentation", Some(Confidence::Low)));
        assert_eq!(verdict([20_001, 20_000, 500, 18_430, 570], "").0, "huge-request");
        assert_eq!(verdict([20_000, 20_000, 500, 18_430, 570], "").0, "capacity");
    }

    #[test]
    fn room_on_the_device_is_the_drivers_affair() {
        assert_eq!(verdict([600, 20_000, 700, 17_000, 2_000], "").0, "driver-refused");
        assert_eq!(verdict([600, 20_000, 601, 18_430, 500], "").0, "near-capacity", "not a page to spare");
        assert_eq!(verdict([600, 20_000, 601, 10_000, 9_000], "").0, "driver-refused");
    }

    #[test]
    fn a_limit_decides_where_it_binds() {
        assert_eq!(verdict([600, 20_000, 9_000, 9_900, 100], "10500.00 MiB allowed; ").0, "memory-cap");
        assert_eq!(verdict([600, 20_000, 9_000, 9_000, 1_000], "10500.00 MiB allowed; ").0, "fragmentation");
        assert_eq!(verdict([600, 20_000, 9_000, 9_900, 100], "10601.00 MiB allowed; ").0, "driver-refused");
        assert_eq!(verdict([600, 20_000, 9_000, 400, 10], "500.00 MiB allowed; ").0, "huge-request");
        assert_eq!(verdict([600, 20_000, 100, 18_430, 100], "18600.00 MiB allowed; ").0, "capacity");
    }

    #[test]
    fn what_others_hold_can_make_the_difference() {
        assert_eq!(verdict([600, 20_000, 100, 10_000, 100], "").0, "outside-allocator");
        assert_eq!(verdict([600, 20_000, 100, 10_000, 600], "").0, "fragmentation", "that is reason enough");
        assert_eq!(verdict([9_000, 20_000, 100, 10_000, 100], "").0, "capacity", "not even without them");
        assert_eq!(verdict([600, 20_000, 100, 18_500, 100], "").0, "capacity", "a context takes that much");
    }

    #[test]
    fn figures_that_are_missing_leave_it_open() {
        let cause = |log: &str| {
            let found = scan(log.as_bytes());
            let message = &found.messages[0];
            judge(message, &Sums::of(message))
        };
        let start = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 600.00 MiB.";
        assert_eq!(cause(start), (VerdictKind::Unknown, None));
        let free = " GPU 0 has a total capacity of 20.00 GiB of which 9.00 GiB is free.";
        assert_eq!(
            cause(&format!("{start}{free}")),
            (VerdictKind::Unknown, None),
            "a limit may have been cut off"
        );
        let oldest_class = format!("{start}{free}").replace("torch.Out", "torch.cuda.Out");
        assert_eq!(cause(&oldest_class).0, VerdictKind::DriverRefused, "these versions name no limit");
    }
}
