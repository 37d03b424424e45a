//! Text that writes itself as finished HTML: names and sentences of a trace, and sizes.
//!
//! Owns how text of a trace gets into a page: cut, made visible, escaped, and kept apart from what stands
//! beside it. Everything else in a template is a word of ours, which askama escapes all the same.

use std::fmt;

use askama::filters::HtmlSafe;

use crate::report::driver::DriverLineRow;
use crate::report::escape::{keep_end, keep_start, terminal, xml};
use crate::report::types::{FindingLine, LineRow, PinRow};
use crate::units::{Bytes, Count};

/// Characters of a name that are shown; of a path the end says most.
const LONGEST_NAME: usize = 400;
/// Of a file and of a function where both stand in one name.
const LONGEST_PART: usize = 120;
/// Of a sentence.
const LONGEST_SENTENCE: usize = 800;

/// A name of the trace. Shown as `<bdi>`: letters that run from right to left do not reorder what follows.
#[derive(Clone, Debug, Default)]
pub(super) struct Name(String);

impl Name {
    pub(super) fn new(text: &str) -> Self {
        Self(visible_end(text, LONGEST_NAME))
    }

    /// A row of the line table, however it is grouped.
    pub(super) fn of_line(row: &LineRow) -> Self {
        if row.module.is_some() || row.stack.is_some() {
            return Self::new(&row.label());
        }
        Self::place(row.file.as_deref(), row.line, row.function.as_deref())
    }

    /// A line of a finding; number 0 is one that is not known.
    pub(super) fn of_finding_line(line: &FindingLine) -> Self {
        let number = Some(line.line).filter(|&number| number > 0);
        let function = Some(line.function.as_str()).filter(|function| !function.is_empty());
        Self::place(Some(&line.file), number, function)
    }

    /// The line of a pin, where it has one.
    pub(super) fn of_pin(pin: &PinRow) -> Option<Self> {
        let is_known = pin.file.is_some() || pin.function.is_some();
        is_known.then(|| Self::place(pin.file.as_deref(), pin.line, pin.function.as_deref()))
    }

    /// A line of driver calls: a source line, or a function of a file of machine code.
    pub(super) fn of_driver_line(row: &DriverLineRow) -> Self {
        let start = |text: &String| visible_start(text, LONGEST_PART);
        let end = |text: &String| visible_end(text, LONGEST_PART);
        let row = DriverLineRow {
            file: row.file.as_ref().map(end),
            line: row.line,
            function: row.function.as_ref().map(start),
            module: row.module.as_ref().map(end),
            ..DriverLineRow::default()
        };
        Self(row.label())
    }

    /// Both parts are cut on their own, so that a long one does not push the other out.
    fn place(file: Option<&str>, line: Option<u64>, function: Option<&str>) -> Self {
        let row = LineRow {
            file: file.map(|file| visible_end(file, LONGEST_PART)),
            line,
            function: function.map(|function| visible_start(function, LONGEST_PART)),
            ..LineRow::default()
        };
        Self(row.label())
    }
}

/// The end of `text` with every character visible; spelling them out makes it no longer than `most`.
pub(super) fn visible_end(text: &str, most: usize) -> String {
    keep_end(&terminal(&keep_end(text, most)), most).into_owned()
}

/// The beginning of `text`, likewise.
fn visible_start(text: &str, most: usize) -> String {
    keep_start(&terminal(&keep_start(text, most)), most).into_owned()
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<bdi>{}</bdi>", xml(&self.0))
    }
}

impl HtmlSafe for Name {}

/// A sentence that may hold names of the trace. Pairs of single backticks become code, as in Markdown.
#[derive(Clone, Debug, Default)]
pub(super) struct Prose(String);

impl Prose {
    pub(super) fn new(text: &str) -> Self {
        Self(visible_start(text, LONGEST_SENTENCE))
    }

    /// A sentence that ends in one full stop, however it came.
    pub(super) fn sentence(text: &str) -> Self {
        Self::new(&format!("{}.", text.trim_end_matches('.')))
    }
}

impl fmt::Display for Prose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<&str> = self.0.split('`').collect();
        let is_paired = parts.len() % 2 == 1 && parts.iter().skip(1).step_by(2).all(|code| !code.is_empty());
        if !is_paired {
            return f.write_str(&xml(&self.0));
        }
        for (index, part) in parts.iter().enumerate() {
            match index % 2 {
                0 => f.write_str(&xml(part))?,
                _ => write!(f, "<code><bdi>{}</bdi></code>", xml(part))?,
            }
        }
        Ok(())
    }
}

impl HtmlSafe for Prose {}

/// A size in running text: rounded for people, exact for programs and under the pointer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size(pub(super) u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(bytes) = *self;
        write!(
            f,
            "<span class=\"size\" data-bytes=\"{bytes}\" title=\"{} bytes\">{}</span>",
            Count(bytes),
            Bytes(bytes)
        )
    }
}

impl HtmlSafe for Size {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{escape, fixtures::HOSTILE};

    #[test]
    fn names_are_visible_text_that_keeps_to_itself() {
        let shown = Name::new(HOSTILE).to_string();
        assert!(shown.starts_with("<bdi>a|b\\n&lt;script&gt;") && shown.ends_with("</bdi>"), "{shown}");
        assert!(!shown.chars().any(escape::is_invisible));
        assert!(!Prose::new(HOSTILE).to_string().contains("<script"));
    }

    #[test]
    fn long_names_keep_the_end_of_the_path_and_the_begin_of_the_function() {
        let line = FindingLine {
            file: format!("{}/train.py", "a".repeat(9_000)),
            line: 7,
            function: format!("step{}", "b".repeat(9_000)),
            bytes: 0,
        };
        let shown = Name::of_finding_line(&line).to_string();
        assert!(shown.contains("/train.py:7 stepb") && shown.chars().count() < 280, "{shown}");
        for letter in ["x", "\u{202e}"] {
            assert!(Name::new(&letter.repeat(10_000)).to_string().chars().count() < 420);
        }
    }

    #[test]
    fn backticks_are_code_where_they_come_in_pairs() {
        assert_eq!(Prose::new("see `a<b` now").to_string(), "see <code><bdi>a&lt;b</bdi></code> now");
        assert_eq!(Prose::new("one ` only").to_string(), "one ` only");
        assert_eq!(Prose::sentence("It ended.").to_string(), "It ended.");
    }

    #[test]
    fn sizes_carry_their_exact_bytes() {
        let shown = Size(185_862_144).to_string();
        assert!(shown.contains("data-bytes=\"185862144\" title=\"185,862,144 bytes\">177.3 MiB<"), "{shown}");
    }
}
