//! What must hold for every trace: the accounting laws, against an independent model of the allocator.

use memlab::model::{Action, BlockState, PoolId, Trace};
use memlab::rebuild::{History, Moment, State, StateBlock, Usage, rebuild};
use memlab::tables::{Causes, GroupBy, Grouping, StepTable, TimelineExtent, causes, streams, timeline};
use proptest::prelude::*;

use crate::allocator_model::{Run, Step, record, without_beginning};

fn step() -> impl Strategy<Value = Step> {
    let small = (1u64..1 << 20, 0u64..2).prop_map(|(size, stream)| Step::Alloc(size, stream));
    let large = (1u64..64 << 20, 0u64..2).prop_map(|(size, stream)| Step::Alloc(size, stream));
    let free =
        (any::<usize>(), prop::bool::weighted(0.2)).prop_map(|(which, waits)| Step::Free(which, waits));
    prop_oneof![3 => small, 3 => large, 5 => free, 1 => Just(Step::Complete), 1 => Just(Step::EmptyCache)]
}

pub(crate) fn runs() -> impl Strategy<Value = Run> {
    prop::collection::vec(step(), 1..120)
        .prop_map(|steps| record(&steps))
        .prop_filter("at least one event", |run| !run.trace.devices.is_empty())
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "run of {} events", self.truth.len() - 1)
    }
}

fn history(trace: &Trace) -> History {
    rebuild(trace, &trace.devices[0])
}

/// Blocks tile their segment, no two free ones touch; gives requested, allocated, active, reserved.
fn checked_sums(state: &State) -> Usage {
    let mut usage = Usage::default();
    for segment in &state.segments {
        let mut at = segment.address;
        let mut was_free = false;
        for block in &segment.blocks {
            assert_eq!(block.address, at, "blocks tile their segment");
            let free = block.state == BlockState::Inactive;
            assert!(!(free && was_free), "free neighbours are one block");
            was_free = free;
            at += block.bytes;
            if !free {
                usage.active_bytes += block.bytes;
                usage.requested_bytes += block.requested_bytes;
            }
            if block.state == BlockState::ActiveAllocated {
                usage.allocated_bytes += block.bytes;
            }
        }
        assert_eq!(at, segment.address + segment.bytes, "blocks tile their segment");
        usage.reserved_bytes += segment.bytes;
    }
    usage
}

/// Puts every segment whose number has the rest `salt` into a private pool of its own.
fn with_private_pools(trace: &Trace, salt: usize) -> Trace {
    let mut trace = trace.clone();
    let is_segment = |&event: &usize| trace.devices[0].events.actions[event] == Action::SegmentAlloc;
    let segments: Vec<usize> = (0..trace.event_count()).filter(is_segment).collect();
    for (number, event) in segments.into_iter().enumerate().filter(|(number, _)| number % 4 == salt) {
        let pool = trace.pool_index(PoolId(0, number as u64 + 1));
        trace.devices[0].events.pools.set(event, pool);
    }
    trace
}

/// The causes block by block, by their definition.
fn naive_causes(state: &State, main: u64) -> Causes {
    let mut found = Causes::default();
    for segment in &state.segments {
        let is_used = |block: &StateBlock| block.state != BlockState::Inactive;
        let pinned = segment.blocks.iter().any(is_used);
        for block in &segment.blocks {
            let cause = match block.state {
                BlockState::ActivePendingFree => &mut found.pending_free_bytes,
                BlockState::ActiveAllocated => {
                    found.rounding_bytes += block.bytes - block.requested_bytes;
                    continue;
                }
                BlockState::Inactive if segment.pool != PoolId::DEFAULT => &mut found.private_pool_bytes,
                BlockState::Inactive if segment.stream != main => &mut found.other_stream_bytes,
                BlockState::Inactive if pinned => &mut found.split_remainder_bytes,
                BlockState::Inactive => &mut found.releasable_cache_bytes,
            };
            *cause += block.bytes;
        }
    }
    found
}

/// Asked for, over allocated blocks.
fn requested(state: &State) -> u64 {
    let blocks = state.segments.iter().flat_map(|segment| &segment.blocks);
    blocks.filter(|b| b.state == BlockState::ActiveAllocated).map(|b| b.requested_bytes).sum()
}

fn peaks_of(truth: &[Usage]) -> [u64; 4] {
    let most = |of: fn(&Usage) -> u64| truth.iter().map(of).max().unwrap_or(0);
    [
        most(|usage| usage.requested_bytes),
        most(|usage| usage.allocated_bytes),
        most(|usage| usage.active_bytes),
        most(|usage| usage.reserved_bytes),
    ]
}

