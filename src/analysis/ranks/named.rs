//! Who the files of one call are: the rank that a recording or a name says, and the folder that names the job.
//!
//! Owns how both are read off a path. Which files are one job is `findings::jobs`'.

use std::ops::Range;

use crate::findings::{DeviceFacts, RankFacts};
use crate::model::Trace;

/// What the job of a file is called whose path names no folder.
const UNNAMED_JOB: &str = "job";
/// What parts a path, whatever machine it is from.
const SEPARATORS: [char; 2] = ['/', '\\'];

/// The facts of the file called `path`.
pub(crate) fn facts(path: &str, trace: &Trace, devices: Vec<DeviceFacts>) -> RankFacts {
    let named = rank_in(path);
    let stated = trace.process.rank;
    RankFacts {
        path: path.to_owned(),
        job: job(path, named.as_ref().map(|(place, _)| place), stated),
        folder: job_folder(path).to_owned(),
        rank: stated.or(named.map(|(_, rank)| rank)),
        world_size: trace.process.world_size,
        devices,
    }
}

/// The folder that holds the ranks of the file's job, files or folders; empty where the path names none.
pub(in crate::analysis) fn job_folder(path: &str) -> &str {
    let folder_of = |path: &str| path.rfind(SEPARATORS).unwrap_or(0);
    let mut end = folder_of(path);
    if rank_in(path).is_some_and(|(place, _)| place.start < end) {
        end = folder_of(&path[..end]);
    }
    path[..end].trim_end_matches(SEPARATORS)
}

/// What the job of the file `path` is called unless it is said: the name of the folder that holds the ranks, files
/// or folders; `job` where the path names no folder.
#[must_use]
pub fn job_name(path: &str) -> String {
    let folder = job_folder(path);
    let name = folder.rfind(SEPARATORS).map_or(folder, |at| &folder[at + 1..]);
    if matches!(name, "" | "." | "..") { UNNAMED_JOB.to_owned() } else { name.to_owned() }
}

/// The rank that a path names, and where its digits stand: behind the word `rank` in the file's name, else in the
/// name of its folder, else behind `gpu`, `worker` or a lone `r` in the file's name. A number alone says nothing: it
/// may be a step.
pub(in crate::analysis) fn rank_in(path: &str) -> Option<(Range<usize>, u64)> {
    let name = path.rfind(SEPARATORS).map_or(0, |at| at + 1);
    let folder = path[..name].trim_end_matches(SEPARATORS);
    let folder_name = folder.rfind(SEPARATORS).map_or(0, |at| at + 1);
    let word = |from: usize, to: usize| number_behind(path, from..to, "rank");
    word(name, path.len()).or_else(|| word(folder_name, folder.len())).or_else(|| {
        ["gpu", "worker", "r"].iter().find_map(|word| number_behind(path, name..path.len(), word))
    })
}

/// The number behind `word` (and perhaps a separator) within `part` of `path`; the last such. The word begins
/// where a name or a part of one does; after a lone letter the number ends where a part does, too.
fn number_behind(path: &str, part: Range<usize>, word: &str) -> Option<(Range<usize>, u64)> {
    let text = path.get(part.clone())?.to_ascii_lowercase();
    let is_separator = |c: char| matches!(c, '_' | '-' | '.' | ' ' | '=');
    let mut found = None;
    for (at, _) in text.match_indices(word) {
        let begins =
            text[..at].chars().next_back().is_none_or(|c| !c.is_ascii_alphanumeric() || word.len() > 1);
        let behind = &text[at + word.len()..];
        let skipped = behind.len() - behind.strip_prefix(is_separator).unwrap_or(behind).len();
        let digits = behind[skipped..].bytes().take_while(u8::is_ascii_digit).count();
        let rest = behind[skipped + digits..].chars().next();
        let ends = word.len() > 1 || rest.is_none_or(is_separator);
        let start = part.start + at + word.len() + skipped;
        let Some(Ok(rank)) = path.get(start..start + digits).filter(|text| !text.is_empty()).map(str::parse)
        else {
            continue;
        };
        if begins && ends {
            found = Some((start..start + digits, rank));
        }
    }
    found
}

