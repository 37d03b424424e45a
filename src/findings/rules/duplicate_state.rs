//! `duplicate-state`: a copy of the model or of its state stays beside the original.

use crate::error::Result;
use crate::findings::duplicates::{self, Duplicate, Stayers};
use crate::findings::{Check, Finding, Guide, Rule, Scene, Severity};
use crate::tables;
use crate::units::{Bytes, Count};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "duplicate-state",
    heading: "A copy of the model or its state stays beside it",
    guide: Guide {
        says: "Two groups of allocations that stay are copies of each other, and it is known who made the second \
            one: a checkpoint that was loaded onto the GPU and is still referenced; the buckets in which \
            `DistributedDataParallel` sums gradients that exist beside them; or the half-precision copies of \
            weights that autocast keeps while its context is open.",
        fires: "**Loaded twice.** Allocations made by `torch.load`, safetensors or a distributed checkpoint stay \
            until nothing is asked for any more, although other allocations that stay have the same sizes, as \
            often: a group (all of them, or those of one line) of at least 2 tensors and 1 MiB whose sizes \
            the load has once to four times, within 10 %. The job must have gone on afterwards. What an \
            optimizer step, the backward pass or a deep copy made is not compared.\n\n\
            **Buckets.** Allocations of DDP's reducer stay, at least 1 MiB, and gradients of the same total \
            (within 10 %) are live beside them at the peak or at the end.\n\n\
            **Half-size copies.** Allocations made in the forward of layers, or by a cast, have half the size of \
            parameters, once for each; they cover at least 50 % of the parameters' bytes; and they outlive \
            their step: 2 steps began after the last of them, or their lines allocated 3 times as often again.",
        why: "Equal sizes alone prove nothing. Gradients, Adam's two moments and a shadow model have the sizes of \
            the parameters and are meant to be there. So evidence of who made the second group is asked for. \
            A checkpoint holds the model and up to three more of its size (two moments, a shadow copy), hence \
            four times; 10 % is room for buffers and counters.",
        needs: "Stacks with PyTorch's own frames, and a recording that goes on after the load. A recording that \
            ends before the checkpoint could be dropped shows it as kept.",
        is_not: "Not proof that nobody uses the copy: a recording shows allocations, not reads. A model that is \
            loaded beside a freshly made one of the same shape (a teacher, a reference model) looks the same. \
            When an optimizer takes over tensors of the checkpoint as its state, only the rest counts as \
            duplicate.",
        remedy: "Load checkpoints to the CPU (`map_location=\"cpu\"`) and delete them after `load_state_dict`. \
            Give DDP `gradient_as_bucket_view=True`. For autocast, open the context once per step or pass \
            `cache_enabled=False`.",
    },
    check: Check::Device(find),
};

fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    let stayers = Stayers::of(scene);
    let loaded = duplicates::loaded(scene, &stayers).map(|found| of_load(scene, &found));
    let buckets = duplicates::buckets(scene, &stayers).map(|found| of_buckets(scene, &found));
    let halves = duplicates::half_copies(scene, &stayers).map(|found| of_autocast(scene, &found));
    Ok([loaded, buckets, halves].into_iter().flatten().collect())
}

/// What all three say: bytes, lines, and the peak without the copies.
fn finding(scene: &Scene<'_>, found: &Duplicate, kind: &str, title: String) -> (Finding, u64) {
    let bytes = scene.block_bytes(&found.rows);
    let peak = scene.history.peaks.allocated.bytes;
    let without = peak_without(scene, &found.rows);
    let saved = peak.saturating_sub(without);
    let events = &scene.history.allocations.alloc_events;
    let finding = Finding::new(&RULE, Severity::Warning, scene.id(), bytes, title)
        .lines(scene.lines_of(&found.rows))
        .evidence("kind", kind)
        .evidence("duplicate_bytes", bytes)
        .evidence("duplicates", found.rows.len())
        .evidence("twin_bytes", scene.block_bytes(&found.twins))
        .evidence("first_event", found.rows.first().map(|&row| events[row]))
        .evidence("peak_bytes", peak)
        .evidence("peak_without_bytes", without)
        .evidence("peak_saved_bytes", saved);
    (finding, saved)
}

