//! Finding a clause of a message among its words, whatever a log did to it.
//!
//! Owns what a clause may look like: its words one after the other, with anything blank between them; a line
//! break may also cut a word or a number in two. What a clause means is not known here.

use super::size::{self, Reading};
use super::tokens::Tokens;

/// A piece of a clause.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// One of these words, apart from punctuation around it.
    Word(&'static [&'static str]),
    /// A colon of its own, or none.
    Colon,
    /// A size: its number and its unit.
    Size,
    /// A whole number.
    Digits,
    /// The same with a semicolon behind it, so that it is known to be whole.
    Index,
    /// A device as PyTorch prints it; some versions print the byte itself.
    Device,
}

/// What a clause held.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    pub(super) size: Option<Reading>,
    pub(super) number: Option<u64>,
    /// Index of the word behind the clause.
    pub(super) end: usize,
}

/// Looks for `parts` at the word number `start`. The last clause ended at the word `since`.
pub(super) fn find(tokens: &mut Tokens<'_>, start: usize, since: usize, parts: &[Part]) -> Option<Held> {
    // Behind a label a size stands where it must; in front of one it might be half a number.
    if matches!(parts, [Part::Size, ..]) && is_rest_of_a_number(tokens, start, since) {
        return None;
    }
    rest(tokens, start, parts)
}

/// As [`find`], where no number can have been torn apart before: at a message's first words.
pub(super) fn words(tokens: &mut Tokens<'_>, start: usize, parts: &[Part]) -> Option<Held> {
    rest(tokens, start, parts)
}

/// A word may be whole or cut in two; what follows shows which.
fn rest(tokens: &mut Tokens<'_>, at: usize, parts: &[Part]) -> Option<Held> {
    let Some((part, later)) = parts.split_first() else {
        return Some(Held { end: at, ..Held::default() });
    };
    if matches!(part, Part::Size) {
        let (reading, end) = size_at(tokens, at)?;
        let held = rest(tokens, end, later)?;
        return Some(Held { size: Some(reading), ..held });
    }
    for words in [1, 2] {
        let Some(Fit(number)) = word_at(tokens, at, words, part) else { continue };
        if let Some(held) = rest(tokens, at + words, later) {
            return Some(Held { number: number.or(held.number), ..held });
        }
    }
    if matches!(part, Part::Colon) { rest(tokens, at, later) } else { None }
}

/// A number and its unit; a line break may part them, and either of them.
fn size_at(tokens: &mut Tokens<'_>, at: usize) -> Option<(Reading, usize)> {
    let begins_number = |text: &[u8]| trim_front(text).first().is_some_and(u8::is_ascii_digit);
    if !tokens.get(at).is_some_and(|word| begins_number(&word.text)) {
        return None;
    }
    [(1, 1), (1, 2), (2, 1)].into_iter().find_map(|(number_words, unit_words)| {
        let number = joined(tokens, at, number_words)?;
        let unit = joined(tokens, at + number_words, unit_words)?;
        let reading = size::read(trim_front(&number), trim_end(&unit))?;
        Some((reading, at + number_words + unit_words))
    })
}

/// Whether what stands at `at` may be the end of a number that began on the line above, or follow such an
/// end: then it must not be taken for a number of its own.
fn is_rest_of_a_number(tokens: &mut Tokens<'_>, at: usize, since: usize) -> bool {
    const PREFIX_WORDS: usize = 16;
    let from = at.saturating_sub(PREFIX_WORDS).max(since);
    let Some(first) = (from..=at).rev().find(|index| tokens.get(*index).is_some_and(|word| word.begins_line))
    else {
        return false;
    };
    let is_punctuation =
        tokens.get(first).is_some_and(|word| matches!(word.text.first(), Some(b';' | b',' | b')')));
    let above = first.checked_sub(1).and_then(|above| tokens.get(above));
    if is_punctuation || !above.is_some_and(|word| size::is_fragment(trim_front(&word.text))) {
        return false;
    }
    // Where the two make a number (or a device's index), they are that, and what follows is another.
    let whole = joined(tokens, first - 1, 2)
        .is_some_and(|whole| size::is_number(trim_front(&whole)) || whole.ends_with(b";"));
    !whole || first == at
}

/// The word at `at`, or that and the next as one where a line break parts them.
fn joined(tokens: &mut Tokens<'_>, at: usize, count: usize) -> Option<Vec<u8>> {
    let mut text = tokens.get(at)?.text.to_vec();
    if count == 2 {
        let second = tokens.get(at + 1).filter(|word| word.begins_line)?;
        text.extend_from_slice(&second.text);
    }
    Some(text)
}

/// A word that fits, and the number that it is.
struct Fit(Option<u64>);

/// Whether the word at `at`, or it and the next one as one, fits.
fn word_at(tokens: &mut Tokens<'_>, at: usize, words: usize, part: &Part) -> Option<Fit> {
    if words == 1 {
        let word = tokens.get(at)?;
        return fits(part, &word.text, word.bare());
    }
    if !tokens.get(at + 1)?.begins_line {
        return None;
    }
    let text = joined(tokens, at, 2)?;
    fits(part, &text, trim_end(trim_front(&text)))
}

