//! Inputs of the benches: generated snapshots, or real ones where there is no Python.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use memlab::format::{self, WriteOptions};
use memlab::import::{self, ReadOptions};
use memlab::model::Trace;

/// A snapshot in memory, as pickle, as trace and read.
#[allow(dead_code, reason = "each bench uses its part")]
pub(crate) struct Input {
    /// For example `generated-500000`.
    pub(crate) name: String,
    /// The pickle's bytes.
    pub(crate) pickle: Vec<u8>,
    /// The same in memlab's format.
    pub(crate) trace: Vec<u8>,
    /// The same, read.
    pub(crate) read: Trace,
}

impl Input {
    fn new(name: String, pickle: Vec<u8>) -> Self {
        let read = import::read_bytes(&pickle, &ReadOptions::default()).expect("a whole snapshot");
        let mut trace = Vec::new();
        format::write(&read, &WriteOptions::default(), &mut trace).expect("memory takes every byte");
        Self { name, pickle, trace, read }
    }

    /// Number of events.
    pub(crate) fn events(&self) -> u64 {
        self.read.event_count() as u64
    }
}

/// `big` of testdata, a small and a medium generated snapshot.
pub(crate) fn inputs() -> Vec<Input> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut inputs: Vec<_> = [20_000, 500_000]
        .into_iter()
        .filter_map(|events| {
            Some(Input::new(format!("generated-{events}"), std::fs::read(generate(root, events)?).ok()?))
        })
        .collect();
    let packed = std::fs::File::open(root.join("testdata/torch/big.pickle.gz")).expect("testdata is there");
    let mut pickle = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut pickle).expect("gzip in testdata is whole");
    inputs.push(Input::new("big".to_owned(), pickle));
    inputs
}

/// A generated snapshot, made once; `None` where there is no Python.
fn generate(root: &Path, events: u64) -> Option<PathBuf> {
    let folder = root.join("target/bench-data");
    let path = folder.join(format!("generated-{events}.pickle"));
    if path.exists() {
        return Some(path);
    }
    std::fs::create_dir_all(&folder).ok()?;
    let program = root.join("testdata/generate.py");
    let made = Command::new("python3").arg(program).arg(events.to_string()).arg(&path).output().ok()?;
    made.status.success().then_some(path)
}
