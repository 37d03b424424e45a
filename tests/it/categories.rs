//! What every allocation is for and what the process was doing, held against what the programs said of
//! themselves.

use std::collections::BTreeMap;
use std::path::Path;

use memlab::model::{DeviceTrace, OptionalColumn, Trace};
use memlab::rebuild::{History, Moment, rebuild};
use memlab::tables::{self, Categories, Category, GroupBy, Grouping, Phase, Phases};
use serde_json::Value;

use crate::inputs::{analyzed, read, recording, recordings, testdata};

/// Everything that rests on one device of a trace.
struct Derived {
    history: History,
    phases: Phases,
    categories: Categories,
}

fn derived(trace: &Trace, device: &DeviceTrace) -> Derived {
    let history = rebuild(trace, device);
    let grouping = Grouping::build(trace, device, &history, GroupBy::Line);
    let phases = tables::phases(trace, device, &history, &grouping);
    let names = tables::names(trace, device, &history);
    let categories = tables::categories(trace, device, &history, &phases, names.as_ref());
    Derived { history, phases, categories }
}

fn of_recording(folder: &str, name: &str) -> Derived {
    let trace = &analyzed_trace(&recording(folder, name));
    derived(trace, &trace.devices[0])
}

fn analyzed_trace(path: &Path) -> &'static Trace {
    &crate::inputs::analyzed_path(path).trace
}

impl Derived {
    /// Bytes of blocks by category, of what is live at `moment`; categories that hold nothing are left out.
    fn blocks(&self, moment: Moment) -> BTreeMap<Category, u64> {
        let sums = self.categories.at(&self.history, moment);
        sums.iter().map(|(category, sum)| (category, sum.bytes)).filter(|&(_, bytes)| bytes > 0).collect()
    }

    /// Requested bytes by category, of what is live at the end.
    fn requested_at_end(&self) -> BTreeMap<Category, u64> {
        let rows = &self.history.allocations;
        let mut sums = BTreeMap::new();
        for row in (0..rows.len()).filter(|&row| rows.is_allocated_at(row, self.end())) {
            *sums.entry(self.categories.of(row)).or_default() += rows.requested_bytes[row];
        }
        sums
    }

    fn end(&self) -> Moment {
        Moment(self.history.events)
    }

    fn peak(&self) -> Moment {
        self.history.peaks.allocated.moment
    }

    fn runs(&self, phase: Phase) -> usize {
        self.phases.runs.iter().filter(|run| run.phase == phase).count()
    }
}

/// `(address, bytes, kind)` of `census` in the right values of a recording.
fn census(name: &str) -> Vec<(u64, u64, String)> {
    let text = std::fs::read_to_string(testdata("torch").join(format!("{name}.json"))).unwrap();
    let values: Value = serde_json::from_str(&text).unwrap();
    let row = |row: &Value| {
        (row[0].as_u64().unwrap(), row[1].as_u64().unwrap(), row[2].as_str().unwrap().to_owned())
    };
    values["census"].as_array().unwrap().iter().map(row).collect()
}

/// The census's kind, as a bare snapshot can tell it: buffers come and stay as parameters do.
fn expected(kind: &str) -> Category {
    match Category::from_kind(kind).unwrap() {
        Category::Buffer => Category::Parameter,
        category => category,
    }
}

#[test]
fn parameters_gradients_and_state_are_those_of_the_census() {
    for name in ["cnn", "gpt", "gpt_cpp", "llama", "ring"] {
        let mut right: BTreeMap<Category, u64> = BTreeMap::new();
        for (_, bytes, kind) in census(name) {
            *right.entry(expected(&kind)).or_default() += bytes;
        }
        let found = of_recording("torch", name).requested_at_end();
        for category in [Category::Parameter, Category::Gradient, Category::OptimizerState] {
            let sum = |sums: &BTreeMap<Category, u64>| sums.get(&category).copied().unwrap_or(0);
            let (found, right) = (sum(&found), sum(&right));
            let is_near = found.abs_diff(right) * 50 <= right;
            assert!(is_near, "{name}: {category:?}: {found} is not within 2 % of {right}");
        }
    }
}

