//! The sentences that prove a verdict.
//!
//! Owns wording, no decision. The first sentence gives the situation, the second the reason with its
//! arithmetic; further ones say what stood in the way besides.

use crate::units::{Bytes, percent};

use super::refusal::{Cap, Refusal};
use super::verdict::{Outside, Verdict, VerdictKind};

/// All sentences about `verdict`, whose figures are complete.
pub(super) fn explain(verdict: &Verdict) -> Vec<String> {
    let sums = &verdict.sums;
    let free = sums.device_free_bytes.map_or_else(
        || "what was free on the device is not recorded".to_owned(),
        |free| format!("{} were free on the device", Bytes(free)),
    );
    let mut said = vec![
        format!(
            "{} were asked for; {free}, {} reserved by PyTorch, {} of these active ({})",
            Bytes(sums.request_bytes),
            Bytes(sums.reserved_bytes),
            Bytes(sums.active_bytes),
            percent(sums.active_bytes, sums.reserved_bytes),
        ),
        reason(verdict),
    ];
    match (verdict.refusal, verdict.kind) {
        (Refusal::Cap(cap), VerdictKind::Fragmentation) => said.push(limited(verdict, cap)),
        (Refusal::Cap(cap), VerdictKind::MemoryCap) => said.push(beneath(verdict, cap)),
        _ => {}
    }
    if sums.private_free_bytes > 0 {
        said.push(format!(
            "{} are free in other (private) pools, which this request cannot use",
            Bytes(sums.private_free_bytes)
        ));
    }
    if !sums.is_looked_at {
        said.push("So many requests failed that only totals were compared for this one".to_owned());
    }
    said.iter().map(|sentence| format!("{sentence}.")).collect()
}

fn reason(verdict: &Verdict) -> String {
    let sums = &verdict.sums;
    match verdict.kind {
        VerdictKind::HugeRequest => huge(verdict),
        VerdictKind::PendingAtOom => pending(verdict),
        VerdictKind::Fragmentation => {
            format!("{}, enough for {}; {}", in_sum(verdict), Bytes(sums.request_bytes), in_pieces(verdict))
        }
        VerdictKind::NearCapacity => near(verdict),
        VerdictKind::MemoryCap => {
            verdict.refusal.cap().map_or_else(|| in_sum(verdict), |cap| limited(verdict, cap))
        }
        VerdictKind::DriverRefused => format!(
            "The device had {} left, more than the {} that a new segment needs, and no limit on this process is known \
             that explains the refusal: no fragmentation of PyTorch's memory does",
            Bytes(sums.device_free_bytes.unwrap_or(0)),
            Bytes(sums.segment_bytes)
        ),
        VerdictKind::OutsideAllocator => outside(verdict),
        VerdictKind::Capacity => format!(
            "{}: {} too little even without any fragmentation",
            in_sum(verdict),
            Bytes(verdict.missing_bytes())
        ),
        VerdictKind::Unknown => unknown(verdict),
    }
}

/// `A free on the device plus B free inside segments is C`.
fn in_sum(verdict: &Verdict) -> String {
    let (room, slack) = (verdict.room_bytes(), verdict.sums.slack_bytes);
    let (sum, slack) = (Bytes(room.saturating_add(slack)), Bytes(slack));
    match verdict.refusal {
        Refusal::DeviceFull => {
            format!("{} free on the device plus {slack} free inside segments is {sum}", Bytes(room))
        }
        Refusal::Cap(_) if room > 0 => {
            format!("{} left under the limit plus {slack} free inside segments is {sum}", Bytes(room))
        }
        _ => format!("{slack} are free inside segments"),
    }
}

/// Why no piece would do.
fn in_pieces(verdict: &Verdict) -> String {
    match verdict.sums.largest_free_block_bytes {
        _ if !verdict.sums.is_looked_at => "but in pieces".to_owned(),
        0 => "but no free block is of this stream and pool".to_owned(),
        largest => format!("but the largest free block of this stream and pool is {}", Bytes(largest)),
    }
}

fn near(verdict: &Verdict) -> String {
    let (sums, room) = (&verdict.sums, verdict.room_bytes());
    if sums.request_bytes <= room {
        return format!(
            "{}, enough for {}; but the driver is asked for {} at a time",
            in_sum(verdict),
            Bytes(sums.request_bytes),
            Bytes(sums.segment_bytes)
        );
    }
    format!(
        "{}, enough in sum; but that is crumbs ({} of reserved) on a nearly full device",
        in_sum(verdict),
        percent(sums.slack_bytes, sums.reserved_bytes)
    )
}

