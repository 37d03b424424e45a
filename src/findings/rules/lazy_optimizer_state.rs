//! `lazy-optimizer-state`: memory jumps in the first optimizer step, and that is how optimizers work.

use crate::error::Result;
use crate::findings::optimizer_state::OptimizerState;
use crate::findings::{Check, Finding, Guide, Rule, Scene, Severity};
use crate::rebuild::Moment;
use crate::tables;
use crate::units::Bytes;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "lazy-optimizer-state",
    heading: "The optimizer made its state in its first step",
    guide: Guide {
        says: "The optimizer allocated its state (Adam's two moments, SGD's momentum) inside its first `step()`. \
            The jump happens once. The first step, which ran without that state, says nothing about what later \
            steps need.",
        fires: "Allocations that were made inside an optimizer's `step` stay until nothing is asked for any more; \
            at least 90 % of these bytes appeared in the first two steps (without known steps: in the first \
            call); and they are 1, 2 or 3 times the parameters, within 10 %. Parameters are found by their \
            sizes: what was there before (before the first step, if that is enough), stays, and pairs with the state \
            one by one. Where sizes do not pair \
            but the sums do, the sums count. Further copies of the parameters that appear in the same step \
            (a shadow copy) are added to the factor.",
        why: "Adam keeps 2 values for each parameter, SGD with momentum 1, AMSGrad 3. The 10 % leave room for \
            step counters and for layers without state. State that is no multiple of the parameters is sharded, \
            quantized or something else, and then nothing is claimed.",
        needs: "Stacks with PyTorch's own frames, or memlab's recorder; without any frames, the annotations \
            `Optimizer.step#...`. The first step must be inside the recording.",
        is_not: "Not growth: it happens once. Not a leak: the state is needed as long as you train.",
        remedy: "Plan with the peak after the first step. If that does not fit, keep less state: an optimizer \
            with 8-bit or factored state, state sharded over the ranks (ZeRO, FSDP), or state on the host.",
    },
    check: Check::Device(find),
};

fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    Ok(OptimizerState::of(scene).map(|state| finding(scene, &state)).into_iter().collect())
}

fn finding(scene: &Scene<'_>, state: &OptimizerState) -> Finding {
    let all: Vec<usize> = state.rows.iter().chain(&state.shadows).copied().collect();
    let bytes = scene.block_bytes(&all);
    let requested = &scene.history.allocations.requested_bytes;
    let shadow_bytes = state.shadows.iter().fold(0, |sum: u64, &row| sum.saturating_add(requested[row]));
    let factor = ratio(state.state_bytes.saturating_add(shadow_bytes), state.parameter_bytes);
    let (before, after) = tables::peaks_around(scene.history, Moment(state.first), Moment::after(state.last));
    let what = if shadow_bytes == 0 { "optimizer state" } else { "optimizer state and a copy of the model" };
    let title = format!(
        "{} of {what} appeared in the first optimizer step, {factor:.1} times the {} of parameters",
        Bytes(bytes),
        Bytes(state.parameter_bytes)
    );
    let mut finding = Finding::new(&RULE, Severity::Info, scene.id(), bytes, title)
        .lines(scene.lines_of(&all))
        .evidence("state_bytes", state.state_bytes)
        .evidence("parameter_bytes", state.parameter_bytes)
        .evidence("factor", factor)
        .evidence("copies_per_parameter", state.copies)
        .evidence("allocations", all.len())
        .evidence("first_event", state.first)
        .evidence("last_event", state.last)
        .evidence("paired_by", if state.is_paired { "size of each tensor" } else { "sum of bytes" })
        .evidence("peak_before_bytes", before.bytes);
    if shadow_bytes > 0 {
        finding = finding.evidence("shadow_copy_bytes", shadow_bytes);
    }
    let steady = is_steady(scene, state).then_some(after.bytes);
    if let Some(bytes) = steady {
        finding = finding.evidence("steady_peak_bytes", bytes);
    }
    finding.remedy(remedy(before.bytes, steady))
}

/// Whether a step that had the state all along was recorded to its end; without steps, whether memory has
/// been as high as before since.
fn is_steady(scene: &Scene<'_>, state: &OptimizerState) -> bool {
    let steps = &scene.steps.rows;
    if steps.is_empty() {
        return scene.history.allocations.len() > state.rows.last().map_or(0, |&row| row + 1);
    }
    let ends_before_the_end = |end: Moment| end.0 < scene.history.events || scene.ooms.is_empty();
    steps
        .iter()
        .any(|step| step.begin.0 > state.last && step.end > step.begin && ends_before_the_end(step.end))
}

