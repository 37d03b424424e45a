//! `growth`: live memory grows from step to step.
//!
//! Owns what is said about a leak that [`crate::findings::growth`] found, and how serious it is.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::error::Result;
use crate::findings::growth::{self, Growth, Leak, Rising, Slope};
use crate::findings::holders::{self, HeldBy};
use crate::findings::{Check, Finding, Guide, LineBytes, Rule, Scene, Severity};
use crate::rebuild::NONE;
use crate::tables::{Pace, StepSource};
use crate::units::{Bytes, Count};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "growth",
    heading: "Live memory grows from step to step",
    guide: Guide {
        says: "Every step leaves memory behind that no later step gives back. The finding names the lines whose \
            blocks are kept, how many bytes a step adds, how much is held by now and, where the size of the \
            device is known, after how many more steps it is full.",
        fires: "It looks at what is live when a step is over, never at peaks. For each stack (allocations of the \
            backward pass have none and go by the line that called it) it takes the blocks that are still there \
            when the last step is over, and the steps that made them.\n\n\
            A stack leaks when all of this holds:\n\n\
            1. **A rhythm that lasts.** From the first kept block on, every round of steps keeps blocks in the \
            same places: one per step, four per step, one in every second step; a round has at most 32 steps and \
            is seen at least 3 times. At least 5 steps keep blocks, at most one in ten of them is out of rhythm, \
            and the last round is complete. Without any round, a recording of at least 100 steps of which 50 \
            keep blocks will do, if they are not rarer in its second half.\n\
            2. **Older than its kind.** Blocks of the same stack that outlive their step and are released may do \
            so only within an eighth of the steps looked at, and from the first third of them on. A cache that \
            lets go of its oldest entries is no leak.\n\
            3. **No luck.** Assume that blocks of this stack are released in the course of time, after a fifth \
            of the steps on the average. Each kept block has had as many chances as it lived through steps. The \
            probability that so few were taken, times the number of stacks looked at (and of sequences of \
            steps), is below 1 %.\n\
            4. **Nothing shrinks instead.** What else lives through the steps does not fall in nearly every step \
            (Kendall's tau at most -0.9) by half as much or more: blocks that replace others are no growth.\n\n\
            One block per step is found within ten steps. Where no stack leaks so, one block that every step \
            replaces by a larger one is looked for: it must grow in each of at least 6 steps up to the last \
            (chances of one half each, corrected in the same way), with the floor of all memory, and not with a \
            peak that grows more than two and a half times as fast; only in steps that the program names.\n\n\
            `slope_bytes_per_step` is the median of the slopes between any two steps (Theil and Sen), with its \
            95 % interval beside it.\n\n\
            It is an **error** when the leak is certain and matters: the same number of blocks in every round of \
            at least 20 named steps, none of that stack ever released, a probability below one in a million, \
            nothing given back after the last step, and at least 1 MiB per step or 5 % of what lived through the \
            steps before (and 1 MiB in all). It is a **warning** when it matters but is not certain, and for what \
            is given back after the last step from 1 MiB per step on; else an info.",
        why: "Peaks move with the batch; what lives through a whole step does not. Blocks are counted as well as \
            bytes because a leak of small blocks is as certain as one of large ones, and because the count is \
            what a loop repeats. Several hundred stacks are looked at: by luck alone one of them would look like \
            a leak if the number were not taken into account. On a thousand generated recordings without a leak \
            (varying and correlated batches, warm-up, bounded caches, caches that evict, optimizer state, \
            evaluations, blocks of random life) at most ten fire; on a thousand with one leaked block per step \
            among the same noise at least 990 do, with the right line.",
        needs: "Steps: marks of the recorder, annotations (`record_function(\"step\")`, the profiler's or the \
            optimizer's), or a repetition found in the events; at least 6, and 7 to 9 where many stacks \
            allocate. Without steps the rule is silent: blocks that pile up while a program loads its model look \
            the same. With stacks it names the line; a recording of `memlab run` also says who holds the blocks.",
        is_not: "Not the optimizer's state of the first step, a library's workspace, a warm-up that stops, a \
            cache that is full or evicts, batches of varying size, memory reserved but not allocated, or what a \
            caught exception keeps. A cache that is still being filled when the recording ends looks like a leak \
            until it is full. Growth that a program gives back after the last step (predictions gathered for an \
            evaluation) is no leak but limits the number of steps; the finding says so.",
        remedy: "Look at the named line for something that outlives the step: a loss that is kept with its graph \
            (`losses.append(loss)` keeps the whole forward pass; append `loss.item()` or `loss.detach()`), a \
            list, dict or attribute that only grows, a hook or closure that stores activations, a cache without \
            a bound. Move what must be kept to the host with `.cpu()`. `memlab run` names the holder.",
    },
    check: Check::Device(find),
};

