//! `Tried to allocate 2.00 GiB`: what was asked from the driver.
//!
//! Owns telling a size that was cut off from a text that never had one.

use super::clause::{Part, words as find_words};
use super::size::{self, Reading};
use super::tokens::Tokens;

const WORDS: [Part; 4] = [Part::Word(&["Tried"]), Part::Word(&["to"]), Part::Word(&["allocate"]), Part::Size];

/// What was found at a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Requested {
    /// `None` when it was cut off.
    pub(super) size: Option<Reading>,
    /// Index of the word behind it.
    pub(super) end: usize,
}

/// Looks at the word `at`; `None` when this is something else.
pub(super) fn find(tokens: &mut Tokens<'_>, at: usize) -> Option<Requested> {
    if let Some(held) = find_words(tokens, at, &WORDS) {
        return Some(Requested { size: held.size, end: held.end });
    }
    let end = find_words(tokens, at, &WORDS[..3])?.end;
    is_cut(tokens, end).then_some(Requested { size: None, end })
}

/// Whether what stands at `at` is a part of a size, or nothing.
fn is_cut(tokens: &mut Tokens<'_>, at: usize) -> bool {
    let Some(number) = tokens.get(at) else { return true };
    if number.begins_line || number.bare().is_empty() {
        return true;
    }
    if !number.text.first().is_some_and(u8::is_ascii_digit) {
        return false;
    }
    if !size::is_number(&number.text) && !number.text.iter().all(u8::is_ascii_digit) {
        return true;
    }
    // The number is whole; its unit may be cut off.
    tokens.get(at + 1).is_none_or(|unit| {
        let bare = unit.bare();
        let is_part = ["KiB", "MiB", "GiB", "bytes"].iter().any(|whole| whole.as_bytes().starts_with(bare));
        unit.begins_line || is_part
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<bool> {
        let mut tokens = Tokens::new(text.as_bytes(), b"", None);
        find(&mut tokens, 0).map(|requested| requested.size.is_some())
    }

    #[test]
    fn a_size_may_be_whole_or_cut_off() {
        assert_eq!(found("Tried to allocate 2.00 GiB. GPU"), Some(true));
        for text in [
            "Tried to allocate",
            "Tried to allocate 2.0",
            "Tried to allocate 2.00 Gi",
            "Tried to allocate\nx",
            "Tried to allocate ...",
        ] {
            assert_eq!(found(text), Some(false), "{text}");
        }
    }

    #[test]
    fn source_code_and_other_units_are_something_else() {
        for text in [
            "Tried to allocate {size}",
            "Tried to allocate memory",
            "Tried to",
            "Tried to allocate 512.00 MB on private pool",
            "Tried to allocate 5 tensors",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }
}
