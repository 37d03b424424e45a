//! Where bytes come from: a mapped file, or standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use memmap2::Mmap;

use crate::error::{Error, Result};

use super::ReadOptions;

/// The bytes of a file as they lie on disk.
pub(super) enum Source {
    Mapped(Mmap),
    Read(Vec<u8>),
}

impl Source {
    /// Whether bytes that nobody looks at are not read.
    pub(super) fn is_mapped(&self) -> bool {
        matches!(self, Self::Mapped(_))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Read(bytes) => bytes,
        }
    }
}

/// Opens `path`, or standard input for `-`.
pub(super) fn open(path: &Path, options: &ReadOptions) -> Result<Source> {
    if path.as_os_str() == "-" {
        return read_all(io::stdin().lock(), options);
    }
    let file = File::open(path)?;
    let facts = file.metadata()?;
    if facts.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory").into());
    }
    if !facts.is_file() || facts.len() == 0 {
        // A pipe, a device, or a file of /proc that does not tell its size.
        return read_all(file, options);
    }
    map(&file)
}

fn map(file: &File) -> Result<Source> {
    #[expect(
        unsafe_code,
        reason = "a mapping reads twice as fast as a copy and costs no memory; the file is opened for reading \
                  only, and a file that someone shortens meanwhile ends the program (SIGBUS) as it would end any \
                  reader of mapped files: no memory is corrupted"
    )]
    // SAFETY: the map is read-only and private to this process; the bytes are treated as untrusted, so a
    // change by another process can at worst give a wrong result or an error.
    let map = unsafe { Mmap::map(file)? };
    Ok(Source::Mapped(map))
}

fn read_all(mut input: impl Read, options: &ReadOptions) -> Result<Source> {
    let mut bytes = Vec::new();
    input.by_ref().take(options.max_bytes).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == options.max_bytes && input.read(&mut [0])? > 0 {
        let (what, limit) = ("bytes of the input", options.max_bytes);
        return Err(Error::LimitExceeded { what, value: limit.saturating_add(1), limit, offset: limit });
    }
    Ok(Source::Read(bytes))
}
