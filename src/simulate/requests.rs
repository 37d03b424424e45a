//! The requests of a recording, in order, freed from what its allocator made of them.
//!
//! Owns what is asked: sizes, places (pool and stream), the order of requests and frees, calls of
//! `empty_cache`, and the request that failed. What the allocator did of its own (segments obtained,
//! flushes of a retry) is not among the steps.

use super::allocator::{Place, Refusal};
use super::flushes::{self, Flush};
use crate::model::{Action, DeviceId, DeviceTrace, PoolId, StackId, Trace};
use crate::rebuild::{History, Moment, NONE, State};

/// What a client of the allocator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Asks.
    Alloc,
    /// Asks; in the recording only a retry served it.
    AllocRetried,
    /// Asks; in the recording that failed.
    AllocFailed,
    /// Gives back, free at once.
    Free,
    /// Gives back, other streams still use it.
    RequestFree,
    /// The others are done.
    CompleteFree,
    /// Empties the cache.
    EmptyCache,
}

impl What {
    /// What the recording's driver refused of this request.
    pub(super) fn recorded_refusal(self) -> Refusal {
        match self {
            Self::AllocRetried => Refusal::First,
            Self::AllocFailed => Refusal::Always,
            _ => Refusal::None,
        }
    }
}

/// One step; `row` is the request's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) event: u32,
    pub(super) row: u32,
    pub(super) what: What,
}

/// A recording as a list of requests. Row numbers are those of the history's allocations; failed requests
/// come behind them.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    /// Device.
    pub device: DeviceId,
    pub(super) steps: Vec<Step>,
    /// Requested bytes by row; 0 for a request that was taken out.
    pub(super) sizes: Vec<u64>,
    /// Place number by row.
    pub(super) places_of: Vec<u32>,
    /// Stack of the request by row.
    pub(super) stacks: Vec<StackId>,
    /// Recorded address and block size by row; 0 where nothing was handed out.
    pub(super) recorded: Vec<(u64, u64)>,
    pub(super) places: Vec<Place>,
    /// State before the first event.
    pub(super) initial: State,
    /// Rows that the initial state may name.
    pub(super) initial_rows: usize,
    /// Segments returned for a request, as (event, address), in order.
    pub(super) returned: Vec<(u32, u64)>,
    /// Segments obtained, as (bytes, address), in order.
    pub(super) segments: Vec<(u64, u64)>,
    /// Ranges of expandable segments mapped, as (group, address), in order.
    pub(super) ranges: Vec<(u32, u64)>,
    /// Memory of the device, when known.
    pub device_bytes: Option<u64>,
    /// The part of it that the process was allowed, when known.
    pub memory_fraction: Option<f64>,
}

impl Requests {
    /// Reads the requests off `device` of `trace`, of which `history` was rebuilt.
    #[must_use]
    pub fn new(trace: &Trace, device: &DeviceTrace, history: &History) -> Self {
        let mut requests = Self {
            device: device.device,
            device_bytes: device_bytes(trace, device.device),
            memory_fraction: trace.memory_fraction(device.device).filter(|&share| share < 1.0),
            ..Self::default()
        };
        requests.enter_initial(history);
        requests.enter_rows(trace, device, history);
        requests.enter_ranges(history);
        requests.enter_steps(device, history);
        requests
    }

    /// How many requests and frees there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether nothing is asked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether the recording began with memory in use, which a replay takes over as it was.
    #[must_use]
    pub fn starts_late(&self) -> bool {
        !self.initial.segments.is_empty()
    }

    /// Whether the recording holds a request that failed.
    #[must_use]
    pub fn has_failure(&self) -> bool {
        self.steps.iter().any(|step| step.what == What::AllocFailed)
    }

    /// Whether requests made the allocator return segments: it ran into a limit, or collected garbage.
    #[must_use]
    pub fn has_returns(&self) -> bool {
        !self.returned.is_empty()
    }

    /// Whether requests went to private pools.
    #[must_use]
    pub fn has_private_pools(&self) -> bool {
        self.places.iter().any(|place| place.pool != PoolId::DEFAULT)
    }

    /// The same requests with those of some stacks made smaller or left out: `factor` gives the share of
    /// its size that a request of a stack keeps, if it is to change; 0 leaves it out. Also says how many requests changed.
    #[must_use]
    pub fn scaled(&self, factor: impl Fn(StackId) -> Option<f64>) -> (Self, u64) {
        let mut scaled = self.clone();
        let mut changed = 0;
        for (size, &stack) in scaled.sizes.iter_mut().zip(&self.stacks) {
            if let Some(factor) = factor(stack) {
                *size = (*size as f64 * factor.max(0.0)).ceil() as u64;
                changed += 1;
            }
        }
        scaled.steps.retain(|step| step.row == NONE || scaled.sizes[step.row as usize] > 0);
        (scaled, changed)
    }

    fn place(&mut self, pool: PoolId, stream: u64) -> u32 {
        let place = Place { pool, stream };
        if let Some(known) = self.places.iter().rposition(|&known| known == place) {
            return known as u32;
        }
        self.places.push(place);
        (self.places.len() - 1) as u32
    }