/// A leak is certain only after so many steps, and when luck is that unlikely.
const CERTAIN_STEPS: usize = 20;
const CERTAIN_PROBABILITY: f64 = 1e-6;
/// What matters: so much per step, or this part of what lived through the steps before.
const MUCH_PER_STEP_BYTES: u64 = 1 << 20;
const MUCH_IN_ALL_BYTES: u64 = 1 << 20;
const MUCH_PART: u64 = 20;
/// How many leaks, and holders, are named in the evidence.
const MOST_NAMED: usize = 8;

fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    if let Some(found) = growth::find(scene) {
        return Ok(vec![of_leaks(scene, &found)]);
    }
    Ok(growth::rising(scene).map(|found| of_rising(scene, &found)).into_iter().collect())
}

/// What both kinds of growth have in common.
struct Told<'a> {
    pace: &'a Pace,
    start: usize,
    slope: Slope,
    rows: BTreeSet<usize>,
    probability: f64,
    origins: u64,
}

fn of_leaks(scene: &Scene<'_>, found: &Growth) -> Finding {
    let rows: BTreeSet<usize> = found.leaks.iter().flat_map(|leak| leak.rows.iter().copied()).collect();
    let probability = found.leaks.iter().map(|leak| leak.probability).fold(1.0, f64::min);
    let told = Told {
        pace: &found.pace,
        start: found.start,
        slope: found.slope,
        rows,
        probability,
        origins: found.origins,
    };
    let blocks_per_step: f64 = found.leaks.iter().map(blocks_per_step).sum();
    let lines = told.lines(scene);
    let words = in_words(&found.leaks);
    let title = told.title(scene, &subject(&lines, &words));
    let baseline = found.floor_bytes.get(found.start).copied().unwrap_or_default();
    let severity = told.severity(scene, baseline, is_certain(scene, found));
    let oldest = found.leaks.iter().filter_map(|leak| leak.steps.first()).min().copied().unwrap_or_default();
    let blocks = told.rows.len();
    let finding = told
        .finding(scene, severity, title, lines)
        .evidence("blocks_per_step", whole_or_not(blocks_per_step))
        .evidence("blocks", blocks)
        .evidence("oldest_age_steps", found.pace.len() - 1 - oldest)
        .evidence("baseline_floor_bytes", baseline)
        .evidence("end_floor_bytes", found.floor_bytes.last().copied())
        .evidence("leaks", named(scene, &found.leaks));
    let finding = match growth::slope(&found.floor_bytes[found.start..]) {
        Some(floor) => finding
            .evidence("floor_slope_bytes_per_step", rounded(floor.per_step))
            .evidence("floor_slope_low_bytes_per_step", rounded(floor.low))
            .evidence("floor_slope_high_bytes_per_step", rounded(floor.high)),
        None => finding,
    };
    told.held(scene, finding, true)
}

fn of_rising(scene: &Scene<'_>, found: &Rising) -> Finding {
    let told = Told {
        pace: &found.pace,
        start: found.start,
        slope: found.slope,
        rows: found.rows.iter().copied().collect(),
        probability: found.probability,
        origins: found.origins,
    };
    let lines = told.lines(scene);
    let title = told.title(scene, &subject(&lines, "a block that every step replaces by a larger one"));
    let severity = told.severity(scene, 0, false);
    let finding = told.finding(scene, severity, title, lines).evidence("blocks_per_step", 0);
    told.held(scene, finding, false)
}

