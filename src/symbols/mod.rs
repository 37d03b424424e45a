//! Functions, files and lines of machine code: from a module and offsets in it, by the debug data of binaries.
//!
//! Owns where a binary is looked for, which file is taken for the one that ran, and reading it; the debug data
//! itself is read by the crates `addr2line`, `gimli` and `object`. Knows no trace and no report. Nothing is
//! fetched from a network, nothing of a binary is run.
//!
//! Trust: a *trace* may be hostile, and it names paths. So a file is opened only if it is a regular one, it must
//! be ELF, and its build id must be the recorded one; a module without a build id is taken from nowhere but where
//! the user pointed. What a binary names in its turn (debug links, split and supplementary debug files) is opened
//! under the same conditions or not at all. A *binary* may be damaged: sizes, depth of nesting, inlining and names
//! have bounds, and it is read on a thread of its own, whose panic is a fault of that file.

mod binary;
#[cfg(test)]
mod damage_tests;
mod guard;
mod lookup;
mod names;
mod outcome;
mod places;
mod sections;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::thread;

pub use outcome::{Detail, Found, Missing, Outcome, Why};
pub use places::Place;

use lookup::Answer;
use places::{Candidate, Shelves};

/// Stack of the thread that reads a binary, in bytes: `addr2line` recurses with inlined functions, and
/// [`guard`] bounds how deep.
const STACK: usize = 32 << 20;

/// One file of machine code, as a trace names it.
#[derive(Clone, Copy, Debug)]
pub struct Module<'a> {
    /// The file, as the dynamic linker named it on the machine of the recording.
    pub path: &'a str,
    /// The note `NT_GNU_BUILD_ID` in hexadecimal digits; empty if there was none.
    pub build_id: &'a str,
}

/// One function at one place of the source, as far as the debug data says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Its name, demangled, and cut where it is longer than 4 KiB.
    pub function: Option<String>,
    /// Its source file as the compiler was called with it, made complete by the compiler's folder.
    pub file: Option<String>,
    /// The line in that file, from 1.
    pub line: Option<u32>,
}

/// What is known of one module's offsets.
#[derive(Clone, Debug)]
pub struct Resolution {
    /// For every offset, in the order of the question: its frames, innermost (inlined) first, at most 64. Empty
    /// where nothing is known.
    pub frames: Vec<Vec<Frame>>,
    /// How it went.
    pub outcome: Outcome,
}

/// Where binaries are looked for, and what they say.
#[derive(Debug)]
pub struct Symbols {
    shelves: Shelves,
}

impl Symbols {
    /// Looks into `places`, the first one first.
    pub fn new(places: Vec<Place>) -> Self {
        Self { shelves: Shelves::new(places) }
    }

    /// Functions and lines of `offsets` in `module`.
    ///
    /// Offsets are *return addresses* as a trace records them, in virtual addresses of the file (address − bias):
    /// the instruction that is looked up is the one before, at offset − 1. They may come in any order and more
    /// than once. The binary is mapped for this call and let go at its end, so ask for all of a module at once.
    pub fn resolve(&mut self, module: &Module<'_>, offsets: &[u64]) -> Resolution {
        let mut probes: Vec<u64> = offsets.iter().filter_map(|offset| offset.checked_sub(1)).collect();
        probes.sort_unstable();
        probes.dedup();
        let (frames, outcome) = match self.search(module, &probes) {
            Ok((answer, found)) => (answer.frames, Outcome::Found(found)),
            Err(missing) => (Vec::new(), Outcome::Missing(missing)),
        };
        let of_offset = |offset: &u64| {
            let at = offset.checked_sub(1).and_then(|probe| probes.binary_search(&probe).ok());
            at.and_then(|at| frames.get(at)).cloned().unwrap_or_default()
        };
        Resolution { frames: offsets.iter().map(of_offset).collect(), outcome }
    }

    /// The best answer of all files that may be the module's: the first with lines, else the one that names
    /// most functions.
    fn search(&mut self, module: &Module<'_>, probes: &[u64]) -> Result<(Answer, Found), Missing> {
        let (candidates, refused) = self.shelves.candidates(module);
        let mut queue = VecDeque::from(candidates);
        let mut missing = Missing { why: refused, file: None };
        let mut best: Option<(Answer, Found)> = None;
        let mut seen = BTreeSet::new();
        while let Some(candidate) = queue.pop_front() {
            if !seen.insert(candidate.path.clone()) {
                continue;
            }
            match read(&candidate, module, probes) {
                Ok(mut answer) => {
                    if answer.detail < Detail::Lines
                        && let Some(link) = answer.debug_link.take()
                    {
                        queue.extend(self.shelves.linked(&candidate, &link));
                    }
                    let is_better = best.as_ref().is_none_or(|(known, _)| answer.rank() > known.rank());
                    if is_better {
                        let found = Found {
                            file: candidate.path,
                            detail: answer.detail,
                            is_checked: !module.build_id.is_empty(),
                            fault: answer.fault.take(),
                        };
                        best = Some((answer, found));
                    }
                    if best.as_ref().is_some_and(|(known, _)| known.detail == Detail::Lines) {
                        break;
                    }
                }
                Err(why) if candidate.counts(&why) && why.rank() > missing.why.rank() => {
                    missing = Missing { why, file: Some(candidate.path) };
                }
                Err(_) => {}
            }
        }
        best.ok_or(missing)
    }
}

/// Checks and reads one file, on a thread of its own.
fn read(candidate: &Candidate, module: &Module<'_>, probes: &[u64]) -> Result<Answer, Why> {
    on_own_thread(|| {
        let map = binary::map(&candidate.path)?;
        let file = binary::parse(&map)?;
        binary::check(&file, module.build_id)?;
        Ok(lookup::answer(&file, probes))
    })?
}

fn on_own_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, Why> {
    thread::scope(|scope| {
        let started = thread::Builder::new().name("symbols".to_owned()).stack_size(STACK);
        let started = started.spawn_scoped(scope, work);
        let thread = started.map_err(|error| Why::Unreadable(error.to_string()))?;
        thread.join().map_err(|_| Why::Damaged("its reader failed".to_owned()))
    })
}

/// The last part of `path`, if it is a plain name.
fn name_of(path: &str) -> Option<&Path> {
    Path::new(path).file_name().map(Path::new)
}
