//! Files that memlab writes: checked before the work, whole or not at all.
//!
//! A file is written under a temporary name in its own folder and renamed when complete, so nobody ever
//! sees half of it, and a failed run leaves the old one alone. Nothing is overwritten unless asked for, and
//! what is no regular file never is.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tempfile::NamedTempFile;

use super::console::shown;
use super::failure::refuse;

/// A file in the making. Dropped before [`Pending::commit`], it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Pending {
    path: PathBuf,
    overwrite: bool,
    file: BufWriter<NamedTempFile>,
}

impl Pending {
    /// Begins the file `path`, after making sure that it may and can be written.
    pub(crate) fn create(path: &Path, overwrite: bool) -> anyhow::Result<Self> {
        check_free(path, overwrite)?;
        let folder = folder_of(path);
        if !folder.is_dir() {
            let message = format!("cannot write {}: there is no folder {}", shown(path), folder.display());
            return Err(refuse(message, "create the folder first"));
        }
        let file = temporary_in(folder).with_context(|| format!("cannot write {}", shown(path)))?;
        Ok(Self { path: path.to_owned(), overwrite, file: BufWriter::with_capacity(1 << 16, file) })
    }

    /// Where the content goes.
    pub(crate) fn writer(&mut self) -> &mut impl Write {
        &mut self.file
    }

    /// Puts the file in its place and says how long it is, in bytes.
    pub(crate) fn commit(self) -> anyhow::Result<u64> {
        let path = self.path.clone();
        self.put_in_place().with_context(|| format!("failed to write {}", shown(&path)))
    }

    fn put_in_place(self) -> io::Result<u64> {
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        let bytes = file.as_file().metadata()?.len();
        // Without `overwrite` a file that appeared in the meantime survives.
        let placed =
            if self.overwrite { file.persist(&self.path) } else { file.persist_noclobber(&self.path) };
        placed.map(|_| bytes).map_err(|error| error.error)
    }
}

/// Writes a whole file at once and says how long it is, in bytes.
pub(crate) fn write(path: &Path, content: &[u8], overwrite: bool) -> anyhow::Result<u64> {
    let mut pending = Pending::create(path, overwrite)?;
    pending.writer().write_all(content).with_context(|| format!("failed to write {}", shown(path)))?;
    pending.commit()
}

/// Refuses when `path` exists and must not be replaced.
pub(crate) fn check_free(path: &Path, overwrite: bool) -> anyhow::Result<()> {
    let Ok(found) = fs::metadata(path) else { return Ok(()) };
    if !found.is_file() {
        let kind = if found.is_dir() { "a folder" } else { "no regular file" };
        let message = format!("cannot write {}: it is {kind}", shown(path));
        return Err(refuse(message, "name a file that memlab may create"));
    }
    if overwrite {
        return Ok(());
    }
    Err(refuse(format!("{} exists already", shown(path)), "use --force to replace it, or write elsewhere"))
}

/// Makes sure that `folder` can be created or, if it exists, written to; changes nothing.
pub(crate) fn check_folder(folder: &Path) -> anyhow::Result<()> {
    let existing = folder
        .ancestors()
        .map(|ancestor| if ancestor.as_os_str().is_empty() { Path::new(".") } else { ancestor })
        .find(|ancestor| ancestor.exists())
        .unwrap_or(Path::new("."));
    if !existing.is_dir() {
        let message = format!("cannot write to {}: {} is no folder", shown(folder), existing.display());
        return Err(refuse(message, "name a folder with --output"));
    }
    temporary_in(existing).map(drop).with_context(|| format!("cannot write to {}", shown(folder)))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// A temporary file with the permissions of an ordinary one.
fn temporary_in(folder: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".memlab-").suffix(".tmp");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // The process's umask still applies.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_file_leaves_the_old_one_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.svg");
        write(&path, b"old", false).unwrap();
        let mut pending = Pending::create(&path, true).unwrap();
        pending.writer().write_all(b"half of the new").unwrap();
        drop(pending);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_exists_is_replaced_only_by_force() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.svg");
        assert_eq!(write(&path, b"old", false).unwrap(), 3);
        assert!(write(&path, b"new", false).unwrap_err().to_string().contains("exists already"));
        write(&path, b"new", true).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn a_file_that_appears_in_the_meantime_survives() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.svg");
        let pending = Pending::create(&path, false).unwrap();
        fs::write(&path, b"other").unwrap();
        assert!(pending.commit().is_err());
        assert_eq!(fs::read(&path).unwrap(), b"other");
    }

    #[test]
    fn folders_and_devices_are_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        assert!(check_free(folder.path(), true).is_err());
        #[cfg(unix)]
        assert!(check_free(Path::new("/dev/null"), true).is_err());
    }

    #[test]
    fn a_folder_to_be_made_is_checked_at_its_nearest_ancestor() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, b"").unwrap();
        assert!(check_folder(&folder.path().join("new/deep")).is_ok());
        assert!(!folder.path().join("new").exists());
        assert!(check_folder(&file.join("deep")).is_err());
    }
}
