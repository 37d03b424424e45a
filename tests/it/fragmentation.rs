//! Fragmentation, pools, steps and the timeline: on the public cases the byte figures that an independent
//! counter printed for them; on real recordings the incremental curves against the state at each sample.

use memlab::model::{Action, BlockState, DeviceTrace, PoolId, Trace};
use memlab::rebuild::{History, Moment, State, rebuild};
use memlab::tables::{
    Fragmentation, GroupBy, Grouping, LineTable, Pin, PoolUse, StepTable, TimelineData, TimelineExtent,
    causes, fragmentation, lines, pools, steps, streams, timeline,
};

use crate::inputs::{read, recording};

const MIB: u64 = 1 << 20;

/// One device, rebuilt and grouped by line.
struct Case {
    trace: Trace,
    history: History,
    grouping: Grouping,
    lines: LineTable,
    main_stream: u64,
}

/// Asked for, over allocated blocks.
fn requested_bytes(state: &State) -> u64 {
    let blocks = state.segments.iter().flat_map(|segment| &segment.blocks);
    let allocated = blocks.filter(|block| block.state == BlockState::ActiveAllocated);
    allocated.map(|block| block.requested_bytes.min(block.bytes)).sum()
}

impl Case {
    fn new(folder: &str, name: &str) -> Self {
        let trace = read(&recording(folder, name));
        let history = rebuild(&trace, &trace.devices[0]);
        let grouping = Grouping::build(&trace, &trace.devices[0], &history, GroupBy::Line);
        let lines = lines(&trace, &trace.devices[0], &history, &grouping, None).unwrap();
        let main_stream = streams(&history).main;
        let case = Self { trace, history, grouping, lines, main_stream };
        case.check_timeline();
        case
    }

    fn device(&self) -> &DeviceTrace {
        &self.trace.devices[0]
    }

    fn end(&self) -> Moment {
        Moment(self.history.events)
    }

    fn oom(&self) -> Moment {
        Moment::after(self.history.ooms.last().unwrap().event)
    }

    /// Bytes must add up, over all segments and over all pools.
    fn at(&self, moment: Moment) -> Fragmentation {
        let all = fragmentation(&self.history.state_at(moment), moment, &self.grouping).unwrap();
        assert_eq!(all.requested_bytes + all.rounding_bytes, all.allocated_bytes);
        assert_eq!(all.allocated_bytes + all.pending_free_bytes, all.active_bytes);
        assert_eq!(all.active_bytes + all.releasable_bytes + all.stranded_bytes, all.reserved_bytes);
        let usage = self.history.usage_at(moment);
        assert_eq!((all.active_bytes, all.reserved_bytes), (usage.active_bytes, usage.reserved_bytes));
        let holes: u64 = all.holes.iter().map(|hole| hole.stranded_bytes + hole.releasable_bytes).sum();
        assert_eq!(holes, all.releasable_bytes + all.stranded_bytes);
        let pools = self.pools_at(moment);
        let sum = |of: fn(&PoolUse) -> u64| pools.iter().map(of).sum::<u64>();
        assert_eq!(sum(|pool| pool.reserved_bytes), all.reserved_bytes);
        assert_eq!(sum(|pool| pool.stranded_bytes), all.stranded_bytes);
        assert_eq!(sum(|pool| pool.releasable_bytes), all.releasable_bytes);
        all
    }

    fn pools_at(&self, moment: Moment) -> Vec<PoolUse> {
        pools(&self.history.state_at(moment))
    }

    fn steps(&self) -> StepTable {
        steps(&self.trace, self.device(), &self.history)
    }

    fn group_order(&self) -> Vec<u32> {
        self.lines.entries.iter().map(|entry| entry.group).collect()
    }

    fn timeline(&self) -> TimelineData {
        let extent = TimelineExtent { bands: 3, columns: 60 };
        let order = self.group_order();
        timeline(self.device(), &self.history, &self.grouping, &order, &self.steps(), extent)
    }

