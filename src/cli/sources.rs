//! Source text around the lines of a report, for `--source`.
//!
//! Owns the rule of which files may be read: a trace is hostile and may name any path. Only regular UTF-8 text
//! files with the ending of a source file, of bounded size, that lie below one folder once every link is
//! resolved. Nothing else is opened.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use super::console::shown;
use super::failure::refuse;
use crate::report::{LineRow, SourceRow, TraceReport};

/// Rows of each table for which source text is looked up.
const MOST_ROWS: usize = 200;
/// Lines shown before and behind the line itself.
const AROUND: u64 = 3;
const MOST_BYTES: u64 = 2 << 20;
/// Characters of a line that are kept.
const LONGEST_LINE: usize = 200;
/// A recorded path with more parts than this is none.
const MOST_PARTS: usize = 64;
const ENDINGS: [&str; 12] = ["py", "pyx", "cu", "cuh", "cc", "cpp", "cxx", "c", "h", "hpp", "rs", "jinja"];

/// A folder whose source files may be read.
#[derive(Debug)]
pub(crate) struct Sources {
    /// Canonical.
    folder: PathBuf,
}

/// A file that was found: its place below the folder, its lines.
struct Text {
    file: String,
    lines: Vec<String>,
}

impl Sources {
    /// Files below `folder`, which must exist.
    pub(crate) fn below(folder: &Path) -> anyhow::Result<Self> {
        match folder.canonicalize() {
            Ok(folder) if folder.is_dir() => Ok(Self { folder }),
            _ => Err(refuse(
                format!("cannot read source files: {} is no folder", shown(folder)),
                "name the folder of your code with --source",
            )),
        }
    }

    /// Fills in the source text of the first lines of each device, where the file is at hand.
    pub(crate) fn attach(&self, trace: &mut TraceReport) {
        let mut read: BTreeMap<String, Option<Text>> = BTreeMap::new();
        for row in trace.devices.iter_mut().flat_map(|device| device.lines.iter_mut().take(MOST_ROWS)) {
            if let Some(file) = row.file.clone() {
                let text = read.entry(file).or_insert_with_key(|file| self.read(file));
                row.source = text.as_ref().and_then(|text| around(text, row));
            }
        }
    }

    fn read(&self, recorded: &str) -> Option<Text> {
        let path = self.find(recorded)?;
        let mut bytes = Vec::new();
        File::open(&path).ok()?.take(MOST_BYTES + 1).read_to_end(&mut bytes).ok()?;
        if bytes.len() as u64 > MOST_BYTES {
            return None;
        }
        let text = String::from_utf8(bytes).ok()?;
        let file = path.strip_prefix(&self.folder).ok()?.display().to_string();
        Some(Text { file, lines: text.lines().map(shortened).collect() })
    }

    /// The file that a recorded path stands for: the path itself where it leads below the folder, else its
    /// longest ending that exists there. Paths outside are not even looked at.
    fn find(&self, recorded: &str) -> Option<PathBuf> {
        let path = Path::new(recorded);
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        if !ENDINGS.contains(&ending.as_str()) || recorded.contains('\0') {
            return None;
        }
        let is_plain = |part: &Component<'_>| matches!(part, Component::Normal(_));
        let parts: Vec<Component<'_>> = path.components().collect();
        // What follows the last `..` or the root is a path of plain names.
        let first = parts.iter().rposition(|part| !is_plain(part)).map_or(0, |at| at + 1);
        let names = &parts[first..];
        if names.len() > MOST_PARTS {
            return None;
        }
        let inside =
            path.strip_prefix(&self.folder).ok().filter(|rest| rest.components().all(|part| is_plain(&part)));
        let itself = inside.map(|rest| self.folder.join(rest));
        let endings =
            (0..names.len()).map(|from| self.folder.join(names[from..].iter().collect::<PathBuf>()));
        itself.into_iter().chain(endings).find_map(|candidate| self.allowed(&candidate))
    }

    /// `candidate` with its links resolved, if it may be read.
    fn allowed(&self, candidate: &Path) -> Option<PathBuf> {
        let real = candidate.canonicalize().ok().filter(|real| real.starts_with(&self.folder))?;
        let ending = real.extension()?.to_str()?.to_ascii_lowercase();
        let found = fs::symlink_metadata(&real).ok()?;
        let is_source = ENDINGS.contains(&ending.as_str()) && found.is_file() && found.len() <= MOST_BYTES;
        is_source.then_some(real)
    }
}

