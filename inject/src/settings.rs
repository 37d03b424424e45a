//! What the environment tells the recorder.
//!
//! Owns the names of the variables and the file name's placeholders. `memlab record` and `memlab run --driver` set
//! them.

use std::env;
use std::path::{Path, PathBuf};

/// The trace to write; `{pid}`, `{rank}` and `{local_rank}` are replaced.
const OUTPUT: &str = "MEMLAB_DRIVER_OUTPUT";
/// Which stacks: `all`, `native`, `python` or `none`.
const STACKS: &str = "MEMLAB_DRIVER_STACKS";
/// How calls are to be seen: `auto`, `cupti` or `preload`.
const HOOK: &str = "MEMLAB_DRIVER_HOOK";
/// Unix microseconds: a file from before is another recording's and is replaced.
const SINCE: &str = "MEMLAB_DRIVER_SINCE";
/// `1`: the end of a recording is said.
const SAY: &str = "MEMLAB_DRIVER_SAY";
/// The only libcupti to try.
pub(crate) const CUPTI: &str = "MEMLAB_CUPTI";

const DEFAULT_OUTPUT: &str = "memlab-driver-{pid}.msgpack";

/// See the module's text.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    output: String,
    /// Whether native stacks are taken.
    pub(crate) native: bool,
    /// Whether Python stacks are taken.
    pub(crate) python: bool,
    /// Files from before this moment, in Unix microseconds, are replaced.
    pub(crate) since_us: i64,
    /// Whether a file that is complete is named on stderr.
    pub(crate) says: bool,
}

impl Settings {
    pub(crate) fn from_environment() -> Self {
        let stacks = env::var(STACKS).unwrap_or_default();
        let takes = |one: &str| stacks.is_empty() || stacks == "all" || stacks == one;
        Self {
            output: env::var(OUTPUT)
                .ok()
                .filter(|path| !path.is_empty())
                .unwrap_or(DEFAULT_OUTPUT.to_owned()),
            native: takes("native"),
            python: takes("python"),
            since_us: env::var(SINCE).ok().and_then(|text| text.parse().ok()).unwrap_or(i64::MIN),
            says: env::var(SAY).is_ok_and(|text| text == "1"),
        }
    }

    /// The file of process `pid`, placeholders replaced.
    pub(crate) fn path(&self, pid: i32) -> PathBuf {
        let number = |name| env::var(name).ok().filter(|text| text.parse::<u32>().is_ok());
        let rank = number("RANK").unwrap_or("0".to_owned());
        let local_rank = number("LOCAL_RANK").unwrap_or("0".to_owned());
        let path = self.output.replace("{pid}", &pid.to_string());
        path.replace("{rank}", &rank).replace("{local_rank}", &local_rank).into()
    }
}

/// Whether calls are to be interposed without asking for CUPTI.
pub(crate) fn wants_preload() -> bool {
    env::var(HOOK).is_ok_and(|hook| hook == "preload")
}

/// `NAME.PID.msgpack` for `NAME.msgpack`.
pub(crate) fn with_pid(path: &Path, pid: i32) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{pid}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_further_process_has_its_id_before_the_extension() {
        assert_eq!(with_pid(Path::new("a/b.driver.msgpack"), 7), Path::new("a/b.driver.7.msgpack"));
        assert_eq!(with_pid(Path::new("b"), 7), Path::new("b.7"));
    }
}
