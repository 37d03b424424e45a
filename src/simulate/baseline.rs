//! The recorded settings replayed and held against the recording: how far the model can be trusted here.

use super::conf::Conf;
use super::outcome::Outcome;
use super::replay::Run;
use super::requests::{Requests, What};
use crate::rebuild::{History, NONE};
use crate::units::Count;

/// How the model and the recording first part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// Another free block was taken, or one in another segment.
    Address,
    /// The same address, but more or less split off.
    Size,
    /// The recording failed where the model could serve, or the other way round.
    Failure,
}

/// Where and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// Event.
    pub event: u64,
    /// What differs.
    pub difference: Difference,
    /// The likely cause, a sentence.
    pub cause: String,
}

/// Result of the comparison.
#[derive(Clone, Debug)]
pub struct Baseline {
    /// Peak of reserved bytes in the recording.
    pub recorded_peak_reserved_bytes: u64,
    /// What the replay gave.
    pub outcome: Outcome,
    /// Requests served at another address or with another size than recorded.
    pub differing_requests: u64,
    /// The first of them.
    pub first_divergence: Option<Divergence>,
}

impl Baseline {
    /// Whether the peak and every block's address and size are as recorded.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.first_divergence.is_none()
            && self.outcome.peak_reserved_bytes == self.recorded_peak_reserved_bytes
    }
}

/// Replays `requests` under the recorded settings `conf`; refusals of the driver are taken from the
/// recording.
#[must_use]
pub fn baseline(requests: &Requests, conf: &Conf, history: &History) -> Baseline {
    let mut differing = 0;
    let mut first = None;
    let mut retried = false;
    let outcome = Run::as_recorded(requests, conf).finish(|run, step| {
        let row = step.row as usize;
        let difference = match step.what {
            What::EmptyCache | What::Free | What::RequestFree | What::CompleteFree => return,
            What::AllocFailed if run.block_of[row] == NONE => None,
            What::AllocFailed => Some(Difference::Failure),
            What::Alloc | What::AllocRetried if run.block_of[row] == NONE => Some(Difference::Failure),
            What::Alloc | What::AllocRetried => {
                let block = run.allocator.blocks.get(run.block_of[row]);
                let (address, bytes) = requests.recorded[row];
                match () {
                    () if block.address != address => Some(Difference::Address),
                    () if block.bytes != bytes => Some(Difference::Size),
                    () => None,
                }
            }
        };
        retried |= step.what != What::Alloc;
        if let Some(difference) = difference {
            differing += 1;
            first.get_or_insert((u64::from(step.event), difference, retried));
        }
    });
    let first_divergence = first.map(|(event, difference, retried)| Divergence {
        event,
        difference,
        cause: foreign_segment(requests, conf, history, event)
            .unwrap_or_else(|| cause(requests, history, difference, retried)),
    });
    Baseline {
        recorded_peak_reserved_bytes: history.peaks.reserved.bytes,
        outcome,
        differing_requests: differing,
        first_divergence,
    }
}

/// Whether the request of event `event` obtained a segment that the recorded settings would not have
/// obtained for it, and what that says.
fn foreign_segment(requests: &Requests, conf: &Conf, history: &History, event: u64) -> Option<String> {
    let row = *history.allocation_of_event.get(event as usize)? as usize;
    let range = *history.allocations.ranges.get(row)? as usize;
    // Obtained by the event right before the request.
    if history.ranges.born.get(range)?.event()? + 1 != event {
        return None;
    }
    if history.ranges.expandable[range] != conf.is_expandable() {
        return Some(
            "the settings changed at run time: segments are not all expandable, or not all plain".to_owned(),
        );
    }
    let (bytes, expected) =
        (history.ranges.bytes[range], conf.segment_bytes(conf.round(requests.sizes[row])));
    (!conf.is_expandable() && bytes != expected).then(|| {
        format!(
            "a segment of {} bytes was obtained where PyTorch obtains {}: another allocator, or settings that changed at run time",
            Count(bytes),
            Count(expected)
        )
    })
}

fn cause(requests: &Requests, history: &History, difference: Difference, retried: bool) -> String {
    if history.uncertain_allocations > 0 {
        return format!(
            "the recording starts late: the true size of {} blocks from before it is not proved",
            history.uncertain_allocations
        );
    }
    if requests.starts_late() {
        return "the recording starts late: which free blocks and segments there were is read off the final state"
            .to_owned();
    }
    if !history.warnings.is_empty() {
        return "events are missing in the recording (see its warnings)".to_owned();
    }
    if requests.has_private_pools() {
        return "private pools: events do not say which pool a request went to, or when a pool was given up"
            .to_owned();
    }
    if retried {
        return "a retry before it: which cached segments the allocator returned differs".to_owned();
    }
    match difference {
        Difference::Size => {
            "the settings changed at run time: blocks are split by another rule than the recorded one"
        }
        _ => "the settings changed at run time, or memory was returned without a mark in the recording",
    }
    .to_owned()
}
