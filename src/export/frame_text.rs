//! Frames as text, for formats that know nothing but names.
//!
//! Owns the form `function (file:line)` and what keeps it on one line and between two semicolons. Characters
//! that end a frame, break a line, cannot be seen or reorder others are spelled out (`\x3b`, `\n`, `\u{202e}`), never
//! dropped, as `report` does.

use std::fmt::Write as _;

use crate::model::{Frame, StringTable};

/// What stands for an allocation without a stack.
pub(super) const NO_STACK: &str = "[no stack recorded]";

/// What stands for a function without a name.
pub(super) const NO_FUNCTION: &str = "[unknown]";

/// Names longer than this are cut, in characters: a stack repeats the names of all its frames.
const NAME_MAX: usize = 1000;

/// The line of `frame`, where it is known.
pub(super) fn line(frame: Frame) -> Option<u64> {
    (frame.line != 0 && frame.line != u64::MAX).then_some(frame.line)
}

/// The function of `frame`, as recorded.
pub(super) fn function(frame: Frame, strings: &StringTable) -> &str {
    Some(strings.get(frame.function)).filter(|name| !name.is_empty()).unwrap_or(NO_FUNCTION)
}

/// The file of `frame` as recorded, where it is known.
pub(super) fn file(frame: Frame, strings: &StringTable) -> Option<&str> {
    Some(strings.get(frame.file)).filter(|name| !name.is_empty() && *name != "??")
}

/// `function (file:line)`, less what is unknown; one line, no semicolon.
pub(super) fn folded(frame: Frame, strings: &StringTable) -> String {
    let mut text = String::new();
    spell(function(frame, strings), &mut text);
    if let Some(file) = file(frame, strings) {
        text.push_str(" (");
        spell(file, &mut text);
        if let Some(line) = line(frame) {
            push(&mut text, format_args!(":{line}"));
        }
        text.push(')');
    }
    text
}

fn spell(name: &str, text: &mut String) {
    for (at, character) in name.chars().enumerate() {
        if at == NAME_MAX {
            text.push('…');
            return;
        }
        match character {
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            c if (c == ';' || is_invisible(c)) && u32::from(c) < 0x100 => {
                push(text, format_args!("\\x{:02x}", u32::from(c)));
            }
            c if is_invisible(c) => push(text, format_args!("\\u{{{:x}}}", u32::from(c))),
            c => text.push(c),
        }
    }
}

/// As `report::escape` has it.
fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
            | '\u{e0000}'..='\u{e0fff}')
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("writing to a string does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(function: &str, file: &str, line: u64) -> String {
        let mut strings = StringTable::default();
        let frame = Frame { function: strings.intern(function), file: strings.intern(file), line };
        folded(frame, &strings)
    }

    #[test]
    fn what_is_unknown_is_left_out() {
        assert_eq!(text("step", "train.py", 12), "step (train.py:12)");
        assert_eq!(text("step", "train.py", 0), "step (train.py)");
        assert_eq!(text("step", "train.py", u64::MAX), "step (train.py)");
        assert_eq!(text("at::empty(long)", "??", 0), "at::empty(long)");
        assert_eq!(text("", "", 3), "[unknown]");
    }

    #[test]
    fn names_cannot_end_a_frame_or_a_line() {
        assert_eq!(text("a;b\nc\u{1b}[31m", "x\u{202e}y\r", 1), "a\\x3bb\\nc\\x1b[31m (x\\u{202e}y\\r:1)");
        let long = text(&"é".repeat(5000), "", 0);
        assert_eq!(long.chars().count(), NAME_MAX + 1);
    }
}
