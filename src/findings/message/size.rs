//! Sizes as PyTorch prints them: a number and a unit, two decimals from KiB on.
//!
//! Owns reading them and what rounding costs: a printed `26.16 GiB` is exact to half a hundredth of a GiB.
//! A number that is not whole as PyTorch prints it (cut off, glued, another unit) is no size.

use std::fmt;

/// A size read from a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size {
    /// The printed value, to the nearest byte.
    pub bytes: u64,
    /// By how many bytes the true value may differ, either way.
    pub rounding: u64,
}

/// What stands where a size is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// A size.
    Size(Size),
    /// 2^64 or more: whoever was asked had no answer, or there is no limit.
    NoAnswer,
}

/// Reads a number and its unit.
pub(super) fn read(number: &[u8], unit: &[u8]) -> Option<Reading> {
    let Some(shift) = shift(unit) else {
        let whole = (unit == b"bytes").then(|| whole(number)).flatten()?;
        return Some(reading(whole, 0));
    };
    let hundredths = hundredths(number)?;
    let bytes = ((hundredths << shift) + 50) / 100;
    // Half a hundredth of the unit, rounded up.
    let rounding = (1u64 << shift).div_ceil(200);
    Some(reading(bytes, rounding))
}

fn reading(bytes: u128, rounding: u64) -> Reading {
    u64::try_from(bytes).map_or(Reading::NoAnswer, |bytes| Reading::Size(Size { bytes, rounding }))
}

fn shift(unit: &[u8]) -> Option<u32> {
    match unit {
        b"KiB" => Some(10),
        b"MiB" => Some(20),
        b"GiB" => Some(30),
        _ => None,
    }
}

/// `26.16` → 2616.
fn hundredths(number: &[u8]) -> Option<u128> {
    let point = number.len().checked_sub(3)?;
    let (before, after) = (number.get(..point)?, number.get(point + 1..)?);
    if number[point] != b'.' {
        return None;
    }
    Some(whole(before)? * 100 + whole(after)?)
}

/// Digits only, at most twenty: more than any 64-bit number has.
fn whole(digits: &[u8]) -> Option<u128> {
    if digits.is_empty() || digits.len() > 20 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0, |value, digit| value * 10 + u128::from(digit - b'0')))
}

/// Whether `text` may be the beginning of a number whose rest stands elsewhere: `1`, `12.`, `12.3`.
pub(super) fn is_fragment(text: &[u8]) -> bool {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    digits > 0 && matches!(&text[digits..], [] | [b'.'] | [b'.', b'0'..=b'9'])
}

/// Whether `text` is a number as PyTorch prints it in front of KiB, MiB and GiB.
pub(super) fn is_number(text: &[u8]) -> bool {
    hundredths(text).is_some()
}

/// Bytes that print themselves as PyTorch's messages do: two decimals, nothing above GiB. With them the sums
/// of an explanation can be checked against the message by eye.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Printed(pub u64);

impl fmt::Display for Printed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            bytes @ 0..1024 => return f.pad(&format!("{bytes} bytes")),
            bytes @ 1024..0x10_0000 => (bytes as f64 / 1024.0, "KiB"),
            bytes @ 0x10_0000..0x4000_0000 => (bytes as f64 / 1_048_576.0, "MiB"),
            bytes => (bytes as f64 / 1_073_741_824.0, "GiB"),
        };
        f.pad(&format!("{value:.2} {unit}"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(number: &str, unit: &str) -> Option<u64> {
        match read(number.as_bytes(), unit.as_bytes())? {
            Reading::Size(size) => Some(size.bytes),
            Reading::NoAnswer => Some(u64::MAX),
        }
    }

    /// `format_size` of PyTorch.
    fn as_pytorch(size: u64) -> String {
        match size {
            0..=1024 => format!("{size} bytes"),
            1025..=0x10_0000 => format!("{:.2} KiB", size as f64 / 1024.0),
            0x10_0001..=0x4000_0000 => format!("{:.2} MiB", size as f64 / 1_048_576.0),
            _ => format!("{:.2} GiB", size as f64 / 1_073_741_824.0),
        }
    }

    #[test]
    fn printed_sizes_are_read_to_the_nearest_byte() {
        assert_eq!(bytes("0", "bytes"), Some(0));
        assert_eq!(bytes("896.00", "KiB"), Some(896 << 10));
        assert_eq!(bytes("2.00", "MiB"), Some(2 << 20));
        assert_eq!(bytes("26.16", "GiB"), Some(28_089_086_116));
        assert_eq!(bytes("130206.04", "GiB"), Some(139_807_670_885_417));
    }

    #[test]
    fn two_to_the_64_is_no_answer() {
        assert_eq!(read(b"17179869184.00", b"GiB"), Some(Reading::NoAnswer));
        assert_eq!(read(b"99999999999999999999", b"bytes"), Some(Reading::NoAnswer));
        assert!(matches!(read(b"17179869183.99", b"GiB"), Some(Reading::Size(_))));
    }

    #[test]
    fn what_is_not_whole_is_no_size() {
        for number in
            ["", "2", "26.", "26.1", "26.160", ".16", "-2.00", "2,00", "2.0x", "999999999999999999999.00"]
        {
            assert_eq!(bytes(number, "GiB"), None, "{number}");
        }
        for unit in ["", "G", "Gi", "GB", "GiBs", "gib", "TiB", "byte"] {
            assert_eq!(bytes("2.00", unit), None, "{unit}");
        }
        assert_eq!(bytes("2.00", "bytes"), None);
    }

    #[test]
    fn fragments_of_numbers_are_known_as_such() {
        assert!(["1", "12.", "12.3"].iter().all(|text| is_fragment(text.as_bytes())));
        assert!(
            ["", ".", "12.34", "a1", "1a", "12.a", "0;"].iter().all(|text| !is_fragment(text.as_bytes()))
        );
    }

    #[test]
    fn sizes_print_as_in_the_messages() {
        let shown = |bytes| Printed(bytes).to_string();
        assert_eq!(shown(0), "0 bytes");
        assert_eq!(shown(896 << 10), "896.00 KiB");
        assert_eq!(shown(54 << 20), "54.00 MiB");
        assert_eq!(shown(1 << 30), "1.00 GiB");
        assert_eq!(shown(u64::MAX), "17179869184.00 GiB");
    }

    proptest! {
        #[test]
        fn what_pytorch_prints_comes_back_within_the_rounding(shift in 0u32..50, low in any::<u64>()) {
            let size = low >> (63 - shift);
            let text = as_pytorch(size);
            let (number, unit) = text.split_once(' ').unwrap();
            let Some(Reading::Size(read)) = read(number.as_bytes(), unit.as_bytes()) else {
                panic!("{text} is a size");
            };
            prop_assert!(read.bytes.abs_diff(size) <= read.rounding, "{} -> {} -> {:?}", size, text, read);
            prop_assert!(unit != "bytes" || read.rounding == 0);
        }
    }
}
