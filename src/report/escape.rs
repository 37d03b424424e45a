//! Escaping of text that comes from a trace: for terminals, XML and SVG, and Markdown.
//!
//! Owns every rule that keeps a hostile file name from becoming markup, a control sequence or a second
//! table row. Does not decide what is shown. Characters that cannot be seen, or that reorder others (C0, C1,
//! bidirectional and zero-width controls), are never dropped but spelled out (`\x1b`, `\u{202e}`), so that a
//! reader sees that something odd was there.

use std::borrow::Cow;
use std::fmt::Write as _;

pub(super) use crate::model::is_invisible;
pub use crate::model::visible as terminal;

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("writing to a string does not fail");
}

/// `text` for XML content and attributes in either kind of quotes.
#[must_use]
pub fn xml(text: &str) -> Cow<'_, str> {
    let visible = terminal(text);
    if !visible.contains(['<', '>', '&', '"', '\'']) {
        return visible;
    }
    let mut escaped = String::with_capacity(visible.len() + 16);
    for character in visible.chars() {
        match entity(character) {
            Some(entity) => escaped.push_str(entity),
            None => escaped.push(character),
        }
    }
    Cow::Owned(escaped)
}

fn entity(character: char) -> Option<&'static str> {
    Some(match character {
        '<' => "&lt;",
        '>' => "&gt;",
        '&' => "&amp;",
        '"' => "&quot;",
        '\'' => "&apos;",
        _ => return None,
    })
}

/// `text` as Markdown code, safe in a table cell: a code span where nothing in it can be taken for markup,
/// otherwise a `<code>` element with every such character as an entity. Empty text gives `-`.
#[must_use]
pub fn markdown_code(text: &str) -> String {
    if text.is_empty() {
        return "-".to_owned();
    }
    let visible = terminal(text);
    let padded = visible.starts_with(' ') || visible.ends_with(' ');
    if !padded && !without_python_names(&visible).contains(['`', '|', '<', '>', '&']) {
        return format!("`{visible}`");
    }
    let mut code = String::from("<code>");
    for character in visible.chars() {
        if character.is_ascii_punctuation() && !matches!(character, '.' | ',' | '/' | ':' | '-' | '(' | ')') {
            push(&mut code, format_args!("&#{};", u32::from(character)));
        } else {
            code.push(character);
        }
    }
    code.push_str("</code>");
    code
}

/// `text` less the names with angle brackets that Python itself gives to code. They stand in most stacks,
/// are no HTML elements, and read better as they are.
fn without_python_names(text: &str) -> String {
    const NAMES: [&str; 8] =
        ["<module>", "<lambda>", "<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<string>", "<stdin>"];
    NAMES.iter().fold(text.to_owned(), |rest, name| rest.replace(name, ""))
}

/// `text` as running Markdown text, safe in a table cell. Pairs of single backticks stay code; everything
/// else that Markdown or HTML would take for markup is escaped.
#[must_use]
pub fn markdown_text(text: &str) -> String {
    let visible = terminal(text);
    let parts: Vec<&str> = visible.split('`').collect();
    let paired = parts.len() % 2 == 1 && parts.iter().skip(1).step_by(2).all(|code| !code.is_empty());
    if !paired {
        return prose(&visible);
    }
    let mut escaped = String::with_capacity(visible.len() + 16);
    for (index, part) in parts.iter().enumerate() {
        if index % 2 == 0 {
            escaped.push_str(&prose(part));
        } else {
            escaped.push_str(&markdown_code(part));
        }
    }
    escaped
}

fn prose(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 16);
    let mut before = ' ';
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let inside_word =
            before.is_alphanumeric() && characters.peek().is_some_and(|next| next.is_alphanumeric());
        match character {
            '<' | '>' | '&' => escaped.push_str(entity(character).unwrap_or_default()),
            '_' if inside_word => escaped.push('_'),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' => escaped.extend(['\\', character]),
            _ => escaped.push(character),
        }
        before = character;
    }
    escaped
}

/// The last `width` characters of `text`, with `…` for what was left out in front: of a path the end says
/// most.
#[must_use]
pub fn keep_end(text: &str, width: usize) -> Cow<'_, str> {
    let length = text.chars().count();
    if length <= width {
        return Cow::Borrowed(text);
    }
    let kept = text.chars().skip(length - width.saturating_sub(1));
    Cow::Owned(std::iter::once('…').chain(kept).collect())
}

/// The first `width` characters of `text`, with `…` for what was left out at the end.
#[must_use]
pub fn keep_start(text: &str, width: usize) -> Cow<'_, str> {
    if text.chars().count() <= width {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().take(width.saturating_sub(1)).chain(std::iter::once('…')).collect())
}

