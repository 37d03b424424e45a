//! `step-overlap`: what a step's forward pass made is still there when the next step reaches its peak.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::findings::chains::chains;
use crate::findings::{Check, Finding, Guide, LineBytes, Rule, Scene, Severity};
use crate::rebuild::NONE;
use crate::tables::{Phase, StepRow, peaks_without};
use crate::units::{Bytes, percent};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "step-overlap",
    heading: "The step before is still alive",
    guide: Guide {
        says: "At the peak, tensors that the step *before* made in its forward pass are still live, and are freed \
               during this step: a variable such as `out` or `loss` keeps them until it is assigned anew, which \
               is after the next forward pass has allocated its own.",
        fires: "At least 10 % of the peak (and 16 MiB) was allocated in the forward pass of the step before the one \
                in which the peak lies, and is freed before that step ends.",
        why: "What lives on for good (weights, optimizer state, a leak) does not count: only what the step frees \
              itself, a little too late. Below 10 % of the peak the order of two lines is hardly worth a change.",
        needs: "Steps (marks, annotations or detected), and stacks that tell forward from backward.",
        is_not: "Gradients that are kept until `zero_grad()` are not counted, they were made in the backward pass. \
                 Nor is it a leak: nothing grows.",
        remedy: "`del` the variable at the end of the step, or put the step into a function, whose locals end with \
                 it.",
    },
    check: Check::Device(find),
};

/// The part of the peak, in percent, and the bytes that matter.
const LEAST_PERCENT: u64 = 10;
const LEAST_BYTES: u64 = 16 << 20;
/// A chain of growing copies from this length on is one.
const LEAST_CHAIN: usize = 4;

fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    let (peak, steps) = (scene.history.peaks.allocated, &scene.steps.rows);
    let Some(at) = steps.iter().position(|step| step.begin < peak.moment && peak.moment <= step.end) else {
        return Ok(Vec::new());
    };
    let Some(before) = at.checked_sub(1) else { return Ok(Vec::new()) };
    let rows = &scene.history.allocations;
    let mut kept: Vec<(usize, u64)> = scene
        .live_at(peak.moment)
        .filter(|&row| outlives(scene, row, &steps[before], &steps[at]))
        .map(|row| (row, rows.block_bytes[row]))
        .collect();
    if !kept.is_empty() {
        // A tensor that is copied into a larger one needs the old one until then: another rule's matter.
        let copied: BTreeSet<u32> =
            chains(scene.history, LEAST_CHAIN).into_iter().flat_map(|chain| chain.rows).collect();
        kept.retain(|&(row, _)| !copied.contains(&(row as u32)));
    }
    let bytes = kept.iter().fold(0, |sum: u64, &(_, bytes)| sum.saturating_add(bytes));
    if bytes < LEAST_BYTES || bytes.saturating_mul(100) < peak.bytes.saturating_mul(LEAST_PERCENT) {
        return Ok(Vec::new());
    }
    let without = peak_without(scene);
    Ok(vec![finding(scene, bytes, without, scene.by_line(kept), &steps[at].name)])
}

fn finding(scene: &Scene<'_>, bytes: u64, without: u64, lines: Vec<LineBytes>, step: &str) -> Finding {
    let peak = scene.history.peaks.allocated;
    let title = format!(
        "{} of the peak of {} ({}) were made by the step before and are still live",
        Bytes(bytes),
        Bytes(peak.bytes),
        percent(bytes, peak.bytes)
    );
    let place =
        lines.first().map_or_else(String::new, |line| format!(" (first of all what {} made)", line.label()));
    let remedy = format!(
        "Drop the results of a step before the next begins{place}: `del` the variable, or put the step into a \
         function. The peak would be {} instead of {}.",
        Bytes(without),
        Bytes(peak.bytes)
    );
    Finding::new(&RULE, Severity::Warning, scene.id(), bytes, title)
        .lines(lines)
        .evidence("overlap_bytes", bytes)
        .evidence("peak_bytes", peak.bytes)
        .evidence("peak_event", peak.moment.event())
        .evidence("peak_without_bytes", without)
        .evidence("saved_bytes", peak.bytes.saturating_sub(without))
        .evidence("step", step)
        .evidence("steps", scene.steps.rows.len() as u64)
        .remedy(remedy)
}

