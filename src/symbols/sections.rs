//! The sections of debug data, unpacked where they are compressed.
//!
//! Owns the bounds of unpacking; only sections that functions and lines need are looked at.

use std::borrow::Cow;
use std::io::Read;

use addr2line::gimli::{DwarfSections, SectionId};
use object::read::{CompressedData, CompressionFormat};
use object::{Object as _, ObjectSection as _};

/// A compressed section may become this much, in bytes, and as many times its size: real debug data is packed
/// to between a half and a tenth.
const SMALL: u64 = 32 << 20;
const TIMES: u64 = 64;

/// What all compressed sections of a file may become together, in bytes.
const MAX_UNPACKED: u64 = 4 << 30;

/// The sections, borrowed from the file or unpacked.
pub(super) type Sections<'a> = DwarfSections<Cow<'a, [u8]>>;

/// Finds the sections of `file`; an absent one is empty.
pub(super) fn load<'a>(file: &object::File<'a>) -> Result<Sections<'a>, String> {
    let mut left = MAX_UNPACKED;
    DwarfSections::load(|id| {
        if !is_needed(id) {
            return Ok(Cow::Borrowed(&[][..]));
        }
        let name = id.name();
        let Some(section) = file.section_by_name(name) else {
            return Ok(Cow::Borrowed(&[][..]));
        };
        let data = section.compressed_data().map_err(|error| format!("{name}: {error}"))?;
        let bytes = unpack(&data, left).map_err(|what| format!("{name}: {what}"))?;
        if let Cow::Owned(unpacked) = &bytes {
            left = left.saturating_sub(unpacked.len() as u64);
        }
        Ok(bytes)
    })
}

fn is_needed(id: SectionId) -> bool {
    matches!(
        id,
        SectionId::DebugAbbrev
            | SectionId::DebugAddr
            | SectionId::DebugAranges
            | SectionId::DebugInfo
            | SectionId::DebugLine
            | SectionId::DebugLineStr
            | SectionId::DebugStr
            | SectionId::DebugStrOffsets
            | SectionId::DebugRanges
            | SectionId::DebugRngLists
    )
}

/// The bytes of a section, of which at most `left` may be new.
fn unpack<'a>(data: &CompressedData<'a>, left: u64) -> Result<Cow<'a, [u8]>, String> {
    if data.format == CompressionFormat::None {
        return Ok(Cow::Borrowed(data.data));
    }
    let limit = left.min(SMALL + TIMES * data.data.len() as u64);
    if data.uncompressed_size > limit {
        return Err(format!(
            "it would unpack to {} bytes, over the limit of {limit}",
            data.uncompressed_size
        ));
    }
    let mut bytes = Vec::new();
    let read = match data.format {
        CompressionFormat::Zlib => {
            flate2::read::ZlibDecoder::new(data.data).take(limit).read_to_end(&mut bytes)
        }
        CompressionFormat::Zstandard => {
            zstd::Decoder::new(data.data).and_then(|decoder| decoder.take(limit).read_to_end(&mut bytes))
        }
        _ => return Err("a compression that is not known".to_owned()),
    };
    read.map_err(|error| error.to_string())?;
    if bytes.len() as u64 != data.uncompressed_size {
        return Err("it unpacks to another size than it states".to_owned());
    }
    Ok(Cow::Owned(bytes))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn packed(format: CompressionFormat, data: &[u8], uncompressed_size: u64) -> CompressedData<'_> {
        CompressedData { format, data, uncompressed_size }
    }

    #[test]
    fn both_compressions_are_unpacked() {
        let text = b"functions and lines".repeat(100);
        let size = text.len() as u64;
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        zlib.write_all(&text).unwrap();
        let zlib = zlib.finish().unwrap();
        let zstd = zstd::encode_all(&text[..], 1).unwrap();
        for (format, data) in [(CompressionFormat::Zlib, &zlib), (CompressionFormat::Zstandard, &zstd)] {
            assert_eq!(unpack(&packed(format, data, size), MAX_UNPACKED).unwrap(), text);
            assert!(unpack(&packed(format, data, size - 1), MAX_UNPACKED).is_err());
            assert!(unpack(&packed(format, data, size), size - 1).is_err_and(|what| what.contains("limit")));
            assert!(unpack(&packed(format, &data[..data.len() / 2], size), MAX_UNPACKED).is_err());
        }
    }

    #[test]
    fn a_stated_size_alone_takes_no_memory() {
        let bomb = packed(CompressionFormat::Zlib, &[0; 100], 1 << 40);
        assert!(unpack(&bomb, u64::MAX).is_err_and(|what| what.contains("over the limit")));
    }
}
