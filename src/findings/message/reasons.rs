//! The sentence that proves a verdict.
//!
//! Owns the arithmetic in words, one function per cause. Sizes stand as the message prints them, so that a
//! reader finds them again.

use super::kind::Kind;
use super::read::Message;
use super::size::{Printed, Size};
use super::sums::Sums;
use crate::findings::VerdictKind;
use crate::findings::thresholds::CRUMBS_PERCENT;
use crate::units::percent;

/// Why `message` ended in `cause`.
pub(super) fn reason(message: &Message, sums: &Sums, cause: VerdictKind) -> String {
    match cause {
        VerdictKind::HugeRequest => huge(sums),
        VerdictKind::Fragmentation if is_within_limit(sums) => format!(
            "{}, so what is reserved counts: of {} that are reserved {} are free inside PyTorch's segments ({}), enough for {}, but in pieces of which none can serve this request. The device itself had {} left.",
            limit(sums),
            printed(sums.reserved),
            printed(sums.unallocated),
            slack_share(sums),
            printed(sums.requested),
            printed(sums.free)
        ),
        VerdictKind::Fragmentation => format!(
            "{}, enough for {}, but in pieces of which none can serve this request. {} of the reserved memory is unallocated (from {CRUMBS_PERCENT} % on this is called fragmentation).",
            reach(sums),
            printed(sums.requested),
            slack_share(sums)
        ),
        VerdictKind::NearCapacity => near(sums),
        VerdictKind::MemoryCap => cap(sums),
        VerdictKind::DriverRefused => refused(message, sums),
        VerdictKind::OutsideAllocator if matches!(message.kind, Kind::Allocator | Kind::Async) => {
            outside(message, sums)
        }
        VerdictKind::Capacity if message.kind == Kind::Async => format!(
            "{} are allocated by PyTorch on a device of {}, {} were left: what is live does not fit.",
            printed(sums.allocated),
            printed(sums.total),
            printed(sums.free)
        ),
        VerdictKind::Capacity => format!(
            "{}: {} too little, even if nothing were fragmented.",
            reach(sums),
            missing(sums.requested, sums.reach)
        ),
        VerdictKind::OutsideAllocator | VerdictKind::Unknown | VerdictKind::PendingAtOom => {
            without_figures(message, sums)
        }
    }
}

fn printed(size: Option<Size>) -> String {
    size.map_or_else(|| "an unknown amount".to_owned(), |size| Printed(size.bytes).to_string())
}

fn bytes(size: Option<Size>) -> u64 {
    size.map_or(0, |size| size.bytes)
}

/// `26.16 GiB free on the device + 40.69 GiB free inside PyTorch's segments = 66.85 GiB`.
fn reach(sums: &Sums) -> String {
    format!(
        "{} free on the device + {} free inside PyTorch's segments = {}",
        printed(sums.free),
        printed(sums.unallocated),
        printed(sums.reach)
    )
}

fn slack_share(sums: &Sums) -> String {
    percent(bytes(sums.unallocated), bytes(sums.reserved))
}

fn missing(wanted: Option<Size>, had: Option<Size>) -> Printed {
    Printed(bytes(wanted).saturating_sub(bytes(had)))
}

fn is_within_limit(sums: &Sums) -> bool {
    sums.allowed.is_some() && sums.free >= sums.requested
}

fn limit(sums: &Sums) -> String {
    format!("This process may reserve {} in all", printed(sums.allowed))
}

fn huge(sums: &Sums) -> String {
    if sums.total.is_some_and(|total| bytes(sums.requested) > total.bytes) {
        return format!("The whole device has {}: this one request can never fit.", printed(sums.total));
    }
    format!("{}, less than this one request: it can never fit.", limit(sums))
}

fn near(sums: &Sums) -> String {
    let full = percent(bytes(sums.allocated), bytes(sums.total));
    if sums.free >= sums.requested {
        return format!(
            "{} were left, hardly more than that, and the driver hands out whole pages; {full} of the device is allocated: it is simply full.",
            printed(sums.free)
        );
    }
    format!(
        "{}, enough in sum, but the unallocated part is only {} of the reserved memory, and {full} of the device is allocated: it is nearly full. There are two ways out: {} more free on the device, or the {} inside PyTorch's segments in one piece.",
        reach(sums),
        slack_share(sums),
        missing(sums.requested, sums.free),
        printed(sums.unallocated)
    )
}