/// The peak of allocated bytes, had `rows` never been made.
fn peak_without(scene: &Scene<'_>, rows: &[usize]) -> u64 {
    let mut members = vec![0; scene.history.allocations.len()];
    for &row in rows {
        members[row] = 1;
    }
    tables::peaks_without(scene.history, &members, 1).first().map_or(0, |peak| peak.bytes)
}

fn of_load(scene: &Scene<'_>, found: &Duplicate) -> Finding {
    let (bytes, all) = (scene.block_bytes(&found.rows), scene.block_bytes(&found.group));
    let which = if bytes == all { "in".to_owned() } else { format!("of which {} have", Bytes(bytes)) };
    let title = format!(
        "A load left {} on the device, {which} the sizes of {} other allocations that stay",
        Bytes(all),
        Count(found.twins.len() as u64)
    );
    let (finding, saved) = finding(scene, found, "loaded", title);
    let mut remedy =
        "Load the checkpoint to the CPU (torch.load(..., map_location=\"cpu\")) and let go of it after \
        load_state_dict: del checkpoint, and no reference in an outer function or object."
            .to_owned();
    if saved > 0 {
        remedy = format!("{remedy} Without the copies the peak would be {} lower.", Bytes(saved));
    }
    if all > bytes {
        remedy.push_str(
            " The rest of what was loaded has no partner: it may be in use, as an optimizer takes over tensors \
             of a checkpoint that lie on its device.",
        );
    }
    finding.evidence("loaded_bytes", all).evidence("loaded_allocations", found.group.len()).remedy(remedy)
}

fn of_buckets(scene: &Scene<'_>, found: &Duplicate) -> Finding {
    let title = format!(
        "{} of gradient buckets stay beside {} of gradients that hold the same",
        Bytes(scene.block_bytes(&found.rows)),
        Bytes(scene.block_bytes(&found.twins))
    );
    let (finding, saved) = finding(scene, found, "gradient buckets", title);
    finding.remedy(format!(
        "Pass gradient_as_bucket_view=True to DistributedDataParallel: gradients become views into its buckets, \
         and the peak falls by up to {}.",
        Bytes(saved)
    ))
}

