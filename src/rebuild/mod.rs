//! Rebuild: from recorded events to what happened, to the byte.
//!
//! Owns the one forward pass that gives every block its true size and every allocation its life, the
//! allocator state at any moment, and the allocator's own counters. Does not know lines, tables or files.
//!
//! Events carry the *requested* size; the allocator's counters use the *block* size, which follows from the
//! address: an `alloc` takes the free block that starts there, and the allocator's rule says what is split
//! off. A trace that starts late is anchored at the file's final segments (see `initial`).

mod blocks;
mod check;
mod counters;
mod gather;
mod history;
mod initial;
mod moment;
mod observer;
mod pass;
mod pieces;
mod retries;
mod rules;
mod segments;
mod state;

pub use counters::{Stat, stats};
pub use history::{Allocations, History, NONE, OomEvent, SegmentRanges};
pub use moment::{Moment, Peak, Peaks, Usage};
pub use pieces::{Carried, Prelude, end_differences, piece_end};
pub use rules::{MIN_BLOCK_BYTES, Rules, SMALL_BYTES, SMALL_SEGMENT_BYTES};
pub use state::{State, StateBlock, StateSegment};

use crate::model::{DeviceTrace, Trace};

use gather::Completions;
use initial::Initial;
use observer::Observer;
use pass::Pass;

/// How often the pass is repeated with sizes that it has learnt of blocks from before the recording.
const MAX_CORRECTIONS: usize = 4;

/// Rebuilds what happened on `device` of `trace`. Never fails: what does not add up is in
/// [`History::warnings`].
#[must_use]
pub fn rebuild(trace: &Trace, device: &DeviceTrace) -> History {
    let rules = Rules::new(&trace.settings);
    let mut history = run(trace, device, &rules, || ()).0;
    let differences = end_differences(trace, device.stated_end(), &history);
    history.warnings.merge(differences);
    history
}

/// Runs passes until no block from before the recording is disproved.
fn run<O: Observer>(
    trace: &Trace,
    device: &DeviceTrace,
    rules: &Rules,
    observer: impl Fn() -> O,
) -> (History, O) {
    let mut initial = Initial::derive(device, rules);
    let mut completions = Completions::default();
    completions.take(&device.events);
    let completes_at_once = completions.are_left_out(device.stated_end());
    for attempt in 0.. {
        let mut pass = Pass::new(trace, device, rules, &initial, completes_at_once, observer());
        pass.walk();
        if !initial.correct(&pass.learnt) || attempt == MAX_CORRECTIONS {
            let mut history = pass.history;
            (history.uncertain_allocations, history.uncertain_bytes) = initial.uncertain();
            return (history, pass.observer);
        }
    }
    unreachable!("the loop ends at MAX_CORRECTIONS")
}
