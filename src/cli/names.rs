//! Names of what `analyze -o` writes: the folder of each trace, the command that repeats the report.
//!
//! Pure text work: decides names, touches no file.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Endings that are no part of a trace's name.
const ENDINGS: [&str; 7] = ["gz", "zst", "zstd", "pickle", "pkl", "msgpack", "json"];

/// The report folder of each input: `folder` itself for a single one, else a subfolder each, named after the
/// file and made unique by a number.
pub(crate) fn report_folders(folder: &Path, inputs: &[PathBuf]) -> Vec<PathBuf> {
    if inputs.len() == 1 {
        return vec![folder.to_owned()];
    }
    let mut taken = BTreeSet::new();
    inputs.iter().map(|input| folder.join(unique(&stem(input), &mut taken))).collect()
}

/// The file name without folder and without endings: `runs/a/snapshot.pickle.gz` → `snapshot`.
pub(crate) fn stem(input: &Path) -> String {
    if input == Path::new("-") {
        return "stdin".to_owned();
    }
    let mut name = PathBuf::from(input.file_name().unwrap_or(OsStr::new("trace")));
    while name.extension().and_then(OsStr::to_str).is_some_and(|ending| ENDINGS.contains(&ending)) {
        name.set_extension("");
    }
    name.to_string_lossy().into_owned()
}

/// `name`, or `name-2`, `name-3`, ... if it is taken. Names that differ only in case count as equal, since
/// some file systems think so.
pub(crate) fn unique(name: &str, taken: &mut BTreeSet<String>) -> String {
    let candidates = (2..).map(|number| format!("{name}-{number}"));
    std::iter::once(name.to_owned())
        .chain(candidates)
        .find(|candidate| taken.insert(candidate.to_lowercase()))
        .expect("numbers do not run out")
}

/// `word` as a shell takes it for one word.
pub(crate) fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=+,@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_single_trace_gets_the_folder_itself() {
        assert_eq!(report_folders(Path::new("out"), &["a/x.pickle".into()]), [Path::new("out")]);
    }

    #[test]
    fn several_traces_get_unique_folders() {
        let inputs = ["a/x.pickle", "b/x.pickle.gz", "X-2.msgpack", "x.msgpack", "-"].map(PathBuf::from);
        let names = ["out/x", "out/x-2", "out/X-2-2", "out/x-3", "out/stdin"].map(PathBuf::from);
        assert_eq!(report_folders(Path::new("out"), &inputs), names);
    }

    #[test]
    fn dots_inside_a_name_stay() {
        assert_eq!(stem(Path::new("varlen.default.pickle.gz")), "varlen.default");
        assert_eq!(stem(Path::new("..")), "trace");
    }

    #[test]
    fn words_that_a_shell_would_split_are_quoted() {
        assert_eq!(shell_word("runs/a-1.pickle"), "runs/a-1.pickle");
        assert_eq!(shell_word("it's $HOME"), "'it'\\''s $HOME'");
        assert_eq!(shell_word(""), "''");
    }
}
