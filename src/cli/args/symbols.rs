//! Where the binaries of native frames lie, as typed.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::{ArgAction, Args, ValueHint};

use super::super::console::shown;
use crate::symbols::Place;

/// What `--symbols` without a path stands for: no path can be it.
const RECORDED: &str = "\0";

/// `--symbols`, as often as there are places. Without it, no file but the traces is read.
#[derive(Clone, Debug, Args)]
pub(crate) struct SymbolsArgs {
    /// Turn native frames into functions and lines, from the binaries at the paths that the trace names, or
    /// below PATH
    #[arg(long, value_name = "PATH", num_args = 0..=1, require_equals = true, action = ArgAction::Append,
        default_missing_value = RECORDED, value_parser = OsStringValueParser::new().try_map(wanted),
        value_hint = ValueHint::AnyPath, help_heading = "Input")]
    symbols: Vec<Wanted>,
}

/// One place that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    /// The paths that the trace names.
    Recorded,
    /// A folder or a file.
    Path(PathBuf),
}

impl SymbolsArgs {
    /// The places in the order they were typed; looks whether a path is a folder or a file, and says if it is
    /// neither. Empty if nothing was asked for.
    pub(crate) fn places(&self) -> anyhow::Result<Vec<Place>> {
        let place = |wanted: &Wanted| match wanted {
            Wanted::Recorded => Ok(Place::Recorded),
            Wanted::Path(path) => {
                Place::at(path).with_context(|| format!("cannot look for symbols in {}", shown(path)))
            }
        };
        self.symbols.iter().map(place).collect()
    }
}

fn wanted(text: OsString) -> Result<Wanted, &'static str> {
    match text.to_str() {
        Some(RECORDED) => Ok(Wanted::Recorded),
        Some("") => Err("name a folder or a file, or leave out the `=`"),
        _ => Ok(Wanted::Path(text.into())),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        symbols: SymbolsArgs,
        traces: Vec<PathBuf>,
    }

    fn parsed(words: &[&str]) -> Result<Line, String> {
        Line::try_parse_from(words.iter().copied()).map_err(|error| error.to_string())
    }

    #[test]
    fn places_are_taken_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("liba.so");
        std::fs::write(&file, "").unwrap();
        let [first, second] = [folder.path(), &file].map(|path| format!("--symbols={}", path.display()));
        let line = parsed(&["x", &second, "--symbols", "a.msgpack", &first]).unwrap();
        let expected = [Place::File(file.clone()), Place::Recorded, Place::Folder(folder.path().to_owned())];
        assert_eq!(line.symbols.places().unwrap(), expected);
        // A word behind `--symbols` is a trace, no place.
        assert_eq!(line.traces, [PathBuf::from("a.msgpack")]);
        assert_eq!(parsed(&["x", "a.msgpack"]).unwrap().symbols.places().unwrap(), []);
    }

    #[test]
    fn a_place_has_to_be_there() {
        assert!(parsed(&["x", "--symbols="]).is_err_and(|text| text.contains("leave out the `=`")));
        let error = parsed(&["x", "--symbols=/none/here"]).unwrap().symbols.places().unwrap_err();
        assert_eq!(error.to_string(), "cannot look for symbols in /none/here");
    }
}