fn around(text: &Text, row: &LineRow) -> Option<SourceRow> {
    let number = row.line.filter(|&number| number > 0 && number <= text.lines.len() as u64)?;
    let first = number.saturating_sub(AROUND).max(1);
    let last = (number + AROUND).min(text.lines.len() as u64);
    let lines = text.lines[first as usize - 1..last as usize].to_vec();
    Some(SourceRow { file: text.file.clone(), first, text: lines })
}

fn shortened(line: &str) -> String {
    let line = line.trim_end().replace('\t', "    ");
    crate::report::escape::keep_start(&line, LONGEST_LINE).into_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    struct Folder {
        whole: tempfile::TempDir,
        sources: Sources,
    }

    /// `code/` is the named folder; `secret.py` lies outside.
    fn folder() -> Folder {
        let whole = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &[u8]| fs::write(whole.path().join(name), text).unwrap();
        fs::create_dir_all(whole.path().join("code/pkg")).unwrap();
        put("secret.py", b"secret = 1\n");
        put("code/train.py", b"one\ntwo\nthree\nfour\n\tfive  \nsix\nseven\neight\nnine\n");
        put("code/pkg/train.py", b"other\n");
        put("code/notes.txt", b"notes\n");
        put("code/binary.py", &[0xff, 0xfe, 0x00]);
        put("code/large.py", &vec![b'x'; MOST_BYTES as usize + 1]);
        let sources = Sources::below(&whole.path().join("code")).unwrap();
        Folder { whole, sources }
    }

    impl Folder {
        fn source(&self, file: &str, line: u64) -> Option<SourceRow> {
            let row = LineRow { file: Some(file.to_owned()), line: Some(line), ..LineRow::default() };
            self.sources.read(file).and_then(|text| around(&text, &row))
        }
    }

    #[test]
    fn three_lines_on_either_side_come_along() {
        let source = folder().source("train.py", 5).unwrap();
        assert_eq!((source.first, source.file.as_str()), (2, "train.py"));
        assert_eq!(source.text, ["two", "three", "four", "    five", "six", "seven", "eight"]);
        let first = folder().source("train.py", 1).unwrap();
        assert_eq!((first.first, first.text.len()), (1, 4));
        assert_eq!(folder().source("train.py", 9).unwrap().text.last().unwrap(), "nine");
        assert_eq!(folder().source("train.py", 10), None, "the file has changed since");
        assert_eq!(folder().source("train.py", 0), None);
    }

    #[test]
    fn a_path_of_another_machine_is_found_by_its_longest_ending() {
        let folder = folder();
        assert_eq!(folder.source("/home/me/job/pkg/train.py", 1).unwrap().text, ["other"]);
        assert_eq!(folder.source("/home/me/job/train.py", 1).unwrap().text[0], "one");
        let absolute = folder.sources.folder.join("pkg/train.py");
        assert_eq!(folder.source(absolute.to_str().unwrap(), 1).unwrap().file, "pkg/train.py");
    }

    #[test]
    fn nothing_outside_the_folder_is_read() {
        let folder = folder();
        let outside = folder.whole.path().canonicalize().unwrap().join("secret.py");
        let outside = outside.to_str().unwrap().to_owned();
        let through = format!("{}/../secret.py", folder.sources.folder.display());
        for path in [outside.as_str(), &through, "../secret.py", "pkg/../../secret.py", "/etc/passwd", ""] {
            assert!(folder.source(path, 1).is_none(), "{path}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn links_that_lead_outside_or_to_no_source_are_not_followed() {
        use std::os::unix::fs::symlink;
        let folder = folder();
        let code = &folder.sources.folder;
        symlink("../secret.py", code.join("link.py")).unwrap();
        symlink("..", code.join("up")).unwrap();
        symlink("notes.txt", code.join("notes.py")).unwrap();
        symlink("train.py", code.join("inner.py")).unwrap();
        for path in ["link.py", "up/secret.py", "notes.py"] {
            assert!(folder.source(path, 1).is_none(), "{path}");
        }
        assert_eq!(folder.source("inner.py", 1).unwrap().text[0], "one");
    }

    #[test]
    fn only_text_files_of_sources_are_read() {
        let folder = folder();
        fs::create_dir(folder.sources.folder.join("folder.py")).unwrap();
        for path in ["notes.txt", "binary.py", "large.py", "folder.py", "missing.py", "pkg"] {
            assert!(folder.source(path, 1).is_none(), "{path}");
        }
        let deep = "a/".repeat(MOST_PARTS) + "train.py";
        assert!(folder.source(&deep, 1).is_none());
    }

    #[test]
    fn a_folder_that_is_none_is_refused() {
        let folder = folder();
        assert!(Sources::below(&folder.sources.folder.join("train.py")).is_err());
        assert!(Sources::below(&folder.sources.folder.join("nowhere")).is_err());
    }
}
