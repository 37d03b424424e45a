//! `memlab export --partition`: many recordings as one dataset.

use std::fs;

use serde_json::Value;

use crate::sandbox::{Run, Sandbox};

const TABLES: [&str; 12] = [
    "allocations",
    "categories",
    "findings",
    "fragmentation",
    "lines",
    "ooms",
    "segments",
    "stacks",
    "step_lines",
    "steps",
    "trace",
    "usage",
];

/// Recordings of these ranks in `run7`.
fn with_ranks(ranks: &[u64]) -> Sandbox {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("run7")).unwrap();
    for rank in ranks {
        sandbox.put_snapshot(&format!("run7/rank{rank}.pickle"));
    }
    sandbox
}

fn export(sandbox: &Sandbox, words: &[&str]) -> Run {
    let words: Vec<_> = ["export", "--partition", "-o", "fleet"].iter().chain(words).collect();
    sandbox.run(&words)
}

fn manifest(sandbox: &Sandbox) -> Value {
    serde_json::from_str(&sandbox.read("fleet/_memlab.json")).unwrap()
}

fn ranks(manifest: &Value) -> Vec<(String, u64)> {
    let entry = |entry: &Value| (entry["job"].as_str().unwrap().to_owned(), entry["rank"].as_u64().unwrap());
    manifest["ranks"].as_array().unwrap().iter().map(entry).collect()
}

fn dataset_files(sandbox: &Sandbox) -> Vec<String> {
    sandbox.files().into_iter().filter(|name| name.starts_with("fleet/")).collect()
}

#[test]
fn every_rank_of_a_folder_has_its_tables_and_they_are_those_of_a_single_export() {
    let sandbox = with_ranks(&[0, 11]);
    let run = export(&sandbox, &["run7"]).ends_with(0);
    assert!(run.stdout.is_empty() && run.stderr.starts_with("Wrote fleet ("), "{run:?}");
    let of_rank = |rank| TABLES.map(|table| format!("fleet/job=run7/rank={rank}/{table}.parquet"));
    let expected: Vec<_> =
        ["fleet/_memlab.json".to_owned()].into_iter().chain(of_rank(0)).chain(of_rank(11)).collect();
    assert_eq!(dataset_files(&sandbox), expected);
    sandbox.run(&["export", "run7/rank0.pickle", "-o", "tables", "-q"]).ends_with(0);
    for table in TABLES {
        let single = fs::read(sandbox.path(&format!("tables/{table}.parquet"))).unwrap();
        let ours = fs::read(sandbox.path(&format!("fleet/job=run7/rank=11/{table}.parquet"))).unwrap();
        assert!(single == ours, "{table}");
    }
    let told = manifest(&sandbox);
    assert_eq!(ranks(&told), [("run7".to_owned(), 0), ("run7".to_owned(), 11)]);
    let entry = &told["ranks"][1];
    assert_eq!(
        (&entry["path"], &entry["folder"]),
        (&"run7/rank11.pickle".into(), &"job=run7/rank=11".into())
    );
    assert_eq!((entry["events"].as_u64(), entry["devices"][0].as_u64()), (Some(382), Some(0)));
    assert_eq!(entry["tables"].as_array().unwrap().len(), TABLES.len());
    assert_eq!((told["schema"].as_u64(), told["tables_schema"].as_u64()), (Some(1), Some(1)));
}

#[test]
fn a_file_that_fails_is_reported_and_the_others_go_on() {
    let sandbox = with_ranks(&[0, 2]);
    sandbox.put("run7/rank1.pickle", "not a trace");
    fs::copy(sandbox.path("run7/rank0.pickle"), sandbox.path("run7/whose.pickle")).unwrap();
    let run = export(&sandbox, &["run7"]).ends_with(2);
    assert!(run.stderr.contains("error: failed to read run7/rank1.pickle"), "{run:?}");
    assert!(run.stderr.contains("failed to export run7/whose.pickle: neither the recording"), "{run:?}");
    let told = manifest(&sandbox);
    assert_eq!(ranks(&told), [("run7".to_owned(), 0), ("run7".to_owned(), 2)]);
    let failed: Vec<_> = told["failed"].as_array().unwrap().iter().map(|entry| &entry["path"]).collect();
    assert_eq!(failed, ["run7/rank1.pickle", "run7/whose.pickle"]);
    assert!(told["failed"][0]["error"].as_str().unwrap().starts_with("failed to read"), "{told}");
    assert!(!sandbox.path("fleet/job=run7/rank=1").exists());
}

