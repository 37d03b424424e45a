//! A folder of its own and a program for each test.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use assert_cmd::cargo::CommandCargoExt as _;
use tempfile::TempDir;

/// An empty folder that disappears with the test.
pub(crate) struct Sandbox {
    folder: TempDir,
}

/// How a run ended, as text.
#[derive(Debug)]
pub(crate) struct Run {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A sandbox with a small snapshot in it, called `name`.
    pub(crate) fn with_snapshot(name: &str) -> Self {
        let sandbox = Self::new();
        sandbox.put_snapshot(name);
        sandbox
    }

    /// Copies the small snapshot here, as `name`.
    pub(crate) fn put_snapshot(&self, name: &str) {
        std::fs::copy(snapshot(), self.path(name)).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn put(&self, name: &str, content: &str) {
        std::fs::write(self.path(name), content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Names of all files below the folder, sorted.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        collect(self.folder.path(), self.folder.path(), &mut found);
        found.sort();
        found
    }

    /// The program, in this folder, without anything in the environment that changes its output.
    pub(crate) fn memlab(&self) -> Command {
        let mut command = Command::cargo_bin("memlab").unwrap();
        for name in ["NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "TERM"] {
            command.env_remove(name);
        }
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// Runs memlab with `arguments`.
    pub(crate) fn run(&self, arguments: &[impl AsRef<OsStr>]) -> Run {
        run(self.memlab().args(arguments))
    }
}

/// Runs a prepared command to its end.
pub(crate) fn run(command: &mut Command) -> Run {
    let Output { status, stdout, stderr } = command.output().unwrap();
    Run {
        code: status.code(),
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
    }
}

impl Run {
    /// The only JSON value on stdout; anything beside it is a fault.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Fails the test unless the program ended with `code`.
    #[track_caller]
    pub(crate) fn ends_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }
}

/// A small real snapshot.
pub(crate) fn snapshot() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/torch/cnn.pickle")
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, found);
        } else {
            found.push(path.strip_prefix(root).unwrap().display().to_string());
        }
    }
}
