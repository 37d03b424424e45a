//! `growth`: live memory grows from step to step.
//!
//! Owns what is said about a leak that [`crate::findings::growth`] found, and how serious it is.

use crate::error::Result;
use crate::findings::growth::{self, Grown, Growth, Leak, Rising};
use crate::findings::{Check, Finding, Guide, Rule, Scene, Severity, compared, holders};
use crate::tables::StepTable;
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
            keep blocks will do, if they are not rarer in its second half. Where the loop goes on behind the \
            steps that are known, the leak must go on with it.\n\
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
            It is an **error** when the leak is certain and matters: the same number of blocks in every round, \
            blocks of at least 20 steps that the program names, none of that stack ever released late, a probability below one in a million, \
            most of it not given back while the program goes on, and at least 1 MiB per step or 5 % of what lived through the \
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
            optimizer's), a repetition found in the events, or failing these at least 7 calls of `backward()`; at \
            least 6 steps (8 where the program does not name them), and 7 to 9 where many stacks allocate. Without steps the rule is silent: blocks that pile up while a program loads its model look \
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

/// A leak is certain only when so many steps have left blocks behind, and when luck is that unlikely.
const CERTAIN_STEPS: usize = 20;
const CERTAIN_PROBABILITY: f64 = 1e-6;
/// What matters: so much per step, or this part of what lived through the steps before.
const MUCH_PER_STEP_BYTES: u64 = 1 << 20;
const MUCH_IN_ALL_BYTES: u64 = 1 << 20;
const MUCH_PART: u64 = 20;
/// A leak of several blocks per step in a program with a backward pass looks like a graph that is kept.
const BLOCKS_OF_A_GRAPH: f64 = 2.0;

fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    let steps = compared::steps(scene);
    if let Some(found) = growth::find(scene, &steps) {
        return Ok(vec![of_leaks(scene, &steps, &found)]);
    }
    Ok(growth::rising(scene).map(|found| of_rising(scene, &found)).into_iter().collect())
}

fn of_leaks(scene: &Scene<'_>, steps: &StepTable, found: &Growth) -> Finding {
    let grown = Grown::by_leaks(steps, found);
    let blocks_per_step: f64 = found.leaks.iter().map(growth::blocks_per_step).sum();
    let baseline = found.floor_bytes.get(found.start).copied().unwrap_or_default();
    let severity = severity(scene, &grown, baseline, is_certain(scene, found));
    let oldest = found.leaks.iter().filter_map(|leak| leak.steps.first()).min().copied().unwrap_or_default();
    let blocks = grown.rows.len();
    let finding = finding(scene, &grown, severity, &growth::blocks_in_words(&found.leaks))
        .evidence("blocks_per_step", growth::whole_or_not(blocks_per_step))
        .evidence("blocks", blocks)
        .evidence("oldest_age_steps", found.pace.len() - 1 - oldest)
        .evidence("baseline_floor_bytes", baseline)
        .evidence("end_floor_bytes", found.floor_bytes.last().copied())
        .evidence("leaks", growth::named(scene, &found.leaks));
    let finding = match growth::slope(&found.floor_bytes[found.start..]) {
        Some(floor) => finding
            .evidence("floor_slope_bytes_per_step", rounded(floor.per_step))
            .evidence("floor_slope_low_bytes_per_step", rounded(floor.low))
            .evidence("floor_slope_high_bytes_per_step", rounded(floor.high)),
        None => finding,
    };
    let has_backward = scene.lines.facts.iter().any(|facts| facts.opens_pass);
    let held = holders::held_by(scene, &holders::holders(scene), &grown.rows);
    let what = growth::kept_remedy(held.first(), has_backward && blocks_per_step >= BLOCKS_OF_A_GRAPH);
    let finding = if held.is_empty() { finding } else { finding.evidence("holders", growth::holders(&held)) };
    finding.remedy(remedy(scene, &grown, what))
}

fn of_rising(scene: &Scene<'_>, found: &Rising) -> Finding {
    let grown = Grown::by_rising(scene.steps, found);
    let severity = severity(scene, &grown, 0, false);
    finding(scene, &grown, severity, "a block that every step replaces by a larger one")
        .evidence("blocks_per_step", 0)
        .remedy(remedy(scene, &grown, growth::RISING_REMEDY.to_owned()))
}

