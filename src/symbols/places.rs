//! Where files are looked for: at the paths that a trace names, in folders, or at one path of the user's.
//!
//! Says which paths may be a module's, in order; opens none of them. What a trace or a binary says about a path
//! never leads out of a folder of the user's: only plain names are appended (links that stand in it are followed).

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::outcome::Why;
use super::{Module, name_of};
use crate::error::Result;

/// Where the system puts debug files.
const SYSTEM: &str = "/usr/lib/debug";

/// How many folders within a folder are looked into.
const MAX_SUBFOLDERS: usize = 1_000;

/// A place to look for binaries and their debug files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The absolute paths that the trace names, on this machine, if the trace has a build id for them; and the
    /// system's folder of debug files, by build id.
    Recorded,
    /// A folder: the module's name in it, its recorded path below it, `.build-id/ab/cdef….debug`, and its name in
    /// the folders one level below.
    Folder(PathBuf),
    /// One file: a module's by its build id or, where neither has one, by its name.
    File(PathBuf),
}

impl Place {
    /// The place at a path of the user's: a folder or a file, whichever is there.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::error::Error::Io) if there is neither.
    pub fn at(path: &Path) -> Result<Self> {
        let facts = fs::metadata(path)?;
        if facts.is_dir() {
            Ok(Self::Folder(path.to_owned()))
        } else if facts.is_file() {
            Ok(Self::File(path.to_owned()))
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "it is neither a folder nor a regular file")
                .into())
        }
    }
}

/// A file that may be the module's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) path: PathBuf,
    /// The place it belongs to, by number.
    place: usize,
    /// Whether it is there for this module; a file that the user named may be for another one.
    is_meant: bool,
}

impl Candidate {
    /// Whether a refusal of this file says something about the module.
    pub(super) fn counts(&self, why: &Why) -> bool {
        self.is_meant || !matches!(why, Why::OtherBuild | Why::FileWithoutBuildId)
    }
}

/// The places, and what was found out about them.
#[derive(Debug)]
pub(super) struct Shelves {
    places: Vec<Place>,
    /// The folders within a place, in order, once they are known.
    subfolders: Vec<Option<Vec<PathBuf>>>,
}

impl Shelves {
    pub(super) fn new(places: Vec<Place>) -> Self {
        let subfolders = vec![None; places.len()];
        Self { places, subfolders }
    }

    /// The files that may be `module`'s, and why there are none where there are none.
    pub(super) fn candidates(&mut self, module: &Module<'_>) -> (Vec<Candidate>, Why) {
        let mut found = Vec::new();
        let mut why = Why::NoFile;
        for place in 0..self.places.len() {
            let meant = |path: PathBuf| Candidate { path, place, is_meant: true };
            match &self.places[place] {
                Place::Recorded if !is_local(module.path) => why = Why::NotAbsolute,
                Place::Recorded if module.build_id.is_empty() => why = Why::NoBuildId,
                Place::Recorded => {
                    found.push(meant(PathBuf::from(module.path)));
                    found.extend(by_build_id(Path::new(SYSTEM), module.build_id).map(meant));
                }
                Place::File(path) => {
                    let is_meant = is_named_like(path, module.path);
                    if is_meant || !module.build_id.is_empty() {
                        found.push(Candidate { path: path.clone(), place, is_meant });
                    }
                }
                Place::Folder(folder) => {
                    let below = self.subfolders[place].get_or_insert_with(|| subfolders(folder));
                    found.extend(in_folder(folder, below, module).into_iter().map(meant));
                }
            }
        }
        (found, why)
    }

    /// Where the debug file `link` lies that `binary`, a module's, says it has (`.gnu_debuglink`).
    pub(super) fn linked(&self, binary: &Candidate, link: &str) -> Vec<Candidate> {
        let Some(name) = name_of(link).filter(|name| name.as_os_str() == link) else {
            return Vec::new();
        };
        let beside = binary.path.parent().unwrap_or(Path::new(""));
        let mut paths = vec![beside.join(name), beside.join(".debug").join(name)];
        if self.places.get(binary.place) == Some(&Place::Recorded) {
            paths.extend(plain(beside).map(|below| Path::new(SYSTEM).join(below).join(name)));
        }
        let candidate = |path| Candidate { path, place: binary.place, is_meant: false };
        paths.into_iter().map(candidate).collect()
    }
}

/// Whether `path` says where a file lies on a machine. Two slashes at its beginning name another machine's on some
/// systems.
fn is_local(path: &str) -> bool {
    path.starts_with('/') && !path.starts_with("//")
}

/// Whether a file that the user named has the module's name, or that of its debug file.
fn is_named_like(path: &Path, module: &str) -> bool {
    name_of(module).is_some_and(|name| {
        path.file_name() == Some(name.as_os_str()) || path.file_name() == Some(debug_name(name).as_os_str())
    })
}

fn debug_name(name: &Path) -> PathBuf {
    let mut name = name.as_os_str().to_owned();
    name.push(".debug");
    PathBuf::from(name)
}

