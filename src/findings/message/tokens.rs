//! The words of a message, as they come out of a log.
//!
//! Owns what a log does to a text: colour codes, line breaks (real ones, and `\n` inside a quoted text), the
//! prefix on every line, lines of other processes in between. Words are cut on demand, so a message costs
//! what it is long, whatever follows it.

use std::borrow::Cow;

use super::tag::Tag;

/// How far behind its beginning a message can reach, in bytes.
pub(super) const REACH_BYTES: usize = 32 << 10;
/// How much of that lines of other processes may take.
const SKIP_BYTES: usize = 16 << 10;
/// Longer words are no part of a message; the rest of such a word is passed over.
const WORD_BYTES: usize = 256;

/// A word.
#[derive(Clone, Debug)]
pub(super) struct Token<'a> {
    /// Without colour codes.
    pub(super) text: Cow<'a, [u8]>,
    /// Whether a line begins with it.
    pub(super) begins_line: bool,
    /// Where it ends, as an offset in the text it was taken from.
    pub(super) end: usize,
}

impl Token<'_> {
    /// The word without quotes, brackets and punctuation around it.
    pub(super) fn bare(&self) -> &[u8] {
        let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'=' | b'/' | b'-');
        let Some(first) = self.text.iter().position(is_inner) else { return &[] };
        let last = self.text.iter().rposition(is_inner).unwrap_or(first);
        &self.text[first..=last]
    }
}

/// The words of a text, taken on demand.
pub(super) struct Tokens<'a> {
    raw: &'a [u8],
    next: usize,
    begins_line: bool,
    skipped: usize,
    first_skipped: Option<usize>,
    front: &'a [u8],
    tag: Option<Tag>,
    words: Vec<Token<'a>>,
}

impl<'a> Tokens<'a> {
    /// The words of `raw`, which begins inside a line that has `front` in front and came from `tag`.
    pub(super) fn new(raw: &'a [u8], front: &'a [u8], tag: Option<Tag>) -> Self {
        let raw = &raw[..raw.len().min(REACH_BYTES)];
        let words = Vec::with_capacity(96);
        Self { raw, next: 0, begins_line: false, skipped: 0, first_skipped: None, front, tag, words }
    }

    /// Where the first line of another process begins that was passed over.
    pub(super) fn first_skipped(&self) -> Option<usize> {
        self.first_skipped
    }

    /// The word number `index`, if the text has so many.
    pub(super) fn get(&mut self, index: usize) -> Option<&Token<'a>> {
        while self.words.len() <= index {
            let word = self.take()?;
            self.words.push(word);
        }
        self.words.get(index)
    }

    /// The words from `from` to `to` that were taken already, with one blank between them.
    pub(super) fn joined(&self, from: usize, to: usize) -> String {
        let words = self.words.get(from..to.min(self.words.len())).unwrap_or_default();
        let texts: Vec<Cow<'_, str>> = words.iter().map(|word| String::from_utf8_lossy(&word.text)).collect();
        texts.join(" ")
    }

    fn take(&mut self) -> Option<Token<'a>> {
        self.pass_gap();
        let start = self.next;
        let mut word: Cow<'a, [u8]> = Cow::Borrowed(&[]);
        let mut plain = start;
        while self.next < self.raw.len() {
            match gap(&self.raw[self.next..]) {
                Some((Gap::Colour, length)) => {
                    append(&mut word, &self.raw[plain..self.next]);
                    self.next += length;
                    plain = self.next;
                }
                Some(_) => break,
                None => self.next += 1,
            }
        }
        append(&mut word, &self.raw[plain..self.next]);
        if word.is_empty() {
            return None;
        }
        let begins_line = std::mem::take(&mut self.begins_line);
        Some(Token { text: word, begins_line, end: self.next })
    }

    /// Moves to the next word.
    fn pass_gap(&mut self) {
        while let Some((kind, length)) = gap(self.raw.get(self.next..).unwrap_or_default()) {
            self.next += length;
            if kind == Gap::Line {
                self.begins_line = true;
                self.pass_line_start();
            }
        }
    }

    /// Passes over whole lines of other processes, and over the prefix of this one's.
    fn pass_line_start(&mut self) {
        let rest = &self.raw[self.next..];
        let other = self.tag.is_some_and(|own| Tag::of(rest).is_some_and(|tag| own.is_another(tag)));
        if other {
            let length = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
            self.skipped += length;
            self.first_skipped.get_or_insert(self.next);
            // A text so far torn apart is given up.
            self.next = if self.skipped > SKIP_BYTES { self.raw.len() } else { self.next + length };
        } else {
            self.next += common_front(self.front, rest);
        }
    }
}

/// How much of the start of `line` is what stands in front of the message on its first line, or the beginning
/// of that: digits may differ, as times do.
fn common_front(front: &[u8], line: &[u8]) -> usize {
    let is_alike = |(one, other): &(&u8, &u8)| one == other || one.is_ascii_digit() && other.is_ascii_digit();
    let alike = front.iter().zip(line).take_while(is_alike).count();
    let ends_part = |byte: &u8| matches!(byte, b' ' | b'\t' | b':' | b']' | b'>' | b')' | b'|');
    let length = front[..alike].iter().rposition(ends_part).map_or(0, |last| last + 1);
    // A number alone may be the message's.
    let is_number = front[..length].iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b' '));
    if is_number { 0 } else { length }
}

