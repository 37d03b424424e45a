//! `cache-flush`: the cache is returned and asked for again, over and over.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::findings::reserve::{expandable_advice, is_share, lines_of_stacks, with_replayed_setting};
use crate::findings::{Check, Finding, Guide, Rule, Scene, Severity};
use crate::rebuild::Moment;
use crate::tables::{Flush, FlushKind, StepSource, flushes};
use crate::units::{Bytes, Count, percent};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "cache-flush",
    heading: "The cache is returned and asked for again, over and over",
    guide: Guide {
        says: "Segments go back to the driver in many steps and are obtained again in the next. Each return waits \
               for the GPU, and each segment costs a `cudaMalloc`. Either the program does it \
               (`torch.cuda.empty_cache()` in the loop: kind `empty_cache`), or the allocator, which was refused \
               memory, returned all it could and asked again (kind `allocator`).",
        fires: "In at least 3 steps the program returns 5 segments or more, or 10 % or more of the peak of reserved \
                memory; or the allocator returns as much at least twice, whatever the step. Without steps each run of \
                returns counts as one. Kind `allocator`: the run is directly followed by a new segment of the same \
                call, as stacks show; where stacks are missing, of the same step; where steps are missing too, with \
                half of the peak of active bytes in use. Kind `empty_cache`: any other run, and every one with \
                `empty_cache` on its stack. What PyTorch returns before it captures a CUDA graph is left out, and so \
                is what a request returned that failed in spite of it. Kind `empty_cache` is a warning where half of \
                the steps or more do this, kind `allocator` where no request failed in the end and no collection was \
                asked for; else it is information.",
        why: "Once or twice (after loading, at the end) is how `empty_cache()` is meant to be used, three steps are a \
              habit. The allocator never does it unless memory is short, so two are enough there. In one published \
              measurement of 250 steps, calling it in every step made a job 44 % slower, in every tenth 11 %. \
              Retries of the allocator are the last sign before an OOM.",
        needs: "`segment_free` events (or `segment_unmap` for expandable segments). Stacks or steps tell the two kinds \
                apart for sure.",
        is_not: "Not a leak and not fragmentation. A lower reserved figure under `empty_cache()` is not a lower need: \
                 the next step's peak is the same.",
        remedy: "Kind `empty_cache`: remove the call from the loop, or make it every hundredth step; keep it where \
                 another process or library needs the memory in between. Kind `allocator`: the job runs at the limit \
                 of its memory. Lower the peak a little (batch, checkpointing), or raise the limit; where pieces \
                 are the reason (`fragmentation`), expandable segments help.",
    },
    check: Check::Device(find),
};

/// Steps in which the program returns segments.
const LEAST_STEPS: usize = 3;
/// Times that the allocator has to.
const LEAST_RETRIES: usize = 2;
/// Segments returned in a step.
const LEAST_SEGMENTS: u64 = 5;
/// Or the share of the peak of reserved memory (in percent).
const LEAST_PERCENT: u64 = 10;

fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    let all = flushes(scene.trace, scene.device, scene.history, scene.steps);
    let kinds = [FlushKind::EmptyCache, FlushKind::Allocator];
    let found = kinds.into_iter().filter_map(|kind| {
        let of_kind: Vec<Flush> = all.iter().copied().filter(|flush| flush.kind == kind).collect();
        Habit::of(scene, kind, of_kind)
    });
    Ok(found.map(|habit| habit.told(scene)).collect())
}

/// Flushes of one kind, step by step.
struct Habit {
    kind: FlushKind,
    flushes: Vec<Flush>,
    /// Steps (or runs, without steps) that return much, and how many steps there are.
    steps: usize,
    all_steps: usize,
    /// In the middle one of these.
    segments_per_step: u64,
    bytes_per_step: u64,
}

impl Habit {
    fn of(scene: &Scene<'_>, kind: FlushKind, mut flushes: Vec<Flush>) -> Option<Self> {
        let least = if kind == FlushKind::Allocator { LEAST_RETRIES } else { LEAST_STEPS };
        if flushes.len() < least {
            return None;
        }
        // The program's calls are counted by step; of the allocator's returns each one says that memory is short.
        let by_step = kind == FlushKind::EmptyCache && !scene.steps.rows.is_empty();
        let rows = &scene.steps.rows;
        // A call between two steps is the doing of the one before, and one before all steps of none.
        let step_of = |flush: &Flush| rows.partition_point(|step| step.begin <= Moment(flush.event));
        // Detected steps may begin a little late.
        if by_step && scene.steps.source != StepSource::Detected {
            flushes.retain(|flush| step_of(flush) > 0);
        }
        let mut steps: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
        for (number, flush) in flushes.iter().enumerate() {
            let step = if by_step { step_of(flush) } else { number };
            let sums = steps.entry(step).or_default();
            *sums = (sums.0 + flush.segments, sums.1.saturating_add(flush.bytes));
        }
        let peak = scene.history.peaks.reserved.bytes;
        let is_much = |&(segments, bytes): &(u64, u64)| {
            segments >= LEAST_SEGMENTS || is_share(bytes, peak, LEAST_PERCENT)
        };
        let much: Vec<(u64, u64)> = steps.into_values().filter(is_much).collect();
        if much.len() < least {
            return None;
        }
        let all_steps = if by_step { rows.len() } else { flushes.len() };
        let (steps, segments_per_step) = (much.len(), middle(much.iter().map(|sums| sums.0).collect()));
        let bytes_per_step = middle(much.iter().map(|sums| sums.1).collect());
        Some(Self { kind, flushes, steps, all_steps, segments_per_step, bytes_per_step })
    }

