//! Numbers and texts as protocol 0 writes them, and integers of any length.

use std::borrow::Cow;

use crate::error::{Error, Result};

/// A decimal integer, saturated to 128 bits. A trailing `L` is Python 2's.
pub(super) fn decimal(line: &[u8], offset: usize) -> Result<i128> {
    let line = line.strip_suffix(b"L").unwrap_or(line).trim_ascii();
    let digits = line.strip_prefix(b"-").unwrap_or(line);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Error::corrupt(offset, "an integer that is none"));
    }
    let saturated = if digits.len() < line.len() { i128::MIN } else { i128::MAX };
    let text = std::str::from_utf8(line).unwrap_or_default();
    Ok(text.parse().unwrap_or(saturated))
}

/// A decimal number.
pub(super) fn float(line: &[u8], offset: usize) -> Result<f64> {
    let text = std::str::from_utf8(line).unwrap_or_default().trim();
    text.parse().map_err(|_| Error::corrupt(offset, "a number that is none"))
}

/// A little-endian two's complement integer of any length, saturated to 128 bits.
#[inline]
pub(super) fn long(bytes: &[u8]) -> i128 {
    let negative = bytes.last().is_some_and(|&top| top & 0x80 != 0);
    let fill = if negative { 0xff } else { 0 };
    let mut wide = [fill; 16];
    if bytes.len() <= 16 {
        wide[..bytes.len()].copy_from_slice(bytes);
        return i128::from_le_bytes(wide);
    }
    let (low, high) = bytes.split_at(16);
    wide.copy_from_slice(low);
    let value = i128::from_le_bytes(wide);
    if high.iter().all(|&byte| byte == fill) && (value < 0) == negative {
        return value;
    }
    if negative { i128::MIN } else { i128::MAX }
}

/// A quoted text with Python's backslash escapes (STRING).
pub(super) fn quoted(line: &[u8], offset: usize) -> Result<Cow<'_, str>> {
    let line = line.trim_ascii();
    let inner = match line {
        [quote @ (b'\'' | b'"'), inner @ .., end] if quote == end => inner,
        _ => return Err(Error::corrupt(offset, "a text without its quotes")),
    };
    if !inner.contains(&b'\\') {
        return Ok(String::from_utf8_lossy(inner));
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let Some((&escape, after)) = rest.split_first() else { break };
        rest = after;
        match escape {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'x' => {
                let (code, after) = hex(rest, 2);
                out.push(code as u8);
                rest = after;
            }
            b'\\' | b'\'' | b'"' => out.push(escape),
            other => out.extend([b'\\', other]),
        }
    }
    Ok(Cow::Owned(String::from_utf8_lossy(&out).into_owned()))
}

/// A text in Python's raw-unicode-escape encoding (UNICODE): Latin-1, and `\uXXXX` for the rest.
pub(super) fn raw_unicode(line: &[u8]) -> Cow<'_, str> {
    if line.is_ascii() && !line.contains(&b'\\') {
        return String::from_utf8_lossy(line);
    }
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = match after.first() {
            Some(b'u') => 4,
            Some(b'U') => 8,
            _ => 0,
        };
        if byte == b'\\' && digits > 0 {
            let (code, after) = hex(&after[1..], digits);
            out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            rest = after;
        } else {
            out.push(char::from(byte));
            rest = after;
        }
    }
    Cow::Owned(out)
}

/// Up to `count` hex digits, and what follows them.
fn hex(bytes: &[u8], count: usize) -> (u32, &[u8]) {
    let length = bytes.iter().take(count).take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (digits, rest) = bytes.split_at(length);
    let code =
        digits.iter().fold(0u32, |code, &digit| code << 4 | char::from(digit).to_digit(16).unwrap_or(0));
    (code, rest)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn decimals_saturate_and_refuse_what_is_no_number() {
        assert_eq!(decimal(b"-12L", 0).unwrap(), -12);
        assert_eq!(decimal(b"18446744073709551615", 0).unwrap(), i128::from(u64::MAX));
        assert_eq!(decimal(&[b'9'; 60], 0).unwrap(), i128::MAX);
        assert!(decimal(b"", 0).is_err() && decimal(b"0x1", 0).is_err() && decimal(b"--1", 0).is_err());
    }

    #[test]
    fn longs_of_any_length_keep_or_saturate() {
        assert_eq!(long(&[]), 0);
        assert_eq!(long(&[0xff]), -1);
        assert_eq!(long(&[0xff, 0]), 255);
        assert_eq!(long(&[0xff; 9]), -1);
        assert_eq!(long(&[0, 0, 0, 0, 0, 0, 0, 0x80, 0]), 1 << 63);
        let mut padded = vec![7];
        padded.resize(40, 0);
        assert_eq!(long(&padded), 7);
        padded[39] = 1;
        assert_eq!(long(&padded), i128::MAX);
        padded[39] = 0x80;
        assert_eq!(long(&padded), i128::MIN);
    }

    #[test]
    fn texts_of_protocol_0_lose_their_escapes() {
        assert_eq!(quoted(br"'a\'b\\n\x41\n'", 0).unwrap(), "a'b\\nA\n");
        assert!(quoted(b"abc", 0).is_err() && quoted(b"'", 0).is_err());
        assert_eq!(raw_unicode(br"caf\u00e9 \U0001f600"), "caf\u{e9} \u{1f600}");
        assert_eq!(raw_unicode(b"caf\xe9"), "caf\u{e9}");
    }
}
