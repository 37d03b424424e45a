//! A pull parser for MessagePack over a byte slice.
//!
//! Owns: one token at a time, bounds checked before anything is touched, and skipping whole values without
//! recursion. Allocates nothing. Does not know chunks or keys.

use std::borrow::Cow;

use rmp::Marker;

/// Why a value could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The bytes end inside the value.
    Incomplete,
    /// The bytes are there but say something else than expected.
    Wrong(&'static str),
}

impl Fault {
    /// A sentence fragment.
    pub(super) fn what(self) -> &'static str {
        match self {
            Self::Incomplete => "a value ends early",
            Self::Wrong(what) => what,
        }
    }
}

/// Result with [`Fault`].
pub(super) type Parse<T> = Result<T, Fault>;

/// One MessagePack token. Containers give only their length; their contents are the next tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Nil,
    Bool(bool),
    /// Zero or positive.
    Uint(u64),
    /// Negative.
    Int(i64),
    Float(f64),
    Text(&'a [u8]),
    Bin(&'a [u8]),
    Array(u32),
    Map(u32),
    Ext(u8, &'a [u8]),
}

/// A position in a byte slice.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Starts at `at`; behind the end reads as empty.
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at: at.min(bytes.len()) }
    }

    /// Offset of the next byte.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// The bytes from `start` to here.
    pub(super) fn since(&self, start: usize) -> &'a [u8] {
        &self.bytes[start.min(self.at)..self.at]
    }

    /// The next `count` bytes as they are.
    pub(super) fn take(&mut self, count: usize) -> Parse<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..count).ok_or(Fault::Incomplete)?;
        self.at += count;
        Ok(taken)
    }

    fn unsigned(&mut self, width: usize) -> Parse<u64> {
        Ok(self.take(width)?.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    }

    /// A big-endian two's complement integer of `width` bytes.
    fn signed(&mut self, width: usize) -> Parse<Token<'a>> {
        let unused = 64 - 8 * width as u32;
        let value = (self.unsigned(width)? << unused) as i64 >> unused;
        Ok(u64::try_from(value).map_or(Token::Int(value), Token::Uint))
    }

    fn sized(&mut self, width: usize) -> Parse<&'a [u8]> {
        let length = self.unsigned(width)?;
        self.take(usize::try_from(length).map_err(|_| Fault::Incomplete)?)
    }

    fn ext(&mut self, length: usize) -> Parse<Token<'a>> {
        let kind = self.take(1)?[0];
        Ok(Token::Ext(kind, self.take(length)?))
    }

    /// The next token.
    pub(super) fn token(&mut self) -> Parse<Token<'a>> {
        let marker = Marker::from_u8(self.take(1)?[0]);
        Ok(match marker {
            Marker::Null => Token::Nil,
            Marker::True => Token::Bool(true),
            Marker::False => Token::Bool(false),
            Marker::FixPos(value) => Token::Uint(value.into()),
            Marker::FixNeg(value) => Token::Int(value.into()),
            Marker::U8 => Token::Uint(self.unsigned(1)?),
            Marker::U16 => Token::Uint(self.unsigned(2)?),
            Marker::U32 => Token::Uint(self.unsigned(4)?),
            Marker::U64 => Token::Uint(self.unsigned(8)?),
            Marker::I8 => self.signed(1)?,
            Marker::I16 => self.signed(2)?,
            Marker::I32 => self.signed(4)?,
            Marker::I64 => self.signed(8)?,
            Marker::F32 => Token::Float(f32::from_bits(self.unsigned(4)? as u32).into()),
            Marker::F64 => Token::Float(f64::from_bits(self.unsigned(8)?)),
            Marker::FixStr(length) => Token::Text(self.take(length.into())?),
            Marker::Str8 => Token::Text(self.sized(1)?),
            Marker::Str16 => Token::Text(self.sized(2)?),
            Marker::Str32 => Token::Text(self.sized(4)?),
            Marker::Bin8 => Token::Bin(self.sized(1)?),
            Marker::Bin16 => Token::Bin(self.sized(2)?),
            Marker::Bin32 => Token::Bin(self.sized(4)?),
            Marker::FixArray(length) => Token::Array(length.into()),
            Marker::Array16 => Token::Array(self.unsigned(2)? as u32),
            Marker::Array32 => Token::Array(self.unsigned(4)? as u32),
            Marker::FixMap(length) => Token::Map(length.into()),
            Marker::Map16 => Token::Map(self.unsigned(2)? as u32),
            Marker::Map32 => Token::Map(self.unsigned(4)? as u32),
            Marker::FixExt1 => self.ext(1)?,
            Marker::FixExt2 => self.ext(2)?,
            Marker::FixExt4 => self.ext(4)?,
            Marker::FixExt8 => self.ext(8)?,
            Marker::FixExt16 => self.ext(16)?,
            Marker::Ext8 => self.long_ext(1)?,
            Marker::Ext16 => self.long_ext(2)?,
            Marker::Ext32 => self.long_ext(4)?,
            Marker::Reserved => return Err(Fault::Wrong("a byte that is no MessagePack")),
        })
    }

    fn long_ext(&mut self, width: usize) -> Parse<Token<'a>> {
        let length = self.unsigned(width)?;
        self.ext(usize::try_from(length).map_err(|_| Fault::Incomplete)?)
    }

    /// Passes over one whole value, however deep: a counter instead of recursion.
    pub(super) fn skip(&mut self) -> Parse<()> {
        let mut open: u64 = 1;
        while open > 0 {
            open -= 1;
            match self.token()? {
                Token::Array(length) => open += u64::from(length),
                Token::Map(length) => open += 2 * u64::from(length),
                _ => {}
            }
        }
        Ok(())
    }

    /// A non-negative integer.
    pub(super) fn uint(&mut self) -> Parse<u64> {
        match self.token()? {
            Token::Uint(value) => Ok(value),
            _ => Err(Fault::Wrong("no unsigned integer where one belongs")),
        }
    }

    /// A non-negative integer of up to 32 bits.
    pub(super) fn uint32(&mut self) -> Parse<u32> {
        u32::try_from(self.uint()?).map_err(|_| Fault::Wrong("an integer over 32 bits"))
    }

    /// Any integer as 64 bits, negative ones in two's complement.
    pub(super) fn word(&mut self) -> Parse<u64> {
        match self.token()? {
            Token::Uint(value) => Ok(value),
            Token::Int(value) => Ok(value as u64),
            _ => Err(Fault::Wrong("no integer where one belongs")),
        }
    }

    /// True or false.
    pub(super) fn bool(&mut self) -> Parse<bool> {
        match self.token()? {
            Token::Bool(value) => Ok(value),
            _ => Err(Fault::Wrong("no boolean where one belongs")),
        }
    }

    /// A text; bytes that are no UTF-8 are replaced.
    pub(super) fn text(&mut self) -> Parse<Cow<'a, str>> {
        match self.token()? {
            Token::Text(bytes) => Ok(String::from_utf8_lossy(bytes)),
            _ => Err(Fault::Wrong("no text where one belongs")),
        }
    }

    /// A text or nil.
    pub(super) fn optional_text(&mut self) -> Parse<Option<String>> {
        match self.token()? {
            Token::Nil => Ok(None),
            Token::Text(bytes) => Ok(Some(String::from_utf8_lossy(bytes).into_owned())),
            _ => Err(Fault::Wrong("no text where one belongs")),
        }
    }

    /// A non-negative integer or nil.
    pub(super) fn optional_uint(&mut self) -> Parse<Option<u64>> {
        match self.token()? {
            Token::Nil => Ok(None),
            Token::Uint(value) => Ok(Some(value)),
            _ => Err(Fault::Wrong("no unsigned integer where one belongs")),
        }
    }

    /// Length of the bytes that follow.
    pub(super) fn bin_length(&mut self) -> Parse<usize> {
        let width = match Marker::from_u8(self.take(1)?[0]) {
            Marker::Bin8 => 1,
            Marker::Bin16 => 2,
            Marker::Bin32 => 4,
            _ => return Err(Fault::Wrong("no bytes where they belong")),
        };
        Ok(usize::try_from(self.unsigned(width)?).unwrap_or(usize::MAX))
    }

    /// Bytes.
    pub(super) fn bin(&mut self) -> Parse<&'a [u8]> {
        match self.token()? {
            Token::Bin(bytes) => Ok(bytes),
            _ => Err(Fault::Wrong("no bytes where they belong")),
        }
    }

    /// Length of an array whose elements follow.
    pub(super) fn array(&mut self) -> Parse<u32> {
        match self.token()? {
            Token::Array(length) => Ok(length),
            _ => Err(Fault::Wrong("no array where one belongs")),
        }
    }

    /// Length of a map whose keys and values follow.
    pub(super) fn map(&mut self) -> Parse<u32> {
        match self.token()? {
            Token::Map(length) => Ok(length),
            _ => Err(Fault::Wrong("no map where one belongs")),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_integer_form_is_read() {
        let bytes = [
            0x07, 0xff, 0xcc, 200, 0xcd, 1, 0, 0xd0, 0x80, 0xd1, 0, 5, 0xd3, 255, 255, 255, 255, 255, 255,
            255, 254,
        ];
        let mut cursor = Cursor::new(&bytes, 0);
        let words: Vec<_> = (0..7).map(|_| cursor.word().unwrap() as i64).collect();
        assert_eq!(words, [7, -1, 200, 256, -128, 5, -2]);
        assert_eq!(cursor.token(), Err(Fault::Incomplete));
    }

    #[test]
    fn lengths_that_lie_are_incomplete() {
        for bytes in
            [&[0xc6, 255, 255, 255, 255, 1][..], &[0xdb, 0, 1, 0, 0], &[0xc9, 255, 255, 255, 255, 0, 0]]
        {
            assert_eq!(Cursor::new(bytes, 0).token(), Err(Fault::Incomplete));
        }
        let huge_array = [0xdd, 255, 255, 255, 255, 0xc0];
        assert_eq!(Cursor::new(&huge_array, 0).skip(), Err(Fault::Incomplete));
    }

    #[test]
    fn a_million_nested_arrays_are_skipped_without_recursion() {
        let mut bytes = vec![0x91; 1_000_000];
        bytes.push(0xc0);
        let mut cursor = Cursor::new(&bytes, 0);
        cursor.skip().unwrap();
        assert_eq!(cursor.position(), bytes.len());
    }

    #[test]
    fn text_that_is_no_utf8_is_replaced() {
        assert_eq!(Cursor::new(&[0xa2, 0xff, b'a'], 0).text().unwrap(), "\u{fffd}a");
    }
}
