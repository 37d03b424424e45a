//! `idle-cache`: reserved far above use, and all of it can be given back.

use crate::error::Result;
use crate::findings::reserve::{
    bytes_of, expandable_advice, is_share, lines_of_segments, with_replayed_setting,
};
use crate::findings::{Check, Finding, Guide, Rule, Scene, Severity};
use crate::model::{BlockState, PoolId};
use crate::rebuild::{Moment, NONE, Peak, StateSegment};
use crate::tables::{Staircase, late_need, staircase};
use crate::units::{Bytes, Count, percent};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "idle-cache",
    heading: "Reserved far above use, and all of it can be given back",
    guide: Guide {
        says: "After the last event much of the reserved memory is free, and nearly all of that lies in segments \
               that no block holds: cache. It is no leak and no fragmentation. PyTorch serves the next requests \
               from it, and returns it to the driver by itself before it would raise an out-of-memory error.",
        fires: "After the last event, (reserved - active) / reserved is at least 20 %, at least 80 % of these free \
                bytes lie in wholly free segments of the default pool and the main stream, and they are 512 MiB or \
                more. The same 20 % and 512 MiB must be left at the time when the program last needed most: the \
                highest peak of the last quarter of the steps, or without steps the most in use since the last tenth \
                of the requests began; and less than a fifth of what was left then, and at the last request, may \
                lie in pieces beside blocks in use. It is a warning where less than 5 % of the device is left for others, and else \
                information.",
        why: "Every job ends, and every step ends, with a cache of what was used; that is how the allocator is meant \
              to work. So what the last steps still used does not count, and 20 % beyond it is where cache begins to \
              be more than that. With 80 % in wholly free segments, returning them settles the matter; with less, \
              pieces in use are in the way (`fragmentation`). Under 512 MiB it would matter on no device that this \
              is for.",
        needs: "Events or the final segments. Steps say best what is still needed.",
        is_not: "Not a leak: nothing is live there. Not the reason for an OOM in the same process: this memory had \
                 been returned before that error was raised. nvidia-smi shows reserved memory, so it shows this as \
                 used. Free memory in private pools and on other streams is told by `private-pools` and \
                 `stranded-stream`; `torch.cuda.empty_cache()` cannot return the former.",
        remedy: "Nothing, if the job is alone on its GPU. If another process or a library outside the allocator \
                 (NCCL, another framework) needs the memory, call `torch.cuda.empty_cache()` once, after the phase \
                 that left the cache behind (loading a checkpoint, the first step, an evaluation), not in every \
                 step. If the cache grew because each request was a little larger than the one before, run the \
                 largest first, or allocate the largest size once.",
    },
    check: Check::Device(find),
};

/// Share of reserved memory that is free (in percent).
const FREE_PERCENT: u64 = 20;
/// Share of the free memory that lies in wholly free segments (in percent).
const WHOLLY_FREE_PERCENT: u64 = 80;
/// Less than this is not worth a word.
const LEAST_BYTES: u64 = 512 << 20;
/// With less than this left for others on the device (in percent), the cache is in their way.
const LEFT_FOR_OTHERS_PERCENT: u64 = 5;
/// The last of this many parts of the steps says what a step needs now.
const PARTS_OF_STEPS: usize = 4;
/// Without steps, the last of this many parts of the requests does.
const PARTS_OF_REQUESTS: usize = 10;
/// From this many rising segments on they are called a staircase.
const LEAST_RUNGS: u64 = 3;

fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    let end = scene.history.end;
    let unused = |used: u64| {
        let free = end.reserved_bytes.saturating_sub(used);
        (free >= LEAST_BYTES && is_share(free, end.reserved_bytes, FREE_PERCENT)).then_some(free)
    };
    let Some(free) = unused(end.active_bytes) else { return Ok(Vec::new()) };
    let need = last_need(scene);
    let Some(spare) = unused(need.bytes.max(end.active_bytes)) else { return Ok(Vec::new()) };
    let idle: Vec<&StateSegment> =
        scene.at_end().segments.iter().filter(|segment| is_idle(scene, segment)).collect();
    let idle_bytes = bytes_of(idle.iter().copied());
    let is_whole = is_share(idle_bytes, free, WHOLLY_FREE_PERCENT) && idle_bytes >= LEAST_BYTES;
    let is_in_pieces = |moment| is_share(pieces_at(scene, moment), spare, 100 - WHOLLY_FREE_PERCENT);
    if !is_whole || is_in_pieces(need.moment) || last_request(scene).is_some_and(is_in_pieces) {
        return Ok(Vec::new());
    }
    Ok(vec![told(scene, &idle, idle_bytes, spare.min(idle_bytes))])
}