/// Whether most of it was given back while the program went on.
fn is_released(scene: &Scene<'_>, grown: &Grown<'_>) -> bool {
    grown.released_bytes(scene) > grown.bytes(scene) / 2
}

fn severity(scene: &Scene<'_>, grown: &Grown<'_>, baseline: u64, is_certain: bool) -> Severity {
    let bytes = grown.bytes(scene);
    let is_fast = grown.per_step_bytes() >= MUCH_PER_STEP_BYTES;
    let is_much = bytes >= MUCH_IN_ALL_BYTES && bytes >= baseline / MUCH_PART;
    match (is_released(scene, grown), is_fast || is_much) {
        (false, true) if is_certain => Severity::Error,
        (false, true) => Severity::Warning,
        (true, _) if is_fast => Severity::Warning,
        _ => Severity::Info,
    }
}

fn is_certain(scene: &Scene<'_>, found: &Growth) -> bool {
    let is_certain = |leak: &&Leak| {
        leak.rhythm.is_constant
            && leak.steps.chunk_by(|a, b| a == b).count() >= CERTAIN_STEPS
            && leak.released == 0
            && leak.probability < CERTAIN_PROBABILITY
    };
    let bytes = |sum: u64, leak: &Leak| sum.saturating_add(leak.bytes(scene));
    let certain = found.leaks.iter().filter(is_certain).fold(0, bytes);
    compared::are_named(scene) && certain > found.leaks.iter().fold(0, bytes) / 2
}

/// All but the remedy and what only leaks have.
fn finding(scene: &Scene<'_>, grown: &Grown<'_>, severity: Severity, what: &str) -> Finding {
    let (bytes, lines) = (grown.bytes(scene), grown.lines(scene));
    let exhausted = grown.exhausted_in_steps(scene);
    let then = match exhausted {
        _ if is_released(scene, grown) => String::from(", given back after the last step"),
        Some(steps) => format!("; the device is full after {} more", Count(steps)),
        None => String::new(),
    };
    let title = format!(
        "Live memory grows by {} per step: {}, {} after {} steps{then}",
        Bytes(grown.per_step_bytes()),
        growth::subject(&lines, what),
        Bytes(bytes),
        Count(grown.count() as u64),
    );
    let attributed = lines.iter().fold(0u64, |sum, line| sum.saturating_add(line.bytes));
    let top_share = lines.first().map(|line| line.bytes as f64 / bytes.max(1) as f64);
    let finding = Finding::new(&RULE, severity, scene.id(), bytes, title)
        .lines(lines)
        .evidence("slope_bytes_per_step", rounded(grown.slope.per_step))
        .evidence("slope_low_bytes_per_step", rounded(grown.slope.low))
        .evidence("slope_high_bytes_per_step", rounded(grown.slope.high))
        .evidence("peak_slope_bytes_per_step", grown.peak_slope().map(|slope| rounded(slope.per_step)))
        .evidence("steps", grown.count())
        .evidence("step_source", compared::source(scene))
        .evidence("p_value", grown.probability)
        .evidence("stacks_tried", grown.origins)
        .evidence("live_end_bytes", grown.last().map(|step| step.end_allocated_bytes))
        .evidence("kept_bytes", bytes)
        .evidence("unattributed_bytes", bytes.saturating_sub(attributed))
        .evidence("released_after_bytes", grown.released_bytes(scene))
        .evidence("top_line_share", top_share);
    match exhausted {
        Some(steps) => finding.evidence("exhausted_in_steps", steps),
        None => finding,
    }
}

fn remedy(scene: &Scene<'_>, grown: &Grown<'_>, mut what: String) -> String {
    if is_released(scene, grown) {
        what.push_str(
            " It was given back after the last step: it limits how many steps fit, and is no leak beyond them.",
        );
    } else if let Some(steps) = grown.exhausted_in_steps(scene) {
        let more = Count(steps);
        what.push_str(&format!(" At this pace the device is full after {more} more steps at the latest."));
    }
    what
}

fn rounded(value: f64) -> i64 {
    value.round() as i64
}

#[cfg(test)]
#[path = "growth_tests.rs"]
mod tests;
