//! The allocator's own counters, as `torch.cuda.memory_stats()` names them.
//!
//! Owns the counting along a pass. Keys that the trace cannot prove are left out, never guessed; they are
//! listed in `docs/reading-a-report.md`.

use std::collections::BTreeMap;

use crate::model::{Action, BlockState, DeviceTrace, Trace};

use super::blocks::Blocks;
use super::history::{Allocations, NONE};
use super::observer::{Class, Observer, Released, Taken};
use super::retries::retries;
use super::rules::Rules;

/// One counter with its high-water mark and both sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Now.
    pub current: u64,
    /// Highest value.
    pub peak: u64,
    /// Sum of all increases.
    pub allocated: u64,
    /// Sum of all decreases.
    pub freed: u64,
}

impl Stat {
    fn increase(&mut self, amount: u64) {
        self.current = self.current.saturating_add(amount);
        self.peak = self.peak.max(self.current);
        self.allocated = self.allocated.saturating_add(amount);
    }

    fn decrease(&mut self, amount: u64) {
        self.current = self.current.saturating_sub(amount);
        self.freed = self.freed.saturating_add(amount);
    }

    fn change(&mut self, more: u64, less: u64) {
        if more > less {
            self.increase(more - less);
        } else if less > more {
            self.decrease(less - more);
        }
    }
}

/// A counter for both pools and their sum. The sum has its own peak.
#[derive(Clone, Copy, Debug, Default)]
struct ByPool {
    all: Stat,
    small: Stat,
    large: Stat,
}

impl ByPool {
    fn each(&mut self, class: Class, change: impl Fn(&mut Stat)) {
        change(&mut self.all);
        change(if class.small { &mut self.small } else { &mut self.large });
    }

    fn pools(&self) -> [(&'static str, Stat); 3] {
        [("all", self.all), ("small_pool", self.small), ("large_pool", self.large)]
    }
}

/// All counters of one device.
#[derive(Clone, Debug, Default)]
struct Counters {
    allocation: ByPool,
    segment: ByPool,
    active: ByPool,
    inactive_split: ByPool,
    allocated_bytes: ByPool,
    reserved_bytes: ByPool,
    active_bytes: ByPool,
    inactive_split_bytes: ByPool,
    requested_bytes: ByPool,
    oversize_allocations: Stat,
    oversize_segments: Stat,
    oversize_from: Option<u64>,
    stop: usize,
}

impl Counters {
    fn named(&self) -> [(&'static str, &ByPool); 9] {
        [
            ("allocation", &self.allocation),
            ("segment", &self.segment),
            ("active", &self.active),
            ("inactive_split", &self.inactive_split),
            ("allocated_bytes", &self.allocated_bytes),
            ("reserved_bytes", &self.reserved_bytes),
            ("active_bytes", &self.active_bytes),
            ("inactive_split_bytes", &self.inactive_split_bytes),
            ("requested_bytes", &self.requested_bytes),
        ]
    }

    fn is_oversize(&self, bytes: u64) -> bool {
        self.oversize_from.is_some_and(|limit| bytes >= limit)
    }

    fn enter_active(&mut self, class: Class, bytes: u64, requested: u64, allocated: bool) {
        if allocated {
            self.allocation.each(class, |stat| stat.increase(1));
            self.allocated_bytes.each(class, |stat| stat.increase(bytes));
        }
        self.active.each(class, |stat| stat.increase(1));
        self.active_bytes.each(class, |stat| stat.increase(bytes));
        self.requested_bytes.each(class, |stat| stat.increase(requested));
    }
}

impl Observer for Counters {
    fn taken(&mut self, what: &Taken) {
        let class = what.class;
        if !class.expandable {
            // A split takes a piece off a remainder that counted before, or makes a new remainder.
            let remainder = what.found_bytes - what.block_bytes;
            let before = if what.was_split { (1, what.found_bytes) } else { (0, 0) };
            let after = if remainder > 0 { (1, remainder) } else { (0, 0) };
            self.inactive_split.each(class, |stat| stat.change(after.0, before.0));
            self.inactive_split_bytes.each(class, |stat| stat.change(after.1, before.1));
        }
        self.enter_active(class, what.block_bytes, what.requested_bytes, true);
        if self.is_oversize(what.block_bytes) {
            self.oversize_allocations.increase(1);
        }
    }

    fn free_requested(&mut self, class: Class, block_bytes: u64) {
        self.allocation.each(class, |stat| stat.decrease(1));
        self.allocated_bytes.each(class, |stat| stat.decrease(block_bytes));
        if self.is_oversize(block_bytes) {
            self.oversize_allocations.decrease(1);
        }
    }