    fn enter_initial(&mut self, history: &History) {
        if !history.from_the_start {
            self.initial = history.state_at(Moment(0));
        }
        for at in 0..self.initial.segments.len() {
            let (pool, stream) = (self.initial.segments[at].pool, self.initial.segments[at].stream);
            self.place(pool, stream);
        }
        self.initial_rows =
            history.allocations.alloc_events.iter().take_while(|&&event| event == NONE).count();
    }

    fn enter_rows(&mut self, trace: &Trace, device: &DeviceTrace, history: &History) {
        let rows = &history.allocations;
        self.sizes.clone_from(&rows.requested_bytes);
        self.stacks.clone_from(&rows.stacks);
        self.recorded = rows.addresses.iter().copied().zip(rows.block_bytes.iter().copied()).collect();
        self.places_of.reserve(rows.len());
        for row in 0..rows.len() {
            let event = rows.alloc_events[row];
            let range = rows.ranges[row] as usize;
            let of_range = pool_of_range(history, range);
            let place = if event == NONE {
                self.place(of_range, history.ranges.streams.get(range).copied().unwrap_or_default())
            } else {
                let pool = trace.event_pool(device, event as usize).unwrap_or(of_range);
                self.place(pool, device.events.stream(event as usize))
            };
            self.places_of.push(place);
        }
    }

    fn enter_ranges(&mut self, history: &History) {
        let ranges = &history.ranges;
        for row in (0..ranges.len()).filter(|&row| ranges.born[row] > Moment(0)) {
            if ranges.expandable[row] {
                let place = self.place(pool_of_range(history, row), ranges.streams[row]);
                let small = ranges.kinds[row] == crate::model::SegmentKind::Small;
                self.ranges.push((super::allocator::group_of(place, small), ranges.addresses[row]));
            } else {
                self.segments.push((ranges.bytes[row], ranges.addresses[row]));
            }
        }
    }

    fn enter_steps(&mut self, device: &DeviceTrace, history: &History) {
        let events = &device.events;
        let rows = &history.allocations;
        let flushes = flushes::find(device);
        let mut flushes = flushes.iter().peekable();
        let mut is_retried = false;
        let mut failed_row = NONE;
        self.steps.reserve(events.len() / 2);
        for index in 0..events.len() {
            let event = index as u32;
            while let Some(flush) = flushes.next_if(|flush| flush.event() == index) {
                match flush {
                    Flush::EmptyCache(_) => self.push(event, NONE, What::EmptyCache),
                    Flush::Retry(_) => is_retried = true,
                }
            }
            if failed_row != NONE {
                // The program went on after the failure; how long it would have kept the block is unknown.
                self.push(event, std::mem::replace(&mut failed_row, NONE), What::Free);
            }
            let row = history.allocation_of_event.get(index).copied().unwrap_or(NONE);
            match events.actions[index] {
                Action::SegmentFree if is_retried => self.returned.push((event, events.addresses[index])),
                Action::Alloc if row != NONE => {
                    let what = if is_retried { What::AllocRetried } else { What::Alloc };
                    is_retried = false;
                    self.push(event, row, what);
                }
                Action::FreeRequested if row != NONE => {
                    let completed = rows.free_completed_events[row as usize];
                    let at_once = completed == event || completed == event + 1;
                    self.push(event, row, if at_once { What::Free } else { What::RequestFree });
                }
                Action::FreeCompleted if row != NONE => {
                    let requested = rows.free_requested_events[row as usize];
                    if requested == event {
                        self.push(event, row, What::Free);
                    } else if requested == NONE || requested + 1 < event {
                        self.push(event, row, What::CompleteFree);
                    }
                }
                Action::Oom => {
                    is_retried = false;
                    failed_row = self.add_failed(device, index);
                    self.push(event, failed_row, What::AllocFailed);
                }
                _ => {}
            }
        }
    }

    fn push(&mut self, event: u32, row: u32, what: What) {
        self.steps.push(Step { event, row, what });
    }

    /// A row for the request that event `index` says has failed: in the default pool, as the event does not
    /// tell.
    fn add_failed(&mut self, device: &DeviceTrace, index: usize) -> u32 {
        let place = self.place(PoolId::DEFAULT, device.events.stream(index));
        self.sizes.push(device.events.sizes[index]);
        self.stacks.push(device.events.stacks[index]);
        self.places_of.push(place);
        self.recorded.push((0, 0));
        (self.sizes.len() - 1) as u32
    }
}

/// The device's memory as the process or a sample states it.
fn device_bytes(trace: &Trace, device: DeviceId) -> Option<u64> {
    let facts = trace.process.devices.iter().find(|facts| facts.device == device);
    let sampled =
        || trace.samples.iter().filter(|sample| sample.device == device).find_map(|at| at.total_bytes);
    facts.and_then(|facts| facts.total_bytes).or_else(sampled)
}

/// Pool of a range. The final state names it; of a segment that was returned before nothing is known, and
/// what is returned is the default pool's in most programs.
fn pool_of_range(history: &History, row: usize) -> PoolId {
    let ranges = &history.ranges;
    let is_known = |row: &usize| ranges.died[*row] == Moment(u64::MAX) || ranges.expandable[*row];
    Some(row)
        .filter(|&row| row < ranges.len())
        .filter(is_known)
        .map_or(PoolId::DEFAULT, |row| ranges.pools[row])
}
