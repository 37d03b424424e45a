//! Growth and reference cycles: real recordings of three leaks and of much that is none, and two thousand
//! generated ones.

use memlab::findings::{Check, Finding, Scene, States, rule};
use memlab::model::{Annotation, DeviceId, Trace, TraceBuilder};
use memlab::rebuild::rebuild;
use memlab::report::FindingRow;
use memlab::tables::{GroupBy, Grouping, steps};

use crate::inputs::{Seeded, analyzed, analyzed_path, testdata};

const MIB: u64 = 1 << 20;

fn findings(folder: &'static str, name: &str, rule: &str) -> Vec<FindingRow> {
    let report = match folder {
        "emitter" => &analyzed_path(&testdata("emitter").join(format!("{name}.msgpack"))).report,
        _ => &analyzed(folder, name).report,
    };
    report.findings.iter().filter(|finding| finding.rule == rule).cloned().collect()
}

fn the_one(folder: &'static str, name: &str, rule: &str) -> FindingRow {
    let mut found = findings(folder, name, rule);
    assert_eq!(found.len(), 1, "{folder}/{name}: {found:?}");
    found.remove(0)
}

fn figure(finding: &FindingRow, name: &str) -> f64 {
    finding.evidence[name].as_f64().unwrap_or_else(|| panic!("{name}: {:?}", finding.evidence))
}

#[test]
fn losses_kept_with_their_graph_grow_by_the_forward_pass() {
    for folder in ["torch", "emitter"] {
        let finding = the_one(folder, "leak_loss", "growth");
        assert_eq!(finding.severity, "error", "{finding:?}");
        assert_eq!(finding.evidence["slope_bytes_per_step"], 4_729_344, "{finding:?}");
        assert_eq!((finding.lines[0].line, finding.lines[1].line), (253, 252), "{:?}", finding.lines);
        assert!((figure(&finding, "steps") - 60.0).abs() < 1.5, "{finding:?}");
        assert!(figure(&finding, "slope_low_bytes_per_step") <= 4_729_344.0);
        assert!(figure(&finding, "p_value") < 1e-6);
    }
    let held = the_one("emitter", "leak_loss", "growth");
    assert_eq!(held.evidence["holders"][0]["path"], "autograd graph of local history[*] in leak_loss()");
    assert!(held.remedy.contains(".detach()"), "{}", held.remedy);
}

#[test]
fn a_cache_that_only_grows_keeps_every_second_feature() {
    for folder in ["torch", "emitter"] {
        let finding = the_one(folder, "leak_cache", "growth");
        assert_eq!((finding.severity, finding.lines[0].line), ("error", 275), "{finding:?}");
        assert_eq!(finding.bytes, 30 * 16 * MIB);
        assert!((figure(&finding, "blocks_per_step") - 0.5).abs() < 1e-9);
        let slope = figure(&finding, "slope_bytes_per_step");
        assert!((slope / (8.0 * MIB as f64) - 1.0).abs() < 0.02, "{slope}");
    }
    let held = the_one("emitter", "leak_cache", "growth");
    let path = held.evidence["holders"][0]["path"].as_str().unwrap();
    assert!(path.contains("CACHE.data[*]"), "{path}");
}

#[test]
fn blocks_in_cycles_wait_and_do_not_grow() {
    for folder in ["torch", "emitter"] {
        let finding = the_one(folder, "leak_cycle", "reference-cycle");
        assert_eq!(finding.lines[0].line, 295);
        assert_eq!((&finding.evidence["bursts"], &finding.evidence["blocks"]), (&2.into(), &60.into()));
        assert_eq!(finding.evidence["largest_burst_blocks"], 30);
        assert_eq!(finding.evidence["released_at"], "/workspace/scenarios.py:299 leak_cycle");
        assert_eq!(finding.evidence["waiting_at_end_bytes"], 83_886_080);
        assert_eq!(findings(folder, "leak_cycle", "growth").len(), 0);
    }
    let held = the_one("emitter", "leak_cycle", "reference-cycle");
    assert_eq!(held.evidence["in_cycles_blocks"], 20);
}

