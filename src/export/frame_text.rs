//! Frames as text: what of them is known, and what keeps a name in its place.
//!
//! Owns the words for what is unknown and the spelling of names between semicolons. Invisible characters are
//! spelled out as [`visible`] has it, never dropped.

use std::borrow::Cow;

use crate::model::{Frame, StringTable, visible};

/// What stands for an allocation without a stack.
pub(super) const NO_STACK: &str = "[no stack recorded]";

/// What stands for a function without a name.
pub(super) const NO_FUNCTION: &str = "[unknown]";

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

/// `name` on one line and without a semicolon, which would end it.
pub(super) fn folded(name: &str) -> Cow<'_, str> {
    match visible(name) {
        name if name.contains(';') => Cow::Owned(name.replace(';', "\\x3b")),
        name => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_not_made_up() {
        let mut strings = StringTable::default();
        let (f, file_of) = (strings.intern("f"), strings.intern("??"));
        let frame = Frame { function: f, file: file_of, line: u64::MAX };
        assert_eq!((function(frame, &strings), file(frame, &strings), line(frame)), ("f", None, None));
        let empty = Frame::default();
        assert_eq!(
            (function(empty, &strings), file(empty, &strings), line(empty)),
            (NO_FUNCTION, None, None)
        );
    }

    #[test]
    fn names_cannot_end_a_frame_or_a_line() {
        assert_eq!(folded("a;b\nc\u{1b}[31m x\u{202e}y\r"), "a\\x3bb\\nc\\x1b[31m x\\u{202e}y\\r");
        assert!(matches!(folded("train step.py"), Cow::Borrowed(_)));
    }
}