fn fits(part: &Part, text: &[u8], bare: &[u8]) -> Option<Fit> {
    let number = match part {
        Part::Word(words) => return words.iter().any(|word| word.as_bytes() == bare).then_some(Fit(None)),
        Part::Colon => return (text == b":").then_some(Fit(None)),
        Part::Digits => digits(bare),
        Part::Index => text.strip_suffix(b";").and_then(digits),
        Part::Device => digits(bare).or_else(|| byte(text)),
        Part::Size => None,
    };
    number.map(|number| Fit(Some(number)))
}

fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// PyTorch 2.2 and 2.3 print the index as a character: a control byte, or its spelling in a quoted text.
fn byte(text: &[u8]) -> Option<u64> {
    match text {
        [byte @ 0..0x20] => Some(u64::from(*byte)),
        [b'\\', .., b'x', high, low] | [b'\\', .., b'u', b'0', b'0', high, low] => {
            let hex = [*high, *low];
            u64::from_str_radix(std::str::from_utf8(&hex).ok()?, 16).ok()
        }
        _ => None,
    }
}

/// Without brackets, quotes and markup in front.
fn trim_front(text: &[u8]) -> &[u8] {
    let first =
        text.iter().position(|byte| !matches!(byte, b'(' | b'[' | b'"' | b'\'' | b'*' | b'`' | b'\\'));
    &text[first.unwrap_or(text.len())..]
}

/// Without punctuation, quotes and markup behind.
fn trim_end(text: &[u8]) -> &[u8] {
    let last = text.iter().rposition(u8::is_ascii_alphanumeric).map_or(0, |last| last + 1);
    &text[..last]
}

#[cfg(test)]
mod tests {
    use super::super::size::Size;
    use super::super::tag::Tag;
    use super::*;

    const FREE: &[Part] = &[
        Part::Word(&["of"]),
        Part::Word(&["which"]),
        Part::Size,
        Part::Word(&["is"]),
        Part::Word(&["free"]),
    ];

    fn free(text: &str, prefix: &str) -> Option<u64> {
        let mut tokens = Tokens::new(text.as_bytes(), prefix.as_bytes(), Tag::of(prefix.as_bytes()));
        match find(&mut tokens, 0, 0, FREE)?.size? {
            Reading::Size(Size { bytes, .. }) => Some(bytes >> 20),
            Reading::NoAnswer => None,
        }
    }

    #[test]
    fn a_clause_is_found_as_written() {
        assert_eq!(free("of which 12.00 MiB is free. More", ""), Some(12));
        assert_eq!(free("of   which\t12.00 MiB is free", ""), Some(12));
        assert_eq!(free("of which 12.00 MiB was free", ""), None);
        assert_eq!(free("off which 12.00 MiB is free", ""), None);
        assert_eq!(free("of which about 12.00 MiB is free", ""), None);
        assert_eq!(free("of which\nINFO 12.00 MiB is free", ""), None, "a line that is not the message's");
    }

    #[test]
    fn lines_may_break_anywhere() {
        let text = "of which 12.00 MiB is free.";
        for at in 1..text.len() {
            let broken = format!("{}\n{}", &text[..at], &text[at..]);
            assert_eq!(free(&broken, ""), Some(12), "{broken:?}");
            let prefixed = format!("{}\n[rank2]: {}", &text[..at], &text[at..]);
            assert_eq!(free(&prefixed, "[rank2]: "), Some(12), "{prefixed:?}");
        }
    }

    #[test]
    fn half_a_number_is_never_taken_for_one() {
        assert_eq!(free("of which 1\n2.00 MiB is free", ""), Some(12));
        assert_eq!(free("of which 12.00\n34.00 MiB is free", ""), None);
        assert_eq!(free("of which 2.0 MiB is free", ""), None);
        assert_eq!(free("of which 2.00 Mi", ""), None);
        let size_alone = |text: &str, at: usize| {
            let mut tokens = Tokens::new(text.as_bytes(), b"", None);
            find(&mut tokens, at, 0, &[Part::Size]).is_some()
        };
        assert!(!size_alone("1\n2.00 MiB", 1), "the end of 12.00");
        assert!(!size_alone("1\nERROR 2.00 MiB", 2), "perhaps the end of 12.00");
        assert!(size_alone("1\n2.00 MiB free; 3.00 MiB", 4), "behind 12.00");
        assert!(size_alone("use.\n2.00 MiB", 1));
        assert!(size_alone("4\n; 2.00 MiB", 2));
    }

    #[test]
    fn devices_are_numbers_or_bytes() {
        let device = |text: &str| {
            let mut tokens = Tokens::new(text.as_bytes(), b"", None);
            words(&mut tokens, 0, &[Part::Word(&["GPU"]), Part::Device, Part::Word(&["has"])])?.number
        };
        assert_eq!(device("GPU 12 has"), Some(12));
        assert_eq!(device("GPU \u{1} has"), Some(1));
        assert_eq!(device("GPU \\u0003 has"), Some(3));
        assert_eq!(device("GPU \\x00 has"), Some(0));
        assert_eq!(device("GPU has"), None);
        assert_eq!(device("GPU 1"), None);
    }
}
