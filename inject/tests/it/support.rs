//! Builds the stand-ins and the program, once, and runs programs under the recorder.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

use crate::trace::Trace;

/// Folder of the C sources.
pub(crate) fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/c")
}

/// A library of this package, as it was built for the tests.
pub(crate) fn library(name: &str) -> PathBuf {
    let exe = std::env::current_exe().expect("a path");
    let deps = exe.parent().expect("a folder");
    let found = [deps, deps.parent().expect("a folder")].map(|folder| folder.join(format!("lib{name}.so")));
    let newest = |path: &PathBuf| path.metadata().and_then(|meta| meta.modified()).ok();
    found.into_iter().filter(|path| path.is_file()).max_by_key(newest).expect("the library was built")
}

/// The folder with `libcuda.so.1`, `libcupti.so`, `libnvidia-ml.so.1`, `program` and `deny`.
pub(crate) fn built() -> &'static Path {
    static BUILT: OnceLock<TempDir> = OnceLock::new();
    let folder = BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let source = |name: &str| sources().join(name).to_string_lossy().into_owned();
        let shared = ["-g", "-O1", "-Wall", "-shared", "-fPIC", "-pthread", "-fasynchronous-unwind-tables"];
        cc(&[
            &shared[..],
            &["-Wl,-soname,libcuda.so.1", "-o", &at("libcuda.so.1"), &source("cuda.c"), "-ldl"],
        ]
        .concat());
        cc(&[&shared[..], &["-o", &at("libcupti.so"), &source("cupti.c"), "-ldl"]].concat());
        cc(&[&shared[..], &["-o", &at("plugin.so"), &source("plugin.c")]].concat());
        cc(&[
            &shared[..],
            &["-Wl,-soname,libnvidia-ml.so.1", "-o", &at("libnvidia-ml.so.1"), &source("nvml.c"), "-ldl"],
        ]
        .concat());
        cc(&["-Wall", "-o", &at("deny"), &source("deny.c")]);
        let program = ["-g", "-O1", "-Wall", "-fno-optimize-sibling-calls", "-pthread", "-o"];
        cc(&[&program[..], &[&at("program"), &source("program.c"), &at("libcuda.so.1"), "-ldl"]].concat());
        folder
    });
    folder.path()
}

fn cc(arguments: &[&str]) {
    let output = Command::new("cc").args(arguments).output().expect("cc runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// One run in a folder of its own.
pub(crate) struct Run {
    folder: TempDir,
}

impl Run {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    /// `program` with the stand-ins and the recorder around it.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env("LD_LIBRARY_PATH", built())
            .env("CUDA_INJECTION64_PATH", library("memlab_inject"))
            .env("MEMLAB_CUPTI", built().join("libcupti.so"))
            .env("MEMLAB_DRIVER_OUTPUT", self.path("t.msgpack"))
            .env("MEMLAB_DRIVER_SINCE", now_us().to_string())
            .env_remove("RANK")
            .env_remove("LD_PRELOAD");
        command
    }

    /// The stand-in's program.
    pub(crate) fn program(&self, what: &str) -> Command {
        let mut command = self.command(&built().join("program"));
        command.arg(what);
        command
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Names of the files that were written.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = self.folder.path().read_dir().expect("a folder");
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.expect("an entry").file_name().to_string_lossy().into_owned()
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }

    /// The trace of the first process.
    pub(crate) fn trace(&self) -> Trace {
        Trace::read(&self.path("t.msgpack"))
    }
}

fn now_us() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_micros()
}

/// Runs to the end; the recorder must have been silent.
pub(crate) fn quietly(mut command: Command) -> Output {
    let output = command.output().expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !stderr.contains("memlab"), "{}: {stderr}", output.status);
    output
}