    fn told(&self, scene: &Scene<'_>) -> Finding {
        let peak = scene.history.peaks.reserved.bytes;
        let bytes = self.flushes.iter().fold(0u64, |sum, flush| sum.saturating_add(flush.bytes));
        let is_frequent = self.steps * 2 >= self.all_steps;
        let by_allocator = self.kind == FlushKind::Allocator;
        let is_asked_for = scene.settings().garbage_collection_threshold() > 0.0;
        // An OOM tells more than the retries that led to it.
        let is_short = by_allocator && !is_asked_for && scene.ooms.is_empty();
        let is_grave = is_short || (is_frequent && !by_allocator);
        let severity = if is_grave { Severity::Warning } else { Severity::Info };
        let title = format!(
            "{} returned the cache {} times: {} a time, {} of the peak of reserved memory",
            if by_allocator { "The allocator" } else { "torch.cuda.empty_cache()" },
            Count(self.flushes.len() as u64),
            Bytes(self.bytes_per_step),
            percent(self.bytes_per_step, peak)
        );
        let mut finding = Finding::new(&RULE, severity, scene.id(), bytes, title)
            .lines(lines_of_stacks(scene, self.flushes.iter().map(|flush| (flush.stack, flush.bytes))))
            .evidence("kind", if by_allocator { "allocator" } else { "empty_cache" })
            .evidence("times", self.flushes.len() as u64)
            .evidence("large_times", self.steps as u64)
            .evidence("segments_per_step", self.segments_per_step)
            .evidence("per_step_bytes", self.bytes_per_step)
            .evidence("returned_bytes", bytes)
            .evidence("peak_reserved_bytes", peak)
            .evidence("first_event", self.flushes.first().map(|flush| flush.event))
            .evidence("last_event", self.flushes.last().map(|flush| flush.event));
        if !scene.steps.rows.is_empty() {
            finding = finding.evidence("steps", scene.steps.rows.len() as u64);
        }
        if self.flushes.iter().any(|flush| flush.is_guessed) {
            finding = finding.evidence("kind_is_inferred", true);
        }
        self.remedied(scene, finding, is_frequent)
    }

    fn remedied(&self, scene: &Scene<'_>, finding: Finding, is_frequent: bool) -> Finding {
        if self.kind == FlushKind::EmptyCache {
            let rarely = "It is not called in every step, so the cost is small; it is needed only where another \
                          process or library takes the memory in between.";
            let often = "Remove torch.cuda.empty_cache() from the loop, or call it every hundredth step: the next step \
                         asks for the same memory again, each return waits for the GPU, and the peak stays what it is. \
                         Keep it only where another process or library takes the memory in between.";
            return finding.remedy(if is_frequent { often } else { rarely });
        }
        let threshold = scene.settings().garbage_collection_threshold();
        if threshold > 0.0 {
            return finding.remedy(format!(
                "garbage_collection_threshold:{threshold} makes the allocator return cached segments before it asks for \
                 more: that is what was asked for, and each return waits for the GPU. Raise the threshold if it \
                 happens too often."
            ));
        }
        let limit = match scene.settings().max_split_bytes() {
            Some(bytes) => format!(
                " max_split_size_mb:{} adds to it: blocks above that size are not split, so they are returned and \
                 obtained again.",
                bytes >> 20
            ),
            None => String::new(),
        };
        let (finding, replayed) = with_replayed_setting(scene, finding);
        let setting = replayed.unwrap_or_else(|| expandable_advice(scene));
        finding.remedy(format!(
            "The driver refused a segment, so the allocator waited for the GPU, returned its cache and asked again: the \
             job runs at the limit of its memory. Lower the peak a little (batch, checkpointing) or raise the limit.\
             {limit} {setting}"
        ))
    }
}