/// The path with its rank blotted out: what the files of one job have in common.
fn job(path: &str, named: Option<&Range<usize>>, stated: Option<u64>) -> String {
    let place = named.cloned().or_else(|| number(path, stated?));
    match place {
        Some(place) => format!("{}#{}", &path[..place.start], &path[place.end..]),
        None => path.to_owned(),
    }
}

/// Where the file's name has exactly this number.
fn number(path: &str, wanted: u64) -> Option<Range<usize>> {
    let name = path.rfind(SEPARATORS).map_or(0, |at| at + 1);
    let mut at = name;
    for part in path[name..].split_inclusive(|c: char| !c.is_ascii_digit()) {
        let digits = part.trim_end_matches(|c: char| !c.is_ascii_digit());
        if digits.parse() == Ok(wanted) {
            return Some(at..at + digits.len());
        }
        at += part.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_read_off_names() {
        for (path, rank) in [
            ("rank0.pickle", Some(0)),
            ("out/snapshot_rank_3.pickle.gz", Some(3)),
            ("iteration_10/rank12_memory_snapshot.pickle", Some(12)),
            ("out/gathered.rank1.pickle", Some(1)),
            ("mem-Rank=7.pickle", Some(7)),
            ("run/rank_5/snapshot.pickle", Some(5)),
            ("run\\rank_5\\snapshot.pickle", Some(5)),
            ("snapshot_r2.pickle", Some(2)),
            ("gpu3.pickle", Some(3)),
            ("mem_worker-11.msgpack", Some(11)),
            ("r-4_snapshot.pickle", Some(4)),
            ("snapshot_2.pickle", None),
            ("for2.pickle", None),
            ("year2024.pickle", None),
            ("snapshot_r2x.pickle", None),
            ("rank.pickle", None),
            ("rank99999999999999999999999.pickle", None),
            ("", None),
        ] {
            assert_eq!(rank_in(path).map(|(_, rank)| rank), rank, "{path}");
        }
    }

    #[test]
    fn files_of_one_job_differ_in_their_rank_only() {
        let job = |path, rank| facts(path, &with_rank(rank), Vec::new()).job;
        assert_eq!(job("a/rank0.pickle", None), job("a/rank12.pickle", None));
        assert_ne!(job("a/rank0.pickle", None), job("b/rank0.pickle", None));
        assert_eq!(job("a/run-0.msgpack", Some(0)), job("a/run-11.msgpack", Some(11)));
        assert_eq!(job("größe_rank1.pickle", None), "größe_rank#.pickle");
        assert_eq!(job("x.pickle", Some(3)), "x.pickle");
    }

    #[test]
    fn a_job_is_called_like_the_folder_that_holds_its_ranks() {
        for (path, job) in [
            ("run7/rank0.pickle", "run7"),
            ("out/run 7/snapshot_rank_3.pickle.gz", "run 7"),
            ("run7/rank_5/snapshot.pickle", "run7"),
            ("run7\\rank_5\\snapshot.pickle", "run7"),
            ("a//run7//rank0.pickle", "run7"),
            ("rank_5/snapshot.pickle", "job"),
            ("rank0.pickle", "job"),
            ("./rank0.pickle", "job"),
            ("../rank0.pickle", "job"),
            ("/rank0.pickle", "job"),
            ("größe/x.msgpack", "größe"),
            ("-", "job"),
            ("", "job"),
        ] {
            assert_eq!(job_name(path), job, "{path}");
        }
    }

    fn with_rank(rank: Option<u64>) -> Trace {
        let mut trace = Trace::default();
        trace.process.rank = rank;
        trace
    }

    #[test]
    fn what_the_recording_says_comes_first() {
        assert_eq!(facts("rank1.pickle", &with_rank(Some(6)), Vec::new()).rank, Some(6));
        assert_eq!(facts("rank1.pickle", &with_rank(None), Vec::new()).rank, Some(1));
    }
}