#[test]
fn where_nothing_can_be_read_nothing_is_left() {
    let sandbox = Sandbox::new();
    sandbox.put("rank1.pickle", "not a trace");
    export(&sandbox, &["rank1.pickle", "missing.pickle"]).ends_with(2);
    assert!(!sandbox.path("fleet").exists());
    fs::create_dir(sandbox.path("empty")).unwrap();
    let run = export(&sandbox, &["empty"]).ends_with(2);
    assert!(run.stderr.contains("there is no recording in empty"), "{run:?}");
    assert!(!sandbox.path("fleet").exists());
}

#[test]
fn ranks_are_added_but_replaced_only_by_force() {
    let sandbox = with_ranks(&[0, 1]);
    export(&sandbox, &["run7/rank0.pickle"]).ends_with(0);
    let run = export(&sandbox, &["run7"]).ends_with(2);
    assert!(run.stderr.contains("fleet/job=run7/rank=0 exists already\nhint: use --force"), "{run:?}");
    assert_eq!(ranks(&manifest(&sandbox)).len(), 2, "rank 1 is there all the same");
    sandbox.put("fleet/job=run7/rank=0/lines.parquet", "old");
    export(&sandbox, &["run7", "--force"]).ends_with(0);
    assert!(fs::read(sandbox.path("fleet/job=run7/rank=0/lines.parquet")).unwrap().starts_with(b"PAR1"));
    sandbox.put("fleet/job=run7/rank=0/thesis.txt", "precious");
    let run = export(&sandbox, &["run7/rank0.pickle", "--force"]).ends_with(2);
    assert!(run.stderr.contains("it holds thesis.txt"), "{run:?}");
    assert_eq!(sandbox.read("fleet/job=run7/rank=0/thesis.txt"), "precious");
    export(&sandbox, &["run7/rank0.pickle", "--job", "other job"]).ends_with(0);
    assert!(sandbox.path("fleet/job=other%20job/rank=0/lines.parquet").exists());
    let jobs = ["other job", "run7", "run7"];
    assert_eq!(ranks(&manifest(&sandbox)).iter().map(|(job, _)| job.as_str()).collect::<Vec<_>>(), jobs);
    assert!(
        fs::read_dir(sandbox.path("fleet"))
            .unwrap()
            .all(|entry| { !entry.unwrap().file_name().to_string_lossy().starts_with('.') })
    );
}

#[test]
fn of_two_files_of_one_rank_the_first_counts() {
    let sandbox = with_ranks(&[3]);
    sandbox.put_snapshot("run7/again_rank3.pickle");
    let run = export(&sandbox, &["run7/rank3.pickle", "run7/again_rank3.pickle"]).ends_with(2);
    let text = "run7/again_rank3.pickle is rank 3 of job run7, and so is run7/rank3.pickle";
    assert!(run.stderr.contains(text), "{run:?}");
    assert_eq!(manifest(&sandbox)["ranks"][0]["path"], "run7/rank3.pickle");
}

#[test]
fn the_same_files_give_the_same_bytes() {
    let sandbox = with_ranks(&[0, 1, 2, 3, 4]);
    let contents = |sandbox: &Sandbox| -> Vec<_> {
        dataset_files(sandbox)
            .into_iter()
            .map(|name| (fs::read(sandbox.path(&name)).unwrap(), name))
            .collect()
    };
    export(&sandbox, &["run7", "--table", "lines", "--table", "usage"]).ends_with(0);
    let first = contents(&sandbox);
    assert_eq!(first.len(), 11);
    fs::remove_dir_all(sandbox.path("fleet")).unwrap();
    export(&sandbox, &["run7", "--table", "lines", "--table", "usage"]).ends_with(0);
    assert!(first == contents(&sandbox));
}

#[test]
fn a_dataset_that_is_not_memlabs_is_left_alone() {
    let sandbox = with_ranks(&[0]);
    fs::create_dir(sandbox.path("fleet")).unwrap();
    sandbox.put("fleet/_memlab.json", "{}");
    let run = export(&sandbox, &["run7", "--force"]).ends_with(2);
    assert!(run.stderr.contains("is not memlab's, or is damaged"), "{run:?}");
    assert_eq!(sandbox.read("fleet/_memlab.json"), "{}");
}

#[test]
fn several_traces_without_a_dataset_are_refused() {
    let sandbox = with_ranks(&[0, 1]);
    let run = sandbox.run(&["export", "run7/rank0.pickle", "run7/rank1.pickle", "-o", "tables"]).ends_with(2);
    assert!(run.stderr.contains("one export is of one trace\nhint: add --partition"), "{run:?}");
    let run = sandbox.run(&["export", "run7/rank0.pickle", "-o", "tables", "--job", "x"]).ends_with(2);
    assert!(run.stderr.contains("--partition"), "{run:?}");
}
