//! The bytes of a pickle and the place in them.

use crate::error::{Error, Result};

/// A reader that never passes the end and remembers when it was asked to.
pub(super) struct Cursor<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
    /// Whether the bytes ended inside an opcode or before STOP.
    pub(super) ended: bool,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, ended: false }
    }

    #[cold]
    fn end(&mut self) -> Error {
        self.ended = true;
        Error::corrupt(self.bytes.len(), "the pickle ends before it is complete")
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8> {
        let Some(&byte) = self.bytes.get(self.at) else { return Err(self.end()) };
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let Some(taken) = self.bytes.get(self.at..).and_then(|rest| rest.get(..count)) else {
            return Err(self.end());
        };
        self.at += count;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some((array, _)) = self.bytes.get(self.at..).and_then(<[u8]>::split_first_chunk) else {
            return Err(self.end());
        };
        self.at += N;
        Ok(*array)
    }

    #[inline]
    pub(super) fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    #[inline]
    pub(super) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Big-endian, as BINFLOAT has it.
    pub(super) fn f64(&mut self) -> Result<f64> {
        Ok(f64::from_be_bytes(self.array()?))
    }

    /// A counted piece: `width` bytes of length, then so many bytes.
    #[inline]
    pub(super) fn counted(&mut self, width: u8) -> Result<&'a [u8]> {
        let count = match width {
            1 => u64::from(self.byte()?),
            4 => u64::from(self.u32()?),
            _ => self.u64()?,
        };
        self.take(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// A line of text, without its end.
    pub(super) fn line(&mut self) -> Result<&'a [u8]> {
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        let Some(length) = rest.iter().position(|&byte| byte == b'\n') else { return Err(self.end()) };
        self.at += length + 1;
        let line = &rest[..length];
        Ok(line.strip_suffix(b"\r").unwrap_or(line))
    }
}
