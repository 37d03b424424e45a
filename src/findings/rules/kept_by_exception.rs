//! `kept-by-exception`: a caught exception keeps a failed step alive.

use crate::error::Result;
use crate::findings::kept::Kept;
use crate::findings::{Check, Finding, Guide, Rule, Scene, Severity};
use crate::model::StackId;
use crate::units::{Bytes, Count};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "kept-by-exception",
    heading: "A caught exception keeps a failed step alive",
    guide: Guide {
        says: "A request failed, the program caught the error and went on, and what the failed step had allocated \
            was never given back. Every later attempt starts with that much less memory, so even a smaller batch \
            may fail.",
        fires: "After an OOM event at least 2 more steps follow, and at least 90 % of the bytes that the failed step \
            had allocated and held when it failed are still live at the end of the second of them. The failed step \
            begins where the steps say; without steps, where the stacks show that the program entered the call \
            that failed. Without steps after the OOM, a new attempt is counted each time the stack of the failed \
            step's first request comes again as often as in that step. All failed steps together must have kept \
            1 MiB and 0.1 % of what was live. Parameters, optimizer state, workspaces, DDP's buckets, deep copies, \
            what a load brought, and gradients as large as parameters are not counted.",
        why: "One step later a local variable may still name the old loss or output, and goes when it is assigned \
            again; two steps later nothing of a failed step has a reason to live. 90 % leaves room for a cache \
            that the step filled on the way.",
        needs: "An OOM event with at least two steps or attempts after it: a recording that ends with the OOM says \
            nothing about it. Times for steps, or stacks with Python frames for attempts.",
        is_not: "Not growth: the amount does not rise from step to step. Not fragmentation: the memory is \
            allocated, so emptying the cache does not help. An OOM that was handled well (everything of the \
            failed step freed before the next one) does not fire.",
        remedy: "Leave the `except` block before you try again. The exception holds its traceback, the traceback \
            holds the frames, and the frames hold every local tensor. Do not store the exception, log it as text.",
    },
    check: Check::Device(find),
};

fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    if scene.ooms.is_empty() {
        return Ok(Vec::new());
    }
    Ok(Kept::of(scene).map(|kept| finding(scene, &kept)).into_iter().collect())
}

fn finding(scene: &Scene<'_>, kept: &Kept) -> Finding {
    let bytes = scene.block_bytes(&kept.rows);
    let backward_bytes = scene.block_bytes(&kept.backward_rows);
    let first = &kept.attempts[0];
    let rounds = if first.by_steps { "steps" } else { "attempts" };
    let failed_at = Count(scene.history.first_event + first.oom.event);
    let steps = match kept.attempts.len() {
        1 => format!("the step that failed at event {failed_at}"),
        more => format!("{} failed steps (the first at event {failed_at})", Count(more as u64)),
    };
    let title = format!(
        "{} of {steps} stayed live through {} later {rounds}",
        Bytes(bytes),
        Count(kept.rounds_lived as u64)
    );
    Finding::new(&RULE, Severity::Error, scene.id(), bytes, title)
        .lines(scene.lines_of(&kept.rows))
        .evidence("event", first.oom.event)
        .evidence("requested_bytes", first.oom.size)
        .evidence("failed_steps", kept.attempts.len())
        .evidence("step_begins_at_event", first.begin)
        .evidence("held_at_oom_bytes", kept.held_bytes)
        .evidence("kept_bytes", bytes)
        .evidence("kept_allocations", kept.rows.len())
        .evidence("kept_of_backward_bytes", backward_bytes)
        .evidence("later_rounds", kept.rounds)
        .evidence("later_rounds_lived", kept.rounds_lived)
        .evidence("rounds_are", rounds)
        .remedy(remedy(scene, kept, bytes, backward_bytes))
}

