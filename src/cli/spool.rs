//! Texts put aside in any order and taken up in another: too many to hold them all in memory.
//!
//! Owns where they lie: packed, in memory as long as they are few, then in one file without a name that goes away with
//! the process.

use std::io::{Read as _, Seek as _, SeekFrom, Write};
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use tempfile::SpooledTempFile;

/// Bytes, packed, from which on they go to disk.
const MOST_IN_MEMORY: usize = 32 << 20;
/// Fast; reports shrink to a tenth all the same.
const LEVEL: i32 = 1;

/// The texts.
#[derive(Debug)]
pub(crate) struct Spool {
    file: Mutex<SpooledTempFile>,
}

/// Where a text lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    at: u64,
    length: usize,
}

impl Default for Spool {
    fn default() -> Self {
        Self { file: Mutex::new(SpooledTempFile::new(MOST_IN_MEMORY)) }
    }
}

impl Spool {
    /// Puts `text` aside.
    pub(crate) fn put(&self, text: &str) -> anyhow::Result<Slot> {
        let put = || -> std::io::Result<Slot> {
            let packed = zstd::stream::encode_all(text.as_bytes(), LEVEL)?;
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            let at = file.seek(SeekFrom::End(0))?;
            file.write_all(&packed)?;
            Ok(Slot { at, length: packed.len() })
        };
        put().with_context(|| format!("cannot put a report aside in {}", std::env::temp_dir().display()))
    }

    /// Writes the text at `slot` to `out`.
    pub(crate) fn copy(&self, slot: Slot, out: &mut dyn Write) -> anyhow::Result<()> {
        let mut packed = vec![0; slot.length];
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let read = file.seek(SeekFrom::Start(slot.at)).and_then(|_| file.read_exact(&mut packed));
        read.context("cannot read a report that was put aside")?;
        drop(file);
        zstd::stream::copy_decode(packed.as_slice(), out)?;
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back_in_any_order_also_from_disk() {
        let spool = Spool { file: Mutex::new(SpooledTempFile::new(100)) };
        let texts: Vec<String> = (0..50).map(|n| format!("{n} größe ").repeat(n * 7)).collect();
        let slots: Vec<Slot> = texts.iter().map(|text| spool.put(text).unwrap()).collect();
        assert!(spool.file.lock().unwrap().is_rolled());
        for place in [7, 0, 49, 7, 23] {
            let mut out = Vec::new();
            spool.copy(slots[place], &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), texts[place]);
        }
    }
}
