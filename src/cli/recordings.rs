//! From what was typed to recordings: folders and patterns that no shell expanded, and the rank in a path.
//!
//! Owns which files in and below a folder are recordings, the one rule of every command, and the order of what it finds:
//! names in the order of their numbers.
//! A path that names a file is taken as it is, whatever it is called.

use std::cmp::Ordering;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use regex::Regex;

use super::companion;
use super::console::shown;
use super::failure::refuse;
use super::names;
use super::pattern::{has_wildcards, matches};

/// Endings behind which a file may be packed.
const PACKED: [&str; 3] = ["gz", "zst", "zstd"];
/// How deep below a folder recordings are looked for.
const DEEPEST: usize = 4;
/// Paths that a pattern may stand for.
const MOST_PATHS: usize = 100_000;
/// Bytes of a JSON text that are looked at.
const SNIFFED: u64 = 4096;
/// Keys with which a snapshot may begin; other JSON beside recordings is none.
const SNAPSHOT_KEYS: [&str; 4] = ["segments", "device_traces", "allocator_settings", "external_annotations"];

/// The files that `typed` stands for: folders become the recordings in them, patterns the files that match. Driver calls that
/// were recorded beside one of them are read with it, and are no file of their own.
///
/// # Errors
/// A folder without a recording, a pattern that nothing matches, a folder that cannot be read.
pub(crate) fn expand(typed: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for path in typed {
        if path.is_dir() {
            paths.extend(of_folder(path)?);
        } else if !path.exists() && path.to_str().is_some_and(has_wildcards) {
            paths.extend(of_pattern(path)?);
        } else {
            paths.push(path.clone());
        }
    }
    Ok(companion::without_companions(paths))
}

/// The rank of each path, as `pattern` finds it.
///
/// # Errors
/// A path that does not match, or whose group is no number.
pub(crate) fn ranks(paths: &[PathBuf], pattern: &Regex) -> anyhow::Result<Vec<u64>> {
    paths.iter().map(|path| rank(path, pattern)).collect()
}

fn rank(path: &Path, pattern: &Regex) -> anyhow::Result<u64> {
    let text = path.to_string_lossy();
    let hint = format!("the pattern is {}", names::shell_word(pattern.as_str()));
    let Some(found) = pattern.captures(&text) else {
        return Err(refuse(format!("--rank-from does not match {}", shown(path)), hint));
    };
    let digits = found.name("rank").or_else(|| found.get(1)).map_or("", |group| group.as_str());
    digits.parse().map_err(|_| {
        let message = format!("--rank-from finds no number in {}, but `{digits}`", shown(path));
        refuse(message, hint)
    })
}

/// The recordings in `folder` and below.
fn of_folder(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    collect(folder, DEEPEST, &mut found)
        .with_context(|| format!("cannot look for recordings in {}", shown(folder)))?;
    found.sort_by(|a, b| by_numbers(a, b));
    if found.is_empty() {
        return Err(refuse(
            format!("there is no recording in {}", shown(folder)),
            "recordings end in .msgpack, .pickle, .pkl or .json, perhaps with .gz or .zst; others can be named",
        ));
    }
    Ok(found)
}

/// Hidden names are passed over. Links to files count as files; links to folders are not followed, since they may lead
/// round in a circle.
fn collect(folder: &Path, deeper: usize, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            if deeper > 0 {
                collect(&path, deeper - 1, found)?;
            }
        } else if is_recording(&path) {
            found.push(path);
        }
    }
    Ok(())
}

fn is_recording(path: &Path) -> bool {
    let ending = |path: &Path| path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    let mut inner = path.to_owned();
    let is_packed = ending(path).is_some_and(|ending| PACKED.contains(&ending.as_str()));
    if is_packed {
        inner.set_extension("");
    }
    let is_file = path.is_file();
    match ending(&inner).as_deref() {
        Some("msgpack" | "pickle" | "pkl") => is_file,
        // What is packed is looked into when it is read.
        Some("json") => is_file && (is_packed || is_snapshot_text(path)),
        _ => false,
    }
}

/// Whether a JSON text begins as a snapshot does.
fn is_snapshot_text(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(SNIFFED).read_to_end(&mut start));
    let text = String::from_utf8_lossy(&start);
    let first = text.trim_start_matches('\u{feff}').trim_start().strip_prefix('{').map(str::trim_start);
    let key = first.and_then(|rest| rest.strip_prefix('"')?.split('"').next());
    read.is_ok() && key.is_some_and(|key| SNAPSHOT_KEYS.contains(&key))
}

/// The files that a pattern stands for; each part of the path may have wildcards.
fn of_pattern(typed: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = vec![PathBuf::new()];
    for part in typed.components() {
        let text = part.as_os_str().to_string_lossy();
        if !has_wildcards(&text) {
            for path in &mut found {
                path.push(part);
            }
            continue;
        }
        let mut next = Vec::new();
        for folder in found {
            next.extend(matching(&folder, &text));
            if next.len() > MOST_PATHS {
                return Err(refuse(format!("{} stands for too many files", shown(typed)), "name a folder"));
            }
        }
        found = next;
    }
    found.retain(|path| path.is_file());
    found.sort_by(|a, b| by_numbers(a, b));
    if found.is_empty() {
        return Err(refuse(format!("no file matches {}", shown(typed)), "check the path and the pattern"));
    }
    Ok(found)
}