fn cap(sums: &Sums) -> String {
    let held = match sums.reserved {
        Some(reserved) => format!("{} are reserved", Printed(reserved.bytes)),
        None => format!("{} are allocated", printed(sums.allocated)),
    };
    let said = format!(
        "{} and {held}: {} more would exceed that, while {} are free on the device.",
        limit(sums),
        printed(sums.requested),
        printed(sums.free)
    );
    let Some((room, slack)) = sums.room().zip(sums.unallocated) else { return said };
    if room.bytes.saturating_add(slack.bytes) < bytes(sums.requested) {
        format!(
            "{said} Under this limit it is simply capacity: the {} free inside PyTorch's segments would not have sufficed either.",
            Printed(slack.bytes)
        )
    } else {
        format!(
            "{said} With the {} free inside PyTorch's segments it would fit in sum, but not in one piece that this request could use.",
            Printed(slack.bytes)
        )
    }
}

fn refused(message: &Message, sums: &Sums) -> String {
    let mut said = format!(
        "{} were free on the device, more than what was asked for, and no limit is named: no figure of the allocator explains that.",
        printed(sums.free)
    );
    if let Some(slack) = sums.unallocated {
        said.push_str(&format!(
            " It is not fragmentation ({} reserved but unallocated).",
            Printed(slack.bytes)
        ));
    }
    if message.never_names_a_limit() {
        said.push_str(
            " This version prints no memory fraction, even where one is set; then that is the cause.",
        );
    }
    said
}

fn outside(message: &Message, sums: &Sums) -> String {
    let (outside, total) = (printed(sums.outside), printed(sums.total));
    if message.kind == Kind::Async {
        return format!(
            "{} are allocated by PyTorch and {} were left of {total}: the other {outside} belong to other processes, or lie in the driver's pool, of which the message says nothing.",
            printed(sums.allocated),
            printed(sums.free)
        );
    }
    let shortage = if bytes(sums.free) >= bytes(sums.requested) {
        format!("{} were left, hardly more than that (the driver hands out whole pages)", printed(sums.free))
    } else if bytes(sums.reach) >= bytes(sums.requested) {
        format!(
            "{}, enough in sum, but the unallocated part is only {} of the reserved memory",
            reach(sums),
            slack_share(sums)
        )
    } else {
        format!("{}, not enough", reach(sums))
    };
    format!(
        "{shortage}. But {outside} of the device's {total} are in use outside of PyTorch's allocator; without them the request would fit."
    )
}

/// Messages that do not say how much was asked for, or lost the figures that would tell.
fn without_figures(message: &Message, sums: &Sums) -> String {
    match message.kind {
        Kind::Driver => "The driver had no memory left for something that does not come from PyTorch's allocator: a context, a kernel's code or stack, a graph, a mapping. How much was asked for is not said.".to_owned(),
        Kind::Library("NCCL") => "NCCL asks the driver for its buffers, outside of PyTorch's allocator, and there was nothing left. How much was asked for is not said.".to_owned(),
        Kind::Library(name) => format!(
            "{name} could not get the memory for its handle or workspace from the driver, outside of PyTorch's allocator. How much was asked for is not said. (An index out of range in an earlier kernel can end in the same message.)"
        ),
        Kind::Oldest => "PyTorch up to 0.4 says no more than that the device had no memory left.".to_owned(),
        Kind::Assertion => "The allocator contradicted itself. That happens after an out-of-memory error, and when expandable segments are combined with `max_split_size_mb` or `garbage_collection_threshold`. How much was asked for is not said; from here on every allocation of this process may fail.".to_owned(),
        Kind::Query => "PyTorch ran out of device memory and, while it wrote its message, could not ask NVML who holds it. So the figures are missing; the out-of-memory error itself is real.".to_owned(),
        Kind::Async => "The lines with the figures are missing: front ends often show the first line only.".to_owned(),
        Kind::Allocator if sums.free.is_some() && sums.free >= sums.requested && sums.requested.is_some() => format!(
            "{} were free on the device, more than what was asked for. Before it would name a limit the message was cut off: either a memory fraction is set, or the driver refused.",
            printed(sums.free)
        ),
        Kind::Allocator => "The figures that would tell are missing.".to_owned(),
    }
}