    /// The incremental curves equal the state asked for at each sample.
    fn check_timeline(&self) {
        let curves = self.timeline();
        for (sample, &moment) in curves.moments.iter().enumerate() {
            let usage = self.history.usage_at(moment);
            assert_eq!(curves.allocated[sample], usage.allocated_bytes, "{moment:?}");
            assert_eq!(curves.active[sample], usage.active_bytes, "{moment:?}");
            assert_eq!(curves.reserved[sample], usage.reserved_bytes, "{moment:?}");
            let banded: u64 = curves.band_bytes.iter().map(|band| band[sample]).sum();
            assert_eq!(banded, usage.allocated_bytes, "{moment:?}");
            let settled = self.history.state_at(self.settled(moment));
            assert_eq!(curves.causes[sample], causes(&settled, self.main_stream), "{moment:?}");
            let free = usage.reserved_bytes - causes(&settled, self.main_stream).sum();
            assert_eq!(free, requested_bytes(&settled), "{moment:?}");
        }
        let highest = |curve: &[u64]| curve.iter().copied().max().unwrap_or_default();
        assert_eq!(highest(&curves.allocated), self.history.peaks.allocated.bytes);
        assert_eq!(highest(&curves.reserved), self.history.peaks.reserved.bytes);
    }

    /// `moment`, or the next one where an ordinary free has only its first event behind it.
    fn settled(&self, moment: Moment) -> Moment {
        let events = &self.device().events;
        let next = moment.0 as usize;
        let is_passing = moment.event().is_some_and(|event| {
            let event = event as usize;
            events.actions[event] == Action::FreeRequested
                && events.actions.get(next) == Some(&Action::FreeCompleted)
                && events.addresses[event] == events.addresses[next]
        });
        if is_passing { Moment(moment.0 + 1) } else { moment }
    }

    /// `file:line` of a pin.
    fn label(&self, pin: &Pin) -> String {
        self.grouping.keys[pin.group.unwrap() as usize].label(&self.trace)
    }
}

#[test]
fn c07_a_comb_of_keepers_strands_what_the_request_needs() {
    let case = Case::new("cases", "C07_comb_50MiB");
    let all = case.at(case.oom());
    assert_eq!(all.reserved_bytes, 31_744 * MIB);
    assert_eq!(all.allocated_bytes, 18_304 * MIB);
    assert_eq!((all.stranded_bytes, all.stranded_blocks), (13_440 * MIB, 1_280));
    assert_eq!((all.largest_stranded_block_bytes, all.largest_free_block_bytes), (11 * MIB, 11 * MIB));
    assert_eq!(all.releasable_bytes, 0);
    assert_eq!(case.label(&all.pins[0]), "cache.py:9 keep");
    let expected = Pin {
        group: all.pins[0].group,
        blocks: 640,
        block_bytes: 640 * 19 * MIB,
        stranded_bytes: 13_440 * MIB,
        sole_stranded_bytes: 13_440 * MIB,
    };
    assert_eq!(all.pins, [expected]);
    let holes: Vec<_> = all.holes.iter().map(|hole| (hole.power, hole.stranded_blocks)).collect();
    assert_eq!(holes, [(23, 1_280)], "10 and 11 MiB are in one class");
}

#[test]
fn c10_a_pending_block_is_neither_free_nor_allocated() {
    let case = Case::new("cases", "C10_spurious_oom_pending");
    let all = case.at(case.oom());
    assert_eq!(all.pending_free_bytes, 8_192 * MIB);
    assert_eq!((all.allocated_bytes, all.active_bytes), (71_680 * MIB, 79_872 * MIB));
    assert_eq!((all.releasable_bytes, all.stranded_bytes), (0, 0));
}

#[test]
fn c16_a_kept_loss_grows_by_its_size_each_step() {
    let case = Case::new("cases", "C16_loss_kept");
    assert_eq!(case.at(case.end()).allocated_bytes, 992 * MIB);
    let steps = case.steps();
    assert_eq!((steps.source.name(), steps.rows.len()), ("annotations", 20));
    for step in &steps.rows {
        assert_eq!(step.growth_bytes, 24 * MIB as i64, "{}", step.name);
        assert_eq!(step.peak_allocated.bytes, step.begin_allocated_bytes + 224 * MIB, "{}", step.name);
    }
    let held = case.lines.entries.iter().map(|entry| (entry.figures.live_at_end_bytes, entry.group)).max();
    let (bytes, group) = held.unwrap();
    // The model is larger by 32 MiB; the loss is the largest of what grew.
    assert_eq!(bytes, 512 * MIB);
    assert_ne!(case.grouping.keys[group as usize].label(&case.trace), "runner.py:55 loss");
    let loss = case.lines.entries.iter().find(|entry| {
        case.grouping.keys[entry.group as usize].label(&case.trace).starts_with("runner.py:55")
    });
    assert_eq!(loss.unwrap().figures.live_at_end_bytes, 480 * MIB);
}

