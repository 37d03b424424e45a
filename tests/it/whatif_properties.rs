//! What must hold for every replay of every program: layouts that an independent checker accepts, totals that
//! add up, limits that are kept.

use memlab::model::{SegmentKind, StackId, Trace};
use memlab::rebuild::rebuild;
use memlab::simulate::{
    self, Conf, Layout, LayoutBlock, LayoutUse, Limit, Release, Requests, baseline, replay, replay_watched,
};
use proptest::prelude::*;

use crate::allocator_model::{Run, Step, record, without_beginning};

const MIB: u64 = 1 << 20;

fn step(waits: f64) -> impl Strategy<Value = Step> {
    let small = (1u64..1 << 20, 0u64..2).prop_map(|(size, stream)| Step::Alloc(size, stream));
    let large = (1u64..64 << 20, 0u64..2).prop_map(|(size, stream)| Step::Alloc(size, stream));
    let free =
        (any::<usize>(), prop::bool::weighted(waits)).prop_map(|(which, waits)| Step::Free(which, waits));
    prop_oneof![3 => small, 3 => large, 5 => free, 1 => Just(Step::Complete), 1 => Just(Step::EmptyCache)]
}

fn runs(waits: f64) -> impl Strategy<Value = Run> {
    prop::collection::vec(step(waits), 1..120)
        .prop_map(|steps| record(&steps))
        .prop_filter("at least one event", |run| !run.trace.devices.is_empty())
}

fn confs() -> impl Strategy<Value = Conf> {
    let texts = [
        "",
        "expandable_segments:True",
        "max_split_size_mb:32",
        "max_split_size_mb:20,max_non_split_rounding_mb:24",
        "roundup_power2_divisions:4",
        "roundup_power2_divisions:[1:2,8:4,>:16]",
        "garbage_collection_threshold:0.3",
        "garbage_collection_threshold:0.5,max_split_size_mb:24",
        "expandable_segments:True,roundup_power2_divisions:8,large_segment_size_mb:40",
    ];
    prop::sample::select(texts.to_vec()).prop_map(|text| Conf::parse(text, Release::default()).unwrap())
}

fn requests(trace: &Trace) -> Requests {
    Requests::new(trace, &trace.devices[0], &rebuild(trace, &trace.devices[0]))
}