fn huge(verdict: &Verdict) -> String {
    let sums = &verdict.sums;
    let allowed = verdict.refusal.cap().and_then(|cap| cap.allowed_bytes);
    match (allowed, verdict.total_bytes) {
        (Some(allowed), _) => {
            format!("This process may have {} in all: this one request can never fit", Bytes(allowed))
        }
        (None, Some(total)) => {
            format!("The device has {} in all: this one request can never fit", Bytes(total))
        }
        (None, None) => format!(
            "All that was free on the device and all that this process held are {} together: this one request would \
             not have fitted if everything had been given back (the size of the device is not recorded)",
            Bytes(sums.reserved_bytes.saturating_add(sums.device_free_bytes.unwrap_or(0)))
        ),
    }
}

fn pending(verdict: &Verdict) -> String {
    let sums = &verdict.sums;
    if sums.largest_with_pending_bytes >= sums.request_bytes {
        return format!(
            "{} on the same stream had been freed but waited for another stream; once that completes the request fits",
            Bytes(sums.largest_with_pending_bytes)
        );
    }
    if sums.freed_too_late_bytes >= sums.request_bytes {
        return format!(
            "A free block of {} was there when the request failed: its free completed while the allocator was failing, \
             which does not search its free blocks again (PyTorch issue 189504); the same request made again fits",
            Bytes(sums.freed_too_late_bytes)
        );
    }
    format!(
        "{} had been freed but waited for another stream; once they complete, {} of whole segments go back to the \
         driver and the request fits",
        Bytes(sums.pending_free_bytes),
        Bytes(sums.released_by_pending_bytes)
    )
}

/// Why the driver's free memory did not help.
fn limited(verdict: &Verdict, cap: Cap) -> String {
    let (free, segment) =
        (Bytes(verdict.sums.device_free_bytes.unwrap_or(0)), Bytes(verdict.sums.segment_bytes));
    match (cap.fraction, cap.allowed_bytes) {
        (Some(fraction), Some(allowed)) => format!(
            "The device had {free} left; `per_process_memory_fraction:{fraction}` allows {} in all and forbids to \
             reserve {segment} more",
            Bytes(allowed)
        ),
        (Some(fraction), None) => format!(
            "The device had {free} left; `per_process_memory_fraction:{fraction}` forbids to reserve {segment} more"
        ),
        (None, _) => format!(
            "The device had {free} left, more than the {segment} that a new segment needs: the process is limited to a \
             part of it (`set_per_process_memory_fraction` leaves no mark in a snapshot), or the driver refused for \
             another reason"
        ),
    }
}

/// Why the limited memory was not enough.
fn beneath(verdict: &Verdict, cap: Cap) -> String {
    let missing = Bytes(verdict.missing_bytes());
    let sum = in_sum(verdict);
    match verdict.cause {
        VerdictKind::NearCapacity => format!(
            "{sum}, enough in sum; but that is crumbs ({} of reserved)",
            percent(verdict.sums.slack_bytes, verdict.sums.reserved_bytes)
        ),
        _ if cap.allowed_bytes.is_some() => {
            format!("{sum}: {missing} too little even without any fragmentation")
        }
        _ => format!("{sum}: up to {missing} too little even without any fragmentation"),
    }
}

fn outside(verdict: &Verdict) -> String {
    let Some(Outside { bytes, unexplained_bytes, .. }) = verdict.outside else { return in_sum(verdict) };
    format!(
        "{} of the device are in use outside PyTorch's allocator, {} more than a context and its libraries usually \
         take: without these the driver would have had enough",
        Bytes(bytes),
        Bytes(unexplained_bytes)
    )
}

fn unknown(verdict: &Verdict) -> String {
    let sums = &verdict.sums;
    if sums.largest_free_block_bytes >= sums.request_bytes {
        return format!(
            "A free block of {} on the same stream would have served the request: it was made for another pool (a graph \
             that was being captured, for example), or the recording is not what the allocator had",
            Bytes(sums.largest_free_block_bytes)
        );
    }
    let what = if sums.device_free_bytes.is_none() {
        "What the device had free is not recorded"
    } else {
        "What was held and live before the recording is not known"
    };
    format!("{what}, so nothing can be concluded from {} that are known to be free", Bytes(sums.slack_bytes))
}
