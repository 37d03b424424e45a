//! Sizes and times as people read them, and sizes as people type them.
//!
//! Owns formatting (IEC units, one decimal, thousands separators) and parsing of sizes. Does not own
//! colours, tables or escaping: those belong to the renderers. Every figure inside memlab is an exact
//! integer; rounding happens here, at the last moment, and nowhere else.

use std::fmt;

/// A number of bytes that prints itself in IEC units (`177.3 MiB`), with one decimal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1024 {
            return f.pad(&format!("{} B", self.0));
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = 0;
        // 1023.95 would print as "1024.0": step to the next unit just before that.
        while value >= 1023.95 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        f.pad(&format!("{value:.1} {}", UNITS[unit]))
    }
}

/// A signed difference of bytes: `+12.0 MiB`, `-3.5 KiB`, `0 B`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignedBytes(pub i64);

impl fmt::Display for SignedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.0 {
            0 => "",
            n if n > 0 => "+",
            _ => "-",
        };
        f.pad(&format!("{sign}{}", Bytes(self.0.unsigned_abs())))
    }
}

/// A count with thousands separators: `592,258`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count(pub u64);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let mut text = String::with_capacity(digits.len() + digits.len() / 3);
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        f.pad(&text)
    }
}

/// A share of a whole in percent, one decimal; `0.0 %` when the whole is nothing.
#[must_use]
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0.0 %".to_owned();
    }
    format!("{:.1} %", part as f64 * 100.0 / whole as f64)
}

/// Microseconds as seconds or milliseconds: `1.250 s`, `3.2 ms`, `15 us`.
#[must_use]
pub fn duration_us(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} us"),
        1_000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        _ => format!("{:.3} s", us as f64 / 1e6),
    }
}

/// Reads a size: `4096`, `512MiB`, `512M`, `1.5 GiB`. `K/M/G/T` mean the IEC units.
///
/// # Errors
/// A sentence fragment that names what is wrong; `MB` and its like are refused because half of all
/// tools mean 1000² by it and the other half 1024².
pub fn parse_bytes(text: &str) -> Result<Bytes, String> {
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let (number, unit) = (text[..split].replace('_', ""), text[split..].trim());
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" | "bytes" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        "kb" | "mb" | "gb" | "tb" => {
            return Err(format!("`{unit}` is ambiguous; write `{}iB`", &unit[..1].to_uppercase()));
        }
        _ => return Err(format!("`{unit}` is no unit of size; use B, KiB, MiB, GiB or TiB")),
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole
            .checked_mul(1 << shift)
            .map(Bytes)
            .ok_or_else(|| format!("`{text}` does not fit into 64 bits"));
    }
    match number.parse::<f64>() {
        Ok(value) if value.is_finite() && value * (1u64 << shift) as f64 <= u64::MAX as f64 => {
            Ok(Bytes((value * (1u64 << shift) as f64).round() as u64))
        }
        _ => Err(format!("`{text}` is no size; write for example `512MiB`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_print_in_iec_units_with_one_decimal() {
        let shown = |n| Bytes(n).to_string();
        assert_eq!(shown(0), "0 B");
        assert_eq!(shown(1023), "1023 B");
        assert_eq!(shown(1024), "1.0 KiB");
        assert_eq!(shown(185_862_144), "177.3 MiB");
        assert_eq!(shown((1 << 30) - 1), "1.0 GiB");
        assert_eq!(shown(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn differences_carry_their_sign() {
        assert_eq!(SignedBytes(2048).to_string(), "+2.0 KiB");
        assert_eq!(SignedBytes(-2048).to_string(), "-2.0 KiB");
        assert_eq!(SignedBytes(0).to_string(), "0 B");
        assert_eq!(SignedBytes(i64::MIN).to_string(), "-8.0 EiB");
    }

    #[test]
    fn counts_have_separators() {
        assert_eq!(Count(592_258).to_string(), "592,258");
        assert_eq!(Count(999).to_string(), "999");
        assert_eq!(Count(1_000).to_string(), "1,000");
    }

    #[test]
    fn sizes_are_read_as_typed() {
        assert_eq!(parse_bytes("512MiB"), Ok(Bytes(512 << 20)));
        assert_eq!(parse_bytes("512M"), Ok(Bytes(512 << 20)));
        assert_eq!(parse_bytes("1.5 GiB"), Ok(Bytes(3 << 29)));
        assert_eq!(parse_bytes("4096"), Ok(Bytes(4096)));
        assert!(parse_bytes("512MB").unwrap_err().contains("MiB"));
        assert!(parse_bytes("99999999999TiB").is_err());
        assert!(parse_bytes("").is_err());
    }
}
