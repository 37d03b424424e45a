//! `private-pools`: CUDA graphs or memory pools hold a large part of the device.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::findings::reserve::{bytes_of, is_share, lines_of_segments};
use crate::findings::{Check, Finding, Guide, Rule, Scene, Severity};
use crate::model::PoolId;
use crate::rebuild::{Moment, State, StateSegment};
use crate::units::{Bytes, Count, percent};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "private-pools",
    heading: "CUDA graphs or memory pools hold a large part of the device",
    guide: Guide {
        says: "Segments belong to private pools: of CUDA graphs, each of which keeps the memory that it was captured \
               with, or of `torch.cuda.MemPool`. Ordinary requests cannot use what is free there, and PyTorch counts \
               it as allocated in its error text.",
        fires: "Private pools hold at least 64 MiB and at least 5 % of reserved memory, at the peak of reserved \
                memory, after the last event, or at the last OOM (whichever has most); or new private pools appear \
                in at least 3 steps. It is a warning where pools keep appearing, where they hold half of reserved \
                memory, or where a request failed that the free memory in them would have covered, and else \
                information.",
        why: "A graph or two cost a few percent; from a twentieth on, the number of graphs is worth a look. Pools that \
              appear step after step mean that something is captured anew each time, mostly for a new input shape.",
        needs: "The pool of a segment: from the final segments, or from events (PyTorch 2.12 and later). Pools that \
                were gone before the recording's end leave no name in older recordings.",
        is_not: "Not fragmentation and not idle cache: `torch.cuda.empty_cache()` cannot return it while the graph or \
                 pool exists. What looks free in a graph's pool is used at each replay, which leaves no events.",
        remedy: "Capture fewer graphs: pad inputs to a few fixed shapes, and let graphs that never run at the same \
                 time share one pool (`pool=torch.cuda.graph_pool_handle()`). With torch.compile, do not use \
                 `mode=\"reduce-overhead\"` for inputs of varying shape. Delete graphs that are no longer replayed; \
                 then `torch.cuda.empty_cache()` returns their memory.",
    },
    check: Check::Device(find),
};

/// Less than this is the price of a graph.
const LEAST_BYTES: u64 = 64 << 20;
/// Share of reserved memory (in percent).
const LEAST_PERCENT: u64 = 5;
/// From this share on (in percent), little is left for anything else.
const MOST_PERCENT: u64 = 50;
/// Steps with new pools.
const LEAST_STEPS: u64 = 3;

fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    let pools = &scene.history.ranges.pools;
    if pools.iter().all(|&pool| pool == PoolId::DEFAULT) {
        return Ok(Vec::new());
    }
    let history = scene.history;
    let oom = scene.ooms.last().map(|oom| Moment(oom.oom.event));
    let moments = [
        Some(Held::of(scene.at_end(), Moment(history.events))),
        Some(Held::of(scene.at_reserved_peak(), history.peaks.reserved.moment)),
        oom.zip(scene.at_last_oom()).map(|(moment, state)| Held::of(state, moment)),
    ];
    // Of equals the first that `max_by_key` would not keep: the OOM tells most, then the peak.
    let Some(most) = moments.into_iter().flatten().max_by_key(|held| held.bytes) else {
        return Ok(Vec::new());
    };
    let rising = steps_with_new_pools(scene);
    let is_much = most.bytes >= LEAST_BYTES && is_share(most.bytes, most.reserved_bytes, LEAST_PERCENT);
    let is_found = is_much || (rising >= LEAST_STEPS && most.bytes > 0);
    Ok(is_found.then(|| most.told(scene, rising)).into_iter().collect())
}

/// In how many steps a pool appears that was not there before.
fn steps_with_new_pools(scene: &Scene<'_>) -> u64 {
    let ranges = &scene.history.ranges;
    let mut seen = BTreeSet::new();
    let mut steps = BTreeSet::new();
    for range in (0..ranges.len()).filter(|&range| ranges.pools[range] != PoolId::DEFAULT) {
        let born = ranges.born[range];
        if seen.insert(ranges.pools[range]) && born > Moment(0) {
            let rows = &scene.steps.rows;
            let step = rows.partition_point(|step| step.begin < born).checked_sub(1);
            steps.extend(step.filter(|&step| born <= rows[step].end));
        }
    }
    steps.len() as u64
}

/// Segments of private pools at one moment.
struct Held<'s> {
    moment: Moment,
    reserved_bytes: u64,
    segments: Vec<&'s StateSegment>,
    bytes: u64,
    free_bytes: u64,
}

impl<'s> Held<'s> {
    fn of(state: &'s State, moment: Moment) -> Self {
        let segments: Vec<_> =
            state.segments.iter().filter(|segment| segment.pool != PoolId::DEFAULT).collect();
        let blocks = segments.iter().flat_map(|segment| &segment.blocks);
        let free = blocks.filter(|block| block.state == crate::model::BlockState::Inactive);
        Self {
            moment,
            reserved_bytes: bytes_of(&state.segments),
            bytes: bytes_of(segments.iter().copied()),
            free_bytes: free.fold(0, |sum, block| sum.saturating_add(block.bytes)),
            segments,
        }
    }

