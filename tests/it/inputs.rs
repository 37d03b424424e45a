//! Test inputs: where they lie, what they hold, and one shared analysis of each (in a debug build the large
//! ones take seconds, so every test module looks at the same result).

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, OnceLock};

use memlab::analysis::{self, Options};
use memlab::import::{self, ReadOptions};
use memlab::model::Trace;
use memlab::report::TraceReport;

/// The recordings that reach back to the process's first allocation and whose counters were read right
/// after the recording: everything about them must be exact.
pub(crate) const EXACT: [&str; 16] = [
    "cnn",
    "gpt",
    "gpt_cpp",
    "leak_loss",
    "leak_cache",
    "leak_cycle",
    "noleak",
    "streams",
    "annotated",
    "llama",
    "llama_ckpt",
    "compiled",
    "varlen.default",
    "varlen.expandable",
    "kvcache.default",
    "big",
];

/// Real recordings of faults, as far as their counters were read right after the recording.
pub(crate) const FAULTS: [&str; 10] = [
    "cache_flush_every_step",
    "eval_concat",
    "fragmentation_oom",
    "graph_pools",
    "kept_by_exception",
    "lazy_optimizer",
    "logits_spike",
    "one_shot_stream",
    "resume_duplicate",
    "workspace_only",
];

/// A trace with what memlab makes of it.
pub(crate) struct Analyzed {
    pub(crate) trace: Trace,
    pub(crate) report: TraceReport,
}

/// `testdata/RELATIVE`.
pub(crate) fn testdata(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(relative)
}

/// The recording `testdata/FOLDER/NAME`, whatever it is packed with.
pub(crate) fn recording(folder: &str, name: &str) -> PathBuf {
    [".pickle", ".pickle.gz", ".json", ".json.gz"]
        .iter()
        .map(|ending| testdata(folder).join(format!("{name}{ending}")))
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("no recording {folder}/{name} in testdata"))
}

/// Every recording in `testdata/FOLDER`, in order of their names.
pub(crate) fn recordings(folder: &str) -> Vec<PathBuf> {
    let is_input = |path: &PathBuf| {
        let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
        name.contains(".pickle") || folder == "cases"
    };
    let mut found: Vec<_> = std::fs::read_dir(testdata(folder))
        .expect("testdata is in the repository")
        .map(|entry| entry.expect("a readable folder").path())
        .filter(is_input)
        .collect();
    found.sort();
    assert!(!found.is_empty(), "testdata/{folder} holds no recordings");
    found
}

/// Reads a file that must be readable.
pub(crate) fn read(path: &Path) -> Trace {
    import::read_path(path, &ReadOptions::default(), &|_, _| {})
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The bytes of a file, unpacked if it is gzip.
pub(crate) fn unpacked(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).expect("a file in testdata");
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return bytes;
    }
    let mut out = Vec::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut out).expect("gzip in testdata is whole");
    out
}

/// The report on `trace` under default options.
pub(crate) fn analyze(trace: &Trace) -> TraceReport {
    analysis::analyze("trace", trace, &Options::default()).expect("a readable trace can be analyzed")
}

/// The shared analysis of `testdata/FOLDER/NAME`.
pub(crate) fn analyzed(folder: &'static str, name: &str) -> &'static Analyzed {
    analyzed_path(&recording(folder, name))
}

/// The shared analysis of the file at `path`.
pub(crate) fn analyzed_path(path: &Path) -> &'static Analyzed {
    static KNOWN: LazyLock<Mutex<BTreeMap<PathBuf, &'static OnceLock<Analyzed>>>> =
        LazyLock::new(Mutex::default);
    let cell = *KNOWN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .entry(path.to_owned())
        .or_insert_with(|| Box::leak(Box::default()));
    cell.get_or_init(|| {
        let trace = read(path);
        let report = analyze(&trace);
        Analyzed { trace, report }
    })
}

/// `stats` of `testdata/FOLDER/NAME.json`: what `torch.cuda.memory_stats()` said. `-1` (no limit) is left out.
pub(crate) fn counters(folder: &str, name: &str) -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(testdata(folder).join(format!("{name}.json"))).expect("right values");
    let values: serde_json::Value = serde_json::from_str(&text).expect("right values are JSON");
    let stats = values["stats"].as_object().expect("right values have `stats`");
    stats.iter().filter_map(|(key, value)| Some((key.clone(), value.as_u64()?))).collect()
}

/// A seeded generator (SplitMix64): the same numbers on every machine.
pub(crate) struct Seeded(pub(crate) u64);

impl Seeded {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit.max(1) as u64) as usize
    }
}
