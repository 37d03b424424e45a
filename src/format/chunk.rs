//! The one shape that every top-level value of a file has.
//!
//! Owns the chunk: a seven-element array that begins with a fixed byte pattern and ends with a checksum over
//! all bytes before it. Does not know what the kinds of chunk mean.

use std::io;

use super::codec::{Codec, Unpacker};
use super::cursor::{Cursor, Fault, Parse};
use super::packer::Packer;
use super::{MAX_FACTS, MAX_RAW};

/// The first bytes of every chunk: an array of seven whose first element is the text `memlab`.
pub(super) const MAGIC: [u8; 8] = *b"\x97\xa6memlab";

/// What a chunk holds. The numbers are the file's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Header = 0,
    Tables = 1,
    Events = 2,
    Segments = 3,
    Settings = 4,
    Annotations = 5,
    Process = 6,
    Marks = 7,
    Tensors = 8,
    Holders = 9,
    Warnings = 10,
    Samples = 11,
    Reduced = 12,
    Live = 13,
    Driver = 14,
    Trailer = 15,
    Native = 16,
}

impl Kind {
    const ALL: [Self; 17] = [
        Self::Header,
        Self::Tables,
        Self::Events,
        Self::Segments,
        Self::Settings,
        Self::Annotations,
        Self::Process,
        Self::Marks,
        Self::Tensors,
        Self::Holders,
        Self::Warnings,
        Self::Samples,
        Self::Reduced,
        Self::Live,
        Self::Driver,
        Self::Trailer,
        Self::Native,
    ];

    /// The kind with this number, if this version knows it.
    pub(super) fn from_number(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u64 == number)
    }
}

/// A chunk in the file: bounds kept, contents not yet looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk<'a> {
    /// Offset of its first byte.
    pub(super) offset: usize,
    /// Offset behind its last byte.
    pub(super) end: usize,
    /// Number of its kind, known or not.
    pub(super) kind: u64,
    codec: u64,
    /// Length of the unpacked payload, at most [`MAX_RAW`].
    pub(super) raw_len: usize,
    /// One packed map, uncompressed.
    pub(super) facts: &'a [u8],
    payload: &'a [u8],
    /// What the checksum is of.
    checked: &'a [u8],
    checksum: u64,
}

impl<'a> Chunk<'a> {
    /// The chunk at `offset`, its checksum right.
    pub(super) fn parse(bytes: &'a [u8], offset: usize) -> Parse<Self> {
        let chunk = Self::frame(bytes, offset)?;
        chunk.check()?;
        Ok(chunk)
    }

    /// As [`Chunk::parse`], but the payload is not touched: whether the checksum is right is for
    /// [`Chunk::check`] to say.
    pub(super) fn frame(bytes: &'a [u8], offset: usize) -> Parse<Self> {
        let rest = bytes.get(offset..).unwrap_or_default();
        if rest.len() < MAGIC.len() && MAGIC.starts_with(rest) {
            return Err(Fault::Incomplete);
        }
        if !rest.starts_with(&MAGIC) {
            return Err(Fault::Wrong("no chunk begins here"));
        }
        let mut cursor = Cursor::new(bytes, offset + MAGIC.len());
        let kind = cursor.uint()?;
        let codec = cursor.uint()?;
        let raw_len = usize::try_from(cursor.uint()?).unwrap_or(usize::MAX);
        if raw_len > MAX_RAW {
            return Err(Fault::Wrong("a payload over 16 MiB"));
        }
        let facts = facts(bytes, &mut cursor)?;
        let payload = payload(&mut cursor)?;
        let checked = cursor.since(offset);
        let checksum = cursor.uint()?;
        let end = cursor.position();
        Ok(Self { offset, end, kind, codec, raw_len, facts, payload, checked, checksum })
    }

    /// Computes the checksum.
    pub(super) fn check(&self) -> Parse<()> {
        if self.checksum == u64::from(crc32fast::hash(self.checked)) {
            Ok(())
        } else {
            Err(Fault::Wrong("the checksum does not match"))
        }
    }

    /// Length of the payload as stored.
    #[cfg(test)]
    pub(super) fn payload_length(&self) -> usize {
        self.payload.len()
    }