#[test]
fn c17_concatenation_leaves_a_staircase_of_free_segments() {
    let case = Case::new("cases", "C17_eval_concat");
    let all = case.at(case.end());
    assert_eq!(all.allocated_bytes, 4_096 * MIB);
    assert_eq!(case.history.peaks.allocated.bytes, 7_168 * MIB);
    assert_eq!((all.reserved_bytes, all.releasable_bytes), (21_248 * MIB, 17_152 * MIB));
    let steps = case.steps();
    assert_eq!(steps.rows.len(), 12);
    assert!(steps.rows.iter().all(|step| step.growth_bytes == 256 * MIB as i64));
    assert_eq!(steps.rows[11].peak_allocated.bytes, 7_168 * MIB);
}

#[test]
fn c24_a_cache_that_is_wholly_free_is_not_stranded() {
    let case = Case::new("cases", "C24_staircase_cache");
    let all = case.at(case.end());
    assert_eq!((all.reserved_bytes, all.releasable_bytes), (22_528 * MIB, 22_528 * MIB));
    assert_eq!((all.allocated_bytes, all.stranded_bytes, all.pins.len()), (0, 0, 0));
    assert_eq!(case.history.peaks.allocated.bytes, 7_168 * MIB);
    assert!((all.ratio - 1.0).abs() < f64::EPSILON);
}

#[test]
fn c26_a_one_shot_stream_holds_all_that_is_free() {
    let case = Case::new("cases", "C26_one_shot_stream");
    let all = case.at(case.end());
    assert_eq!((all.reserved_bytes, all.allocated_bytes), (61_440 * MIB, 40_960 * MIB));
    assert_eq!(all.releasable_bytes, 20_480 * MIB);
    let free: Vec<_> = (case.pools_at(case.end()).iter())
        .map(|pool| (pool.stream, pool.reserved_bytes / MIB, pool.releasable_bytes / MIB))
        .collect();
    assert_eq!(free, [(0, 40_960, 0), (9, 20_480, 20_480)]);
}

#[test]
fn c37_growing_by_copy_peaks_at_two_generations() {
    let case = Case::new("cases", "C37_kv_cat_growth");
    let all = case.at(case.end());
    assert_eq!(case.history.peaks.allocated.bytes, 255 * MIB);
    assert_eq!(all.allocated_bytes, 128 * MIB);
    assert_eq!((all.reserved_bytes, all.releasable_bytes), (6_240 * MIB, 6_112 * MIB));
}

#[test]
fn c49_private_pools_stand_apart() {
    let case = Case::new("cases", "C49_private_pools");
    let all = case.at(case.oom());
    assert_eq!((all.reserved_bytes, all.releasable_bytes), (11_264 * MIB, 9_216 * MIB));
    let pools = case.pools_at(case.oom());
    let private: Vec<_> = pools.iter().filter(|pool| pool.pool != PoolId::DEFAULT).collect();
    assert_eq!(private.len(), 9);
    assert_eq!(private.iter().map(|pool| pool.reserved_bytes).sum::<u64>(), 9_216 * MIB);
    assert!(private.iter().all(|pool| pool.releasable_bytes == 1_024 * MIB));
}

#[test]
fn curves_of_real_recordings_equal_the_state_at_every_sample() {
    for name in ["cnn", "annotated", "leak_cache", "ring", "streams", "oom", "varlen.expandable"] {
        let case = Case::new("torch", name);
        case.at(case.history.peaks.reserved.moment);
        case.at(case.end());
    }
    // A free that was requested before the recording; blocks from before it; values that cannot be.
    for name in ["one_event", "oldest_form", "training_starts_late", "no_time_us", "impossible_values"] {
        Case::new("public", name);
    }
}

#[test]
fn steps_of_real_recordings_are_found() {
    let found = |name: &str| {
        let steps = Case::new("torch", name).steps();
        (steps.source.name(), steps.rows.len(), steps.rows.first().map(|step| step.name.clone()))
    };
    assert_eq!(found("annotated"), ("annotations", 3, Some("## train_step ##".to_owned())));
    assert_eq!(
        found("ring"),
        ("annotations", 2, Some("5".to_owned())),
        "four were over before the first event"
    );
    assert_eq!(found("streams"), ("detected", 30, Some("1".to_owned())));
    let leak = Case::new("torch", "leak_loss").steps();
    let growth: Vec<i64> = leak.rows.iter().map(|step| step.growth_bytes).collect();
    assert_eq!(growth.len(), 60);
    let steady = growth.iter().filter(|&&bytes| bytes == 4_729_344).count();
    assert!(steady >= 50, "the kept graph is the same in nearly every step: {growth:?}");
}
