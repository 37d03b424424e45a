//! Texts of a trace made visible: no character of them steers what shows them.
//!
//! Owns which characters are not shown but obeyed (C0, C1, bidirectional and zero-width controls) and how they
//! are spelled out. They are never dropped, so that a reader sees that something odd was there. Does not own
//! markup: each writer escapes its own.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether `character` steers a terminal or an editor instead of showing itself.
#[must_use]
pub fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// `text` with every invisible character spelled out (`\n`, `\x1b`, `\u{202e}`). Safe to print to a terminal,
/// and always one line.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_invisible) {
        return Cow::Borrowed(text);
    }
    let mut visible = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '\n' => visible.push_str("\\n"),
            '\r' => visible.push_str("\\r"),
            '\t' => visible.push_str("\\t"),
            c if is_invisible(c) && u32::from(c) < 0x100 => {
                push(&mut visible, format_args!("\\x{:02x}", u32::from(c)));
            }
            c if is_invisible(c) => push(&mut visible, format_args!("\\u{{{:x}}}", u32::from(c))),
            c => visible.push(c),
        }
    }
    Cow::Owned(visible)
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("writing to a string does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_text_is_left_alone() {
        assert!(matches!(visible("src/train.py:10 größe"), Cow::Borrowed(_)));
    }

    #[test]
    fn what_steers_is_spelled_out() {
        let shown = visible("a\n\x1b[31m\r\u{202e}gpj.py\u{9b}2J\u{0}\u{7f}\t");
        assert_eq!(shown, "a\\n\\x1b[31m\\r\\u{202e}gpj.py\\x9b2J\\x00\\x7f\\t");
        assert!(!shown.chars().any(is_invisible));
    }
}
