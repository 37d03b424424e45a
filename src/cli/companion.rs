//! The driver's calls that were recorded beside an allocator's events.
//!
//! Owns which file belongs to which by name: `job.driver.msgpack` to `job.msgpack`. Whether they are of one process, and
//! what is made of both, is `analysis`'.

use std::path::{Path, PathBuf};

use super::console::shown;
use crate::analysis;
use crate::import::{self, ReadOptions};
use crate::model::{Format, Trace};

/// What stands before the last dot of the file with the calls.
const MARK: &str = ".driver";

/// Where the driver's calls of the recording at `path` would be.
pub(crate) fn place(path: &Path) -> Option<PathBuf> {
    let (stem, ending) = (path.file_stem()?.to_str()?, path.extension()?.to_str()?);
    (!stem.ends_with(MARK)).then(|| path.with_file_name(format!("{stem}{MARK}.{ending}")))
}

/// The recording that the calls at `path` would belong to.
fn main_of(path: &Path) -> Option<PathBuf> {
    let (stem, ending) = (path.file_stem()?.to_str()?, path.extension()?.to_str()?);
    stem.strip_suffix(MARK).map(|stem| path.with_file_name(format!("{stem}.{ending}")))
}

/// Takes out what is read together with another of `paths`.
pub(crate) fn without_companions(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let known: std::collections::BTreeSet<PathBuf> = paths.iter().cloned().collect();
    let is_alone = |path: &PathBuf| main_of(path).is_none_or(|main| !known.contains(&main));
    paths.into_iter().filter(is_alone).collect()
}

/// Reads the driver's calls from beside `path` into `trace`, if there are any. What goes wrong is a warning of the trace:
/// the allocator's events are worth telling without.
pub(crate) fn add(path: &Path, trace: &mut Trace) {
    if trace.format != Format::MemlabTrace || trace.driver.is_some() || trace.reduced.is_some() {
        return;
    }
    let Some(beside) = place(path).filter(|beside| beside.is_file()) else { return };
    match import::read_path(&beside, &ReadOptions::default(), &|_, _| {}) {
        Ok(calls) => {
            if !analysis::join_calls(trace, calls) {
                trace.warnings.add("driver-calls-left-out", || {
                    format!(
                        "{} is of another process or of an earlier run, or has no driver calls: it is not read with this file",
                        shown(&beside)
                    )
                });
            }
        }
        Err(error) => trace.warnings.add("driver-calls-left-out", || {
            format!("the driver's calls in {} could not be read: {error}", shown(&beside))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_belong_together_both_ways() {
        let (main, calls) = (Path::new("/a/job.rank0.msgpack"), Path::new("/a/job.rank0.driver.msgpack"));
        assert_eq!(place(main).as_deref(), Some(calls));
        assert_eq!(main_of(calls).as_deref(), Some(main));
        assert_eq!((place(calls), main_of(main)), (None, None));
        assert_eq!(place(Path::new("-")), None);
    }

    #[test]
    fn calls_are_left_out_of_a_list_that_has_their_recording() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        let found = without_companions(paths(&["a.driver.msgpack", "a.msgpack", "b.driver.msgpack"]));
        assert_eq!(found, paths(&["a.msgpack", "b.driver.msgpack"]));
    }
}
