//! Which format `memlab export` is to write, and whether the other options go with it.

use std::path::Path;

use crate::cli::args::ExportArgs;
pub(super) use crate::cli::args::FormatChoice as Target;
use crate::cli::console::shown;
use crate::cli::failure::refuse;

/// What the end of OUT says.
const ENDINGS: [(&str, Target); 10] = [
    (".folded", Target::Folded),
    (".speedscope.json", Target::Speedscope),
    (".pb.gz", Target::Pprof),
    (".pftrace", Target::Perfetto),
    (".perfetto-trace", Target::Perfetto),
    (".chrome.json", Target::Chrome),
    (".trace.json", Target::Chrome),
    (".pickle", Target::Snapshot),
    (".pickle.gz", Target::Snapshot),
    (".pickle.zst", Target::Snapshot),
];

/// The format that is asked for.
pub(super) fn of(args: &ExportArgs) -> anyhow::Result<Target> {
    let target = match args.format {
        Some(format) => format,
        None if args.partition && !is_standard_output(&args.output) => Target::Parquet,
        None => by_name(&args.output)?,
    };
    check(args, target)?;
    Ok(target)
}

/// Whether OUT is standard output.
pub(super) fn is_standard_output(path: &Path) -> bool {
    path == Path::new("-")
}

fn by_name(path: &Path) -> anyhow::Result<Target> {
    if is_standard_output(path) {
        let hint = "add --format folded, --format speedscope or --format chrome";
        return Err(refuse("standard output has no ending to tell the format by", hint));
    }
    if is_folder(path) {
        return Ok(Target::Parquet);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let ending = ENDINGS.iter().find(|(ending, _)| name.ends_with(ending) && name.len() > ending.len());
    ending.map(|&(_, target)| target).ok_or_else(|| {
        let known: Vec<_> = ENDINGS.iter().map(|(ending, _)| *ending).collect();
        refuse(
            format!("cannot tell from its name what {} is to be", shown(path)),
            format!("end OUT in {}, name a folder for tables, or add --format", known.join(", ")),
        )
    })
}

/// A folder that is there, or a name that only a folder would have.
fn is_folder(path: &Path) -> bool {
    path.is_dir() || path.extension().is_none() || path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

fn check(args: &ExportArgs, target: Target) -> anyhow::Result<()> {
    let is_table = matches!(target, Target::Parquet | Target::Csv);
    let is_text = matches!(target, Target::Folded | Target::Speedscope | Target::Chrome);
    let has_stacks = matches!(target, Target::Folded | Target::Speedscope | Target::Pprof);
    if args.partition && target != Target::Parquet {
        return Err(refuse(
            "a dataset is of Parquet files",
            "add --format parquet, or leave out --partition",
        ));
    }
    if args.traces.len() > 1 && !args.partition {
        return Err(refuse("one export is of one trace", "add --partition for a dataset of several ranks"));
    }
    if !args.tables.is_empty() && !is_table {
        return Err(refuse("--table is for tables", "add --format parquet or --format csv"));
    }
    if args.what.is_some() && !has_stacks {
        return Err(refuse(
            "--what is for profiles of stacks",
            "it goes with --format folded, speedscope or pprof",
        ));
    }
    if args.device.is_some() && target == Target::Snapshot {
        return Err(refuse("a snapshot holds every device", "leave out --device"));
    }
    if is_standard_output(&args.output) && !is_text {
        return Err(refuse(
            "only text goes to standard output: folded, speedscope or chrome",
            if is_table { "name a folder with --output" } else { "name a file with --output" },
        ));
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn args(output: &str, format: Option<Target>) -> ExportArgs {
        ExportArgs {
            traces: vec![PathBuf::from("x")],
            output: PathBuf::from(output),
            format,
            tables: Vec::new(),
            partition: false,
            job: None,
            force: false,
            device: None,
            what: None,
        }
    }

    #[test]
    fn the_name_says_the_format() {
        for (name, target) in [
            ("tables", Target::Parquet),
            ("new.v1/", Target::Parquet),
            ("a/b.folded", Target::Folded),
            ("b.speedscope.json", Target::Speedscope),
            ("run.1.pb.gz", Target::Pprof),
            ("b.pftrace", Target::Perfetto),
            ("b.perfetto-trace", Target::Perfetto),
            ("b.chrome.json", Target::Chrome),
            ("b.trace.json", Target::Chrome),
            ("b.pickle.zst", Target::Snapshot),
        ] {
            assert_eq!(of(&args(name, None)).unwrap(), target, "{name}");
        }
        for odd in ["b.json", "b.gz", "b.txt", "-", "b.msgpack", "x/b.pb"] {
            assert!(of(&args(odd, None)).is_err(), "{odd}");
        }
        assert_eq!(of(&args("b.txt", Some(Target::Folded))).unwrap(), Target::Folded, "--format is stronger");
    }

    #[test]
    fn options_that_do_not_go_together_are_refused() {
        let refused = |args: ExportArgs| of(&args).unwrap_err().to_string();
        let text =
            refused(ExportArgs { tables: vec![crate::analysis::Table::Lines], ..args("a.folded", None) });
        assert_eq!(text, "--table is for tables");
        let text =
            refused(ExportArgs { what: Some(crate::export::Profile::End), ..args("a.chrome.json", None) });
        assert_eq!(text, "--what is for profiles of stacks");
        let text = refused(ExportArgs { device: Some(0), ..args("a.pickle", None) });
        assert_eq!(text, "a snapshot holds every device");
        let several = vec![PathBuf::from("x"), PathBuf::from("y")];
        let text = refused(ExportArgs { traces: several, ..args("tables", None) });
        assert_eq!(text, "one export is of one trace");
        let partition = |output, format| ExportArgs { partition: true, ..args(output, format) };
        assert_eq!(refused(partition("d", Some(Target::Csv))), "a dataset is of Parquet files");
        assert_eq!(of(&partition("fleet.v1", None)).unwrap(), Target::Parquet, "a dataset is a folder");
        for binary in [Target::Parquet, Target::Pprof, Target::Perfetto, Target::Snapshot] {
            assert!(refused(args("-", Some(binary))).contains("only text"));
        }
    }
}
