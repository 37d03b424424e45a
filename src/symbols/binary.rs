//! A file as an ELF binary: whether it may be opened, and whether it is the one that was recorded.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use memmap2::Mmap;
use object::Object as _;

use super::outcome::Why;

/// What every ELF file begins with.
const MAGIC: &[u8] = b"\x7fELF";

/// Maps `path` for reading, if it is a regular file.
///
/// It is asked what it is before it is opened: opening waits at a pipe and can do things at a device.
pub(super) fn map(path: &Path) -> Result<Mmap, Why> {
    if !fs::metadata(path).map_err(refused)?.is_file() {
        return Err(Why::NotAFile);
    }
    let file = File::open(path).map_err(refused)?;
    let facts = file.metadata().map_err(refused)?;
    if !facts.is_file() {
        return Err(Why::NotAFile);
    }
    if facts.len() < MAGIC.len() as u64 {
        // An empty file cannot be mapped; files of /proc look empty.
        return Err(Why::NotElf);
    }
    #[expect(
        unsafe_code,
        reason = "binaries have gigabytes, of which little is needed; the file is opened for reading only, and one \
                  that someone shortens meanwhile ends the program (SIGBUS) as it would end any reader of mapped \
                  files: no memory is corrupted"
    )]
    // SAFETY: the map is read-only and private to this process; the bytes are treated as untrusted, so a
    // change by another process can at worst give a wrong result or an error.
    let map = unsafe { Mmap::map(&file) };
    map.map_err(refused)
}

fn refused(error: io::Error) -> Why {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Why::NoFile,
        _ => Why::Unreadable(error.to_string()),
    }
}

/// Reads the headers of `bytes`.
pub(super) fn parse(bytes: &[u8]) -> Result<object::File<'_>, Why> {
    if !bytes.starts_with(MAGIC) {
        return Err(Why::NotElf);
    }
    object::File::parse(bytes).map_err(|error| Why::Damaged(error.to_string()))
}

/// Whether `file` is the build that was `recorded` (in hexadecimal digits, empty for none).
pub(super) fn check(file: &object::File<'_>, recorded: &str) -> Result<(), Why> {
    let found = file.build_id().map_err(|error| Why::Damaged(error.to_string()))?;
    match found.filter(|id| !id.is_empty()) {
        None if recorded.is_empty() => Ok(()),
        None => Err(Why::FileWithoutBuildId),
        Some(id) if is_same(id, recorded) => Ok(()),
        Some(_) => Err(Why::OtherBuild),
    }
}

/// Whether `digits` say `bytes`.
fn is_same(bytes: &[u8], digits: &str) -> bool {
    let value = |digit: &u8| (*digit as char).to_digit(16);
    digits.len() == bytes.len() * 2
        && digits.as_bytes().chunks_exact(2).zip(bytes).all(|(pair, byte)| {
            let (high, low) = (value(&pair[0]), value(&pair[1]));
            high.zip(low).is_some_and(|(high, low)| high * 16 + low == u32::from(*byte))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_compared_as_numbers() {
        assert!(is_same(&[0x0a, 0xff], "0aff") && is_same(&[0x0a, 0xff], "0AFF"));
        for other in ["", "0a", "0afe", "0aff00", "0a f", "+aff", "0afé"] {
            assert!(!is_same(&[0x0a, 0xff], other), "{other}");
        }
    }
}
