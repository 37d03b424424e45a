//! Logs: text of any size, unpacked while it is read.
//!
//! Owns telling gzip, zstd and UTF-16 (which PowerShell writes) from plain text by their first bytes. Never
//! holds more than a buffer of it.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::error::Result;

use super::ReadOptions;
use super::unpack::{GZIP, ZSTD, ZSTD_WINDOW_LOG_MAX};

/// Opens the log at `path`, or standard input for `-`; what is read from it is unpacked.
///
/// # Errors
/// When it cannot be opened.
pub fn open_log(path: &Path, options: &ReadOptions) -> Result<Box<dyn Read>> {
    if path.as_os_str() == "-" {
        return unpacked(io::stdin().lock(), options);
    }
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory").into());
    }
    unpacked(file, options)
}

/// The text that `input` holds.
///
/// # Errors
/// Those of its first bytes.
pub(super) fn unpacked(input: impl Read + 'static, options: &ReadOptions) -> Result<Box<dyn Read>> {
    let (start, input) = peek(input)?;
    let plain: Box<dyn Read> = if start.starts_with(GZIP) {
        Box::new(MultiGzDecoder::new(BufReader::new(input)))
    } else if start.starts_with(ZSTD) {
        let mut decoder = zstd::stream::read::Decoder::new(input)?;
        decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
        Box::new(decoder)
    } else {
        Box::new(input)
    };
    let bounded = Bounded { input: plain, left: options.max_bytes };
    let (start, text) = peek(bounded)?;
    Ok(match start.as_slice() {
        [0xff, 0xfe, ..] => Box::new(Utf16::new(text, u16::from_le_bytes)),
        [0xfe, 0xff, ..] => Box::new(Utf16::new(text, u16::from_be_bytes)),
        _ => Box::new(text),
    })
}

/// The first four bytes of `input`, or as many as it has, and all of it again.
fn peek<R: Read>(mut input: R) -> io::Result<(Vec<u8>, impl Read)> {
    let mut start = Vec::new();
    input.by_ref().take(4).read_to_end(&mut start)?;
    Ok((start.clone(), Cursor::new(start).chain(input)))
}

/// Refuses to go on without end.
struct Bounded<R> {
    input: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.left = self
            .left
            .checked_sub(read as u64)
            .ok_or_else(|| io::Error::other("it is larger than memlab reads"))?;
        Ok(read)
    }
}

/// UTF-16 as UTF-8, less the mark at its start; what is no text becomes U+FFFD.
struct Utf16<R> {
    units: BufReader<R>,
    from_bytes: fn([u8; 2]) -> u16,
    /// The first half of a pair.
    high: Option<u16>,
    ready: Cursor<Vec<u8>>,
}

impl<R: Read> Utf16<R> {
    fn new(input: R, from_bytes: fn([u8; 2]) -> u16) -> Self {
        Self { units: BufReader::new(input), from_bytes, high: None, ready: Cursor::default() }
    }

    /// Decodes some more; nothing is ready afterwards only at the end.
    fn decode(&mut self) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(16 << 10);
        self.units.by_ref().take(16 << 10).read_to_end(&mut bytes)?;
        let is_last = bytes.is_empty();
        let units = bytes.chunks_exact(2).map(|pair| (self.from_bytes)([pair[0], pair[1]]));
        let mut units: Vec<u16> = self.high.take().into_iter().chain(units).collect();
        // Half of a pair waits for the other half.
        self.high = units.pop_if(|unit| !is_last && (0xd800..0xdc00).contains(unit));
        let text: String = char::decode_utf16(units)
            .map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER))
            .filter(|character| *character != '\u{feff}')
            .collect();
        self.ready = Cursor::new(text.into_bytes());
        Ok(())
    }
}

impl<R: Read> Read for Utf16<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.ready.read(buffer)?;
        if read > 0 || buffer.is_empty() {
            return Ok(read);
        }
        self.decode()?;
        self.ready.read(buffer)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn text(bytes: Vec<u8>) -> io::Result<String> {
        let mut text = String::new();
        let mut log = unpacked(Cursor::new(bytes), &ReadOptions::default()).map_err(io::Error::other)?;
        log.read_to_string(&mut text).map(|_| text)
    }

    #[test]
    fn packed_and_plain_text_are_the_same() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(b"one\ntwo\n").unwrap();
        let zstd = zstd::stream::encode_all(&b"one\ntwo\n"[..], 1).unwrap();
        for bytes in [b"one\ntwo\n".to_vec(), gzip.finish().unwrap(), zstd] {
            assert_eq!(text(bytes).unwrap(), "one\ntwo\n");
        }
        assert_eq!(text(Vec::new()).unwrap(), "");
        assert_eq!(text(b"x".to_vec()).unwrap(), "x");
    }

    #[test]
    fn utf_16_is_read_in_either_order() {
        let long = "größe 😀 ".repeat(5_000);
        for text_in in ["", "one\n", &long] {
            let units = || std::iter::once(0xfeff).chain(text_in.encode_utf16());
            let little: Vec<u8> = units().flat_map(u16::to_le_bytes).collect();
            let big: Vec<u8> = units().flat_map(u16::to_be_bytes).collect();
            assert_eq!(text(little).unwrap(), *text_in);
            assert_eq!(text(big).unwrap(), *text_in);
        }
    }

    #[test]
    fn what_is_cut_is_read_up_to_the_cut() {
        let whole = zstd::stream::encode_all(&b"one\n".repeat(100_000)[..], 1).unwrap();
        let mut log =
            unpacked(Cursor::new(whole[..whole.len() - 4].to_vec()), &ReadOptions::default()).unwrap();
        let mut read = Vec::new();
        assert!(log.read_to_end(&mut read).is_err());
        assert!(read.starts_with(b"one\n"));
    }

    #[test]
    fn there_is_a_limit() {
        let options = ReadOptions { max_bytes: 10, ..ReadOptions::default() };
        let mut log = unpacked(io::repeat(b'x'), &options).unwrap();
        assert!(log.read_to_end(&mut Vec::new()).unwrap_err().to_string().contains("larger"));
    }
}
