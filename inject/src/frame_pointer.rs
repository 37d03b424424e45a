//! What a step of a walk does with the register of the frame pointer, in which many programs keep data.
//!
//! Owns the trial that tells: the same step with another value there. Only for steps whose rule is kept, which is then
//! surely the same.

use framehop::{CacheNative, FrameAddress, MayAllocateDuringUnwind, UnwindRegsNative, Unwinder as _};

use crate::memo::{Memo, Place, Use};
use crate::walk::Unwinder;

/// Where a step leads to, and with which registers.
pub(crate) type Step = (Option<u64>, UnwindRegsNative);

/// The same step with another frame pointer, by the same rule. `None` where it fails, or no rule is kept for it: what is
/// made up for a frame pointer that leads astray must not be kept either.
pub(crate) fn other_step(
    unwinder: &Unwinder,
    at: FrameAddress,
    registers: &UnwindRegsNative,
    rules: &mut CacheNative<MayAllocateDuringUnwind>,
    stack: std::ops::Range<u64>,
) -> Option<Step> {
    let mut read = |address: u64| {
        let is_stack =
            address >= stack.start && address.checked_add(8).is_some_and(|behind| behind <= stack.end);
        // SAFETY: within this thread's stack, above the frame that is running.
        is_stack.then(|| unsafe { (address as *const u64).read_unaligned() }).ok_or(())
    };
    let hits = rules.stats().hits();
    unwinder.unwind_frame(at, &mut { *registers }, rules, &mut read).ok()?;
    if rules.stats().hits() == hits {
        return None;
    }
    let mut registers = Place::with_other_frame_pointer(registers);
    Some((unwinder.unwind_frame(at, &mut registers, rules, &mut read).ok()?, registers))
}

/// What a step with this `outcome` does with the frame pointer: its `registers` before and after say it, and the step
/// with the `other` one. Rules compute with the register as it is, or round it: one whose bits are all others leads
/// elsewhere, if it leads at all.
pub(crate) fn usage(
    outcome: Option<u64>,
    registers: (&UnwindRegsNative, &UnwindRegsNative),
    other: Option<Step>,
    memo: &Memo,
) -> Use {
    let Some((other_outcome, other)) = other.filter(|other| other.0 == outcome) else { return Use::Leads };
    // The address is the same: what differs is the rest.
    let place = |registers| Place::new(other_outcome.unwrap_or(0), registers);
    let (before, after) = (place(registers.0), place(registers.1));
    if place(&other) == after {
        Use::Restores(memo.frame_pointer_read(&after))
    } else if place(&Place::with_other_frame_pointer(&other)) == after && after.has_frame_pointer_of(&before)
    {
        Use::Passes
    } else {
        Use::Leads
    }
}