fn in_folder(folder: &Path, subfolders: &[PathBuf], module: &Module<'_>) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    paths.extend(plain(Path::new(module.path)).map(|below| folder.join(below)));
    let names = name_of(module.path).map(|name| [name.to_owned(), debug_name(name)]);
    let names: Vec<_> = names.into_iter().flatten().collect();
    paths.extend(names.iter().map(|name| folder.join(name)));
    paths.extend(by_build_id(folder, module.build_id));
    paths.extend(by_build_id(&folder.join(&SYSTEM[1..]), module.build_id));
    paths.extend(subfolders.iter().flat_map(|below| names.iter().map(|name| below.join(name))));
    paths
}

/// `path` without its root, if every part of it is a name.
fn plain(path: &Path) -> Option<PathBuf> {
    let parts = path.components().filter(|part| *part != Component::RootDir);
    let names = parts.map(|part| if let Component::Normal(name) = part { Some(name) } else { None });
    names.collect::<Option<PathBuf>>().filter(|path| !path.as_os_str().is_empty())
}

/// Where a debug file lies that is kept by build id.
fn by_build_id(folder: &Path, id: &str) -> Option<PathBuf> {
    let is_id = (4..=128).contains(&id.len()) && id.bytes().all(|digit| digit.is_ascii_hexdigit());
    let id = id.to_ascii_lowercase();
    is_id.then(|| folder.join(".build-id").join(&id[..2]).join(format!("{}.debug", &id[2..])))
}

/// The folders in `folder`, in order; none if it cannot be read.
fn subfolders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut paths: Vec<_> = folders.map(|entry| entry.path()).collect();
    paths.sort_unstable();
    paths.truncate(MAX_SUBFOLDERS);
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(place: Place, path: &str, build_id: &str) -> (Vec<String>, Why) {
        let (found, why) = Shelves::new(vec![place]).candidates(&Module { path, build_id });
        let text = |candidate: Candidate| candidate.path.to_string_lossy().replace('\\', "/");
        (found.into_iter().map(text).collect(), why)
    }

    #[test]
    fn a_trace_leads_to_absolute_paths_with_a_build_id() {
        let (found, _) = paths(Place::Recorded, "/opt/lib/liba.so", "ABCDEF");
        assert_eq!(found, ["/opt/lib/liba.so", "/usr/lib/debug/.build-id/ab/cdef.debug"]);
        assert_eq!(paths(Place::Recorded, "/opt/lib/liba.so", ""), (vec![], Why::NoBuildId));
        for path in ["", "liba.so", "./liba.so", "../liba.so", "//host/share/liba.so", "linux-vdso.so.1"] {
            assert_eq!(paths(Place::Recorded, path, "abcdef"), (vec![], Why::NotAbsolute), "{path}");
        }
        // What is no number leads nowhere else.
        assert_eq!(paths(Place::Recorded, "/a", "../../../etc/x").0, ["/a"]);
    }

    #[test]
    fn a_path_is_a_folder_or_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("liba.so");
        assert!(Place::at(&file).is_err_and(|error| error.to_string().contains("No such file")));
        fs::write(&file, "").unwrap();
        assert_eq!(Place::at(&file).unwrap(), Place::File(file));
        assert_eq!(Place::at(folder.path()).unwrap(), Place::Folder(folder.path().to_owned()));
        assert!(!cfg!(unix) || Place::at(Path::new("/dev/null")).is_err());
    }

    #[test]
    fn a_folder_is_not_left() {
        let folder = || Place::Folder(PathBuf::from("/none/here"));
        let (found, _) = paths(folder(), "/opt/lib/liba.so", "abcdef");
        let expected = [
            "/none/here/opt/lib/liba.so",
            "/none/here/liba.so",
            "/none/here/liba.so.debug",
            "/none/here/.build-id/ab/cdef.debug",
            "/none/here/usr/lib/debug/.build-id/ab/cdef.debug",
        ];
        assert_eq!(found, expected);
        assert_eq!(
            paths(folder(), "/../../etc/shadow", "").0,
            ["/none/here/shadow", "/none/here/shadow.debug"]
        );
        assert!(paths(folder(), "/opt/..", "").0.is_empty());
        assert!(paths(folder(), "", "").0.is_empty());
    }

    #[test]
    fn a_link_is_a_plain_name() {
        let shelves = Shelves::new(vec![Place::Recorded]);
        let binary = Candidate { path: PathBuf::from("/opt/lib/liba.so"), place: 0, is_meant: true };
        let found = shelves.linked(&binary, "liba.debug");
        let expected =
            ["/opt/lib/liba.debug", "/opt/lib/.debug/liba.debug", "/usr/lib/debug/opt/lib/liba.debug"];
        assert!(found.iter().map(|found| found.path.as_path()).eq(expected.iter().map(Path::new)));
        for link in ["", "..", "../x", "/etc/x", "a/b"] {
            assert!(shelves.linked(&binary, link).is_empty(), "{link}");
        }
    }
}