fn is_idle(scene: &Scene<'_>, segment: &StateSegment) -> bool {
    is_ordinary(scene, segment) && segment.is_wholly_free()
}

fn is_ordinary(scene: &Scene<'_>, segment: &StateSegment) -> bool {
    segment.pool == PoolId::DEFAULT && segment.stream == scene.streams().main
}

/// The most that was in use when the program last needed most of it.
fn last_need(scene: &Scene<'_>) -> Peak {
    let rows = &scene.steps.rows;
    let last = rows.len().div_ceil(PARTS_OF_STEPS);
    let of_steps = rows.iter().rev().take(last).map(|step| step.peak_allocated);
    of_steps.max_by_key(|peak| peak.bytes).unwrap_or_else(|| late_need(scene.history, PARTS_OF_REQUESTS))
}

/// The moment at which the last request had been served.
fn last_request(scene: &Scene<'_>) -> Option<Moment> {
    let last = scene.history.allocations.alloc_events.last().copied().filter(|&event| event != NONE);
    last.map(|event| Moment::after(u64::from(event)))
}

/// Free bytes beside blocks in use at `moment`.
fn pieces_at(scene: &Scene<'_>, moment: Moment) -> u64 {
    let state = scene.state_at(moment);
    let pinned =
        state.segments.iter().filter(|segment| is_ordinary(scene, segment) && !segment.is_wholly_free());
    let blocks = pinned.flat_map(|segment| &segment.blocks);
    let free = blocks.filter(|block| block.state == BlockState::Inactive);
    free.fold(0, |sum, block| sum.saturating_add(block.bytes))
}

fn told(scene: &Scene<'_>, idle: &[&StateSegment], idle_bytes: u64, spare_bytes: u64) -> Finding {
    let end = scene.history.end;
    let count = idle.len() as u64;
    let title = format!(
        "{} of {} reserved ({}) lie in {} free segment{} at the end: cache that can be given back",
        Bytes(idle_bytes),
        Bytes(end.reserved_bytes),
        percent(idle_bytes, end.reserved_bytes),
        Count(count),
        if count == 1 { "" } else { "s" },
    );
    let left = left_for_others(scene);
    let is_short = left
        .zip(scene.total_bytes)
        .is_some_and(|(left, total)| !is_share(left, total, LEFT_FOR_OTHERS_PERCENT));
    let severity = if is_short { Severity::Warning } else { Severity::Info };
    let moment = Moment(scene.history.events);
    let mut finding = Finding::new(&RULE, severity, scene.id(), idle_bytes, title)
        .lines(lines_of_segments(scene, moment, idle.iter().copied()))
        .evidence("reserved_bytes", end.reserved_bytes)
        .evidence("active_bytes", end.active_bytes)
        .evidence("allocated_bytes", end.allocated_bytes)
        .evidence("wholly_free_bytes", idle_bytes)
        .evidence("wholly_free_segments", count)
        .evidence(
            "split_bytes",
            end.reserved_bytes.saturating_sub(end.active_bytes).saturating_sub(idle_bytes),
        )
        .evidence("not_needed_lately_bytes", spare_bytes)
        .evidence("peak_allocated_bytes", scene.history.peaks.allocated.bytes)
        .evidence("peak_active_bytes", scene.history.peaks.active.bytes);
    if let Some(left) = left {
        finding = finding.evidence("left_for_others_bytes", left);
    }
    let stairs =
        staircase(scene.device, scene.history, scene.lines).filter(|stairs| stairs.rungs >= LEAST_RUNGS);
    if let Some(stairs) = &stairs {
        finding = finding.evidence("rising_segments", stairs.rungs);
    }
    remedied(scene, finding, left.filter(|_| is_short), stairs)
}

