//! `graph-in-eval`: forward passes without a backward pass keep what only a backward pass would need.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::findings::passes::{LEAST_RISE_BYTES, Pass, passes};
use crate::findings::{Check, Finding, Guide, Rule, Scene, Severity};
use crate::rebuild::{Moment, NONE};
use crate::tables::Phase;
use crate::units::{Bytes, Count, percent};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "graph-in-eval",
    heading: "Evaluation keeps the graph",
    guide: Guide {
        says: "Steps without a backward pass (validation, inference) hold all their activations at once and then \
               release them together: autograd records a graph that nobody uses. Evaluation then needs as much as \
               training, or more.",
        fires: "Looked at are forward passes that no backward pass follows, one by one (cut at steps, and where their \
                own bytes fall below 10 % of their highest). A pass counts as kept when at least 8 of its \
                allocations are live at its peak, and these are at least half of all bytes that it had allocated \
                by then. The rule fires when at least two passes are kept and one of them rises at least as high \
                above its beginning as the highest training step. Where the recording holds no backward pass at \
                all, three passes must be kept, with 85 % of their bytes from at least two places; then it is info.",
        why: "Under `no_grad` a layer's input is freed as soon as its output exists: what is live at the peak is a \
              small part of what was allocated. With a graph nearly all of it is live. Half lies well between; \
              without training to compare with, nearly all is asked for.",
        needs: "Stacks or marks that show the backward pass, and at least 16 MiB of rise.",
        is_not: "An evaluation that needs much because its batch is larger, or because it collects predictions, \
                 is not meant: `grow-by-copy` and `growth` say that.",
        remedy: "Run evaluation under `torch.no_grad()` or `torch.inference_mode()` (`model.eval()` alone does not \
                 turn autograd off), and leave `create_graph` out there.",
    },
    check: Check::Device(find),
};

/// Allocations of a pass that are live at its peak, at least.
const LEAST_LIVE: u64 = 8;
/// Of what the pass had allocated by its peak, this part in percent is live there.
const LEAST_LIVE_PERCENT: u64 = 50;
const LEAST_LIVE_PERCENT_WITHOUT_TRAINING: u64 = 85;
/// Passes like that.
const LEAST_PASSES: usize = 2;
const LEAST_PASSES_WITHOUT_TRAINING: usize = 3;

fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    let trained = scene.phases().has(Phase::Backward);
    let passes = passes(scene);
    let training = passes.iter().filter(|pass| pass.trains).map(Pass::rise).max();
    let kept: Vec<&Pass> = passes.iter().filter(|pass| keeps_graph(scene, pass, trained)).collect();
    let least = if trained { LEAST_PASSES } else { LEAST_PASSES_WITHOUT_TRAINING };
    let Some(&worst) = kept.iter().max_by_key(|pass| (pass.rise(), std::cmp::Reverse(pass.begin))) else {
        return Ok(Vec::new());
    };
    if kept.len() < least || worst.rise() < training.unwrap_or(0) {
        return Ok(Vec::new());
    }
    Ok(vec![finding(scene, worst, kept.len() as u64, training)])
}

fn keeps_graph(scene: &Scene<'_>, pass: &Pass, trained: bool) -> bool {
    let least = if trained { LEAST_LIVE_PERCENT } else { LEAST_LIVE_PERCENT_WITHOUT_TRAINING };
    if pass.trains || pass.rise() < LEAST_RISE_BYTES {
        return false;
    }
    let live = Live::of(scene, pass);
    live.count >= LEAST_LIVE
        && live.bytes.saturating_mul(100) >= live.allocated_bytes.saturating_mul(least)
        && (trained || live.stacks.len() >= 2)
}

fn finding(scene: &Scene<'_>, worst: &Pass, passes: u64, training: Option<u64>) -> Finding {
    let severity = if training.is_some() { Severity::Warning } else { Severity::Info };
    let live = Live::of(scene, worst);
    let against = training.map_or_else(
        || "; the recording holds no backward pass".to_owned(),
        |rise| format!(", a training step {}", Bytes(rise)),
    );
    let title = format!(
        "{} forward passes that no backward pass follows keep their activations: {} above their beginning{against}",
        Count(passes),
        Bytes(worst.rise())
    );
    let rows = &scene.history.allocations;
    let lines = scene.by_line(live.rows.iter().map(|&row| (row, rows.block_bytes[row])));
    let remedy = format!(
        "Run these passes under torch.no_grad() or torch.inference_mode(); model.eval() alone does not turn the \
         graph off. Of what such a pass allocates {} is live at its peak; without a graph a layer's input is freed \
         when its output is there.",
        percent(live.bytes, live.allocated_bytes)
    );
    Finding::new(&RULE, severity, scene.id(), live.bytes, title)
        .lines(lines)
        .evidence("passes", passes)
        .evidence("pass_rise_bytes", worst.rise())
        .evidence("training_rise_bytes", training)
        .evidence("live_at_peak_bytes", live.bytes)
        .evidence("live_allocations", live.count)
        .evidence("allocated_by_peak_bytes", live.allocated_bytes)
        .evidence("peak_event", worst.peak_event)
        .remedy(remedy)
}