#[test]
fn every_storage_of_the_census_has_its_category() {
    for name in ["cnn", "gpt", "gpt_cpp", "llama"] {
        let derived = of_recording("torch", name);
        let rows = &derived.history.allocations;
        let live: BTreeMap<u64, usize> = (0..rows.len())
            .filter(|&row| rows.is_allocated_at(row, derived.end()))
            .map(|row| (rows.addresses[row], row))
            .collect();
        for (address, _, kind) in census(name) {
            assert_eq!(derived.categories.of(live[&address]), expected(&kind), "{name}: {address:#x}");
        }
    }
}

fn emitted(name: &str) -> Trace {
    read(&testdata("emitter").join(format!("{name}.msgpack")))
}

#[test]
fn without_names_the_same_categories_are_derived() {
    let mut told: BTreeMap<Category, u64> = BTreeMap::new();
    for name in ["cnn", "gpt", "leak_cache", "leak_loss", "oom", "uncaught"] {
        let trace = emitted(name);
        let mut bare = trace.clone();
        (bare.tensors, bare.holders) = (Vec::new(), Vec::new());
        let derived = derived(&bare, &bare.devices[0]);
        let names = tables::names(&trace, &trace.devices[0], &derived.history).unwrap();
        for row in &names.tensors {
            let tensor = &trace.tensors[row.tensor];
            if let Some(category) = Category::from_kind(&tensor.kind) {
                assert_eq!(derived.categories.of(row.allocation), category, "{name}: {tensor:?}");
                *told.entry(category).or_default() += tensor.bytes;
            }
        }
    }
    let kinds: Vec<Category> = told.into_keys().collect();
    let all = [Category::Parameter, Category::Gradient, Category::OptimizerState, Category::Activation];
    assert_eq!(kinds, all, "the recordings name these kinds");
}

#[test]
fn frames_alone_tell_the_phases_that_the_emitter_marks() {
    for name in ["cnn", "gpt", "leak_cache", "leak_loss"] {
        let trace = emitted(name);
        let mut bare = trace.clone();
        (bare.marks, bare.annotations) = (Vec::new(), Vec::new());
        bare.devices[0].events.user_metadata = OptionalColumn::default();
        let (marked, plain) = (derived(&trace, &trace.devices[0]), derived(&bare, &bare.devices[0]));
        let events = trace.devices[0].events.len() as u64;
        let is_alike = |&event: &u64| marked.phases.of_event(event) == plain.phases.of_event(event);
        let alike = (0..events).filter(is_alike).count() as u64;
        assert!(alike * 100 >= events * 98, "{name}: {alike} of {events}");
    }
}

#[test]
fn frames_of_the_handle_pool_and_sizes_tell_the_same_workspaces() {
    // The same program, with Python's frames alone and with all.
    let (python, all) = (of_recording("torch", "gpt"), of_recording("torch", "gpt_cpp"));
    assert_eq!(python.blocks(python.peak()), all.blocks(all.peak()));
    assert_eq!(python.blocks(python.end())[&Category::Workspace], 65 << 20);
}

#[test]
fn phases_of_a_training_loop_take_turns() {
    let names =
        |derived: &Derived| -> Vec<&str> { derived.phases.runs.iter().map(|run| run.phase.name()).collect() };
    let step = ["forward", "backward", "optimizer"];
    for (name, steps) in
        [("cnn", 3), ("gpt", 4), ("llama", 3), ("annotated", 3), ("compiled", 3), ("varlen.default", 40)]
    {
        let mut expected = vec!["loading"];
        expected.extend(step.repeat(steps));
        expected.push("unknown");
        assert_eq!(names(&of_recording("torch", name)), expected, "{name}");
    }
    assert_eq!(names(&of_recording("torch", "ring"))[..4], ["optimizer", "forward", "backward", "optimizer"]);
    assert_eq!(of_recording("torch", "big").runs(Phase::Backward), 600);
}