/// Whether `row` was made in the forward pass of `own` and ends within `next`.
fn outlives(scene: &Scene<'_>, row: usize, own: &StepRow, next: &StepRow) -> bool {
    let rows = &scene.history.allocations;
    let alloc = rows.alloc_events[row];
    let free = rows.given_back_event(row);
    let (born, died) = (u64::from(alloc), u64::from(free));
    alloc != NONE
        && free != NONE
        && own.begin.0 <= born
        && born < own.end.0
        && next.begin.0 <= died
        && died < next.end.0
        && matches!(scene.phases().of_event(born), Phase::Forward | Phase::Evaluation)
}

/// The peak if every step's forward pass had been dropped when the step ended: those allocations left out.
fn peak_without(scene: &Scene<'_>) -> u64 {
    let rows = &scene.history.allocations;
    let steps = &scene.steps.rows;
    let mut step = 0;
    let members: Vec<u8> = (0..rows.len())
        .map(|row| {
            let alloc = u64::from(rows.alloc_events[row]);
            while step + 2 < steps.len() && steps[step].end.0 <= alloc && rows.alloc_events[row] != NONE {
                step += 1;
            }
            let pair = steps.get(step).zip(steps.get(step + 1));
            u8::from(pair.is_some_and(|(own, next)| outlives(scene, row, own, next)))
        })
        .collect();
    peaks_without(scene.history, &members, 1).first().map_or(0, |peak| peak.bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::findings::scene::samples::{found, mark_steps};
    use crate::model::{Trace, TraceBuilder};

    const MIB: u64 = 1 << 20;
    const A: u64 = 0x7f00_0000_0000;
    const SITE: &str = "/opt/venv/lib/python3.12/site-packages/torch/";

    /// Steps that make 100 MiB of activations and an output of `output` MiB; `late` keeps the output until the
    /// next step has made its own.
    fn steps(output: u64, late: bool) -> Trace {
        let linear = format!("{SITE}nn/modules/linear.py");
        let autograd = format!("{SITE}autograd/graph.py");
        let mut builder = TraceBuilder::new().segment_alloc(A, 2048 * MIB).at("train.py", 1, "init");
        builder = builder.alloc(A, 50 * MIB);
        let mut begins = Vec::new();
        for step in 0..6_u64 {
            begins.push(builder.clone().build().event_count());
            let own = A + (100 + 400 * (step % 2)) * MIB;
            let other = A + (100 + 400 * ((step + 1) % 2)) * MIB;
            let forward = [(linear.as_str(), 134, "forward"), ("train.py", 5, "step")];
            builder = builder.stack(&forward).alloc(own, output * MIB).alloc(A + 1000 * MIB, 100 * MIB);
            if late && step > 0 {
                builder = builder.free(other, output * MIB);
            }
            let backward = [(autograd.as_str(), 865, "_engine_run_backward"), ("train.py", 6, "step")];
            builder = builder.stack(&backward).alloc(A + 1500 * MIB, 4 * MIB).free(A + 1500 * MIB, 4 * MIB);
            builder = builder.free(A + 1000 * MIB, 100 * MIB);
            if !late {
                builder = builder.free(own, output * MIB);
            }
        }
        let mut trace = builder.build();
        mark_steps(&mut trace, begins);
        trace
    }

    #[test]
    fn an_output_that_lives_into_the_next_step_is_said_with_what_it_costs() {
        let found = found("step-overlap", &steps(60, true), None);
        assert_eq!(found.len(), 1);
        let finding = &found[0];
        assert_eq!((finding.bytes, finding.lines[0].line), (60 * MIB, 5));
        assert_eq!(finding.evidence["peak_bytes"], 270 * MIB);
        // Then the backward pass makes the peak.
        assert_eq!(finding.evidence["peak_without_bytes"], 214 * MIB);
    }

    #[test]
    fn a_small_output_or_one_that_is_dropped_in_time_is_none() {
        assert!(found("step-overlap", &steps(10, true), None).is_empty());
        assert!(found("step-overlap", &steps(60, false), None).is_empty());
    }
}