impl Told<'_> {
    fn bytes(&self, scene: &Scene<'_>) -> u64 {
        let sizes = &scene.history.allocations.block_bytes;
        self.rows.iter().fold(0u64, |sum, &row| sum.saturating_add(sizes[row]))
    }

    /// Bytes that were given back after the last step.
    fn released_bytes(&self, scene: &Scene<'_>) -> u64 {
        let rows = &scene.history.allocations;
        let freed =
            |row: &&usize| rows.free_requested_events[**row].min(rows.free_completed_events[**row]) != NONE;
        self.rows.iter().filter(freed).fold(0u64, |sum, &row| sum.saturating_add(rows.block_bytes[row]))
    }

    fn is_released(&self, scene: &Scene<'_>) -> bool {
        self.released_bytes(scene) > self.bytes(scene) / 10
    }

    fn lines(&self, scene: &Scene<'_>) -> Vec<LineBytes> {
        let sizes = &scene.history.allocations.block_bytes;
        scene.by_line(self.rows.iter().map(|&row| (row, sizes[row])))
    }

    fn title(&self, scene: &Scene<'_>, subject: &str) -> String {
        let steps = self.pace.len() - self.start;
        let then = match self.exhausted_in_steps(scene) {
            _ if self.is_released(scene) => String::from(", released after the last step"),
            Some(steps) => format!("; the device is full after {} more", Count(steps)),
            None => String::new(),
        };
        format!(
            "Live memory grows by {} per step: {subject}, {} after {} steps{then}",
            Bytes(rounded(self.slope.per_step).unsigned_abs()),
            Bytes(self.bytes(scene)),
            Count(steps as u64),
        )
    }

    fn severity(&self, scene: &Scene<'_>, baseline: u64, is_certain: bool) -> Severity {
        let bytes = self.bytes(scene);
        let is_fast = rounded(self.slope.per_step).unsigned_abs() >= MUCH_PER_STEP_BYTES;
        let is_much = bytes >= MUCH_IN_ALL_BYTES && bytes >= baseline / MUCH_PART;
        match (self.is_released(scene), is_fast || is_much) {
            (false, true) if is_certain => Severity::Error,
            (false, true) => Severity::Warning,
            (true, _) if is_fast => Severity::Warning,
            _ => Severity::Info,
        }
    }

    fn finding(
        &self,
        scene: &Scene<'_>,
        severity: Severity,
        title: String,
        lines: Vec<LineBytes>,
    ) -> Finding {
        let last = scene.steps.rows.get(self.pace.row(self.pace.len() - 1));
        let bytes = self.bytes(scene);
        let attributed = lines.iter().fold(0u64, |sum, line| sum.saturating_add(line.bytes));
        let top_share = lines.first().map(|line| line.bytes as f64 / bytes.max(1) as f64);
        let peaks: Vec<u64> = (self.start..self.pace.len())
            .filter_map(|step| scene.steps.rows.get(self.pace.row(step)))
            .map(|step| step.peak_allocated.bytes)
            .collect();
        let finding = Finding::new(&RULE, severity, scene.id(), bytes, title)
            .lines(lines)
            .evidence("slope_bytes_per_step", rounded(self.slope.per_step))
            .evidence("slope_low_bytes_per_step", rounded(self.slope.low))
            .evidence("slope_high_bytes_per_step", rounded(self.slope.high))
            .evidence("steps", self.pace.len() - self.start)
            .evidence("step_source", scene.steps.source.name())
            .evidence("p_value", self.probability)
            .evidence("stacks_tried", self.origins)
            .evidence("live_end_bytes", last.map(|step| step.end_allocated_bytes))
            .evidence("kept_bytes", bytes)
            .evidence("unattributed_bytes", bytes.saturating_sub(attributed))
            .evidence("released_after_bytes", self.released_bytes(scene))
            .evidence("top_line_share", top_share)
            .evidence(
                "peak_slope_bytes_per_step",
                growth::slope(&peaks).map(|slope| rounded(slope.per_step)),
            );
        match self.exhausted_in_steps(scene) {
            Some(steps) => finding.evidence("exhausted_in_steps", steps),
            None => finding,
        }
    }

    /// How many more steps fit, if the highest total of the last step grows on alike. What is on the device
    /// beside PyTorch's allocator is not known here: it is earlier rather than later.
    fn exhausted_in_steps(&self, scene: &Scene<'_>) -> Option<u64> {
        let total = scene.total_bytes?;
        let fraction = scene.trace.memory_fraction(scene.id()).unwrap_or(1.0);
        let limit = (total as f64 * fraction) as u64;
        let last = scene.steps.rows.get(self.pace.row(self.pace.len() - 1))?;
        let room = limit.saturating_sub(last.peak_allocated.bytes);
        let per_step = rounded(self.slope.per_step).unsigned_abs();
        room.checked_div(per_step)
    }

    /// Adds who holds it and what to do.
    fn held(&self, scene: &Scene<'_>, mut finding: Finding, are_kept: bool) -> Finding {
        let held = holders::held_by(scene, &holders::holders(scene), &self.rows);
        if !held.is_empty() {
            let rows = held.iter().take(MOST_NAMED);
            let rows =
                rows.map(|held| json!({ "path": held.path, "blocks": held.blocks, "bytes": held.bytes }));
            finding = finding.evidence("holders", rows.collect::<Vec<Value>>());
        }
        let mut remedy = if are_kept { kept_remedy(held.first()) } else { RISING_REMEDY.to_owned() };
        if self.is_released(scene) {
            remedy.push_str(
                " It was given back after the last step, so it limits how many steps fit, and is no leak.",
            );
        } else if let Some(steps) = self.exhausted_in_steps(scene) {
            remedy.push_str(&format!(
                " At this pace the device is full after {} more steps at the latest.",
                Count(steps)
            ));
        }
        finding.remedy(remedy)
    }
}

const RISING_REMEDY: &str = "What is gathered over the steps is copied into a larger tensor each time: move each \
    step's part to the host (`.cpu()`, `eval_accumulation_steps`), or allocate the whole once and fill it in.";

