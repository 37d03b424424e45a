//! What `analyze -o` writes for all ranks of a job together.
//!
//! Owns names: `ranks.html` and so on where all files are one job, `ranks-NAME.html` for each of several.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::analysis::job_name;
use crate::cli::console::{Console, shown};
use crate::cli::{help, names, output};
use crate::report::{self, RanksReport};

const ENDINGS: [&str; 4] = ["html", "md", "json", "svg"];
/// Characters of a job's name that are part of a file's.
const LONGEST_NAME: usize = 80;

/// Before the work: is nothing in the way? What jobs are called is known for good only when all files were read.
pub(super) fn check(folder: &Path, paths: &[PathBuf], overwrite: bool) -> anyhow::Result<()> {
    let jobs: BTreeSet<String> = paths.iter().map(|path| job_name(&path.display().to_string())).collect();
    let stems = jobs.iter().filter(|_| jobs.len() > 1).map(|job| stem(Some(job), &mut BTreeSet::new()));
    stems.chain([stem(None, &mut BTreeSet::new())]).try_for_each(|stem| check_free(folder, &stem, overwrite))
}

fn check_free(folder: &Path, stem: &str, overwrite: bool) -> anyhow::Result<()> {
    ENDINGS
        .iter()
        .try_for_each(|ending| output::check_free(&folder.join(format!("{stem}.{ending}")), overwrite))
}

/// What the files of a job are called, without their endings; no two of those `taken` are alike.
fn stem(job: Option<&str>, taken: &mut BTreeSet<String>) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name = match job {
        None => "ranks".to_owned(),
        Some(job) => format!("ranks-{}", job.chars().map(plain).take(LONGEST_NAME).collect::<String>()),
    };
    names::unique(&name, taken)
}

/// Writes the ranks of each job beside the folders of the traces.
pub(super) fn write<'a>(
    folder: &Path,
    jobs: impl Iterator<Item = &'a RanksReport>,
    overwrite: bool,
    console: &Console,
) -> anyhow::Result<()> {
    let mut taken = BTreeSet::new();
    for job in jobs {
        write_one(folder, &stem(job.job.as_deref(), &mut taken), job, overwrite, console)?;
    }
    Ok(())
}

fn write_one(
    folder: &Path,
    stem: &str,
    ranks: &RanksReport,
    overwrite: bool,
    console: &Console,
) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create folder {}", shown(folder)))?;
    check_free(folder, stem, overwrite)?;
    let picture = report::ranks_svg(ranks);
    let name = picture.as_ref().map(|_| format!("{stem}.svg"));
    let mut files = vec![
        ("html", report::ranks_html(ranks, help::TOOL)),
        ("md", report::ranks_markdown(ranks, help::TOOL, name.as_deref())),
        ("json", report::pretty(ranks)),
    ];
    files.extend(picture.map(|svg| ("svg", svg)));
    for (ending, content) in files {
        let path = folder.join(format!("{stem}.{ending}"));
        let bytes = output::write(&path, content.as_bytes(), overwrite)?;
        console.wrote(&path, bytes);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_has_files_of_its_own() {
        let mut taken = BTreeSet::new();
        let names = [Some("run7"), Some("a/../b c"), Some("RUN7"), None].map(|job| stem(job, &mut taken));
        assert_eq!(names, ["ranks-run7", "ranks-a_.._b_c", "ranks-RUN7-2", "ranks"]);
    }
}