#[test]
fn c16_states_the_slope_to_the_byte() {
    let finding = the_one("cases", "C16_loss_kept", "growth");
    assert_eq!(finding.severity, "error");
    for name in ["slope_bytes_per_step", "slope_low_bytes_per_step", "slope_high_bytes_per_step"] {
        assert_eq!(finding.evidence[name], 24 * MIB, "{name}");
    }
    assert_eq!(finding.evidence["blocks_per_step"], 1);
    assert_eq!(finding.evidence["live_end_bytes"], 992 * MIB);
    let line = &finding.lines[0];
    assert_eq!((line.file.as_str(), line.line, line.bytes), ("runner.py", 55, 480 * MIB));
}

#[test]
fn c17_an_evaluation_that_gathers_its_results_grows() {
    let finding = the_one("cases", "C17_eval_concat", "growth");
    assert_eq!((finding.severity, finding.lines[0].line), ("warning", 88));
    assert_eq!(finding.evidence["slope_bytes_per_step"], 256 * MIB);
    assert_eq!((finding.bytes, &finding.evidence["live_end_bytes"]), (3_072 * MIB, &(4_096 * MIB).into()));
}

/// Whatever else they are, these are no leaks and hold no cycles.
#[test]
fn healthy_recordings_and_other_faults_do_not_grow() {
    let torch = [
        "annotated",
        "big",
        "cnn",
        "compiled",
        "gpt",
        "gpt_cpp",
        "kvcache.default",
        "llama",
        "noleak",
        "oom",
        "ring",
        "streams",
        "varlen.default",
        "varlen.expandable",
        "routed.default",
    ];
    let gpu = [
        "cache_flush_every_step",
        "capacity_oom",
        "fragmentation_oom",
        "graph_pools",
        "kept_by_exception",
        "lazy_optimizer",
        "logits_spike",
        "one_shot_stream",
        "resume_duplicate",
        "workspace_only",
    ];
    let cases = [
        "C07_comb_50MiB",
        "C10_spurious_oom_pending",
        "C14_kept_by_exception",
        "C20_cublas_workspace",
        "C21_checkpoint_kept",
        "C24_staircase_cache",
        "C26_one_shot_stream",
        "C37_kv_cat_growth",
        "C48_empty_cache_every_step",
        "C49_private_pools",
    ];
    let emitter = ["cnn", "expandable", "gpt", "oom", "uncaught"];
    let all: [(&str, &[&str]); 4] =
        [("torch", &torch), ("gpu", &gpu), ("cases", &cases), ("emitter", &emitter)];
    let mut wrong = Vec::new();
    for (folder, names) in all {
        for name in names {
            for rule in ["growth", "reference-cycle"] {
                wrong.extend(findings(folder, name, rule).into_iter().map(|finding| (*name, finding.title)));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn public_recordings_do_not_grow() {
    for path in crate::inputs::recordings("public") {
        let report = &analyzed_path(&path).report;
        let found: Vec<_> = (report.findings.iter())
            .filter(|finding| ["growth", "reference-cycle"].contains(&finding.rule.as_str()))
            .map(|finding| &finding.title)
            .collect();
        assert!(found.is_empty(), "{}: {found:?}", path.display());
    }
}

#[test]
fn of_a_thousand_programs_without_a_leak_at_most_ten_seem_to_leak() {
    let wrong: Vec<String> = over_seeds(1_000, |seed| {
        let found = found(&Program::new(seed).without_leak(), &["growth", "reference-cycle"]);
        found.into_iter().next().map(|finding| format!("seed {seed}: {}", finding.title))
    });
    assert!(wrong.len() <= 10, "{} of 1000: {wrong:#?}", wrong.len());
}

#[test]
fn of_a_thousand_programs_that_leak_a_block_per_step_at_least_990_are_found_on_the_right_line() {
    let missed: Vec<String> = over_seeds(1_000, |seed| {
        let mut program = Program::new(1_000_000 + seed);
        let leak = program.leaks_every(1);
        miss(&program, &leak)
    });
    assert!(missed.len() <= 10, "{} of 1000: {missed:#?}", missed.len());
}

#[test]
fn a_block_in_every_second_or_third_step_is_found_alike() {
    let missed: Vec<String> = over_seeds(200, |seed| {
        let mut program = Program::new(2_000_000 + seed);
        let leak = program.leaks_every(2 + seed % 2);
        miss(&program, &leak)
    });
    assert!(missed.len() <= 2, "{} of 200: {missed:#?}", missed.len());
}

fn miss(program: &Program, leak: &Leak) -> Option<String> {
    let found = found(&program.with(leak), &["growth"]);
    let seen = found.first().and_then(|finding| finding.lines.first()).map(|line| line.line);
    (seen != Some(LEAK)).then(|| {
        let title = found.first().map(|finding| finding.title.as_str());
        format!("seed {}, {} steps, {leak:?}: {title:?}", program.seed, program.steps)
    })
}

/// Runs `of` for many seeds, on two threads.
fn over_seeds(count: u64, of: impl Fn(u64) -> Option<String> + Sync) -> Vec<String> {
    let half = |from: u64| (from..count).step_by(2).filter_map(&of).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| half(1));
        let mut all = half(0);
        all.extend(other.join().expect("no test thread panics"));
        all
    })
}

/// What the rules called `names` find.
fn found(trace: &Trace, names: &[&str]) -> Vec<Finding> {
    let device = &trace.devices[0];
    let history = rebuild(trace, device);
    let lines = Grouping::build(trace, device, &history, GroupBy::Line);
    let steps = steps(trace, device, &history);
    let scene = Scene {
        trace,
        device,
        history: &history,
        lines: &lines,
        steps: &steps,
        ooms: &[],
        total_bytes: None,
        setting: None,
        states: States::default(),
    };
    let find = |name: &&str| match rule(name).unwrap().check {
        Check::Device(check) => check(&scene).unwrap(),
        _ => panic!("{name} is a rule over one device"),
    };
    names.iter().flat_map(find).collect()
}

/// The line that leaks.
const LEAK: u64 = 999;

/// A leak: one block of `bytes` in every `every`th step from `from` on.
#[derive(Debug)]
struct Leak {
    every: u64,
    from: u64,
    bytes: u64,
}

/// A program in the making. Everything follows from its seed.
struct Program {
    seed: u64,
    random: Seeded,
    steps: u64,
}

impl Program {
    fn new(seed: u64) -> Self {
        let mut random = Seeded(seed);
        let steps = 10 + random.below(51) as u64;
        Self { seed, random, steps }
    }

    fn without_leak(&self) -> Trace {
        self.with(&Leak { every: 1, from: u64::MAX, bytes: 0 })
    }

    /// Chooses a leak; a rarer one needs more steps.
    fn leaks_every(&mut self, every: u64) -> Leak {
        self.steps = self.steps.max(12 * every - 2);
        let from = if self.steps >= 12 * every { self.random.below(3) as u64 } else { 0 };
        let sizes = [512, 4_096, 65_536, MIB, 6 * MIB, 24 * MIB];
        Leak { every, from, bytes: sizes[self.random.below(sizes.len())] }
    }

    /// Runs it.
    fn with(&self, leak: &Leak) -> Trace {
        let mut run = Run::new(Seeded(self.seed ^ 0x5eed));
        let mut habits = Habits::new(self.steps, &mut run);
        for step in 0..self.steps {
            run.begin();
            habits.step(step, &mut run);
            if step >= leak.from && step % leak.every == 0 {
                run.alloc(LEAK, leak.bytes);
            }
            habits.end_of_step(step, &mut run);
            run.end(step);
        }
        if run.random.below(3) == 0 {
            run.tear_down();
        }
        run.trace()
    }
}

/// A block: line, address, bytes.
type Block = (u64, u64, u64);

/// A recording in the making: hands out addresses as an allocator with one segment per size would.
struct Run {
    random: Seeded,
    builder: TraceBuilder,
    events: i64,
    next: u64,
    free: std::collections::BTreeMap<u64, Vec<u64>>,
    live: std::collections::BTreeMap<u64, Block>,
    begun: i64,
    steps: Vec<(u64, i64, i64)>,
}

impl Run {
    fn new(random: Seeded) -> Self {
        let (free, live) = Default::default();
        let builder = TraceBuilder::new();
        Self { random, builder, events: 0, next: 0x7f00_0000_0000, free, live, begun: 0, steps: Vec::new() }
    }

    fn alloc(&mut self, line: u64, bytes: u64) -> Block {
        let size = bytes.next_multiple_of(2 * MIB);
        let mut builder = std::mem::take(&mut self.builder).at("train.py", line, "step");
        let address = self.free.get_mut(&size).and_then(Vec::pop).unwrap_or_else(|| {
            builder = std::mem::take(&mut builder).segment_alloc(self.next, size);
            self.events += 1;
            self.next += size;
            self.next - size
        });
        self.builder = builder.alloc(address, bytes);
        self.events += 1;
        self.live.insert(address, (line, address, bytes));
        (line, address, bytes)
    }

    fn free(&mut self, (line, address, bytes): Block) {
        self.builder = std::mem::take(&mut self.builder).at("train.py", line, "step").free(address, bytes);
        self.events += 2;
        self.live.remove(&address);
        self.free.entry(bytes.next_multiple_of(2 * MIB)).or_default().push(address);
    }

    fn begin(&mut self) {
        self.begun = self.events;
    }

    fn end(&mut self, step: u64) {
        self.steps.push((step, self.begun, self.events - 1));
    }

    fn tear_down(&mut self) {
        for block in self.live.values().copied().collect::<Vec<_>>() {
            self.free(block);
        }
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.random.below(100) < percent
    }

    fn trace(self) -> Trace {
        let mut trace = self.builder.build();
        for (step, begin, end) in self.steps {
            let name = trace.strings.intern(&format!("step{step}"));
            for (begins, event) in [(true, begin), (false, end)] {
                let time_us = 1_000_000 + event * 10;
                trace.annotations.push(Annotation { name, begins, device: DeviceId(0), time_us });
            }
        }
        trace
    }
}

/// What a program without a leak does with memory, step by step. A cache or warm-up is over after three
/// quarters of the steps at the latest: one that never ends cannot be told from a leak.
struct Habits {
    steps: u64,
    /// Batch size, correlated from step to step.
    batch: u64,
    carried: Vec<Block>,
    gradients: Vec<Block>,
    of_step: Vec<Block>,
    warm_up: u64,
    bounded: (usize, usize, usize),
    shapes: Vec<bool>,
    evicting: (usize, usize, bool),
    entries: Vec<Block>,
    noise: Vec<(u64, usize, u64)>,
    living: Vec<(u64, Block)>,
    evaluates_every: u64,
    best: Option<Block>,
    ahead: Vec<Block>,
    accumulates: u64,
}

impl Habits {
    fn new(steps: u64, run: &mut Run) -> Self {
        for layer in 0..6 {
            run.alloc(10, (1 + layer % 3) * 4 * MIB);
        }
        let full = steps * 3 / 4;
        let below = |limit: u64, run: &mut Run| run.random.below(limit.max(1) as usize) as u64;
        let fills = [100, 100, 80, 50][run.random.below(4)];
        let bound = 1 + below(full * fills as u64 * 8 / 1_000, run) as usize;
        let enters = [100, 70][run.random.below(2)];
        let most = 1 + below(full * enters as u64 * 8 / 1_000, run) as usize;
        let mut noise = Vec::new();
        for line in 700..704 {
            noise.push((line, [20, 50, 100, 200][run.random.below(4)], below(steps, run)));
        }
        Self {
            steps,
            batch: 32,
            carried: Vec::new(),
            gradients: Vec::new(),
            of_step: Vec::new(),
            warm_up: below(full, run),
            bounded: (bound, fills, 0),
            shapes: vec![false; 1 + below(steps / 4, run) as usize],
            evicting: (most, enters, run.chance(70)),
            entries: Vec::new(),
            living: Vec::new(),
            evaluates_every: 4 + below(7, run),
            best: None,
            ahead: Vec::new(),
            accumulates: 1 + below(4, run),
            noise,
        }
    }

    fn step(&mut self, step: u64, run: &mut Run) {
        self.batch = (self.batch * 3 + 1 + run.random.below(128) as u64) / 4;
        let batch = run.alloc(20, self.batch * 16_384);
        self.ahead.push(batch);
        if self.ahead.len() > 2 {
            self.carried.push(self.ahead.remove(0));
        }
        for layer in 0..4 {
            let block = run.alloc(30 + layer, self.batch * 65_536);
            self.of_step.push(block);
        }
        self.caches(step, run);
        self.noise(step, run);
        if step % self.evaluates_every == self.evaluates_every - 1 {
            let logits = run.alloc(60, 12 * MIB);
            let metric = run.alloc(61, 512);
            run.free(logits);
            self.best.replace(metric).into_iter().for_each(|old| run.free(old));
        }
    }

    fn caches(&mut self, step: u64, run: &mut Run) {
        if step < self.warm_up {
            run.alloc(40, 8 * MIB);
        }
        let (bound, fills, entries) = &mut self.bounded;
        if entries < bound && run.chance(*fills) {
            *entries += 1;
            run.alloc(41, 2 * MIB);
        }
        let shape = run.random.below(self.shapes.len());
        if !std::mem::replace(&mut self.shapes[shape], true) {
            run.alloc(42, 3 * MIB);
        }
        let (most, enters, is_oldest) = self.evicting;
        if run.chance(enters) {
            let bytes = self.batch * 8_192;
            self.entries.push(run.alloc(43, bytes));
            if self.entries.len() > most {
                let at = if is_oldest { 0 } else { run.random.below(self.entries.len()) };
                let block = self.entries.remove(at);
                run.free(block);
            }
        }
    }

    /// Blocks that live by chance, up to as long as the recording.
    fn noise(&mut self, step: u64, run: &mut Run) {
        for (line, rate, life) in self.noise.clone() {
            let blocks = rate / 100 + usize::from(run.chance(rate % 100));
            for _ in 0..blocks {
                let bytes = 512 << run.random.below(12);
                let block = run.alloc(line, bytes);
                // Two tosses: short lives are more frequent than long ones.
                let of = run.random.below(life as usize + 1);
                self.living.push((step + run.random.below(of + 1) as u64, block));
            }
        }
        let dead: Vec<_> =
            self.living.iter().filter(|(until, _)| *until <= step).map(|entry| entry.1).collect();
        self.living.retain(|(until, _)| *until > step);
        for block in dead {
            run.free(block);
        }
    }

    fn end_of_step(&mut self, step: u64, run: &mut Run) {
        if step.is_multiple_of(self.accumulates) {
            self.gradients.drain(..).for_each(|block| run.free(block));
            self.gradients = (0..6).map(|layer| run.alloc(50, (1 + layer % 3) * 4 * MIB)).collect();
        }
        while let Some(block) = self.of_step.pop() {
            run.free(block);
        }
        if step == 0 {
            for layer in 0..12 {
                run.alloc(51, (1 + layer % 3) * 4 * MIB);
            }
        }
        self.carried.drain(..).for_each(|block| run.free(block));
        debug_assert!(step < self.steps);
    }
}