    fn released(&mut self, what: &Released) {
        let class = what.class;
        if !class.expandable {
            let after = if what.result_is_split { (1, what.result_bytes) } else { (0, 0) };
            self.inactive_split.each(class, |stat| stat.change(after.0, what.merged_blocks));
            self.inactive_split_bytes.each(class, |stat| stat.change(after.1, what.merged_bytes));
        }
        self.active.each(class, |stat| stat.decrease(1));
        self.active_bytes.each(class, |stat| stat.decrease(what.block_bytes));
        self.requested_bytes.each(class, |stat| stat.decrease(what.requested_bytes));
    }

    fn segment_added(&mut self, class: Class, bytes: u64) {
        self.reserved_bytes.each(class, |stat| stat.increase(bytes));
        if !class.expandable {
            self.segment.each(class, |stat| stat.increase(1));
            if self.is_oversize(bytes) {
                self.oversize_segments.increase(1);
            }
        }
    }

    fn segment_removed(&mut self, class: Class, bytes: u64) {
        self.reserved_bytes.each(class, |stat| stat.decrease(bytes));
        if !class.expandable {
            self.segment.each(class, |stat| stat.decrease(1));
            if self.is_oversize(bytes) {
                self.oversize_segments.decrease(1);
            }
        }
    }

    fn initial_done(&mut self, blocks: &Blocks, allocations: &Allocations) {
        for head in blocks.heads() {
            let mut at = head;
            while at != NONE {
                let node = blocks.node(at);
                let class = Class { small: node.small, expandable: node.expandable };
                if node.row != NONE {
                    let requested = allocations.requested_bytes[node.row as usize];
                    self.enter_active(
                        class,
                        node.bytes,
                        requested,
                        node.state == BlockState::ActiveAllocated,
                    );
                } else if node.is_split() && !node.expandable {
                    self.inactive_split.each(class, |stat| stat.increase(1));
                    self.inactive_split_bytes.each(class, |stat| stat.increase(node.bytes));
                }
                at = node.next;
            }
        }
    }

    fn stops_before(&mut self, event: usize) -> bool {
        event >= self.stop
    }
}

/// Counters of `device` after event `at` (after the last one without it), by their `memory_stats()` keys.
///
/// A recording that starts late knows what is in use now, but neither the sums nor the peaks since the
/// process began: then only `*.current` keys are given.
#[must_use]
pub fn stats(trace: &Trace, device: &DeviceTrace, at: Option<u64>) -> BTreeMap<String, u64> {
    let rules = Rules::new(&trace.settings);
    let stop = at.map_or(usize::MAX, |event| event.saturating_add(1) as usize);
    let counters = || Counters { stop, oversize_from: rules.max_split_bytes(), ..Counters::default() };
    let (history, counters) = super::run(trace, device, &rules, counters);
    let mut keys = BTreeMap::new();
    let mut put = |name: &str, stat: Stat| {
        keys.insert(format!("{name}.current"), stat.current);
        if history.from_the_start {
            keys.insert(format!("{name}.peak"), stat.peak);
            keys.insert(format!("{name}.allocated"), stat.allocated);
            keys.insert(format!("{name}.freed"), stat.freed);
        }
    };
    for (name, by_pool) in counters.named() {
        for (pool, stat) in by_pool.pools() {
            put(&format!("{name}.{pool}"), stat);
        }
    }
    put("oversize_allocations", counters.oversize_allocations);
    put("oversize_segments", counters.oversize_segments);
    if history.from_the_start {
        keys.extend(event_counts(device, stop));
        if let Some(retries) = retries(device, &trace.settings, stop) {
            keys.insert("num_alloc_retries".to_owned(), retries);
        }
    }
    keys
}

/// Counters that are plain numbers of events.
fn event_counts(device: &DeviceTrace, stop: usize) -> [(String, u64); 3] {
    let actions = &device.events.actions;
    let seen = &actions[..stop.min(actions.len())];
    let count = |wanted: &[Action]| seen.iter().filter(|action| wanted.contains(action)).count() as u64;
    [
        ("num_ooms".to_owned(), count(&[Action::Oom])),
        ("num_device_alloc".to_owned(), count(&[Action::SegmentAlloc, Action::SegmentMap])),
        ("num_device_free".to_owned(), count(&[Action::SegmentFree, Action::SegmentUnmap])),
    ]
}
