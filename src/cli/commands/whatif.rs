//! `memlab whatif`: the recorded requests under other settings, on the screen, as JSON or as files.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use crate::analysis;
use crate::cli::args::WhatIfArgs;
use crate::cli::console::{Console, shown};
use crate::cli::{Status, input, output};
use crate::report::{self, WhatIfReport};

const PICTURE: &str = "whatif.svg";
const FILES: [&str; 3] = ["whatif.md", "whatif.json", PICTURE];

/// Runs the command.
pub(crate) fn run(args: &WhatIfArgs, console: &Console) -> anyhow::Result<Status> {
    if let Some(folder) = &args.output {
        output::check_folder(folder)?;
        for name in FILES {
            output::check_free(&folder.join(name), args.force)?;
        }
    }
    let options = args.options();
    let (answer, warnings) = input::one(&args.trace, console, |input| {
        input::require_events(&input.trace, "whatif")?;
        input::require_allocator(&input.trace, "whatif")?;
        input::require_device(&input.trace, options.device)?;
        Ok((analysis::whatif(&input.label, &input.trace, &options)?, input.trace.warnings))
    })?;
    for warning in warnings.iter() {
        console.warning(&answer.path, &warning.text, warning.count);
    }
    if let Some(folder) = &args.output {
        write_files(folder, &answer, args.force, console)?;
    }
    match (args.json, args.output.is_some()) {
        (true, _) => console.print(&report::pretty(&answer))?,
        (false, true) => {}
        (false, false) => console.print(&report::whatif_text(&answer, console.style()))?,
    }
    Ok(Status::Done)
}

fn write_files(folder: &Path, answer: &WhatIfReport, force: bool, console: &Console) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create folder {}", shown(folder)))?;
    let contents =
        [report::whatif_markdown(answer, Some(PICTURE)), report::pretty(answer), report::whatif_svg(answer)];
    for (name, content) in FILES.into_iter().zip(contents) {
        let path = folder.join(name);
        let bytes = output::write(&path, content.as_bytes(), force)?;
        console.wrote(&path, bytes);
    }
    Ok(())
}
