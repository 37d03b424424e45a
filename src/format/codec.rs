//! How a chunk's payload is compressed.
//!
//! Owns the codec numbers and bounded decompression: output never grows over the length that the chunk
//! states, and that length is bounded before this module sees it.

use std::io::{self, Read, Write};

use super::cursor::{Fault, Parse};

/// Compression of a chunk's payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Codec {
    /// As it is.
    None = 0,
    /// Zstandard: one frame per payload.
    #[default]
    Zstd = 1,
    /// zlib (RFC 1950), for writers without Zstandard.
    Zlib = 2,
}

impl Codec {
    /// The codec with this number in the file.
    pub(super) fn from_number(number: u64) -> Option<Self> {
        [Self::None, Self::Zstd, Self::Zlib].into_iter().find(|codec| *codec as u64 == number)
    }

    /// Packs `raw`. The same input and level give the same bytes.
    pub(super) fn compress(self, raw: &[u8], level: i32) -> io::Result<Vec<u8>> {
        match self {
            Self::None => Ok(raw.to_vec()),
            Self::Zstd => zstd::bulk::compress(raw, level),
            Self::Zlib => {
                let level = flate2::Compression::new(level.clamp(0, 9) as u32);
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
                encoder.write_all(raw)?;
                encoder.finish()
            }
        }
    }
}

fn start_of(decoder: impl Read, bytes: usize, raw: &mut Vec<u8>) -> io::Result<()> {
    raw.clear();
    raw.reserve(bytes);
    decoder.take(bytes as u64).read_to_end(raw).map(drop)
}

/// Buffers and contexts that one thread reuses from chunk to chunk.
#[derive(Default)]
pub(super) struct Unpacker {
    raw: Vec<u8>,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

impl Unpacker {
    /// The payload of exactly `raw_len` bytes. `raw_len` has been bounded by the caller.
    pub(super) fn unpack<'s>(
        &'s mut self,
        codec: Codec,
        stored: &'s [u8],
        raw_len: usize,
    ) -> Parse<&'s [u8]> {
        let raw = match codec {
            Codec::None => stored,
            Codec::Zstd => {
                self.unpack_zstd(stored, raw_len).ok_or(Fault::Wrong("zstd data that does not unpack"))?;
                &self.raw
            }
            Codec::Zlib => {
                self.raw.clear();
                // One byte more than stated, so that a longer stream is noticed without being unpacked.
                let limit = raw_len as u64 + 1;
                let decoder = flate2::read::ZlibDecoder::new(stored);
                decoder
                    .take(limit)
                    .read_to_end(&mut self.raw)
                    .map_err(|_| Fault::Wrong("zlib data that does not unpack"))?;
                &self.raw
            }
        };
        if raw.len() == raw_len {
            Ok(raw)
        } else {
            Err(Fault::Wrong("a payload of another length than stated"))
        }
    }

    /// The first `bytes` of a payload that has as many.
    pub(super) fn unpack_start<'s>(
        &'s mut self,
        codec: Codec,
        stored: &'s [u8],
        bytes: usize,
    ) -> Parse<&'s [u8]> {
        let done = match codec {
            Codec::None => return stored.get(..bytes).ok_or(Fault::Wrong("a payload shorter than stated")),
            Codec::Zstd => zstd::stream::read::Decoder::with_buffer(stored)
                .and_then(|decoder| start_of(decoder, bytes, &mut self.raw)),
            Codec::Zlib => start_of(flate2::read::ZlibDecoder::new(stored), bytes, &mut self.raw),
        };
        if done.is_ok() && self.raw.len() == bytes {
            Ok(&self.raw)
        } else {
            Err(Fault::Wrong("packed data that does not unpack"))
        }
    }

    fn unpack_zstd(&mut self, stored: &[u8], raw_len: usize) -> Option<()> {
        if self.zstd.is_none() {
            self.zstd = zstd::bulk::Decompressor::new().ok();
        }
        self.raw.clear();
        self.raw.reserve(raw_len);
        let written = self.zstd.as_mut()?.decompress_to_buffer(stored, &mut self.raw).ok()?;
        (written == self.raw.len()).then_some(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_codec_gives_back_what_it_got() {
        let raw: Vec<u8> = (0..50_000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        for codec in [Codec::None, Codec::Zstd, Codec::Zlib] {
            let stored = codec.compress(&raw, 3).unwrap();
            assert_eq!(codec.compress(&raw, 3).unwrap(), stored);
            let mut unpacker = Unpacker::default();
            assert_eq!(unpacker.unpack(codec, &stored, raw.len()).unwrap(), raw);
            assert!(unpacker.unpack(codec, &stored, raw.len() - 1).is_err(), "{codec:?} longer than stated");
            assert!(unpacker.unpack(codec, &stored, raw.len() + 1).is_err(), "{codec:?} shorter than stated");
            assert_eq!(Codec::from_number(codec as u64), Some(codec));
        }
    }

    #[test]
    fn a_bomb_is_not_unpacked_beyond_its_stated_length() {
        let bomb = vec![0u8; 64 << 20];
        for codec in [Codec::Zstd, Codec::Zlib] {
            let stored = codec.compress(&bomb, 1).unwrap();
            let mut unpacker = Unpacker::default();
            assert!(unpacker.unpack(codec, &stored, 1000).is_err());
            assert!(unpacker.raw.capacity() < 1 << 20, "{}", unpacker.raw.capacity());
        }
    }
}