/// The middle one of `values`, the lower of two.
fn middle(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::findings::scene::samples::found;
    use crate::findings::{Finding, Severity};
    use crate::model::{Mark, MarkKind, SettingValue, Trace, TraceBuilder};

    const MIB: u64 = 1 << 20;
    const A: u64 = 0x7000_0000_0000;

    /// Who returns the segments in each round.
    #[derive(Clone, Copy, PartialEq)]
    enum Who {
        Program,
        Allocator,
        Nobody,
    }

    fn at(segment: u64) -> u64 {
        A + (segment << 36)
    }

    /// `live` MiB, then one round for each of `who`: `count` blocks of `mib` are allocated and freed, then
    /// returned by whom it says. Times of the rounds' beginnings come with it.
    fn rounds(live: u64, count: u64, mib: u64, who: &[Who]) -> (TraceBuilder, Vec<i64>) {
        let mut builder = TraceBuilder::new().at("model.py", 1, "init");
        builder = builder.segment_alloc(at(999), live * MIB).alloc(at(999), live * MIB);
        let (mut times, mut events) = (Vec::new(), 2);
        let mut held = false;
        for (round, &who) in who.iter().enumerate() {
            times.push(1_000_000 + events * 10);
            builder = builder.at("train.py", 7, "step");
            for segment in 0..count {
                if !held {
                    builder = builder.segment_alloc(at(segment), mib * MIB);
                    events += 1;
                }
                builder = builder.alloc(at(segment), mib * MIB).free(at(segment), mib * MIB);
                events += 3;
            }
            held = who == Who::Nobody;
            if who == Who::Program {
                builder = builder.at("train.py", 9, "empty_cache");
            }
            if !held {
                builder =
                    (0..count).fold(builder, |builder, segment| builder.segment_free(at(segment), mib * MIB));
                events += count as i64;
            }
            if who == Who::Allocator {
                let extra = at(1000 + round as u64);
                builder = builder.segment_alloc(extra, 2 * MIB).alloc(extra, 512).free(extra, 512);
                events += 4;
            }
        }
        (builder, times)
    }

    fn with_steps(builder: TraceBuilder, times: &[i64]) -> Trace {
        let mut trace = builder.build();
        let mark = |(step, &time_us): (usize, &i64)| Mark {
            kind: MarkKind::Step,
            name: step.to_string(),
            time_us,
            begins: None,
        };
        trace.marks = times.iter().enumerate().map(mark).collect();
        trace
    }

    fn flushed(trace: &Trace) -> Vec<Finding> {
        found("cache-flush", trace, None)
    }

    #[test]
    fn emptying_the_cache_in_every_step_is_a_habit() {
        let (builder, times) = rounds(4096, 20, 256, &[Who::Program; 6]);
        for trace in [with_steps(builder.clone(), &times), builder.build()] {
            let found = flushed(&trace);
            assert_eq!(found.len(), 1);
            let finding = &found[0];
            assert_eq!((finding.severity, finding.bytes), (Severity::Warning, 6 * 5120 * MIB));
            let evidence = &finding.evidence;
            assert_eq!((&evidence["kind"], &evidence["times"]), (&"empty_cache".into(), &6.into()));
            assert_eq!(
                (&evidence["segments_per_step"], &evidence["per_step_bytes"]),
                (&20.into(), &(5120 * MIB).into())
            );
            assert_eq!(evidence["peak_reserved_bytes"], 9216 * MIB);
            assert_eq!(finding.lines[0].label(), "train.py:9 empty_cache");
        }
    }

    #[test]
    fn retries_of_the_allocator_are_another_kind() {
        let (builder, times) = rounds(4096, 20, 256, &[Who::Allocator; 4]);
        let found = flushed(&with_steps(builder.clone(), &times));
        assert_eq!((found.len(), &found[0].evidence["kind"]), (1, &"allocator".into()));
        assert_eq!(found[0].severity, Severity::Warning);
        assert!(found[0].remedy.contains("limit of its memory"), "{}", found[0].remedy);
        let collected = builder.setting("garbage_collection_threshold", SettingValue::Float(0.8));
        let found = flushed(&with_steps(collected, &times));
        assert!(found[0].remedy.starts_with("garbage_collection_threshold:0.8"), "{}", found[0].remedy);
    }

    #[test]
    fn rarely_is_worth_knowing_only() {
        let mut who = [Who::Nobody; 12];
        (who[2], who[6], who[10]) = (Who::Program, Who::Program, Who::Program);
        let (builder, times) = rounds(4096, 20, 256, &who);
        let found = flushed(&with_steps(builder, &times));
        assert_eq!((found[0].severity, &found[0].evidence["times"]), (Severity::Info, &3.into()));
    }

    #[test]
    fn once_or_twice_or_a_trifle_is_not() {
        let twice = [Who::Program, Who::Nobody, Who::Program, Who::Nobody];
        let (builder, times) = rounds(4096, 20, 256, &twice);
        assert!(flushed(&with_steps(builder.clone(), &times)).is_empty());
        assert!(flushed(&builder.build()).is_empty());
        let (trifle, times) = rounds(4096, 4, 20, &[Who::Program; 8]);
        assert!(flushed(&with_steps(trifle, &times)).is_empty());
        assert!(flushed(&rounds(4096, 20, 256, &[Who::Nobody; 8]).0.build()).is_empty());
    }
}
