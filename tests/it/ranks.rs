//! Many ranks of one job: 64 made of real recordings, and a real pair. Their table is held against the single files.

use std::path::Path;
use std::sync::LazyLock;

use memlab::format::{self, WriteOptions};
use memlab::model::{Action, Event, Trace};
use serde_json::Value;

use crate::inputs::{read, recording, testdata};
use crate::sandbox::Sandbox;

const RANKS: u64 = 64;
/// The rank that keeps something in every step, and the two that run out of memory.
const LEAKS: u64 = 17;
const FAILS_FIRST: u64 = 42;
const FAILS_LATER: u64 = 3;
const MIB: u64 = 1 << 20;

/// What every rank but the odd ones recorded.
static USUAL: LazyLock<Trace> = LazyLock::new(|| read(&recording("torch", "gpt")));
static FAILS: LazyLock<Trace> = LazyLock::new(|| read(&recording("torch", "oom")));

/// The recording as another rank's: its clock and its addresses are elsewhere.
fn shifted(trace: &Trace, rank: u64, later_us: i64) -> Trace {
    let mut trace = trace.clone();
    trace.process.rank = Some(rank);
    trace.process.world_size = Some(RANKS);
    let far = rank << 40;
    for device in &mut trace.devices {
        for address in &mut device.events.addresses {
            *address += far;
        }
        for time in &mut device.events.times_us {
            *time += later_us;
        }
        for segment in device.segments.iter_mut().flatten() {
            segment.address += far;
            segment.blocks.iter_mut().for_each(|block| block.address += far);
        }
    }
    for annotation in &mut trace.annotations {
        annotation.time_us += later_us;
    }
    trace
}

/// `trace` with `count` blocks of 4 MiB that somebody keeps, allocated evenly over it where the largest allocation is.
fn with_leak(mut trace: Trace, count: usize) -> Trace {
    let device = &mut trace.devices[0];
    // The segments at the end are no longer what was recorded.
    device.segments = None;
    let old = std::mem::take(&mut device.events);
    let largest = (0..old.len())
        .filter(|&event| {
            old.actions[event] == Action::Alloc && !trace.stacks.get(old.stacks[event]).is_empty()
        })
        .max_by_key(|&event| old.sizes[event])
        .unwrap();
    let every = old.len() / count;
    for event in 0..old.len() {
        let row = old.get(event);
        if event > 0 && event % every == 0 && event / every <= count {
            let address = (1 << 60) + (event as u64) * 64 * MIB;
            let kept = Event { address, stack: old.stacks[largest], ..row };
            device.events.push(Event { action: Action::SegmentAlloc, size: 20 * MIB, ..kept });
            device.events.push(Event { action: Action::Alloc, size: 4 * MIB, ..kept });
        }
        device.events.push(row);
    }
    trace
}

/// The job in a folder, as traces. Their names say nothing about the rank: the recording does.
fn job() -> Sandbox {
    let sandbox = Sandbox::new();
    for rank in 0..RANKS {
        let later = rank as i64 * 1_000;
        let trace = match rank {
            LEAKS => with_leak(shifted(&USUAL, rank, later), 40),
            // A second apart, and later than their numbers say.
            FAILS_FIRST => shifted(&FAILS, rank, 1_000_000),
            FAILS_LATER => shifted(&FAILS, rank, 2_000_000),
            _ => shifted(&USUAL, rank, later),
        };
        save(&trace, &sandbox.path(&format!("mem-{rank}.msgpack")));
    }
    sandbox
}

fn save(trace: &Trace, path: &Path) {
    let mut bytes = Vec::new();
    format::write(trace, &WriteOptions::default(), &mut bytes).unwrap();
    std::fs::write(path, bytes).unwrap();
}

static JOB: LazyLock<Sandbox> = LazyLock::new(job);
static TOGETHER: LazyLock<Value> = LazyLock::new(|| JOB.run(&["analyze", ".", "--json"]).ends_with(0).json());