fn kept_remedy(held: Option<&HeldBy>) -> String {
    match held {
        Some(held) if held.path.starts_with("autograd graph of ") => format!(
            "The blocks are held by the {}: keep `.item()` or `.detach()` of it, so that its graph is freed with \
             the step.",
            held.path
        ),
        Some(held) if held.path.contains("reference cycle") => format!(
            "The blocks are held by a {}: break the cycle or use a weak reference, or call gc.collect() from time \
             to time.",
            held.path
        ),
        Some(held) => format!(
            "The blocks are held by {}: drop or bound what is stored there, or move it to the host with `.cpu()`.",
            held.path
        ),
        None => "Find what stores the result of this line beyond the step: a list, dict or attribute that only \
            grows, a hook, or a loss kept with its graph (keep `loss.item()` or `loss.detach()` instead). `memlab \
            run` records who holds it."
            .to_owned(),
    }
}

fn is_certain(scene: &Scene<'_>, found: &Growth) -> bool {
    let is_named = matches!(scene.steps.source, StepSource::Marks | StepSource::Annotations);
    let is_certain = |leak: &&Leak| {
        leak.rhythm.is_constant
            && found.pace.len() - leak.rhythm.start >= CERTAIN_STEPS
            && leak.released == 0
            && leak.probability < CERTAIN_PROBABILITY
    };
    let bytes = |leak: &Leak| {
        leak.rows
            .iter()
            .fold(0u64, |sum, &row| sum.saturating_add(scene.history.allocations.block_bytes[row]))
    };
    let certain = found.leaks.iter().filter(is_certain).map(bytes).fold(0u64, u64::saturating_add);
    let all = found.leaks.iter().map(bytes).fold(0u64, u64::saturating_add);
    is_named && certain > all / 2
}

fn blocks_per_step(leak: &Leak) -> f64 {
    let round = &leak.rhythm.round;
    match round.len() {
        0 => leak.rows.len() as f64 / leak.steps.last().map_or(1, |last| last + 1 - leak.rhythm.start) as f64,
        steps => f64::from(round.iter().sum::<u32>()) / steps as f64,
    }
}

/// Who keeps what: the first line, and how many more there are.
fn subject(lines: &[LineBytes], what: &str) -> String {
    match lines {
        [] => format!("allocations without a known line keep {what}"),
        [line] => format!("{} keeps {what}", line.label()),
        [line, _] => format!("{} and one more line keep {what}", line.label()),
        [line, rest @ ..] => {
            format!("{} and {} more lines keep {what}", line.label(), Count(rest.len() as u64))
        }
    }
}

/// `1 block of every step`, `1 block of every 2nd step`, `4 blocks of every 5 steps`.
fn in_words(leaks: &[Leak]) -> String {
    let round = leaks.first().map_or(0, |leak| leak.rhythm.round.len());
    let blocks: u32 = leaks.iter().flat_map(|leak| &leak.rhythm.round).sum();
    let noun = if blocks == 1 { "block" } else { "blocks" };
    if round == 0 || leaks.iter().any(|leak| leak.rhythm.round.len() != round) {
        let all: usize = leaks.iter().map(|leak| leak.rows.len()).sum();
        return format!("{} blocks", Count(all as u64));
    }
    match (round, blocks) {
        (1, _) => format!("{blocks} {noun} of every step"),
        (2, 1) => String::from("1 block of every 2nd step"),
        (3, 1) => String::from("1 block of every 3rd step"),
        (steps, 1) => format!("1 block of every {steps}th step"),
        (steps, _) => format!("{blocks} {noun} of every {steps} steps"),
    }
}

fn named(scene: &Scene<'_>, leaks: &[Leak]) -> Vec<Value> {
    let sizes = &scene.history.allocations.block_bytes;
    let bytes = |leak: &Leak| leak.rows.iter().fold(0u64, |sum, &row| sum.saturating_add(sizes[row]));
    let mut order: Vec<&Leak> = leaks.iter().collect();
    order.sort_by_key(|leak| std::cmp::Reverse(bytes(leak)));
    let row = |leak: &Leak| {
        let line = leak.rows.first().and_then(|&row| scene.line_of(row, 0)).map(|line| line.label());
        json!({
            "line": line,
            "bytes": bytes(leak),
            "blocks": leak.rows.len(),
            "blocks_per_step": whole_or_not(blocks_per_step(leak)),
            "first_step": leak.rhythm.start,
            "p_value": leak.probability,
        })
    };
    order.into_iter().take(MOST_NAMED).map(row).collect()
}

/// A whole number as such: 1, not 1.0.
fn whole_or_not(value: f64) -> Value {
    if value.fract() == 0.0 { json!(value as u64) } else { json!(value) }
}

fn rounded(value: f64) -> i64 {
    value.round() as i64
}

#[cfg(test)]
#[path = "growth_tests.rs"]
mod tests;