/// The checker: shares no code with the simulator.
fn check(layout: &Layout, limit: Limit) {
    let (mut reserved, mut active, mut occupied) = (0, 0, 0);
    let mut before = 0;
    for segment in &layout.segments {
        assert!(segment.address >= before, "segments do not overlap");
        before = segment.address + segment.bytes;
        let mut at = segment.address;
        let mut last: Option<&LayoutBlock> = None;
        for block in &segment.blocks {
            assert_eq!(block.address, at, "blocks tile their segment");
            assert!(block.bytes > 0 && block.bytes % 512 == 0, "blocks are whole units");
            at += block.bytes;
            let is_idle = matches!(block.usage, LayoutUse::Free | LayoutUse::Unmapped);
            assert!(
                !(is_idle && last.is_some_and(|last| last.usage == block.usage)),
                "idle neighbours are joined"
            );
            if block.usage != LayoutUse::Unmapped {
                reserved += block.bytes;
            }
            if !is_idle {
                active += block.bytes;
                occupied += 1;
            }
            last = Some(block);
        }
        assert_eq!(at, segment.address + segment.bytes, "blocks tile their segment");
        assert!(
            segment.is_expandable || segment.blocks.iter().all(|block| block.usage != LayoutUse::Unmapped)
        );
        if segment.kind == SegmentKind::Small && !segment.is_expandable {
            assert_eq!(segment.bytes, 2 * MIB);
        }
    }
    assert_eq!(reserved, layout.reserved_bytes, "reserved is the sum of what is mapped");
    assert_eq!(active, layout.active_bytes, "active is the sum of what is in use");
    assert!(active <= reserved);
    if let Some(cap) = limit.cap {
        // As in PyTorch, a request is tested with the size of a plain segment, but mapped in whole granules.
        let is_expandable = layout.segments.iter().any(|segment| segment.is_expandable);
        let granule = if is_expandable { 40 * MIB } else { 0 };
        assert!(reserved <= cap + granule, "the limit is kept");
    }
    assert_eq!(occupied, layout.live.len(), "every block in use is some request's");
    let mut addresses: Vec<u64> = layout.live.iter().map(|live| live.address).collect();
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), layout.live.len(), "no two requests share a block");
    for live in &layout.live {
        let after = layout.segments.partition_point(|segment| segment.address <= live.address);
        let segment = &layout.segments[after - 1];
        let at = segment
            .blocks
            .binary_search_by_key(&live.address, |block| block.address)
            .expect("a block is there");
        let block = segment.blocks[at];
        assert!(matches!(block.usage, LayoutUse::Allocated | LayoutUse::Pending), "the block is in use");
        assert!(block.bytes >= live.bytes, "the block holds the request");
        assert_eq!(segment.stream, live.stream, "streams are not mixed");
        let kind = if block.bytes <= MIB { SegmentKind::Small } else { SegmentKind::Large };
        assert_eq!(segment.kind, kind, "small requests lie in small segments");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_layout_stands_the_checker(
        run in runs(0.2), conf in confs(), share in 0.3f64..1.5, is_limited: bool,
    ) {
        let requests = requests(&run.trace);
        let free = replay(&requests, &conf, Limit::default());
        prop_assert_eq!(free.oom_event, None);
        let cap = (free.peak_reserved_bytes as f64 * share) as u64;
        let limit = if is_limited { Limit::cap(cap) } else { Limit::default() };
        let mut highest = 0;
        let outcome = replay_watched(&requests, &conf, limit, |_, layout| {
            check(layout, limit);
            highest = highest.max(layout.reserved_bytes);
        });
        prop_assert!(outcome.peak_reserved_bytes >= highest);
        prop_assert!(outcome.peak_allocated_bytes <= outcome.peak_reserved_bytes);
    }

    #[test]
    fn reserved_never_falls_below_live_and_no_setting_beats_the_bounds(run in runs(0.0), conf in confs()) {
        let requests = requests(&run.trace);
        let outcome = replay(&requests, &conf, Limit::default());
        let lives = simulate::lives(&requests);
        let live = simulate::live_peak(&lives);
        prop_assert!(outcome.peak_reserved_bytes >= live);
        prop_assert!(outcome.peak_allocated_bytes <= outcome.peak_reserved_bytes);
        prop_assert!(simulate::pack(&lives).bytes >= live);
    }

    #[test]
    fn the_recorded_settings_give_the_recording(run in runs(0.0)) {
        // Without stacks every return of segments is one of `empty_cache`, as in the model.
        let mut trace = run.trace.clone();
        trace.devices[0].events.stacks.fill(StackId::NONE);
        let history = rebuild(&trace, &trace.devices[0]);
        let found = baseline(&requests(&trace), &Conf::default(), &history);
        prop_assert!(found.is_exact(), "{:?}", found.first_divergence);
        prop_assert_eq!(found.outcome.end_reserved_bytes, run.truth.last().unwrap().reserved_bytes);
    }

    #[test]
    fn a_recording_that_starts_late_is_replayed_from_its_state(
        run in runs(0.2), conf in confs(), share in 0.0f64..1.0,
    ) {
        let lost = ((run.truth.len() - 1) as f64 * share) as usize;
        let trace = without_beginning(&run, lost);
        let requests = requests(&trace);
        let outcome = replay_watched(&requests, &conf, Limit::default(), |_, layout| {
            // Blocks from before the recording may be of either kind, whatever the setting.
            let sum: u64 = layout.segments.iter().flat_map(|segment| &segment.blocks)
                .filter(|block| block.usage != LayoutUse::Unmapped).map(|block| block.bytes).sum();
            assert_eq!(sum, layout.reserved_bytes);
        });
        prop_assert_eq!(outcome.oom_event, None);
    }

    #[test]
    fn the_smallest_memory_is_enough(run in runs(0.1), conf in confs()) {
        let requests = requests(&run.trace);
        let live = simulate::live_peak(&simulate::lives(&requests));
        let least = simulate::smallest_memory(&requests, &conf, live).expect("some memory is enough");
        prop_assert_eq!(replay(&requests, &conf, Limit::cap(least)).oom_event, None);
        prop_assert!(least >= live / (2 * MIB) * (2 * MIB));
    }
}