#[test]
fn the_table_has_the_figures_of_the_single_files() {
    let together = &TOGETHER["ranks"];
    assert_eq!((together["ranks"].as_u64(), together["is_one_job"].as_bool()), (Some(RANKS), Some(true)));
    let rows = together["rows"].as_array().unwrap();
    assert_eq!(rows.len() as u64, RANKS);
    let traces = TOGETHER["traces"].as_array().unwrap();
    let events: u64 = traces.iter().map(|trace| trace["events"].as_u64().unwrap()).sum();
    assert_eq!(together["events"], events, "events are the one sum over ranks");
    for (number, row) in rows.iter().enumerate() {
        assert_eq!(row["rank"], number);
        let trace = traces.iter().find(|trace| trace["path"] == row["path"]).unwrap();
        assert_row(row, trace);
        for severity in ["error", "warning", "info"] {
            let count = findings(trace).iter().filter(|found| found["severity"] == severity).count();
            assert_eq!(row["findings"][severity], count, "{}: {severity}", row["path"]);
        }
    }
    for rank in [0, LEAKS, FAILS_FIRST] {
        let path = rows[rank as usize]["path"].as_str().unwrap();
        let single = JOB.run(&["analyze", path, "--json"]).ends_with(0).json();
        let single = &single["traces"][0];
        assert_row(&rows[rank as usize], single);
        let trace = traces.iter().find(|trace| trace["path"] == path).unwrap();
        // Rules over ranks are not in a single file's report; everything else is.
        let mut own = findings(trace);
        own.retain(|found| found["rule"] != "rank-imbalance");
        assert_eq!(own, findings(single));
        assert_eq!(trace["devices"], single["devices"]);
    }
}

fn findings(trace: &Value) -> Vec<Value> {
    trace["findings"].as_array().unwrap().clone()
}

fn assert_row(row: &Value, trace: &Value) {
    let device =
        trace["devices"].as_array().unwrap().iter().find(|device| device["device"] == row["device"]).unwrap();
    let path = &row["path"];
    assert_eq!((&row["peak"], &row["end"]), (&device["peak"], &device["end"]), "{path}");
    assert_eq!((&row["events"], &row["complete"]), (&trace["events"], &trace["complete"]), "{path}");
    let at_peak = &device["fragmentation"]["at_peak"];
    let unused = at_peak["releasable_bytes"].as_u64().unwrap() + at_peak["stranded_bytes"].as_u64().unwrap();
    assert_eq!(row["unused_at_peak_bytes"], unused, "{path}");
    assert_eq!(row["steps"]["count"], device["steps"]["count"], "{path}");
    let peaks = device["steps"]["rows"].as_array().unwrap().iter();
    let highest = peaks.map(|step| step["peak_allocated_bytes"].as_u64().unwrap()).max();
    assert_eq!(row["steps"]["peak_max_bytes"].as_u64(), highest, "{path}");
    let oom = &device["ooms"][0];
    for key in ["event", "requested_bytes", "verdict", "line"] {
        assert_eq!(row["oom"][key], oom[key], "{path}: {key}");
    }
}

#[test]
fn the_rank_that_stands_apart_and_its_line_are_named() {
    let together = &TOGETHER["ranks"];
    let outlier =
        together["outliers"].as_array().unwrap().iter().find(|outlier| outlier["rank"] == LEAKS).unwrap();
    assert_eq!(outlier["counter"], "allocated");
    // The line of the leak, as the rank's own report has it, against the line as all others have it.
    let held = |rank: u64, line: &Value| -> u64 {
        let path = together["rows"][rank as usize]["path"].as_str().unwrap();
        let trace =
            TOGETHER["traces"].as_array().unwrap().iter().find(|trace| trace["path"] == path).unwrap();
        let lines = trace["devices"][0]["lines"].as_array().unwrap().iter();
        let found = lines.filter(|row| row["file"] == line["file"] && row["line"] == line["line"]);
        found.map(|row| row["held_at_peak_bytes"].as_u64().unwrap()).sum()
    };
    let line = &outlier["lines"][0];
    assert_eq!(line["bytes"], held(LEAKS, line));
    assert_eq!(line["median_bytes"], held(0, line));
    let difference = line["difference_bytes"].as_i64().unwrap();
    assert!(difference >= 20 * MIB as i64, "{outlier}");
    // Lines and what has none make up the difference.
    let usual = together["rows"][0]["peak"]["allocated_bytes"].as_u64().unwrap();
    assert_eq!(outlier["median_bytes"], usual);
    let peak = together["rows"][LEAKS as usize]["peak"]["allocated_bytes"].as_i64().unwrap();
    assert_eq!(outlier["difference_bytes"], peak - usual as i64);
    let usual_ranks = [0, 1, 63];
    let apart: Vec<_> =
        together["outliers"].as_array().unwrap().iter().map(|outlier| &outlier["rank"]).collect();
    assert!(usual_ranks.iter().all(|rank| !apart.iter().any(|apart| *apart == rank)), "{apart:?}");
}

