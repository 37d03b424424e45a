//! `transient-peak`: allocations that live for a moment make the peak.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::findings::{Check, Finding, Guide, LineBytes, Rule, Scene, Severity};
use crate::rebuild::{Moment, NONE};
use crate::tables::{MOST_SETS, peaks_without};
use crate::units::{Bytes, percent};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "transient-peak",
    heading: "One short-lived allocation makes the peak",
    guide: Guide {
        says: "The highest point of allocated bytes is made by allocations that live for a small part of a step: \
               a copy in another precision, a full-size intermediate of the loss, a workspace. The finding names \
               their lines and says what the peak would have been without them, recounted over the whole \
               recording.",
        fires: "An allocation is transient when it lives for less than 10 % of its step's events (or for at most 6 \
                events that are at most 25 % of the step). Lines are looked at of which at least half of what they \
                hold at the peak is transient. The rule fires when leaving out the transient allocations of one \
                line, or of all these lines together, lowers the peak by at least 10 % and 32 MiB, and at least \
                3 other allocations with 10 % of the peak are live then: a spike stands on something.",
        why: "Activations live from forward to backward, about half a step on average; what lives for a tenth of \
              that is not kept for anything. Below 10 % of the peak a change to the program is hardly worth its \
              trouble. The second limit (6 events) is for steps of a few allocations, where a tenth is less than \
              one.",
        needs: "A recording of the peak with lines. With steps (marks, annotations or detected) lifetimes are \
                compared with the step around the peak, without them with the whole recording, but with no more \
                than 2,000 events of it, and must be below 1 %.",
        is_not: "It does not say that the allocation is superfluous, nor that the job would be as fast without it. \
                 If the peak of the first step alone is higher (a library trying its algorithms), the evidence \
                 `steady_peak_bytes` says what all later steps need.",
        remedy: "Compute the large intermediate in pieces (a chunked or fused loss instead of full-size float32 \
                 logits), keep only the positions that are needed, write into an existing tensor, or free other \
                 memory before this line runs.",
    },
    check: Check::Device(find),
};

/// A part of a step, in percent, that a transient allocation lives for at most.
const SHORT_PERCENT: u64 = 10;
/// For steps of a few events: this many events are short, if they are a quarter of the step or less.
const SHORT_EVENTS: u64 = 6;
const SHORT_EVENTS_PERCENT: u64 = 25;
/// How many events stand for a step where none is known, and how much of them is short.
const MOST_EVENTS: u64 = 2_000;
const SHORT_PERCENT_WITHOUT_STEPS: u64 = 1;
/// The part of the peak, in percent, that must be saved, and the bytes.
const SAVED_PERCENT: u64 = 10;
const LEAST_SAVED_BYTES: u64 = 32 << 20;
/// A spike stands on something: this part of the peak, in percent, and this many other allocations.
const LEAST_BASE_PERCENT: u64 = 10;
const LEAST_BASE_ALLOCATIONS: usize = 3;

fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    let peak = scene.history.peaks.allocated;
    let step = step_around(scene, peak.moment);
    let candidates = candidates(scene, &step);
    if candidates.is_empty() {
        return Ok(Vec::new());
    }
    // One set per line, and one more for all of them.
    let all = candidates.len();
    let members = members(scene, &candidates, &step);
    let without = peaks_without(scene.history, &members, all + 1);
    let saved = |set: usize| peak.bytes.saturating_sub(without[set].bytes);
    let is_worth = |bytes: u64| bytes.saturating_mul(100) >= peak.bytes.saturating_mul(SAVED_PERCENT);
    let base = without[all].bytes;
    let stands_on_something = base.saturating_mul(100) >= peak.bytes.saturating_mul(LEAST_BASE_PERCENT)
        && others_at_peak(scene, &members) >= LEAST_BASE_ALLOCATIONS;
    if !is_worth(saved(all)) || saved(all) < LEAST_SAVED_BYTES || !stands_on_something {
        return Ok(Vec::new());
    }
    let mut lines: Vec<LineBytes> =
        candidates.iter().filter_map(|line| scene.line_of_group(line.group, line.bytes)).collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.bytes));
    let best = (0..all).max_by_key(|&set| (saved(set), std::cmp::Reverse(set))).unwrap_or(0);
    let alone =
        is_worth(saved(best)).then(|| scene.line_of_group(candidates[best].group, saved(best))).flatten();
    Ok(vec![finding(scene, saved(all), alone.as_ref(), lines)])
}