fn peaks(history: &History) -> [u64; 4] {
    let peaks = history.peaks;
    [peaks.requested.bytes, peaks.allocated.bytes, peaks.active.bytes, peaks.reserved.bytes]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_total_at_every_moment_is_the_allocators(run in runs()) {
        let history = history(&run.trace);
        prop_assert!(history.warnings.is_empty(), "{:?}", history.warnings);
        prop_assert!(history.from_the_start);
        for (moment, truth) in run.truth.iter().enumerate() {
            let moment = Moment(moment as u64);
            prop_assert_eq!(history.usage_at(moment), *truth);
            prop_assert_eq!(checked_sums(&history.state_at(moment)), *truth);
            prop_assert!(truth.allocated_bytes <= truth.active_bytes);
            prop_assert!(truth.active_bytes <= truth.reserved_bytes);
            prop_assert!(truth.requested_bytes <= truth.active_bytes);
        }
        prop_assert_eq!(peaks(&history), peaks_of(&run.truth));
        prop_assert_eq!(history.end, *run.truth.last().unwrap());
    }

    #[test]
    fn the_end_is_the_allocators_block_by_block(run in runs()) {
        let history = history(&run.trace);
        let state = history.state_at(Moment(history.events));
        let ours: Vec<_> = state.segments.iter().flat_map(|segment| &segment.blocks)
            .map(|block| (block.address, block.bytes, block.state)).collect();
        let theirs: Vec<_> = run.end.iter().flat_map(|segment| &segment.blocks)
            .map(|block| (block.address, block.bytes, block.state)).collect();
        prop_assert_eq!(ours, theirs);
    }

    #[test]
    fn a_lost_beginning_leaves_the_end_exact_and_the_rest_within_what_is_said(
        run in runs(), share in 0.0f64..1.0,
    ) {
        let lost = ((run.truth.len() - 1) as f64 * share) as usize;
        let history = history(&without_beginning(&run, lost));
        prop_assert_eq!(history.warnings.count("end-differs"), 0);
        prop_assert_eq!(history.end, *run.truth.last().unwrap());
        let truth = run.truth[lost];
        prop_assert_eq!(history.initial.reserved_bytes, truth.reserved_bytes);
        prop_assert_eq!(history.initial.requested_bytes, truth.requested_bytes);
        let missing = truth.active_bytes - history.initial.active_bytes;
        prop_assert!(missing <= history.uncertain_bytes, "{missing} bytes unsaid");
        if history.uncertain_bytes == 0 {
            prop_assert_eq!(peaks(&history), peaks_of(&run.truth[lost..]));
        }
    }

    #[test]
    fn every_byte_that_was_not_asked_for_has_one_cause_at_every_moment(run in runs(), salt in 0usize..5) {
        let trace = with_private_pools(&run.trace, salt);
        let device = &trace.devices[0];
        let history = history(&trace);
        let main = streams(&history).main;
        let states: Vec<State> = (0..=history.events).map(|at| history.state_at(Moment(at))).collect();
        let mut expected = Vec::new();
        for (state, usage) in states.iter().zip(&run.truth) {
            let found = causes(state, main);
            prop_assert_eq!(found, naive_causes(state, main));
            prop_assert_eq!(found.sum(), usage.reserved_bytes - requested(state));
            expected.push(found);
        }
        // The curves of the picture, which are kept up event by event, say the same.
        let grouping = Grouping::build(&trace, device, &history, GroupBy::Line);
        let extent = TimelineExtent { bands: 1, columns: 10_000 };
        let curves = timeline(device, &history, &grouping, &[], &StepTable::default(), extent);
        prop_assert_eq!(curves.moments.len(), expected.len());
        let events = &device.events;
        for (at, found) in curves.causes.iter().enumerate() {
            let passing = at > 0 && at < expected.len() - 1
                && events.actions[at - 1] == Action::FreeRequested
                && events.actions[at] == Action::FreeCompleted
                && events.addresses[at - 1] == events.addresses[at];
            let settled = at + usize::from(passing);
            prop_assert_eq!(*found, expected[settled], "at {}", at);
            prop_assert_eq!(found.sum(), run.truth[settled].reserved_bytes - requested(&states[settled]));
        }
    }

    #[test]
    fn the_history_of_a_prefix_is_the_prefix_of_the_history(run in runs(), share in 0.0f64..1.0) {
        let kept = ((run.truth.len() - 1) as f64 * share) as usize;
        let mut prefix = run.trace.clone();
        let events = &mut prefix.devices[0].events;
        let rows: Vec<_> = (0..kept).map(|index| events.get(index)).collect();
        *events = memlab::model::Events::default();
        for row in rows { events.push(row); }
        prefix.devices[0].segments = None;
        let short = history(&prefix);
        prop_assert_eq!(short.end, run.truth[kept]);
        prop_assert_eq!(peaks(&short), peaks_of(&run.truth[..=kept]));
    }
}
