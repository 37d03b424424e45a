//! Requests through the model: one setting, one limit.

use super::addresses::{Addresses, Placing};
use super::allocator::{Allocator, Layout, Limit, LiveRequest, Refusal};
use super::conf::Conf;
use super::outcome::Outcome;
use super::requests::{Requests, Step, What};
use crate::rebuild::NONE;

/// Replays `requests` under `conf` within `limit`. Ends at the first request that fails although the
/// recording saw it succeed: a real program would not have gone on.
#[must_use]
pub fn replay(requests: &Requests, conf: &Conf, limit: Limit) -> Outcome {
    replay_placed(requests, conf, limit, Placing::default())
}

/// As [`replay`], with segments placed as `placing` says.
#[must_use]
pub fn replay_placed(requests: &Requests, conf: &Conf, limit: Limit, placing: Placing) -> Outcome {
    Run::new(requests, conf, limit, placing).finish(|_, _| ())
}

/// As [`replay`], with a look at the whole layout after every step (by its event): for checkers.
#[must_use]
pub fn replay_watched(
    requests: &Requests,
    conf: &Conf,
    limit: Limit,
    mut watch: impl FnMut(u64, &Layout),
) -> Outcome {
    Run::new(requests, conf, limit, Placing::default())
        .finish(|run, step| watch(u64::from(step.event), &run.layout()))
}

/// A replay under way.
pub(super) struct Run<'a> {
    requests: &'a Requests,
    pub(super) allocator: Allocator<'a>,
    /// Block of each request that is handed out; [`NONE`] for the others.
    pub(super) block_of: Vec<u32>,
    /// Whether the driver refuses what the recording saw it refuse.
    refuses_as_recorded: bool,
    oom_event: Option<u64>,
    steps: u64,
    /// How many of the recorded returns have been made.
    returned: usize,
}

impl<'a> Run<'a> {
    pub(super) fn new(requests: &'a Requests, conf: &'a Conf, limit: Limit, placing: Placing) -> Self {
        let addresses = Addresses::from_recording(&requests.segments, &requests.ranges, placing);
        let mut allocator = Allocator::new(conf, limit, &requests.places, addresses, requests.device_bytes);
        let mut block_of = allocator.enter(&requests.initial, &requests.places, requests.initial_rows);
        for (row, block) in block_of.iter_mut().enumerate().filter(|(row, _)| requests.sizes[*row] == 0) {
            allocator.complete_free(row as u32);
            if *block != NONE {
                allocator.free(std::mem::replace(block, NONE));
            }
        }
        allocator.begins_here();
        block_of.resize(requests.sizes.len(), NONE);
        Self {
            requests,
            allocator,
            block_of,
            refuses_as_recorded: false,
            oom_event: None,
            steps: 0,
            returned: 0,
        }
    }

    /// A replay in which the driver refuses what it refused in the recording.
    pub(super) fn as_recorded(requests: &'a Requests, conf: &'a Conf) -> Self {
        Self { refuses_as_recorded: true, ..Self::new(requests, conf, Limit::default(), Placing::BySize) }
    }

    /// Replays to the end; `watch` is called after every step.
    pub(super) fn finish(mut self, mut watch: impl FnMut(&Self, Step)) -> Outcome {
        for &step in &self.requests.steps {
            let goes_on = self.apply(step);
            watch(&self, step);
            if !goes_on {
                break;
            }
        }
        self.outcome()
    }

    /// Applies one step; `false` when the program would have ended here.
    #[inline]
    fn apply(&mut self, step: Step) -> bool {
        self.allocator.event = step.event;
        self.steps += 1;
        let row = step.row as usize;
        match step.what {
            What::Alloc | What::AllocRetried | What::AllocFailed => return self.alloc(step),
            What::EmptyCache => self.allocator.release_cached(),
            // Nothing happens where a release has completed it before.
            What::CompleteFree => self.allocator.complete_free(step.row),
            What::Free | What::RequestFree => {
                let block = std::mem::replace(&mut self.block_of[row], NONE);
                match step.what {
                    _ if block == NONE => {}
                    What::Free => self.allocator.free(block),
                    _ => self.allocator.request_free(step.row, block),
                }
            }
        }
        true
    }

    #[inline]
    fn alloc(&mut self, step: Step) -> bool {
        let row = step.row as usize;
        let refusal = match step.what.recorded_refusal() {
            Refusal::First if self.refuses_as_recorded && self.allocator.conf_collects() => {
                self.collect_as_recorded(step.event);
                Refusal::None
            }
            refusal if self.refuses_as_recorded => refusal,
            _ => Refusal::None,
        };
        let place = self.requests.places_of[row];
        if let Ok(block) = self.allocator.malloc(place, self.requests.sizes[row], refusal) {
            self.block_of[row] = block;
            return true;
        }
        self.oom_event.get_or_insert(u64::from(step.event));
        step.what == What::AllocFailed
    }

    /// Returns what the recording returned before event `event`: garbage collection depends on a cap that no
    /// recording states.
    fn collect_as_recorded(&mut self, event: u32) {
        while let Some(&(at, address)) = self.requests.returned.get(self.returned) {
            if at >= event {
                break;
            }
            self.returned += 1;
            self.allocator.return_at(address);
        }
    }

    fn outcome(self) -> Outcome {
        let track = self.allocator.track;
        Outcome {
            peak_reserved_bytes: track.peak_reserved,
            peak_allocated_bytes: track.peak_allocated,
            peak_event: u64::from(track.peak_event),
            active_at_peak_bytes: track.active_at_peak,
            end_reserved_bytes: self.allocator.figures.reserved,
            oom_event: self.oom_event,
            retries: self.allocator.figures.retries,
            steps: self.steps,
            course: track.course,
        }
    }

    fn layout(&self) -> Layout {
        let requests = self.requests;
        let rows = self.block_of.iter().enumerate().map(|(row, &block)| (row as u32, block));
        let live: Vec<_> = rows
            .filter(|&(_, block)| block != NONE)
            .chain(self.allocator.pending())
            .map(|(row, block)| {
                let stream = requests.places[requests.places_of[row as usize] as usize].stream;
                (block, LiveRequest { address: 0, bytes: requests.sizes[row as usize], stream })
            })
            .collect();
        self.allocator.layout(&live)
    }
}
