//! What must hold for every trace: the accounting laws, against an independent model of the allocator.

use memlab::model::{BlockState, Trace};
use memlab::rebuild::{History, Moment, State, Usage, rebuild};
use proptest::prelude::*;

use crate::allocator_model::{Run, Step, record, without_beginning};

fn step() -> impl Strategy<Value = Step> {
    let small = (1u64..1 << 20, 0u64..2).prop_map(|(size, stream)| Step::Alloc(size, stream));
    let large = (1u64..64 << 20, 0u64..2).prop_map(|(size, stream)| Step::Alloc(size, stream));
    let free =
        (any::<usize>(), prop::bool::weighted(0.2)).prop_map(|(which, waits)| Step::Free(which, waits));
    prop_oneof![3 => small, 3 => large, 5 => free, 1 => Just(Step::Complete), 1 => Just(Step::EmptyCache)]
}

fn runs() -> impl Strategy<Value = Run> {
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
