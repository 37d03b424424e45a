//! `memlab convert`: a snapshot to a trace, a trace to a snapshot.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;

use anyhow::Context as _;

use crate::analysis::{self, EVENTS_PER_STATE};
use crate::cli::args::{CodecChoice, ConvertArgs};
use crate::cli::console::{Console, shown};
use crate::cli::failure::refuse;
use crate::cli::output::Pending;
use crate::cli::packing::{self, Packing};
use crate::cli::{Status, input};
use crate::format::{self, Codec, WriteOptions};
use crate::model::Trace;

/// What OUT is to become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// memlab's own format; it compresses itself.
    Trace(Codec),
    /// PyTorch's format, packed or not.
    Snapshot(Packing),
}

/// Runs the command.
pub(crate) fn run(args: &ConvertArgs, console: &Console) -> anyhow::Result<Status> {
    let target = target(&args.output, args.codec)?;
    let mut pending = Pending::create(&args.output, args.force)?;
    let input = input::one(&args.input, console, |input| {
        input::require_events(&input.trace, "convert")?;
        Ok(input)
    })?;
    for warning in input.trace.warnings.iter() {
        console.warning(&input.label, &warning.text, warning.count);
    }
    if args.state_every.is_some() && !matches!(target, Target::Trace(_)) {
        return Err(refuse("--state-every is for traces", "end OUT in .msgpack"));
    }
    write(&input.trace, target, state_every(args, &input.trace), pending.writer())
        .with_context(|| format!("failed to write {}", shown(&args.output)))?;
    let bytes = pending.commit()?;
    console.wrote(&args.output, bytes);
    Ok(Status::Done)
}

fn target(path: &Path, codec: Option<CodecChoice>) -> anyhow::Result<Target> {
    let target = match endings(path) {
        (Some("msgpack"), _) => Target::Trace(codec.map_or_else(Codec::default, codec_of)),
        (Some("pickle" | "pkl"), _) => Target::Snapshot(Packing::Plain),
        (Some("gz"), Some("pickle" | "pkl")) => Target::Snapshot(Packing::Gzip),
        (Some("zst"), Some("pickle" | "pkl")) => Target::Snapshot(Packing::Zstd),
        (Some("gz" | "zst"), Some("msgpack")) => {
            return Err(refuse("a trace is not packed again", "it is compressed inside; see --codec"));
        }
        _ => {
            return Err(refuse(
                format!("cannot tell from its name what {} is to be", shown(path)),
                "end OUT in .msgpack for a trace, or in .pickle, .pickle.gz or .pickle.zst for a snapshot",
            ));
        }
    };
    match (target, codec) {
        (Target::Snapshot(_), Some(_)) => Err(refuse(
            "--codec is for traces",
            "end OUT in .pickle.gz or .pickle.zst to compress a snapshot",
        )),
        _ => Ok(target),
    }
}

/// The last ending of a file name and the one before it.
fn endings(path: &Path) -> (Option<&str>, Option<&str>) {
    let last = path.extension().and_then(OsStr::to_str);
    let before = path.file_stem().map(Path::new).and_then(Path::extension).and_then(OsStr::to_str);
    (last, before)
}

fn codec_of(choice: CodecChoice) -> Codec {
    match choice {
        CodecChoice::Zstd => Codec::Zstd,
        CodecChoice::Zlib => Codec::Zlib,
        CodecChoice::None => Codec::None,
    }
}

/// Events between two states in a trace, if there are to be any: a short recording is read quickly as a whole.
fn state_every(args: &ConvertArgs, trace: &Trace) -> Option<usize> {
    let is_long = trace.devices.iter().any(|device| device.events.len() >= 2 * EVENTS_PER_STATE);
    args.state_every.or(is_long.then_some(EVENTS_PER_STATE)).filter(|&every| every > 0)
}

fn write(
    trace: &Trace,
    target: Target,
    state_every: Option<usize>,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    match target {
        Target::Trace(codec) => {
            let options = WriteOptions { codec, ..WriteOptions::default() };
            match state_every {
                Some(every) => analysis::write_with_states(trace, every, &options, out)?,
                None => format::write(trace, &options, out)?,
            }
        }
        Target::Snapshot(packing) => packing::write_snapshot(trace, packing, out)?,
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn of(name: &str) -> Option<Target> {
        target(Path::new(name), None).ok()
    }

    #[test]
    fn the_name_says_the_direction() {
        assert_eq!(of("a/b.msgpack"), Some(Target::Trace(Codec::default())));
        assert_eq!(of("b.pickle"), Some(Target::Snapshot(Packing::Plain)));
        assert_eq!(of("v.1.pickle.gz"), Some(Target::Snapshot(Packing::Gzip)));
        assert_eq!(of("b.pickle.zst"), Some(Target::Snapshot(Packing::Zstd)));
        for odd in ["b", "b.txt", "b.gz", "b.msgpack.zst", "-", ".pickle"] {
            assert_eq!(of(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_codec_is_for_traces_only() {
        let trace = target(Path::new("b.msgpack"), Some(CodecChoice::None)).unwrap();
        assert_eq!(trace, Target::Trace(Codec::None));
        assert!(target(Path::new("b.pickle"), Some(CodecChoice::Zstd)).is_err());
    }
}