#[test]
fn who_failed_first_is_named_by_time() {
    let failure = &TOGETHER["ranks"]["failure"];
    assert_eq!(
        (&failure["known_by"], &failure["first"]["rank"]),
        (&Value::from("time"), &Value::from(FAILS_FIRST))
    );
    assert_eq!(failure["ranks"][1]["rank"], FAILS_LATER);
    assert_eq!(failure["ranks"][1]["after_first_us"], 1_000_000);
    assert_eq!(failure["ranks"].as_array().unwrap().len(), 2);
    let sentence = failure["sentence"].as_str().unwrap();
    assert!(
        sentence.starts_with("Rank 42 ran out of memory first at ") && sentence.contains("1.000 s later")
    );
}

#[test]
fn the_screen_of_many_ranks_is_the_ranks_alone() {
    let run = JOB.run(&["analyze", "."]).ends_with(0);
    assert!(run.stdout.starts_with("64 ranks, ") && run.stdout.lines().count() <= 40, "{run:?}");
    for text in ["Rank 42 ran out of memory first", "Rank 17 has ", "44 more ranks"] {
        assert!(run.stdout.contains(text), "{text}: {run:?}");
    }
    assert!(run.stdout.lines().all(|line| line.chars().count() <= 100), "{run:?}");
}

#[test]
fn a_small_budget_changes_no_figure_and_is_said() {
    let words = ["analyze", "mem-[0-3].msgpack", "mem-17.msgpack", "--json"];
    let plain = JOB.run(&words).ends_with(0);
    let tight = JOB.run(&[&words[..], &["--memory-budget", "1MiB"]].concat()).ends_with(0);
    assert_eq!(plain.json(), tight.json());
    assert!(plain.stderr.is_empty(), "{plain:?}");
    assert_eq!(
        tight.stderr.matches("more than the budget of 1.0 MiB: it is read in pieces").count(),
        5,
        "{tight:?}"
    );
}

#[test]
fn a_real_pair_of_ranks_names_who_collects_for_all() {
    let sandbox = Sandbox::new();
    for rank in 0..2 {
        let name = format!("gathered_on_rank0.rank{rank}.pickle.gz");
        std::fs::copy(testdata("faults").join(&name), sandbox.path(&name)).unwrap();
    }
    let pair = sandbox.run(&["analyze", "*.gz", "--json"]).ends_with(0).json();
    let outlier = &pair["ranks"]["outliers"][0];
    assert_eq!((&outlier["rank"], &outlier["counter"]), (&Value::from(0), &Value::from("allocated")));
    assert_eq!(outlier["difference_bytes"], 768 * MIB);
    let lines: Vec<_> =
        outlier["lines"].as_array().unwrap().iter().map(|line| line["line"].as_u64()).collect();
    assert_eq!(lines, [Some(601), Some(598)]);
    // Each rank works on its own device: nothing is added up.
    assert_eq!(
        (&pair["ranks"]["rows"][0]["device"], &pair["ranks"]["rows"][1]["device"]),
        (&0.into(), &1.into())
    );
    assert_eq!(pair["ranks"]["failure"]["known_by"], "none");
}

#[test]
fn the_files_of_a_job_lie_beside_those_of_its_ranks() {
    let sandbox = Sandbox::new();
    for rank in 0..2 {
        let name = format!("gathered_on_rank0.rank{rank}.pickle.gz");
        std::fs::copy(testdata("faults").join(&name), sandbox.path(&name)).unwrap();
    }
    sandbox.run(&["analyze", ".", "-o", "out", "-q"]).ends_with(0);
    let written = |name: &str| sandbox.read(&format!("out/{name}"));
    assert!(written("ranks.md").contains("![Reserved bytes of all ranks](ranks.svg)"));
    assert!(written("ranks.html").contains("data:image/svg+xml;base64,"));
    assert!(written("ranks.svg").contains("rank 0: 1.7 GiB reserved at most"));
    let alone: Value = serde_json::from_str(&written("ranks.json")).unwrap();
    let printed = sandbox.run(&["analyze", ".", "--json"]).ends_with(0).json();
    assert_eq!(alone, printed["ranks"]);
    assert!(sandbox.path("out/gathered_on_rank0.rank1/report.html").exists());
    let again = sandbox.run(&["analyze", ".", "-o", "out"]).ends_with(2);
    assert!(again.stderr.contains("exists already"), "{again:?}");
}

