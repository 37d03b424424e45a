//! Text from files and paths, made safe for a terminal.
//!
//! A trace may hold anything, escape sequences included. Renderers escape their own output; this is for what
//! the command line itself prints: paths, causes, facts of a file.

use std::borrow::Cow;
use std::fmt::Write as _;

/// `text` with control characters (but for newline and tab) and direction overrides written as `\u{..}`.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_unsafe(character) {
            let _ = write!(safe, "\\u{{{:x}}}", u32::from(character));
        } else {
            safe.push(character);
        }
    }
    Cow::Owned(safe)
}

/// As [`plain`], on one line: line breaks and tabs are written as `\u{..}` too.
pub(crate) fn one_line(text: &str) -> String {
    plain(text).replace('\n', "\\u{a}").replace('\t', "\\u{9}")
}

fn is_unsafe(character: char) -> bool {
    let is_layout = matches!(character, '\n' | '\t');
    let turns_direction =
        matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (character.is_control() && !is_layout) || turns_direction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_lose_their_power() {
        assert_eq!(plain("a\x1b[31mb\u{202e}c\r"), "a\\u{1b}[31mb\\u{202e}c\\u{d}");
        assert_eq!(plain("plain\n\ttext é"), "plain\n\ttext é");
        assert_eq!(one_line("a\nb"), "a\\u{a}b");
    }
}
