//! What `analyze -o` writes for all ranks of a job together.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use crate::cli::console::{Console, shown};
use crate::cli::{help, output};
use crate::report::{self, RanksReport};

const PICTURE: &str = "ranks.svg";
const NAMES: [&str; 4] = ["ranks.html", "ranks.md", "ranks.json", PICTURE];

/// Before the work: is nothing in the way?
pub(super) fn check(folder: &Path, overwrite: bool) -> anyhow::Result<()> {
    NAMES.iter().try_for_each(|name| output::check_free(&folder.join(name), overwrite))
}

/// Writes the ranks beside the folders of the traces.
pub(super) fn write(
    folder: &Path,
    ranks: &RanksReport,
    overwrite: bool,
    console: &Console,
) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create folder {}", shown(folder)))?;
    check(folder, overwrite)?;
    let picture = report::ranks_svg(ranks);
    let name = picture.as_ref().map(|_| PICTURE);
    let mut files = vec![
        ("ranks.html", report::ranks_html(ranks, help::TOOL)),
        ("ranks.md", report::ranks_markdown(ranks, help::TOOL, name)),
        ("ranks.json", report::pretty(ranks)),
    ];
    files.extend(picture.map(|svg| (PICTURE, svg)));
    for (name, content) in files {
        let path = folder.join(name);
        let bytes = output::write(&path, content.as_bytes(), overwrite)?;
        console.wrote(&path, bytes);
    }
    Ok(())
}