fn remedy(before: u64, steady: Option<u64>) -> String {
    let plan = match steady {
        Some(steady) => format!(
            "plan with the peak of the steps that have the state, {}, not with the {} before it was there",
            Bytes(steady),
            Bytes(before)
        ),
        None => format!(
            "the {} before the state was there are not what a step needs; record one more step to see its peak",
            Bytes(before)
        ),
    };
    format!(
        "Nothing is wrong: {plan}. If that does not fit, use an optimizer with less state (8-bit or factored), \
         shard its state over the ranks, or keep it on the host."
    )
}

/// `part / whole` to three decimals.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64 * 1000.0).round() / 1000.0 }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::findings::scene::samples::found;
    use crate::findings::{Finding, Severity};
    use crate::model::{Annotation, DeviceId, Trace, TraceBuilder};

    const A: u64 = 0x7f00_0000_0000;
    const MIB: u64 = 1 << 20;
    const STATE: u64 = A + 8 * 1024 * MIB;
    const INIT: (&str, u64, &str) = ("adam.py", 178, "_init_group");
    const WRAPPER: (&str, u64, &str) =
        ("/opt/venv/lib/python3.12/site-packages/torch/optim/optimizer.py", 533, "wrapper");
    const STEP: (&str, u64, &str) = ("train.py", 30, "step");

    fn state(trace: &Trace) -> Vec<Finding> {
        found("lazy-optimizer-state", trace, None)
    }

    /// A job of three steps over parameters of 96 and 32 MiB; `update` is called in the first.
    fn job(update: impl Fn(TraceBuilder) -> TraceBuilder) -> Trace {
        let mut builder = TraceBuilder::new().segment_alloc(A, 16 * 1024 * MIB).at("model.py", 10, "init");
        builder = builder.alloc(A, 96 * MIB).alloc(A + 96 * MIB, 32 * MIB);
        for step in 0..3 {
            let (gradient, other) = (A + 1024 * MIB, A + 2048 * MIB);
            builder = builder.stack(&[]).alloc(gradient, 96 * MIB).alloc(other, 32 * MIB);
            if step == 0 {
                builder = update(builder);
            }
            builder = builder.at("train.py", 40, "step").free(gradient, 96 * MIB).free(other, 32 * MIB);
        }
        builder.build()
    }

    /// One kind of state, at a line of its own, for both parameters.
    fn moment(builder: TraceBuilder, index: u64) -> TraceBuilder {
        let at = STATE + index * 256 * MIB;
        builder
            .stack(&[(INIT.0, INIT.1 + index, INIT.2), STEP])
            .alloc(at, 96 * MIB)
            .alloc(at + 96 * MIB, 32 * MIB)
    }

    /// Ranges called `step0`, `step1`, ... from the given times on.
    fn with_steps(mut trace: Trace, begins: &[i64]) -> Trace {
        for (index, &begin) in begins.iter().enumerate() {
            let name = trace.strings.intern(&format!("step{index}"));
            let end = begins.get(index + 1).map_or(9_000_000, |next| next - 1);
            for (begins, time_us) in [(true, begin), (false, end)] {
                trace.annotations.push(Annotation { name, begins, device: DeviceId(0), time_us });
            }
        }
        trace
    }

    #[test]
    fn adams_two_moments_are_twice_the_parameters() {
        let found = state(&job(|builder| moment(moment(builder, 0), 1)));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].severity, found[0].bytes), (Severity::Info, 256 * MIB));
        let evidence = &found[0].evidence;
        assert_eq!((&evidence["factor"], &evidence["parameter_bytes"]), (&2.0.into(), &(128 * MIB).into()));
        assert_eq!(evidence["peak_before_bytes"], 256 * MIB);
        assert_eq!(evidence["steady_peak_bytes"], 512 * MIB);
        assert_eq!((found[0].lines[0].file.as_str(), found[0].lines.len()), ("adam.py", 2));
    }

    #[test]
    fn momentum_is_once_and_amsgrad_three_times_the_parameters() {
        let factor = |trace: &Trace| state(trace)[0].evidence["factor"].as_f64().unwrap();
        assert!((factor(&job(|builder| moment(builder, 0))) - 1.0).abs() < 1e-9);
        assert!((factor(&job(|builder| moment(moment(moment(builder, 0), 1), 2))) - 3.0).abs() < 1e-9);
    }

    #[test]
    fn one_line_for_both_moments_pairs_by_counts() {
        let found = state(&job(|builder| {
            let builder =
                builder.stack(&[INIT, STEP]).alloc(STATE, 96 * MIB).alloc(STATE + 96 * MIB, 32 * MIB);
            builder.alloc(STATE + 256 * MIB, 96 * MIB).alloc(STATE + 512 * MIB, 32 * MIB)
        }));
        assert_eq!(found[0].evidence["factor"], 2.0);
        assert_eq!(found[0].evidence["paired_by"], "size of each tensor");
    }

    #[test]
    fn flat_state_pairs_by_its_sum_only() {
        let flat = |builder: TraceBuilder| builder.stack(&[("/home/me/flat.py", 3, "update"), WRAPPER, STEP]);
        let found = state(&job(|builder| flat(builder).alloc(STATE, 256 * MIB)));
        assert_eq!(
            (&found[0].evidence["factor"], &found[0].evidence["copies_per_parameter"]),
            (&2.0.into(), &2.into())
        );
        assert_eq!(found[0].evidence["paired_by"], "sum of bytes");
        // A shard of it is no multiple of what this rank holds.
        assert!(state(&job(|builder| flat(builder).alloc(STATE, 64 * MIB))).is_empty());
        assert!(state(&job(|builder| flat(builder).alloc(STATE, 192 * MIB))).is_empty());
    }

    #[test]
    fn a_shadow_copy_of_the_same_step_counts_too() {
        let trace = job(|builder| {
            let builder = moment(moment(builder, 0), 1).at("ema.py", 12, "update");
            builder.alloc(STATE + 1024 * MIB, 96 * MIB).alloc(STATE + 2048 * MIB, 32 * MIB)
        });
        // Steps begin at 1,000,025 us, after the two parameters.
        let found = state(&with_steps(trace, &[1_000_025, 1_000_155, 1_000_215]));
        assert_eq!(found[0].evidence["factor"], 3.0);
        assert_eq!(found[0].evidence["shadow_copy_bytes"], 128 * MIB);
    }

    #[test]
    fn state_that_is_given_back_or_grows_is_none() {
        let temporary =
            |builder: TraceBuilder| moment(builder, 0).free(STATE, 96 * MIB).free(STATE + 96 * MIB, 32 * MIB);
        assert!(state(&job(temporary)).is_empty());
        // History that is added at every step.
        let mut builder = TraceBuilder::new().segment_alloc(A, 16 * 1024 * MIB).at("model.py", 10, "init");
        builder = builder.alloc(A, 96 * MIB);
        for step in 1..8 {
            builder =
                builder.stack(&[("lbfgs.py", 440, "step"), STEP]).alloc(STATE + step * 128 * MIB, 96 * MIB);
            builder = builder.at("train.py", 40, "step").alloc(A + 1024 * MIB, MIB).free(A + 1024 * MIB, MIB);
        }
        assert!(state(&builder.build()).is_empty());
    }

    #[test]
    fn what_came_with_the_first_step_is_a_parameter_last() {
        // Gradients that stay, at a line that says nothing, and both moments at one line.
        let mut builder = TraceBuilder::new().segment_alloc(A, 16 * 1024 * MIB).at("model.py", 10, "init");
        builder = builder.alloc(A, 128 * MIB).at("train.py", 20, "step").alloc(A + 1024 * MIB, 128 * MIB);
        builder = builder.stack(&[INIT, STEP]).alloc(STATE, 128 * MIB).alloc(STATE + 128 * MIB, 128 * MIB);
        let trace = with_steps(builder.build(), &[1_000_015]);
        assert_eq!(state(&trace)[0].evidence["factor"], 2.0);
    }

    #[test]
    fn gradients_that_stay_are_no_parameters() {
        let mut builder = TraceBuilder::new().segment_alloc(A, 16 * 1024 * MIB).at("model.py", 10, "init");
        builder = builder.alloc(A, 96 * MIB).alloc(A + 96 * MIB, 32 * MIB).stack(&[]);
        builder = builder.alloc(A + 1024 * MIB, 96 * MIB).alloc(A + 2048 * MIB, 32 * MIB);
        let found = state(&moment(moment(builder, 0), 1).build());
        assert_eq!(found[0].evidence["parameter_bytes"], 128 * MIB);
        assert_eq!(found[0].evidence["factor"], 2.0);
    }
}
