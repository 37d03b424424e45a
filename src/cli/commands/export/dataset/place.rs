//! Where the folder of a rank goes, and how it gets there: whole or not at all.
//!
//! A rank's files are written in a folder that readers pass over, inside the dataset, and moved into place together.
//! Only folders that hold nothing but memlab's tables are ever replaced.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tempfile::TempDir;

use crate::analysis::Table;
use crate::cli::console::shown;
use crate::cli::failure::refuse;

/// `job=NAME/rank=N`. What is no letter, digit, `-`, `_` or `.` is written as `%` and two digits, as Hive does;
/// DuckDB, Polars and Spark turn it back.
pub(super) fn folder(job: &str, rank: u64) -> String {
    let escaped = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    format!("job={}/rank={rank}", job.bytes().map(escaped).collect::<String>())
}

/// Refuses when `folder` exists and must not be replaced.
pub(super) fn check_free(folder: &Path, overwrite: bool) -> anyhow::Result<()> {
    let Ok(found) = fs::symlink_metadata(folder) else { return Ok(()) };
    if !found.is_dir() {
        let message = format!("cannot write {}: it is no folder", shown(folder));
        return Err(refuse(message, "name a dataset whose folders memlab may create"));
    }
    if !overwrite {
        let hint = "use --force to replace it, name another --job, or write elsewhere";
        return Err(refuse(format!("{} exists already", shown(folder)), hint));
    }
    let names = fs::read_dir(folder).with_context(|| format!("cannot replace {}", shown(folder)))?;
    for entry in names {
        let name = entry?.file_name();
        let is_table = |table: &Table| name == format!("{table}.parquet").as_str();
        if !Table::ALL.iter().any(is_table) {
            let message = format!("cannot replace {}: it holds {}", shown(folder), name.to_string_lossy());
            return Err(refuse(message, "that is no table of memlab's; move it away first"));
        }
    }
    Ok(())
}

/// Folders in the making. Dropped, it takes everything away that was not put in place.
#[derive(Debug)]
pub(super) struct Staging {
    folder: TempDir,
}

impl Staging {
    /// Inside `dataset`, so that moving is renaming.
    pub(super) fn begin(dataset: &Path) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix(".memlab-").suffix(".tmp").tempdir_in(dataset);
        Ok(Self { folder: folder.with_context(|| format!("cannot write to {}", shown(dataset)))? })
    }

    /// A new folder for the input at this place among the arguments.
    pub(super) fn folder(&self, place: usize) -> anyhow::Result<PathBuf> {
        let folder = self.folder.path().join(place.to_string());
        fs::create_dir(&folder).with_context(|| format!("cannot create folder {}", shown(&folder)))?;
        Ok(folder)
    }

    /// Moves `made` to `target`; what is there comes here, to be taken away at the end.
    pub(super) fn place(&self, made: &Path, target: &Path, overwrite: bool) -> anyhow::Result<()> {
        check_free(target, overwrite)?;
        let told = || format!("failed to write {}", shown(target));
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).with_context(told)?;
        }
        if !target.exists() {
            return fs::rename(made, target).with_context(told);
        }
        let mut name = made.file_name().unwrap_or_default().to_owned();
        name.push(".old");
        let old = self.folder.path().join(name);
        fs::rename(target, &old).with_context(told)?;
        fs::rename(made, target).inspect_err(|_| drop(fs::rename(&old, target))).with_context(told)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_of_jobs_become_names_of_folders() {
        assert_eq!(folder("run-7_b.2", 12), "job=run-7_b.2/rank=12");
        assert_eq!(folder("a b/../c=d", 0), "job=a%20b%2F..%2Fc%3Dd/rank=0");
        assert_eq!(folder("ü%", 0), "job=%C3%BC%25/rank=0");
    }

    #[test]
    fn only_folders_of_tables_are_replaced_and_only_by_force() {
        let dataset = tempfile::tempdir().unwrap();
        let target = dataset.path().join("job=a/rank=0");
        let staging = Staging::begin(dataset.path()).unwrap();
        let made = |place, text: &str| {
            let made = staging.folder(place).unwrap();
            fs::write(made.join("lines.parquet"), text).unwrap();
            made
        };
        staging.place(&made(0, "old"), &target, false).unwrap();
        assert!(staging.place(&made(1, "new"), &target, false).unwrap_err().to_string().contains("exists"));
        staging.place(&made(2, "new"), &target, true).unwrap();
        assert_eq!(fs::read_to_string(target.join("lines.parquet")).unwrap(), "new");
        fs::write(target.join("thesis.txt"), "").unwrap();
        assert!(staging.place(&made(3, "x"), &target, true).unwrap_err().to_string().contains("thesis.txt"));
        drop(staging);
        assert_eq!(fs::read_dir(dataset.path()).unwrap().count(), 1);
    }
}
