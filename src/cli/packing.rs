//! Compression around a snapshot, as its name asks for it.

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::export;
use crate::model::Trace;

/// What a snapshot is packed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Plain,
    Gzip,
    Zstd,
}

impl Packing {
    /// By the last ending of a name.
    pub(crate) fn of(path: &Path) -> Self {
        match path.extension().and_then(std::ffi::OsStr::to_str) {
            Some("gz") => Self::Gzip,
            Some("zst") => Self::Zstd,
            _ => Self::Plain,
        }
    }
}

/// Writes `trace` as a PyTorch snapshot.
pub(crate) fn write_snapshot(trace: &Trace, packing: Packing, mut out: &mut dyn Write) -> anyhow::Result<()> {
    match packing {
        Packing::Plain => export::write_snapshot(trace, out)?,
        Packing::Gzip => {
            let mut packed = GzEncoder::new(&mut out, Compression::default());
            export::write_snapshot(trace, &mut packed)?;
            packed.finish()?;
        }
        Packing::Zstd => {
            let mut packed = zstd::Encoder::new(&mut out, 0)?;
            packed.include_checksum(true)?;
            export::write_snapshot(trace, &mut packed)?;
            packed.finish()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ending_says_it() {
        let of = |name: &str| Packing::of(Path::new(name));
        assert_eq!(of("a.pickle"), Packing::Plain);
        assert_eq!(of("a.b.pickle.gz"), Packing::Gzip);
        assert_eq!(of("a.pickle.zst"), Packing::Zstd);
        assert_eq!(of("zst"), Packing::Plain);
    }
}