fn remedy(scene: &Scene<'_>, kept: &Kept, bytes: u64, backward_bytes: u64) -> String {
    let mut said = "Leave the except block before the next attempt: note in it that the step failed, and retry \
        after it. Keep no reference to the exception, its traceback or its frames (a list of errors, a logger \
        that stores exc_info, sys.last_exc in a notebook)."
        .to_owned();
    if backward_bytes > bytes / 2 {
        said.push_str(
            " Most of it was allocated by the backward pass: drop the loss and the outputs of the failed step too, \
             as they hold its graph.",
        );
    }
    if is_unsharded(scene, kept, bytes) {
        said.push_str(
            " Most of it are parameters that FSDP had gathered: shard them again before the next step, as the \
             failed one never came to it.",
        );
    }
    said
}

/// Whether most of it was allocated where FSDP gathers parameters.
fn is_unsharded(scene: &Scene<'_>, kept: &Kept, bytes: u64) -> bool {
    let trace = scene.trace;
    let gathers = |stack: StackId| {
        trace.stacks.get(stack).iter().any(|&id| {
            let function = trace.strings.get(trace.frames.get(id).function);
            function.contains("unshard") || function.contains("all_gather")
        })
    };
    let mut known: Option<(StackId, bool)> = None;
    let gathered = kept.rows.iter().copied().filter(|&row| {
        let stack = scene.history.allocations.stacks[row];
        let (_, is) =
            *known.insert(known.filter(|known| known.0 == stack).unwrap_or_else(|| (stack, gathers(stack))));
        is
    });
    let gathered: Vec<usize> = gathered.collect();
    scene.block_bytes(&gathered) > bytes / 2
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::findings::scene::samples::found;
    use crate::findings::{Finding, Severity};
    use crate::model::{Annotation, DeviceId, Trace, TraceBuilder};

    const A: u64 = 0x7f00_0000_0000;
    const MIB: u64 = 1 << 20;
    const BLOCK: u64 = 384_562_176;
    const STEPS: u64 = A + (64 << 30);
    type Frames<'a> = &'a [(&'a str, u64, &'a str)];
    const MODEL: Frames = &[("model.py", 10, "init"), ("train.py", 5, "main")];
    const LAYER: Frames = &[("model.py", 50, "rrelu"), ("train.py", 20, "step"), ("train.py", 9, "main")];
    const INPUT: Frames = &[("train.py", 18, "step"), ("train.py", 9, "main")];
    const LOOP: Frames = &[("train.py", 11, "main")];

    fn kept(trace: &Trace) -> Vec<Finding> {
        found("kept-by-exception", trace, None)
    }

    fn model() -> TraceBuilder {
        let builder = TraceBuilder::new().segment_alloc(A, 512 << 30);
        builder.stack(MODEL).alloc(A, 3_364_003_328)
    }

    /// `count` blocks of the failing step, then the failure.
    fn fail(builder: TraceBuilder, stack: Frames, count: u64) -> TraceBuilder {
        let builder = builder.stack(INPUT).alloc(STEPS, MIB).stack(stack);
        let builder =
            (0..count).fold(builder, |builder, at| builder.alloc(STEPS + (at + 1) * 512 * MIB, BLOCK));
        builder.oom(1 << 30, 200 * MIB)
    }

    fn drop_all(builder: TraceBuilder, count: u64) -> TraceBuilder {
        let builder = builder.stack(LOOP).free(STEPS, MIB);
        (0..count).fold(builder, |builder, at| builder.free(STEPS + (at + 1) * 512 * MIB, BLOCK))
    }

    /// A step that works: an input, some scratch, nothing left.
    fn work(builder: TraceBuilder) -> TraceBuilder {
        let (input, scratch) = (A + (32 << 30), A + (33 << 30));
        let builder = builder.stack(INPUT).alloc(input, MIB).stack(LAYER).alloc(scratch, 64 * MIB);
        builder.free(scratch, 64 * MIB).stack(LOOP).free(input, MIB)
    }

    fn works(builder: TraceBuilder, times: u64) -> TraceBuilder {
        (0..times).fold(builder, |builder, _| work(builder))
    }

    /// A range of the given name over events `from..to`.
    fn annotate(trace: &mut Trace, name: &str, from: usize, to: usize) {
        let name = trace.strings.intern(name);
        let times = &trace.devices[0].events.times_us;
        for (begins, time_us) in [(true, times[from] - 1), (false, times[to - 1] + 1)] {
            trace.annotations.push(Annotation { name, begins, device: DeviceId(0), time_us });
        }
    }

    #[test]
    fn a_failed_step_that_outlives_two_more_is_kept() {
        let found = kept(&works(fail(works(model(), 2), LAYER, 8), 3).build());
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].severity, found[0].bytes), (Severity::Error, 8 * BLOCK + MIB));
        let evidence = &found[0].evidence;
        assert_eq!(
            (&evidence["later_rounds_lived"], &evidence["rounds_are"]),
            (&3.into(), &"attempts".into())
        );
        assert_eq!(evidence["kept_allocations"], 9, "neither the model nor what earlier steps did");
        assert_eq!((found[0].lines[0].line, found[0].lines[0].bytes), (50, 8 * BLOCK));
    }

    #[test]
    fn steps_say_where_the_failed_one_began() {
        let mut trace =
            works(fail(works(model(), 1).at("cache.py", 3, "fill").alloc(A + (8 << 30), BLOCK), LAYER, 8), 3)
                .build();
        let failed = 1 + 1 + 6 + 1;
        annotate(&mut trace, "step0", 2, 8);
        annotate(&mut trace, "step1", failed, failed + 10);
        for step in 0..3 {
            let begin = failed + 10 + 6 * step;
            annotate(&mut trace, &format!("step{}", step + 2), begin, begin + 6);
        }
        let found = kept(&trace);
        assert_eq!(
            (found[0].bytes, found[0].evidence["step_begins_at_event"].as_u64()),
            (8 * BLOCK + MIB, Some(failed as u64))
        );
        assert_eq!(
            (&found[0].evidence["later_rounds"], &found[0].evidence["rounds_are"]),
            (&3.into(), &"steps".into())
        );
    }

    #[test]
    fn an_oom_that_is_handled_well_is_none() {
        assert!(kept(&works(drop_all(fail(works(model(), 2), LAYER, 8), 8), 3).build()).is_empty());
        // Freed one step late: a local variable that was assigned again.
        let late = work(drop_all(work(fail(works(model(), 2), LAYER, 8)), 8));
        assert!(kept(&works(late, 2).build()).is_empty());
    }

    #[test]
    fn an_oom_at_the_end_or_one_step_before_says_nothing() {
        assert!(kept(&fail(works(model(), 2), LAYER, 8).build()).is_empty());
        assert!(kept(&works(fail(works(model(), 2), LAYER, 8), 1).build()).is_empty());
    }

    #[test]
    fn a_smaller_batch_with_activations_of_its_own_is_none() {
        let mut builder = drop_all(fail(works(model(), 2), LAYER, 8), 8);
        for turn in 0..3 {
            builder = builder.stack(INPUT).alloc(STEPS, MIB).stack(LAYER);
            builder = builder.alloc(STEPS + 512 * MIB, BLOCK / 2).alloc(STEPS + 1024 * MIB, BLOCK / 2);
            if turn < 2 {
                builder = builder.stack(LOOP).free(STEPS, MIB);
                builder = builder.free(STEPS + 512 * MIB, BLOCK / 2).free(STEPS + 1024 * MIB, BLOCK / 2);
            }
        }
        assert!(kept(&builder.build()).is_empty());
    }

    #[test]
    fn a_step_that_works_around_a_failed_request_is_none() {
        // The layer catches the error, does its work in slices, and the step goes on to its end.
        let mut builder = works(model(), 2);
        for _ in 0..3 {
            builder =
                fail(builder, LAYER, 2).alloc(STEPS + (8 << 30), 64 * MIB).free(STEPS + (8 << 30), 64 * MIB);
            builder = drop_all(builder, 2);
        }
        assert!(kept(&builder.build()).is_empty());
    }

    #[test]
    fn backward_stacks_are_named() {
        let found = kept(&works(fail(works(model(), 2), &[], 8), 3).build());
        assert_eq!(found[0].bytes, 8 * BLOCK + MIB);
        assert_eq!(found[0].evidence["kept_of_backward_bytes"], 8 * BLOCK);
        assert!(found[0].remedy.contains("backward pass"), "{}", found[0].remedy);
    }

    #[test]
    fn a_backward_pass_that_failed_without_any_frames_is_told_from_the_model() {
        let mut builder = model().stack(&[]);
        for at in 0..8 {
            builder = builder.segment_alloc(STEPS + (1 << 40) + at * 512 * MIB, 2 * MIB);
            builder = builder.alloc(STEPS + (at + 1) * 512 * MIB, BLOCK);
        }
        let mut trace = works(builder.oom(1 << 30, 200 * MIB), 3).build();
        annotate(&mut trace, "backward", 2, 19);
        for step in 0..3 {
            let begin = 19 + 6 * step;
            annotate(&mut trace, &format!("step{step}"), begin, begin + 6);
        }
        let found = kept(&trace);
        assert_eq!(
            (found[0].bytes, found[0].evidence["kept_of_backward_bytes"].as_u64()),
            (8 * BLOCK, Some(8 * BLOCK))
        );
        assert_eq!(found[0].evidence["later_rounds_lived"], 3);
    }

    #[test]
    fn a_loop_in_one_function_begins_anew_where_its_lines_jump_back() {
        let main = |line| [("model.py", 7, "layer"), ("train.py", line, "main")];
        let at = |builder: TraceBuilder, line| builder.stack(&main(line)[..]);
        let turn = |builder: TraceBuilder, address: u64| {
            at(at(builder, 20).alloc(address, BLOCK), 22).alloc(address + 512 * MIB, BLOCK)
        };
        let first = turn(at(model(), 8).alloc(A + (8 << 30), BLOCK), STEPS);
        let first =
            at(first, 30).alloc(A + (9 << 30), BLOCK).free(STEPS, BLOCK).free(STEPS + 512 * MIB, BLOCK);
        let mut builder = turn(first, STEPS).oom(1 << 30, 0);
        for index in 1..4 {
            builder = turn(builder, STEPS + (index << 30));
            builder = at(builder, 30).free(STEPS + (index << 30), BLOCK);
            builder = builder.free(STEPS + (index << 30) + 512 * MIB, BLOCK);
        }
        let found = kept(&builder.build());
        assert_eq!(found[0].bytes, 2 * BLOCK, "neither what was set up nor what the first turn kept");
    }

    #[test]
    fn gathered_parameters_are_named() {
        let gather: Frames = &[("_fsdp_param_group.py", 300, "unshard"), LAYER[1], LAYER[2]];
        let found = kept(&works(fail(works(model(), 2), gather, 8), 3).build());
        assert!(found[0].remedy.contains("FSDP"), "{}", found[0].remedy);
    }

    #[test]
    fn gradients_that_stay_by_choice_are_none() {
        let mut builder = works(model(), 2).stack(INPUT).alloc(STEPS, MIB).stack(&[]);
        builder = builder.alloc(STEPS + (1 << 30), 3_364_003_328).stack(LAYER).oom(1 << 30, 0);
        builder = builder.stack(LOOP).free(STEPS, MIB);
        assert!(kept(&works(builder, 3).build()).is_empty());
    }

    #[test]
    fn every_failed_step_that_is_kept_is_counted() {
        let mut builder = fail(works(model(), 2), LAYER, 2);
        for index in 0..4 {
            let at = A + ((128 + index) << 30);
            builder =
                builder.stack(INPUT).alloc(at, MIB).stack(LAYER).alloc(at + 512 * MIB, BLOCK).oom(1 << 30, 0);
        }
        let found = kept(&builder.build());
        // Only two attempts follow the third; the last two have too few after them.
        assert_eq!(found[0].evidence["failed_steps"], 3);
        assert_eq!(found[0].bytes, 4 * BLOCK + 3 * MIB);
    }
}