/// `text` in at most `width` characters, `…` standing for what was left out. Of a path the last folders and the file
/// stay; a single name too long for that keeps both of its ends, the last one longer: it says most.
#[must_use]
pub fn short_name(text: &str, width: usize) -> Cow<'_, str> {
    if text.chars().count() <= width {
        return Cow::Borrowed(text);
    }
    let is_cut = |&(at, character): &(usize, char)| at > 0 && matches!(character, '/' | '\\');
    let mut tails = text.char_indices().filter(is_cut).map(|(at, _)| &text[at..]);
    let fitting = tails.find(|tail| tail.chars().count() < width);
    // A tail that says next to nothing is no name: then both ends of the whole are better.
    if let Some(tail) = fitting.filter(|tail| tail.chars().count() * 3 >= width) {
        return Cow::Owned(format!("…{tail}"));
    }
    let name = text.rsplit(['/', '\\']).next().unwrap_or(text);
    let name = if name.chars().count() > width { name } else { text };
    let count = name.chars().count();
    let kept = width.saturating_sub(1);
    // The position stays whole where it leaves room for the end of the function's name.
    let position = name.find(' ').map(|at| name[..=at].chars().count());
    let front = position.filter(|&position| position <= kept * 2 / 3).unwrap_or(kept / 3);
    let (start, end) = (name.chars().take(front), name.chars().skip(count - (kept - front)));
    Cow::Owned(if width == 0 {
        String::new()
    } else {
        start.chain(std::iter::once('…')).chain(end).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a|b\n<script>alert(1)</script>`x`\x1b[31m\r\u{202e}gpj.py\u{9b}2J & \"q\" 'p'";

    #[test]
    fn ordinary_text_is_left_alone() {
        assert!(matches!(terminal("src/train.py:10 größe"), Cow::Borrowed(_)));
        assert!(matches!(xml("src/train.py:10 größe"), Cow::Borrowed(_)));
        assert_eq!(markdown_code("src/train.py:10 __init__"), "`src/train.py:10 __init__`");
        assert_eq!(markdown_text("set PYTORCH_CUDA_ALLOC_CONF=x"), "set PYTORCH_CUDA_ALLOC_CONF=x");
    }

    #[test]
    fn a_terminal_never_sees_a_control_character() {
        let shown = terminal(HOSTILE);
        assert!(!shown.chars().any(is_invisible), "{shown:?}");
        assert!(shown.contains("\\n<script>") && shown.contains("\\x1b[31m\\r\\u{202e}gpj.py\\x9b2J"));
        assert_eq!(terminal("\u{0}\u{7f}\t"), "\\x00\\x7f\\t");
    }

    #[test]
    fn xml_has_neither_markup_nor_quotes_nor_forbidden_characters() {
        let shown = xml(HOSTILE);
        assert!(!shown.contains(['<', '>', '"', '\'']) && !shown.chars().any(is_invisible), "{shown}");
        assert!(shown.contains("&lt;script&gt;") && shown.contains(" &amp; &quot;q&quot; &apos;p&apos;"));
        assert_eq!(xml("\u{ffff}"), "\\u{ffff}");
    }

    #[test]
    fn markdown_code_cannot_break_out_of_its_cell() {
        let shown = markdown_code(HOSTILE);
        let inner = shown.strip_prefix("<code>").and_then(|s| s.strip_suffix("</code>")).unwrap();
        assert!(!inner.contains(['<', '>', '|', '`', '\n', '*', '_', '\\']), "{inner}");
        assert!(inner.contains("&#60;script&#62;") && inner.contains("a&#124;b"));
        assert!(markdown_code("a`b").starts_with("<code>"));
        assert!(markdown_code("a|b").starts_with("<code>"));
    }

    #[test]
    fn names_that_python_gives_stay_readable() {
        assert_eq!(markdown_code("train.py:3 <module>"), "`train.py:3 <module>`");
        assert_eq!(markdown_code("train.py:3 <lambda>"), "`train.py:3 <lambda>`");
        assert!(markdown_code("<sc<module>ript>").starts_with("<code>"));
        assert_eq!(markdown_code(""), "-");
    }

    #[test]
    fn markdown_text_keeps_code_and_escapes_the_rest() {
        assert_eq!(markdown_text("see `memlab lines` now"), "see `memlab lines` now");
        assert_eq!(markdown_text("a `b|c` d"), "a <code>b&#124;c</code> d");
        assert_eq!(markdown_text("one ` only"), "one \\` only");
        assert_eq!(markdown_text("![x](y) <b> a|b __init__"), "!\\[x\\](y) &lt;b&gt; a\\|b \\_\\_init\\_\\_");
        assert!(!markdown_text(HOSTILE).contains("<script>"));
        assert!(!markdown_text(HOSTILE).contains('\n'));
    }

    #[test]
    fn long_text_is_shortened_by_characters() {
        assert_eq!(keep_end("größe.py:10", 6), "…py:10");
        assert_eq!(keep_start("größe", 3), "gr…");
        assert_eq!(keep_end("abc", 3), "abc");
    }

    #[test]
    fn names_keep_their_file_and_both_ends() {
        assert_eq!(short_name("train.py:3 step", 20), "train.py:3 step");
        assert_eq!(
            short_name("/home/someone/project/model/block.py:41 forward", 24),
            "…/block.py:41 forward"
        );
        assert_eq!(short_name("C:\\work\\model\\block.py:41 forward", 24), "…\\block.py:41 forward");
        assert_eq!(short_name("a/block.py:41 scaled_dot_product_attention", 16), "block…_attention");
        assert_eq!(short_name("a/block.py:41 scaled_dot_product_attention", 24), "block.py:41 …t_attention");
        assert_eq!(short_name("0123456789abcdef", 7), "01…cdef");
        assert_eq!(short_name(&format!("{}/b", "long".repeat(20)), 10), "lon…long/b");
        assert_eq!(short_name("größer", 0), "");
        assert_eq!(short_name("größer", 1), "…");
        for width in 0..40 {
            assert!(short_name(HOSTILE, width).chars().count() <= width);
        }
    }
}