#[test]
fn evaluation_is_told_from_training() {
    for name in ["vision.default", "vision.default_cap85", "vision.gc0.6_cap100", "vision.split64_cap85"] {
        let derived = of_recording("torch", name);
        let found =
            [Phase::Forward, Phase::Backward, Phase::Optimizer, Phase::Evaluation].map(|it| derived.runs(it));
        assert_eq!(found, [32, 32, 32, 4], "{name}: every ninth step evaluates");
    }
    for folder in ["torch", "gpu"] {
        for path in recordings(folder).iter().filter(|path| !path.to_string_lossy().contains("vision")) {
            let trace = analyzed_trace(path);
            let derived = derived(trace, &trace.devices[0]);
            assert_eq!(derived.runs(Phase::Evaluation), 0, "{}", path.display());
        }
    }
}

#[test]
fn evaluation_is_told_among_the_faults_and_their_healthy_look_alikes() {
    let evaluating = [("accumulation", 3), ("graph_in_eval", 1)];
    for path in recordings("faults") {
        let name = path.file_name().unwrap().to_string_lossy().replace(".pickle.gz", "");
        let expected = evaluating.iter().find(|row| row.0 == name).map_or(0, |row| row.1);
        let trace = analyzed_trace(&path);
        for device in &trace.devices {
            let derived = derived(trace, device);
            assert_eq!(derived.runs(Phase::Evaluation), expected, "{name}");
        }
    }
    for (name, passes) in [("two_optimizers", 24), ("accumulation", 48), ("lbfgs", 32), ("staged_model", 5)] {
        assert_eq!(of_recording("faults", name).runs(Phase::Backward), passes, "{name}");
    }
}

#[test]
fn categories_of_the_faults_are_what_their_programs_hold() {
    const MIB: u64 = 1 << 20;
    let at_peak = |name: &str| {
        let derived = of_recording("faults", name);
        let in_mib = |(category, bytes)| (category, bytes / MIB);
        derived.blocks(derived.peak()).into_iter().map(in_mib).collect::<BTreeMap<_, _>>()
    };
    let of = |found: &BTreeMap<Category, u64>, category| found.get(&category).copied().unwrap_or(0);
    // Parameters, gradients, state and, of each program, what else it holds.
    for (name, model, held) in [
        ("accumulation", [12, 12, 24], (Category::Temporary, 12)),
        ("adapters", [96, 0, 0], (Category::Activation, 12)),
        ("averaged_weights", [24, 12, 24], (Category::Temporary, 12)),
        ("benchmark_first_step", [3, 0, 0], (Category::Temporary, 2602)),
        ("checkpoint_blocks", [32, 4, 0], (Category::Activation, 64)),
        ("checkpoint_each_layer", [32, 0, 0], (Category::Activation, 256)),
        ("graph_in_eval", [24, 24, 0], (Category::Activation, 192)),
        ("models_in_cycles", [24, 24, 0], (Category::Input, 0)),
        ("oom_handled", [96, 0, 0], (Category::Input, 70)),
        ("ddp_buckets", [96, 96, 0], (Category::Unknown, 192)),
        ("static_cache_decoding", [8, 0, 0], (Category::Unknown, 64)),
        ("two_optimizers", [14, 14, 28], (Category::Input, 2)),
        ("staged_model", [12, 12, 24], (Category::Input, 2)),
    ] {
        let found = at_peak(name);
        let found_model =
            [Category::Parameter, Category::Gradient, Category::OptimizerState].map(|it| of(&found, it));
        assert_eq!(found_model, model, "{name}: {found:?}");
        assert_eq!(of(&found, held.0), held.1, "{name}: {found:?}");
    }
}

