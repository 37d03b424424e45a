//! What the file says of the process and of how it was recorded.
//!
//! Owns the process chunk, `other.driver` in it. Does not find out any of it.

use std::path::Path;

use crate::budget;
use crate::hook::Hook;
use crate::output::WRITER;
use crate::own_time::Sums;
use crate::packer::MapPacker;
use crate::wire::{Chunk, Kind};

/// What is learned while the recording runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// How calls are seen.
    pub(crate) hook: Hook,
    /// How Python's frames are found; `None` where there is no interpreter, or nobody asked.
    pub(crate) python: Option<String>,
    /// Calls whose Python frames could not be read.
    pub(crate) python_unread: u64,
    /// Where readings come from, or why there are none; `None` while none was tried.
    pub(crate) readings: Option<String>,
    /// What the recorder has cost; `None` before the end.
    pub(crate) own_time: Option<Sums>,
}

impl Facts {
    /// Whether only figures differ that may change with every call.
    pub(crate) fn differ_in_counts_only(&self, other: &Self) -> bool {
        let counted = (self.python_unread > 0) == (other.python_unread > 0);
        counted && Self { python_unread: other.python_unread, ..self.clone() } == *other
    }
}

/// The chunk for process `pid`.
pub(crate) fn chunk(pid: i32, is_forked: bool, facts: &Facts) -> Chunk {
    let mut chunk = Chunk::with_cost(Kind::Process, 0, |_, bytes| budget::rows(bytes, budget::PLAIN_BYTE));
    for (key, name) in [("rank", "RANK"), ("local_rank", "LOCAL_RANK"), ("world_size", "WORLD_SIZE")] {
        if let Some(number) = std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok()) {
            chunk.entry(key).uint(number.into());
        }
    }
    chunk.entry("pid").uint(pid as u64);
    chunk.entry("writer").text(WRITER);
    chunk.entry("other").map(1).text("driver").raw(&driver(is_forked, facts));
    chunk
}

fn driver(is_forked: bool, facts: &Facts) -> Vec<u8> {
    let mut driver = MapPacker::default();
    driver.key("hook").text(facts.hook.name());
    if let Hook::Cupti { library, version } = &facts.hook {
        driver.key("library").text(&library.to_string_lossy());
        driver.uint("cupti_version", (*version).into());
    }
    if let Some(program) = std::env::current_exe().ok().as_deref().and_then(Path::file_name) {
        driver.key("program").text(&program.to_string_lossy());
    }
    // SAFETY: takes and touches nothing.
    driver.uint("parent", unsafe { libc::getppid() } as u64);
    driver.key("forked").bool(is_forked);
    if let Some(python) = &facts.python {
        driver.key("python").text(python);
    }
    if facts.python_unread > 0 {
        driver.uint("python_unread", facts.python_unread);
    }
    if let Some(readings) = &facts.readings {
        driver.key("readings").text(readings);
    }
    if let Some(Sums { own_ns, own_max_ns }) = facts.own_time {
        driver.uint("own_ns", own_ns).uint("own_max_ns", own_max_ns);
    }
    driver.into_bytes()
}
