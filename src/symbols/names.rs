//! Names as people write them: Rust and C++ demangled, and cut to a bound.

use std::fmt::{self, Write as _};

/// The longest text, in bytes.
pub(super) const MAX_NAME: usize = 4 << 10;

/// The longest name that is demangled, in bytes.
const MAX_MANGLED: usize = 64 << 10;

/// A text that grows no further than [`MAX_NAME`]: mangled names refer to their own parts, so a short one can
/// stand for a very long one.
#[derive(Default)]
struct Bounded {
    text: String,
    is_full: bool,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = MAX_NAME - self.text.len();
        self.text.push_str(&text[..text.floor_char_boundary(room)]);
        self.is_full |= text.len() > room;
        // An error ends the writer's work.
        if self.is_full { Err(fmt::Error) } else { Ok(()) }
    }
}

impl Bounded {
    /// The text, with a mark where something is missing.
    fn finish(mut self) -> String {
        if self.is_full {
            self.text.push('…');
        }
        self.text
    }
}

/// `text`, or its beginning and a mark.
pub(super) fn cut(text: &str) -> String {
    let mut bounded = Bounded::default();
    // Being full is no failure here.
    let _ = bounded.write_str(text);
    bounded.finish()
}

/// A function's name from a symbol's.
pub(super) fn demangled(symbol: &str) -> String {
    let is_mangled = symbol.len() <= MAX_MANGLED && symbol.trim_start_matches('_').len() < symbol.len();
    is_mangled.then(|| rust(symbol).or_else(|| cpp(symbol))).flatten().unwrap_or_else(|| cut(symbol))
}

fn rust(symbol: &str) -> Option<String> {
    let name = rustc_demangle::try_demangle(symbol).ok()?;
    // The alternate form leaves the hash out.
    written(|text| write!(text, "{name:#}"))
}

fn cpp(symbol: &str) -> Option<String> {
    let name = cpp_demangle::Symbol::new(symbol.as_bytes()).ok()?;
    written(|text| name.structured_demangle(text, &cpp_demangle::DemangleOptions::default()))
}

/// What `write` says, unless it fails before the text is full.
fn written(write: impl FnOnce(&mut Bounded) -> fmt::Result) -> Option<String> {
    let mut text = Bounded::default();
    let is_written = write(&mut text).is_ok() || text.is_full;
    (is_written && !text.text.is_empty()).then(|| text.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_demangled() {
        assert_eq!(demangled("_ZL7runtimev"), "runtime()");
        assert_eq!(
            demangled("_ZNSt6thread8_InvokerISt5tupleIJPFvvEEEEclEv"),
            "std::thread::_Invoker<std::tuple<void (*)()> >::operator()()"
        );
        assert_eq!(
            demangled("_ZN4core3ptr8non_null16NonNull$LT$T$GT$8dangling17h0123456789abcdefE"),
            "core::ptr::non_null::NonNull<T>::dangling"
        );
        assert_eq!(demangled("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
        for plain in ["main", "_start", "_Z", "_ZN", "_R", "", "i", "__libc_start_main@GLIBC_2.34", "_Zé"] {
            assert_eq!(demangled(plain), plain);
        }
    }

    #[test]
    fn a_short_symbol_does_not_become_a_gigabyte() {
        // f(a, b<a, a>, b<b<a, a>, b<a, a>>, ...): each type is said once, and twice by number in the next one.
        let mut bomb = "_Z1f1a".to_owned();
        for at in 0..20u32 {
            let last = if at == 0 { "S_".to_owned() } else { format!("S{}_", radix36(2 * at - 1)) };
            bomb.push_str(&format!("1bI{last}{last}E"));
        }
        let text = demangled(&bomb);
        assert!(text.starts_with("f(a, b<a, a>, b<b<a, a>, b<a, a> >, "), "{text}");
        assert!(text.ends_with('…') && text.len() == MAX_NAME + '…'.len_utf8());
        assert!(demangled(&format!("_Z{}", "P".repeat(60_000))).len() <= MAX_NAME + '…'.len_utf8());
    }

    fn radix36(value: u32) -> String {
        let digit = |value: u32| char::from_digit(value, 36).unwrap().to_ascii_uppercase();
        if value < 36 {
            digit(value).to_string()
        } else {
            format!("{}{}", digit(value / 36), digit(value % 36))
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(cut(&"a".repeat(MAX_NAME)), "a".repeat(MAX_NAME));
        let long = cut(&format!("a{}", "é".repeat(MAX_NAME)));
        assert!(long.ends_with("é…") && long.len() == MAX_NAME - 1 + '…'.len_utf8());
        assert!(demangled(&"x".repeat(1 << 20)).len() <= MAX_NAME + '…'.len_utf8());
    }
}
