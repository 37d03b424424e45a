//! Results in the report's words: one small function per row type, no arithmetic.

use crate::findings::JudgedOom;
use crate::model::{ProcessFacts, SegmentKind, Trace, Warning};
use crate::rebuild::{Peaks, Usage};
use crate::report::{
    ByCause, CategoryTable, CategoryTableRow, Four, Fragmentation, LineFigures, LineRow, OomRow, PinRow,
    PoolRow, StepRow, StepsRow, Timeline, TimelineMark, WarningRow,
};
use crate::tables::{
    self, Band, Categories, CategoryFigures, Causes, Figures, GroupKey, Grouping, LineTableRow, MarkReason,
    Pin, PoolUse, StepTable,
};
use crate::units::Bytes;

pub(super) fn warning(warning: &Warning) -> WarningRow {
    WarningRow { kind: warning.kind.to_owned(), count: warning.count, text: warning.text.clone() }
}

pub(super) fn process(facts: &ProcessFacts) -> Vec<(String, String)> {
    let number = |value: Option<u64>| value.map(|value| value.to_string());
    let other = |key: &str| {
        facts.other.get(key).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    let named = [
        ("rank", number(facts.rank)),
        ("local rank", number(facts.local_rank)),
        ("world size", number(facts.world_size)),
        ("process id", number(facts.pid)),
        ("PyTorch", facts.torch_version.clone()),
        ("CUDA", facts.cuda_version.clone()),
        ("Python", facts.python_version.clone()),
        ("written by", facts.writer.clone()),
        ("allocator backend", other("backend")),
        ("memory fraction", other("memory_fraction")),
        ("events lost by the recorder", number(Some(facts.lost_events).filter(|&lost| lost > 0))),
    ];
    named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

pub(super) fn categories(categories: &Categories, figures: &[CategoryFigures]) -> CategoryTable {
    let row = |figures: &CategoryFigures| CategoryTableRow {
        category: figures.category.name().to_owned(),
        held_at_peak_bytes: figures.held_at_peak_bytes,
        named_at_peak_bytes: figures.named_at_peak_bytes,
        held_at_oom_bytes: figures.held_at_oom_bytes,
        live_at_end_bytes: figures.live_at_end_bytes,
        own_peak_bytes: figures.own_peak_bytes,
        allocations: figures.allocations,
    };
    CategoryTable {
        source: categories.source().to_owned(),
        rule: categories.rule(),
        rows: figures.iter().map(row).collect(),
    }
}

pub(super) fn usage(usage: Usage) -> Four<u64> {
    Four {
        requested_bytes: usage.requested_bytes,
        allocated_bytes: usage.allocated_bytes,
        active_bytes: usage.active_bytes,
        reserved_bytes: usage.reserved_bytes,
    }
}

pub(super) fn peak_bytes(peaks: &Peaks) -> Four<u64> {
    Four {
        requested_bytes: peaks.requested.bytes,
        allocated_bytes: peaks.allocated.bytes,
        active_bytes: peaks.active.bytes,
        reserved_bytes: peaks.reserved.bytes,
    }
}

pub(super) fn peak_events(peaks: &Peaks) -> Four<Option<u64>> {
    Four {
        requested_bytes: peaks.requested.moment.event(),
        allocated_bytes: peaks.allocated.moment.event(),
        active_bytes: peaks.active.moment.event(),
        reserved_bytes: peaks.reserved.moment.event(),
    }
}

pub(super) fn steps(table: &StepTable) -> StepsRow {
    let row = |step: &tables::StepRow| StepRow {
        name: step.name.clone(),
        begin_event: step.begin.0,
        end_event: step.end.0,
        begin_allocated_bytes: step.begin_allocated_bytes,
        peak_allocated_bytes: step.peak_allocated.bytes,
        peak_event: step.peak_allocated.moment.event(),
        end_allocated_bytes: step.end_allocated_bytes,
        growth_bytes: step.growth_bytes,
    };
    let rows: Vec<StepRow> = table.rows.iter().map(row).collect();
    StepsRow { source: table.source.name().to_owned(), count: rows.len() as u64, rows }
}

pub(super) fn figures(figures: &Figures) -> LineFigures {
    LineFigures {
        held_at_peak_bytes: figures.held_at_peak_bytes,
        own_peak_bytes: figures.own_peak_bytes,
        inferred_bytes: figures.inferred_bytes,
        total_bytes: figures.total_bytes,
        allocations: figures.allocations,
        live_at_end_bytes: figures.live_at_end_bytes,
    }
}

pub(super) fn line(row: LineTableRow) -> LineRow {
    LineRow {
        figures: figures(&row.figures),
        file: row.file,
        line: row.line,
        function: row.function,
        module: row.module,
        stack: row.stack,
        active_peak_on_stack_bytes: row.active_peak_on_stack_bytes,
        source: None,
    }
}

pub(super) fn fragmentation(
    trace: &Trace,
    grouping: &Grouping,
    figures: tables::Fragmentation,
    causes: Causes,
    main_stream: u64,
) -> Fragmentation {
    Fragmentation {
        event: figures.moment.event(),
        reserved_bytes: figures.reserved_bytes,
        active_bytes: figures.active_bytes,
        allocated_bytes: figures.allocated_bytes,
        requested_bytes: figures.requested_bytes,
        rounding_bytes: figures.rounding_bytes,
        pending_free_bytes: figures.pending_free_bytes,
        releasable_bytes: figures.releasable_bytes,
        stranded_bytes: figures.stranded_bytes,
        stranded_blocks: figures.stranded_blocks,
        largest_free_block_bytes: figures.largest_free_block_bytes,
        largest_stranded_block_bytes: figures.largest_stranded_block_bytes,
        ratio: figures.ratio,
        by_cause: by_cause(causes),
        main_stream,
        pins: figures.pins.iter().map(|row| pin(trace, grouping, row)).collect(),
    }
}

fn by_cause(causes: Causes) -> ByCause {
    ByCause {
        rounding_bytes: causes.rounding_bytes,
        pending_free_bytes: causes.pending_free_bytes,
        split_remainder_bytes: causes.split_remainder_bytes,
        other_stream_bytes: causes.other_stream_bytes,
        private_pool_bytes: causes.private_pool_bytes,
        releasable_cache_bytes: causes.releasable_cache_bytes,
    }
}

fn pin(trace: &Trace, grouping: &Grouping, row: &Pin) -> PinRow {
    let key = row.group.and_then(|group| grouping.keys.get(group as usize));
    PinRow {
        file: key.and_then(|key| key.module.clone().or_else(|| key.file(trace).map(str::to_owned))),
        line: key.and_then(|key| key.line),
        function: key.and_then(|key| key.function(trace)).map(str::to_owned),
        blocks: row.blocks,
        block_bytes: row.block_bytes,
        stranded_bytes: row.stranded_bytes,
        sole_stranded_bytes: row.sole_stranded_bytes,
    }
}

pub(super) fn oom(judged: &JudgedOom, line: Option<String>) -> OomRow {
    let (oom, verdict) = (&judged.oom, &judged.verdict);
    let sums = &verdict.sums;
    OomRow {
        event: oom.event,
        requested_bytes: sums.request_bytes,
        segment_bytes: sums.segment_bytes,
        device_free_bytes: sums.device_free_bytes,
        verdict: verdict.kind.name().to_owned(),
        cause: verdict.cause.name().to_owned(),
        explanation: verdict.explanation.clone(),
        largest_free_block_bytes: sums.largest_free_block_bytes,
        reserved_bytes: sums.reserved_bytes,
        active_bytes: sums.active_bytes,
        allocated_bytes: oom.usage.allocated_bytes,
        pending_free_bytes: sums.pending_free_bytes,
        slack_bytes: sums.slack_bytes,
        private_pool_free_bytes: sums.private_free_bytes,
        missing_bytes: verdict.missing_bytes(),
        cap_bytes: verdict.refusal.cap().and_then(|cap| cap.allowed_bytes),
        outside_bytes: verdict.outside.map(|outside| outside.bytes),
        stream: oom.stream,
        pool: (judged.pool.0, judged.pool.1),
        line,
    }
}

pub(super) fn pool(row: &PoolUse) -> PoolRow {
    PoolRow {
        stream: row.stream,
        pool: (row.pool.0, row.pool.1),
        kind: match row.kind {
            SegmentKind::Small => "small",
            SegmentKind::Large => "large",
        },
        segments: row.segments,
        reserved_bytes: row.reserved_bytes,
        active_bytes: row.active_bytes,
        releasable_bytes: row.releasable_bytes,
        stranded_bytes: row.stranded_bytes,
    }
}

/// `order` lists groups by rank.
pub(super) fn timeline(
    trace: &Trace,
    grouping: &Grouping,
    order: &[u32],
    mut data: tables::TimelineData,
) -> Timeline {
    let samples = data.moments.len();
    // The renderer knows the two remainders by their place: last. Bands without a byte are left out by the
    // table, so they are put back.
    for band in [Band::OtherGroups, Band::NoGroup] {
        let at = data.bands.iter().position(|&known| known == band);
        let bytes = at.map_or_else(|| vec![0; samples], |at| data.band_bytes.remove(at));
        data.bands.retain(|&known| known != band);
        data.bands.push(band);
        data.band_bytes.push(bytes);
    }
    let name = |band: &Band| match *band {
        Band::Group(group) => {
            grouping.keys.get(group as usize).map_or_else(String::new, |key: &GroupKey| key.label(trace))
        }
        Band::OtherGroups => format!("other {}s", grouping.by),
        Band::NoGroup => "no line known".to_owned(),
    };
    // An ordinary free is two events, and nobody waits between them: the causes know.
    let active = data.allocated.iter().zip(&data.causes);
    let active =
        active.map(|(allocated, causes)| allocated.saturating_add(causes.pending_free_bytes)).collect();
    let rank = |band: &Band| match *band {
        Band::Group(group) => order.iter().position(|&ranked| ranked == group).map(|rank| rank as u32),
        Band::OtherGroups | Band::NoGroup => None,
    };
    Timeline {
        x_is_time: data.x_is_time,
        pause_us: data.pause_us,
        x: data.x,
        band_ranks: data.bands.iter().filter_map(rank).collect(),
        band_names: data.bands.iter().map(name).collect(),
        bands: data.band_bytes,
        allocated: data.allocated,
        active,
        reserved: data.reserved,
        x_end: data.x_end,
        events_per_sample: data.events_per_sample,
        marks: data.marks.into_iter().map(|mark| timeline_mark(mark.x, &mark.reason)).collect(),
        by_cause: data.causes.into_iter().map(by_cause).collect(),
    }
}

fn timeline_mark(x: u64, reason: &MarkReason) -> TimelineMark {
    let (kind, label) = match reason {
        MarkReason::AllocatedPeak(bytes) => ("peak", format!("peak {}", Bytes(*bytes))),
        MarkReason::ReservedPeak(bytes) => ("reserved-peak", format!("reserved peak {}", Bytes(*bytes))),
        MarkReason::Oom(bytes) => ("oom", format!("OOM: {} asked", Bytes(*bytes))),
        MarkReason::Step(name) => ("step", name.clone()),
    };
    TimelineMark { x, kind, label }
}
