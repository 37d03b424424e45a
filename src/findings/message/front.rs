//! What stands in front of a message on its line.
//!
//! Owns finding the start of the line, the class of the exception, and the words right before a phrase. Looks
//! back only so far.

/// How far back the front of a message is looked at, in bytes.
pub(super) const LOOK_BACK_BYTES: usize = 1 << 10;

/// Where the line begins that `at` is in; inside a quoted text `\n` ends a line, too.
pub(super) fn line_start(text: &[u8], at: usize) -> usize {
    let from = at.saturating_sub(LOOK_BACK_BYTES);
    let before = &text[from..at];
    let breaks = |index: &usize| match before[*index] {
        b'\n' | b'\r' => true,
        b'n' | b'r' | b't' => *index > 0 && before[*index - 1] == b'\\',
        _ => false,
    };
    (0..before.len()).rev().find(breaks).map_or(from, |found| from + found + 1)
}

/// `front` less the class of an exception at its end, and that class.
pub(super) fn without_class(front: &[u8]) -> (&[u8], Option<&str>) {
    let is_quote = |byte: &u8| matches!(byte, b'"' | b'\'' | b'(' | b' ' | b'*' | b'`' | b'\\');
    let end = front.iter().rposition(|byte| !is_quote(byte)).map_or(0, |last| last + 1);
    let has_colon = front[..end].ends_with(b":");
    let is_called = front[end..].contains(&b'(');
    let end = if has_colon { end - 1 } else { end };
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_');
    let start = front[..end].iter().rposition(|byte| !is_name(byte)).map_or(0, |last| last + 1);
    let name = std::str::from_utf8(&front[start..end]).unwrap_or_default();
    let is_class = name.ends_with("Error") || name.ends_with("Exception");
    if is_class && (has_colon || is_called) { (&front[..start], Some(name)) } else { (front, None) }
}

/// Whether the text in front shows a line of a program rather than what it said.
pub(super) fn is_source(text: &[u8], at: usize) -> bool {
    const STATEMENTS: [&[u8]; 9] =
        [b"raise ", b"if ", b"elif ", b"except ", b"assert ", b"return ", b"print(", b"logger.", b"logging."];
    let line = text[line_start(text, at)..at].trim_ascii_start();
    STATEMENTS.iter().any(|statement| line.starts_with(statement))
}

/// The words in front of `at`, with single blanks, at most a line and a half of them.
pub(super) fn words_before(text: &[u8], at: usize) -> String {
    let from = at.saturating_sub(80);
    let words: Vec<_> =
        text[from..at].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    String::from_utf8_lossy(&words.join(&b' ')).into_owned()
}

/// Start of the word that ends before `at`, blanks in between left out.
pub(super) fn last_word(text: &[u8], at: usize) -> usize {
    let from = at.saturating_sub(64);
    let end = text[from..at]
        .iter()
        .rposition(|byte| !byte.is_ascii_whitespace())
        .map_or(from, |last| from + last + 1);
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    text[from..end].iter().rposition(|byte| !is_word(byte)).map_or(from, |last| from + last + 1)
}

/// Where the nearest `words` in front of `at` begin; `at` when there are none.
pub(super) fn phrase(text: &[u8], at: usize, words: &[u8]) -> usize {
    let from = at.saturating_sub(256);
    text[from..at].windows(words.len()).rposition(|part| part == words).map_or(at, |found| from + found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken_apart(front: &str) -> (String, Option<&str>) {
        let start = line_start(front.as_bytes(), front.len());
        let (rest, class) = without_class(&front.as_bytes()[start..]);
        (String::from_utf8_lossy(rest).into_owned(), class)
    }

    #[test]
    fn the_class_is_told_from_the_prefix() {
        let new = Some("torch.OutOfMemoryError");
        assert_eq!(taken_apart("x\n[rank2]: torch.OutOfMemoryError: "), ("[rank2]: ".to_owned(), new));
        assert_eq!(taken_apart("Caught torch.OutOfMemoryError('"), ("Caught ".to_owned(), new));
        assert_eq!(
            taken_apart("{\"msg\":\"a\\n[rank2]: torch.OutOfMemoryError: "),
            ("[rank2]: ".to_owned(), new)
        );
        assert_eq!(taken_apart("> **OutOfMemoryError: "), ("> **".to_owned(), Some("OutOfMemoryError")));
        assert_eq!(
            taken_apart("ERROR 04-01 [engine.py:160] "),
            ("ERROR 04-01 [engine.py:160] ".to_owned(), None)
        );
        assert_eq!(taken_apart("ERROR: "), ("ERROR: ".to_owned(), None));
        assert_eq!(taken_apart(""), (String::new(), None));
    }

    #[test]
    fn source_lines_are_known_by_their_statement() {
        let is_source = |front: &str| is_source(front.as_bytes(), front.len());
        assert!(is_source("x\n    raise RuntimeError(\""));
        assert!(is_source("\\n    if \""));
        assert!(!is_source("RuntimeError: "));
    }

    #[test]
    fn words_and_phrases_are_found_backwards() {
        let text = b"x CUDA  error: out";
        assert_eq!(words_before(text, 15), "x CUDA error:");
        assert_eq!(last_word(text, 8), 2);
        assert_eq!(phrase(text, 15, b"CUDA"), 2);
        assert_eq!(phrase(text, 15, b"HIP"), 15);
    }
}
