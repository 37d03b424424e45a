//! The sums behind a verdict, from the figures of a message alone.
//!
//! Owns what follows from the printed figures by adding and subtracting, and how far rounding can move it.
//! What was not printed stays unknown.

use super::fields::Figure;
use super::kind::Kind;
use super::read::Message;
use super::size::Size;

/// A process named by its outer number holds what PyTorch reserved and a context, at most so much more.
const CONTEXT_BYTES: u64 = 2 << 30;

/// What a message says in sum. Sizes are exact to their `rounding`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Asked for.
    pub requested: Option<Size>,
    /// Memory of the device.
    pub total: Option<Size>,
    /// Left on the device.
    pub free: Option<Size>,
    /// Allocated, free blocks of private pools included.
    pub allocated: Option<Size>,
    /// Reserved by PyTorch: printed, or allocated and unallocated.
    pub reserved: Option<Size>,
    /// Free inside PyTorch's segments: printed, or reserved less allocated.
    pub unallocated: Option<Size>,
    /// What this process may reserve.
    pub allowed: Option<Size>,
    /// Free blocks of private pools.
    pub private_pool: Option<Size>,
    /// Held by this process, as the driver says.
    pub process: Option<Size>,
    /// Free on the device and free inside PyTorch's segments.
    pub reach: Option<Size>,
    /// In use, but not by this allocator: total less free less reserved.
    pub outside: Option<Size>,
    /// The part of it that belongs to this process: context, libraries.
    pub outside_here: Option<Size>,
    /// Held by the other processes that the message names.
    pub others: Size,
    /// Index of the named process that is this one, when it is named by its outer number (in a container).
    pub own_process: Option<usize>,
}

impl Sums {
    /// The sums of `message`.
    #[must_use]
    pub fn of(message: &Message) -> Self {
        let figure = |name| message.figure(name);
        let (allocated, free, total) =
            (figure(Figure::Allocated), figure(Figure::Free), figure(Figure::Total));
        let printed = (figure(Figure::Reserved), figure(Figure::Unallocated));
        let reserved = printed.0.or_else(|| both(allocated, printed.1, plus));
        let unallocated = printed.1.or_else(|| both(printed.0, allocated, minus));
        let mut sums = Self {
            requested: figure(Figure::Requested),
            total,
            free,
            allocated,
            reserved,
            unallocated,
            allowed: figure(Figure::Allowed),
            private_pool: figure(Figure::Private),
            process: figure(Figure::Process),
            reach: both(free, unallocated, plus),
            ..Self::default()
        };
        // The asynchronous backend prints no reserved memory: its pool belongs to the driver.
        let own = if message.kind == Kind::Async { allocated } else { reserved };
        sums.outside = both(both(total, free, minus), own, minus);
        sums.own_process = own_process(message, &sums);
        let held = |index: usize| message.others.get(index).and_then(|other| other.held);
        let here = sums.process.or_else(|| sums.own_process.and_then(held));
        sums.outside_here = both(here, reserved, minus);
        for index in (0..message.others.len()).filter(|index| Some(*index) != sums.own_process) {
            sums.others = plus(sums.others, held(index).unwrap_or_default());
        }
        sums
    }

    /// Further bytes that may be reserved below the limit.
    pub(super) fn room(&self) -> Option<Size> {
        both(self.allowed, self.reserved.or(self.allocated), minus)
    }

    /// By how many bytes the comparison of the request with what was within reach may be off.
    #[must_use]
    pub fn rounding(&self) -> u64 {
        let parts = [self.requested, self.reach.or(self.free)];
        parts.into_iter().flatten().fold(0, |sum, part| part.rounding.saturating_add(sum))
    }
}

/// Which of the named processes is this one, where the message does not say so: the one that holds what
/// PyTorch reserved and not much more.
fn own_process(message: &Message, sums: &Sums) -> Option<usize> {
    let reserved = sums.reserved.filter(|_| sums.process.is_none())?;
    let excess = |index: usize| {
        let held = message.others[index].held?;
        let above = held.bytes.saturating_add(held.rounding).saturating_add(reserved.rounding);
        above.checked_sub(reserved.bytes).filter(|excess| *excess <= CONTEXT_BYTES)
    };
    (0..message.others.len()).filter_map(|index| Some((excess(index)?, index))).min().map(|(_, index)| index)
}

fn both(one: Option<Size>, other: Option<Size>, join: fn(Size, Size) -> Size) -> Option<Size> {
    Some(join(one?, other?))
}

fn plus(one: Size, other: Size) -> Size {
    let bytes = one.bytes.saturating_add(other.bytes);
    Size { bytes, rounding: one.rounding.saturating_add(other.rounding) }
}

/// Nothing where the difference would be negative: on Windows a process can hold more than the device has.
fn minus(one: Size, other: Size) -> Size {
    let bytes = one.bytes.saturating_sub(other.bytes);
    Size { bytes, rounding: one.rounding.saturating_add(other.rounding) }
}