/// What a pass allocated, and what of it is live at its peak and does not stay.
#[derive(Default)]
struct Live {
    allocated_bytes: u64,
    bytes: u64,
    count: u64,
    rows: Vec<usize>,
    stacks: BTreeSet<u32>,
}

impl Live {
    fn of(scene: &Scene<'_>, pass: &Pass) -> Self {
        let (history, rows) = (scene.history, &scene.history.allocations);
        let mut live = Self::default();
        for event in pass.begin..=pass.peak_event {
            let row = history.allocation_of_event.get(event as usize).copied().unwrap_or(NONE) as usize;
            if row >= rows.len() || u64::from(rows.alloc_events[row]) != event {
                continue;
            }
            let bytes = rows.block_bytes[row];
            live.allocated_bytes = live.allocated_bytes.saturating_add(bytes);
            let ends = rows.given_back_event(row) != NONE;
            if ends && rows.is_allocated_at(row, Moment::after(pass.peak_event)) {
                live.bytes = live.bytes.saturating_add(bytes);
                live.count += 1;
                live.rows.push(row);
                live.stacks.insert(rows.stacks[row].0);
            }
        }
        live
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::findings::scene::samples::{found, mark_steps};
    use crate::model::{Trace, TraceBuilder};

    const MIB: u64 = 1 << 20;
    const A: u64 = 0x7f00_0000_0000;
    const SITE: &str = "/opt/venv/lib/python3.12/site-packages/torch/";

    /// Five training steps of 10 x 40 MiB, then five of 10 x 80 MiB without a backward pass: kept to the end of
    /// the step (C40), or each freed when the next is there.
    fn run(training: bool, keeps: bool) -> Trace {
        let linear = format!("{SITE}nn/modules/linear.py");
        let autograd = format!("{SITE}autograd/graph.py");
        let forward = [(linear.as_str(), 134, "forward"), ("train.py", 5, "step")];
        let backward = [(autograd.as_str(), 865, "_engine_run_backward"), ("train.py", 6, "step")];
        let mut builder = TraceBuilder::new().segment_alloc(A, 4096 * MIB).at("train.py", 1, "init");
        builder = builder.alloc(A + 3000 * MIB, 50 * MIB);
        let place = |index: u64| A + index * 100 * MIB;
        let mut begins = Vec::new();
        for step in 0..10 {
            begins.push(builder.clone().build().event_count());
            let trains = step < 5;
            if trains && !training {
                continue;
            }
            let size = if trains { 40 * MIB } else { 80 * MIB };
            for index in 0..10 {
                builder = builder.stack(&forward).alloc(place(index), size);
                if !trains && !keeps && index > 0 {
                    builder = builder.free(place(index - 1), size);
                }
            }
            if trains {
                builder = builder.stack(&backward).alloc(A + 2000 * MIB, MIB).free(A + 2000 * MIB, MIB);
            }
            for index in if trains || keeps { 0..10 } else { 9..10 } {
                builder = builder.free(place(index), size);
            }
        }
        let mut trace = builder.build();
        mark_steps(&mut trace, begins);
        trace
    }

    #[test]
    fn evaluation_that_keeps_its_activations_is_held_against_training() {
        let found = found("graph-in-eval", &run(true, true), None);
        assert_eq!(found.len(), 1);
        let finding = &found[0];
        assert_eq!(finding.evidence["passes"], 5);
        assert_eq!(finding.evidence["pass_rise_bytes"], 800 * MIB);
        assert_eq!(finding.evidence["training_rise_bytes"], 401 * MIB);
        assert_eq!((finding.bytes, finding.lines[0].line), (800 * MIB, 5));
    }

    #[test]
    fn evaluation_without_a_graph_is_fine() {
        assert!(found("graph-in-eval", &run(true, false), None).is_empty());
        assert!(found("graph-in-eval", &run(false, false), None).is_empty());
    }
}