#[test]
fn the_rank_can_be_read_from_anywhere_in_the_path() {
    let sandbox = Sandbox::new();
    for (node, name) in [("n7", "a.pickle"), ("n9", "a.pickle")] {
        std::fs::create_dir(sandbox.path(node)).unwrap();
        sandbox.put_snapshot(&format!("{node}/{name}"));
    }
    let none = sandbox.run(&["analyze", "*/a.pickle", "--json"]).ends_with(0);
    assert!(none.json()["ranks"].is_null(), "no rank is known");
    assert!(
        none.stderr.contains("warning: no table of ranks: 2 files have no rank: --rank-from"),
        "{none:?}"
    );
    let words = ["analyze", "*/a.pickle", "--json", "--rank-from", r"n(?P<rank>\d+)/"];
    let ranks = sandbox.run(&words).ends_with(0).json();
    let numbers: Vec<_> =
        ranks["ranks"]["rows"].as_array().unwrap().iter().map(|row| row["rank"].as_u64()).collect();
    assert_eq!(numbers, [Some(7), Some(9)]);
    let wrong = sandbox.run(&["analyze", "*/a.pickle", "--rank-from", r"rank(\d+)"]).ends_with(2);
    assert!(wrong.stderr.starts_with("error: --rank-from does not match n7/a.pickle\nhint: "), "{wrong:?}");
    let no_group = sandbox.run(&["analyze", "*/a.pickle", "--rank-from", "n."]).ends_with(2);
    assert!(no_group.stderr.contains("it has no group"), "{no_group:?}");
}

/// More files than are held at a time: their reports go where they belong as soon as each is made.
#[test]
fn reports_that_are_not_held_are_those_of_the_single_files() {
    // 16 ranks, each with its own report; rank 9 is told by the rules over all ranks.
    let sandbox = Sandbox::new();
    for rank in 0..16_u64 {
        let usual =
            if rank == 9 { with_large_rest(shifted(&USUAL, rank, 0)) } else { shifted(&USUAL, rank, 0) };
        save(&usual, &sandbox.path(&format!("mem-{rank}.msgpack")));
    }
    let words = ["analyze", ".", "--json"];
    let printed = sandbox.run(&words).ends_with(0);
    assert_eq!(printed.stdout, sandbox.run(&words).ends_with(0).stdout, "the same call gives the same bytes");
    let together = printed.json();
    sandbox.run(&["analyze", ".", "-o", "out", "-q"]).ends_with(0);
    let traces = together["traces"].as_array().unwrap();
    assert_eq!(traces.len(), 16);
    for (rank, trace) in traces.iter().enumerate() {
        let name = format!("mem-{rank}");
        assert_eq!(trace["path"], format!("./{name}.msgpack"), "in the order of the call");
        let written: Value = serde_json::from_str(&sandbox.read(&format!("out/{name}/report.json"))).unwrap();
        assert_eq!(&written["traces"][0], trace);
        let (page, markdown) = (format!("out/{name}/report.html"), format!("out/{name}/report.md"));
        let is_told = findings(trace).iter().any(|found| found["rule"] == "rank-imbalance");
        assert_eq!(is_told, rank == 9);
        for file in [page, markdown] {
            assert_eq!(sandbox.read(&file).contains("than the median of 16 ranks"), is_told, "{file}");
        }
    }
    // But for what is told of all ranks, a file's outputs are byte for byte those of a call with it alone.
    sandbox.run(&["analyze", "./mem-3.msgpack", "-o", "alone", "-q"]).ends_with(0);
    for name in ["report.html", "report.md", "report.json", "timeline.svg", "segments.svg"] {
        assert_eq!(
            sandbox.read(&format!("alone/{name}")),
            sandbox.read(&format!("out/mem-3/{name}")),
            "{name}"
        );
    }
    let single = sandbox.run(&["analyze", "./mem-3.msgpack", "--json"]).ends_with(0);
    let inner = single.stdout.split_once("\"traces\": [\n").unwrap().1.rsplit_once("\n  ]\n}").unwrap().0;
    assert!(printed.stdout.contains(inner));
    assert!(together["ranks"]["is_one_job"].as_bool().unwrap() && together["jobs"].is_null());
}