fn append<'a>(word: &mut Cow<'a, [u8]>, more: &'a [u8]) {
    let room = WORD_BYTES.saturating_sub(word.len());
    let more = &more[..more.len().min(room)];
    if word.is_empty() {
        *word = Cow::Borrowed(more);
    } else if !more.is_empty() {
        word.to_mut().extend_from_slice(more);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gap {
    Blank,
    Line,
    Colour,
}

/// What separates words at the start of `text`, and its length.
fn gap(text: &[u8]) -> Option<(Gap, usize)> {
    match text {
        [b'\r', b'\n', ..] => Some((Gap::Line, 2)),
        // A progress bar goes back to the start of the line.
        [b'\n' | b'\r', ..] => Some((Gap::Line, 1)),
        [b' ' | b'\t' | 0x0b | 0x0c, ..] => Some((Gap::Blank, 1)),
        [0xc2, 0xa0, ..] => Some((Gap::Blank, 2)),
        [0x1b, rest @ ..] => Some((Gap::Colour, 1 + sequence(rest))),
        [b'\\', ..] => escaped(text),
        _ => None,
    }
}

/// A break or a colour code as a quoted text spells it: `\n`, `\\n`, `\t`, `\x1b[31m`, `\u001b[0m`.
fn escaped(text: &[u8]) -> Option<(Gap, usize)> {
    // Each quoting doubles them; nobody quotes more than five times.
    const MOST_SLASHES: usize = 32;
    let slashes = text.iter().take(MOST_SLASHES).take_while(|&&byte| byte == b'\\').count();
    let rest = &text[slashes..];
    let colour = |length: usize| Some((Gap::Colour, slashes + length + sequence(&rest[length..])));
    match rest {
        [b'n' | b'r', ..] => Some((Gap::Line, slashes + 1)),
        [b't', ..] => Some((Gap::Blank, slashes + 1)),
        [b'x', b'1', b'b' | b'B', ..] | [b'0', b'3', b'3', ..] => colour(3),
        [b'u', b'0', b'0', b'1', b'b' | b'B', ..] => colour(5),
        [b'e', b'[', ..] => colour(1),
        _ => None,
    }
}

/// Length of a control sequence behind its escape character.
fn sequence(text: &[u8]) -> usize {
    if text.first() != Some(&b'[') {
        return 0;
    }
    let inner = text[1..].iter().take(32).take_while(|byte| (0x20..0x40).contains(*byte)).count();
    match text.get(1 + inner) {
        Some(0x40..=0x7e) => inner + 2,
        _ => 1 + inner,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str, prefix: &str) -> Vec<String> {
        let tag = Tag::of(prefix.as_bytes());
        let mut tokens = Tokens::new(text.as_bytes(), prefix.as_bytes(), tag);
        let mut count = 0;
        while tokens.get(count).is_some() {
            count += 1;
        }
        let show = |word: &Token<'_>| {
            let line = if word.begins_line { "/" } else { "" };
            format!("{line}{}", String::from_utf8_lossy(&word.text))
        };
        tokens.words.iter().map(show).collect()
    }

    #[test]
    fn breaks_are_seen_whether_real_or_spelled_out() {
        for text in ["a\nb", "a\r\nb", "a\\nb", "a\\\\n b", " a \n\n b ", "a\\r\\nb"] {
            assert_eq!(words(text, ""), ["a", "/b"], "{text:?}");
        }
        assert_eq!(words("a\tb\\tc\u{a0}d", ""), ["a", "b", "c", "d"]);
    }

    #[test]
    fn colours_are_no_part_of_a_word() {
        for text in ["\x1b[1;36m35.60\x1b[0m.", "\\x1b[1m35.60\\u001b[0m.", "35\\033[0m.60.", "35.60\\e[0m."]
        {
            assert_eq!(words(text, ""), ["35.60."], "{text:?}");
        }
        assert_eq!(words("\x1b[", ""), [""; 0]);
        assert_eq!(words("a \x1b", ""), ["a"]);
    }

    #[test]
    fn the_prefix_of_the_line_is_no_part_of_it() {
        assert_eq!(words("to\n[rank2]: allo\n[rank2]: cate", "[rank2]: "), ["to", "/allo", "/cate"]);
        assert_eq!(words("to\n[1,2]<stderr>:allo", "[1,2]<stderr>:"), ["to", "/allo"]);
        let times = "13:18:29,371 ERROR in step 7: ";
        assert_eq!(words("to\n13:18:30,002 ERROR in step 7: allocate", times), ["to", "/allocate"]);
        assert_eq!(words("to\n13:18:30,002 ERROR allocate", times), ["to", "/allocate"]);
        assert_eq!(words("to\nERROR allocate", times), ["to", "/ERROR", "allocate"]);
        assert_eq!(words("of\n26.16 GiB", "12.34 x"), ["of", "/26.16", "GiB"], "a figure is no prefix");
    }

    #[test]
    fn lines_of_other_processes_are_left_out() {
        let text = "to\n[rank1]: a b c\n[rank2]: allocate\n[rank3]: d\nx";
        assert_eq!(words(text, "[rank2]: "), ["to", "/allocate", "/x"]);
    }

    #[test]
    fn quotes_and_punctuation_come_off() {
        let token =
            |text: &'static str| Token { text: Cow::Borrowed(text.as_bytes()), begins_line: false, end: 0 };
        assert_eq!(token("unallocated.\\\"}").bare(), b"unallocated");
        assert_eq!(token("(GPU").bare(), b"GPU");
        assert_eq!(token("...").bare(), b"");
    }

    #[test]
    fn long_words_and_long_texts_have_an_end() {
        let long = "x".repeat(REACH_BYTES * 2);
        let found = words(&long, "");
        assert_eq!((found.len(), found[0].len()), (1, WORD_BYTES));
        let many = "[rank1]: y\n".repeat(REACH_BYTES);
        assert_eq!(words(&format!("a\n{many}"), "[rank2]: "), ["a"]);
    }
}
