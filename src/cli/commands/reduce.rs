//! `memlab reduce`: a trace's report and live sets in place of its events.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

use crate::analysis::{self, MOST_PERCENT, Reduction};
use crate::cli::args::ReduceArgs;
use crate::cli::console::{Console, shown};
use crate::cli::failure::refuse;
use crate::cli::input::Input;
use crate::cli::output::Pending;
use crate::cli::{Status, help, input};
use crate::model::Origin;
use crate::units::Bytes;

/// Runs the command.
pub(crate) fn run(args: &ReduceArgs, console: &Console) -> anyhow::Result<Status> {
    if args.output.extension().is_none_or(|ending| ending != "msgpack") {
        let message = format!("cannot tell from its name what {} is to be", shown(&args.output));
        return Err(refuse(message, "a reduced recording is a trace: end FILE in .msgpack"));
    }
    if args.trace == Path::new("-") {
        let hint = "name the file: its name, length and checksum go into what is kept";
        return Err(refuse("standard input cannot be reduced", hint));
    }
    let mut pending = Pending::create(&args.output, args.force)?;
    let (reduction, warnings) = input::one(&args.trace, console, |input| {
        input::require_events(&input.trace, "reduce")?;
        let origin = origin(&args.trace, &input)?;
        Ok((analysis::reduce(&input.trace, &origin)?, input.trace.warnings))
    })?;
    for warning in warnings.iter() {
        console.warning(&shown(&args.trace), &warning.text, warning.count);
    }
    let written = pending.writer().write_all(&reduction.file);
    written.with_context(|| format!("failed to write {}", shown(&args.output)))?;
    console.wrote(&args.output, pending.commit()?);
    tell(args, &reduction, console)?;
    Ok(Status::Done)
}

/// Says what share of the original it takes, and what that cost.
fn tell(args: &ReduceArgs, reduction: &Reduction, console: &Console) -> anyhow::Result<()> {
    let whole =
        args.trace.metadata().with_context(|| format!("failed to read {}", shown(&args.trace)))?.len();
    let bytes = reduction.file.len() as u64;
    let share = 100.0 * bytes as f64 / whole.max(1) as f64;
    let columns = reduction.columns;
    console.detail(&format!(
        "{} of {} is {share:.1} %, with timelines of {columns} pixel columns",
        Bytes(bytes),
        Bytes(whole)
    ));
    if u128::from(bytes) * 100 > u128::from(whole) * u128::from(MOST_PERCENT) {
        console.detail(&format!(
            "a report has a size of its own: only large recordings go below {MOST_PERCENT} % of theirs"
        ));
    }
    Ok(())
}

/// What is said of the file at `path`, from which `input` was read.
fn origin(path: &Path, input: &Input) -> anyhow::Result<Origin> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (bytes, sha256) = checksum(path).with_context(|| format!("failed to read {}", shown(path)))?;
    Ok(Origin {
        name,
        format: input.trace.format.name().to_owned(),
        bytes,
        events: input.trace.event_count() as u64,
        sha256,
        reduced_by: help::TOOL.to_owned(),
    })
}

/// Length and SHA-256 of a file as it is stored.
fn checksum(path: &Path) -> io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let (mut sum, mut length) = (Sha256::new(), 0u64);
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        sum.update(&buffer[..read]);
        length += read as u64;
    }
    let digits = sum.finalize().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    Ok((length, digits))
}