    fn told(&self, scene: &Scene<'_>, rising: u64) -> Finding {
        let pools: BTreeSet<PoolId> = self.segments.iter().map(|segment| segment.pool).collect();
        let count = pools.len() as u64;
        let of_graphs = pools.iter().filter(|pool| pool.0 != 0).count() as u64;
        let failed = scene.ooms.iter().map(|oom| oom.oom.size).filter(|&size| size <= self.free_bytes).max();
        let is_grave = rising >= LEAST_STEPS
            || failed.is_some()
            || is_share(self.bytes, self.reserved_bytes, MOST_PERCENT);
        let severity = if is_grave { Severity::Warning } else { Severity::Info };
        let title = format!(
            "{} of {} reserved ({}) belong to {} private pool{}, where ordinary requests cannot use what is free",
            Bytes(self.bytes),
            Bytes(self.reserved_bytes),
            percent(self.bytes, self.reserved_bytes),
            Count(count),
            if count == 1 { "" } else { "s" },
        );
        let mut finding = Finding::new(&RULE, severity, scene.id(), self.bytes, title)
            .lines(lines_of_segments(scene, self.moment, self.segments.iter().copied()))
            .evidence("event", self.moment.event())
            .evidence("private_pools", count)
            .evidence("private_pools_of_captures", of_graphs)
            .evidence("private_pool_bytes", self.bytes)
            .evidence("free_in_private_pools_bytes", self.free_bytes)
            .evidence("reserved_bytes", self.reserved_bytes)
            .evidence("steps_with_new_pools", rising);
        if let Some(size) = failed {
            finding = finding.evidence("failed_request_bytes", size);
        }
        finding.remedy(self.remedy(rising, failed))
    }

    fn remedy(&self, rising: u64, failed: Option<u64>) -> String {
        let mut said = Vec::new();
        if let Some(size) = failed {
            said.push(format!(
                "A request of {} failed while {} lay free in these pools, out of its reach.",
                Bytes(size),
                Bytes(self.free_bytes)
            ));
        }
        if rising >= LEAST_STEPS {
            said.push(format!(
                "New pools appeared in {} steps: something is captured anew, mostly for a new input shape.",
                Count(rising)
            ));
        }
        said.push(
            "Capture fewer graphs: pad inputs to a few fixed shapes, let graphs that never run at the same time share \
             one pool (pool=torch.cuda.graph_pool_handle()), and delete graphs that are no longer replayed. \
             torch.cuda.empty_cache() returns this memory only after that."
                .to_owned(),
        );
        said.join(" ")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::findings::scene::samples::found;
    use crate::findings::{Finding, Severity};
    use crate::model::{Action, Mark, MarkKind, PoolId, Trace, TraceBuilder};

    const MIB: u64 = 1 << 20;
    const A: u64 = 0x7000_0000_0000;

    /// `live` MiB in the default pool; then `count` pools, each of one segment of `mib` that was used once.
    fn captured(live: u64, count: u64, mib: u64, free: bool, oom: bool) -> Trace {
        let mut builder = TraceBuilder::new().at("model.py", 1, "init");
        builder = builder.segment_alloc(A, live * MIB).alloc(A, live * MIB).at("graphs.py", 5, "capture");
        for pool in 1..=count {
            let at = A + (pool << 36);
            builder = builder.segment_alloc(at, mib * MIB).alloc(at, mib * MIB);
            builder = if free { builder.free(at, mib * MIB) } else { builder };
        }
        builder = if oom { builder.oom(2 * MIB, 0) } else { builder.event(Action::Snapshot, 0, 0) };
        let mut trace = builder.build();
        let events = trace.devices[0].events.len();
        for event in 0..events {
            let (action, at) =
                (trace.devices[0].events.actions[event], trace.devices[0].events.addresses[event]);
            if action == Action::SegmentAlloc && at != A {
                let pool = trace.pool_index(PoolId(0, (at - A) >> 36));
                trace.devices[0].events.pools.set(event, pool);
            }
        }
        trace
    }

    fn pools(trace: &Trace) -> Vec<Finding> {
        found("private-pools", trace, None)
    }

    #[test]
    fn nine_graphs_hold_the_card_while_a_request_fails() {
        let found = pools(&captured(2048, 9, 1024, true, true));
        assert_eq!(found.len(), 1);
        let finding = &found[0];
        assert_eq!((finding.severity, finding.bytes), (Severity::Warning, 9216 * MIB));
        assert_eq!(
            (&finding.evidence["private_pools"], &finding.evidence["reserved_bytes"]),
            (&9.into(), &(11_264 * MIB).into())
        );
        assert_eq!(finding.evidence["failed_request_bytes"], 2 * MIB);
        assert_eq!(finding.lines[0].label(), "graphs.py:5 capture");
        assert!(finding.title.contains("81.8 %"), "{}", finding.title);
    }

    #[test]
    fn a_tenth_is_worth_knowing() {
        let found = pools(&captured(9000, 5, 200, false, false));
        assert_eq!((found[0].severity, found[0].bytes), (Severity::Info, 1000 * MIB));
    }

    #[test]
    fn few_bytes_or_a_small_share_or_no_pool_is_not() {
        assert!(pools(&captured(100, 2, 20, false, false)).is_empty(), "40 MiB");
        assert!(pools(&captured(9000, 2, 100, false, false)).is_empty(), "2 %");
        assert!(pools(&captured(9000, 0, 100, false, false)).is_empty());
    }

    #[test]
    fn pools_that_keep_appearing_are_told_however_small() {
        let mut trace = captured(9000, 4, 2, false, false);
        let mark = |index: i64| Mark {
            kind: MarkKind::Step,
            name: index.to_string(),
            time_us: 1_000_015 + index * 20,
            begins: None,
        };
        trace.marks = (0..4).map(mark).collect();
        let found = pools(&trace);
        assert_eq!(
            (found[0].severity, &found[0].evidence["steps_with_new_pools"]),
            (Severity::Warning, &4.into())
        );
        trace.marks.truncate(1);
        assert!(pools(&trace).is_empty(), "all in one step");
    }
}
