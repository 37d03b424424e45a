//! A verdict in words.
//!
//! Owns what is said besides the proof: what the request says about the tensor, private pools, what lies
//! outside of the allocator, and what the reader must know before trusting the figures. Advice is given
//! elsewhere.

use super::fields::Figure;
use super::judge::Confidence;
use super::kind::Kind;
use super::read::{Expandable, Message};
use super::reasons;
use super::size::Printed;
use super::sums::Sums;
use super::variant::{self, Variant};
use crate::findings::VerdictKind;
use crate::findings::thresholds::EXPECTED_OUTSIDE_BYTES;

/// Private pools from this share of reserved memory on are worth a word (in percent).
pub(super) const POOLS_PERCENT: u64 = 5;

/// The sentences that say why `message` ended in `cause`.
#[must_use]
pub fn explain(
    message: &Message,
    sums: &Sums,
    cause: VerdictKind,
    confidence: Option<Confidence>,
) -> Vec<String> {
    let mut said = Vec::new();
    said.extend(asked(message, sums));
    said.push(reasons::reason(message, sums, cause));
    said.extend(caution(sums, confidence));
    said.extend(pools(sums));
    said.extend(outside(sums, cause));
    said.extend(caveats(message, sums));
    said
}

/// What the request says about the tensor: the message names the segment that was asked from the driver.
fn asked(message: &Message, sums: &Sums) -> Option<String> {
    let asked = Printed(sums.requested?.bytes);
    let is_segment = message.kind == Kind::Allocator && message.variant() != Variant::V1;
    Some(match asked.0 {
        0x20_0000 if is_segment => format!(
            "{asked} were asked for: that is the segment which PyTorch asks from the driver for a tensor of at most 1 MiB. Such a tensor cannot use what is free in the segments of larger ones."
        ),
        0x140_0000 if is_segment => format!(
            "{asked} were asked for: that is the segment which PyTorch asks from the driver for a tensor between 1 and 10 MiB (or, seldom, for one of 18 to 20 MiB)."
        ),
        _ => format!("{asked} were asked for."),
    })
}

fn caution(sums: &Sums, confidence: Option<Confidence>) -> Option<String> {
    let distance = sums.requested.zip(sums.reach).map(|(asked, reach)| asked.bytes.abs_diff(reach.bytes));
    match confidence {
        Some(Confidence::Low) if distance.is_some_and(|distance| distance <= sums.rounding()) => {
            Some(format!(
                "The printed figures are rounded, by up to {} in this comparison, so it could be the other way round.",
                Printed(sums.rounding())
            ))
        }
        Some(Confidence::Low) => {
            Some("That is close to the threshold: take the verdict with caution.".to_owned())
        }
        _ => None,
    }
}

fn pools(sums: &Sums) -> Option<String> {
    let private = sums.private_pool?;
    let ending = if has_large_pools(sums) { " This is where to look first." } else { "" };
    Some(format!(
        "{} of what counts as allocated are free blocks of private pools (CUDA graphs), which are kept for their graphs: no other request can use them.{ending}",
        Printed(private.bytes)
    ))
}

/// Whether private pools keep a part of the reserved memory that matters.
pub(super) fn has_large_pools(sums: &Sums) -> bool {
    sums.private_pool.zip(sums.reserved).is_some_and(|(private, reserved)| {
        private.bytes.saturating_mul(100) >= reserved.bytes.saturating_mul(POOLS_PERCENT)
    })
}

/// What lies outside of the allocator, where that is more than a context takes.
fn outside(sums: &Sums, cause: VerdictKind) -> Option<String> {
    let outside = sums.outside.filter(|outside| outside.bytes >= EXPECTED_OUTSIDE_BYTES)?;
    let mut parts = Vec::new();
    if sums.others.bytes > 0 {
        parts.push(format!("{} in other processes", Printed(sums.others.bytes)));
    }
    if let Some(here) = sums.outside_here {
        parts.push(format!(
            "{} in this process (context, kernels, libraries such as NCCL)",
            Printed(here.bytes)
        ));
    }
    if cause == VerdictKind::HugeRequest || parts.is_empty() {
        return None;
    }
    Some(format!("Outside of PyTorch's allocator lie {}: {}.", Printed(outside.bytes), parts.join(", ")))
}

fn caveats(message: &Message, sums: &Sums) -> Vec<String> {
    let mut said = Vec::new();
    let cut_off: Vec<_> = message.cut_off().iter().map(|figure| figure.name()).collect();
    if !cut_off.is_empty() {
        said.push(format!("The message was cut off: {} not known.", are(&cut_off)));
    }
    if message.no_answer().iter().any(|figure| *figure != Figure::Allowed) {
        said.push(
            "Where it prints 17179869184.00 GiB (2^64) the driver had no answer, as on Windows.".to_owned(),
        );
    }
    let held = sums.reserved.or(sums.allocated).zip(sums.total);
    if held.is_some_and(|(held, total)| held.bytes > total.bytes) {
        said.push("PyTorch holds more than the device has: Windows put the rest into the computer's memory, which is very slow.".to_owned());
    }
    if message.expandable == Expandable::On && variant::lacks_its_tip(&message.fields) {
        said.push(
            "The tip about expandable segments is missing: newer versions leave it out when they are on."
                .to_owned(),
        );
    }
    if message.count > 1 {
        said.push(format!(
            "The log has this message {} times: printed again, or the same failure again because something, often the caught exception itself, still holds what the first attempt had.",
            message.count
        ));
    }
    said
}

fn are(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => format!("{one} is"),
        [rest @ .., last] => format!("{} and {last} are", rest.join(", ")),
    }
}
