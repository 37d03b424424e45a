//! Which files are meant: those named, and the recordings below folders that are named.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::cli::console::shown;
use crate::cli::failure::refuse;

/// How deep below a folder recordings are looked for.
const DEEPEST: usize = 4;
/// Endings of recordings in a folder. JSON is left out: reports and right values end so, too.
const ENDINGS: [&str; 7] =
    [".msgpack", ".pickle", ".pkl", ".pickle.gz", ".pkl.gz", ".pickle.zst", ".pkl.zst"];

/// The files, in the order of the arguments; those of a folder sorted by name.
pub(super) fn files(given: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in given {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let before = files.len();
        collect(path, DEEPEST, &mut files)
            .with_context(|| format!("cannot look for recordings in {}", shown(path)))?;
        if files.len() == before {
            let message = format!("there is no recording in {}", shown(path));
            return Err(refuse(
                message,
                format!("in a folder, files that end in {} are", ENDINGS.join(", ")),
            ));
        }
    }
    Ok(files)
}

/// Links to files count as files; links to folders are not followed, since they may lead round in a circle.
fn collect(folder: &Path, deeper: usize, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if name.starts_with('.') {
            continue;
        }
        if entry.file_type()?.is_dir() {
            if deeper > 0 {
                collect(&path, deeper - 1, files)?;
            }
        } else if ENDINGS.iter().any(|ending| name.ends_with(ending)) && path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn recordings_below_a_folder_are_found_in_order_and_others_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("b/rank1")).unwrap();
        fs::create_dir_all(root.join("1/2/3/4/5")).unwrap();
        for name in
            ["rank2.pickle.gz", "b/rank1/x.pickle", "a.msgpack", "notes.txt", "report.json", ".hid.pickle"]
        {
            fs::write(root.join(name), "").unwrap();
        }
        fs::write(root.join("1/2/3/4/5/too_deep.pickle"), "").unwrap();
        let given = [PathBuf::from("named.txt"), root.to_owned()];
        let names = ["a.msgpack", "b/rank1/x.pickle", "rank2.pickle.gz"].map(|name| root.join(name));
        let expected: Vec<_> = [PathBuf::from("named.txt")].into_iter().chain(names).collect();
        assert_eq!(files(&given).unwrap(), expected);
        let empty = tempfile::tempdir().unwrap();
        assert!(files(&[empty.path().to_owned()]).unwrap_err().to_string().contains("no recording"));
    }

    #[test]
    #[cfg(unix)]
    fn a_circle_of_links_ends() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(folder.path(), folder.path().join("again")).unwrap();
        fs::write(folder.path().join("rank0.pickle"), "").unwrap();
        std::os::unix::fs::symlink("rank0.pickle", folder.path().join("rank1.pickle")).unwrap();
        assert_eq!(files(&[folder.path().to_owned()]).unwrap().len(), 2);
    }
}