fn finding(scene: &Scene<'_>, saved: u64, alone: Option<&LineBytes>, lines: Vec<LineBytes>) -> Finding {
    let peak = scene.history.peaks.allocated;
    let transient: u64 = lines.iter().fold(0, |sum, line| line.bytes.saturating_add(sum));
    let title = format!(
        "{} of the peak of {} live for a moment only; without them it would be {} ({} less)",
        Bytes(transient),
        Bytes(peak.bytes),
        Bytes(peak.bytes - saved),
        percent(saved, peak.bytes)
    );
    let mut finding = Finding::new(&RULE, Severity::Warning, scene.id(), transient, title)
        .evidence("peak_bytes", peak.bytes)
        .evidence("peak_event", peak.moment.event())
        .evidence("transient_bytes", transient)
        .evidence("peak_without_bytes", peak.bytes - saved)
        .evidence("saved_bytes", saved);
    let names: Vec<String> = lines.iter().take(3).map(LineBytes::label).collect();
    let mut remedy = format!(
        "Compute what {} holds in pieces, or write it into an existing tensor: that saves up to {}.",
        names.join(" and "),
        Bytes(saved)
    );
    if let Some(line) = alone {
        finding = finding.evidence("best_line_saved_bytes", line.bytes);
        remedy = format!("{remedy} {} alone makes {} of it.", line.label(), Bytes(line.bytes));
    }
    if let Some(steady) = steady_peak(scene) {
        finding = finding.evidence("steady_peak_bytes", steady);
        remedy = format!(
            "{remedy} Only the first step needs that much: all later steps stay at or below {}.",
            Bytes(steady)
        );
    }
    finding.lines(lines).remedy(remedy)
}

/// The highest peak of the steps after the first, where the recording's peak lies in the first and the rest
/// stay well below it.
fn steady_peak(scene: &Scene<'_>) -> Option<u64> {
    let (first, rest) = scene.steps.rows.split_first().filter(|(_, rest)| rest.len() >= 2)?;
    let peak = scene.history.peaks.allocated;
    let steady = rest.iter().map(|step| step.peak_allocated.bytes).max()?;
    let is_first = peak.moment <= first.end;
    (is_first && steady.saturating_mul(100) <= peak.bytes.saturating_mul(100 - SAVED_PERCENT))
        .then_some(steady)
}

/// The step in which the peak lies; failing that, the recording.
fn step_around(scene: &Scene<'_>, peak: Moment) -> Stretch {
    let events = scene.history.events;
    let holds = |step: &&crate::tables::StepRow| step.begin < peak && peak <= step.end;
    if let Some(step) = scene.steps.rows.iter().find(holds) {
        return Stretch { events: step.end.0 - step.begin.0, short_percent: SHORT_PERCENT };
    }
    Stretch { events: events.min(MOST_EVENTS), short_percent: SHORT_PERCENT_WITHOUT_STEPS }
}

/// What lifetimes are compared with.
struct Stretch {
    events: u64,
    short_percent: u64,
}

/// A line that holds transient bytes at the peak.
struct Candidate {
    group: u32,
    bytes: u64,
}

/// Lines of which at least half of what they hold at the peak is transient, most bytes first.
fn candidates(scene: &Scene<'_>, step: &Stretch) -> Vec<Candidate> {
    let rows = &scene.history.allocations;
    let mut held: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for row in scene.live_at(scene.history.peaks.allocated.moment) {
        let group = scene.lines.of_allocation.get(row).copied().unwrap_or(NONE);
        let bytes = rows.block_bytes[row];
        let (all, transient) = held.entry(group).or_default();
        *all = all.saturating_add(bytes);
        if is_transient(scene, row, step) {
            *transient = transient.saturating_add(bytes);
        }
    }
    let least = scene.history.peaks.allocated.bytes / 100;
    let mut found: Vec<Candidate> = held
        .into_iter()
        .filter(|&(group, (all, transient))| group != NONE && transient > least && transient >= all / 2)
        .map(|(group, (_, bytes))| Candidate { group, bytes })
        .collect();
    found.sort_by_key(|line| (std::cmp::Reverse(line.bytes), line.group));
    found.truncate(MOST_SETS - 1);
    found
}