fn of_autocast(scene: &Scene<'_>, found: &Duplicate) -> Finding {
    let title = format!(
        "{} are half-size copies of {} parameters that outlive their step: autocast's cache of weights",
        Bytes(scene.block_bytes(&found.rows)),
        Count(found.rows.len() as u64)
    );
    let (finding, _) = finding(scene, found, "half-size copies", title);
    finding.remedy(
        "Autocast keeps a copy of each weight until its context ends. Open the context inside the loop, once for \
         each call of the model, pass cache_enabled=False, or convert the model itself to half precision for \
         inference.",
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::findings::scene::samples::found;
    use crate::findings::{Finding, Severity};
    use crate::model::TraceBuilder;

    const A: u64 = 0x7f00_0000_0000;
    const MIB: u64 = 1 << 20;
    const LINEAR: &str = "/opt/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py";
    const COPY: &str = "/usr/lib/python3.12/copy.py";
    type Frames<'a> = &'a [(&'a str, u64, &'a str)];
    const MODEL: Frames = &[("model.py", 10, "init")];
    const LOAD: Frames = &[("serialization.py", 1131, "load"), ("train.py", 157, "resume")];
    const STATE: Frames = &[("optimizer.py", 700, "load_state_dict"), ("train.py", 180, "resume")];

    /// A job in the making: addresses go up, 1 GiB apart where they matter to nobody.
    struct Job(TraceBuilder, u64);

    impl Job {
        fn new() -> Self {
            Self(TraceBuilder::new().segment_alloc(A, 256 << 30), A)
        }

        fn keep(mut self, stack: Frames, sizes: &[u64]) -> Self {
            self.0 = self.0.stack(stack);
            for &size in sizes {
                self.0 = self.0.alloc(self.1, size);
                self.1 += size.next_multiple_of(MIB);
            }
            self
        }

        fn scratch(mut self, stack: Frames, size: u64, times: u64) -> Self {
            self.0 = self.0.stack(stack);
            for _ in 0..times {
                self.0 = self.0.alloc(self.1, size).free(self.1, size);
            }
            self
        }

        fn found(self) -> Vec<Finding> {
            found("duplicate-state", &self.0.build(), None)
        }
    }

    const LAYERS: [u64; 4] = [40 * MIB, 20 * MIB, 20 * MIB, 4096];
    const BLOCK: Frames = &[("model.py", 50, "block")];
    const TRAIN: u64 = 512 * MIB;

    #[test]
    fn a_checkpoint_that_stays_is_a_duplicate_of_model_and_state() {
        let job = Job::new().keep(MODEL, &LAYERS);
        let job = (0..3).fold(job, |job, _| job.keep(LOAD, &LAYERS));
        let job = (0..2).fold(job, |job, _| job.keep(STATE, &LAYERS));
        let found = job.scratch(BLOCK, TRAIN, 4).found();
        let bytes: u64 = 3 * LAYERS.iter().sum::<u64>();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].severity, found[0].bytes), (Severity::Warning, bytes));
        let evidence = &found[0].evidence;
        assert!(found[0].title.contains("in the sizes of 12 other"), "{}", found[0].title);
        assert_eq!(evidence["peak_bytes"], 2 * bytes + TRAIN);
        assert_eq!(evidence["peak_without_bytes"], bytes + TRAIN);
        assert_eq!((evidence["loaded_bytes"].as_u64(), &evidence["duplicates"]), (Some(bytes), &12.into()));
        assert_eq!((found[0].lines[0].file.as_str(), found[0].lines[0].bytes), ("serialization.py", bytes));
    }

    #[test]
    fn what_an_optimizer_took_over_is_no_duplicate() {
        let job = Job::new().keep(MODEL, &LAYERS);
        let job = (0..3).fold(job, |job, _| job.keep(LOAD, &LAYERS).keep(LOAD, &[4]));
        let found = job.scratch(BLOCK, TRAIN, 4).found();
        assert_eq!(found[0].bytes, LAYERS.iter().sum::<u64>());
        assert!(found[0].title.contains("of which 80.0 MiB have the sizes of 4 other"), "{}", found[0].title);
        assert!(found[0].remedy.contains("no partner"), "{}", found[0].remedy);
    }

    #[test]
    fn a_checkpoint_that_is_dropped_or_becomes_the_model_is_none() {
        let mut dropped = Job::new().keep(MODEL, &LAYERS);
        let at = dropped.1;
        dropped = dropped.keep(LOAD, &[80 * MIB, 40 * MIB]);
        dropped.0 = dropped.0.free(at, 80 * MIB).free(at + 80 * MIB, 40 * MIB);
        assert!(dropped.scratch(BLOCK, TRAIN, 4).found().is_empty());
        let own = Job::new().keep(LOAD, &LAYERS).keep(&[], &LAYERS);
        assert!(own.scratch(BLOCK, TRAIN, 4).found().is_empty(), "gradients of a loaded model");
        let moments: Frames = &[("adam.py", 178, "_init_group"), ("train.py", 9, "step")];
        let own = Job::new().keep(LOAD, &LAYERS).keep(moments, &LAYERS).keep(moments, &LAYERS);
        assert!(own.scratch(BLOCK, TRAIN, 4).found().is_empty(), "Adam's moments of a loaded model");
        let shadow: Frames = &[(COPY, 10, "deepcopy"), ("train.py", 9, "main")];
        let own = Job::new().keep(LOAD, &LAYERS).keep(shadow, &LAYERS);
        assert!(own.scratch(BLOCK, TRAIN, 4).found().is_empty(), "a shadow copy of a loaded model");
    }

    #[test]
    fn equal_sizes_without_a_load_are_none() {
        let job = Job::new().keep(MODEL, &LAYERS).keep(&[("ema.py", 3, "init")], &LAYERS);
        assert!(job.keep(&[("cache.py", 7, "fill")], &LAYERS).scratch(BLOCK, TRAIN, 4).found().is_empty());
    }

    #[test]
    fn a_data_set_with_tensors_as_large_as_parameters_is_no_copy() {
        let data = vec![20 * MIB; 40];
        let job = Job::new().keep(MODEL, &LAYERS).keep(LOAD, &data);
        assert!(job.scratch(BLOCK, TRAIN, 4).found().is_empty());
    }

    #[test]
    fn nothing_is_said_before_the_job_goes_on() {
        assert!(Job::new().keep(MODEL, &LAYERS).keep(LOAD, &LAYERS).found().is_empty());
    }

    const REDUCER: Frames = &[("distributed.py", 1300, "_ddp_init_helper"), ("train.py", 20, "main")];

    #[test]
    fn buckets_beside_gradients_are_duplicates() {
        let (model, buckets) = ([16 * MIB; 8], [25 * MIB, 25 * MIB, 25 * MIB, 25 * MIB, 25 * MIB, 3 * MIB]);
        let ddp = || Job::new().keep(MODEL, &model).keep(REDUCER, &buckets);
        let found = ddp().keep(&[], &model).scratch(BLOCK, TRAIN, 2).found();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].bytes, found[0].evidence["twin_bytes"].as_u64()), (128 * MIB, Some(128 * MIB)));
        assert_eq!(found[0].evidence["peak_saved_bytes"], 128 * MIB);
        assert!(found[0].remedy.contains("gradient_as_bucket_view"));
        // Gradients that nobody is known to have made, and those that are freed in every step.
        let unknown: Frames = &[("train.py", 31, "step")];
        assert_eq!(ddp().keep(unknown, &model).scratch(BLOCK, TRAIN, 2).found().len(), 1);
        let mut passing = ddp();
        let at = passing.1;
        passing = passing.keep(&[], &model);
        passing.0 = (0..8).fold(passing.0, |job, index| job.free(at + index * 16 * MIB, 16 * MIB));
        assert_eq!(passing.scratch(BLOCK, MIB, 1).found().len(), 1);
    }

    #[test]
    fn buckets_that_are_the_gradients_are_none() {
        let model = [16 * MIB; 8];
        let views = Job::new().keep(MODEL, &model).keep(REDUCER, &[64 * MIB, 64 * MIB]);
        assert!(views.scratch(BLOCK, TRAIN, 2).found().is_empty());
    }

    const FORWARD: Frames = &[(LINEAR, 134, "forward"), ("infer.py", 12, "generate")];

    #[test]
    fn autocasts_cache_is_half_of_each_weight() {
        let (weights, halves) = ([64 * MIB; 24], [32 * MIB; 24]);
        let cached = Job::new().keep(MODEL, &weights).keep(FORWARD, &halves);
        let found = cached.scratch(FORWARD, MIB, 100).found();
        assert_eq!((found[0].bytes, &found[0].evidence["duplicates"]), (768 * MIB, &24.into()));
        assert_eq!(found[0].evidence["kind"], "half-size copies");
        // Within a step they are what mixed precision is.
        let fresh = Job::new().keep(MODEL, &weights).keep(FORWARD, &halves);
        assert!(fresh.scratch(FORWARD, MIB, 24).found().is_empty());
        // Graphs that are kept from step to step keep such copies many times over.
        let leaking = (0..9).fold(Job::new().keep(MODEL, &weights), |job, _| job.keep(FORWARD, &halves));
        assert!(leaking.scratch(FORWARD, MIB, 2000).found().is_empty());
        // A half-precision model beside its master weights is made by no layer's forward.
        let master = Job::new().keep(MODEL, &weights).keep(&[("train.py", 3, "main")], &halves);
        assert!(master.scratch(FORWARD, MIB, 100).found().is_empty());
    }
}
