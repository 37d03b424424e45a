//! `_memlab.json`: what a dataset holds, and from which files.
//!
//! Owns its keys and how the entries of earlier calls are kept. Readers of datasets pass over names that begin with
//! an underscore.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::cli::console::shown;
use crate::cli::failure::refuse;
use crate::cli::help;
use crate::cli::output;
use crate::model::Warnings;
use crate::tables::TABLES_SCHEMA;

const NAME: &str = "_memlab.json";
/// Raised when a key is renamed, removed or changes its meaning, or folders are named otherwise.
const DATASET_SCHEMA: u32 = 1;

/// All of it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// Version of the keys and of the folders' names.
    schema: u32,
    /// What wrote it last.
    tool: String,
    /// Version of the tables, as every Parquet file states it, too.
    tables_schema: u32,
    /// By job, then rank.
    pub ranks: Vec<RankEntry>,
    /// Files of the last call that gave nothing.
    pub failed: Vec<FailureEntry>,
}

/// One rank.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RankEntry {
    /// Name of the job, as it was before it became a folder's.
    pub job: String,
    /// Its rank.
    pub rank: u64,
    /// Its folder in the dataset.
    pub folder: String,
    /// The recording, as it was named.
    pub path: String,
    /// Size of that file in bytes.
    pub file_bytes: u64,
    /// Events on all devices.
    pub events: u64,
    /// Indices of its devices.
    pub devices: Vec<u32>,
    /// Whether the recording is whole, as far as that can be told.
    pub complete: bool,
    /// The tables that its folder has.
    pub tables: Vec<String>,
    /// Faults met while reading and rebuilding.
    pub warnings: Vec<WarningEntry>,
}

/// One kind of fault.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct WarningEntry {
    kind: String,
    count: u64,
    text: String,
}

/// A file that gave nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct FailureEntry {
    /// The file, as it was named.
    pub path: String,
    /// What went wrong.
    pub error: String,
}

/// Faults as entries.
pub(super) fn entries(warnings: &Warnings) -> Vec<WarningEntry> {
    let entry = |warning: &crate::model::Warning| WarningEntry {
        kind: warning.kind.to_owned(),
        count: warning.count,
        text: warning.text.clone(),
    };
    warnings.iter().map(entry).collect()
}

impl Manifest {
    /// That of `dataset`, or an empty one where there is none.
    pub(super) fn read(dataset: &Path) -> anyhow::Result<Self> {
        let path = dataset.join(NAME);
        if !path.exists() {
            return Ok(Self::of(Vec::new(), Vec::new()));
        }
        let text = fs::read(&path).with_context(|| format!("failed to read {}", shown(&path)))?;
        let hint = "write to another folder, or remove this dataset";
        let read: Self = serde_json::from_slice(&text)
            .map_err(|_| refuse(format!("{} is not memlab's, or is damaged", shown(&path)), hint))?;
        if (read.schema, read.tables_schema) != (DATASET_SCHEMA, TABLES_SCHEMA) {
            let message = format!("{} was written by {}, with other tables", shown(dataset), read.tool);
            return Err(refuse(message, hint));
        }
        Ok(read)
    }

    fn of(ranks: Vec<RankEntry>, failed: Vec<FailureEntry>) -> Self {
        let (schema, tables_schema) = (DATASET_SCHEMA, TABLES_SCHEMA);
        Self { schema, tool: help::TOOL.to_owned(), tables_schema, ranks, failed }
    }

    /// With `placed` in place of entries of the same folder, and `failed` as the last call's failures.
    pub(super) fn with(self, placed: Vec<RankEntry>, failed: Vec<FailureEntry>) -> Self {
        let mut ranks = self.ranks;
        let replaced: BTreeSet<&str> = placed.iter().map(|new| new.folder.as_str()).collect();
        ranks.retain(|old| !replaced.contains(old.folder.as_str()));
        ranks.extend(placed);
        ranks.sort_by(|a, b| (&a.job, a.rank).cmp(&(&b.job, b.rank)));
        Self::of(ranks, failed)
    }

    /// Puts it into `dataset`.
    pub(super) fn write(&self, dataset: &Path) -> anyhow::Result<u64> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        output::write(&dataset.join(NAME), text.as_bytes(), true)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn entry(job: &str, rank: u64, path: &str) -> RankEntry {
        RankEntry {
            job: job.to_owned(),
            rank,
            folder: format!("job={job}/rank={rank}"),
            path: path.to_owned(),
            file_bytes: 1,
            events: 2,
            devices: vec![0],
            complete: true,
            tables: vec!["lines".to_owned()],
            warnings: Vec::new(),
        }
    }

    #[test]
    fn ranks_of_earlier_calls_stay_and_replaced_ones_go() {
        let folder = tempfile::tempdir().unwrap();
        let first = Manifest::read(folder.path()).unwrap();
        let failure = FailureEntry { path: "x".to_owned(), error: "y".to_owned() };
        first
            .with(vec![entry("b", 0, "old"), entry("a", 11, "kept"), entry("a", 2, "kept")], vec![failure])
            .write(folder.path())
            .unwrap();
        let second = Manifest::read(folder.path()).unwrap();
        assert_eq!(second.failed.len(), 1);
        let second = second.with(vec![entry("b", 0, "new")], Vec::new());
        let told: Vec<_> = second.ranks.iter().map(|e| (e.job.as_str(), e.rank, e.path.as_str())).collect();
        assert_eq!(told, [("a", 2, "kept"), ("a", 11, "kept"), ("b", 0, "new")]);
        assert!(second.failed.is_empty());
    }

    #[test]
    fn what_is_not_memlabs_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let other = [r#"{"mine":1}"#, r#"{"schema":9,"tool":"t","tables_schema":1,"ranks":[],"failed":[]}"#];
        for text in other {
            fs::write(folder.path().join(NAME), text).unwrap();
            assert!(Manifest::read(folder.path()).is_err(), "{text}");
        }
    }
}