#[test]
fn an_oom_shows_what_memory_is_for_at_that_moment() {
    const MIB: u64 = 1 << 20;
    let at_oom = |derived: &Derived| derived.blocks(Moment(derived.history.ooms.last().unwrap().event));
    let oom = at_oom(&of_recording("torch", "oom"));
    assert!(oom[&Category::Activation] > 2300 * MIB && !oom.contains_key(&Category::Unknown), "{oom:?}");
    assert!(oom[&Category::OptimizerState].abs_diff(2 * oom[&Category::Parameter]) < 4 * MIB, "{oom:?}");
    let capacity = at_oom(&of_recording("gpu", "capacity_oom"));
    assert_eq!(capacity[&Category::Activation], 1024 * MIB);
    assert_eq!(capacity[&Category::Input], 256 * MIB, "the batch on which the first layer failed");
    let kept = at_oom(&of_recording("gpu", "kept_by_exception"));
    assert!(kept[&Category::Activation] > 1100 * MIB, "{kept:?}");
}

#[test]
fn optimizer_state_and_parameters_are_in_proportion() {
    let lazy = of_recording("gpu", "lazy_optimizer");
    let end = lazy.blocks(lazy.end());
    assert_eq!(end[&Category::Gradient], end[&Category::Parameter]);
    assert_eq!(end[&Category::OptimizerState], 2 * end[&Category::Parameter]);
    let late = of_recording("public", "training_starts_late");
    let end = late.requested_at_end();
    assert_eq!(end[&Category::Gradient] * 2, end[&Category::OptimizerState]);
    assert_eq!(end[&Category::Gradient], end[&Category::Parameter]);
}

#[test]
fn a_leak_of_the_forward_pass_is_activations() {
    for name in ["leak_loss", "leak_cache"] {
        let derived = of_recording("torch", name);
        let end = derived.blocks(derived.end());
        let most = end.iter().max_by_key(|(_, bytes)| **bytes).unwrap();
        assert_eq!(*most.0, Category::Activation, "{name}: {end:?}");
    }
}

#[test]
fn inference_has_neither_gradients_nor_state() {
    let kvcache = ["kvcache.default", "routed.default", "routed.expandable_cap90", "streams", "leak_cycle"];
    let public = ["inference", "forward_bf16", "lm_forward", "impossible_values", "one_event", "no_events"];
    let gpu = ["eval_concat", "workspace_only", "one_shot_stream", "fragmentation_oom", "graph_pools"];
    for (folder, names) in [("torch", &kvcache[..]), ("public", &public), ("gpu", &gpu)] {
        for name in names {
            let derived = of_recording(folder, name);
            for row in 0..derived.history.allocations.len() {
                let category = derived.categories.of(row);
                let is_training = matches!(category, Category::Gradient | Category::OptimizerState);
                assert!(!is_training, "{folder}/{name}: row {row} is {category:?}");
            }
        }
    }
    let kvcache = of_recording("torch", "kvcache.default");
    let peak = kvcache.blocks(kvcache.peak());
    assert_eq!(peak.keys().collect::<Vec<_>>(), [&Category::Workspace, &Category::Unknown], "not guessed");
}

#[test]
fn the_report_names_its_source_and_its_rule() {
    let table = &analyzed("torch", "cnn").report.devices[0].categories;
    assert_eq!(table.source, "derived");
    assert!(table.rule.starts_with("Derived from the phase"), "{}", table.rule);
    assert_eq!(table.rows.first().unwrap().category, "workspace");
    assert!(table.rows.iter().all(|row| row.named_at_peak_bytes == 0 && row.held_at_oom_bytes.is_none()));
    let named = crate::inputs::analyze(&emitted("gpt"));
    let table = &named.devices[0].categories;
    assert_eq!(table.source, "named");
    let parameter = table.rows.iter().find(|row| row.category == "parameter").unwrap();
    assert_eq!(parameter.named_at_peak_bytes, parameter.held_at_peak_bytes);
}