/// `trace` with a block of 2 GiB from the beginning to the end.
fn with_large_rest(mut trace: Trace) -> Trace {
    let device = &mut trace.devices[0];
    device.segments = None;
    let old = std::mem::take(&mut device.events);
    let kept = Event { address: 1 << 60, size: 2 << 30, ..old.get(0) };
    device.events.push(Event { action: Action::SegmentAlloc, ..kept });
    device.events.push(Event { action: Action::Alloc, ..kept });
    (0..old.len()).for_each(|event| device.events.push(old.get(event)));
    trace
}

#[test]
fn one_file_that_cannot_be_read_stops_no_other() {
    let sandbox = Sandbox::new();
    for rank in 0..10 {
        sandbox.put_snapshot(&format!("rank{rank}.pickle"));
    }
    sandbox.put("rank4.pickle", "no snapshot");
    let run = sandbox.run(&["analyze", ".", "--json", "-o", "out"]).ends_with(2);
    assert_eq!(run.stderr.matches("error: ").count(), 1, "{run:?}");
    let json = run.json();
    assert_eq!((json["traces"].as_array().unwrap().len(), &json["ranks"]["failed_files"]), (9, &1.into()));
    assert!(
        sandbox.path("out/rank5/report.html").exists() && !sandbox.path("out/rank4/report.html").exists()
    );
    // What exists is not replaced, and the others' files are not touched either.
    let again = sandbox.run(&["analyze", ".", "-o", "out"]).ends_with(2);
    assert!(again.stderr.contains("exists already"), "{again:?}");
}

/// Two jobs, one below the other.
fn two_jobs() -> Sandbox {
    let sandbox = Sandbox::new();
    for (folder, ranks) in [("run7", 2), ("run8", 2), ("run9", 1)] {
        std::fs::create_dir_all(sandbox.path(&format!("runs/{folder}"))).unwrap();
        for rank in 0..ranks {
            let name = format!("gathered_on_rank0.rank{rank}.pickle.gz");
            let to = sandbox.path(&format!("runs/{folder}/rank{rank}.pickle.gz"));
            std::fs::copy(testdata("faults").join(&name), to).unwrap();
        }
    }
    sandbox
}

#[test]
fn two_jobs_of_one_call_have_a_table_each_and_are_not_compared() {
    let sandbox = two_jobs();
    let both = sandbox.run(&["analyze", "runs", "--json"]).ends_with(0);
    assert!(both.stderr.contains("no table of ranks: 1 file is in no job"), "{both:?}");
    let both = both.json();
    assert!(both["ranks"].is_null());
    let jobs = both["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 2);
    for (job, name) in jobs.iter().zip(["run7", "run8"]) {
        assert_eq!((&job["job"], &job["ranks"], &job["is_one_job"]), (&name.into(), &2.into(), &true.into()));
        // As if the other jobs were not there.
        let mut alone = sandbox.run(&["analyze", &format!("runs/{name}"), "--json"]).ends_with(0).json();
        alone["ranks"]["job"] = name.into();
        assert_eq!(job, &alone["ranks"]);
    }
    let screen = sandbox.run(&["analyze", "runs"]).ends_with(0).stdout;
    assert!(screen.starts_with("run7: 2 ranks, ") && screen.contains("\nrun8: 2 ranks, "), "{screen}");
}

#[test]
fn each_job_has_files_of_its_own() {
    let sandbox = two_jobs();
    sandbox.run(&["analyze", "runs", "-o", "out", "-q"]).ends_with(0);
    for name in ["run7", "run8"] {
        let read = |ending: &str| sandbox.read(&format!("out/ranks-{name}.{ending}"));
        assert!(read("html").contains(&format!("<h1>All ranks of {name}</h1>")));
        assert!(read("md").starts_with(&format!("# CUDA memory of all ranks of {name}\n")));
        assert!(read("md").contains(&format!("](ranks-{name}.svg)")));
        assert!(read("svg").contains(&format!("Reserved memory of 2 ranks of {name}")));
        assert_eq!(serde_json::from_str::<Value>(&read("json")).unwrap()["job"], name);
    }
    assert!(!sandbox.path("out/ranks.html").exists());
    let again = sandbox.run(&["analyze", "runs", "-o", "out"]).ends_with(2);
    assert!(again.stderr.contains("exists already"), "{again:?}");
}