/// Which sets every allocation belongs to: all transient ones of a candidate's line, at whatever step, so that
/// the same spike in another step does not hide what is saved.
fn members(scene: &Scene<'_>, candidates: &[Candidate], step: &Stretch) -> Vec<u8> {
    let all = 1 << candidates.len();
    let set_of = |group: u32| candidates.iter().position(|line| line.group == group);
    let groups = scene.lines.of_allocation.iter().enumerate();
    groups
        .map(|(row, &group)| match set_of(group) {
            Some(set) if is_transient(scene, row, step) => 1 << set | all,
            _ => 0,
        })
        .collect()
}

/// Allocations that are live at the peak and in no set.
fn others_at_peak(scene: &Scene<'_>, members: &[u8]) -> usize {
    scene.live_at(scene.history.peaks.allocated.moment).filter(|&row| members[row] == 0).count()
}

fn is_transient(scene: &Scene<'_>, row: usize, step: &Stretch) -> bool {
    let rows = &scene.history.allocations;
    let (alloc, free) = (rows.alloc_events[row], rows.given_back_event(row));
    if alloc == NONE || free == NONE {
        return false;
    }
    let life = u64::from(free.saturating_sub(alloc));
    life * 100 < step.events * step.short_percent
        || (life <= SHORT_EVENTS && life * 100 <= step.events * SHORT_EVENTS_PERCENT)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::findings::scene::samples::{found, mark_steps};
    use crate::model::TraceBuilder;

    const GIB: u64 = 1 << 30;
    const MIB: u64 = 1 << 20;
    const A: u64 = 0x7f00_0000_0000;

    /// A step of the case C36: six activations, logits, a float copy and its gradient, freed in reverse.
    fn logits_step(mut builder: TraceBuilder) -> TraceBuilder {
        let sizes: Vec<(&str, u64)> = (0..6)
            .map(|_| ("model.py", GIB))
            .chain([
                ("head.py", 2_374_656 * 1024),
                ("loss.py", 4_749_312 * 1024),
                ("loss.py", 4_749_312 * 1024),
            ])
            .collect();
        for (index, &(file, size)) in sizes.iter().enumerate() {
            builder = builder.at(file, 7, "f").alloc(A + (16 + 8 * index as u64) * GIB, size);
        }
        for (index, &(file, size)) in sizes.iter().enumerate().rev() {
            builder = builder.at(file, 7, "f").free(A + (16 + 8 * index as u64) * GIB, size);
        }
        builder
    }

    fn with_weights() -> TraceBuilder {
        let mut builder =
            TraceBuilder::new().at("model.py", 1, "init").segment_alloc(A, 8 * GIB).alloc(A, 8 * GIB);
        for index in 0..9 {
            builder = builder.segment_alloc(A + (16 + 8 * index) * GIB, 8 * GIB);
        }
        builder
    }

    #[test]
    fn full_size_logits_are_named_with_what_they_cost() {
        let trace = logits_step(logits_step(with_weights())).build();
        let found = found("transient-peak", &trace, None);
        assert_eq!(found.len(), 1);
        let finding = &found[0];
        assert_eq!((finding.lines[0].file.as_str(), finding.bytes), ("loss.py", 2 * 4_749_312 * 1024));
        let peak = 14 * GIB + (2_374_656 + 2 * 4_749_312) * 1024;
        assert_eq!(finding.evidence["peak_bytes"], peak);
        assert_eq!(finding.evidence["peak_without_bytes"], peak - 2 * 4_749_312 * 1024);
    }

    #[test]
    fn activations_up_and_down_are_no_spike() {
        let mut builder = TraceBuilder::new();
        for index in 0..10 {
            builder = builder.segment_alloc(A + index * 400 * MIB, 400 * MIB);
        }
        for _ in 0..5 {
            for index in 0..10 {
                builder = builder.at("net.py", 4, "forward").alloc(A + index * 400 * MIB, 400 * MIB);
            }
            for index in (0..10).rev() {
                builder = builder.free(A + index * 400 * MIB, 400 * MIB);
            }
        }
        assert!(found("transient-peak", &builder.build(), None).is_empty());
    }

    #[test]
    fn a_scratch_that_is_most_of_its_step_is_no_spike() {
        let mut builder = TraceBuilder::new().segment_alloc(A, GIB);
        for step in 0..6 {
            builder = builder.at("run.py", 5, "scratch").alloc(A, 200 * MIB);
            builder = builder
                .at("run.py", 6, "keep")
                .alloc(A + (200 + 24 * step) * MIB, 24 * MIB)
                .free(A, 200 * MIB);
        }
        let mut trace = builder.build();
        mark_steps(&mut trace, (0..6).map(|step| 1 + 4 * step));
        assert!(found("transient-peak", &trace, None).is_empty());
    }
}