/// Entries of `folder` whose names match; hidden ones only where the pattern begins with a dot, as in a shell.
fn matching(folder: &Path, pattern: &str) -> Vec<PathBuf> {
    let place = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    // A folder that cannot be read has nothing that matches.
    let names = fs::read_dir(place)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok().map(|entry| entry.file_name()));
    names
        .filter(|name| {
            let name = name.to_string_lossy();
            (pattern.starts_with('.') || !name.starts_with('.')) && matches(pattern, &name)
        })
        .map(|name| folder.join(name))
        .collect()
}

/// Order of paths in which `rank2` comes before `rank10`.
fn by_numbers(a: &Path, b: &Path) -> Ordering {
    let (a, b) = (a.to_string_lossy(), b.to_string_lossy());
    keys(&a).cmp(&keys(&b)).then_with(|| a.cmp(&b))
}

/// Runs of digits by their length and digits, everything else as it is.
fn keys(text: &str) -> Vec<(usize, &str)> {
    let mut keys = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_digit = first.is_ascii_digit();
        let length = rest.find(|c: char| c.is_ascii_digit() != is_digit).unwrap_or(rest.len());
        let (part, behind) = rest.split_at(length);
        let part = if is_digit { part.trim_start_matches('0') } else { part };
        keys.push((if is_digit { part.len() + 1 } else { 0 }, part));
        rest = behind;
    }
    keys
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let names =
            ["rank10.pickle.gz", "rank2.msgpack", "rank_3/mem.pkl", "other/rank4.pickle", "notes.txt"];
        for name in
            names.into_iter().chain(["1/2/3/4/deep.pickle", "1/2/3/4/5/too_deep.pickle", ".git/x.pkl"])
        {
            put(name, "");
        }
        put("report.json", "{\n  \"schema\": 1, \"segments\": []}");
        put("snap5.json", "{\"segments\": [], \"device_traces\": []}");
        put(".hidden.pickle", "");
        folder
    }

    fn told(folder: &tempfile::TempDir, typed: &str) -> Vec<String> {
        let paths = expand(&[folder.path().join(typed)]).unwrap();
        let name = |path: &PathBuf| path.strip_prefix(folder.path()).unwrap().display().to_string();
        paths.iter().map(name).collect()
    }

    #[test]
    fn a_folder_stands_for_its_recordings_in_the_order_of_numbers() {
        let folder = folder();
        let all = [
            "1/2/3/4/deep.pickle",
            "other/rank4.pickle",
            "rank2.msgpack",
            "rank10.pickle.gz",
            "rank_3/mem.pkl",
            "snap5.json",
        ];
        assert_eq!(told(&folder, ""), all);
        let empty = tempfile::tempdir().unwrap();
        assert!(expand(&[empty.path().to_owned()]).unwrap_err().to_string().contains("no recording"));
    }

    #[test]
    #[cfg(unix)]
    fn a_circle_of_links_ends() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(folder.path(), folder.path().join("again")).unwrap();
        fs::write(folder.path().join("rank0.pickle"), "").unwrap();
        std::os::unix::fs::symlink("rank0.pickle", folder.path().join("rank1.pickle")).unwrap();
        assert_eq!(told(&folder, ""), ["rank0.pickle", "rank1.pickle"]);
    }

    #[test]
    fn a_pattern_stands_for_what_matches_and_a_path_for_itself() {
        let folder = folder();
        assert_eq!(told(&folder, "*.pickle*"), ["rank10.pickle.gz"]);
        assert_eq!(told(&folder, "rank[0-9].*"), ["rank2.msgpack"]);
        assert_eq!(told(&folder, "*/rank?.pickle"), ["other/rank4.pickle"]);
        assert_eq!(told(&folder, "notes.txt"), ["notes.txt"]);
        assert_eq!(told(&folder, "missing.pickle"), ["missing.pickle"], "reading says that it is missing");
        assert!(expand(&[folder.path().join("x*")]).unwrap_err().to_string().contains("no file matches"));
        assert_eq!(expand(&["-".into()]).unwrap(), [PathBuf::from("-")]);
    }

    #[test]
    fn the_rank_is_where_the_pattern_says() {
        let of = |path: &str, pattern: &str| rank(Path::new(path), &Regex::new(pattern).unwrap());
        assert_eq!(of("a/node3_gpu2.pickle", r"gpu(\d+)").unwrap(), 2);
        assert_eq!(of("a/node3_gpu2.pickle", r"node(\d+)_gpu(?P<rank>\d+)").unwrap(), 2);
        assert!(of("a/x.pickle", r"gpu(\d+)").unwrap_err().to_string().contains("does not match a/x.pickle"));
        assert!(of("a/gpux.pickle", "gpu(.)").unwrap_err().to_string().contains("but `x`"));
    }
}