/// What others find free on the device: as the driver last said, or at most what is not reserved.
fn left_for_others(scene: &Scene<'_>) -> Option<u64> {
    let total = scene.total_bytes?;
    let most = total.saturating_sub(scene.history.end.reserved_bytes);
    let said = scene.readings.and_then(|readings| readings.outside.as_ref());
    Some(said.map_or(most, |said| said.end.free_bytes.min(most)))
}

fn remedied(scene: &Scene<'_>, finding: Finding, short: Option<u64>, stairs: Option<Staircase>) -> Finding {
    let mut said = vec![match short {
        Some(left) => format!(
            "At most {} of the device are left for other processes and for libraries outside the allocator (NCCL, \
             for example): call torch.cuda.empty_cache() once, after the phase that left this cache behind.",
            Bytes(left)
        ),
        None => "This is no fault: the next requests are served from it, and PyTorch returns it before it raises an \
                 out-of-memory error. If another process or library needs it, torch.cuda.empty_cache(), called once \
                 after the phase that left it behind, gives it back."
            .to_owned(),
    }];
    if let Some(stairs) = &stairs {
        let line = stairs.group.and_then(|group| scene.line_of_group(group, stairs.last_bytes));
        said.push(format!(
            "{} segments of rising size ({} to {}) were obtained{}, since each request was larger than every cached \
             block: run the largest first, or allocate the largest size once.",
            Count(stairs.rungs),
            Bytes(stairs.first_bytes),
            Bytes(stairs.last_bytes),
            line.map(|line| format!(" at {}", line.label())).unwrap_or_default(),
        ));
    }
    let (finding, replayed) = with_replayed_setting(scene, finding);
    said.extend(replayed.or_else(|| stairs.map(|_| expandable_advice(scene))));
    finding.remedy(said.join(" "))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::findings::scene::samples::found;
    use crate::findings::{Finding, Severity};
    use crate::model::{Action, MarkKind, Trace, TraceBuilder};

    const MIB: u64 = 1 << 20;
    const A: u64 = 0x7000_0000_0000;

    fn idle(trace: &Trace, total: Option<u64>) -> Vec<Finding> {
        found("idle-cache", trace, total)
    }

    fn at(segment: u64) -> u64 {
        A + (segment << 36)
    }

    /// One after the other allocated and freed, in segments of their own.
    fn in_turn(sizes: &[u64]) -> TraceBuilder {
        let mut builder = TraceBuilder::new().at("head.py", 12, "logits");
        for (index, mib) in sizes.iter().enumerate() {
            let address = at(index as u64);
            builder = builder.segment_alloc(address, mib * MIB);
            builder = builder.alloc(address, mib * MIB).free(address, mib * MIB);
        }
        builder
    }

    /// `live` MiB that stay, in a segment of their own.
    fn live(builder: TraceBuilder, mib: u64) -> TraceBuilder {
        builder.at("model.py", 3, "init").segment_alloc(at(90), mib * MIB).alloc(at(90), mib * MIB)
    }

    #[test]
    fn a_staircase_of_free_segments_is_cache() {
        let found = idle(&in_turn(&[3000, 4000, 5000, 6000, 7000]).build(), Some(80 << 30));
        assert_eq!(found.len(), 1);
        let finding = &found[0];
        assert_eq!((finding.severity, finding.bytes), (Severity::Info, 25_000 * MIB));
        assert_eq!(finding.lines[0].label(), "head.py:12 logits");
        let evidence = &finding.evidence;
        assert_eq!(evidence["wholly_free_segments"], 5);
        assert_eq!((&evidence["split_bytes"], &evidence["active_bytes"]), (&0.into(), &0.into()));
        assert_eq!(evidence["peak_allocated_bytes"], 7000 * MIB);
        assert_eq!(evidence["rising_segments"], 5);
        assert!(finding.remedy.contains("largest first"), "{}", finding.remedy);
        assert!(finding.remedy.contains("expandable_segments:True"), "{}", finding.remedy);
    }

    #[test]
    fn what_loading_left_behind_is_in_the_way_of_others() {
        let loaded = live(in_turn(&[12_000, 11_000, 11_000]), 49_000).build();
        let finding = &idle(&loaded, Some(84_000 * MIB))[0];
        assert_eq!((finding.severity, finding.bytes), (Severity::Warning, 34_000 * MIB));
        assert_eq!(finding.evidence["left_for_others_bytes"], 1000 * MIB);
        assert!(finding.remedy.contains("NCCL"), "{}", finding.remedy);
        assert!(!finding.remedy.contains("rising"), "{}", finding.remedy);
        assert_eq!(idle(&loaded, None)[0].severity, Severity::Info, "nobody says how large the device is");
    }

    #[test]
    fn little_or_small_or_pinned_is_not() {
        assert!(idle(&live(in_turn(&[300]), 100).build(), None).is_empty(), "300 MiB");
        assert!(idle(&live(in_turn(&[1000]), 9000).build(), None).is_empty(), "a tenth");
        let ends = (0..8).fold(live(TraceBuilder::new(), 512), |builder, index| {
            builder.segment_alloc(at(index), 1024 * MIB).alloc(at(index), 1024 * MIB)
        });
        let ends = (0..8).fold(ends, |builder, index| builder.free(at(index), 1024 * MIB));
        assert!(idle(&ends.clone().build(), None).is_empty(), "the program ends, or a step does");
        let goes_on = ends.segment_alloc(at(91), 20 * MIB).alloc(at(91), 4 * MIB);
        assert_eq!(idle(&goes_on.build(), None).len(), 1, "the program goes on with little");
        // 3 of 4 GiB are free, but 2 of the 3 beside something in use.
        let pinned = live(in_turn(&[1024]), 512).segment_alloc(at(7), 2560 * MIB).alloc(at(7), 512 * MIB);
        assert!(idle(&pinned.build(), None).is_empty());
    }

    #[test]
    fn other_streams_and_private_pools_are_told_by_other_rules() {
        let side = live(in_turn(&[1]), 9000).stream(7).segment_alloc(at(50), 6000 * MIB);
        let side = side.alloc(at(50), 6000 * MIB).free(at(50), 6000 * MIB);
        assert!(idle(&side.build(), None).is_empty());
        let mut pooled = live(TraceBuilder::new(), 9000).segment_alloc(at(50), 6000 * MIB).build();
        let pool = pooled.pool_index(crate::model::PoolId(1, 0));
        pooled.devices[0].events.pools.set(2, pool);
        assert!(idle(&pooled, None).is_empty());
    }

    /// Steps that each use `mib`, one block of 1 GiB after the other, after a first one that used `first`.
    fn steps(first: u64, gibs: u64, count: u64) -> Trace {
        let mut builder = live(TraceBuilder::new(), 1024);
        let mut times = Vec::new();
        let mut event = 2;
        for step in 0..count {
            let used = if step == 0 { first } else { gibs };
            times.push(1_000_000 + event * 10);
            for block in 0..used {
                if step == 0 {
                    builder = builder.segment_alloc(at(block), 1024 * MIB);
                    event += 1;
                }
                builder = builder.alloc(at(block), 1024 * MIB);
            }
            builder = (0..used).rev().fold(builder, |builder, block| builder.free(at(block), 1024 * MIB));
            event += 3 * used as i64;
        }
        let mut trace = builder.event(Action::Snapshot, 0, 0).build();
        trace.marks = times
            .into_iter()
            .enumerate()
            .map(|(step, time_us)| crate::model::Mark {
                kind: MarkKind::Step,
                name: step.to_string(),
                time_us,
                begins: None,
            })
            .collect();
        trace
    }

    #[test]
    fn what_every_step_uses_again_is_not_idle() {
        assert!(idle(&steps(10, 10, 6), None).is_empty());
        let warmed_up = idle(&steps(20, 5, 6), None);
        assert_eq!(warmed_up[0].evidence["not_needed_lately_bytes"], 15 * 1024 * MIB);
        assert_eq!(warmed_up[0].bytes, 20 * 1024 * MIB);
    }
}