    /// The unpacked payload.
    pub(super) fn unpack<'s>(&self, unpacker: &'s mut Unpacker) -> Parse<&'s [u8]>
    where
        'a: 's,
    {
        let codec = Codec::from_number(self.codec).ok_or(Fault::Wrong("a codec that is not known"))?;
        unpacker.unpack(codec, self.payload, self.raw_len)
    }

    /// The first `bytes` of the unpacked payload, or all where it is shorter. Whether the rest unpacks is not
    /// looked at.
    pub(super) fn unpack_start<'s>(&self, bytes: usize, unpacker: &'s mut Unpacker) -> Parse<&'s [u8]>
    where
        'a: 's,
    {
        let codec = Codec::from_number(self.codec).ok_or(Fault::Wrong("a codec that is not known"))?;
        unpacker.unpack_start(codec, self.payload, bytes.min(self.raw_len))
    }
}

fn facts<'a>(bytes: &'a [u8], cursor: &mut Cursor<'a>) -> Parse<&'a [u8]> {
    let start = cursor.position();
    let limit = bytes.len().min(start + MAX_FACTS);
    let mut within = Cursor::new(&bytes[..limit], start);
    within.clone().map()?;
    match within.skip() {
        Err(Fault::Incomplete) if limit < bytes.len() => Err(Fault::Wrong("facts over 64 KiB")),
        Err(fault) => Err(fault),
        Ok(()) => {
            *cursor = Cursor::new(bytes, within.position());
            Ok(cursor.since(start))
        }
    }
}

fn payload<'a>(cursor: &mut Cursor<'a>) -> Parse<&'a [u8]> {
    let length = cursor.bin_length()?;
    // A length that no chunk may have is a lie, not a file that ends early.
    if length > MAX_RAW { Err(Fault::Wrong("a payload over 16 MiB")) } else { cursor.take(length) }
}

/// Packs a chunk; the payload is compressed unless that makes it longer.
///
/// # Errors
/// What the compressor says, or that a bound of the format is passed.
pub(super) fn pack(
    kind: Kind,
    facts: &[u8],
    payload: &[u8],
    codec: Codec,
    level: i32,
) -> io::Result<Vec<u8>> {
    if payload.len() > MAX_RAW || facts.len() > MAX_FACTS {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "one record is larger than a chunk may be"));
    }
    let packed = if payload.is_empty() { Vec::new() } else { codec.compress(payload, level)? };
    let (codec, stored) =
        if packed.len() < payload.len() { (codec, packed.as_slice()) } else { (Codec::None, payload) };
    let mut chunk = Packer::default();
    chunk.raw(&MAGIC).uint(kind as u64).uint(codec as u64).uint(payload.len() as u64);
    chunk.raw(facts).bin(stored);
    let checksum = crc32fast::hash(chunk.bytes());
    chunk.uint(checksum.into());
    Ok(chunk.into_bytes())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_chunk_is_read_as_it_was_packed() {
        let payload = vec![7u8; 1000];
        for codec in [Codec::None, Codec::Zstd, Codec::Zlib] {
            let bytes = pack(Kind::Marks, &[0x80], &payload, codec, 3).unwrap();
            let chunk = Chunk::parse(&bytes, 0).unwrap();
            assert_eq!((chunk.offset, chunk.end, chunk.kind), (0, bytes.len(), Kind::Marks as u64));
            assert_eq!(chunk.unpack(&mut Unpacker::default()).unwrap(), payload);
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let bytes = pack(Kind::Marks, &[0x80], b"some payload", Codec::None, 0).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Chunk::parse(&damaged, 0).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn every_cut_is_incomplete_and_no_lie_about_lengths_is() {
        let bytes = pack(Kind::Marks, &[0x80], b"some payload", Codec::None, 0).unwrap();
        for length in 0..bytes.len() {
            assert_eq!(Chunk::parse(&bytes[..length], 0).unwrap_err(), Fault::Incomplete, "{length}");
        }
        let mut lie = [&MAGIC[..], &[7, 0, 5, 0x80, 0xc6, 0xff, 0xff, 0xff, 0xff]].concat();
        assert!(matches!(Chunk::parse(&lie, 0), Err(Fault::Wrong(_))));
        lie.truncate(MAGIC.len());
        lie.extend([7, 0, 0xce, 0xff, 0xff, 0xff, 0xff]);
        assert!(matches!(Chunk::parse(&lie, 0), Err(Fault::Wrong(_))));
    }
}
